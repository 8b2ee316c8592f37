/*
 * Generations on disk, in site.data or where serve.cache says, so that a restart keeps
 * them and nodes that name the same directory share them: immutable files under hashed
 * names, <hh>/<62 digits>, in a size and an age that are bounded. Nothing depends on
 * them: what is broken, cut or gone is made anew, and a directory that is full or
 * read-only costs a warning. Any thread, any process.
 */
#ifndef SERVE_SHELF_H
#define SERVE_SHELF_H

#include "base/base.h"
#include "base/thread.h"
#include "serve/generation.h"
#include "serve/look.h"

struct shelf;

struct shelf_limits {
	uint64_t size;      /* of all files, in bytes */
	int64_t max_age_ms; /* since it was written or read last */
};

/* Makes the directory if need be. Never fails: without a directory that can be written
 * nothing is kept, and the log says so. */
struct shelf *shelf_open(const char *directory, const struct shelf_limits *limits);
void shelf_close(struct shelf *shelf);
void shelf_set_limits(struct shelf *shelf, const struct shelf_limits *limits);

/* The hashed key of what a look saw: format, versions of git and of this program, boot
 * (on a local file system, where no other host can share it), repository, state key,
 * fingerprint; each with its length before it, so that no two run into each other. */
void shelf_name(const struct look *look, char name[GENERATION_NAME_SIZE]);

/* NULL: there is none. One that is broken is removed, and told. */
struct generation *shelf_read(struct shelf *shelf, const char *name);

/* To be called only of a look whose fingerprint was settled. */
void shelf_write(struct shelf *shelf, const struct generation *generation);

/* Removes what is too old or too much, and what writers that died left. */
void shelf_sweep(struct shelf *shelf, const struct stop *stop);

/* Removes everything that shelves made there, and nothing else; how many files. For
 * `cache clear`. err->class is ERR_NONE if nothing of it is left. */
size_t shelf_clear(const char *directory, struct err *err);

#endif
