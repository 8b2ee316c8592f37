#include "node/node_push.h"

#include <limits.h>

#include "base/hash.h"
#include "lease/directory.h"
#include "replicable/discover.h"

/* Nodes of one name differ in their data directories. */
#define DATA_DIGEST_BYTES 4

static char *node_push_make_name(const struct site *site)
{
	AUTO_STR struct str name = STR_INIT;

	str_addf(&name, "%s@%s:", site->name, site->node);
	hash_add_hex(HASH_SHA256, site->data, strlen(site->data), DATA_DIGEST_BYTES,
		     &name);
	return str_take(&name);
}

/* From the disk: the first scan may be still under way. */
static int list_names(void *arg, text_list *names, struct err *err)
{
	const struct node_push *parts = arg;
	AUTO_DISCOVERY struct discovery discovery = { 0 };

	if (discover(parts->root, &discovery, err) != 0)
		return -1;
	for (size_t i = 0; i < discovery.found.count; i++)
		vec_add(names, TAKE(discovery.found.items[i].name));
	return 0;
}

static void node_push_is_broken(void *arg, const char *name, const struct err *why)
{
	const struct node_push *parts = arg;

	if (parts->verify_origin)
		verify_origin_doubt(parts->verify_origin, name, why);
}

/* The comparison knows what stood there, and which folders are not mounted; it records a
 * deletion that nobody noticed yet. What is left of a repository, or stands in its place,
 * is none to push from either. */
static bool node_push_is_deleted(void *arg, const char *name, struct err *why)
{
	const struct node_push *parts = arg;
	AUTO_NOTICED struct noticed noticed = { 0 };

	if (notice_compare(parts->notice, name, &noticed, why) == 0) {
		err_set(why, ERR_BUSY, "%.300s was not there a moment ago", name);
		return false;
	}
	/* ERR_NONE there: the comparison itself failed, e.g. its database. */
	return noticed.why.class == ERR_MISSING || noticed.why.class == ERR_CORRUPT ||
	       noticed.why.class == ERR_CONFIG;
}

/* The queue shows who pushes by the site's name: each node that pushes has its own. */
static int node_push_open_leases(const struct node_settings *settings,
				 struct node_push *parts, struct err *err)
{
	AUTO_FREE char *directory = xasprintf("%s/leases", settings->push->directory);

	return lease_manager_open_directory(
		&(struct lease_options){ .directory = directory,
					 .node = settings->site.name,
					 .ttl_ms = settings->site.lease.ttl_ms },
		&parts->leases, err);
}

int node_push_open(const struct node_settings *settings, struct node_push *parts,
		   struct err *err)
{
	const char *data = settings->site.data;

	if (!settings->push)
		return 0;
	if (task_store_recognize(settings->push->directory, data, err) != 0 ||
	    task_store_open(settings->push->directory, &parts->tasks, err) != 0 ||
	    task_store_remember(parts->tasks, data, err) != 0 ||
	    node_push_open_leases(settings, parts, err) != 0)
		return err_prefix(err, "the task store");
	if (push_events_open(data, settings->push, &parts->events, err) != 0)
		return -1;
	parts->sink = push_sink_new(parts->tasks, settings->push);
	parts->root = xstrdup(settings->site.repositories);
	parts->name = node_push_make_name(&settings->site);
	return 0;
}

int node_push_start(const struct node_settings *settings, struct node_push *parts,
		    struct err *err)
{
	if (!parts->tasks)
		return 0;
	return push_start(
		&(struct push_options){ .tasks = parts->tasks,
					.leases = parts->leases,
					.root = settings->site.repositories,
					.data = settings->site.data,
					.node = parts->name,
					.settings = settings->push,
					.delete_brake = settings->pull.delete_brake,
					.events = parts->events,
					.names = list_names,
					.broken = node_push_is_broken,
					.is_deleted = node_push_is_deleted,
					.arg = parts },
		&parts->push, err);
}

void node_push_set(struct node_push *parts, struct push_settings *settings)
{
	push_sink_set(parts->sink, settings);
	push_set(parts->push, settings);
	push_events_set(parts->events, settings);
}

void node_push_stop(struct node_push *parts, int64_t grace_ms)
{
	push_stop(parts->push, grace_ms);
	push_events_close(parts->events);
	push_sink_free(parts->sink);
	lease_manager_close(parts->leases);
	task_store_close(parts->tasks);
	free(parts->root);
	free(parts->name);
}
