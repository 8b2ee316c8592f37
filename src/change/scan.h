/*
 * Scans a kind's directory at the primary, in the order of names, alongside the rows in
 * the same order: finds unreported changes. The kind's part is struct origin_kind_ops;
 * the rest is here, common to all kinds. One thread at a time per kind.
 */
#ifndef CHANGE_SCAN_H
#define CHANGE_SCAN_H

#include "base/json.h"
#include "base/map.h"
#include "base/thread.h"
#include "base/vec.h"
#include "change/hook_install.h"
#include "change/origin_kind.h"
#include "change/scan_record.h"

struct scan_request {
	const struct origin_kind *kind;
	const struct stop *stop; /* may be NULL */
	/* Known problems, so that each is logged once, when it begins: path or name ->
	 * why. The caller keeps it from scan to scan, and owns the values. */
	struct map *troubles;
	/* Before a directory is read: "" is the root. May be NULL. */
	void (*directory)(void *arg, const char *path);
	void *arg;
};

struct scan_result {
	uint64_t found;
	size_t looked_into, changed;
	size_t left_out;                 /* repositories or files that cannot be
					    replicated, or read */
	char example[SCAN_EXAMPLE_SIZE]; /* one of them, if any: "PATH: why (remedy)" */
	bool has_hooks;                  /* they were checked: */
	struct hook_counts hooks;        /* of repositories */
	bool is_complete; /* all names were seen, so absence was treated as deletion */
	bool lacks_rows;  /* a found one could not be read, or recorded: it has none */
};

/* ERR_DISK: the directory is missing, or another, empty one. ERR_CANCELED. */
int scan_all(const struct scan_request *request, struct scan_result *result,
	     struct err *err);

/* Scans one directory and everything below it. If it is missing, its content is gone. */
int scan_below(const struct scan_request *request, const char *directory,
	       struct scan_result *result, struct err *err);

/* For the kinds. */
struct scan {
	const struct scan_request *request;
	struct scan_result *result;
	int root;      /* -1: not open, or only a part is scanned */
	bool is_first; /* of a new database */
	void *state;   /* the kind's */
	/* scan.c's: */
	pthread_mutex_t mutex;
	struct map troubles; /* found by this scan; guarded by mutex, as is *result while
				comparing */
	const char *prefix;  /* of all names to scan; "": all */
	origin_rows rows;    /* a page */
	size_t at;           /* in it: all before are done */
	char *after;         /* owned; the last name of the page before */
	bool is_last;        /* page */
	text_list suspects, gone;
	text_list unrecorded; /* identities; guarded by mutex; complete when is_at_gone */
	bool is_at_gone;
	json_t *mounts; /* owned; found below the root */
};

int scan_meet(struct scan *scan, const struct scan_item *item, struct err *err);
void scan_enter(struct scan *scan, const char *path);

struct scan_finding {
	const char *path; /* below the root */
	const struct err *why;
	bool hides_names; /* unseen replicables may be there */
	bool is_harmless; /* nothing is left out because of it */
};
void scan_find(struct scan *scan, const struct scan_finding *finding);

/* These are for any thread of a kind's `compare`. */
void scan_count(struct scan *scan, bool is_changed);
void scan_leave_out(struct scan *scan, const char *path, const struct err *why);
void scan_set_incomplete(struct scan *scan);
/* One could not be compared: it is left out, unless its row itself says that it is not
 * well; without a row the result lacks one. Returns scan_is_news(). */
bool scan_fail(struct scan *scan, const struct noticed *noticed);
/* What has that identity (owned by the scan from now on) has no row under its name. */
void scan_note_unrecorded(struct scan *scan, char *identity);
/* Whether this is the first scan with this problem. */
bool scan_is_news(struct scan *scan, const char *where, const struct err *why);
int scan_check_stop(const struct scan *scan, struct err *err);

#endif
