/*
 * Where git writes in a push: all of it must lie in the repository. A link in it that
 * leads elsewhere would have who may push to one repository write outside of it, and of
 * the root. What git only reads, alternates among it, is the owner's choice.
 */
#ifndef SERVE_RECEIVE_PLACES_H
#define SERVE_RECEIVE_PLACES_H

#include "base/base.h"

/* `dir` is the repository. ERR_CONFIG names the first place that lies elsewhere. Links
 * that come there later, by who may write there anyway, are not seen. */
int receive_places_check(int dir, struct err *err);

#endif
