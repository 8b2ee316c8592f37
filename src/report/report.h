/*
 * What status says, for people and for programs: from the database, so that it answers
 * with and without a node, and from what the node knows of itself (report/vitals.h).
 * Whether all is well is report/verdict.h. Used by cli/status.c, the API, readiness and
 * metrics.
 */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include "base/json.h"
#include "change/owed.h"
#include "change/scan_record.h"
#include "lease/lease.h"
#include "push/settings.h"
#include "push/task_store.h"
#include "replicable/lfs_rows.h"
#include "replicable/registry.h"
#include "report/report_alerts.h"
#include "report/report_mirrors.h"
#include "report/vitals.h"
#include "store/store.h"

const char *site_role_name(enum site_role role);

struct report_secondary { /* at a primary, one for each that is to ask, or did */
	char *site;       /* owned */
	uint64_t cursor;
	int64_t seen_at;
	int64_t behind, failing, held, synced, replicables;
	int64_t lag_ms;
	bool is_expected; /* the node waits for it */
	int64_t age_ms;   /* since its last request; -1: none since the node's start */
	bool is_twice;    /* two nodes ask under its name */
	enum verdict_word says; /* of itself */
	char *why;              /* its verdict's name; owned, may be NULL */
};

/* Rows that fail with errors of one class; all owned. */
struct report_failures {
	char *class;
	int64_t count;
	int64_t since; /* the oldest change that one of them lacks, by the primary's
			  clock; 0: not known */
	char *example, *failure, *remedy; /* of one of them; may be NULL */
};

struct report_examples { /* those that fail, most first; one that is held, or NULL */
	VEC(struct report_failures) failing;
	char *held, *reason, *remedy; /* owned */
};

/* What sets how fast copies come. */
struct report_limits {
	bool is_known;
	uint64_t repository_capacity, blob_capacity, verification_capacity, bandwidth;
};

/* One kind, but repositories. */
struct report_kind {
	char *type;                    /* owned */
	struct registry_counts counts; /* at a primary: all, bytes, and verification */
	int64_t never_copied;          /* of which nothing is here yet */
	int64_t arrived;               /* bytes of those that are on their way */
	struct report_examples examples;
	struct scan_record scan; /* at a secondary what it left out */
};

struct report_remote { /* a destination of push, in the whole cluster */
	char *name;    /* owned */
	size_t waiting, running, failing; /* destinations of a repository */
	size_t given_up;                  /* tasks */
	int64_t lag_ms;                   /* age of the oldest task; 0: none */
	char *example;                    /* one that fails: repository; owned */
	struct err failure;               /* of it */
};

struct report_push {
	bool is_on;      /* this site has remotes */
	bool is_failing; /* the task store cannot be read */
	struct err failure;
	VEC(struct report_remote) remotes;
	size_t orphans; /* no remote takes them any more */
	size_t given_up, unreadable;
	char *example_given_up; /* owned; a repository */
	struct err given_up_why;
	struct owed_summary owed; /* changes of which no task could be made yet */
};

struct report {
	enum site_role role;
	char *site; /* owned */
	int64_t now;
	struct vital_signs signs;
	struct vitals_last last_sign; /* of a node here */
	/* both */
	struct registry_counts repositories; /* at a primary: all, and verification */
	VEC(struct report_kind) blobs;       /* all other kinds */
	lfs_scans lfs_lacking;   /* repositories that name objects which are not here */
	struct scan_record scan; /* at a secondary what it left out */
	/* primary */
	uint64_t last_event, first_event;
	int64_t last_event_at;
	VEC(struct report_secondary) secondaries;
	struct report_mirrors mirrors; /* of a standalone site, too */
	/* secondary */
	char *primary_url; /* owned */
	int64_t heard_at, skew_ms, compared_at;
	uint64_t cursor, primary_last_event;
	bool is_comparison_void; /* rows were removed by order since it began */
	struct report_limits limits;
	int64_t lag_ms; /* age of the oldest change that is not here, or of the last news
			   of a primary that is silent; 0: none */
	int64_t never_copied;  /* repositories of which nothing is here yet */
	bool is_failing;       /* the primary cannot be reached */
	int64_t failing_since; /* 0: not known */
	struct err failure;
	bool is_root_lost; /* copies are not where they were: root_failure */
	struct err root_failure;
	struct report_examples examples; /* repositories */
	/* any */
	struct report_push push;
	report_alerts alerts;
};

struct report_options {
	enum site_role role;
	const char *site, *primary_url, *data;
	struct store *store;
	const struct vital_signs *signs;      /* copied; NULL: no node runs */
	const struct pull_settings *settings; /* of a secondary; NULL: not known */
	const struct kinds_here *here; /* those of which it tells; NULL: all that have
					  rows, and no directories are looked at */
	bool is_brief;                 /* for verdict and counts alone: reads no rows */
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

/* How many have been found equal, or sound, since their last change. At a primary a
 * repository is when it is noticed, and a blob when it was read. */
int64_t report_verified(const struct report *report);
int64_t report_kind_verified(const struct report *report, const struct report_kind *kind);

/* To be copied, and not held. */
int64_t report_waiting(const struct registry_counts *counts);

/* Of one secondary: VERDICT_IN_SYNC, or VERDICT_SECONDARY_... */
enum verdict_code report_secondary_judge(const struct report *report,
					 const struct report_secondary *one);

/* Whether all is well, and if not why: verdict_decide() of what the report holds. */
void report_judge(const struct report *report, struct verdict *verdict);
bool report_is_good(const struct report *report);

/* The first sentence: how far behind each site is, why, and what to do. */
void report_sentence(const struct report *report, struct str *out);

/* The page of `status`: the sentence, a row per kind, one per secondary. */
void report_text(const struct report *report, struct str *out);
json_t *report_json(const struct report *report);

/* At a secondary: what its primary hears of it (wire/wire_report.h). `node` names this
 * run of the node. */
void report_for_primary(const struct report *report, const char *node, struct str *out);

/* Rows and numbers as people read them. */

/* How long, for people: "0.4 s", "3 min", "2 d". */
void report_duration(int64_t ms, struct str *out);

/* So many bytes, for people: "3.4 GB". */
void report_size(int64_t bytes, struct str *out);

/* Appends a clause that says why a site is not known to be in sync, and since when. */
void report_why(const struct report *report, const struct verdict *verdict,
		struct str *out);

/* Appends that no node runs here, and since when as far as that is known. */
void report_no_node(const struct report *report, struct str *out);

/* How many are in each state of verification. */
json_t *report_verification_json(const int64_t counts[VERIFICATION_STATES]);

/* One registry row for the API and `repository list --json`. */
json_t *report_row_json(const struct registry_row *row, int64_t now);

/* The word for people: up to date, behind, copying, verifying, waiting, held, failing,
 * gone. */
const char *report_row_word(const struct registry_row *row);

#endif
