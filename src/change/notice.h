/*
 * A change noticed: replicables of the primary compared with what is recorded of them,
 * and the differences made events. Hooks, inotify, scans, commands, uploads, webhooks and
 * readers all come through here; what they say is a hint where to look, never what is
 * recorded.
 *
 * Rows are read before the disk; row, event and generation are committed in one
 * transaction, on condition that the row is still the one compared with. So generation
 * and checksum always belong together, in whatever order concurrent comparisons end. Any
 * thread, any process.
 *
 * Of a repository, refs are read at one moment. Old values come from data/refs/<id>, the
 * snapshot recorded last; one that does not fit the row's checksum is ignored: the event
 * then has no list of changes. Of blobs see change/blob_notice.h.
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
	int64_t reverify_ms;   /* sync.reverifyInterval */
	/* Of repositories: */
	const char *root;               /* site.repositories */
	const char *data;               /* site.data */
	const struct hook_place *hooks; /* that a scan looks for; NULL: it does not */
	/* Told of each change before it is recorded; no lock and no transaction is held
	 * then. */
	struct change_sink sink;
	/* At a secondary, where the repositories are copies (copies_root_check()):
	 * whether the root is the one they are in. A scan looks only at copies that are
	 * synced, and only one that has no row any more is deleted. NULL: no copies. */
	int (*check_copies)(struct store *store, const char *kind, const char *root,
			    struct err *err);
	const struct kinds_here *kinds; /* that words name; NULL: repositories alone */
};

struct notice *notice_new(const struct notice_options *options);
void notice_free(struct notice *notice); /* NULL is allowed */

/* Called when contents of blobs are to be read; by any thread, and must be short. To be
 * set before the first use of the notice. */
void notice_set_due(struct notice *notice, void (*due)(void *arg), void *arg);

/* Compares one repository. The event is durable when it returns. ERR_MISSING: no
 * repository of that name (any more); if there was a row, `deleted` was committed, but
 * only when its parent directory can be read and nothing of it is left. A repository that
 * is there and cannot be read (ERR_CORRUPT, ERR_CONFIG): the row says why (checksum NULL,
 * event committed once), and that error is returned. Nothing is recorded with
 * ERR_CONFLICT (it changes too fast, or is just being made) and ERR_DISK
 * (site.repositories is away, or empty and another directory than before). *noticed is
 * filled in any case; the caller clears. */
int notice_compare(struct notice *notice, const char *name, struct noticed *noticed,
		   struct err *err);

/* The same for callers that do not need the refs: noticed->refs may be empty. Of a large
 * repository of which little has changed, most are not looked at then. */
int notice_compare_hint(struct notice *notice, const char *name, struct noticed *noticed,
			struct err *err);

/* The same for a repository's directory as a hook or a person names it: a path, absolute
 * or below the root, or a name. The name it stands for; the caller frees; NULL:
 * ERR_CONFIG, it is not below the root, or not the name of a repository. */
char *notice_name_of(struct notice *notice, const char *path_or_name, struct err *err);

/* The same where there is nothing to notice, but copies below this root. */
char *notice_name_below(const char *root, const char *path_or_name, struct err *err);

/* For `check`, which needs no node: 0, or -1 with ERR_DISK where site.repositories is
 * away, or empty and another directory than the one that repositories were seen in. */
int notice_judge_root(struct store *store, const char *root, struct err *err);

/* For scans: of everything below the root, fingerprints only where they prove enough.
 * Finds what no hook told: refs moved by hand, HEAD, created, deleted, renamed. */
struct origin_kind notice_origin_kind(struct notice *notice);

/*
 * Of any kind that is noticed here.
 */

struct origin_kind notice_kind(struct notice *notice, const struct kind *kind);

/* Compares them, whatever their number. Events are durable when it returns. -1: nothing
 * more is recorded: ERR_DISK: the kind's directory is away; or the database failed. The
 * caller clears them in any case. What is wrong with one is its `why`. */
int notice_compare_these(struct notice *notice, const struct kind *kind,
			 struct noticed *noticed, size_t count, struct err *err);

/* One, whose `why` is the error, too. */
int notice_compare_this(struct notice *notice, const struct kind *kind,
			struct noticed *noticed, struct err *err);

#endif
