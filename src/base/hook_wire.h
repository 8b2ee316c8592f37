/*
 * The conventions between refrelay-hook and refrelay: names of files, the words on the
 * node's socket (change/hook_socket.h, change/spool.h), and the repository's state
 * (git/state.h, git/lock_owner.h).
 */
#ifndef BASE_HOOK_WIRE_H
#define BASE_HOOK_WIRE_H

#include <stdbool.h>

#define HOOK_PROGRAM "refrelay-hook"

/* In the data directory. */
#define HOOK_SOCKET "node.sock"
#define HOOK_SPOOL "spool"

/* In a repository: a symbolic link to the data directory. */
#define HOOK_NODE_FOLDER "refrelay"
#define HOOK_NODE_LINK HOOK_NODE_FOLDER "/node"

/* In a copy: what it was last proved equal to (pull/copy_record.h). It stays when its
 * site becomes a primary. */
#define HOOK_COPY_RECORD HOOK_NODE_FOLDER "/copy"

/* In each data directory that a node has used. */
#define HOOK_DATABASE "refrelay.db"

/* In the data directory of a secondary: two lines, the primary's URL and the root of the
 * copies. While it exists, hooks refuse changes of the copies. */
#define HOOK_PRIMARY "primary"

/* A hook file of ours is two lines. The first has the kernel run the program:
 *	#!PROGRAM --hook
 * and where its path does not fit into such a line, a shell:
 *	#!/bin/sh
 *	exec 'PROGRAM' --hook "$0" "$@"
 */
#define HOOK_MARK "--hook"

/* Where the server's own hook runs all files of HOOK.d, ours has this name there. */
#define HOOK_PART "refrelay"
#define HOOK_PARTS ".d"

/* The hook that ours replaced, under its own name: HOOKS.refrelay-kept/HOOK, beside the
 * directory. Earlier versions renamed it to HOOKS/HOOK.refrelay-kept. */
#define HOOK_KEPT ".refrelay-kept"

/* In the environment of commands run by our hook: "<depth> <its git>", see
 * hook/hook_kept.c. */
#define HOOK_RUNNING "REFRELAY_HOOK_RUNNING"

#define HOOK_MESSAGE_MAX 4096
#define HOOK_ANSWER_MAX 65536
#define HOOK_WAIT_MS 1000 /* for the node's answer */

/* In the environment of refrelay-run's children: its process number. A git directly below
 * it that changes refs serves a push to the node, which records that by itself. */
#define HOOK_SUPERVISOR "REFRELAY_SUPERVISOR"

/* This boot's identity, 36 characters. Where /proc shows only processes (ProcSubset= of
 * systemd), it comes from the environment: with or without dashes (`%b` of a unit). */
#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_VARIABLE "REFRELAY_BOOT_ID"
#define BOOT_ID_LEN 36

/* Spells it as the kernel does; false: not a boot identity. */
static inline bool boot_id_read(const char *text, char id[BOOT_ID_LEN + 1])
{
	int len = 0;

	for (; *text && *text != '\n'; text++) {
		if (*text == '-')
			continue;
		if ((*text < '0' || *text > '9') && (*text < 'a' || *text > 'f'))
			return false;
		if (len == 8 || len == 13 || len == 18 || len == 23)
			id[len++] = '-';
		if (len == BOOT_ID_LEN)
			return false;
		id[len++] = *text;
	}
	id[len] = '\0';
	return len == BOOT_ID_LEN;
}

#define HOOK_CHANGED "changed "
#define HOOK_CHANGED_BLOB "changed-blob "
#define HOOK_ALIVE "alive"
#define HOOK_MIRRORS "mirrors"
#define HOOK_NO_MIRRORS "no-mirrors"
#define HOOK_NO_WORKERS "no-workers"
#define HOOK_OK "ok"
#define HOOK_NO "no "

/* In a repository. */
#define STATE_FOLDER HOOK_NODE_FOLDER "/state"
#define STATE_KEY STATE_FOLDER "/key"
#define STATE_PENDING STATE_FOLDER "/pending"

#define STATE_KEY_DIGITS 32 /* hexadecimal; the whole content */

/* The hook's files: "git-<pid>-<start>-<random>". */
#define STATE_GIT_PREFIX "git-"

/* Of files renamed once whole; housekeeping recognises them by this and 16 random digits.
 */
#define STATE_TEMPORARY ".tmp-"

/* The one line of a pending file, which names its maker. */
#define OWNER_LOCK "refrelay lock"       /* holds an flock on it as long as it lives */
#define OWNER_PROCESS "refrelay process" /* for a process that is unaware of it */
#define OWNER_BOOT " boot="
#define OWNER_PIDNS " pidns="
#define OWNER_PID " pid="
#define OWNER_START " start=" /* field 22 of /proc/PID/stat */
#define OWNER_LINE_MAX 256

#endif
