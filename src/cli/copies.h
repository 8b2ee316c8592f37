/*
 * Shared by `refrelay repository` and `refrelay blob`: their verbs work on rows, of one
 * kind or several. copies.c reads the command line and has the rows worked on,
 * copies_show.c prints rows.
 */
#ifndef CLI_COPIES_H
#define CLI_COPIES_H

#include "base/thread.h"
#include "base/vec.h"
#include "cli/site.h"
#include "pull/kinds.h"
#include "replicable/registry.h"

struct copies_call;

/* The differences between the two. */
struct copies_command {
	const char *name;      /* "repository" */
	const char *one, *all; /* "repository", "repositories": for people, and in JSON */
	const char *word;      /* for an operand: "NAME" */
	bool has_types;        /* accepts --type; else it works on repositories */
	/* The name that a word stands for; the caller frees. */
	char *(*name_of)(const char *word);
	/* Puts a copy into the trash, at a person's request; its row is already
	 * deleted. */
	int (*discard)(struct copies_call *call, const struct registry_row *row,
		       const struct stop *stop, struct err *err);
};

struct copies_call {
	const struct copies_command *command;
	const char *verb;
	char **names;
	size_t name_count;
	const char *state; /* a state's name, or "held" or "gone"; NULL: any */
	const char *type;  /* of blobs; NULL: all configured ones */
	bool takes_all, is_json, is_dry, waits, is_forced, is_quiet;
	struct site site;
	struct site_data data;
	struct kinds_here types;
	VEC(const char *) kinds; /* of the request; borrowed */
	int64_t now;             /* of list and show: wall ms by the primary's clock */
	json_t *shown;           /* the objects of show, if they are several */
	size_t shown_count;
};

int copies_run(struct cli *cli, const struct copies_command *command, char **argv);

/* For --state; end in NULL. */
extern const char *const copies_states[];

/* Calls `each` for the rows named or filtered by the call, kind by kind, in the order of
 * their names (or as named). 0; 4 if a named one is missing (the others are done); -1. */
typedef int (*copies_each)(struct copies_call *call, struct registry_row *row, void *arg,
			   struct err *err);
int copies_walk(struct copies_call *call, copies_each each, void *arg, struct err *err);

/* The same for names only: `each` fails with ERR_MISSING for a missing one. */
typedef int (*copies_each_name)(struct copies_call *call, const char *name, void *arg,
				struct err *err);
int copies_walk_names(struct copies_call *call, copies_each_name each, void *arg,
		      struct err *err);

/* Exit status, or -1. At a secondary. */
int copies_list(struct copies_call *call, struct err *err);
int copies_show(struct copies_call *call, struct err *err);

/* All verbs at a primary. */
int copies_origin(struct copies_call *call, struct err *err);

/* reverify NAME... at a primary. */
int copies_reverify_origin(struct copies_call *call, struct err *err);

#endif
