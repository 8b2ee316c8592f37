/*
 * The state of a URI besides its tasks, shared by all nodes: refrelay/<uri key>, JSON,
 * replaced by one rename and synced. Written by the holder of the URI's lease; read by
 * anyone. And requests other than for refs: refrelay/requests/<uri key>.<word>, which
 * ends in "-now" once its serving has begun.
 */
#ifndef PUSH_URI_STATE_H
#define PUSH_URI_STATE_H

#include "base/base.h"
#include "push/task_store.h"

struct uri_state {
	char *uri, *remote, *project; /* owned */
	int64_t retry_at;             /* file server's wall ms; 0: none */
	uint64_t failures;            /* in a row */
	uint64_t lock_failures;       /* of these, because the destination's ref was
					 locked */
	int64_t failing_since;        /* 0: it does not fail */
	struct err failure;           /* class, text, remedy of the last */
	bool is_head; /* HEAD alone could not be set: refs do not wait for retry_at, nor
			 count these failures */
	int64_t held_since; /* a deletion of the repository waits for a person; 0: none */
	int64_t last_success_at;
	char node[128];    /* the one that tried last */
	text_list letters; /* keys of its latest dead letters; some may be gone */
};
#define AUTO_URI_STATE __attribute__((cleanup(uri_state_clear)))
void uri_state_clear(struct uri_state *state);

/* 1: read; 0: not there; -1: error. An unreadable file counts as absent and is logged. */
int uri_state_read(struct task_store *store, const char *uri_key, struct uri_state *state,
		   struct err *err);
int uri_state_write(struct task_store *store, const char *uri_key,
		    const struct uri_state *state, struct err *err);
int uri_state_remove(struct task_store *store, const char *uri_key, struct err *err);

/* Appends all that exist. */
typedef VEC(struct uri_state) uri_states;
void uri_states_clear(uri_states *states);
int uri_state_list(struct task_store *store, uri_states *states, struct err *err);

/* REQUEST_HEAD: make the destination's HEAD ours. The serving node first begins the
 * request and then reads HEAD, so that a change meanwhile makes a new request.
 * REQUEST_DELETE: the repository was deleted here. REQUEST_FORCE: an operator allowed the
 * deletions that a push was held for. */
enum uri_request { REQUEST_HEAD, REQUEST_DELETE, REQUEST_FORCE, URI_REQUESTS };
const char *uri_request_word(enum uri_request request);

struct requested {
	enum uri_request request;
	char uri_key[URI_KEY_SIZE];
	char *uri, *remote, *project; /* owned */
	int64_t since;                /* file's time */
};
void requested_clear(struct requested *requested);
typedef VEC(struct requested) requested_list;
void requested_list_clear(requested_list *list);

/* A permission was given for what was held then: after a day it is void, since nobody
 * knows what else a destination that was away for longer would lose by now. `now`: by the
 * file server's clock. */
bool uri_request_is_outdated(const struct requested *requested, int64_t now);

/* Durable when it returns 0; an existing one keeps its time. */
int uri_request_add(struct task_store *store, const struct destination *destination,
		    enum uri_request request, struct err *err);
/* 1: found, with its data; 0: not found. */
int uri_request_get(struct task_store *store, const char *uri_key,
		    enum uri_request request, struct requested *requested,
		    struct err *err);
/* From now on uri_request_add() makes another one. What has begun is found and listed as
 * the request until its end, so that whoever comes after one that died serves it again.
 */
int uri_request_begin(struct task_store *store, const char *uri_key,
		      enum uri_request request, struct err *err);
/* It failed: it has its first name again, which older versions know, too. */
int uri_request_put_back(struct task_store *store, const char *uri_key,
			 enum uri_request request, struct err *err);
int uri_request_end(struct task_store *store, const char *uri_key,
		    enum uri_request request, struct err *err);
/* Begun or not. */
int uri_request_remove(struct task_store *store, const char *uri_key,
		       enum uri_request request, struct err *err);
/* The same; durable when it returns 0. */
int uri_request_discard(struct task_store *store, const char *uri_key,
			enum uri_request request, struct err *err);
/* 1: some, of which *err tells the first, could not be read; the others are in the list.
 */
int uri_request_list(struct task_store *store, requested_list *list, struct err *err);

/* An inotify descriptor for requests that are added and removed; -1: not available. */
int uri_request_watch_fd(const struct task_store *store);
/* Empties it; returns whether there was anything. */
bool uri_request_hear(struct task_store *store);

#endif
