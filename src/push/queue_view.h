/*
 * The cluster's queue as people see it, read from the store alone: what waits, what runs
 * and where, since when, when it is tried next and why not yet. For `push queue`, `push
 * list`, status, metrics and the API.
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
	bool is_orphan; /* no remote in the configuration takes it */
	bool is_held;   /* its deletion waits for a person */
	char node[64];  /* where it runs, or was tried last; "" */
	text_list refs; /* of all its tasks, sorted, each once; or TASK_ALL_REFS */
	text_list keys; /* of its tasks */
	size_t waiting, running;
	bool is_requested[URI_REQUESTS];
	int64_t since; /* of the oldest task */
	int64_t running_since;
	int64_t next_at; /* when it is tried next at the earliest; 0: runs, or never */
	uint64_t failures;
	int64_t failing_since; /* 0: it does not fail */
	struct err failure;    /* the last; class ERR_NONE: none */
};

struct queue_view {
	int64_t now;                 /* file server's */
	VEC(struct queued_uri) uris; /* running ones first, then by next_at */
	dead_letters letters;
	struct unreadable unreadable;
	text_list nodes; /* that live */
};

/* `leases` NULL: what is in running/ runs, no matter where, and no nodes are listed.
 * `settings` NULL: nothing is known of remotes. */
int queue_view_read(struct task_store *store, struct lease_manager *leases,
		    const struct push_settings *settings, struct queue_view *view,
		    struct err *err);
void queue_view_clear(struct queue_view *view);
/* Leaves in it what a person asked for. */
struct queue_filter {
	const char *const *remotes; /* ends in NULL; NULL: all */
	bool failed_only;           /* what fails, is an orphan or was given up */
};
void queue_view_filter(struct queue_view *view, const struct queue_filter *filter);

/* Whether it is in the configuration, or there is something of it (`view` may be NULL).
 */
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
	int64_t oldest; /* since when the oldest task waits or runs; 0: none */
	const struct queued_uri *example; /* one that fails, or NULL */
};
void queue_view_sum(const struct queue_view *view, const char *remote,
		    struct remote_sum *sum);

#endif
