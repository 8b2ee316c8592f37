/*
 * The operations of a lease store: the local kernel (local.c), a directory that several
 * hosts share (directory.c), Redis servers (redis.c), a PostgreSQL database
 * (postgresql.c). One attempt at a time, with a plain answer: the manager does the
 * waiting, queueing, renewing and logging.
 *
 * Calls come from any thread. For one key the manager never makes two attempts at once,
 * and none while it holds that key.
 */
#ifndef LEASE_LEASE_BACKEND_H
#define LEASE_LEASE_BACKEND_H

#include "lease/lease.h"

#define LEASE_NONCE_SIZE 33
#define LEASE_NEXT_SIZE 40

/* Until the next one has what was given up for it, and released for us: our release would
 * delay that. */
#define LEASE_HEAD_START_US 2000

/* A granted lease, as its backend recognises it. */
struct lease_grant {
	char key[LEASE_KEY_SIZE];
	char nonce[LEASE_NONCE_SIZE]; /* of this grant only; "": none */
	uint64_t fence;
	int guard_fd;               /* owned; -1: none */
	char next[LEASE_NEXT_SIZE]; /* the backend's: who waited behind it; "": nobody, or
				       unknown */
	/* When it is released, and it may be handed to another process as it is: until
	 * when it is valid, boot ms; else 0. */
	int64_t valid_until;
	/* Since the backend granted it: so often it was handed on as it is, that release
	 * included. */
	unsigned passes;
};

#define LEASE_NO_GRANT ((struct lease_grant){ .guard_fd = -1 })

enum lease_outcome { LEASE_HELD, LEASE_GRANTED };

struct lease_attempt {
	/* Set by the manager. */
	const struct lease_request *request; /* wait_ms > 0: take a place in the line */
	int64_t sent_at;                     /* clock_boot_ms() before this attempt */
	int hint_fd;                         /* from hint_open, or -1 */

	/* A grant that this process gave up in favour of this attempt, not yet reported
	 * to the backend; or none. After a return of 0 the backend knows, and has cleared
	 * it. */
	struct lease_grant handed;

	/* The backend's mark for our place in the line; 0: none. It outlives attempts
	 * that end in LEASE_HELD or an error. */
	int64_t place;
	int guard_fd; /* the backend's, of that place; -1: none */

	/* The answer. */
	enum lease_outcome outcome;
	struct lease_grant grant;           /* if granted */
	int64_t valid_ms;                   /* if granted: from sent_at; 0: the ttl */
	enum lease_predecessor predecessor; /* if granted */
	struct lease_holder holder;         /* the one in the way, or before us */
	int64_t silent_ms; /* since the holder's last renewal; -1: unknown */
	bool orphans;      /* its children still run */
	bool has_others;   /* if granted: other processes wait for it */
	bool is_untold;    /* if granted: by the one before; the backend is to be told by
			      pass */
	int64_t retry_ms;  /* if held: ask again after this at the latest */
};

/* The grant's fence is above this: the repository's, those that its holder may have
 * handed on within its process since, and the next grant's with its own, which may have
 * been given in a store that has lost it. */
static inline uint64_t lease_attempt_floor(const struct lease_attempt *attempt)
{
	return attempt->request->fence_floor + 3 * LEASE_FENCES - 1;
}

/* One of several leases to renew. */
struct lease_extension {
	struct lease_grant grant; /* guard_fd is not used */
	bool lost;                /* the answer: no longer ours */
	bool unknown;             /* no answer; it stays ours until it lapses */
	struct lease *lease;      /* the manager's; NULL: released meanwhile */
};

enum lease_released {
	LEASE_RELEASED,
	LEASE_GONE, /* it was no longer ours; unchanged */
};

struct lease_backend;

struct lease_backend_ops {
	const char *name; /* as in lease.backend; for metrics and logs */

	/* A descriptor for poll, readable when a key that an attempt with it found held
	 * may be free; -1: not available, ask again after retry_ms. The manager closes
	 * it, and may use it for one key after another. */
	int (*hint_open)(struct lease_backend *backend);

	/* 0: see attempt->outcome. -1: the backend cannot be used (never ERR_BUSY). A
	 * grant counts from sent_at. */
	int (*try_acquire)(struct lease_backend *backend, struct lease_attempt *attempt,
			   struct err *err);

	/* Gives up attempt->place. */
	void (*leave)(struct lease_backend *backend, struct lease_attempt *attempt);

	/* Extends all for another ttl from sent_at, in one go. -1: unknown for all of
	 * them. 0: each is extended, lost or unknown; *err says why one is unknown. */
	int (*extend_all)(struct lease_backend *backend, struct lease_extension *all,
			  size_t count, int64_t sent_at, struct err *err);

	/* Reports that the grant was handed on to this process, or within it: it is that
	 * holder's now, with a fence above those reported for it before. If it has been
	 * handed on or given up again since, this changes nothing. *has_others as above.
	 * 1: it is another's by now. NULL: grants are not handed on this way. */
	int (*pass)(struct lease_backend *backend, const struct lease_grant *grant,
		    const struct lease_holder *holder, bool *has_others, struct err *err);

	/* Or hands it on to another process. Closes the guard in any case. -1: others
	 * must wait until it lapses. */
	int (*release)(struct lease_backend *backend, struct lease_grant *grant,
		       enum lease_released *how, struct err *err);

	/* Whether another process waits for the key: 1, 0, or -1. NULL: only grants show
	 * this. */
	int (*is_wanted)(struct lease_backend *backend, const char *key, struct err *err);

	/* Lists every key ever granted; list_held leaves out keys that are certainly not
	 * held. NULL: it would have to look at each all the same. The rest are as the
	 * functions of lease.h. */
	int (*list)(struct lease_backend *backend, lease_holders *holders,
		    struct err *err);
	int (*list_held)(struct lease_backend *backend, lease_holders *holders,
			 struct err *err);
	int (*inspect)(struct lease_backend *backend, const char *key,
		       struct lease_holder *holder, struct err *err);
	int (*force_release)(struct lease_backend *backend, const char *key,
			     uint64_t fence, struct err *err);

	void (*close)(struct lease_backend *backend);
};

/* The first member of each backend's own struct. */
struct lease_backend {
	const struct lease_backend_ops *ops;
	char node[64];
	int64_t ttl_ms;
	bool is_never_passed; /* although ops->pass exists */
	bool may_forget;      /* what pass() told, though not a grant */
};

/* Fills in the defaults of the options. */
void lease_backend_init(struct lease_backend *backend,
			const struct lease_backend_ops *ops,
			const struct lease_options *options);

/* This process as the holder of a grant: all but the key and the state. */
void lease_backend_describe(const struct lease_backend *backend,
			    const struct lease_request *request,
			    struct lease_holder *holder);

enum lease_in_the_way { LEASE_BEHIND_HOLDER, LEASE_BEHIND_WAITER, LEASE_BEHIND_ORPHANS };

/* When to ask again, if no hint comes: a little off the beat, so that those who wait do
 * not ask all at once. */
int64_t lease_retry_ms(const struct lease_attempt *attempt, enum lease_in_the_way what);

/* Fill *err for inspect and force_release, and return -1. */
int lease_report_never_granted(const char *key, struct err *err);
int lease_report_other_fence(const char *key, bool is_held, uint64_t is, uint64_t fence,
			     struct err *err);

/* Starts a manager over it; the backend is taken. */
struct lease_manager *lease_manager_new(struct lease_backend *backend);

#endif
