/*
 * A replication task: refs of one repository to be pushed to one URI. Its file's content
 * and name are byte for byte those of Gerrit's replication plugin:
 *
 *	{"project":"p","refs":["refs/heads/main"],"uri":"git://h/p.git","remote":"r"}\n
 *
 * named by the SHA-1 of "p\n[refs/heads/main]\ngit://h/p.git\nr". Refs are in the order
 * of Java's HashSet, as in the plugin. A file's name is its identity: it is not
 * recomputed on reading. Plain data.
 */
#ifndef PUSH_TASK_H
#define PUSH_TASK_H

#include "base/base.h"
#include "base/str.h"
#include "base/vec.h"

#define TASK_KEY_SIZE 41
#define TASK_ALL_REFS "..all.."
#define TASK_SIZE_MAX ((size_t)64 << 20)

struct task {
	char *project, *uri, *remote; /* owned */
	text_list refs;               /* or TASK_ALL_REFS alone */
};
#define AUTO_TASK __attribute__((cleanup(task_clear)))
void task_clear(struct task *task);
/* Whether TASK_ALL_REFS is among its refs. */
bool task_is_all(const struct task *task);

/* Puts the refs into the order that Java's HashSet would give them when they are added
 * as they stand; drops repeated ones. */
void task_order(struct task *task);

/* Computed from the refs in their present order. */
void task_key(const struct task *task, char key[TASK_KEY_SIZE]);

/* Appends the file's content. */
void task_write(const struct task *task, struct str *out);

/* Any order of fields; "ref" (a text) instead of "refs". ERR_CORRUPT: not a task, or one
 * with an unknown field. */
int task_read(const char *text, size_t len, struct task *task, struct err *err);

#endif
