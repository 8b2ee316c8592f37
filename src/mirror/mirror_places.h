/*
 * Checks on disk that mirrors have their places to themselves, in addition to the check
 * of names in mirrors_read().
 */
#ifndef MIRROR_MIRROR_PLACES_H
#define MIRROR_MIRROR_PLACES_H

#include "mirror/mirrors.h"

/* ERR_CONFIG names both: a mirror, and a repository below the root that differs from it
 * only in case, or is at NAME without ".git"; or two mirrors, or a mirror and a place of
 * another name, that are the same through a symbolic link. A repository at NAME.git is
 * the mirror's own, or will be taken over. Unreadable places are ignored here. */
int mirrors_check_places(const struct mirrors *mirrors, const char *root,
			 struct err *err);

/* A name that a list wants to make a mirror of. */
struct mirror_place {
	const char *name, *url; /* borrowed */
	char *other; /* what has its place, below the root; NULL: it is free; owned */
};
typedef VEC(struct mirror_place) mirror_place_list;
#define AUTO_MIRROR_PLACES __attribute__((cleanup(mirror_place_list_clear)))
void mirror_place_list_clear(mirror_place_list *wanted);

/* Fills in `other`. A stranger chose these names, so less is taken over than of a
 * section: at NAME.git, and in NAME/.git, only a clone of that upstream. `source` is
 * given such a directory, and returns the URL that refrelay has recorded in it, which we
 * free, or NULL. -1: not all could be looked at. */
int mirror_places_find_taken(mirror_place_list *wanted, const char *root,
			     char *(*source)(int clone), struct err *err);

#endif
