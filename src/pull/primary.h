/*
 * The client side of docs/protocol.md: this secondary's requests to the primary. One
 * struct primary per process, safe from any thread; requests go through a struct
 * primary_line, one per thread, which keeps its connection.
 */
#ifndef PULL_PRIMARY_H
#define PULL_PRIMARY_H

#include "base/thread.h"
#include "change/event_log.h"
#include "net/site_client.h"
#include "wire/wire_blob.h"
#include "wire/wire_delta.h"
#include "wire/wire_frames.h"
#include "wire/wire_inventory.h"
#include "wire/wire_packs.h"
#include "wire/wire_refs.h"

struct primary;

/* Copies url and key (NULL: unsigned). ERR_CONFIG: the URL is invalid. */
int primary_open(const char *url, const struct site_key *key, struct primary **primary,
		 struct err *err);
void primary_close(struct primary *primary);

/* Checks its certificate, in Git as well, against the authorities of that file only
 * (NULL: of the system). Copied; call it before the first line is opened. */
void primary_trust(struct primary *primary, const char *ca_file);
const char *primary_ca_file(const struct primary *primary);

/* A new secret; lines take it from their next request on. */
void primary_set_key(struct primary *primary, const struct site_key *key);

/* Asks the primary to send at most this, in bytes a second, to this site; 0: no limit.
 * Any time. */
void primary_set_bandwidth(struct primary *primary, uint64_t rate);

/* Its last answers. */
struct primary_health {
	int64_t heard_at; /* wall ms of the last good answer; 0: never */
	int64_t skew_ms;  /* its clock minus ours */
	bool is_failing;  /* the last request failed */
	int64_t failing_since;
	struct err err; /* why */
};
void primary_health(struct primary *primary, struct primary_health *health);

/* For how many ms the oldest request has been waiting for the first byte of its answer;
 * 0: none waits. A request for events counts from when it should have been answered.
 * Fetches by Git are not known here. */
int64_t primary_wait_ms(struct primary *primary);

/* The primary's clock now, by its answers; ours before the first answer. */
int64_t primary_now_ms(struct primary *primary);

/* No request of a line takes longer than most_ms; 0: as long as it needs. */
struct primary_line;
void primary_line_limit(struct primary_line *line, int64_t most_ms);
int primary_line_open(struct primary *primary, const struct stop *stop,
		      struct primary_line **line, struct err *err);
void primary_line_close(struct primary_line *line);
/* Whether its last request had an answer, by anybody: the head of one is enough. */
bool primary_line_was_answered(const struct primary_line *line);

struct primary_events {
	enum event_read how;
	event_list events;
	struct event_ends ends; /* timeline, last, mark */
	int64_t time_ms;        /* the primary's clock */
};

/* The next events. ERR_CORRUPT: the answer makes no sense (ids not dense after `after`,
 * lines cut off, unknown timeline) and does not count. The caller clears the events. */
int primary_events(struct primary_line *line, const struct wire_events_question *question,
		   struct primary_events *answer, struct err *err);

/* The newest event's id now; 0: there was never one. Cheap; does not move the position or
 * report anything. */
int primary_last_event(struct primary_line *line, struct event_ends *ends,
		       struct err *err);

/* An enum inventory_answer, or -1. ERR_CORRUPT: names out of order, or a `next` that
 * leads nowhere; the answer does not count. */
enum inventory_answer {
	INVENTORY_UNCHANGED, /* since question->etag */
	INVENTORY_PAGE,
	INVENTORY_NO_KIND,     /* the primary does not have this kind */
	INVENTORY_NOT_SCANNED, /* ... or has not yet scanned all of it */
};
int primary_inventory(struct primary_line *line, const struct kind *kind,
		      const struct page_question *question, struct inventory_page *page,
		      struct err *err);

/* The refs of one repository, checked: names valid and in order, the checksum that of the
 * refs (ERR_CORRUPT otherwise). ERR_MISSING: the primary does not have this
 * repository. */
