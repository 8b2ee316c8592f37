/*
 * The cluster's queue for people, read from the store alone: the waiting and running
 * URIs, where and since when, when each is tried next and why not yet. For `push queue`,
 * `push list`, status, metrics and the API.
 */
#ifndef PUSH_QUEUE_VIEW_H
#define PUSH_QUEUE_VIEW_H

#include "base/base.h"
#include "base/json.h"
#include "lease/lease.h"
#include "push/dead_letters.h"
#include "push/nodes.h"
#include "push/settings.h"
#include "push/task_list.h"
#include "push/uri_state.h"

struct queued_uri {
	char *uri, *remote, *project; /* owned */
	char uri_key[URI_KEY_SIZE];
	bool is_running;
	bool is_orphan; /* not taken by any configured remote */
	bool is_held;   /* its deletion waits for a person */
	char node[64];  /* where it runs, or was last tried; "" */
	text_list refs; /* of all its tasks, sorted, each once; or TASK_ALL_REFS */
	text_list keys; /* of its tasks */
	size_t waiting, running;
	bool is_requested[URI_REQUESTS];
	int64_t since; /* of the oldest task */
	int64_t running_since;
	int64_t next_at; /* earliest next try; 0: it runs, or never */
	uint64_t failures;
	int64_t failing_since; /* 0: it does not fail */
	struct err failure;    /* the last one; class ERR_NONE: it does not fail */
};

struct queue_view {
	int64_t now;                 /* file server's */
	VEC(struct queued_uri) uris; /* running ones first, then by next_at */
	dead_letters letters;
	struct unreadable unreadable;
	text_list nodes; /* living ones */
};

/* `leases` NULL: tasks in running/ count as running, wherever, and nodes are not listed.
 * `settings` NULL: remotes are unknown. */
int queue_view_read(struct task_store *store, struct lease_manager *leases,
		    const struct push_settings *settings, struct queue_view *view,
		    struct err *err);
void queue_view_clear(struct queue_view *view);
/* Keeps only the entries that a person asked for. */
struct queue_filter {
	const char *const *remotes; /* ends in NULL; NULL: all */
	bool failed_only;           /* failing, orphaned or given up */
};
void queue_view_filter(struct queue_view *view, const struct queue_filter *filter);

/* Whether the remote is configured, or has entries in `view` (may be NULL). */
bool queue_view_knows_remote(const struct queue_view *view,
			     const struct push_settings *settings, const char *remote);

json_t *queue_view_json(const struct queue_view *view);
json_t *queued_uri_json(const struct queued_uri *uri);

/* "running", "waiting", "failing" (waits, having failed), "held", "orphan". */
const char *queued_uri_word(const struct queued_uri *uri);

/* One remote's share, for status and metrics. */
struct remote_sum {
	const char *remote;
	size_t waiting, running, failing, letters; /* URIs; dead letters */
	int64_t oldest; /* since when the oldest task waits or runs; 0: no task */
	const struct queued_uri *example; /* one that fails, or NULL */
};
void queue_view_sum(const struct queue_view *view, const char *remote,
		    struct remote_sum *sum);

#endif
