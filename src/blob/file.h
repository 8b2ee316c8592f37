/*
 * One blob's file on disk: opened only beneath its kind's directory, examined, and read
 * into a digest. Any thread.
 */
#ifndef BLOB_FILE_H
#define BLOB_FILE_H

#include <sys/stat.h>

#include "base/base.h"
#include "base/thread.h"
#include "blob/kinds.h"

/* Shows whether a file changed, without reading it. */
struct blob_fingerprint {
	uint64_t size;
	int64_t mtime_ns, ctime_ns;
	uint64_t inode;
};

#define BLOB_FINGERPRINT_SIZE 96

void blob_fingerprint_of(const struct stat *stat, struct blob_fingerprint *fingerprint);
void blob_fingerprint_format(const struct blob_fingerprint *fingerprint,
			     char text[BLOB_FINGERPRINT_SIZE]);
bool blob_fingerprint_parse(const char *text, struct blob_fingerprint *fingerprint);

/* The same file with the same content, as far as size, mtime and inode show. */
bool blob_fingerprint_same(const struct blob_fingerprint *a,
			   const struct blob_fingerprint *b);

/* Whether it was taken long enough after the last change that a later change would show:
 * `now_ns` is wall time. */
bool blob_fingerprint_is_settled(const struct blob_fingerprint *fingerprint,
				 int64_t now_ns);

/* The text of a digest from its 32 bytes. */
void blob_digest_format(const unsigned char *bytes, char digest[BLOB_DIGEST_SIZE]);

/* The kind's directory, for the calls below. ERR_DISK: it is missing. */
int blob_root_open(const struct blob_kind *kind, struct err *err);

/* Opens it for reading: by openat2 beneath the root, without symbolic links anywhere in
 * the path, never waiting for a pipe. ERR_MISSING: nothing there; ERR_CORRUPT: not a
 * regular file, or a link is in the way; ERR_CONFIG: no permission to read it. */
int blob_open(int root, const char *id, int *fd, struct stat *stat, struct err *err);

/* Reads the whole file and computes its SHA-256. Fills *fingerprint, which belongs to
 * exactly these bytes if it is settled by the time the call began. ERR_CONFLICT: it
 * changed while being read. Adds nothing to the page cache. `stop` may be NULL. */
int blob_digest(int fd, struct blob_fingerprint *fingerprint,
		char digest[BLOB_DIGEST_SIZE], const struct stop *stop, struct err *err);

/* How long a file is read at most. */
struct blob_patience {
	const struct stop *stop; /* may be NULL */
	int64_t until;           /* by clock_boot_ms() */
};

/* The same. ERR_TIMEOUT: it was not read by then. */
int blob_digest_until(int fd, struct blob_fingerprint *fingerprint,
		      char digest[BLOB_DIGEST_SIZE], const struct blob_patience *patience,
		      struct err *err);

#endif
