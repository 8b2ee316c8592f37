/*
 * The repositories that stand below a directory, at any depth: bare ones; what lies
 * inside a repository is not looked at, symbolic links are not followed.
 */
#ifndef REPLICABLE_DISCOVER_H
#define REPLICABLE_DISCOVER_H

#include "base/base.h"
#include "base/vec.h"

struct discovered {
	char *name;      /* owned */
	char *path;      /* below the root, as found; owned */
	bool is_damaged; /* part of what makes a repository is missing */
};

/* Something that a person should hear of. */
struct discover_finding {
	char *path;       /* below the root; owned */
	struct err err;   /* without the path */
	bool hides_names; /* repositories may stand there that were not seen */
	bool is_harmless; /* nothing that should be replicated is left out */
};

struct discovery {
	VEC(struct discovered) found; /* in byte order of their names, each once */
	VEC(struct discover_finding) findings;
	VEC(char *)
	mounts; /* folders below the root that are on another file system than
		 * what they stand in: paths, owned */
};

#define AUTO_DISCOVERY __attribute__((cleanup(discovery_clear)))

/* Walks the tree. -1 only if the root itself cannot be read; what cannot be read below
 * it is a finding. NAME and NAME.git side by side: the second is a finding. */
int discover(const char *root, struct discovery *discovery, struct err *err);
void discovery_clear(struct discovery *discovery);

/* Whether nothing is in the root but what refrelay, or mkfs, puts there; so it is where
 * there is no root. 1, 0; -1: it cannot be read. */
int discover_is_empty(const char *root, struct err *err);

/* Whether a finding may hide repositories, so that absence proves nothing. */
bool discovery_is_complete(const struct discovery *discovery);

/* The one of that name, or NULL. */
const struct discovered *discovery_find(const struct discovery *discovery,
					const char *name);

#endif
