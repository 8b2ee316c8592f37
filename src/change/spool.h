/*
 * data/spool/: reports of hooks to which the node did not answer. Each hook makes a
 * separate file, "<time>.<pid>", with one path, written under a name with a leading dot,
 * synced and renamed; so a torn one is never visible, and any number of hooks can write
 * at once. One thread reads it. The time of ".late" shows that a hook waited in vain for
 * the node's answer: for some seconds others do not wait.
 */
#ifndef CHANGE_SPOOL_H
#define CHANGE_SPOOL_H

#include "base/base.h"
#include "change/notice.h"

/* Compares the repositories named in the files, each once, and removes the files when
 * that is durable. An unreadable or invalid file is moved to data/spool/bad and logged;
 * if a repository fails temporarily its files stay. *count: how many were done.
 * *is_told: whether the log names a file that cannot be read now; kept by the caller, for
 * the next time. */
int spool_work(struct notice *notice, const char *data, bool *is_told, size_t *count,
	       struct err *err);

/* How many files there are. */
size_t spool_count(const char *data);

/* Whether it is empty. Cheap. */
bool spool_is_empty(const char *data);

#endif
