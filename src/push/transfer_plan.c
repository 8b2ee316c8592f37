/*
 * Items stand by the name that they have at the destination. A ref that is to be made
 * where another goes ("a" -> "a/b") waits for its deletion: git deletes first within one
 * push.
 */
#include "push/push_run.h"

#include "base/clock.h"
#include "base/map.h"
#include "push/pattern.h"
#include "push/transfer_run.h"

enum {
	FREE_DELETIONS = 10,  /* are never too many */
	PATIENCE_MS = 60000,  /* with more that keep coming */
	COUNT_KEPT_MS = 30000 /* to count means to walk through all directories */
};

/* What is to be deleted for one remote. */
struct pending {
	size_t repositories;
	int64_t own, newest; /* since when */
};

/* A repository with several URLs counts once. */
static void add_pending(const struct push_run *run, const struct requested *one,
			struct map *projects, struct pending *pending)
{
	int64_t since = int64_min(one->since, run->now);

	if (strcmp(one->uri_key, run->uri_key) == 0)
		pending->own = since;
	if (since > pending->newest)
		pending->newest = since;
	map_put(projects, one->project, projects);
	pending->repositories = projects->count;
}

static int read_pending(const struct push_run *run, const char *remote,
			struct pending *pending, struct err *err)
{
	requested_list list = { 0 };
	struct map projects = { 0 };
	int result = uri_request_list(run->push->options.tasks, &list, err);

	*pending = (struct pending){ .own = run->now };
	for (size_t i = 0; result == 0 && i < list.count; i++)
		if (list.items[i].request == REQUEST_DELETE &&
		    strcmp(list.items[i].remote, remote) == 0)
			add_pending(run, &list.items[i], &projects, pending);
	map_clear(&projects);
	requested_list_clear(&list);
	return result == 0 ? 0 : -1; /* one that cannot be read may be a deletion */
}

static int count_names(const struct push *push, size_t *count, struct err *err)
{
	text_list names = { 0 };
	int result = push->options.names
			     ? push->options.names(push->options.arg, &names, err)
			     : 0;

	*count = names.count;
	text_list_clear(&names);
	return result;
}

/* Those that are there. */
static int count_repositories(struct push *push, size_t *count, struct err *err)
{
	int64_t now = clock_boot_ms();
	bool is_known;

	lock(&push->mutex);
	is_known = push->counted_at > 0 && now - push->counted_at < COUNT_KEPT_MS;
	*count = push->repositories;
	unlock(&push->mutex);
	if (is_known)
		return 0;
	if (count_names(push, count, err) != 0)
		return -1;
	lock(&push->mutex);
	push->repositories = *count;
	push->counted_at = now;
	unlock(&push->mutex);
	return 0;
}

/* What was held stays so: that others were allowed, and fewer are left, says nothing of
 * this one. */
static bool was_held(const struct push_run *run, const struct pending *pending)
{
	return pending->own <= run->state.held_since;
}

static enum deletion weigh(const struct push_run *run, const struct pending *pending,
			   const char *remote, struct err *err)
{
	size_t there, all;

	if (pending->repositories <= FREE_DELETIONS)
		return DELETION_DUE;
	if (count_repositories(run->push, &there, err) != 0)
		return DELETION_UNKNOWN;
	all = there + pending->repositories;
	if ((double)pending->repositories <=
	    run->push->options.delete_brake * (double)all)
		return DELETION_DUE;
	err_set(err, ERR_CONFLICT,
		"held: %zu repositories of %zu are to be deleted at %s at once",
		pending->repositories, all, remote);
	err_remedy(err, "if that is right: refrelay push retry --force --remote %.100s",
		   remote);
	return DELETION_HELD;
}

enum deletion deletion_judge(struct push_run *run, const struct push_group *group,
			     int64_t *at, struct err *err)
{
	struct pending pending;

	if (has_request(run, REQUEST_FORCE))
		return DELETION_DUE;
	if (read_pending(run, group->remote, &pending, err) != 0)
		return DELETION_UNKNOWN;
	if (was_held(run, &pending)) {
		*err = run->state.failure;
		return DELETION_HELD;
	}
	*at = pending.own + DELETION_QUIET_MS;
	if (pending.repositories > FREE_DELETIONS)
		*at = int64_min(pending.newest + DELETION_QUIET_MS,
				pending.own + PATIENCE_MS);
	if (*at > run->now)
		return DELETION_LATER;
	return weigh(run, &pending, group->remote, err);
}

#define LIMIT_REFS 20

void item_settle(struct push_item *item, enum ref_status status, char *text)
{
	free(item->result.text);
	item->result.status = status;
	item->result.text = text;
	item->state = ITEM_DONE;
}

/* Some specs may name one dst for several refs: the first in order has it. */
static int by_dst(const void *a, const void *b)
{
	const struct ref_result *one = &((const struct push_item *)a)->result;
	const struct ref_result *other = &((const struct push_item *)b)->result;
	int order = strcmp(one->dst, other->dst);

	if (order == 0 && one->is_deletion != other->is_deletion)
		return one->is_deletion ? 1 : -1;
	return order ? order : strcmp(one->ref, other->ref);
}

