/*
 * Requests of people and programs for a mirror: "bring it now, with this watcher's
 * credential". A request becomes a row before it is confirmed, so that it survives a
 * crash; the mirror's next job takes all waiting ones. Any thread.
 *
 * Source: seed 004 (a job is one watcher's; a timeout puts it back).
 */
#ifndef MIRROR_REQUESTS_H
#define MIRROR_REQUESTS_H

#include "base/json.h"
#include "base/vec.h"
#include "lease/lease.h"
#include "store/store.h"

enum mirror_request_state {
	MIRROR_REQUEST_WAITING,
	MIRROR_REQUEST_RUNNING,
	MIRROR_REQUEST_DONE,
	MIRROR_REQUEST_FAILED,
};

struct mirror_request {
	char id[LEASE_JOB_SIZE];
	char *mirror;     /* owned, as all of these texts */
	char *watcher;    /* NULL: any that may */
	int64_t asked_at; /* wall ms, as all of these times */
	int64_t wait_ms;  /* for the lease: in all, but anew if nothing is left of it when
			     a worker begins; or for each try */
	bool is_once;     /* the requester waits for the end: one try */
	unsigned wishes;  /* as in the mirror's row (replicable/registry.h), for this
			     request's work alone */
	enum mirror_request_state state;
	int64_t attempts, next_at, started_at, ended_at;
	int64_t waited_ms; /* until its work began, the lease included */
	bool has_changed;
	char *commit, *branch; /* HEAD's now; NULL: it is unborn, or detached */
	char *checkout;        /* the path of the working tree that shows it, or NULL */
	/* Why it failed or waits again; or the error of the working tree. */
	char *class, *reason, *message, *remedy;
};

typedef VEC(struct mirror_request) mirror_requests;
#define AUTO_MIRROR_REQUEST __attribute__((cleanup(mirror_request_clear)))
#define AUTO_MIRROR_REQUESTS __attribute__((cleanup(mirror_requests_clear)))
void mirror_request_clear(struct mirror_request *request);
void mirror_requests_clear(mirror_requests *requests);

/* Writes it, and requests the mirror's row, in one transaction. Reads mirror, watcher,
 * wait_ms, is_once and wishes of *request; fills in id and asked_at. ERR_MISSING: the
 * mirror is being removed. */
int mirror_request_add(struct store *store, struct mirror_request *request,
		       struct err *err);

/* Fails all waiting and running requests of a mirror with that error: it is no longer
 * mirrored. */
int mirror_requests_refuse_in(struct store_tx *tx, const char *mirror,
			      const struct err *why, struct err *err);

/* Takes the waiting requests of a mirror that are due: they are running from now on. In
 * the order of their waits, since what one waits in vain the next ones wait, too; then
 * those of one watcher together, since one fetch may serve them. */
int mirror_requests_take(struct store *store, const char *mirror,
			 mirror_requests *requests, struct err *err);

/* Saves how it ended, or that it waits again. If this fails, it waits again as soon as
 * mirror_requests_hurry() can write it, and no job has its mirror. */
int mirror_request_save(struct store *store, const struct mirror_request *request,
			struct err *err);

/* The requester stops waiting: fails the request with that error, if it has not begun. 1:
 * failed; 0: it runs, or has ended; -1: error. */
int mirror_request_give_up(struct store *store, const char *id, const struct err *why,
			   struct err *err);

/* ERR_MISSING: not found, or removed already, seven days after its end. */
int mirror_request_get(struct store *store, const char *id,
		       struct mirror_request *request, struct err *err);

/* At a node's start: interrupted requests wait again. */
int mirror_requests_reset(struct store *store, struct err *err);

/* Removes those that ended seven days ago. */
int mirror_requests_expire(struct store *store, struct err *err);

/* Requests the rows of mirrors with waiting requests that are due. *any: whether there
 * were some. */
int mirror_requests_hurry(struct store *store, bool *any, struct err *err);

/* Requests a mirror's row without a request of its own; one that is to be removed, or was
 * meanwhile, is not wanted again by that. */
int mirror_requests_want_row(struct store *store, const char *name, struct err *err);

void mirror_request_set_failure(struct mirror_request *request, const struct err *why);
/* Clears the failure of an earlier try. */
void mirror_request_forget_failure(struct mirror_request *request);

/* As shown by `mirror sync --json` and GET /api/v1/jobs/ID; the caller owns it. `root`:
 * of the site's repositories. */
json_t *mirror_request_json(const struct mirror_request *request, const char *root);

#endif
