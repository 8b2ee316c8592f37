/*
 * Which URI is pushed next, and when: by age of its oldest task, within the limits of its
 * remote, its repository, the node's memory and its host. Pure: without a clock, files or
 * threads; it belongs to one thread (the distributor).
 */
#ifndef PUSH_SCHEDULE_H
#define PUSH_SCHEDULE_H

#include "base/base.h"
#include "base/map.h"
#include "base/vec.h"
#include "push/destination.h"
#include "push/task.h"
#include <sys/queue.h>

/*
 * The schedule's data on URIs, on the remotes whose threads they share, and on the hosts
 * with which they fail.
 *
 * `since` and `retry_at` are the file server's time, all others boot time.
 */

struct schedule_entry;
TAILQ_HEAD(schedule_list, schedule_entry);

/* One of the places that a remote's URLs lead to. */
struct schedule_share {
	char *name; /* owned */
	size_t running;
	bool is_configured;
};

/* A remote. Once made it stays; with 0 threads if it is no longer configured. */
struct schedule_lane {
	char *name; /* owned */
	size_t threads;
	VEC(struct schedule_share *) shares; /* owned; they stay, too */
	size_t share_limit;                  /* threads for one of them; 0: all */
	int64_t delay_ms; /* the distribution interval is taken into account */
	int64_t reschedule_ms, retry_ms;
	size_t running, waiting; /* entries */
	struct schedule_list ready;
};

/* Destinations that fail together. It is open (`failures` > 0) from the first failure to
 * the next success; meanwhile one push at a time is let through, to try it. */
struct schedule_host {
	size_t failures;
	int64_t probe_at;
	struct schedule_list parked; /* due, but wait for a success */
};

enum entry_state {
	ENTRY_IDLE,    /* nothing waits: it can be removed */
	ENTRY_WAITING, /* not due */
	ENTRY_READY,   /* due; waits for a thread or a limit */
	ENTRY_PARKED,  /* due; waits for its host */
	ENTRY_RUNNING,
	ENTRY_ORPHAN, /* no remote takes it */
};

struct schedule_entry {
	/* The owner's; after a change call schedule_place(). */
	char uri_key[URI_KEY_SIZE];
	char *uri, *remote, *project; /* owned */
	struct schedule_lane *lane;   /* NULL: not taken by any remote */
	struct schedule_share *share; /* of the lane; NULL: without limit */
	struct schedule_host *host;   /* NULL: local, cannot fail */
	size_t tasks;
	unsigned requests; /* bits of enum uri_request */
	unsigned listed;   /* the same, while they are listed */
	bool is_urgent;    /* a request that waits for no delay */
	int64_t since;     /* of the oldest of these: */
	int64_t tasks_since, requests_since;
	uint64_t seen; /* how often its tasks have changed */
	int64_t retry_at;
	bool is_host_failure; /* retry_at is because of the host */
	bool is_head_failure; /* retry_at is because of HEAD: nothing else waits for it */
	bool is_held;         /* retry_at is because its deletion waits for a person */

	/* The schedule's. */
	enum entry_state state;
	int64_t due_at, not_before, random_ms;
	int64_t short_of_bytes_since; /* 0: it is not */
	uint64_t bytes;
	bool is_released;                 /* its host is back: ignore retry_at */
	bool was_released;                /* likewise before the last run, in vain */
	struct schedule_lane *counted_in; /* the lane that it is in, or runs in */
	struct schedule_share *runs_in;
	char *runs_for; /* the project when the run began: it may be another by now; owned
			 */
	struct schedule_host *parked_in;
	size_t place;                     /* in the heap */
	TAILQ_ENTRY(schedule_entry) link; /* in `ready` or `parked` */
};

struct schedule_limits {
	size_t repository_transfers;
	uint64_t bytes; /* 0: none */
	int64_t random_ms;
};

