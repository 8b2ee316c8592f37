/*
 * Reads the lists of [mirrors] periodically, with a thread for each, so that an
 * unresponsive one does not delay others. Stores complete lists in the database
 * (mirror/listed.h), and notifies the poll.
 */
#ifndef MIRROR_LIST_READER_H
#define MIRROR_LIST_READER_H

#include "mirror/poll.h"

struct list_readers;

struct list_readers_options {
	struct store *store;           /* borrowed, as all of these */
	const struct mirrors *mirrors; /* with their lists */
	struct mirror_poll *poll;
	const char *root;           /* of the clones */
	char *(*source)(int clone); /* as for mirror_places_find_taken() */
};

/* NULL: there are no lists. */
struct list_readers *list_readers_start(const struct list_readers_options *options);
void list_readers_stop(struct list_readers *readers); /* NULL is allowed */

/* For `check`: whether the list can be read, by its first page; *count: the number of
 * entries there. Errors as upstream_list_read(), and those of the token's file. */
int list_reader_try(const struct mirror_list *list, size_t *count, struct err *err);

#endif
