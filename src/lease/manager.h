/*
 * The inside of a lease manager, shared by manager.c, manager.c and manager.c.
 *
 * Lock order: manager->mutex, then a deadline's. Neither is held while the backend is
 * asked.
 */
#ifndef LEASE_MANAGER_H
#define LEASE_MANAGER_H

#include <pthread.h>
#include <sys/queue.h>

#include "base/map.h"
#include "lease/lease_backend.h"

TAILQ_HEAD(lease_list_head, lease);
TAILQ_HEAD(waiter_list_head, waiter);

/* Those of this process who want one key, in the order they came. The first one asks
 * the backend, when nobody here holds the key. Lives while it has waiters or a holder;
 * all guarded by the manager's mutex. */
struct waiter_queue {
	char *key; /* owned */
	struct waiter_list_head waiters;
	struct lease *holder;
	struct lease_grant handed; /* for the first waiter: see struct lease_attempt */
	struct lease_holder seen;  /* who was in the way of late */
};

struct waiter {
	TAILQ_ENTRY(waiter) link; /* guarded by the manager's mutex */
	struct lease_manager *manager;
	struct waiter_queue *queue;
	struct lease_attempt attempt;
	int turn_fd;   /* an eventfd: it is your turn; -1: it was at once */
	int64_t since; /* all by clock_boot_ms() */
	int64_t until;
	int64_t report_at; /* the next lease.waiting */
};

struct lease {
	TAILQ_ENTRY(lease) link; /* in manager->held */
	struct lease_manager *manager;
	struct waiter_queue *queue; /* NULL once lost */
	struct lease_grant grant;
	enum lease_predecessor predecessor;
	struct lease_holder self; /* as others of this process are told */
	struct deadline deadline;
	int64_t valid_until;             /* guarded by mutex */
	bool lost;                       /* guarded by mutex */
	struct lease_extension *renewal; /* guarded by mutex; while under way */
};

struct lease_manager {
	pthread_mutex_t mutex;
	struct lease_backend *backend; /* owned */
	struct map queues;             /* guarded by mutex; struct waiter_queue by key */
	struct lease_list_head held; /* guarded by mutex; lost ones too, until released */
	VEC(int) spare_hints; /* guarded by mutex; closing an inotify takes 10 ms */
	pthread_t keeper;
	pthread_cond_t keeper_wake;
	int64_t renew_at; /* guarded by mutex; INT64_MAX: nothing is held */
	bool closing;     /* guarded by mutex */
};

/* For how long a grant or a renewal counts, when it was sent at `sent_at`: 1 % and 2 ms
 * less than the backend grants, for clocks that differ in speed. */
int64_t lease_valid_until(const struct lease_manager *manager, int64_t sent_at);

/* When its children are to be killed, so that they are dead by then. */
int64_t lease_kill_at(const struct lease_manager *manager, int64_t valid_until);

/* This process as a holder; for what others of it are told. */
void lease_describe_self(const struct lease_manager *manager,
			 const struct lease_request *request,
			 struct lease_holder *holder);

/* Fills *err (ERR_BUSY) and request->holder, and logs it. Returns -1. */
int waiter_deny(struct waiter *waiter, struct err *err);

/* The queue's holder is no more, and whoever is first has the turn. `handed`, if not
 * NULL, is its grant, which the backend is to hear of from that one: returns false if
 * there is no such one. The queue may be gone then. */
bool queue_drop_holder_locked(struct lease_manager *manager, struct waiter_queue *queue,
			      const struct lease_grant *handed);

#endif
