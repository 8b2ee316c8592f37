/*
 * What the parts of `refrelay repository` share: repository.c reads the command line,
 * repository_show.c prints rows, repository_ask.c has something done to them.
 */
#ifndef CLI_REPOSITORY_H
#define CLI_REPOSITORY_H

#include "base/vec.h"
#include "cli/site.h"
#include "cli/site_data.h"
#include "replicable/registry.h"

struct repository_call {
	const char *verb;
	const char *const *names;
	size_t name_count;
	const char *state; /* a state's name, or "held" or "gone"; NULL: any */
	bool takes_all, is_json, is_dry, waits, is_forced;
	struct site site;
	struct site_data data;
};

/* Calls `each` for the rows that the call names or filters, in the order of their names
 * (or as named). 0; 4 if a named one is not there (the others are done); -1. */
typedef int (*repository_each)(struct repository_call *call, struct registry_row *row,
			       void *arg, struct err *err);
int repository_walk(struct repository_call *call, repository_each each, void *arg,
		    struct err *err);

/* Exit status, or -1. At a secondary. */
int repository_list(struct repository_call *call, struct err *err);
int repository_show(struct repository_call *call, struct err *err);
int repository_ask(struct repository_call *call, struct err *err);

/* All verbs at a primary. */
int repository_origin(struct repository_call *call, struct err *err);

/* reverify NAME... at a primary. */
int repository_reverify_origin(struct repository_call *call, struct err *err);

#endif
