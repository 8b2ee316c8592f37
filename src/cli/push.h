/*
 * Shared by the parts of `refrelay push`: push.c reads the command line, the files of the
 * verbs do the rest.
 */
#ifndef CLI_PUSH_H
#define CLI_PUSH_H

#include "base/base.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/site.h"
#include "push/queue_view.h"
#include "push/settings.h"
#include "push/task_store.h"

/*
 * The context of commands about push: the site, the configuration of its remotes, the
 * task store and its leases. Opened without a node; a running one is not disturbed.
 */

struct push_site {
	struct site site;
	struct push_settings *settings;
	struct task_store *tasks;
	struct lease_manager *leases; /* the task store's; NULL: none yet, so read-only */
};

/* ERR_CONFIG: the site has no remote. `settings` NULL: push is not configured. */
int push_site_check_remotes(const struct site *site, const struct push_settings *settings,
			    struct err *err);

/* Store and leases of settings read before, for reading only. */
struct push_observation {
	struct task_store *tasks;     /* NULL: cannot be opened */
	struct lease_manager *leases; /* NULL: none yet, or cannot be opened */
	struct err why_not;           /* why not; ERR_NONE: they can */
};
int push_site_look(const struct push_settings *settings, const char *data,
		   struct push_observation *observation, struct err *err);
void push_observation_close(struct push_observation *observation);

/* The command line. */

struct push_call {
	const char *verb;
	char **words; /* operands: patterns, keys */
	size_t word_count;
	cli_words remotes; /* --remote */
	const char *url, *repository;
	int64_t timeout_ms; /* for --wait and wait; 0: none */
	bool takes_all, is_now, waits, is_json, is_detailed, is_failed, is_forced, is_dry;
	bool is_orphans, is_unreadable, is_verbose, is_quiet;
	struct push_site push;
};

/* Exit status, or -1. */
int push_start_run(struct push_call *call, struct err *err);
int push_list_run(struct push_call *call, struct err *err);
int push_queue_run(struct push_call *call, struct err *err);
int push_retry_run(struct push_call *call, struct err *err);
int push_discard_run(struct push_call *call, struct err *err);
int push_hand_back_run(struct push_call *call, struct err *err);
int push_wait_run(struct push_call *call, struct err *err);

/* Whether all named ones are in the configuration, or have entries in `view` (may be
 * NULL); prints the others. */
bool push_call_knows_remotes(const struct push_call *call, const struct queue_view *view);

/* Keys are printed shortened. */
#define PUSH_KEY_SHOWN 10

/* "refs/heads/a, refs/heads/b (+3)". */
void push_add_refs(const struct push_settings *settings, const text_list *refs,
		   struct str *out);

#endif
