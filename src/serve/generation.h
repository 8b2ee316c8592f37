/*
 * The answers of one generation of a repository's refs: the advertisements of protocols
 * 0, 1 and 2, and ls-refs. Immutable, except that gzip is added, and it settles; counted
 * references; any thread.
 */
#ifndef SERVE_GENERATION_H
#define SERVE_GENERATION_H

#include "base/base.h"
#include "base/str.h"
#include "serve/ref_list.h"

#define GENERATION_NAME_SIZE 65

/* Its parts, as stored on disk. */
struct generation_parts {
	char name[GENERATION_NAME_SIZE]; /* hashed key; 64 hexadecimal digits */
	struct str refs;         /* upload-pack's protocol 0, without the service line */
	struct str capabilities; /* upload-pack's protocol 2: all of it */
	struct str symbolic;     /* "<name> <target>\n" for each symbolic ref, in order */
	struct str packed_refs;  /* gzip of the whole answer of protocol 0, or empty */
};

#define GENERATION_PARTS_INIT                                                            \
	{                                                                                \
		.refs = STR_INIT, .capabilities = STR_INIT, .symbolic = STR_INIT,        \
		.packed_refs = STR_INIT                                                  \
	}
void generation_parts_clear(struct generation_parts *parts);

struct generation;

/* Takes the parts' contents, whether it succeeds or not. ERR_CORRUPT: they are invalid.
 * The caller has one reference. */
int generation_new(struct generation_parts *parts, struct generation **generation,
		   struct err *err);
struct generation *generation_ref(struct generation *generation);
void generation_unref(struct generation *generation); /* NULL is allowed */

const char *generation_name(const struct generation *generation);

/* Whether the name stands for these refs alone: its fingerprint was settled while they
 * were true. Before that, refs that are written within the same tick of the file system's
 * clock may have the same name. */
void generation_settle(struct generation *generation);
bool generation_is_settled(const struct generation *generation);

/* Bytes of memory. It grows when gzip is added, and when protocol 1 is first
 * requested. */
size_t generation_size(const struct generation *generation);

/* Bytes that live as long as the generation does. */
struct generation_body {
	const char *data;
	size_t len;
	bool is_gzip;
};

/* The answer to GET info/refs?service=git-upload-pack under protocol 0, 1 or 2, with the
 * service line where git http-backend writes one. gzip only if it was added already and
 * is worth it. */
struct generation_body generation_info_refs(struct generation *generation, int protocol,
					    bool accepts_gzip);

/* Whether it offers "unborn"; if not, git itself must answer requests for it. */
bool generation_shows_unborn(const struct generation *generation);

const struct ref_list *generation_refs(const struct generation *generation);
size_t generation_oid_digits(const struct generation *generation);

/* Adds gzip, if it is long enough for that to pay; for one thread, once. */
void generation_compress(struct generation *generation);

/* For the disk; borrowed, valid as long as the generation. */
void generation_write(const struct generation *generation,
		      struct generation_parts *borrowed);

#endif