struct schedule {
	struct schedule_limits limits;
	/* For limits.bytes; asked when an entry becomes due. */
	uint64_t (*bytes_of)(void *arg, const char *project);
	void *arg;
	int64_t (*random)(int64_t below); /* 0 .. below - 1 */

	int64_t server_lead_ms; /* server's time minus boot time */
	int64_t placed_lead_ms; /* by which all entries were placed last */
	struct map entries;     /* by uri key */
	struct map hosts;
	struct map transfers; /* running ones, by project */
	VEC(struct schedule_lane *) lanes;
	VEC(struct schedule_entry *) heap; /* that wait, by due_at */
	size_t next_lane, running;
	uint64_t bytes_running;
	struct schedule_entry *reserved; /* gets bytes before all others */
};

void schedule_init(struct schedule *schedule);
void schedule_clear(struct schedule *schedule);

/* Reports the server's clock. Entries move if it was set. True: it was set back, by more
 * than an answer is late; no task or request is newer than now then, and each `retry_at`
 * must be set anew. */
bool schedule_set_clock(struct schedule *schedule, int64_t server_ms, int64_t now);

/* Applies changed delays and limits to waiting entries. */
void schedule_replace_all(struct schedule *schedule, int64_t now);

/* The lane of that name, made if missing with 0 threads. */
struct schedule_lane *schedule_lane(struct schedule *schedule, const char *name);

/* The lane's share of that name, made if missing. */
struct schedule_share *schedule_share(struct schedule_lane *lane, const char *name);

/* Call once threads and is_configured are set: each configured share may use all threads
 * but one for each other share, and at least one. So a place that takes connections and
 * stays silent cannot take the others' threads. */
void schedule_share_threads(struct schedule_lane *lane);

/* The host; NULL for "". */
struct schedule_host *schedule_host(struct schedule *schedule, const char *name);

struct schedule_entry *schedule_find(const struct schedule *schedule,
				     const char *uri_key);
struct schedule_entry *schedule_add(struct schedule *schedule, const char *uri_key);

/* Puts it where it belongs by the fields that its owner has set. An entry that neither
 * runs nor has anything waiting is freed: the pointer is invalid then. */
void schedule_place(struct schedule *schedule, struct schedule_entry *entry, int64_t now);

/* The next to be pushed now, which counts as running from then on; NULL: nothing is due.
 * Remotes for which `allows` (may be NULL) returns false are skipped. */
typedef bool (*lane_allowed)(void *arg, const struct schedule_lane *lane);
struct schedule_entry *schedule_next(struct schedule *schedule, int64_t now,
				     lane_allowed allows, void *arg);

/* When schedule_next can have more at the earliest, if nothing else happens; INT64_MAX:
 * never. */
int64_t schedule_next_at(const struct schedule *schedule, int64_t now);

/* A person asked for another try: each host that is down is tried at once, by one
 * push. */
void schedule_probe_all(struct schedule *schedule, int64_t now);

enum run_end {
	RUN_DONE,  /* everything claimed, if anything */
	RUN_BUSY,  /* it could not be tried: somebody else has the URI */
	RUN_LATER, /* not before retry_at: it failed, here or elsewhere */
};
enum host_end { HOST_UNKNOWN, HOST_ANSWERED, HOST_FAILED };

struct schedule_result {
	enum run_end end;
	enum host_end host;
	int64_t wait_ms;  /* with RUN_BUSY; 0: the remote's reschedule delay */
	int64_t retry_at; /* with RUN_LATER */
	bool is_host_failure;
};

/* It no longer runs. If tasks wait for it by now it is scheduled, else freed. */
void schedule_end(struct schedule *schedule, struct schedule_entry *entry,
		  const struct schedule_result *result, int64_t now);

/*
 * The order in which Java's HashSet walks through texts. Private to push/.
 */

/* Drops repeated names and puts the others in the order of a HashSet to which they were
 * added one by one as they stand. */
void java_order(text_list *names);

#endif
