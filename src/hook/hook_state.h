/*
 * The bracket around a git's change of refs: the pending file and the key of the
 * repository's state, as git/state.h has them, for the git process that runs the hook
 * reference-transaction.
 */
#ifndef HOOK_HOOK_STATE_H
#define HOOK_HOOK_STATE_H

#include <stdbool.h>
#include <stddef.h>

/* "prepared": refs are locked and not changed yet. False: readers cannot be told of the
 * change, so it may not happen; this was complained of. */
bool hook_state_begin(int repository);

/* "committed" and "aborted": new key, then one pending file less. If the key cannot be
 * written, the file stays: git's end makes it a dead one's, and recovery makes the key.
 */
void hook_state_committed(int repository);
void hook_state_aborted(int repository);

/* Names the git process on whose behalf we are run: "<pid>-<start>". */
void hook_state_git(char *text, size_t size);

/* Whether the git that changes refs was started by the node, to take a push: then the
 * node knows, and records all refs of the push as one change. */
bool hook_state_is_of_node(void);

#endif
