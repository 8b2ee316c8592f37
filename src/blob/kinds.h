/*
 * The kinds of blobs configured at a site: [blob "TYPE"] path, layout. A kind of blob is
 * a section of configuration, not code.
 */
#ifndef BLOB_KINDS_H
#define BLOB_KINDS_H

#include "base/base.h"
#include "base/setting.h"
#include "base/vec.h"

enum blob_layout {
	BLOB_PLAIN, /* any file; it may change */
	BLOB_LFS,   /* aa/bb/REST, or aa/bb/OID: the SHA-256 is in the id; immutable */
};

struct blob_kind {
	char *type; /* owned: as in rows, leases, metrics, logs and URLs */
	char *path; /* owned: absolute, a directory */
	enum blob_layout layout;
};

struct blob_kinds {
	VEC(struct blob_kind) items; /* in byte order of their types */
};

extern const struct setting_table blob_settings_table; /* of struct blob_kind */

#define AUTO_BLOB_KINDS __attribute__((cleanup(blob_kinds_clear)))

/* ERR_CONFIG names the key: a type is 1 to 32 of a-z, 0-9, "-" and "_", begins with a
 * letter or digit, and is not "repository", "mirror" or "site"; a path is absolute. */
int blob_kinds_read(const struct conf *conf, struct blob_kinds *kinds, struct err *err);
void blob_kinds_clear(struct blob_kinds *kinds);

/* Adds a copy of it, e.g. for a site without a configuration. */
void blob_kinds_add(struct blob_kinds *kinds, const struct blob_kind *kind);

/* Whether a [blob "TYPE"] may have that type. */
bool blob_type_is_valid(const char *type);

/* NULL: not found. */
const struct blob_kind *blob_kinds_find(const struct blob_kinds *kinds, const char *type);

/* At the root of a file system: its contents are not replicated. */
#define BLOB_LOST_AND_FOUND "lost+found"

/* Checks an untrusted id: a path below the kind's: UTF-8 without control characters,
 * parts that are not empty, "." or "..", none that begins with ".refrelay", the first not
 * "lost+found", at most 1024 bytes, 250 a part; with BLOB_LFS also the layout. ERR_CONFIG
 * names the fault. */
int blob_id_check(const struct blob_kind *kind, const char *id, struct err *err);

#define BLOB_DIGEST_SIZE 65 /* SHA-256 in hexadecimal digits, and a NUL */

/* The digest in the id of an immutable kind. False: the kind's ids have no digest. */
bool blob_id_digest(const struct blob_kind *kind, const char *id,
		    char digest[BLOB_DIGEST_SIZE]);

/* The id for a new object of a kind with BLOB_LFS: "aa/bb/REST". */
void blob_lfs_id(const char digest[BLOB_DIGEST_SIZE], char id[BLOB_DIGEST_SIZE + 2]);

#endif
