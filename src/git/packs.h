/*
 * Packs copied unchanged, for a first copy from a repository on this machine: several
 * times faster than having git make and index them anew. Every byte is proved by the
 * pack's own trailer on the way; objects_fetch then checks whether the objects are
 * complete, as always.
 */
#ifndef GIT_PACKS_H
#define GIT_PACKS_H

#include "base/base.h"
#include "git/git_child.h"
#include "git/oid.h"
#include "git/repo.h"

/* The bytes of all packs of the repository whose directory is open. */
uint64_t packs_size(int dir);

/* For a first copy: with fewer it gains nothing. */
#define PACKS_WORTH_COPYING ((uint64_t)1 << 20)

/* Copies all packs with their indexes; durable when it returns 0. Packs that vanish
 * meanwhile (the source is being repacked) are left out. ERR_CORRUPT names the pack
 * whose trailer is wrong; ERR_CANCELED, ERR_LOST as in git_work. */
int packs_copy(const struct git_work *work, int source, const struct repo *to,
	       struct err *err);

/* Appends commits that are newer than most of the packs, to be named as present when the
 * rest is fetched. All they reach is here unless some of it was loose at the source. */
void packs_list_newest(const struct repo *repo, oid_list *commits);

/*
 * The kind of an object in a repository's own packs, looked up in this process, so that a
 * change of few refs needs no git child for it.
 *
 * Source: gitformat-pack(5); indexes of version 2.
 */

/* OBJECT_NONE: not in a pack, or unknown: ask git. `dir` is the repository's directory.
 * Alternates are not searched. */
enum object_kind pack_kind_of(int dir, const struct oid *oid);

/* Removes a failed fetch's leftovers of a pack: for the holder of the repository's lease,
 * so that no other fetch is under way there. Best effort. */
void packs_remove_passing(int dir);

#endif
