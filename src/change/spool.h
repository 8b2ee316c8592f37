/*
 * data/spool/: what hooks told while no node answered. Each hook makes one file of its
 * own, "<time>.<pid>", written under a name with a dot in front, synced and renamed,
 * holding one path; so a torn one cannot be seen, and any number of hooks can write at
 * once. One thread reads it. ".late" says by its time that a hook waited in vain for the
 * node's answer: for some seconds others do not wait.
 */
#ifndef CHANGE_SPOOL_H
#define CHANGE_SPOOL_H

#include "base/base.h"
#include "change/notice.h"

/* Compares what the files name, each repository once, and removes them when that is
 * durable. One that cannot be read or makes no sense is moved to data/spool/bad and
 * logged; a repository that fails for now keeps its files. *count: how many were done. */
int spool_work(struct notice *notice, const char *data, size_t *count, struct err *err);

/* How many files there are. */
size_t spool_count(const char *data);

/* Whether there is anything. Cheap. */
bool spool_is_empty(const char *data);

#endif
