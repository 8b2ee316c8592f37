/*
 * The bracket around git's change of refs: the pending file and the key of the
 * repository's state (git/state.h), for the git process that runs the hook
 * reference-transaction.
 */
#ifndef HOOK_HOOK_STATE_H
#define HOOK_HOOK_STATE_H

#include <stdbool.h>
#include <stddef.h>

/* "prepared": refs are locked and not changed yet. False: readers cannot be notified of
 * the change, so it must not happen; already reported to the user. */
bool hook_state_begin(int repository);

/* "committed" and "aborted": makes a new key, then removes the pending file. If the key
 * cannot be written, the file stays: once git ends it belongs to a dead writer, and
 * recovery makes the key. */
void hook_state_committed(int repository);
void hook_state_aborted(int repository);

/* Names the git process that runs us: "<pid>-<start>". */
void hook_state_git(char *text, size_t size);

/* Whether the node started the git that changes refs, to receive a push: then the node
 * knows, and records all refs of the push as one change. */
bool hook_state_is_of_node(void);

#endif
