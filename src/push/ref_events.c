/*
 * A ref is done when no task for it is left at any destination of its repository. Two
 * pushes that end together may both find that, and tell it twice.
 *
 * Source: RefReplicatedEvent, RefReplicationDoneEvent and ReplicationState of Gerrit's
 * replication plugin.
 */
#include "push/ref_events.h"

#include "base/map.h"
#include "push/push_events.h"
#include "push/task_list.h"

static json_t *new_event(const char *type, const struct push_group *group,
			 const char *ref)
{
	json_t *event = json_object();

	json_put_text(event, "type", type);
	json_put_text(event, "project", group->project);
	json_put_text(event, "ref", ref);
	return event;
}

static bool ref_events_is_good(enum ref_status status)
{
	return status == REF_OK || status == REF_UP_TO_DATE || status == REF_NON_EXISTING;
}

/* How it went: NULL is "not-attempted". A whole push is as bad as its worst ref. */
static const enum ref_status *ref_events_find_status(const struct transfer_result *result,
						     const char *ref)
{
	static const enum ref_status ok = REF_OK, other = REF_REJECTED_OTHER_REASON;
	bool is_all = strcmp(ref, TASK_ALL_REFS) == 0;

	if (!result)
		return &other;
	for (size_t i = 0; i < result->refs.count; i++) {
		const struct ref_result *one = &result->refs.items[i];
		if (is_all ? !ref_events_is_good(one->status)
			   : strcmp(one->ref, ref) == 0)
			return &one->status;
	}
	return is_all ? &ok : NULL;
}

/* The plugin's name of a node: host and port, or a path. */
static void put_node(json_t *event, const struct destination *destination)
{
	const char *host = destination->host;
	const char *at = host ? strrchr(host, '@') : NULL;
	AUTO_FREE char *port = destination->port
				       ? xasprintf(":%u", (unsigned)destination->port)
				       : xstrdup("");
	AUTO_FREE char *node = host ? xasprintf("%s%s", at ? at + 1 : host, port)
				    : xstrdup(destination->path);

	json_put_text(event, "targetNode", node);
	json_put_text(event, "targetUri", destination->uri);
}

static void add_replicated(const struct push_run *run, const struct push_group *group,
			   const struct transfer_result *result, const char *ref)
{
	json_t *event = new_event("ref-replicated", group, ref);
	const enum ref_status *status = ref_events_find_status(result, ref);

	put_node(event, &group->destination);
	json_put_text(event, "status",
		      !status                       ? "not-attempted"
		      : ref_events_is_good(*status) ? "succeeded"
						    : "failed");
	json_put_text(event, "refStatus", status ? ref_status_name(*status) : NULL);
	push_events_add(run->push->options.events, event);
}

static bool ref_events_is_mapped(const struct push_remote *remote, const char *ref)
{
	AUTO_FREE char *dst = NULL;
	bool force;

	return strcmp(ref, TASK_ALL_REFS) == 0 ||
	       push_remote_maps(remote, ref, &dst, &force);
}

static void add_if_done(const struct push_run *run, const struct push_group *group,
			const destination_list *list, const char *ref)
{
	size_t nodes = 0;

	for (size_t i = 0; i < list->count; i++) {
		if (!ref_events_is_mapped(list->items[i].remote, ref))
			continue;
		if (task_store_covers(run->push->options.tasks, list->items[i].uri, ref))
			return;
		nodes++;
	}
	json_t *event = new_event("ref-replication-done", group, ref);
	json_put_number(event, "nodesCount", (int64_t)nodes);
	push_events_add(run->push->options.events, event);
}

void ref_events_add(const struct push_run *run, const struct push_group *group,
		    const struct transfer_result *result)
{
	AUTO_DESTINATIONS destination_list list = { 0 };
	struct map seen = { 0 };

	if (!run->push->options.events)
		return;
	if (destinations_of(run->settings, group->project, &list, ERR_IGNORED) != 0)
		return;
	for (size_t i = 0; i < group->tasks.count; i++) {
		const ref_names *refs = &group->tasks.items[i]->task.refs;
		for (size_t k = 0; k < refs->count; k++) {
			if (map_put(&seen, refs->items[k], &seen))
				continue;
			add_replicated(run, group, result, refs->items[k]);
			add_if_done(run, group, &list, refs->items[k]);
		}
	}
	map_clear(&seen);
}
