/*
 * Tasks that were given up wait here with the reason, until a person decides, or a later
 * push accomplishes their purpose: refrelay/failed/<key> is the task's file, unchanged,
 * <key>.why (JSON) the reason. Any thread, any process.
 */
#ifndef PUSH_DEAD_LETTERS_H
#define PUSH_DEAD_LETTERS_H

#include "base/json.h"
#include "base/map.h"
#include "push/task_store.h"

struct ref_failure {
	char *ref, *text; /* owned */
};
typedef VEC(struct ref_failure) ref_failures;
void ref_failures_clear(ref_failures *failures);

/* Requires the URI's lease: gives the task up because of `why` (class, text, remedy);
 * `refs`: those that failed, each with its message. Durable. */
int task_store_fail(struct task_store *store, const struct claimed_task *task,
		    const struct err *why, const ref_failures *refs, struct err *err);

struct dead_letter {
	char key[TASK_KEY_SIZE];
	struct task task;
	int64_t since, failed_at;
	struct err why;
	ref_failures refs;
};
typedef VEC(struct dead_letter) dead_letters;
void dead_letters_clear(dead_letters *letters);
/* A task's key among them. */
void dead_letter_key(const struct claimed_task *task, char key[TASK_KEY_SIZE]);
/* Appends that letter, if it exists. */
void task_store_letter(struct task_store *store, const char *key, dead_letters *letters);
/* Removes it: the task was done after all. */
int task_store_forget(struct task_store *store, const char *key, struct err *err);
int task_store_dead_letters(struct task_store *store, dead_letters *letters,
			    struct err *err);
/* Brings a map of their keys to their remotes (owned) up to date: reads only those that
 * it lacks. */
int task_store_letter_remotes(struct task_store *store, struct map *remotes,
			      struct err *err);

/* Moves a dead letter back to waiting/ (due at once), or discards it or a waiting task.
 * ERR_MISSING: not found; ERR_BUSY: it is being pushed. */
int task_store_retry(struct task_store *store, const char *key, struct err *err);
int task_store_discard(struct task_store *store, const char *key, struct err *err);
/* When the waiting task was last discarded, by the file server's clock, for ten minutes
 * at least; 0: it was not. */
int task_store_discarded_at(struct task_store *store, const char *key, int64_t *at,
			    struct err *err);
/* Discards only the dead letter: the same task may have been added again and wait. */
int task_store_discard_letter(struct task_store *store, const char *key, struct err *err);

/* Members "class", "reason", "text" and "remedy"; secrets are masked. */
void err_put_json(json_t *object, const struct err *from);
void err_get_json(const json_t *object, struct err *to);

#endif
