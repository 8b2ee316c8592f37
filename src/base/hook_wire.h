/*
 * What refrelay-hook and refrelay must agree on: names of files, the words on the node's
 * socket (change/hook_socket.h, change/spool.h), and the repository's state
 * (git/state.h, git/lock_owner.h).
 */
#ifndef BASE_HOOK_WIRE_H
#define BASE_HOOK_WIRE_H

#define HOOK_PROGRAM "refrelay-hook"

/* In the data directory. */
#define HOOK_SOCKET "node.sock"
#define HOOK_SPOOL "spool"

/* In a repository: a symbolic link to the data directory. */
#define HOOK_NODE_FOLDER "refrelay"
#define HOOK_NODE_LINK HOOK_NODE_FOLDER "/node"

/* In the data directory of a secondary: two lines, the primary's URL and the root of the
 * copies. While it is there, hooks refuse changes of the copies. */
#define HOOK_PRIMARY "primary"

/* A hook file of ours is two lines. The first has the kernel run the program:
 *	#!PROGRAM --hook
 * and where its path does not fit into such a line, a shell:
 *	#!/bin/sh
 *	exec 'PROGRAM' --hook "$0" "$@"
 */
#define HOOK_MARK "--hook"

/* Where the server's own hook runs all files of HOOK.d, ours is there under this name. */
#define HOOK_PART "refrelay"
#define HOOK_PARTS ".d"

/* What was there before ours, under its own name: HOOKS.refrelay-kept/HOOK, beside the
 * directory. Earlier versions renamed it to HOOKS/HOOK.refrelay-kept. */
#define HOOK_KEPT ".refrelay-kept"

/* In the environment of what a hook of ours runs: "<depth> <its git>", see
 * hook/hook_kept.c. */
#define HOOK_RUNNING "REFRELAY_HOOK_RUNNING"

#define HOOK_MESSAGE_MAX 4096
#define HOOK_ANSWER_MAX 65536
#define HOOK_WAIT_MS 1000 /* for the node's answer */

/* In the environment of what refrelay-run starts: its process number. A git right below
 * it that changes refs serves a push to the node, which records that by itself. */
#define HOOK_SUPERVISOR "REFRELAY_SUPERVISOR"

#define HOOK_CHANGED "changed "
#define HOOK_CHANGED_BLOB "changed-blob "
#define HOOK_ALIVE "alive"
#define HOOK_OK "ok"
#define HOOK_NO "no "

/* In a repository. */
#define STATE_FOLDER HOOK_NODE_FOLDER "/state"
#define STATE_KEY STATE_FOLDER "/key"
#define STATE_PENDING STATE_FOLDER "/pending"

#define STATE_KEY_DIGITS 32 /* hexadecimal; the file holds nothing else */

/* The hook's files: "git-<pid>-<start>-<random>". */
#define STATE_GIT_PREFIX "git-"

/* What is renamed when it is whole; housekeeping knows it by this and 16 random digits.
 */
#define STATE_TEMPORARY ".tmp-"

/* The one line of a pending file, which tells who made it. */
#define OWNER_LOCK "refrelay lock"       /* holds an flock on it as long as it lives */
#define OWNER_PROCESS "refrelay process" /* for a process that knows nothing of it */
#define OWNER_BOOT " boot="
#define OWNER_PIDNS " pidns="
#define OWNER_PID " pid="
#define OWNER_START " start=" /* field 22 of /proc/PID/stat */
#define OWNER_LINE_MAX 256

#endif
