/*
 * `replicate --blobs FROM=TO`: the files below FROM, copied to the same places below TO,
 * with what a secondary has for it: walked, digested on the way, made durable in groups,
 * renamed into place, read again from disk. One thread.
 */
#ifndef CLI_REPLICATE_BLOBS_H
#define CLI_REPLICATE_BLOBS_H

#include "base/base.h"
#include "base/thread.h"
#include "cli/progress.h"

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
