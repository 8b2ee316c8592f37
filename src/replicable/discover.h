/*
 * Finds the bare repositories below a directory, at any depth; does not search inside
 * repositories, or follow symbolic links.
 */
#ifndef REPLICABLE_DISCOVER_H
#define REPLICABLE_DISCOVER_H

#include "base/base.h"
#include "base/vec.h"

struct discovered {
	char *name;      /* owned */
	char *path;      /* below the root, as found; owned */
	bool is_damaged; /* a part of a repository is missing */
};

/* Something to be shown to a person. */
struct discover_finding {
	char *path;       /* below the root; owned */
	struct err err;   /* without the path */
	bool hides_names; /* unseen repositories may be there */
	bool is_harmless; /* not an omission: nothing to replicate is left out */
};

struct discovery {
	VEC(struct discovered) found; /* in byte order of their names, each once */
	VEC(struct discover_finding) findings;
	text_list mounts; /* folders below the root that are on another file system than
			     their parent: paths */
};

#define AUTO_DISCOVERY __attribute__((cleanup(discovery_clear)))

/* Walks the tree. -1 only if the root itself cannot be read; unreadable directories below
 * it are findings. NAME and NAME.git side by side: the second is a finding. */
int discover(const char *root, struct discovery *discovery, struct err *err);
void discovery_clear(struct discovery *discovery);

/* Whether the root contains only files that refrelay, or mkfs, puts there, or does not
 * exist. 1: empty; 0: not; -1: it cannot be read. */
int discover_is_empty(const char *root, struct err *err);

/* False if a finding may hide repositories, so that absence proves nothing. */
bool discovery_is_complete(const struct discovery *discovery);

/* The one of that name, or NULL. */
const struct discovered *discovery_find(const struct discovery *discovery,
					const char *name);

#endif
