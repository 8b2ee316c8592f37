/*
 * The status report, for people and programs: from the database, so that it works with
 * and without a node, and from the node's own state (report/vitals.h). report/verdict.h
 * judges it. Used by cli/status.c, the API, readiness and metrics.
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

struct report_secondary { /* at a primary, one for each that is expected, or asked */
	char *site;       /* owned */
	uint64_t cursor;
	int64_t seen_at;
	int64_t behind, failing, held, synced, replicables;
	int64_t lag_ms;
	bool is_expected; /* expected by the node */
	int64_t age_ms;   /* since its last request; -1: never since the node's start */
	bool is_twice;    /* two nodes ask under its name */
	enum verdict_word says;      /* about itself */
	char *why;                   /* its verdict's name; owned, may be NULL */
	bool knows_blob_types;       /* it told the kinds of blobs that it copies: */
	text_list blob_types;        /* owned */
	const text_list *leaves_out; /* in signs: it need not copy them; may be NULL */
};

/* Rows failing with errors of one class; all owned. */
struct report_failures {
	char *class;
	int64_t count;
	int64_t since; /* the oldest change that one of them lacks, by the primary's
			  clock; 0: unknown */
	char *example, *failure, *remedy; /* of one of them; may be NULL */
};

struct report_examples { /* failing ones, most frequent first; a held one, or NULL */
	VEC(struct report_failures) failing;
	char *held, *reason, *remedy; /* owned */
};

/* The limits on the speed of copying. */
struct report_limits {
	bool is_known;
	uint64_t repository_capacity, blob_capacity, verification_capacity, bandwidth;
};

/* One kind other than repositories. */
struct report_kind {
	char *type;                    /* owned */
	struct registry_counts counts; /* at a primary: all, bytes, and verification */
	int64_t arrived;               /* bytes of those being brought */
	struct report_examples examples;
	struct scan_record scan; /* at a secondary: what it left out */
};

struct report_remote { /* a destination of push, in the whole cluster */
	char *name;    /* owned */
	size_t waiting, running, failing; /* destinations of a repository */
	size_t given_up;                  /* tasks */
	int64_t lag_ms;                   /* age of the oldest task; 0: no task */
	char *example;                    /* a failing one: repository; owned */
	struct err failure;               /* of it */
};

struct report_push {
	bool is_on;      /* this site has remotes, or something is left of former ones */
	bool is_failing; /* the task store cannot be read */
	struct err failure;
	VEC(struct report_remote) remotes;
	size_t orphans; /* no longer taken by any remote */
	size_t given_up, unreadable;
	char *example_given_up; /* owned; a repository */
	size_t held;            /* deletions of repositories that wait for a person */
	char *example_held;     /* owned; a repository */
	struct err given_up_why;
	struct owed_summary owed; /* changes whose tasks could not be made so far */
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
	lfs_scans lfs_lacking;   /* repositories naming objects that are not here */
	struct scan_record scan; /* at a secondary: what it left out */
	/* primary */
	uint64_t last_event, first_event;
	int64_t last_event_at;
	VEC(struct report_secondary) secondaries;
	struct report_mirrors mirrors; /* of a standalone site, too */
	/* secondary */
	char *primary_url; /* owned */
	int64_t heard_at, skew_ms, compared_at;
	uint64_t cursor, primary_last_event;
	int64_t unverifiable;    /* copies; counted only for the report to the primary */
	bool is_comparison_void; /* rows were removed on request since it began */
	struct report_limits limits;
	int64_t lag_ms;  /* of the oldest change, or a silent primary's last news; or 0 */
	bool is_failing; /* the primary cannot be reached */
	int64_t failing_since; /* 0: not known */
	struct err failure;
	bool is_root_lost; /* copies are not where they were: see root_failure */
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
	const struct vital_signs *signs;      /* copied; NULL: the node is not running */
	const struct pull_settings *settings; /* of a secondary; NULL: unknown */
	const struct kinds_here *here;        /* the kinds to report; NULL: all with rows,
						 without checking directories */
	bool is_brief;            /* for verdict and counts only: reads no rows of what
				     is replicated, however many there are */
	bool leaves_out_tasks;    /* of push: reading them takes long if many wait */
	struct task_store *tasks; /* NULL: it does not push, or the store cannot be
				     opened: see push_failure */
	struct lease_manager *push_leases;         /* of the task store; NULL as tasks */
	const struct push_settings *push_settings; /* NULL: it does not push */
	const struct err *push_failure;            /* NULL: no failure */
};

/* After a failure nothing needs clearing. */
int report_make(const struct report_options *options, struct report *report,
		struct err *err);
void report_clear(struct report *report);

/* How many were found equal, or intact, since their last change. At a primary that holds
 * for a repository once it is noticed, and for a blob once it was read. */
int64_t report_verified(const struct report *report);
int64_t report_kind_verified(const struct report *report, const struct report_kind *kind);

/* To be copied, and not held. */
int64_t report_waiting(const struct registry_counts *counts);

/* The verdict on one secondary: VERDICT_IN_SYNC, or VERDICT_SECONDARY_... */
enum verdict_code report_secondary_judge(const struct report *report,
					 const struct report_secondary *one);

/* The verdict: verdict_decide() on the report's data. */
void report_judge(const struct report *report, struct verdict *verdict);
bool report_is_good(const struct report *report);

/* The first sentence: how far behind each site is, why, and what to do. */
void report_sentence(const struct report *report, struct str *out);

/* The page of `status`: the sentence, a row per kind, one per secondary. */
void report_text(const struct report *report, struct str *out);
json_t *report_json(const struct report *report);

/* At a secondary: its report to the primary (wire/wire_report.h). `node` names this run
 * of the node. */
void report_for_primary(const struct report *report, const char *node, struct str *out);

/* A duration, for people: "0.4 s", "3 min", "2 d". */
void report_duration(int64_t ms, struct str *out);

/* A size, for people: "3.4 GB". */
void report_size(int64_t bytes, struct str *out);

/* Appends a clause: why the site cannot be called in sync, and since when. */
void report_why(const struct report *report, const struct verdict *verdict,
		struct str *out);

/* Appends that the node is not running, and since when, if known. */
void report_no_node(const struct report *report, struct str *out);

/* How many are in each state of verification. */
json_t *report_verification_json(const int64_t counts[VERIFICATION_STATES]);

/* One registry row for the API and `repository list --json`. */
json_t *report_row_json(const struct registry_row *row, int64_t now);

/* For people: up to date, behind, copying, verifying, waiting, held, failing, gone. */
const char *report_row_word(const struct registry_row *row);

#endif
