/*
 * The inside of a lease manager, shared by manager.c, keeper.c and lease_ways.c.
 *
 * Lock order: manager->mutex, then a deadline's. Neither is held during calls of the
 * backend.
 */
#ifndef LEASE_MANAGER_H
#define LEASE_MANAGER_H

#include <pthread.h>
#include <sys/queue.h>

#include "base/map.h"
#include "lease/lease_backend.h"

/* Where leases are kept: decides which errors mean that it is away or refuses, and say
 * nothing about the lease. A server's all do; elsewhere those of disk, network and
 * permissions. */
enum lease_where {
	LEASE_UNTOLD,    /* unset: no error means that */
	LEASE_AT_HOST,   /* probed only when it was away */
	LEASE_IN_SHARE,  /* a directory, perhaps on another host's disk */
	LEASE_AT_SERVER, /* like the share, probed also while there are no requests */
};

/* How the managers of a site name keys, and hold leases; from [lease]. */
struct lease_ways {
	char *prefix;     /* owned; of keys on a server of several sites; NULL: none */
	char *run_prefix; /* owned; of the keys of `lease run` */
	char *key_format; /* owned; of replicables, NULL: the default */
	char *site, *repositories; /* owned; for the format's variables */
	int64_t wait_ms;           /* of commands and mirrors */
	enum lease_where where;
	bool is_patient; /* waits for one that is away, as long as for a lease */
	bool is_fixed;   /* no renewals: work longer than the ttl loses its lease */
	/* Not 0: waiters ask this often, give or take the jitter, and are not notified,
	 * do not queue, and are not handed leases. */
	int64_t poll_ms, poll_jitter_ms;
};

TAILQ_HEAD(lease_list_head, lease);
TAILQ_HEAD(waiter_list_head, waiter);

/* This process's waiters for one key, in the order they came. The first one asks the
 * backend, when this process does not hold the key. Lives while it has waiters or a
 * holder; all guarded by the manager's mutex. */
struct waiter_queue {
	char *key; /* owned */
	struct waiter_list_head waiters;
	struct lease *holder;
	struct lease_grant handed; /* for the first waiter: see struct lease_attempt */
	int64_t passed_until;      /* already has that, until then; 0: asks the backend */
	unsigned passes;           /* of the present grant, or the one in `handed`, that
				      the backend may not know */
	bool has_others;           /* other processes wait for the key */
	bool is_pass_untold;       /* the backend has not confirmed the latest pass */
	struct lease_holder seen;  /* the one in the way most recently */
};

struct waiter {
	TAILQ_ENTRY(waiter) link; /* guarded by the manager's mutex */
	struct lease_manager *manager;
	struct waiter_queue *queue;
	struct lease_request request; /* its job is job_text */
	char job_text[256];
	struct lease_attempt attempt;
	int turn_fd;     /* an eventfd: its turn has come; -1: had it at once */
	int64_t wait_ms; /* as requested */
	int64_t since;   /* all by clock_boot_ms() */
	int64_t until;
	int64_t report_at;    /* the next lease.waiting */
	int64_t passed_until; /* attempt.handed is ours, unless it is 0 */
};

struct lease {
	TAILQ_ENTRY(lease) link; /* in manager->held */
	struct lease_manager *manager;
	struct waiter_queue *queue; /* NULL once lost */
	struct lease_grant grant;
	char nonce[LEASE_NONCE_SIZE]; /* constant: the grant's */
	enum lease_predecessor predecessor;
	bool is_fixed;            /* constant: it is never renewed */
	struct lease_holder self; /* as described to this process's waiters */
	struct deadline deadline;
	int64_t valid_until; /* guarded by mutex */
	bool lost;           /* guarded by mutex */
	bool is_untold; /* guarded by mutex; another process gave it, and the backend has
			   not heard yet: it cannot be renewed */
	struct lease_extension *renewal; /* guarded by mutex; while under way */
};

/* What the backend is to be told of a grant that was handed on without it. */
struct pass_note {
	struct lease_grant grant; /* key "": nothing */
	struct lease_holder holder;
};

typedef VEC(struct pass_note) pass_notes;

