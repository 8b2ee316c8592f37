/*
 * What the files that implement incoming.h share.
 */
#ifndef BLOB_INCOMING_PARTS_H
#define BLOB_INCOMING_PARTS_H

#include "base/hash.h"
#include "blob/incoming.h"

struct blob_incoming {
	int root;    /* borrowed */
	char *id;    /* owned */
	char *place; /* the directory below root that the file is in; owned */
	char name[48];
	int fd; /* locked, so that nobody else writes to it or takes it away */
	dev_t device;
	bool is_resumable;
	bool is_broken;    /* a write failed: what is on disk is not known */
	uint64_t expected; /* UINT64_MAX: not known */
	uint64_t stored;   /* bytes in the file, and in the digest */
	char *buffer;      /* what follows them; owned, NULL: not needed yet */
	size_t used;
	struct hash hash;
	bool has_digest;
	char digest[BLOB_DIGEST_SIZE];
};

/* Puts what is buffered into the file. */
int incoming_store(struct blob_incoming *incoming, struct err *err);

enum incoming_fate {
	INCOMING_IN_PLACE, /* the file is somebody's now */
	INCOMING_DROPPED,
};

/* Frees it, without touching the file if that is in place. */
void incoming_free(struct blob_incoming *incoming, enum incoming_fate fate);

#endif
