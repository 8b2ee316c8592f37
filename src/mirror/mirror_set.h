/*
 * The mirrors that there are at the moment, by their names. Whoever has found one may
 * keep its pointer: a mirror does not change, and lives as long as the set, also when it
 * is in it no more. Any thread.
 */
#ifndef MIRROR_MIRROR_SET_H
#define MIRROR_MIRROR_SET_H

#include "base/vec.h"
#include "net/uri_text.h"

struct mirror_list;
struct mirror_set;

/* Git takes what is above it for all. */
#define MIRROR_DEPTH_MOST 2147483646

/* The upstream of one repository of this site. */
struct mirror {
	char *name;                /* of the repository; owned, as all of these */
	char *written;             /* the same as its section has it, or NULL */
	char *url;                 /* as git is given it */
	struct uri_text uri;       /* the same, taken apart */
	char *webhook_secret_file; /* NULL: webhooks are refused */
	char *then;                /* what is told of changes; NULL: nothing */
	char *then_secret_file;    /* and its authorities; both may be NULL */
	char *then_ca_file;
	char *ca_file; /* whose certificates its server may have; NULL: the system's */
	bool has_checkout; /* a working tree beside the clone (mirror/checkouts.h) */
	text_list refs;    /* patterns of those that are mirrored; empty: all */
	text_list exclude_refs;
	int64_t interval_ms;
	uint64_t depth;    /* commits that are kept from each ref on; 0: all */
	uint64_t max_size; /* bytes of what is fetched at once; 0: any */
	bool has_lfs;      /* its objects of Git LFS are brought, too */
	const struct mirror_list *list; /* that told of it; NULL: it has a section */
};

typedef VEC(struct mirror *) mirror_pointers;

/* Owns the mirrors that a list told of; those with sections are the caller's. */
struct mirror_set *mirror_set_new(void);
void mirror_set_free(struct mirror_set *set); /* NULL is allowed */

/* From now on these are there, which stand in byte order of their names. Takes what is
 * in *mirrors, which is empty then. */
void mirror_set_replace(struct mirror_set *set, mirror_pointers *mirrors);

/* NULL as a set is an empty one. */
const struct mirror *mirror_set_find(struct mirror_set *set, const char *name);
size_t mirror_set_count(struct mirror_set *set);

/* The one that this list told of with just that URL, or NULL; for who replaces it. */
struct mirror *mirror_set_find_same(struct mirror_set *set,
				    const struct mirror_list *list, const char *name,
				    const char *url);

/* The first whose name is above this one, in byte order; NULL as a name: the first of
 * all. NULL: there is no more. */
const struct mirror *mirror_set_after(struct mirror_set *set, const char *name);

void mirror_free(struct mirror *mirror);

#endif
