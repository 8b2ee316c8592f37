/*
 * A blob on its way onto this disk: written to a temporary file, digested on the way,
 * made durable, and only then, by one rename, a file that anybody sees. Temporary files
 * are in "<root>/.refrelay/incoming", or, if the target is on another file system, in
 * ".refrelay-incoming" beside it. One thread at a time a struct blob_incoming.
 */
#ifndef BLOB_INCOMING_H
#define BLOB_INCOMING_H

#include "base/vec.h"
#include "blob/file.h"

struct blob_incoming;

struct blob_incoming_request {
	int root;         /* of the kind, open */
	const char *type; /* of the kind */
	const char *id;
	uint64_t size;      /* if known; UINT64_MAX: not */
	const char *resume; /* names these very bytes ("TIMELINE-GENERATION"), so that
			       what an earlier try left can be continued; NULL: begin
			       anew, and leave nothing behind */
};

/* ERR_DISK: no room (it is asked for at once if the size is known), or no directory;
 * ERR_CONFLICT: a directory or something else that is no file has the id's place. */
int blob_incoming_open(const struct blob_incoming_request *request,
		       struct blob_incoming **incoming, struct err *err);

/* How many bytes are there already, and digested. */
uint64_t blob_incoming_size(const struct blob_incoming *incoming);

int blob_incoming_write(struct blob_incoming *incoming, const void *data, size_t len,
			struct err *err);

/* All was written: the digest. Nothing is durable yet. */
int blob_incoming_digest(struct blob_incoming *incoming, char digest[BLOB_DIGEST_SIZE],
			 struct err *err);

/* Drops it, and its file, unless it can be resumed; or, with is_wrong, in any case. */
void blob_incoming_close(struct blob_incoming *incoming, bool is_wrong);

/* Many at once: data on disk, renamed into place, names on disk; with as few flushes as
 * the file system allows (ext4 and XFS: one for the data and one for the names of all;
 * others: each file and directory, or all of the file system). Those of one kind. Owns
 * and closes all. `failed[i]`: this one is not in place, why[i] says so; the others are,
 * durably. -1: none may be. */
struct blob_arrival {
	struct blob_incoming *incoming;
	bool failed;
	struct err why;
	struct blob_fingerprint fingerprint; /* of the file in place */
};
typedef VEC(struct blob_arrival) blob_arrivals;
int blob_arrivals_commit(int root, blob_arrivals *arrivals, struct err *err);

/* For so long what is left of one that may be continued is kept. */
#define BLOB_INCOMING_KEEP_MS ((int64_t)7 * 24 * 3600 * 1000)

/* Removes what is in "incoming" and was not written to for so long: what a crash, or a
 * blob that is wanted no more, has left there. Logs how much it was. */
void blob_incoming_expire(const struct blob_kind *kind, int64_t older_ms);

/* How much has been written of what is on its way, for people: what is on file systems
 * that are mounted below root is not counted. */
uint64_t blob_incoming_bytes(int root);

/* Moves a blob to "<root>/.refrelay/trash/<when>-<random>/<id>", durably (upkeep/
 * trash.h's places). ERR_MISSING: it is not there. */
int blob_discard(int root, const char *id, struct err *err);

#endif
