/*
 * What status says, for people and for programs: from the database alone, so that it
 * answers with and without a node. Used by cli/status.c, the API, readiness and metrics.
 */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include "base/base.h"
#include "base/json.h"
#include "base/vec.h"
#include "blob/kinds.h"
#include "change/scan_record.h"
#include "lease/lease.h"
#include "push/settings.h"
#include "push/task_store.h"
#include "replicable/lfs_rows.h"
#include "replicable/registry.h"
#include "report/destinations.h"
#include "store/store.h"

enum site_role { SITE_PRIMARY, SITE_SECONDARY, SITE_STANDALONE };
const char *site_role_name(enum site_role role);

struct report_secondary { /* at a primary, one for each that ever asked */
	char *site;       /* owned */
	uint64_t cursor;
	int64_t seen_at;
	int64_t behind, failing, held, synced, replicables;
	int64_t lag_ms;
};

struct report_examples { /* one row that fails, one that is held; owned, may be NULL */
	char *failing, *failure, *held, *reason;
};

/* One kind of blobs. */
struct report_kind {
	char *type;                    /* owned */
	struct registry_counts counts; /* at a primary: all, bytes, and verification */
	int64_t never_copied;          /* of which nothing is here yet */
	int64_t arrived;               /* bytes of those that are on their way */
	struct report_examples examples;
	struct scan_record scan; /* at a primary */
};

struct report {
	enum site_role role;
	char *site; /* owned */
	int64_t now;
	bool node_runs;
	/* both */
	struct registry_counts repositories; /* at a primary: all, and verification */
	VEC(struct report_kind) blobs;       /* in byte order of their types */
	lfs_scans lfs_lacking; /* repositories that name objects which are not here */
	/* primary */
	uint64_t last_event, first_event;
	int64_t last_event_at;
	struct scan_record scan;
	VEC(struct report_secondary) secondaries;
	/* secondary */
	char *primary_url; /* owned */
	int64_t heard_at, skew_ms, compared_at;
	uint64_t cursor, primary_last_event;
	int64_t lag_ms;        /* age of the oldest change that is not here; 0: none */
	int64_t never_copied;  /* repositories of which nothing is here yet */
	bool is_failing;       /* the primary cannot be reached */
	int64_t failing_since; /* 0: not known */
	struct err failure;
	bool is_root_lost; /* copies are not where they were: root_failure */
	struct err root_failure;
	struct report_examples examples; /* repositories */
	/* any */
	struct report_push push;
};

struct report_options {
	enum site_role role;
	const char *site, *primary_url, *data;
	const char *root; /* site.repositories; NULL: directories are not looked at */
	struct store *store;
	const struct blob_kinds *kinds; /* those of which it tells; NULL: all that have
					   rows */
	bool leaves_out_tasks;    /* of push: they take long to read where many wait */
	struct task_store *tasks; /* NULL: it does not push, or the store cannot be
				     opened, because of push_failure */
	struct lease_manager *push_leases;         /* of the task store; NULL as tasks */
	const struct push_settings *push_settings; /* NULL: it does not push */
	const struct err *push_failure;            /* NULL: none */
};

/* Without success nothing is left to be cleared. */
int report_make(const struct report_options *options, struct report *report,
		struct err *err);
void report_clear(struct report *report);

/* How many have been proved and not been found wrong since. A copy is proved when it is
 * brought, a repository of the primary when it is noticed: those that are, or are to be,
 * read again are among them. */
int64_t report_verified(const struct report *report);

/* The same of a kind of blobs. These are not proved before they were read once. */
int64_t report_kind_verified(const struct report_kind *kind);

/* To be copied, and not held. */
int64_t report_waiting(const struct registry_counts *counts);

/* Whether all is well: in sync, verified, nobody silent. */
bool report_is_good(const struct report *report);

/* The sentence (or few) that says it first: who is how far behind in time, why, what to
 * do. */
void report_sentence(const struct report *report, struct str *out);

/* The page of `status`: the sentence, a row per kind, one per secondary. */
void report_text(const struct report *report, struct str *out);
json_t *report_json(const struct report *report);

/* Sets the gauges (refrelay_replicables{kind,state}, refrelay_lag_seconds, ...). */
void report_metrics(const struct report *report);

/* One registry row for the API and `repository list --json`. */
json_t *report_row_json(const struct registry_row *row, int64_t now);

/* The word for people: up to date, behind, copying, verifying, waiting, held, failing,
 * gone. */
const char *report_row_word(const struct registry_row *row);

/* How long, for people: "0.4 s", "3 min", "2 d". */
void report_duration(int64_t ms, struct str *out);

/* So many bytes, for people: "3.4 GB". */
void report_size(int64_t bytes, struct str *out);

/* At a primary: what a secondary said with its request for events. Written at most each 5
 * s for a site unless it changed. */
int report_secondary_seen(struct store *store, const char *site, uint64_t cursor,
			  const char *report_json_text, struct err *err);

/* At a secondary: the text of Refrelay-Report. */
int report_for_primary(struct store *store, int64_t primary_now_ms, struct str *out,
		       struct err *err);

#endif
