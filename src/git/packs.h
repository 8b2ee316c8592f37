/*
 * Packs copied as they are, for a first copy from a repository on this machine: several
 * times faster than having git make and index them anew. Every byte is proved by the
 * pack's own trailer on the way; whether the objects are complete is for
 * objects_fetch to check, as always.
 */
#ifndef GIT_PACKS_H
#define GIT_PACKS_H

#include "base/base.h"
#include "git/git_child.h"
#include "git/oid.h"
#include "git/repo.h"

/* The bytes of all packs of the repository whose directory is open. */
uint64_t packs_size(int dir);

/* Of a first copy: it gains nothing by fewer. */
#define PACKS_WORTH_COPYING ((uint64_t)1 << 20)

/* Copies all packs with their indexes; durable when it returns 0. Packs that vanish
 * meanwhile (the source is being repacked) are left out. ERR_CORRUPT names the pack
 * whose trailer is wrong; ERR_CANCELED, ERR_LOST as in git_work. */
int packs_copy(const struct git_work *work, int source, const struct repo *to,
	       struct err *err);

/* Appends commits that are newer than most of the packs, to be told as what is here when
 * the rest is fetched. What they reach is here unless some of it was loose there. */
void packs_list_newest(const struct repo *repo, oid_list *commits);

/* ERR_CANCELED, ERR_LOST, ERR_TIMEOUT: the work is to end. */
int packs_check_limits(const struct git_work *work, struct err *err);

/*
 * What kind of object stands in a repository's own packs, looked up in this process, so
 * that a change of few refs needs no git child for it.
 *
 * Source: gitformat-pack(5); indexes of version 2.
 */

/* OBJECT_NONE: in no pack, or it cannot be told: ask git. `dir` is the repository's
 * directory. Alternates are not looked at. */
enum object_kind pack_kind_of(int dir, const struct oid *oid);

/* Removes what a fetch that failed has left of a pack: for who has the repository's
 * lease, so that nothing else is being fetched there. Best effort. */
void packs_remove_passing(int dir);

#endif
