/*
 * Maintenance of a repository's object store: folds many packs into few, rewrites git's
 * indexes over them and over the commits, and removes what crashes left behind. Does not
 * change refs, or drop objects, reachable or not. For repositories that refrelay owns,
 * under their lease (docs/design/0032-maintenance.md).
 */
#ifndef UPKEEP_MAINTENANCE_H
#define UPKEEP_MAINTENANCE_H

#include "base/base.h"
#include "base/vec.h"
#include "git/repo.h"
#include "job/job.h"

/* The state found in a repository. */
struct maintenance_found {
	size_t packs;        /* except those kept unchanged */
	size_t folds;        /* of these, those that a geometric repack folds into one */
	uint64_t fold_bytes; /* of those to fold */
	uint64_t objects;    /* in all packs */
	size_t loose;        /* about */
	bool has_index;      /* over several packs */
	size_t unindexed;    /* packs added since it was written */
	bool has_graph;      /* a commit-graph */
	bool is_graph_old;   /* refs have changed since; also without one */
	size_t stale;        /* left-overs (upkeep/stale.h) */
	bool is_shallow;
	int64_t since_ms; /* since the last maintenance; -1: never */
};

/* Due at these numbers; below them, once a day. */
#define MAINTENANCE_PACKS 8
#define MAINTENANCE_LOOSE 256
#define MAINTENANCE_DAY_MS ((int64_t)24 * 3600 * 1000)
/* With fewer objects only the numbers above count: git is fast without maintenance. */
#define MAINTENANCE_OBJECTS 1000

struct maintenance_plan {
	bool sweeps; /* left-overs */
	bool folds;  /* packs */
	bool indexes;
	bool has_bitmap; /* of the index */
	bool graphs;
	uint64_t room; /* bytes needed for the folding, until the folded packs are
			  removed */
};

/* Decides what is due. Pure. */
void maintenance_decide(const struct maintenance_found *found,
			struct maintenance_plan *plan);
bool maintenance_is_due(const struct maintenance_plan *plan);

/* Reads the state: some directories, some bytes of each index, without a process. `refs`
 * is any text that changes with the refs. Left-overs, the larger part of the work, only
 * if wanted; else `stale` is 0. */
int maintenance_look(const struct repo *repo, const char *refs, bool wants_stale,
		     struct maintenance_found *found, struct err *err);

struct maintenance_request {
	struct job *job;
	const struct repo *repo;
	const char *refs; /* as above */
	struct maintenance_plan plan;
	/* Called several times a second; true: stop, and leave the rest for later. */
	bool (*must_end)(void *arg);
	void *arg;
};

struct maintenance_result {
	size_t packs_before, packs_after, removed;
	bool has_folded, has_indexed, has_graphed;
	text_list renewed; /* existing packs that git has rewritten with the same content,
			      byte by byte according to their digests */
};
void maintenance_result_clear(struct maintenance_result *result);

/* Does it. On return, also after an error, all former objects are there, and durable: a
 * pack is removed only after each of its objects was found in the index of another one,
 * which was read and is on disk. ERR_CANCELED: must_end() returned true; ERR_DISK: too
 * little space; ERR_LOST: another lease holder is at work; ERR_CORRUPT: git omitted an
 * object, or its new files cannot be read again: then nothing was removed. */
int maintenance_run(const struct maintenance_request *request,
		    struct maintenance_result *result, struct err *err);

/* When it last succeeded, wall ms, how long it took and how many packs it left; false:
 * never. */
struct maintenance_last {
	int64_t at, took_ms;
	size_t packs;
};
bool maintenance_read_last(int dir, struct maintenance_last *last);

#endif
