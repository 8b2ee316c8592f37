/*
 * Shared by the backends whose leases a server keeps: the proof of a death to others of
 * the same kernel, the waiters and their keys, leftovers at a server that did not answer,
 * and turns at few connections.
 *
 *	directory/server/alive/<pid>-<random>	flock'ed by a backend as long as it lives
 *	directory/server/guard/<the same>.<n>	flock'ed by a holder and its children
 *	directory/server/told/<the same>.<n>	a FIFO that wakes a waiter: its key may
 *						be free, or was given up for it
 *
 * The owner text names both (lease/owner.h). A contender of the same boot of the same
 * kernel that can lock both knows that the holder and its children are gone, unless the
 * guard says that the lease was given to another (lease/lease_give.h). A file that
 * it does not find proves nothing: it may be in another container. Names are random, so
 * no two are the same. Guards are reused once it is certain that no child has them open.
 *
 * All calls are safe from any thread. The mutex is held during short work on files only.
 */
#ifndef LEASE_LEASE_SERVER_H
#define LEASE_LEASE_SERVER_H

#include "base/map.h"
#include "lease/lease_backend.h"
#include "lease/local_files.h"
#include "lease/owner.h"

#define LEASE_SERVER_CHANNELS 4
#define LEASE_SERVER_ID_SIZE 33

/* What follows a key in a message. */
#define LEASE_TOLD_OFFER 1 /* a nonce: given up for it */
#define LEASE_TOLD_GUARD 2 /* and the guard that gives it */

struct server_guard {
	char name[OWNER_GUARD_SIZE];
	int fd; /* owned by the grant while is_used */
	bool is_used;
};

#define LEASE_GUARD_PATH_SIZE (OWNER_PATH_SIZE + OWNER_GUARD_SIZE)

/* A grant that its holder gave up for us. */
struct lease_offer {
	char nonce[LEASE_NONCE_SIZE];      /* "": none */
	char guard[LEASE_GUARD_PATH_SIZE]; /* of the former holder, which may have what it
					      takes to have the lease at once; or "" */
};

struct server_hint {
	char *key; /* owned */
	int fd;    /* the manager's, from lease_server_hint_open() */
	int watch; /* of the holder's alive file; -1: none */
};

/* The grant that another process gave to one of ours, until the server has heard. */
struct server_taken {
	char former[LEASE_NONCE_SIZE]; /* the server's */
	char nonce[LEASE_NONCE_SIZE];
	char *path; /* owned: of that one's guard */
	int fd;     /* owned: the same, with its lock */
};

/* A grant that an unanswered request may have left at one of the servers. */
struct server_leftover {
	char *key; /* owned */
	char nonce[LEASE_NONCE_SIZE];
	size_t place;    /* which server */
	int64_t next_at; /* when to remove it, again */
	int64_t until;   /* dropped then */
	bool was_absent; /* searched for once, and not found */
};

struct lease_server {
	char me[LEASE_SERVER_ID_SIZE]; /* this backend, unique among all */
	pthread_mutex_t mutex;
	pthread_cond_t freed;
	bool is_used[LEASE_SERVER_CHANNELS]; /* guarded by mutex */
	char *directory;                     /* owned; NULL: no proofs */
	bool is_prepared;                    /* guarded by mutex */
	bool leaves_proof; /* guarded by mutex; our alive file stays when we close */
	struct local_files files;              /* constant once prepared */
	VEC(struct server_guard) guards;       /* guarded by mutex */
	unsigned guard_count;                  /* guarded by mutex; ever made */
	VEC(struct server_hint) hints;         /* guarded by mutex */
	VEC(struct server_leftover) leftovers; /* guarded by mutex */
	VEC(struct server_taken) taken;        /* guarded by mutex */
	int control_fd; /* an eventfd: hints or leftovers came, or it closes */
	int inotify_fd;
	VEC(int)
	fifos;            /* guarded by mutex; the manager's hints that are such, by their
			     numbers from 1 on */
	struct map nexts; /* guarded by mutex; of leases that we hold: who waited behind,
			     as an owner's text, if it is of this kernel */
};

void lease_server_init(struct lease_server *server, const struct lease_options *options);
void lease_server_clear(struct lease_server *server);

/* The number of a channel, for the caller alone until it is given back; -1: none became
 * free by `until`. */
int lease_server_borrow(struct lease_server *server, int64_t until);
void lease_server_give_back(struct lease_server *server, int channel);

/* Fills in how the attempt's grant, or place in a line, is described to others: with its
 * guard, or a new one (attempt->guard_fd -1: there is none), and how its hint is told. */
void lease_server_describe(struct lease_server *server,
			   const struct lease_backend *backend,
			   struct lease_attempt *attempt, struct owner *owner);

/* The same for a grant that this holder has by now, with its guard. False: the grant has
 * been given up since. */
bool lease_server_describe_passed(struct lease_server *server,
				  const struct lease_backend *backend,
				  const struct lease_grant *grant,
				  const struct lease_holder *holder,
				  char text[OWNER_TEXT_SIZE]);

/* Ends the use of a guard; -1 is allowed. */
void lease_server_drop_guard(struct lease_server *server, int guard_fd);

/* Fills in holder.is_dead and holder.proof; *orphans: its children run, or another
 * process has what it gave (lease_give.h). hint_fd, unless -1, becomes readable when it
 * dies hereafter. */
void lease_server_judge(struct lease_server *server, struct owner *owner, int hint_fd,
			bool *orphans);

/* For a manager's hint_fd, which the caller closes; -1: errno. */
int lease_server_hint_open(struct lease_server *server);

/* hint_fd becomes readable when the key is signalled, until it is dropped. This replaces
 * the key it was for before, and gives what was offered for that. -1 is allowed. */
void lease_server_hint(struct lease_server *server, const char *key, int hint_fd,
		       struct lease_offer *offer);
void lease_server_drop_hint(struct lease_server *server, int hint_fd);
bool lease_server_has_hint(struct lease_server *server, const char *key);

/* Signals one key; NULL: all. */
void lease_server_signal(struct lease_server *server, const char *key);

/* Notifies a waiter of this kernel that the key may be free; false: it cannot be reached
 * this way. */
bool lease_server_tell(const struct owner *waiter, const char *key);

/* Of <directory>/<folder>/<file>: <directory>/<other>/<name>. Owned; NULL: the path is
 * not of that folder. */
char *lease_server_beside(const char *path, const char *folder, const char *other,
			  const char *name);

/* The path of a guard that is in use, or NULL. Owned. Under the mutex. */
char *lease_server_guard_path_locked(const struct lease_server *server, int guard_fd);

/* Writes a message for a waiter of this kernel, which has its key first. */
bool lease_server_write_told(const struct owner *reader, const char *message, size_t len);

/* Reads the text of a waiter, which has neither nonce nor fence; if it makes no sense,
 * *owner is empty. */
void lease_server_read_waiter(const char *text, struct owner *owner);

/* Keeps who waits behind a grant of ours, by its text; NULL or "": nobody. */
void lease_server_keep_next(struct lease_server *server, const char *key,
			    const char *text);

/* Reads inotify_fd, and signals the keys whose holders have died. */
void lease_server_take_deaths(struct lease_server *server);

/* Records that a grant that nobody holds may be there. */
void lease_server_add_leftover(struct lease_server *server, const char *key,
			       const char *nonce, size_t place);

void lease_server_poke(struct lease_server *server);

#endif
