/*
 * Where copies are pulled from: a directory of repositories on this machine, or a
 * primary. Functions are safe from several threads.
 */
#ifndef PULL_SOURCE_H
#define PULL_SOURCE_H

#include "base/base.h"
#include "git/fingerprint.h"
#include "git/git_child.h"
#include "git/refs.h"
#include "pull/primary.h"
#include "replicable/discover.h"

/* One repository of the source at one moment. */
struct source_view {
	struct ref_snapshot refs;
	size_t oid_len;
	struct fingerprint
		fingerprint; /* of the moment when the refs were read; local only */
	char *url;           /* what git fetches from; owned */
	char *header;        /* that goes with it; owned, may be NULL; secret */
	bool is_local;       /* url is a path on this machine */
	bool has_packs;      /* ... and its packs are all there is, no alternates */
	char *description;   /* the file of that name; owned, NULL: none */
	char *settings;      /* for readers; owned; NULL: not told, leave them */
	char timeline[TIMELINE_SIZE]; /* of a primary's repository, else "" */
	uint64_t generation;          /* likewise, else 0 */
	int64_t changed_at;           /* likewise */
	/* Of a primary: refs that pushes have deleted (change/pushed.h). */
	uint64_t pushed_settled, pushed_announced;
};

#define AUTO_VIEW __attribute__((cleanup(source_view_clear)))

/* What git is given of a view. Borrowed from it. */
struct git_remote source_remote(const struct source_view *view);

struct source; /* pull/source.c; two kinds */

/* A source of the bare repositories below `root`, as discovered before; both borrowed. */
struct source *source_new_directory(const char *root, const struct discovery *discovery);

/* A source of a primary's repositories; borrowed. valid_ms: how long a git child may
 * take. */
struct source *source_new_primary(struct primary *primary, int64_t valid_ms,
				  const struct stop *stop);
void source_free(struct source *source);

/* A name for that repository in records: its path or URL. NULL, with ERR_MISSING: there
 * is none (directories only). The caller frees. */
char *source_url(const struct source *source, const char *name, struct err *err);

/* The fingerprint alone: cheap, to see whether anything changed. ERR_MISSING: the
 * source has no such repository; ERR_CONFLICT: a source without fingerprints. */
int source_look(const struct source *source, const char *name,
		struct fingerprint *fingerprint, struct err *err);

/* Refs, HEAD and description at one moment: a picture in which some refs are older than
 * others is never returned. ERR_CONFLICT: it changed faster than it could be read;
 * ERR_CONFIG: a repository that cannot be copied whole (shallow, partial), by name. */
int source_read(const struct source *source, const char *name, struct source_view *view,
		struct err *err);
void source_view_clear(struct source_view *view);

#endif