int primary_refs(struct primary_line *line, const char *name, struct wire_refs *refs,
		 struct err *err);

/* The same as a difference from the state here (with its timeline and generation), with a
 * pack of the new objects. If nothing is here (timeline "", empty base): all refs, and
 * all objects if they are few. 1: no difference available; request the refs instead.
 * Takes over the base in any case. */
struct primary_delta {
	const char *name, *timeline;
	uint64_t generation;
	uint64_t limit; /* bytes that the pack's objects have; a pack of more than twice
			   that is refused */
	struct wire_delta_base base;
};
int primary_delta(struct primary_line *line, const struct primary_delta *delta,
		  struct wire_refs *refs, struct str *pack, struct err *err);

/* The repository's URL, without secrets. The caller frees. */
char *primary_url(const struct primary *primary, const char *name);

/* For a git child: the repository's URL, and the header with its token (NULL without
 * key). The caller frees both. */
int primary_git(struct primary *primary, const char *name, int64_t valid_s, char **url,
		char **header, struct err *err);

struct blob_part {
	const char *type; /* of the kind */
	const char *id;
	uint64_t offset;     /* where to begin */
	uint64_t length;     /* at most */
	const char *version; /* "TIMELINE-GENERATION": this one only; NULL: any */
	int64_t stall_ms;    /* without a byte */
};

/* Bytes in order; head is the same at each call. Called at least once, for an empty blob
 * without bytes. -1 ends the request. */
struct blob_part_sink {
	int (*take)(void *arg, const struct blob_head *head, const void *bytes,
		    size_t len, struct err *err);
	void *arg;
};

/* A part of one blob. ERR_MISSING: the primary says that it does not have this blob;
 * ERR_CONFLICT: not of this version (any more); ERR_CORRUPT: the primary knows that its
 * content is wrong, or its answer makes no sense; ERR_NETWORK, ERR_TIMEOUT: the bytes so
 * far are good all the same. */
int primary_blob_read(struct primary_line *line, const struct blob_part *part,
		      const struct blob_part_sink *sink, struct err *err);

/* Many small ones in one answer, in this order: its frames are passed to `frames` as they
 * arrive. Blobs that arrived whole before an error are good. */
struct blob_many {
	const char *type; /* of the kind */
	const char *const *ids;
	size_t count; /* at most WIRE_FRAMES_MOST */
	int64_t stall_ms;
};
int primary_blob_read_many(struct primary_line *line, const struct blob_many *many,
			   const struct wire_frame_sink *frames, struct err *err);

/* The packs of one repository, as they are now. ERR_CONFIG: it has none that can be
 * copied, or none worth it: use git instead. The caller clears in any case. */
int primary_packs(struct primary_line *line, const char *name, wire_packs *packs,
		  struct err *err);

#define PRIMARY_PACK_ETAG_SIZE 80

/* A part of one of their files. */
struct pack_part {
	const char *repository, *file;
	const char *etag; /* this version only; "": any */
	uint64_t offset, length;
	int64_t stall_ms; /* without a byte */
};

struct pack_head {
	const char *etag;
	uint64_t size; /* of the whole file */
};

/* As struct blob_part_sink. */
struct pack_part_sink {
	int (*take)(void *arg, const struct pack_head *head, const void *bytes,
		    size_t len, struct err *err);
	void *arg;
};

/* ERR_MISSING: the file does not exist (any more); ERR_CONFLICT: it is another one;
 * ERR_NETWORK, ERR_TIMEOUT: the bytes so far are good all the same. */
int primary_pack_read(struct primary_line *line, const struct pack_part *part,
		      const struct pack_part_sink *sink, struct err *err);

/* Its kinds: types and layouts, without paths. The caller clears in any case. */
int primary_blob_kinds(struct primary_line *line, struct blob_kinds *kinds,
		       struct err *err);

/* Asks it to read a replicable again and compute its checksum anew. ERR_BUSY: it did so a
 * moment ago, and refuses now. */
int primary_reverify(struct primary_line *line, const char *type, const char *name,
		     struct err *err);

#endif
