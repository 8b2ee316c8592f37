/*
 * A person's commands for the queue: tasks that were given up, or wait for their next
 * try, are tried now or discarded. A key names a dead letter, a waiting task, or
 * everything queued for a destination. Any thread, any process, also while nodes run.
 */
#ifndef PUSH_ACT_H
#define PUSH_ACT_H

#include "base/thread.h"
#include "push/queue_view.h"

/* The fewest digits of a key that are accepted in its place. */
#define PUSH_KEY_LEAST 6

/* Whether a word stands for a key. */
bool push_key_is(const char *word, const char *key);

enum push_act_end {
	PUSH_ACT_PUT_BACK,    /* it had been given up and waits again */
	PUSH_ACT_DUE,         /* it waits and is due now */
	PUSH_ACT_DISCARDED,   /* a task */
	PUSH_ACT_UNREQUESTED, /* a request was discarded */
	PUSH_ACT_BUSY,        /* unchanged: it is being pushed */
	PUSH_ACT_ORPHAN,      /* unchanged: no longer pushed by any remote */
	PUSH_ACT_ENDS,
};

/* "put_back", "due", "discarded", "discarded", "busy", "orphan". */
const char *push_act_end_name(enum push_act_end end);

/* The outcome of one entry; borrowed. */
struct push_acted {
	enum push_act_end end;
	const char *key, *remote, *project, *uri;
	const char *request;   /* the word of a discarded request, else NULL */
	const struct err *why; /* of a busy one, else NULL */
};

struct push_act {
	struct task_store *tasks; /* borrowed, as all */
	struct lease_manager *leases;
	const struct push_settings *settings;
	const char *operation;      /* the operation shown in leases */
	const struct stop *stop;    /* ends the waits for busy entries */
	const char *const *keys;    /* or at least PUSH_KEY_LEAST digits of each, and
				       enough to be unique */
	size_t key_count;           /* 0: everything of the remotes */
	const char *const *remotes; /* ends in NULL; NULL: all */
	bool is_forced;             /* retry: allows deletions that a push was held for;
				       where none waits, only if a key names it */
	bool is_orphans;            /* discard: entries that no remote takes, instead of
				       keys */
	bool is_dry;                /* discard: only reports what it would do */
	/* Called for each entry. */
	void (*tell)(void *arg, const struct push_acted *acted);
	void *arg;
};

struct push_act_result {
	size_t done, busy, orphans;
	text_list unknown; /* keys without a match */
};
#define AUTO_PUSH_ACT_RESULT __attribute__((cleanup(push_act_result_clear)))
void push_act_result_clear(struct push_act_result *result);

/* Act on the entries of `view`. They wait for busy ones, 2 seconds each and 5 in total,
 * then count them. ERR_CONFIG: a key names the work of several destinations, and nothing
 * was done. After another failure some may be done. Nodes notice the changes by
 * themselves; wake them to make them look now. */
int push_act_retry(const struct push_act *act, struct queue_view *view,
		   struct push_act_result *result, struct err *err);
int push_act_discard(const struct push_act *act, const struct queue_view *view,
		     struct push_act_result *result, struct err *err);

#endif
