/*
 * The primary, as this secondary asks it: docs/protocol.md from the asking side. One
 * struct primary a process, safe from any thread; requests go through a struct
 * primary_line, one a thread, which keeps its connection.
 */
#ifndef PULL_PRIMARY_H
#define PULL_PRIMARY_H

#include "base/base.h"
#include "base/thread.h"
#include "change/event_log.h"
#include "git/refs.h"
#include "net/site_client.h"

struct primary;

/* Copies url and key (NULL: unsigned). ERR_CONFIG: the URL is none. */
int primary_open(const char *url, const struct site_key *key, struct primary **primary,
		 struct err *err);
void primary_close(struct primary *primary);

/* A new secret; lines take it from their next request on. */
void primary_set_key(struct primary *primary, const struct site_key *key);

/* It shall send no more than this, in bytes a second, to this site; 0: no limit. Any
 * time.
 */
void primary_set_bandwidth(struct primary *primary, uint64_t rate);

/* How it was last heard of. */
struct primary_health {
	int64_t heard_at; /* wall ms of the last good answer; 0: never */
	int64_t skew_ms;  /* its clock less ours */
	bool is_failing;  /* the last request failed */
	int64_t failing_since;
	struct err err; /* why */
};
void primary_health(struct primary *primary, struct primary_health *health);

/* The primary's clock now, by what its answers said; ours before the first. */
int64_t primary_now_ms(struct primary *primary);

/* No request of a line takes longer than most_ms; 0: as long as it needs. */
struct primary_line;
void primary_line_limit(struct primary_line *line, int64_t most_ms);
int primary_line_open(struct primary *primary, const struct stop *stop,
		      struct primary_line **line, struct err *err);
void primary_line_close(struct primary_line *line);

struct primary_events {
	enum event_read how;
	event_list events;
	struct event_ends ends; /* timeline, last, mark */
	int64_t time_ms;        /* the primary's clock */
};

/* The next events. `has_cursor` false: no position is named. ERR_CORRUPT: no sense (ids
 * not dense after `after`, lines cut off, unknown timeline): nothing of it counts. */
struct primary_events_question {
	bool has_cursor;
	uint64_t after;
	const char *mark, *timeline; /* of event `after`, of its log */
	size_t limit;
	int64_t wait_s;
	const char *report; /* JSON of Refrelay-Report; may be NULL */
};
int primary_events(struct primary_line *line,
		   const struct primary_events_question *question,
		   struct primary_events *answer, struct err *err);
void primary_events_clear(struct primary_events *answer);

/* The newest event's id now, 0: none ever. Cheap; moves no position, reports nothing. */
int primary_last_event(struct primary_line *line, struct event_ends *ends,
		       struct err *err);

struct inventory_item {
	char *name, *checksum; /* owned; checksum NULL: the primary cannot read it, or, of
				  a blob, has not computed it yet */
	bool is_unreadable;
	char timeline[TIMELINE_SIZE];
	uint64_t generation;
	uint64_t size; /* of a blob, in bytes */
	int64_t changed_at;
};

struct inventory_page {
	VEC(struct inventory_item) items; /* names rising in byte order */
	char *next;                       /* owned; NULL: the last page */
	bool is_part; /* what is not listed may be there all the same */
	char etag[128];
	char timeline[TIMELINE_SIZE]; /* of the log */
	uint64_t last_event;
	char last_mark[EVENT_MARK_SIZE];
};

struct page_question {
	const char *after; /* names above it; NULL: from the first */
	size_t limit;
	const char *etag; /* of a page that is known; may be NULL */
};

/* An enum inventory_answer, or -1. ERR_CORRUPT: names out of order, bad
 * names, a `next` that leads nowhere: nothing of it counts. */
enum inventory_answer {
	INVENTORY_UNCHANGED, /* since `etag` */
	INVENTORY_PAGE,
	INVENTORY_NO_KIND,     /* the primary has no such kind of blobs */
	INVENTORY_NOT_SCANNED, /* ... or has not looked at all its files yet */
};
int primary_inventory(struct primary_line *line, const struct page_question *question,
		      struct inventory_page *page, struct err *err);
void inventory_page_clear(struct inventory_page *page);

struct primary_refs {
	struct ref_snapshot refs;
	size_t oid_len;
	char timeline[TIMELINE_SIZE];
	uint64_t generation;
	char checksum[70];
	int64_t changed_at;
	char *description; /* owned; NULL: none */
	char *settings;    /* for readers (git/read_settings.h); owned; NULL: not told,
			      by a primary of an older version */
	uint64_t pushed_settled, pushed_announced; /* change/pushed.h; 0: not told */
};

/* The refs of one repository, checked: names valid and in order, the checksum that of the
 * refs (ERR_CORRUPT otherwise). ERR_MISSING: the primary has no such repository. */
int primary_refs(struct primary_line *line, const char *name, struct primary_refs *refs,
		 struct err *err);
void primary_refs_clear(struct primary_refs *refs);

/* Asks it to read a repository again and compute its checksum anew. */
int primary_reverify(struct primary_line *line, const char *name, struct err *err);

/* The repository's URL, without secrets. The caller frees. */
char *primary_url(const struct primary *primary, const char *name);

/* For a git child: the repository's URL, and the header with its token (NULL without
 * key). The caller frees both. */
int primary_git(struct primary *primary, const char *name, int64_t valid_s, char **url,
		char **header, struct err *err);

#endif
