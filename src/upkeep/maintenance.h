/*
 * Maintenance of a repository's object store: many packs become few, git's indexes over
 * them and over the commits are written anew, what crashes left behind goes. No ref is
 * changed, and no object is dropped, reachable or not. For repositories that refrelay
 * owns, under their lease (docs/design/0032-maintenance.md).
 */
#ifndef UPKEEP_MAINTENANCE_H
#define UPKEEP_MAINTENANCE_H

#include "base/base.h"
#include "base/vec.h"
#include "git/repo.h"
#include "job/job.h"

/* What was found in a repository. */
struct maintenance_found {
	size_t packs;        /* but for those that are kept as they are */
	size_t folds;        /* of these, that a geometric repack makes one of */
	uint64_t fold_bytes; /* of those */
	uint64_t objects;    /* in all packs */
	size_t loose;        /* about */
	bool has_index;      /* over several packs */
	size_t unindexed;    /* packs that came since it was written */
	bool has_graph;      /* of the commits */
	bool is_graph_old;   /* refs have changed since; also without one */
	size_t stale;        /* left-overs (upkeep/stale.h) */
	bool is_shallow;
	int64_t since_ms; /* since the last maintenance; -1: there was none */
};

/* Due by its number; with less than that, each day. */
#define MAINTENANCE_PACKS 8
#define MAINTENANCE_LOOSE 256
#define MAINTENANCE_DAY_MS ((int64_t)24 * 3600 * 1000)
/* Where there is less, only numbers count: git is fast there without. */
#define MAINTENANCE_OBJECTS 1000

struct maintenance_plan {
	bool sweeps; /* left-overs */
	bool folds;  /* packs */
	bool indexes;
	bool has_bitmap; /* of the index */
	bool graphs;
	uint64_t room; /* bytes that the folding takes, until what was folded goes */
};

/* What is due. Pure. */
void maintenance_decide(const struct maintenance_found *found,
			struct maintenance_plan *plan);
bool maintenance_is_due(const struct maintenance_plan *plan);

/* Reads what is there: some directories, some bytes of each index, no process. `refs` is
 * any text that changes with the refs. */
int maintenance_look(const struct repo *repo, const char *refs,
		     struct maintenance_found *found, struct err *err);

struct maintenance_request {
	struct job *job;
	const struct repo *repo;
	const char *refs; /* as above */
	struct maintenance_plan plan;
	/* Asked several times a second: the rest is for another time. */
	bool (*must_end)(void *arg);
	void *arg;
};

struct maintenance_result {
	size_t packs_before, packs_after, removed;
	bool has_folded, has_indexed, has_graphed;
	text_list renewed; /* packs that were there, and that git has written again with
			      the same content, byte by byte as they say themselves */
};
void maintenance_result_clear(struct maintenance_result *result);

/* Does it. When it returns, on an error as well, all objects that were there are there,
 * and durable: no pack goes before each of its objects was found in the index of another
 * one, which was read and is on disk. ERR_CANCELED: must_end() said so; ERR_DISK: too
 * little room; ERR_LOST: another works there by now; ERR_CORRUPT: git left an object
 * out, or what it wrote cannot be read again: then nothing was removed. */
int maintenance_run(const struct maintenance_request *request,
		    struct maintenance_result *result, struct err *err);

/* When it last ended well, wall ms, how long it took and how many packs it left; false:
 * never. */
struct maintenance_last {
	int64_t at, took_ms;
	size_t packs;
};
bool maintenance_read_last(int dir, struct maintenance_last *last);

#endif
