/*
 * What the schedule knows of a URI, of the remotes whose threads URIs share, and of the
 * hosts with which they fail.
 *
 * `since` and `retry_at` are the file server's time, all others boot time.
 */
#ifndef PUSH_SCHEDULE_ENTRY_H
#define PUSH_SCHEDULE_ENTRY_H

#include <sys/queue.h>

#include "base/base.h"
#include "push/destination.h"

struct schedule_entry;
TAILQ_HEAD(schedule_list, schedule_entry);

/* One of the places that a remote's URLs lead to. */
struct schedule_share {
	char *name; /* owned */
	size_t running;
	bool is_configured;
};

/* A remote. Once made it stays, with 0 threads if it is not configured any more. */
struct schedule_lane {
	char *name; /* owned */
	size_t threads;
	VEC(struct schedule_share *) shares; /* owned; they stay, too */
	size_t share_limit;                  /* threads for one of them; 0: all */
	int64_t delay_ms; /* with the distribution interval taken into account */
	int64_t reschedule_ms, retry_ms;
	size_t running, waiting; /* entries */
	struct schedule_list ready;
};

/* Who fails together. It is open (`failures` > 0) from the first failure to the next
 * success; then one is let through at a time, to try it. */
struct schedule_host {
	size_t failures;
	int64_t probe_at;
	struct schedule_list parked; /* due, but they wait for a success */
};

enum entry_state {
	ENTRY_IDLE,    /* nothing waits: it can go */
	ENTRY_WAITING, /* not due */
	ENTRY_READY,   /* due; waits for a thread or a limit */
	ENTRY_PARKED,  /* due; waits for its host */
	ENTRY_RUNNING,
	ENTRY_ORPHAN, /* no remote takes it */
};

struct schedule_entry {
	/* The owner's; after a change schedule_place() is due. */
	char uri_key[URI_KEY_SIZE];
	char *uri, *remote, *project; /* owned */
	struct schedule_lane *lane;   /* NULL: no remote takes it */
	struct schedule_share *share; /* of the lane; NULL: without limit */
	struct schedule_host *host;   /* NULL: none that can fail */
	size_t tasks;
	unsigned requests; /* bits of enum uri_request */
	unsigned listed;   /* the same, while they are listed */
	bool is_urgent;    /* a request that waits for no delay */
	int64_t since;     /* of the oldest of these: */
	int64_t tasks_since, requests_since;
	uint64_t seen; /* how often there was news of its tasks */
	int64_t retry_at;
	bool is_host_failure; /* retry_at is because of the host */
	bool is_held;         /* retry_at is because its deletion waits for a person */

	/* The schedule's. */
	enum entry_state state;
	int64_t due_at, not_before, random_ms;
	int64_t short_of_bytes_since; /* 0: it is not */
	uint64_t bytes;
	bool is_released;                 /* its host is back: retry_at does not count */
	struct schedule_lane *counted_in; /* the lane that it is in, or runs in */
	struct schedule_share *runs_in;
	struct schedule_host *parked_in;
	size_t place;                     /* in the heap */
	TAILQ_ENTRY(schedule_entry) link; /* in `ready` or `parked` */
};

#endif
