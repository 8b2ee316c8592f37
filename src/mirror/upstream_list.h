/*
 * The repositories that a forge's API, a directory or a manifest of grokmirror lists, for
 * [mirrors]. A list is complete or an error: missing repositories were searched for, so
 * that a page that failed, was truncated, or came twice does not make one look deleted.
 *
 * GitHub does not report a total. If something is deleted there while the pages are read,
 * another repository may be skipped; so only repositories missing from two lists in a row
 * are gone.
 *
 * One thread at a time per list.
 */
#ifndef MIRROR_UPSTREAM_LIST_H
#define MIRROR_UPSTREAM_LIST_H

#include "base/thread.h"
#include "mirror/upstream_entry.h"

struct upstream_source {
	enum upstream_from from; /* any but UPSTREAM_GROKMIRROR */
	/* The API's URL of an organisation, group or user, as
	 * https://api.github.com/orgs/ acme; or complete, up to /repos or /projects; or
	 * an absolute path. */
	char *url;
	/* Patterns of names; one without a slash is matched against the last part. Empty:
	 * all are included, or nothing is excluded. */
	text_list include, exclude;
	bool has_forks, has_archived; /* whether these are mirrored, too */
	uint64_t max_size;            /* bytes; 0: any. Unknown sizes are accepted. */
};

struct upstream_chosen {
	char *name;      /* of the mirror; owned */
	const char *url; /* for git; borrowed from the list */
	const struct upstream_entry *entry;
};

/* One page of the API's answer; or the whole directory or manifest. */
struct upstream_page {
	char *url, *next;      /* owned, as these; NULL: none */
	char *etag, *modified; /* validators for asking whether it has changed */
	VEC(struct upstream_entry) entries;
	struct upstream_findings findings;
};

struct upstream_list {
	VEC(struct upstream_chosen) chosen; /* in byte order of their names */
	VEC(struct upstream_chosen)
	unfit; /* too large, or archived, and so not chosen: what is mirrored already
		  stays (mirror/list_fit.h) */
	struct upstream_findings findings; /* of all pages, and of the choice */
	size_t excluded;                   /* by patterns, size and the like */
	VEC(struct upstream_page) pages;
	text_list mounts; /* folders with repositories, below a directory, that are on
			     file systems of their own */
};

#define AUTO_UPSTREAM_LIST __attribute__((cleanup(upstream_list_clear)))

struct upstream_list_call {
	const struct upstream_source *source;
	const char *ca_file;     /* authorities instead of the system's, or NULL */
	const char *token;       /* sent as Authorization: Bearer; NULL: not used */
	int64_t timeout_ms;      /* of each page */
	const struct stop *stop; /* may be NULL */
	bool is_trial; /* only the first page, to see whether it can be read at all */
};

/* Fills *list anew; unchanged pages of its former content are kept, and do not cost quota
 * if the forge supports ETags. After an error it is unchanged. *rest_ms, if not 0: the
 * forge asked not to be queried again for this long.
 *
 * ERR_NETWORK with REASON_RATE_LIMITED; ERR_AUTH: the token is refused; ERR_MISSING: the
 * organisation does not exist, or is hidden from the token; ERR_CONFLICT: it changed
 * while it was read; ERR_CORRUPT: the pages do not fit together; ERR_CONFIG: it leads to
 * another host, to which the token is not sent, or the URL is invalid; for a directory
 * also parts of it that could not be read. ERR_TIMEOUT, ERR_CANCELED.
 * A path without any repository is ERR_CONFLICT; so is one below which a folder of the
 * former list->mounts is still there, without its file system and any repository. */
int upstream_list_read(const struct upstream_list_call *call, struct upstream_list *list,
		       int64_t *rest_ms, struct err *err);
void upstream_list_clear(struct upstream_list *list);

#endif