struct lease_manager {
	pthread_mutex_t mutex;
	struct lease_backend *backend; /* owned */
	struct map queues;             /* guarded by mutex; struct waiter_queue by key */
	struct lease_list_head held; /* guarded by mutex; lost ones too, until released */
	VEC(int) spare_hints; /* guarded by mutex; closing an inotify takes 10 ms */
	pass_notes untold;    /* guarded by mutex; for the keeper to tell, at tell_at */
	int64_t tell_at;      /* guarded by mutex; boot ms */
	pthread_t keeper;
	pthread_cond_t keeper_wake;
	int64_t renew_at; /* guarded by mutex; INT64_MAX: nothing is held */
	bool closing;     /* guarded by mutex */
	struct lease_ways ways;
	struct map denials; /* guarded by mutex; struct denial by key */
	int64_t probe_at;   /* guarded by mutex; boot ms */
	int64_t asked_at; /* guarded by mutex; boot ms; by the keeper, which has no answer
			     yet; 0: not asking */
	int64_t away_since;     /* guarded by mutex; wall ms; 0: it is there */
	struct err away_reason; /* guarded by mutex */
};

void lease_ways_clear(struct lease_ways *ways);

/* Sets the ways that lease_manager_open() found; they are taken. Before the first
 * acquire. */
void lease_manager_set_ways(struct lease_manager *manager, struct lease_ways *ways);

/* pass.c: whether a grant that is valid until then may be handed on. */
bool pass_lasts(const struct lease_manager *manager, int64_t valid_until);

/* Whether this one may be as it is. */
bool pass_may_locked(const struct lease *lease);

/* Makes it that of the queue's first waiter, whose request this is. */
void pass_to_locked(struct lease *lease, const struct lease_request *request,
		    struct pass_note *note);

/* Tells the backend. Whoever has the grant now does not wait for this. 1: it is another's
 * by now; -1: no answer. */
int pass_tell(struct lease_manager *manager, const struct pass_note *note);

/* The keeper is to tell of a lease that another process gave. */
void pass_add_untold_locked(struct lease *lease);

/* Does so; gives the mutex away meanwhile. */
void pass_tell_untold_locked(struct lease_manager *manager);

/* keeper.c: the thread that renews held leases, until manager->closing. */
void *keeper_run(void *arg);

/* From now on the lease is held, and renewed unless it is fixed. */
void keeper_add_locked(struct lease_manager *manager, struct lease *lease);

/* Ends that: the lease may be freed. Whether it was ours to the last. */
bool keeper_remove_locked(struct lease_manager *manager, struct lease *lease);

/* Whether an error of the backend means that the lease store is away or refuses. */
bool keeper_is_away(const struct lease_manager *manager, const struct err *why);

/* Records the backend's error; NULL: it answered. Not under the mutex. */
void keeper_note_answer(struct lease_manager *manager, const struct err *why);

/* All of a backend's metrics exist from its start, so that a first loss is a rise from
 * 0. */
void lease_metrics_start(const struct lease_manager *manager);

/* An acquire that ended: ERR_NONE, or why it failed. */
void lease_count_acquire(const struct lease_manager *manager, enum err_class class,
			 int64_t waited_ms);
void lease_count_held(const struct lease_manager *manager, int by);
void lease_count_lost(const struct lease_manager *manager);
void lease_count_takeover(const struct lease_manager *manager);

/* Until when a grant or a renewal sent at `sent_at` counts: 1 % and 2 ms less than the
 * backend grants, for clocks that differ in speed. */
int64_t lease_valid_until(const struct lease_manager *manager, int64_t sent_at);

/* When its children are to be killed, so that they are dead by then. */
int64_t lease_kill_at(const struct lease_manager *manager, int64_t valid_until);

/* This process as a holder, as shown to its other waiters. */
void lease_describe_self(const struct lease_manager *manager,
			 const struct lease_request *request,
			 struct lease_holder *holder);

/* Fills *err (ERR_BUSY, ERR_LOCK_TIMEOUT) and request->holder; logs it. Returns -1. */
int waiter_deny(struct waiter *waiter, struct err *err);

/* The queue's holder has ended, and the first waiter has the turn. `handed`, if not NULL,
 * is its grant, which that waiter is to report to the backend: returns false if there is
 * no waiter. The queue may be gone then. */
bool queue_drop_holder_locked(struct lease_manager *manager, struct waiter_queue *queue,
			      const struct lease_grant *handed);

/* The error of a waiter whose time is up, for the thing called `name` and that holder;
 * without a node: the holder is unknown. */
int lease_say_timeout(const char *name, const struct lease_holder *holder,
		      struct err *err);

#endif
