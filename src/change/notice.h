/*
 * Notices changes: compares replicables of the primary with their rows, and makes events
 * of the differences. Hooks, inotify, scans, commands, uploads, webhooks and readers all
 * use this; their reports are hints where to look, and are never recorded themselves.
 *
 * Rows are read before the disk; row, event and generation are committed in one
 * transaction, on condition that the row is still the one compared with. So generation
 * and checksum always belong together, in whatever order concurrent comparisons end. Any
 * thread, any process.
 *
 * A repository's refs are read at one moment. Old values come from data/refs/<id>, the
 * last recorded snapshot; if it does not match the row's checksum it is ignored: the
 * event is then without a list of changes. For blobs see change/blob_notice.h.
 */
#ifndef CHANGE_NOTICE_H
#define CHANGE_NOTICE_H

#include "base/base.h"
#include "change/change_sink.h"
#include "change/event_log.h"
#include "change/hook_install.h"
#include "change/origin_kind.h"
#include "change/scan.h"
#include "git/refs.h"
#include "replicable/discover.h"
#include "replicable/origin_rows.h"

struct notice_options {
	struct store *store;   /* borrowed, as all of these */
	struct event_log *log; /* NULL: a command; its caller pokes the node */
	int64_t reverify_ms;   /* sync.reverifyInterval, at the start */
	/* Of repositories: */
	const char *root;               /* site.repositories */
	const char *data;               /* site.data */
	bool verifies;                  /* the site verifies them (verify_origin.h) */
	const struct hook_place *hooks; /* for a scan to check; NULL: not checked */
	/* Called for each change before it is recorded, outside of locks and
	 * transactions. */
	struct change_sink sink;
	/* At a secondary, where the repositories are copies (copies_root_check()):
	 * whether the root is the one they are in. A scan checks only synced copies, and
	 * treats only copies without a row as deleted. NULL: no copies. */
	int (*check_copies)(struct store *store, const char *kind, const char *root,
			    struct err *err);
	const struct kinds_here *kinds; /* that messages may name; NULL: repositories
					   only */
};

struct notice *notice_new(const struct notice_options *options);
void notice_free(struct notice *notice); /* NULL is allowed */

/* Called when a verification has become due; by any thread; must be short. Set it before
 * the first use of the notice. */
void notice_set_due(struct notice *notice, void (*due)(void *arg), void *arg);

/* The settings were read anew: sync.reverifyInterval from now on. Any thread. */
void notice_set_reverify(struct notice *notice, int64_t reverify_ms);

/* A time between half the interval and all of it from now, so that a thousand that arrive
 * at once are not verified at once. */
int64_t notice_next_verification(int64_t reverify_ms);

/* Compares one repository. The event is durable when it returns. ERR_MISSING: the
 * repository does not exist (any more); if it had a row, `deleted` was committed, but
 * only if its parent directory can be read and nothing of it is left. If it exists but
 * cannot be read (ERR_CORRUPT, ERR_CONFIG), the row says why (checksum NULL, event
 * committed once), and that error is returned. Nothing is recorded with ERR_CONFLICT (it
 * changes too fast, or is just being made) and ERR_DISK (site.repositories is missing, or
 * empty and another directory than before). *noticed is filled in any case; the caller
 * clears. If its `why` is empty then, the comparison itself failed (database, root): the
 * error says nothing of the repository, whatever its class. */
int notice_compare(struct notice *notice, const char *name, struct noticed *noticed,
		   struct err *err);

/* The same for callers that do not need the refs: noticed->refs may be empty. For a large
 * repository with few changes, most refs are not read then. */
int notice_compare_hint(struct notice *notice, const char *name, struct noticed *noticed,
			struct err *err);

/* The same as notice_compare(), for the verification that has claimed the row and reads
 * the objects after this. If the repository can be read again, older verifications are
 * void, but not this one. */
int notice_compare_claimed(struct notice *notice, const char *name,
			   const char *claim_token, struct noticed *noticed,
			   struct err *err);

/* The repository's name for a directory as given by a hook or a person: a path, absolute
 * or below the root, or a name. The caller frees; NULL: ERR_CONFIG: it is not below the
 * root, or not a valid repository name. */
char *notice_name_of(struct notice *notice, const char *path_or_name, struct err *err);

/* The same without a struct notice, for copies below this root. */
char *notice_name_below(const char *root, const char *path_or_name, struct err *err);

/* For `check`, which works without a node: 0, or -1 with ERR_DISK: site.repositories is
 * missing, or empty and not the directory in which repositories were seen. */
int notice_judge_root(struct store *store, const char *root, struct err *err);

/* For scans: checks everything below the root, by fingerprints alone where they prove
 * enough. Finds changes that hooks did not report: refs moved by hand, HEAD, created,
 * deleted, renamed. */
struct origin_kind notice_origin_kind(struct notice *notice);

/*
 * For any kind that is noticed here.
 */

struct origin_kind notice_kind(struct notice *notice, const struct kind *kind);

/* Compares any number of them. Events are durable when it returns. -1: recording stopped:
 * ERR_DISK: the kind's directory is missing; or the database failed. The caller clears
 * them in any case. The error of a single one is its `why`. */
int notice_compare_these(struct notice *notice, const struct kind *kind,
			 struct noticed *noticed, size_t count, struct err *err);

/* Compares one; also returns its `why` as the error. */
int notice_compare_this(struct notice *notice, const struct kind *kind,
			struct noticed *noticed, struct err *err);

#endif
