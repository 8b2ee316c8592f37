/*
 * What a person decides about the queue: what was given up, or waits for its next try, is
 * tried now; or it is forgotten. A key names what was given up, a waiting task, or all
 * that there is for a destination. Any thread, any process, beside nodes that run.
 */
#ifndef PUSH_ACT_H
#define PUSH_ACT_H

#include "base/thread.h"
#include "push/queue_view.h"

/* So many digits of a key are enough, at least, where one is asked for. */
#define PUSH_KEY_LEAST 6

/* Whether a word stands for a key. */
bool push_key_is(const char *word, const char *key);

enum push_act_end {
	PUSH_ACT_PUT_BACK,    /* it was given up, and waits again */
	PUSH_ACT_DUE,         /* it waits, and is due now */
	PUSH_ACT_DISCARDED,   /* a task */
	PUSH_ACT_UNREQUESTED, /* a request was discarded */
	PUSH_ACT_BUSY,        /* it is as it was: it is being pushed */
	PUSH_ACT_ORPHAN,      /* it is as it was: no remote pushes it any more */
	PUSH_ACT_ENDS,
};

/* "put_back", "due", "discarded", "discarded", "busy", "orphan". */
const char *push_act_end_name(enum push_act_end end);

/* What became of one entry; borrowed. */
struct push_acted {
	enum push_act_end end;
	const char *key, *remote, *project, *uri;
	const char *request;   /* the word of one that was discarded, else NULL */
	const struct err *why; /* of a busy one, else NULL */
};

struct push_act {
	struct task_store *tasks; /* borrowed, as all */
	struct lease_manager *leases;
	const struct push_settings *settings;
	const char *operation;      /* what holders of leases are shown to do */
	const struct stop *stop;    /* no longer waits for what is busy */
	const char *const *keys;    /* or at least PUSH_KEY_LEAST digits of each */
	size_t key_count;           /* 0: all that is of the remotes */
	const char *const *remotes; /* ends in NULL; NULL: all */
	bool is_forced;             /* retry: allows deletions that a push was held for */
	bool is_orphans;            /* discard: what no remote takes, in place of keys */
	bool is_dry;                /* discard: only says what it would do */
	/* Is told of each entry. */
	void (*tell)(void *arg, const struct push_acted *acted);
	void *arg;
};

struct push_act_result {
	size_t done, busy;
	text_list unknown; /* keys that named nothing */
};
#define AUTO_PUSH_ACT_RESULT __attribute__((cleanup(push_act_result_clear)))
void push_act_result_clear(struct push_act_result *result);

/* In what `view` has. What is busy is waited for, 2 seconds each and 5 together, then
 * counted. After a failure some may be done. Nodes look by themselves: to have them look
 * now wake them. */
int push_act_retry(const struct push_act *act, struct queue_view *view,
		   struct push_act_result *result, struct err *err);
int push_act_discard(const struct push_act *act, const struct queue_view *view,
		     struct push_act_result *result, struct err *err);

#endif
