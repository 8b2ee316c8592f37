/*
 * Exclusive leases: at most one intended worker for a key, a bounded wait, a bounded
 * recovery when a holder dies. A lease is for efficiency; what makes late workers
 * harmless is its fence, a number that only grows from grant to grant of a key and that
 * every publication of refs checks (git/fence.h).
 *
 * One struct lease_manager a process and backend. It queues this process's waiters of a
 * key in the order they came, asks the backend on behalf of the first one, and its keeper
 * thread renews held leases. All calls are safe from any thread.
 *
 * Source: seeds 000 (key format, "Cannot obtain an exclusive lease"), 004 (bounded
 * wait, holder's job named to the waiter, holding without renewal).
 */
#ifndef LEASE_LEASE_H
#define LEASE_LEASE_H

#include "base/base.h"
#include "base/deadline.h"
#include "base/thread.h"
#include "base/vec.h"

struct lease_manager;
struct lease; /* a held lease */
struct store;

/* Defaults, in milliseconds. */
#define LEASE_TTL_MS 30000
#define LEASE_WAIT_MS 60000
#define LEASE_KILL_GRACE_MS 2000

#define LEASE_KEY_SIZE 512

/* A grant may be handed on within its process this many times, less one, with a fence one
 * higher each time: the next grant's fence is above all of these. */
#define LEASE_FENCES 32

/* The present or last holder of a lease. */
struct lease_holder {
	char key[LEASE_KEY_SIZE];
	uint64_t fence; /* of the latest grant; 0: never granted */
	uint64_t mark;  /* differs for each grant, also without a fence; 0: unknown */
	bool held;      /* granted and neither released nor lapsed */
	char node[64];  /* the holder's site.node */
	char boot_id[40];
	int64_t pid;
	char job[256];       /* "<job's id> <name>" for lease_job_split(); may be cut */
	char operation[32];  /* "sync", "repack", ... */
	int64_t acquired_at; /* wall ms, for people only */
	int64_t ttl_left_ms; /* <= 0: lapsed, or not held */
	bool is_dead;        /* proved: its process is gone, or was another boot's */
	char proof[64];      /* "alive", "dead: process is gone", "dead: other boot",
				"lapsed: alive but silent", "released", "unknown" */
};

typedef VEC(struct lease_holder) lease_holders;

/* How the grant before this one ended. */
enum lease_predecessor {
	LEASE_AFTER_NOBODY,  /* first grant ever */
	LEASE_AFTER_RELEASE, /* given up properly */
	LEASE_AFTER_DEATH,   /* its process is gone, or another boot's */
	LEASE_AFTER_LAPSE,   /* it stopped renewing, but may be alive: paused */
	LEASE_AFTER_FORCE,   /* released by an operator */
};

struct lease_options {
	const char *directory; /* local: guards and alive files; directory.h: all of it */
	const char *node;      /* NULL: the host's name */
	int64_t ttl_ms;        /* 0: LEASE_TTL_MS */

	/* For leases that a server keeps. There, `directory` is for the proofs of a death
	 * to others on this host (lease_server.h); NULL: no proofs. */
	const char *const *urls;
	size_t url_count;
	const char *user;          /* NULL: the server's default one */
	const char *password_file; /* NULL: none; read again at each connect */
	const char *ca_file;       /* NULL: the system's */
	/* Keys come whole. Those of this site begin with the prefix (NULL: none), as do
	 * the backend's own names, or match the pattern, in which * is any text and \
	 * quotes the next character (NULL: there are no others). */
	const char *prefix, *pattern;
	bool redlock_format;             /* like other programs' SET NX PX locks */
	int64_t poll_ms, poll_jitter_ms; /* for waiting with that; 0: 150 and 100 */
	bool logs_doubts; /* logs server settings that may lose leases, once each */
};

struct lease_request {
	const char *key;
	const char *operation; /* as in struct lease_holder */
	const char *job;       /* its id, as lease_job_new() makes it; NULL: a new one */
	const char *name;      /* what the work is on, for people; NULL: the key */
	uint64_t fence_floor;  /* the grant's fence is above it */
	int64_t wait_ms;       /* 0: do not wait */
	bool is_kept; /* renewed even where leases are not: held as long as a node runs */
	const struct stop *stop;     /* may be NULL */
	struct lease_holder *holder; /* gets the holder if it is held; may be NULL */
};

#define LEASE_JOB_SIZE 17 /* of a job's id: 16 hexadecimal digits */

/* A new id. Log lines of the job have it as job_id. */
void lease_job_new(char id[LEASE_JOB_SIZE]);

/* The parts of a holder's `job`: its id, or "", and the name, within that text. */
const char *lease_job_split(const char *job, char id[LEASE_JOB_SIZE]);

/* Opens the local backend: exclusion between all processes of this machine that use the
 * same store and directory, recovery from a death at once. The store is kept. */
