/*
 * What blob_notice.c and its helpers share. Private to change/.
 */
#ifndef CHANGE_BLOB_NOTICE_PARTS_H
#define CHANGE_BLOB_NOTICE_PARTS_H

#include "base/json.h"
#include "base/vec.h"
#include "blob/walk.h"
#include "change/blob_notice.h"

#define BLOB_GROUP 500 /* looks a transaction */

struct blob_notice {
	struct blob_notice_options options;
	void (*due)(void *arg); /* may be NULL */
	void *arg;
};

enum blob_observation {
	BLOB_THERE,
	BLOB_UNREADABLE, /* something is there; look->why says what is wrong */
	BLOB_GONE,
	BLOB_UNKNOWN, /* nothing is to be recorded: look->why */
};

/* One look at work. */
struct blob_comparison {
	struct blob_look *look;
	struct origin_row base; /* what is compared with; no name: there is no row */
	enum blob_observation observation;
	struct blob_fingerprint fingerprint;
	char text[BLOB_FINGERPRINT_SIZE]; /* print */
	bool is_done;
	bool is_committed;    /* in this transaction */
	enum event_what what; /* if look->is_changed */
	bool is_due;          /* its content is to be read now */
};
typedef VEC(struct blob_comparison) blob_comparisons;

/* A group in one transaction. Sets is_done of those whose row was still the base, and
 * fills their looks. */
int blob_comparisons_commit(struct blob_notice *notice, const struct blob_kind *kind,
			    int root, blob_comparisons *all, struct err *err);

/* Whether there is anything to write. */
bool blob_comparison_differs(const struct blob_kind *kind,
			     const struct blob_comparison *comparison);

/* Columns of a row. */
void blob_row_set_unread(struct origin_row *row,
			 const struct blob_fingerprint *fingerprint);
void blob_row_set_proved(struct origin_row *row,
			 const struct blob_fingerprint *fingerprint, const char *digest,
			 int64_t reverify_ms);

/* It failed as its file could not be opened, and is not tried again yet: when somebody
 * finds that it can be, that is news. */
bool blob_row_waits_unopened(const struct origin_row *row);

/* 1: there is a row, and it is the base; 0: there is none, as with the base; -1:
 * ERR_CONFLICT. The caller clears. */
int blob_row_read_again(struct store_tx *tx, const struct blob_kind *kind, const char *id,
			const struct origin_row *base, struct origin_row *row,
			struct err *err);

int blob_event_append(struct store_tx *tx, const struct blob_kind *kind,
		      enum event_what what, struct origin_row *row, uint64_t *event_id,
		      struct err *err);

/* After a commit: wakes who waits for events, and for contents to be read. */
void blob_notice_report(struct blob_notice *notice, bool is_event, bool is_due);

/* Whether there is any blob at all. */
int blob_has_any(const struct blob_kind *kind, const struct stop *stop, bool *has_any,
		 struct err *err);

#endif
