/*
 * What refrelay-hook and refrelay must agree on: names of files, and the words on the
 * node's socket (change/hook_socket.h, change/spool.h).
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

/* Behind the name of a hook that was there before ours. */
#define HOOK_KEPT ".refrelay-kept"

#define HOOK_MESSAGE_MAX 4096
#define HOOK_WAIT_MS 1000 /* for the node's answer */

#define HOOK_CHANGED "changed "
#define HOOK_OK "ok"
#define HOOK_NO "no "

#endif
