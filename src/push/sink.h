/*
 * Turns a change of a repository into tasks: one for each destination URI whose remote
 * takes the repository and one of the refs, durable on return. A deletion or a changed
 * HEAD becomes a request. Registered as a change_sink (change/change_sink.h). Any thread,
 * any process.
 */
#ifndef PUSH_SINK_H
#define PUSH_SINK_H

#include "base/base.h"
#include "change/change_sink.h"
#include "push/settings.h"
#include "push/task_store.h"

struct push_sink;

/* `store` is borrowed; it keeps a reference to the settings. */
struct push_sink *push_sink_new(struct task_store *store, struct push_settings *settings);
void push_sink_free(struct push_sink *sink); /* NULL is allowed */
void push_sink_set(struct push_sink *sink, struct push_settings *settings);

struct change_sink push_sink_as_change_sink(struct push_sink *sink);

/* Adds tasks for all refs of each repository (`start`, replicateOnStartup): for the named
 * remotes (NULL: all) and URLs that contain `url` (NULL: all). Appends the keys of the
 * tasks. `now`: due at once. After a failure some tasks may exist. */
struct push_start_filter {
	const char *const *remotes; /* ends in NULL; NULL: all */
	const char *url;
	bool now;
};
int push_start_repositories(struct task_store *store,
			    const struct push_settings *settings,
			    const text_list *projects,
			    const struct push_start_filter *filter, text_list *keys,
			    struct err *err);

/* Makes a waiting task due, whatever its remote's delay; leaves others alone. */
int push_hurry(struct task_store *store, const struct push_settings *settings,
	       struct task *task, struct err *err);

#endif
