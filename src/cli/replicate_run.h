/*
 * One run of `replicate`: the pull engine, its scheduler a pool over all names, its
 * registry in memory.
 */
#ifndef CLI_REPLICATE_RUN_H
#define CLI_REPLICATE_RUN_H

#include "base/base.h"
#include "base/thread.h"
#include "base/vec.h"
#include "cli/progress.h"
#include "cli/site.h"
#include "pull/source.h"
#include "pull/sync_repository.h"
#include "replicable/discover.h"
#include "store/store.h"

struct replicate_options {
	const char *source; /* as given: a directory, or the URL of a primary */
	const char *dest;
	const char *secret_file; /* NULL: none */
	const char *site; /* by which the primary knows us; NULL: the host's name */
	size_t jobs;
	bool deletes;
	bool is_forced;
	bool is_json;
	enum progress_wish progress;
};

enum item_end {
	ITEM_NOT_REACHED, /* the run was interrupted before it */
	ITEM_UNCHANGED,
	ITEM_CREATED,
	ITEM_UPDATED,
	ITEM_DELETED,
	ITEM_HELD,
	ITEM_FAILED,
	ITEM_ENDS,
};

/* One repository of this run; written by its worker only. */
struct item {
	struct replicate_run *run;
	const char *name; /* borrowed from a discovery */
	const char *path; /* of the copy below dest; set for deletions */
	/* What a primary told of it, or what was brought from it since. */
	char checksum[CHECKSUM_TEXT_SIZE]; /* "": none */
	char timeline[TIMELINE_SIZE];
	uint64_t generation;
	enum item_end end;
	size_t refs_changed;
	uint64_t bytes;
	struct err err; /* ITEM_FAILED */
	char *reason;   /* ITEM_HELD; owned */
};

struct replicate_run {
	struct replicate_options options;
	char *source_root, *dest_root; /* absolute; owned */
	struct discovery there, here;  /* there: also of a primary, by its inventory */
	struct primary *primary;       /* NULL: the source is a directory */
	struct source *source;
	struct site_data data;
	struct store *registry; /* in memory */
	struct stop stop;
	struct progress progress;
	VEC(struct item) items;
	VEC(struct replicate_blobs) blobs;
	size_t only_in_dest; /* copies that the source lacks and that stay */
	int64_t took_ms;
};

/* Does it all. -1: it could not be started, or not be carried on; what happened to each
 * repository is in items. */
int replicate_run(struct replicate_run *run, struct err *err);
void replicate_run_clear(struct replicate_run *run);

/* Finds and checks SOURCE and DEST, makes the latter. For cli/replicate_run.c. */
int replicate_open_roots(struct replicate_run *run, struct err *err);

/* Whether SOURCE is a primary's URL. */
bool replicate_is_url(const char *source);

/* Opens the primary, and lists its inventory: `there`, and an item for each repository.
 * For cli/replicate_run.c. */
int replicate_open_primary(struct replicate_run *run, struct err *err);

/* The second half, after the copies are equal: copies that the source lacks. For
 * cli/replicate_run.c. */
void replicate_delete(struct replicate_run *run);

/* Prints what happened; returns the exit status. */
int replicate_report(struct replicate_run *run);

/*
 * `replicate --blobs FROM=TO`: the files below FROM, copied to the same places below TO,
 * with what a secondary has for it: walked, digested on the way, made durable in groups,
 * renamed into place, read again from disk. One thread.
 */

struct replicate_blobs {
	const char *pair; /* FROM=TO, as given; borrowed */
	char *from, *to;  /* owned */
	bool deletes, is_forced;
	enum progress_wish progress;
	const struct stop *stop;
	/* Filled: */
	size_t all, created, updated, unchanged, deleted;
	size_t held;       /* not deleted */
	size_t failed;     /* told on stderr, as what is held */
	size_t only_in_to; /* and stay */
	uint64_t bytes;
	int64_t took_ms;
};

/* Finds and checks FROM and TO. ERR_CONFIG. */
int replicate_blobs_open(struct replicate_blobs *blobs, struct err *err);

/* All that are open: that no TO is in anything else of the run, nor the other way round.
 * `directory` (or NULL) is one more that they must keep away from. ERR_CONFIG. */
int replicate_blobs_check(const struct replicate_blobs *all, size_t count,
			  const char *directory, struct err *err);

/* -1: it could not be carried on; ERR_CANCELED: stop. */
int replicate_blobs_run(struct replicate_blobs *blobs, struct err *err);
void replicate_blobs_clear(struct replicate_blobs *blobs);

#endif
