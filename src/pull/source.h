/*
 * Where copies are pulled from. One interface for all kinds of sources; today a
 * directory of repositories on this machine. Functions are safe from several threads.
 */
#ifndef PULL_SOURCE_H
#define PULL_SOURCE_H

#include "base/base.h"
#include "git/fingerprint.h"
#include "git/refs.h"
#include "replicable/discover.h"

/* One repository of the source at one moment. */
struct source_view {
	struct ref_snapshot refs;
	size_t oid_len;
	struct fingerprint print; /* of the moment when the refs were read */
	char *url;                /* what git fetches from; owned */
	bool is_local;            /* url is a path on this machine */
	bool has_packs;           /* ... and its packs are all there is, no alternates */
	char *description;        /* the file of that name; owned, NULL: none */
};

#define AUTO_VIEW __attribute__((cleanup(source_view_clear)))

struct source {
	const char *root;                  /* absolute path; borrowed */
	const struct discovery *discovery; /* of the root; borrowed */
};

/* A source of the bare repositories below `root`, as discovered before. */
void source_open_directory(const char *root, const struct discovery *discovery,
			   struct source *source);

/* What git fetches that repository from. NULL, with ERR_MISSING: there is none. The
 * caller frees. */
char *source_url(const struct source *source, const char *name, struct err *err);

/* The fingerprint alone: cheap, to see whether anything changed. ERR_MISSING: the
 * source has no such repository. */
int source_look(const struct source *source, const char *name, struct fingerprint *print,
		struct err *err);

/* Refs, HEAD and description at one moment: a picture in which some refs are older than
 * others is never returned. ERR_CONFLICT: it changed faster than it could be read;
 * ERR_CONFIG: a repository that cannot be copied whole (shallow, partial), by name. */
int source_read(const struct source *source, const char *name, struct source_view *view,
		struct err *err);
void source_view_clear(struct source_view *view);

#endif
