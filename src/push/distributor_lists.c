/*
 * What the distributor takes over in bulk: settings, requests, and what others left in
 * running/.
 */
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "push/deletions.h"
#include "push/distributor.h"
#include "push/nodes.h"
#include "push/push_metrics.h"

typedef VEC(struct schedule_entry *) entry_list;

/* All, so that they can be placed, which may take them out of the map. */
static void entries(const struct distributor *distributor, entry_list *all)
{
	const struct map_entry *at;

	for (size_t i = 0; (at = map_next(&distributor->schedule.entries, &i)) != NULL;) {
		struct schedule_entry *entry = at->value;
		vec_add(all, entry);
	}
}

static int64_t distributor_lists_larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Where the remote's URLs lead to is the same for all repositories. */
static void set_shares(struct schedule_lane *lane, const struct push_remote *remote)
{
	static const char any[] = "name";

	for (size_t i = 0; i < lane->shares.count; i++)
		lane->shares.items[i]->is_configured = false;
	for (size_t i = 0; i < remote->urls.count; i++) {
		AUTO_DESTINATION struct destination destination = { 0 };
		if (destination_make(remote, i, any, &destination, ERR_IGNORED) == 0)
			schedule_share(lane, destination_share(&destination))
				->is_configured = true;
	}
	schedule_share_threads(lane);
}

static void set_lanes(struct distributor *distributor)
{
	const struct push_settings *settings = distributor->settings;
	struct schedule *schedule = &distributor->schedule;
	size_t threads = 0;

	for (size_t i = 0; i < schedule->lanes.count; i++)
		schedule->lanes.items[i]->threads = 0;
	for (size_t i = 0; i < settings->remotes.count; i++) {
		const struct push_remote *remote = &settings->remotes.items[i];
		struct schedule_lane *lane = schedule_lane(schedule, remote->name);
		lane->threads = remote->threads > 0 ? remote->threads : 1;
		lane->delay_ms =
			distributor_lists_larger(remote->delay_ms, settings->interval_ms);
		lane->reschedule_ms = remote->reschedule_ms;
		lane->retry_ms = remote->retry_ms;
		set_shares(lane, remote);
		threads += lane->threads;
	}
	schedule->limits = (struct schedule_limits){
		.repository_transfers = settings->repository_transfers > 0
						? settings->repository_transfers
						: SIZE_MAX,
		.bytes = settings->bytes_in_flight,
		.random_ms = settings->random_ms,
	};
	pool_set_capacity(distributor->push->pool, threads > 0 ? threads : 1);
}

void settings_obey(struct distributor *distributor)
{
	struct push *push = distributor->push;
	struct push_settings *settings = NULL;
	entry_list all = { 0 };

	lock(&push->mutex);
	if (push->has_new_settings)
		settings = push_settings_ref(push->settings);
	push->has_new_settings = false;
	unlock(&push->mutex);
	if (!settings)
		return;
	push_settings_unref(distributor->settings);
	distributor->settings = settings;
	distributor->list_at = 0;
	distributor->letters_at = 0;
	report_forget();
	set_lanes(distributor);
	entries(distributor, &all);
	for (size_t i = 0; i < all.count; i++) {
		entry_resolve(distributor, all.items[i]);
		entry_place(distributor, all.items[i]);
	}
	vec_clear(&all);
	schedule_replace_all(&distributor->schedule, clock_boot_ms());
}

void states_read(struct distributor *distributor)
{
	entry_list all = { 0 };

	entries(distributor, &all);
	for (size_t i = 0; i < all.count; i++) {
		if (all.items[i]->retry_at == 0 || all.items[i]->state == ENTRY_RUNNING)
			continue;
		read_state_again(distributor, all.items[i]);
		entry_place(distributor, all.items[i]);
	}
	vec_clear(&all);
}

bool requests_heard(struct distributor *distributor)
{
	int fd = uri_request_watch_fd(distributor->push->options.tasks);
	char events[4096];
	bool heard = false;

	while (fd >= 0 && read(fd, events, sizeof(events)) > 0)
		heard = true;
	return heard;
}