/* The caller frees *dst, also when it is none. */
static bool transfer_plan_map_name(const struct transfer *transfer, const char *name,
				   char **dst, bool *force)
{
	*dst = NULL;
	return ref_name_is_valid(name) &&
	       push_remote_maps(transfer->remote, name, dst, force) &&
	       ref_name_is_valid(*dst);
}

/* What a symbolic ref leads to; *exists also if that is nowhere. */
static const struct ref *local_value(const struct transfer *transfer, const char *name,
				     bool *exists)
{
	const struct ref_snapshot *refs = &transfer->local.refs;

	*exists = ref_snapshot_find(refs, name) != NULL;
	return *exists ? ref_snapshot_resolve(refs, name) : NULL;
}

/* Takes dst. Without a value: a deletion. */
static void transfer_plan_add_item(struct transfer *transfer, const char *name, char *dst,
				   const struct ref *value)
{
	struct push_item item = {
		.result = { .ref = xstrdup(name), .dst = dst, .is_deletion = !value },
		.state = value ? ITEM_PLAIN : ITEM_LEASED,
	};

	if (value)
		item.value = *value;
	item.value.name = dst;
	item.value.target = NULL;
	vec_add(&transfer->items, item);
}

static struct push_item *last_item(struct transfer *transfer)
{
	return &transfer->items.items[transfer->items.count - 1];
}

static void plan_local(struct transfer *transfer, const struct ref *ref)
{
	const struct ref *value, *theirs;
	bool force;
	AUTO_FREE char *dst = NULL;

	if (!transfer_plan_map_name(transfer, ref->name, &dst, &force))
		return;
	value = ref_snapshot_resolve(&transfer->local.refs, ref->name);
	theirs = ref_snapshot_find(&transfer->seen, dst);
	if (!value || (theirs && oid_equal(&theirs->oid, &value->oid)))
		return;
	transfer_plan_add_item(transfer, ref->name, TAKE(dst), value);
	last_item(transfer)->forces = force;
}

/* The local ref that `dst` is the copy of: it is taken by the spec, not by one before,
 * and nothing excludes it. */
static char *owner_by(const struct transfer *transfer, const struct push_spec *spec,
		      const char *dst)
{
	const struct push_spec back = { .src = spec->dst, .dst = spec->src };
	AUTO_FREE char *name = NULL;
	AUTO_FREE char *mapped = NULL;
	bool force;

	if (!push_spec_maps(&back, dst, &name) ||
	    !transfer_plan_map_name(transfer, name, &mapped, &force) ||
	    strcmp(mapped, dst) != 0)
		return NULL;
	return TAKE(name);
}

/* The same by any spec; one that exists is preferred. */
static char *owner_of(const struct transfer *transfer, const char *dst, bool *exists)
{
	const struct push_remote *remote = transfer->remote;
	char *owner = NULL;

	*exists = false;
	for (size_t i = 0; i < remote->specs.count && !*exists; i++) {
		char *name = owner_by(transfer, &remote->specs.items[i], dst);
		if (name)
			local_value(transfer, name, exists);
		if (!name || (owner && !*exists)) {
			free(name);
			continue;
		}
		free(owner);
		owner = name;
	}
	return owner;
}

/* Whether another ref here has that place there. */
static bool plan_is_others(const struct transfer *transfer, const char *dst)
{
	bool exists;

	free(owner_of(transfer, dst, &exists));
	return exists;
}

static void plan_named(struct transfer *transfer, const char *name)
{
	const struct ref *value;
	bool exists, force;
	AUTO_FREE char *dst = NULL;

	if (!transfer_plan_map_name(transfer, name, &dst, &force))
		return;
	value = local_value(transfer, name, &exists);
	if (!value && (exists || !transfer->remote->mirrors))
		return;
	if (!value && plan_is_others(transfer, dst))
		return;
	transfer_plan_add_item(transfer, name, TAKE(dst), value);
	last_item(transfer)->forces = force;
}

static void plan_seen(struct transfer *transfer, const struct ref *ref)
{
	bool exists;
	AUTO_FREE char *owner = owner_of(transfer, ref->name, &exists);

	if (owner && !exists)
		transfer_plan_add_item(transfer, owner, xstrdup(ref->name), NULL);
}

static void plan_all(struct transfer *transfer)
{
	for (size_t i = 0; i < transfer->local.refs.refs.count; i++)
		plan_local(transfer, &transfer->local.refs.refs.items[i]);
	for (size_t i = 0; transfer->remote->mirrors && i < transfer->seen.refs.count;
	     i++)
		plan_seen(transfer, &transfer->seen.refs.items[i]);
}

static void settle_doubles(struct transfer *transfer)
{
	struct push_item *items = transfer->items.items;

	for (size_t i = 1; i < transfer->items.count; i++)
		if (strcmp(items[i - 1].result.dst, items[i].result.dst) == 0)
			item_settle(&items[i], REF_REJECTED_OTHER_REASON,
				    xasprintf("another ref, %s, has the same place there",
					      items[i - 1].result.ref));
}

