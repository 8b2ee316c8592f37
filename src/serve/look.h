/*
 * The state of a repository's refs at one moment: its directory, its state key, whether a
 * write is pending, and the fingerprint of the files that decide its refs. Two looks are
 * the same if nothing changed in between; answers from memory and from disk rely on that.
 *
 * The order makes it correct (architecture, invariant 9): watch, list pending, read the
 * key, take the fingerprint; refs are read after all of these.
 */
#ifndef SERVE_LOOK_H
#define SERVE_LOOK_H

#include <sys/types.h>

#include "base/thread.h"
#include "git/fingerprint.h"
#include "git/git_child.h"
#include "git/inotify.h"
#include "git/state.h"

/* Why an answer must come from git itself and is not cached. */
enum bypass {
	BYPASS_NONE,
	BYPASS_PENDING,    /* a write is in progress */
	BYPASS_UNSETTLED,  /* changed so recently that its fingerprint proves nothing */
	BYPASS_CONFIG,     /* files elsewhere decide its refs: includes, links */
	BYPASS_UNWRITABLE, /* its state cannot be read or written */
	BYPASS_MOVING,     /* it changes faster than it can be read */
	BYPASS_UNREADABLE, /* git shows its refs, but its output is not understood */
	BYPASS_COUNT,
};

/* "pending", "unsettled", ...; static. */
const char *bypass_name(enum bypass bypass);

struct look {
	enum bypass bypass; /* with any but BYPASS_NONE only path counts */
	char *path;         /* of the repository on disk; owned */
	dev_t device;
	ino_t inode;
	bool is_closed; /* its config forbids reading over HTTP */
	bool is_watched;
	uint64_t epoch;     /* of the watch, if is_watched */
	unsigned recovered; /* dead writers whose remains were cleaned up */
	char key[STATE_KEY_SIZE];
	char git[GIT_VERSION_SIZE]; /* another one may answer differently */
	struct fingerprint fingerprint;
};

struct look_request {
	const char *root;             /* site.repositories */
	const char *name;             /* of the repository; checked here */
	struct inotify *inotify;      /* NULL: not used */
	struct inotify_watch **watch; /* of this repository; one thread at a time; the
					 caller disarms the watch put here */
	int64_t pending_wait_ms;      /* how long to wait for a pending write */
	const struct stop *stop;      /* may be NULL */
};

/* A whole look. NAME.git is tried first, then NAME; the path must not lead through a
 * symbolic link or another repository. ERR_MISSING: not found; ERR_CORRUPT, ERR_CONFIG:
 * git cannot read it (code that starts git must check with repo_check_files() whether
 * files in it would block git); ERR_CANCELED: stopped. If the fingerprint is unsettled
 * and there is no watch, it waits until that is settled (20 ms); on shared file systems
 * it sets BYPASS_UNSETTLED. Clear *look in any case. */
int look_take(const struct look_request *request, struct look *look, struct err *err);

/* Whether a change between them is ruled out. False if either has a bypass. */
bool look_is_same(const struct look *before, const struct look *after);

/* A cheap check before a whole look: whether the repository is still in its place and its
 * watch saw nothing. False also if that cannot be determined. */
bool look_still_stands(const struct look *look, struct inotify_watch *watch);

void observation_clear(struct look *look);

#endif
