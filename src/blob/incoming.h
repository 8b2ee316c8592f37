/*
 * A blob on its way onto this disk: written to a temporary file, digested on the way,
 * made durable, and only then, by one rename, visible to others. Temporary files are in
 * "<root>/.refrelay/incoming", or, if the target is on another file system, in
 * ".refrelay-incoming" beside it. One thread at a time a struct blob_incoming.
 */
#ifndef BLOB_INCOMING_H
#define BLOB_INCOMING_H

#include "base/vec.h"
#include "blob/file.h"

struct blob_incoming;

struct blob_incoming_request {
	int root;         /* the kind's, open */
	const char *type; /* the kind's */
	const char *id;
	uint64_t size;      /* UINT64_MAX: unknown */
	const char *resume; /* names exactly these bytes ("TIMELINE-GENERATION"), so that
			       an earlier try can be continued; NULL: begin anew, and keep
			       nothing afterwards */
};

/* ERR_DISK: no room (reserved at once if the size is known), or no directory;
 * ERR_CONFLICT: something other than a file, such as a directory, is in the id's
 * place. */
int blob_incoming_open(const struct blob_incoming_request *request,
		       struct blob_incoming **incoming, struct err *err);

/* How many bytes have been written and digested already. */
uint64_t blob_incoming_size(const struct blob_incoming *incoming);

int blob_incoming_write(struct blob_incoming *incoming, const void *data, size_t len,
			struct err *err);

/* The digest, after everything was written. Not durable yet. */
int blob_incoming_digest(struct blob_incoming *incoming, char digest[BLOB_DIGEST_SIZE],
			 struct err *err);

/* Drops it, and its file, unless it can be resumed; or, with is_wrong, in any case. */
void blob_incoming_close(struct blob_incoming *incoming, bool is_wrong);

/* Many at once: data on disk, renamed into place, names on disk; with as few flushes as
 * the file system allows (ext4 and XFS: one for the data and one for the names of all;
 * others: each file and directory, or all of the file system). All of one kind. Owns and
 * closes all. `failed`: this one is not in place, for the reason in `why`; the others
 * are, durably. -1: perhaps none is. */
struct blob_arrival {
	struct blob_incoming *incoming;
	bool keeps_old; /* a file that is in its place goes to the trash */
	bool failed;
	struct err why;
	struct blob_fingerprint fingerprint; /* of the file in place */
};
typedef VEC(struct blob_arrival) blob_arrivals;
int blob_arrivals_commit(int root, blob_arrivals *arrivals, struct err *err);

/* How long the file of one that may be continued is kept. */
#define BLOB_INCOMING_KEEP_MS ((int64_t)7 * 24 * 3600 * 1000)

/* Removes files in "incoming" not written to for that long: leftovers of a crash, or of a
 * blob no longer wanted. Logs how much it was. */
void blob_incoming_expire(const struct blob_kind *kind, int64_t older_ms);

/* How many bytes of incoming blobs have been written, for people: file systems mounted
 * below root are not counted. */
uint64_t blob_incoming_bytes(int root);

/* A new place of upkeep/trash.h, by its clock, for what is to be called so there:
 * "<root>/.refrelay/trash/<when>-<random>/<id>" (the caller frees). */
char *blob_make_trash_path(int root, const char *id);

/* Moves a blob there, durably. ERR_MISSING: not found. */
int blob_discard(int root, const char *id, struct err *err);
/* The same, but leaves directories that become empty. */
int blob_discard_file(int root, const char *id, struct err *err);

#endif
