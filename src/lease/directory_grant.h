/*
 * The inside of the directory backend: leases that this process holds in a directory,
 * and how it comes by them. Calls come from any thread.
 */
#ifndef LEASE_DIRECTORY_GRANT_H
#define LEASE_DIRECTORY_GRANT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/map.h"
#include "lease/directory_key.h"
#include "lease/lease_backend.h"

struct directory {
	struct lease_backend base;
	char *path;   /* owned; for people */
	int fd;       /* owned; its file system cannot be changed for another under us */
	dev_t device; /* that one */
	pthread_mutex_t mutex;
	struct map held; /* guarded by mutex; struct held by nonce */
};

/* A grant of ours, until its release. */
struct held {
	char name[KEY_NAME_SIZE];
	uint64_t number;
	int fd;          /* owned; the generation, flock'ed: its holder lives */
	int64_t beat_ns; /* its latest heartbeat; the keeper only, once it is granted */
	atomic_bool is_released;
	int users; /* guarded by the directory's mutex */
};

enum key_mode { KEY_FIND, KEY_MAKE };

/* Opens the key's directory; -1 with *err filled (ENOENT in it: there is none). */
int directory_open_key(const struct directory *directory, const char *key,
		       enum key_mode mode, struct err *err);

/* As the functions of struct lease_backend_ops. */
int directory_try_acquire(struct lease_backend *backend, struct lease_attempt *attempt,
			  struct err *err);
int directory_extend_all(struct lease_backend *backend, struct lease_extension *all,
			 size_t count, int64_t sent_at, struct err *err);
int directory_release(struct lease_backend *backend, struct lease_grant *grant,
		      enum lease_released *how, struct err *err);

/* The next generation, by an operator: made, and released. 0: done; 1: others were
 * quicker. */
int directory_take_away(const char *key, int key_fd, const struct key_view *view,
			struct err *err);

#endif
