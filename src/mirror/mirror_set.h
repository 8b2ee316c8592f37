/*
 * The present mirrors, by name. The pointer to a mirror stays valid: a mirror is
 * constant, and lives as long as the set, even after it was removed from it. Any thread.
 */
#ifndef MIRROR_MIRROR_SET_H
#define MIRROR_MIRROR_SET_H

#include "base/vec.h"
#include "net/uri_text.h"

struct mirror_list;
struct mirror_set;

/* Git treats larger depths as unlimited. */
#define MIRROR_DEPTH_MOST 2147483646

/* The upstream of one repository of this site. */
struct mirror {
	char *name;                /* of the repository; owned, as all of these */
	char *written;             /* the same as written in its section, or NULL */
	char *url;                 /* as passed to git */
	struct uri_text uri;       /* the same, parsed */
	char *webhook_secret_file; /* NULL: webhooks are refused */
	char *then;                /* receiver of its changes; NULL: not set */
	char *then_secret_file;    /* ... and authorities; both may be NULL */
	char *then_ca_file;
	char *ca_file;     /* authorities for its server; NULL: the system's */
	bool has_checkout; /* a working tree beside the clone (mirror/checkouts.h) */
	text_list refs;    /* patterns of the refs to mirror; empty: all */
	text_list exclude_refs;
	int64_t interval_ms;
	uint64_t depth;                 /* commits kept from each ref; 0: all */
	uint64_t max_size;              /* largest fetch, in bytes; 0: unlimited */
	bool has_lfs;                   /* its objects of Git LFS are brought, too */
	const struct mirror_list *list; /* its list; NULL: it has a section */
};

typedef VEC(struct mirror *) mirror_pointers;

/* Owns the mirrors from lists; those with sections are the caller's. */
struct mirror_set *mirror_set_new(void);
void mirror_set_free(struct mirror_set *set); /* NULL is allowed */

/* Replaces the set by these, in byte order of their names. Takes the content of *mirrors,
 * which is empty afterwards. */
void mirror_set_replace(struct mirror_set *set, mirror_pointers *mirrors);

/* A NULL set counts as empty. */
const struct mirror *mirror_set_find(struct mirror_set *set, const char *name);
size_t mirror_set_count(struct mirror_set *set);

/* This list's mirror with exactly that URL, or, if it is NULL, with any; or NULL. For
 * replacing the set. */
struct mirror *mirror_set_find_same(struct mirror_set *set,
				    const struct mirror_list *list, const char *name,
				    const char *url);

/* Whether so many mirrors were replaced that it should get no more new ones: with so many
 * that are to be in it now, or are. */
bool mirror_set_is_full(struct mirror_set *set, size_t told);

/* The first whose name is above this one, in byte order; name NULL: the first of all.
 * Returns NULL at the end. */
const struct mirror *mirror_set_after(struct mirror_set *set, const char *name);

void mirror_free(struct mirror *mirror);

#endif