static void take_request(struct distributor *distributor,
			 const struct requested *requested)
{
	struct schedule_entry *entry =
		schedule_find(&distributor->schedule, requested->uri_key);
	int64_t since = entry_since(distributor, requested->since);

	if (requested->request == REQUEST_DELETE)
		since += DELETION_QUIET_MS;
	if (!entry)
		entry = distributor_get_entry(distributor, requested->uri_key,
					      requested->uri, requested->remote,
					      requested->project);
	if (entry->listed == 0 || since < entry->requests_since)
		entry->requests_since = since;
	entry->listed |= 1U << requested->request;
}

static void place_requests(struct distributor *distributor)
{
	entry_list all = { 0 };

	entries(distributor, &all);
	for (size_t i = 0; i < all.count; i++) {
		struct schedule_entry *entry = all.items[i];
		unsigned added = entry->listed & ~entry->requests;
		if (entry->listed == entry->requests)
			continue;
		entry->requests = entry->listed;
		if (added & 1U << REQUEST_FORCE)
			entry->is_released = true;
		entry_place(distributor, entry);
	}
	vec_clear(&all);
}

int requests_list(struct distributor *distributor, struct err *err)
{
	requested_list list = { 0 };
	entry_list all = { 0 };
	int result = uri_request_list(distributor->push->options.tasks, &list, err);

	if (result == 0) {
		entries(distributor, &all);
		for (size_t i = 0; i < all.count; i++)
			all.items[i]->listed = 0;
		for (size_t i = 0; i < list.count; i++)
			take_request(distributor, &list.items[i]);
		place_requests(distributor);
		distributor->must_list_requests = false;
	}
	vec_clear(&all);
	requested_list_clear(&list);
	return result;
}

void leftover_seen(void *arg, const char *uri_key)
{
	struct distributor *distributor = arg;
	struct uri_key key;

	snprintf(key.text, sizeof(key.text), "%s", uri_key);
	vec_add(&distributor->leftovers, key);
}

/* Those that may come, or end, any moment on this host are looked at soon again. */
static int64_t look_again_ms(const struct lease_holder *holder)
{
	return strcmp(holder->boot_id, clock_boot_id()) == 0 ? LEFTOVERS_LOOK_MS
							     : LEASE_TTL_MS;
}

/* 0: nothing is left there; else somebody works on them: look again after so many ms; or
 * -1. */
static int64_t distributor_lists_recover_uri(struct push *push, const char *uri_key,
					     struct err *err)
{
	AUTO_FREE char *key = xasprintf(PUSH_URI_LEASE "%s", uri_key);
	struct lease_holder holder = { .held = false };
	struct lease *lease = NULL;
	struct lease_request request = { .key = key,
					 .operation = "recover",
					 .holder = &holder };
	size_t recovered = 0;

	if (lease_inspect(push->options.leases, key, &holder, err) == 0 &&
	    push_holder_lives(&holder))
		return look_again_ms(&holder);
	if (lease_acquire(push->options.leases, &request, &lease, err) != 0)
		return err->class == ERR_BUSY ? look_again_ms(&holder) : -1;
	int result = task_store_recover(push->options.tasks, uri_key, &recovered, err);
	if (result == 0 && recovered > 0) {
		log_info("push.recovered", LOG_NUMBER("tasks", recovered),
			 LOG_TEXT("uri_key", uri_key));
		failpoint("push.recovered");
	}
	if (result == 0)
		task_store_tidy(push->options.tasks, uri_key);
	lease_release(lease);
	return result;
}

void leftovers_recover(struct distributor *distributor)
{
	struct push *push = distributor->push;
	int64_t again_ms = INT64_MAX;
	struct err err;

	for (size_t i = 0; i < distributor->leftovers.count; i++) {
		const char *key = distributor->leftovers.items[i].text;
		const struct schedule_entry *entry =
			schedule_find(&distributor->schedule, key);
		if (entry && entry->state == ENTRY_RUNNING)
			continue;
		int64_t wait_ms = distributor_lists_recover_uri(push, key, &err);
		if (wait_ms < 0) {
			log_warn("push.put_off", LOG_ERR(&err), LOG_TEXT("uri_key", key),
				 LOG_TEXT("remedy", err.remedy));
			wait_ms = LEASE_TTL_MS;
		}
		if (wait_ms > 0 && wait_ms < again_ms)
			again_ms = wait_ms;
	}
	vec_clear(&distributor->leftovers);
	distributor->leftovers_at =
		again_ms == INT64_MAX ? INT64_MAX : clock_boot_ms() + again_ms;
}
