/*
 * Fits a complete list to what is here, before it is taken (mirror/listed.h): what a
 * stranger's list names anew must not take the place of a repository of this site, and
 * what is mirrored already does not go because it has grown, or was archived. The list's
 * own thread.
 */
#ifndef MIRROR_LIST_FIT_H
#define MIRROR_LIST_FIT_H

#include "mirror/mirror_list.h"
#include "store/store.h"

struct list_fit_call {
	struct store *store;
	const struct mirror_list *list;
	const char *root;           /* of the clones */
	char *(*source)(int clone); /* as for mirror_places_find_taken() */
};

/* Changes said->chosen, and adds findings. */
int list_fit(const struct list_fit_call *call, struct upstream_list *said,
	     struct err *err);

#endif
