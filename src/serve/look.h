/*
 * How a repository stands at one moment, as far as its refs go: which directory it is,
 * its state key, whether a write is pending, and the fingerprint of the files that decide
 * its refs. Two looks between which nothing changed are the same; that is what answers
 * from memory and from disk stand on.
 *
 * The order is what makes it right (architecture, invariant 9): watch, list pending, read
 * the key, take the fingerprint; refs are read after all of these.
 */
#ifndef SERVE_LOOK_H
#define SERVE_LOOK_H

#include <sys/types.h>

#include "base/thread.h"
#include "git/fingerprint.h"
#include "git/inotify.h"
#include "git/state.h"

/* Why an answer must come from git itself, and is not kept. */
enum bypass {
	BYPASS_NONE,
	BYPASS_PENDING,    /* a write goes on */
	BYPASS_UNSETTLED,  /* changed so recently that its fingerprint proves nothing */
	BYPASS_CONFIG,     /* files elsewhere decide its refs: includes, links */
	BYPASS_UNWRITABLE, /* its state cannot be read or written */
	BYPASS_MOVING,     /* it changes faster than it can be read */
	BYPASS_UNREADABLE, /* git shows its refs, but what it shows is not understood */
	BYPASS_COUNT,
};

/* "pending", "unsettled", ...; static. */
const char *bypass_name(enum bypass bypass);

struct look {
	enum bypass bypass; /* with any but BYPASS_NONE only path counts */
	char *path;         /* of the repository on disk; owned */
	dev_t device;
	ino_t inode;
	bool is_closed; /* its config keeps it from being read over HTTP */
	bool is_watched;
	uint64_t epoch;     /* of the watch, if is_watched */
	unsigned recovered; /* dead writers that were cleaned up after on the way */
	char key[STATE_KEY_SIZE];
	struct fingerprint fingerprint;
};

struct look_request {
	const char *root;             /* site.repositories */
	const char *name;             /* of the repository; checked here */
	struct inotify *inotify;      /* NULL: do without */
	struct inotify_watch **watch; /* of this repository; one thread at a time; the
				       * caller disarms what is put there */
	int64_t pending_wait_ms;      /* so long a pending write is waited for */
	const struct stop *stop;      /* may be NULL */
};

/* A whole look. NAME.git is looked for first, then NAME; no symbolic link and no other
 * repository may be on the way. ERR_MISSING: there is none; ERR_CORRUPT, ERR_CONFIG: it
 * is none that git can read (whether files in it would hold git, repo_check_files, is for
 * who starts git to ask); ERR_CANCELED: stopped. With an unsettled fingerprint and no
 * watch it waits until it is settled (20 ms), on shared file systems it says
 * BYPASS_UNSETTLED. *look is to be cleared in any case. */
int look_take(const struct look_request *request, struct look *look, struct err *err);

/* Whether nothing can have changed between them. False if either is to be bypassed. */
bool look_is_same(const struct look *before, const struct look *after);

/* The cheap question before a whole look: whether the repository still stands where it
 * stood and its watch saw nothing. False where it cannot be told. */
bool look_still_stands(const struct look *look, struct inotify_watch *watch);

void observation_clear(struct look *look);

#endif