int lease_manager_open_local(struct store *store, const struct lease_options *options,
			     struct lease_manager **manager, struct err *err);

/* The same to read leases only: writes nothing. Acquire and release fail. */
struct lease_manager *lease_manager_new_to_read(struct store *store,
						const struct lease_options *options);

/* Leases on a Redis server, or on an odd number of independent ones, of which a majority
 * decides (redis.c has the guarantees). Does not connect yet: each acquire reports a
 * server that is away, or one whose settings would lose leases, which are checked once it
 * is there. ERR_CONFIG: a url is invalid, or their number is even. */
int lease_manager_open_redis(const struct lease_options *options,
			     struct lease_manager **manager, struct err *err);

/* Releases held leases and ends the keeper. NULL is allowed. */
void lease_manager_close(struct lease_manager *manager);

/* Takes the lease. Waiters are served in the order they came, those of one process
 * strictly, those of several by the order in which they reached the backend, except that
 * a waiter behind a holder of its own process may come earlier.
 * ERR_BUSY: held by another, and wait_ms is 0 (text "Cannot obtain an exclusive lease
 * ..." names the holder); ERR_LOCK_TIMEOUT: still held after wait_ms ("Lock timeout
 * waiting for repo: ..."); ERR_LOCK_UNAVAILABLE: the lease store is away or refuses;
 * ERR_CANCELED: stop was requested; ERR_DISK and others: the backend cannot
 * be used, which says nothing about the lease. */
int lease_acquire(struct lease_manager *manager, const struct lease_request *request,
		  struct lease **lease, struct err *err);

/* Gives it up and frees the handle, whatever the result. Having lost it before is not an
 * error: it is logged. NULL is allowed. */
void lease_release(struct lease *lease);

/* Whether somebody waits for it, anywhere, except other programs that only poll. Asks the
 * backend: a request, if that is a server. */
bool lease_is_wanted(struct lease *lease);
uint64_t lease_fence(const struct lease *lease);
const char *lease_key(const struct lease *lease);
enum lease_predecessor lease_predecessor(const struct lease *lease);

/* ERR_LOST, REASON_LOCK_LOST once the lease is certainly or possibly no longer ours.
 * Cheap. */
int lease_check(struct lease *lease, struct err *err);

/* For work that failed with ERR_LOST: if the cause was that its lease ended, *err says
 * so, as lease_check() does. Where leases are never renewed, the same work would be too
 * long again, so it is not bad luck: ERR_TIMEOUT, REASON_LOCK_LOST. Other errors stay as
 * they are. Returns -1. */
int lease_blame(struct lease *lease, struct err *err);

/* For children that work under the lease: they are dead before it can pass to another.
 * Valid until release. */
struct deadline *lease_deadline(struct lease *lease);

/* A descriptor that each such child inherits (proc_request.keep_fds), so that a
 * contender sees that an orphan still runs. Valid until release; -1: none. */
int lease_guard_fd(const struct lease *lease);

/* Every key ever granted, or those that are held now; or one key, ERR_MISSING: it was
 * never granted. All three: ERR_LOCK_UNAVAILABLE as for lease_acquire(). */
int lease_list(struct lease_manager *manager, bool held_only, lease_holders *holders,
	       struct err *err);
int lease_inspect(struct lease_manager *manager, const char *key,
		  struct lease_holder *holder, struct err *err);

/* Takes the lease away from its holder: compare-and-release on the fence the operator
 * saw, and the fence is raised, so that the displaced holder cannot publish. Logged with
 * actor and reason. ERR_CONFLICT: held at another fence by now, or not held; ERR_MISSING:
 * never granted. */
int lease_force_release(struct lease_manager *manager, const char *key, uint64_t fence,
			const char *actor, const char *reason, struct err *err);

/* lease.wait, for waiters: 60 s if not set. */
int64_t lease_manager_wait_ms(const struct lease_manager *manager);

/* Since when the lease store has been silent or refusing; wall ms, and why. 0: it
 * answered the last request; a server or a shared directory, a few seconds ago. */
int64_t lease_manager_away_since(struct lease_manager *manager, struct err *why);

/* The key that guards a replicable: by default (seed 000)
 * geo_sync_ssf_service:<kind>:<id>. False: the format needs the name, which is NULL. */
bool lease_key_for(const struct lease_manager *manager, const char *kind, uint64_t id,
		   const char *name, char key[LEASE_KEY_SIZE]);

/* The key of anything else of this site. */
void lease_key_of_site(const struct lease_manager *manager, const char *text,
		       char key[LEASE_KEY_SIZE]);

/* A key that a person chose, as for `lease run`. ERR_CONFIG: too long, or empty. */
int lease_key_of_person(const struct lease_manager *manager, const char *text,
			char key[LEASE_KEY_SIZE], struct err *err);

#endif
