/*
 * One run of `replicate`: the pull engine makes trees equal to others, with a registry in
 * memory. SOURCE and DEST are trees of repositories; FROM and TO of --blobs trees of
 * files.
 */
#ifndef CLI_REPLICATE_RUN_H
#define CLI_REPLICATE_RUN_H

#include "base/base.h"
#include "base/thread.h"
#include "base/vec.h"
#include "cli/progress.h"
#include "cli/site.h"
#include "pull/copy_kind.h"
#include "pull/source.h"
#include "replicable/discover.h"
#include "store/store.h"

struct replicate_options {
	const char *secret_file; /* NULL: none */
	const char *ca_file;     /* NULL: the system's CAs */
	const char *site;        /* our name at the primary; NULL: the host's name */
	size_t jobs;
	bool deletes;
	bool is_forced;
	bool is_json;
	bool is_quiet; /* no progress line */
};

enum item_end {
	ITEM_NOT_REACHED, /* the run was interrupted earlier */
	ITEM_UNCHANGED,
	ITEM_CREATED,
	ITEM_UPDATED,
	ITEM_DELETED,
	ITEM_HELD,
	ITEM_FAILED,
	ITEM_ENDS,
};

/* One repository or file; for one thread at a time. */
struct item {
	struct tree *tree;
	char *name;       /* owned */
	const char *path; /* of a copy missing at the source, below the root; borrowed */
	enum item_end end;
	size_t refs_changed;
	uint64_t bytes;
	char *reason;       /* ITEM_HELD; owned */
	const char *remedy; /* likewise; static */
	struct err *err;    /* ITEM_FAILED; owned */
	/* A repository as the primary reported it, or as transferred since; owned, else
	 * NULL. */
	struct inventory_item *reported;
	/* Of a file, and whether a copy existed. */
	struct blob_fingerprint fingerprint;
	char timeline[TIMELINE_SIZE];
	bool was_there;
};

/* The differences between trees of repositories and of files. */
struct tree_kind {
	const char *type;                   /* of rows */
	const char *prefix, *source, *dest; /* in messages */
	const char *of_source, *of_dest;    /* likewise: their contents */
	/* Lists everything at the source, in byte order, by tree_add(). */
	int (*list)(struct tree *tree, struct err *err);
	/* 1: the copy is equal, as visible without a job; 0; -1. */
	int (*look)(struct item *item, struct err *err);
	/* Called once the copy is equal. From any worker. */
	void (*brought)(struct item *item, const struct pull_item *ended);
	/* Lists all existing copies, by tree_add_copy(). */
	int (*list_copies)(struct tree *tree, struct err *err);
	/* ERR_MISSING: not found. */
	int (*discard)(struct item *item, struct err *err);
};

struct tree {
	const struct tree_kind *kind;
	const struct replicate_options *options;
	const struct stop *stop;
	const char *source, *dest; /* as given; source may be a primary's URL */
	char *from, *to;           /* absolute, or that URL; owned */
	struct discovery there;    /* for a directory: repositories, and all findings */
	struct discovery here;     /* repositories */
	struct primary *primary;   /* for a URL */
	struct source *origin;
	struct site_data data;               /* repositories */
	struct blob_kind from_kind, to_kind; /* files */
	int from_fd, to_fd;                  /* likewise */
	VEC(struct item) items;              /* the source's, then copies missing there */
	size_t listed;                       /* the source's */
	uint64_t bytes;                      /* of its files */
	size_t copies;                       /* in DEST */
	size_t only_in_dest;                 /* copies missing at the source that stay */
	struct progress progress;
	int64_t took_ms;
	struct err failure; /* it could not be started or continued; ERR_NONE: it was */
};

extern const struct tree_kind replicate_repositories, replicate_files;

void replicate_begin(struct tree *tree, const struct replicate_options *options,
		     const struct stop *stop);
void replicate_end(struct tree *tree);

/* Finds and checks both, makes the latter. ERR_CONFIG. */
int replicate_open(struct tree *tree, struct err *err);

/* ERR_CONFIG: a tree's TO is inside a directory of another tree, or contains one. */
int replicate_check_apart(const struct tree *files, const struct tree *other,
			  struct err *err);

/* Runs it. -1: it could not be started or continued; items has the outcome of each. */
int replicate_run(struct tree *tree, struct err *err);

/* Whether SOURCE is a primary's URL. */
bool replicate_is_url(const char *source);

/* The source's item of that name, or NULL. */
struct item *replicate_find(struct tree *tree, const char *name);

#endif
