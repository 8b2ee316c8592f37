/*
 * All files below a kind's directory, in byte order of their ids, in bounded memory: the
 * names in the directories on the way down are held. Each file is examined when its turn
 * comes. Files added to a directory after it was listed are not seen: before a file
 * counts as gone because a walk did not show it, check for it once more.
 */
#ifndef BLOB_WALK_H
#define BLOB_WALK_H

#include "blob/file.h"

struct blob_finding {
	const char *path; /* below the root */
	const struct err *why;
	bool hides_names; /* it may contain blobs that are not seen */
};

struct blob_visitor {
	/* A regular file whose name can be an id. -1 ends the walk. */
	int (*file)(void *arg, const char *id, const struct blob_fingerprint *fingerprint,
		    struct err *err);
	/* Something else, or unreadable: a link, a socket, a name that is not an id, a
	 * directory without permission. May be NULL. */
	void (*finding)(void *arg, const struct blob_finding *finding);
	/* A directory, before it is read: "" is the root. May be NULL. */
	void (*directory)(void *arg, const char *path);
	void *arg;
};

/* Symbolic links are not followed. Left out silently: refrelay's own files
 * (".refrelay..."), and the root's "lost+found". A file that vanishes meanwhile is not
 * seen. ERR_CANCELED: stop. */
int blob_walk(const struct blob_kind *kind, const struct blob_visitor *visitor,
	      const struct stop *stop, struct err *err);

/* Whether that name in that directory ("": the root) is left out silently. */
bool blob_walk_leaves_out(const char *directory, const char *name);

/* The same for one directory below the root and everything below it; ERR_MISSING: it does
 * not exist. "" is the root. */
int blob_walk_below(const struct blob_kind *kind, const char *directory,
		    const struct blob_visitor *visitor, const struct stop *stop,
		    struct err *err);

#endif
