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

#endif
