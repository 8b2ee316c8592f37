/*
 * The way back to Gerrit's plugin, which takes up what is flat in waiting/ and running/
 * at its start, and computes a task's name anew before it moves it. Any thread, any
 * process.
 */
#ifndef PUSH_HAND_BACK_H
#define PUSH_HAND_BACK_H

#include "lease/lease.h"
#include "push/task_store.h"

struct handed_back {
	size_t moved;   /* tasks that somebody who died had in running/ */
	size_t renamed; /* tasks under a name that the plugin would not find */
};

/* All tasks wait, under the plugin's names, and nothing that it cannot read is among
 * them. ERR_BUSY: a node lives, or somebody works on a URI; some may be done then. */
int push_hand_back(struct task_store *store, struct lease_manager *leases,
		   struct handed_back *done, struct err *err);

#endif
