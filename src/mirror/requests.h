/*
 * What people and programs ask of a mirror: "bring it now, with this watcher's
 * credential". A request is a row before anybody is told that it was taken, so that it
 * outlives a crash; the mirror's next job takes all that wait. Any thread.
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
	char *watcher;    /* NULL: whichever may */
	int64_t asked_at; /* wall ms, as all of these times */
	int64_t wait_ms;  /* for the lease: of all of it, or of each try */
	bool is_once;     /* who asked waits for the end: one try */
	unsigned wishes; /* for the mirror's row (replicable/registry.h); not kept here */
	enum mirror_request_state state;
	int64_t attempts, next_at, started_at, ended_at;
	int64_t waited_ms; /* until its work began, the lease included */
	bool has_changed;
	char *commit, *branch; /* what HEAD names now; NULL: it is unborn, or detached */
	char *checkout;        /* the path of the working tree that shows it, or NULL */
	/* Why it failed, or waits again; or what is wrong with the working tree. */
	char *class, *reason, *message, *remedy;
};

typedef VEC(struct mirror_request) mirror_requests;
#define AUTO_MIRROR_REQUEST __attribute__((cleanup(mirror_request_clear)))
#define AUTO_MIRROR_REQUESTS __attribute__((cleanup(mirror_requests_clear)))
void mirror_request_clear(struct mirror_request *request);
void mirror_requests_clear(mirror_requests *requests);

/* Writes it, and asks for the mirror's row, in one transaction. Of *request mirror,
 * watcher, wait_ms, is_once and wishes are read; id and asked_at are filled in.
 * ERR_MISSING: the mirror is to be removed. */
int mirror_request_add(struct store *store, struct mirror_request *request,
		       struct err *err);

/* All of a mirror that wait have failed by that: it is mirrored no more. */
int mirror_requests_refuse_in(struct store_tx *tx, const char *mirror,
			      const struct err *why, struct err *err);

/* Those of a mirror that wait and are due, oldest first: from now on they run. */
int mirror_requests_take(struct store *store, const char *mirror,
			 mirror_requests *requests, struct err *err);

/* How it ended, or since when it waits again. */
int mirror_request_save(struct store *store, const struct mirror_request *request,
			struct err *err);

/* Who asked waits no longer: fails it with that error, if nobody has begun. 1: it was so;
 * 0: it runs, or has ended; -1. */
int mirror_request_give_up(struct store *store, const char *id, const struct err *why,
			   struct err *err);

/* ERR_MISSING: there is none, or none any more: seven days after the end it is forgotten.
 */
int mirror_request_get(struct store *store, const char *id,
		       struct mirror_request *request, struct err *err);

/* At a node's start: what ran in its former life waits again, and what ended long ago
 * goes. */
int mirror_requests_reset(struct store *store, struct err *err);

/* Mirrors of which a request waits that is due by now are asked for again. *any: some. */
int mirror_requests_hurry(struct store *store, bool *any, struct err *err);

void mirror_request_set_failure(struct mirror_request *request, const struct err *why);
/* Of an earlier try. */
void mirror_request_forget_failure(struct mirror_request *request);

/* As `mirror sync --json` and GET /api/v1/jobs/ID give it; the caller owns it. `root`: of
 * the site's repositories. */
json_t *mirror_request_json(const struct mirror_request *request, const char *root);

#endif
