/*
 * replicateOnStartup is once a cluster: who comes while no other node lives makes tasks
 * for all repositories. The lease push:startup is held meanwhile, so that of nodes that
 * start together only one does; the others find its presence.
 */
#include "base/clock.h"
#include "base/log.h"
#include "push/nodes.h"
#include "push/push_parts.h"

#define WAIT_MS 60000
#define RETRY_MS 10000

static int startup_acquire_lease(struct push *push, const char *key, int64_t wait_ms,
				 struct lease **lease, struct err *err)
{
	struct lease_request request = {
		.key = key, .operation = "push", .wait_ms = wait_ms, .stop = &push->ending
	};

	return lease_acquire(push->options.leases, &request, lease, err);
}

static int take_presence(struct push *push, int64_t wait_ms, struct err *err)
{
	AUTO_FREE char *key = push_node_lease(push->options.node);
	struct lease *presence = NULL;

	if (push_nodes_note(push->options.tasks, push->options.node, err) != 0 ||
	    startup_acquire_lease(push, key, wait_ms, &presence, err) != 0)
		return -1;
	lock(&push->mutex);
	push->presence = presence;
	unlock(&push->mutex);
	return 0;
}

/* Once startup is over, only the distributor changes it. */
void presence_keep(struct push *push)
{
	struct lease *presence = NULL;
	bool is_present;

	lock(&push->mutex);
	is_present = push->is_present;
	presence = push->presence;
	unlock(&push->mutex);
	if (!is_present || (presence && lease_check(presence, ERR_IGNORED) == 0))
		return;
	lock(&push->mutex);
	push->presence = NULL;
	unlock(&push->mutex);
	lease_release(presence);
	take_presence(push, 0, ERR_IGNORED);
}

/* 1: another node lives; 0: none. */
static int is_other_alive(struct push *push, struct err *err)
{
	push_nodes nodes = { 0 };
	int result =
		push_nodes_living(push->options.tasks, push->options.leases, &nodes, err);
	bool is_alive = false;

	for (size_t i = 0; i < nodes.count; i++)
		is_alive |= strcmp(nodes.items[i], push->options.node) != 0;
	push_nodes_clear(&nodes);
	return result == 0 ? is_alive : -1;
}

static void keys_clear(task_keys *keys)
{
	for (size_t i = 0; i < keys->count; i++)
		free(keys->items[i]);
	vec_clear(keys);
}

static int make_tasks(struct push *push, const task_keys *names,
		      const struct push_settings *settings, task_keys *keys,
		      struct err *err)
{
	const struct push_start_filter all = { 0 };

	if (push_start_repositories(push->options.tasks, settings, names, &all, keys,
				    err) != 0)
		return err_prefix(err, "replicateOnStartup");
	log_info("push.startup", LOG_NUMBER("repositories", names->count),
		 LOG_NUMBER("tasks", keys->count));
	return 0;
}

static int replicate_all(struct push *push, const struct push_settings *settings,
			 struct err *err)
{
	task_keys names = { 0 }, keys = { 0 };
	int result = push->options.names(push->options.arg, &names, err);

	if (result == 0)
		result = make_tasks(push, &names, settings, &keys, err);
	keys_clear(&names);
	keys_clear(&keys);
	return result;
}

/* Under the lease push:startup. */
static int startup_begin_leased(struct push *push, const struct push_settings *settings,
				struct err *err)
{
	int alive = is_other_alive(push, err);

	if (alive < 0 || (alive == 0 && settings->replicates_on_startup &&
			  push->options.names && replicate_all(push, settings, err) != 0))
		return -1;
	return take_presence(push, WAIT_MS, err);
}

static int try(struct push *push, const struct push_settings *settings, struct err *err)
{
	struct lease *lease = NULL;

	if (startup_acquire_lease(push, PUSH_STARTUP_LEASE, WAIT_MS, &lease, err) != 0)
		return -1;
	int result = startup_begin_leased(push, settings, err);
	lease_release(lease);
	return result;
}

void *startup_run(void *arg)
{
	struct push *push = arg;
	struct push_settings *settings = push_settings_of(push);
	struct err err;

	while (try(push, settings, &err) != 0) {
		if (stop_is_requested(&push->ending))
			break;
		log_error("push.startup_failed", LOG_ERR(&err),
			  LOG_TEXT("remedy", err.remedy));
		if (stop_wait(&push->ending, RETRY_MS))
			break;
	}
	push_settings_unref(settings);
	lock(&push->mutex);
	push->is_present = true;
	unlock(&push->mutex);
	return NULL;
}
