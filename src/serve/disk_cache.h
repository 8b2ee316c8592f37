/*
 * Generations on disk, in site.data or where serve.cache says, so that a restart keeps
 * them and nodes that name the same directory share them: immutable files under hashed
 * names, <hh>/<62 digits>, in a size and an age that are bounded. Nothing depends on
 * them: what is broken, cut or gone is made anew, and a directory that is full or
 * read-only costs a warning. Any thread, any process.
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

/* Makes the directory if need be. Never fails: without a directory that can be written
 * nothing is kept, and the log says so. */
struct disk_cache *disk_cache_open(const char *directory,
				   const struct disk_cache_limits *limits);
void disk_cache_close(struct disk_cache *disk_cache);
void disk_cache_set_limits(struct disk_cache *disk_cache,
			   const struct disk_cache_limits *limits);

/* The hashed key of what a look saw: format, versions of git and of this program, boot
 * (on a local file system, where no other host can share it), repository, state key,
 * fingerprint; each with its length before it, so that no two run into each other. */
void disk_cache_name(const struct look *look, char name[GENERATION_NAME_SIZE]);

/* NULL: there is none. One that is broken is removed, and told. */
struct generation *disk_cache_read(struct disk_cache *disk_cache, const char *name);

/* To be called only of a look whose fingerprint was settled. */
void disk_cache_write(struct disk_cache *disk_cache, const struct generation *generation);

/* Removes what is too old or too much, and what writers that died left. */
void disk_cache_sweep(struct disk_cache *disk_cache, const struct stop *stop);

/* Removes everything that shelves made there, and nothing else; how many files. For
 * `cache clear`. err->class is ERR_NONE if nothing of it is left. */
size_t disk_cache_clear(const char *directory, struct err *err);

/*
 * The file of one generation on a disk cache: a header, then the parts one behind the
 *other.
 *
 *	 0  8  "rrshelf\n"
 *	 8  8  version of this form
 *	16 32  SHA-256 of all that follows
 *	48 32  the generation's name: a file under another name is none
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

/* Larger ones are neither written nor read: it must fit into memory. */
#define DISK_CACHE_FILE_MAX ((uint64_t)256 << 20)

/* Bytes that the parts will take. */
uint64_t disk_cache_file_size(const struct generation_parts *parts);

/* Writes them to an open, empty file. */
int disk_cache_file_write(int fd, const struct generation_parts *parts, struct err *err);

/* Reads an open file, which anybody may cut or change meanwhile. ERR_CORRUPT: it is not
 * the one of that name, whole. *parts, which must be empty, is to be cleared in any
 * case. */
int disk_cache_file_read(int fd, const char *name, struct generation_parts *parts,
			 struct err *err);

/*
 * The directory of a disk cache: folders <hh> with files <62 digits> and temporary files.
 * Opened anew for each use, so that one that is replaced, mounted or made again is
 * followed. Nothing below it is reached through a symbolic link. Any thread, any
 * process.
 */

#define DISK_CACHE_TEMPORARY_SIZE 24

/* Opens the directory, and makes it if need be, with mode 0700. ERR_CONFIG: others than
 * its owner and group can write there. */
int disk_cache_directory_open(const char *directory, struct err *err);

#endif
