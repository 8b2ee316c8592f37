/*
 * The repositories that a forge's API, a directory or a manifest of grokmirror's has:
 * what [mirrors] makes mirrors of. A list is whole or it is an error: what is missing
 * from it was looked for, so that nothing looks deleted because a page failed, was cut,
 * or came twice.
 *
 * GitHub tells no total. If something is deleted there while the pages are read, another
 * repository may be passed over; so only what two lists in a row lack is gone.
 *
 * One thread at a time a list.
 */
#ifndef MIRROR_UPSTREAM_LIST_H
#define MIRROR_UPSTREAM_LIST_H

#include "base/thread.h"
#include "mirror/upstream_entry.h"

struct upstream_source {
	enum upstream_from from; /* any but UPSTREAM_GROKMIRROR */
	/* The API's URL of an organisation, group or user, as
	 * https://api.github.com/orgs/ acme; or whole, up to /repos or /projects; or an
	 * absolute path. */
	char *url;
	/* Patterns of names; one without a slash is held against the last part. Empty:
	 * all are included, none is excluded. */
	text_list include, exclude;
	bool has_forks, has_archived; /* whether these are mirrored, too */
	uint64_t max_size;            /* bytes; 0: any. What tells no size is taken. */
};

struct upstream_chosen {
	char *name;      /* of the mirror; owned */
	const char *url; /* that git is given; borrowed from the list */
	const struct upstream_entry *entry;
};

#define UPSTREAM_FINDINGS_MAX 1000 /* of more only the number is told */

/* What could be a mirror and is none: a person should hear of it. */
struct upstream_finding {
	char *name;     /* as the forge has it; owned */
	struct err err; /* without the name */
};

struct upstream_findings {
	VEC(struct upstream_finding) items;
	size_t left_out; /* as many there were */
};

/* One page of the API's answer; or all that a directory or manifest has. */
struct upstream_page {
	char *url, *next;      /* owned, as these; NULL: none */
	char *etag, *modified; /* by which it is asked whether it is as it was */
	VEC(struct upstream_entry) entries;
	struct upstream_findings findings;
};

struct upstream_list {
	VEC(struct upstream_chosen) chosen; /* in byte order of their names */
	struct upstream_findings findings;  /* of all pages, and of what was chosen */
	size_t excluded;                    /* by patterns, size and the like */
	VEC(struct upstream_page) pages;
};

#define AUTO_UPSTREAM_LIST __attribute__((cleanup(upstream_list_clear)))

struct upstream_list_call {
	const struct upstream_source *source;
	const char *ca_file;     /* authorities in place of the system's, or NULL */
	const char *token;       /* sent as Authorization: Bearer; NULL: none */
	int64_t timeout_ms;      /* of each page */
	const struct stop *stop; /* may be NULL */
	bool is_trial; /* the first page alone, whole or not: can it be read at all? */
};

/* Fills *list anew; of what was in it before, pages that did not change are kept, and
 * cost no quota where the forge knows ETags. After an error it is as it was. *rest_ms, if
 * it is not 0: the forge wants not to be asked again for so long.
 *
 * ERR_NETWORK with REASON_RATE_LIMITED; ERR_AUTH: the token is refused; ERR_MISSING: no
 * such organisation, or hidden from the token; ERR_CONFLICT: it changed while it was
 * read; ERR_CORRUPT: the pages make no whole; ERR_CONFIG: it leads to another host, where
 * the token does not go, or the URL is none; of a directory also what could not be read
 * in it. ERR_TIMEOUT, ERR_CANCELED. */
int upstream_list_read(const struct upstream_list_call *call, struct upstream_list *list,
		       int64_t *rest_ms, struct err *err);
void upstream_list_clear(struct upstream_list *list);

#endif