/* Puts the directories above the name into the map, too. */
static void note_place(struct map *places, const struct push_item *item)
{
	AUTO_FREE char *name = xstrdup(item->result.dst);
	static char here[] = "";
	char *slash;

	do {
		map_put(places, name, here);
		slash = strrchr(name, '/');
		if (slash)
			*slash = '\0';
	} while (slash);
}

/* Any directory of its own counts that is the whole name of a deleted ref. */
static bool is_below_any(const struct map *names, const char *dst)
{
	AUTO_FREE char *name = xstrdup(dst);
	char *slash;

	while ((slash = strrchr(name, '/')) != NULL) {
		*slash = '\0';
		if (map_get(names, name))
			return true;
	}
	return false;
}

static void defer_hindered(struct transfer *transfer)
{
	struct map places = { 0 }, names = { 0 };
	static char here[] = "";

	for (size_t i = 0; i < transfer->items.count; i++) {
		struct push_item *item = &transfer->items.items[i];
		if (item->result.is_deletion && item->state != ITEM_DONE) {
			note_place(&places, item);
			map_put(&names, item->result.dst, here);
		}
	}
	for (size_t i = 0; names.count > 0 && i < transfer->items.count; i++) {
		struct push_item *item = &transfer->items.items[i];
		item->is_in_the_way = item->state == ITEM_PLAIN &&
				      (map_get(&places, item->result.dst) ||
				       is_below_any(&names, item->result.dst));
		if (item->is_in_the_way)
			item->state = ITEM_LEASED;
	}
	map_clear(&places);
	map_clear(&names);
}

void transfer_plan(struct transfer *transfer)
{
	const text_list *names = transfer->request->refs;

	if (transfer->is_all)
		plan_all(transfer);
	for (size_t i = 0; !transfer->is_all && i < names->count; i++)
		plan_named(transfer, names->items[i]);
	vec_sort(&transfer->items, by_dst);
	settle_doubles(transfer);
	defer_hindered(transfer);
}

static void transfer_plan_renew_item(const struct transfer *transfer,
				     struct push_item *item)
{
	bool exists;
	const struct ref *value = local_value(transfer, item->result.ref, &exists);

	item->result.is_deletion = !value;
	item->value = value ? *value : (struct ref){ 0 };
	item->value.name = item->result.dst;
	item->value.target = NULL;
	if (!value && (exists || !transfer->remote->mirrors ||
		       plan_is_others(transfer, item->result.dst)))
		item->state = ITEM_DROPPED;
}

void transfer_renew(struct transfer *transfer)
{
	for (size_t i = 0; i < transfer->items.count; i++)
		if (transfer->items.items[i].state == ITEM_LEASED)
			transfer_plan_renew_item(transfer, &transfer->items.items[i]);
}

/* How many of the destination's refs are copies of local ones, as far as specs say. */
static size_t count_copies(const struct transfer *transfer)
{
	size_t count = 0;
	bool exists;

	for (size_t i = 0; i < transfer->seen.refs.count; i++) {
		AUTO_FREE char *owner =
			owner_of(transfer, transfer->seen.refs.items[i].name, &exists);
		count += owner != NULL;
	}
	return count;
}

static bool is_open_deletion(const struct push_item *item)
{
	return item->state == ITEM_LEASED && item->result.is_deletion;
}

static void transfer_plan_hold_deletions(struct transfer *transfer)
{
	for (size_t i = 0; i < transfer->items.count; i++) {
		struct push_item *item = &transfer->items.items[i];
		if (is_open_deletion(item))
			item_settle(item, REF_NOT_ATTEMPTED,
				    xstrdup("held: too many deletions at once"));
		else if (item->state == ITEM_LEASED && item->is_in_the_way)
			item_settle(item, REF_NOT_ATTEMPTED,
				    xstrdup("it waits for a deletion that is held"));
		else
			continue;
		item->result.is_held = true;
	}
}

static void transfer_plan_limit_deletions(struct transfer *transfer)
{
	struct transfer_result *result = transfer->result;
	size_t deletions = 0, copies;

	for (size_t i = 0; i < transfer->items.count; i++)
		deletions += is_open_deletion(&transfer->items.items[i]);
	if (deletions <= LIMIT_REFS || transfer->request->allows_deletions)
		return;
	copies = count_copies(transfer);
	if ((double)deletions <= transfer->request->delete_brake * (double)copies)
		return;
	result->deletions = deletions;
	result->remote_refs = copies;
	transfer_plan_hold_deletions(transfer);
}

void transfer_compare(struct transfer *transfer)
{
	for (size_t i = 0; i < transfer->items.count; i++) {
		struct push_item *item = &transfer->items.items[i];
		const struct ref *theirs;
		if (item->state != ITEM_LEASED)
			continue;
		theirs = ref_snapshot_find(&transfer->seen, item->result.dst);
		if (item->result.is_deletion && !theirs)
			item_settle(item, REF_NON_EXISTING, NULL);
		else if (theirs && oid_equal(&theirs->oid, &item->value.oid))
			item_settle(item, REF_UP_TO_DATE, NULL);
	}
	transfer_plan_limit_deletions(transfer);
}
