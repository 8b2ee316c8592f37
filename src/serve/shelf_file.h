/*
 * The file of one generation on a shelf: a header, then the parts one behind the other.
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
#ifndef SERVE_SHELF_FILE_H
#define SERVE_SHELF_FILE_H

#include "base/base.h"
#include "serve/generation.h"

enum {
	SHELF_FILE_VERSION = 1,
	SHELF_FILE_DIGEST_AT = 16,
	SHELF_FILE_DIGESTED_AT = 48,
	SHELF_FILE_LENGTHS_AT = 80,
	SHELF_FILE_HEADER = 112,
};

/* Larger ones are neither written nor read: it must fit into memory. */
#define SHELF_FILE_MAX ((uint64_t)256 << 20)

/* Bytes that the parts will take. */
uint64_t shelf_file_size(const struct generation_parts *parts);

/* Writes them to an open, empty file. */
int shelf_file_write(int fd, const struct generation_parts *parts, struct err *err);

/* Reads an open file, which anybody may cut or change meanwhile. ERR_CORRUPT: it is not
 * the one of that name, whole. *parts, which must be empty, is to be cleared in any
 * case. */
int shelf_file_read(int fd, const char *name, struct generation_parts *parts,
		    struct err *err);

#endif
