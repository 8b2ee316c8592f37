/*
 * Whether mirrors have their places to themselves: what the disk says of that, beside
 * what names alone say (mirrors_read()).
 */
#ifndef MIRROR_MIRROR_PLACES_H
#define MIRROR_MIRROR_PLACES_H

#include "mirror/mirrors.h"

/* ERR_CONFIG names both: a mirror, and a repository below the root that differs from it
 * only in case, or stands at NAME without ".git"; two mirrors, or a mirror and a place of
 * another name, that are one by a symbolic link. A repository at NAME.git is the mirror's
 * own, or to be taken over. What cannot be read says nothing here. */
int mirrors_check_places(const struct mirrors *mirrors, const char *root,
			 struct err *err);

#endif
