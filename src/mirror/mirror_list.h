/*
 * A section [mirrors "NAME"]: one place whose repositories are all mirrored, as selected
 * by its patterns and switches. Plain data, constant once read.
 */
#ifndef MIRROR_MIRROR_LIST_H
#define MIRROR_MIRROR_LIST_H

#include "base/setting.h"
#include "mirror/mirror_set.h"
#include "mirror/upstream_list.h"

struct mirror_list {
	char *name; /* of the section; owned, as all of these */
	struct upstream_source source;
	char *token_file;    /* for the list alone; NULL: none */
	char *ca_file;       /* of the list and its mirrors; NULL: the system's */
	text_list watchers;  /* names of the watchers of all its repositories */
	int64_t interval_ms; /* of the list, and of each upstream in it */
	/* Of each of its mirrors, as in struct mirror: */
	uint64_t depth;
	bool has_checkout, has_lfs;
	bool adopts; /* what is at its names already, whatever it is */
	char *webhook_secret_file;
};

extern const struct setting_table mirror_list_settings_table;

/* ERR_CONFIG names file, line and key. The caller clears the list in any case. */
int mirror_list_read(const struct conf *conf, const char *name, struct mirror_list *list,
		     struct err *err);
void mirror_list_clear(struct mirror_list *list);

/* Whether two lists of texts are the same, in this order. */
bool mirror_list_are_texts_same(const text_list *one, const text_list *other);
bool mirror_list_is_same(const struct mirror_list *one, const struct mirror_list *other);

/* The settings that decide which repositories are on the list, as a text: only lists with
 * the same text can be compared. The caller frees. */
char *mirror_list_question(const struct mirror_list *list);

#endif
