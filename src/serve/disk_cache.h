/*
 * Generations on disk, in site.data or in serve.cache, so that a restart keeps them and
 * nodes with the same directory share them: immutable files under hashed names, <hh>/<62
 * digits>, limited in total size and age. They are optional: broken, truncated or missing
 * ones are made again, and a full or read-only directory causes only a warning. Any
 * thread, any process.
 */
#ifndef SERVE_DISK_CACHE_H
#define SERVE_DISK_CACHE_H

#include <sys/stat.h>

#include "base/base.h"
#include "base/thread.h"
#include "serve/generation.h"
#include "serve/look.h"

struct disk_cache;

struct disk_cache_limits {
	uint64_t size;      /* of all files, in bytes */
	int64_t max_age_ms; /* since it was written or read last */
};

/* Makes the directory if necessary. Never fails: without a writable directory nothing is
 * kept, which is logged. */
struct disk_cache *disk_cache_open(const char *directory,
				   const struct disk_cache_limits *limits);
void disk_cache_close(struct disk_cache *disk_cache);
void disk_cache_set_limits(struct disk_cache *disk_cache,
			   const struct disk_cache_limits *limits);

/* The hashed key of the state that a look saw: format, versions of git and of this
 * program, boot (on a local file system, where no other host can share it), repository,
 * state key, fingerprint; each preceded by its length, so that the concatenation is
 * unambiguous. */
void disk_cache_name(const struct look *look, char name[GENERATION_NAME_SIZE]);

/* NULL: not found. A broken one is removed and logged. */
struct generation *disk_cache_read(struct disk_cache *disk_cache, const char *name);

/* Call it only for a look whose fingerprint was settled. */
void disk_cache_write(struct disk_cache *disk_cache, const struct generation *generation);

/* Removes files that are too old or exceed the limit, and those that dead writers
 * left. */
void disk_cache_sweep(struct disk_cache *disk_cache, const struct stop *stop);

/* Removes everything that disk caches made there, and nothing else; returns how many
 * files. For `cache clear`. err->class is ERR_NONE if all of it is gone. */
size_t disk_cache_clear(const char *directory, struct err *err);

/*
 * The file of one generation on a disk cache: a header, then the parts one after the
 * other.
 *
 *	 0  8  "rrshelf\n"
 *	 8  8  version of this form
 *	16 32  SHA-256 of all that follows
 *	48 32  the generation's name; it must match the file's
 *	80 32  lengths of capabilities, symbolic, refs, packed_refs
 *	112    these four
 *
 * Numbers have 8 bytes, the least significant first. Any thread.
 */

enum {
	DISK_CACHE_FILE_VERSION = 1,
	DISK_CACHE_FILE_DIGEST_AT = 16,
	DISK_CACHE_FILE_DIGESTED_AT = 48,
	DISK_CACHE_FILE_LENGTHS_AT = 80,
	DISK_CACHE_FILE_HEADER = 112,
};

/* Larger ones are neither written nor read: they must fit into memory. */
#define DISK_CACHE_FILE_MAX ((uint64_t)256 << 20)

/* Bytes that the parts will take. */
uint64_t disk_cache_file_size(const struct generation_parts *parts);

/* Writes them to an open, empty file. */
int disk_cache_file_write(int fd, const struct generation_parts *parts, struct err *err);

/* Reads an open file, which others may truncate or change meanwhile. ERR_CORRUPT: it is
 * not the complete file of that name. *parts must be empty; clear it in any case. */
int disk_cache_file_read(int fd, const char *name, struct generation_parts *parts,
			 struct err *err);

/*
 * The directory of a disk cache: folders <hh> with files <62 digits> and temporary files.
 * Opened anew for each use, so that a replaced, mounted or recreated one is used at once.
 * Symbolic links below it are not followed. Any thread, any process.
 */

#define DISK_CACHE_TEMPORARY_SIZE 24

/* Opens the directory, and makes it if necessary, with mode 0700. ERR_CONFIG: users other
 * than its owner and group can write there. */
int disk_cache_directory_open(const char *directory, struct err *err);

#endif
