/*
 * The distributor: the only one who knows the schedule. It hears of tasks and requests,
 * of runs that ended and of settings, starts what is due, and sleeps until the next.
 *
 * Order in a round matters: runs that ended are taken before the directory is heard, so
 * that the moves they made are known when their URI is scheduled anew.
 */
#include <fcntl.h>
#include <poll.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "git/packs.h"
#include "push/nodes.h"
#include "push/outcome.h"
#include "push/push_run.h"
#include "replicable/name.h"

/* All of it is its thread's alone. */

/* So soon after tasks came or went, and while others of this host push, running/ is
 * looked at: a node that dies says nothing. */
#define LEFTOVERS_LOOK_MS 1000

struct distributor {
	struct push *push;
	struct push_settings *settings; /* a reference; NULL before the first round */
	struct schedule schedule;
	text_list leftovers; /* URI keys that were seen in running/ */
	bool must_list_requests, is_broken, has_work;
	/* Boot time. */
	int64_t measured_at, list_at, leftovers_at, presence_at, gauges_at,
		dead_letters_at, sweep_at;
	struct map letters; /* dead ones when they were counted; values owned */
	bool is_news;    /* dead letters may have come or gone since they were counted */
	size_t troubled; /* files that could not be read, as they were counted */
	int64_t ending_at; /* 0: it does not end */
	int64_t grace_ms;
};

static void entry_resolve(struct distributor *distributor, struct schedule_entry *entry)
{
	AUTO_DESTINATION struct destination destination = { 0 };
	struct schedule *schedule = &distributor->schedule;
	bool was_orphan = entry->state == ENTRY_ORPHAN;
	struct err err;

	if (destination_find(distributor->settings, entry->remote, entry->project,
			     entry->uri, &destination, &err) == 0) {
		entry->lane = schedule_lane(schedule, destination.remote->name);
		entry->share =
			schedule_share(entry->lane, destination_share(&destination));
		entry->host = schedule_host(schedule, destination.breaker);
		return;
	}
	entry->lane = NULL;
	entry->share = NULL;
	if (!was_orphan)
		log_warn("push.orphan", LOG_ERR(&err), LOG_TEXT("repo", entry->project),
			 LOG_TEXT("remote", entry->remote), LOG_TEXT("uri", entry->uri));
}

static void distributor_read_state(struct distributor *distributor,
				   struct schedule_entry *entry)
{
	AUTO_URI_STATE struct uri_state state = { 0 };

	if (uri_state_read(distributor->push->options.tasks, entry->uri_key, &state,
			   ERR_IGNORED) <= 0)
		return;
	entry->retry_at =
		retry_at_of(distributor->settings, &state,
			    clock_boot_ms() + distributor->schedule.server_lead_ms);
	entry->is_host_failure = is_host_failure(&state.failure);
	entry->is_head_failure = state.is_head;
	entry->is_held = state.held_since > 0;
}

static struct schedule_entry *distributor_get_entry(struct distributor *distributor,
						    const char *uri_key, const char *uri,
						    const char *remote,
						    const char *project)
{
	struct schedule_entry *entry = schedule_find(&distributor->schedule, uri_key);
	bool is_new = !entry;

	if (is_new) {
		entry = schedule_add(&distributor->schedule, uri_key);
		distributor_read_state(distributor, entry);
	} else if (strcmp(entry->remote, remote) == 0 &&
		   strcmp(entry->project, project) == 0) {
		return entry;
	}
	free(entry->uri);
	free(entry->remote);
	free(entry->project);
	entry->uri = xstrdup(uri);
	entry->remote = xstrdup(remote);
	entry->project = xstrdup(project);
	entry_resolve(distributor, entry);
	return entry;
}

/* Those that wait for no delay. A HEAD that failed does not hurry tasks. */
static bool is_urgent(const struct schedule_entry *entry)
{
	unsigned at_once = 1U << REQUEST_DELETE | 1U << REQUEST_FORCE;

	if (entry->tasks == 0 || !entry->is_head_failure)
		at_once |= 1U << REQUEST_HEAD;
	return entry->requests & at_once;
}

static void entry_set_times(struct schedule_entry *entry)
{
	entry->is_urgent = is_urgent(entry);
	if (entry->tasks == 0 || entry->is_urgent)
		entry->since = entry->requests_since;
	else
		entry->since = entry->tasks_since;
}

static void entry_place(struct distributor *distributor, struct schedule_entry *entry)
{
	if (entry->is_held && !(entry->requests & 1U << REQUEST_DELETE)) {
		entry->is_held = false;
		entry->retry_at = 0;
	}
	entry_set_times(entry);
	schedule_place(&distributor->schedule, entry, clock_boot_ms());
}

/* A time that is ahead, by whatever clock it was set, is now. */
static int64_t entry_since(const struct distributor *distributor, int64_t since)
{
	return int64_min(since, clock_boot_ms() + distributor->schedule.server_lead_ms);
}

/*
 * What the distributor takes over in bulk: settings, requests, and what others left in
 * running/.
 */

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
		lane->delay_ms = push_delay_ms(settings, remote);
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

static void settings_obey(struct distributor *distributor)
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
	distributor->dead_letters_at = 0;
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

static void states_read(struct distributor *distributor)
{
	entry_list all = { 0 };

	entries(distributor, &all);
	for (size_t i = 0; i < all.count; i++) {
		if (all.items[i]->retry_at == 0 || all.items[i]->state == ENTRY_RUNNING)
			continue;
		all.items[i]->retry_at = 0;
		all.items[i]->is_head_failure = false;
		distributor_read_state(distributor, all.items[i]);
		entry_place(distributor, all.items[i]);
	}
	vec_clear(&all);
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

static int requests_list(struct distributor *distributor, struct err *err)
{
	requested_list list = { 0 };
	entry_list all = { 0 };
	int result = uri_request_list(distributor->push->options.tasks, &list, err);

	/* One that cannot be read keeps no other from being served. */
	if (result >= 0) {
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

static void leftover_seen(void *arg, const char *uri_key)
{
	struct distributor *distributor = arg;

	vec_add(&distributor->leftovers, xstrdup(uri_key));
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

static void leftovers_recover(struct distributor *distributor)
{
	struct push *push = distributor->push;
	int64_t again_ms = INT64_MAX;
	struct err err;

	for (size_t i = 0; i < distributor->leftovers.count; i++) {
		const char *key = distributor->leftovers.items[i];
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
	text_list_clear(&distributor->leftovers);
	distributor->leftovers_at =
		again_ms == INT64_MAX ? INT64_MAX : clock_boot_ms() + again_ms;
}

#define CLOCK_EVERY_MS 1000
#define GAUGES_EVERY_MS 15000
#define DEAD_LETTERS_EVERY_MS 15000
#define LIST_RETRY_MS 5000
#define UNWATCHED_MS 10000 /* where no news of the store would tell what comes */
#define PRESENCE_EVERY_MS 10000
#define SWEEP_EVERY_MS 600000

static void measure_clock(struct distributor *distributor)
{
	int64_t server_ms;

	if (task_store_now(distributor->push->options.tasks, &server_ms, ERR_IGNORED) !=
	    0)
		return;
	distributor->measured_at = clock_boot_ms();
	if (schedule_set_clock(&distributor->schedule, server_ms,
			       distributor->measured_at))
		states_read(distributor);
}

static void on_waiting(void *arg, const struct waiting_uri *waiting)
{
	struct distributor *distributor = arg;
	struct schedule_entry *entry =
		schedule_find(&distributor->schedule, waiting->uri_key);

	if (waiting->tasks > 0)
		entry = distributor_get_entry(distributor, waiting->uri_key, waiting->uri,
					      waiting->remote, waiting->project);
	if (!entry)
		return;
	entry->seen++;
	entry->tasks = waiting->tasks;
	if (waiting->tasks > 0)
		entry->tasks_since = entry_since(distributor, waiting->since);
	entry_place(distributor, entry);
}

static void distributor_hear_store(struct distributor *distributor)
{
	struct task_store *tasks = distributor->push->options.tasks;
	struct pollfd fd = { .fd = task_store_watch_fd(tasks), .events = POLLIN };

	if (fd.fd < 0 || poll(&fd, 1, 0) <= 0) {
		task_store_report(tasks, on_waiting, distributor);
		return;
	}
	if (clock_boot_ms() - distributor->measured_at >= CLOCK_EVERY_MS)
		measure_clock(distributor);
	if (task_store_hear(tasks, on_waiting, distributor))
		distributor->list_at = 0;
	distributor->leftovers_at =
		int64_min(distributor->leftovers_at, clock_boot_ms() + LEFTOVERS_LOOK_MS);
}

/* The kernel tells of no changes there, or not that a file can be read again. */
static bool is_to_be_listed_again(const struct distributor *distributor)
{
	struct task_store *tasks = distributor->push->options.tasks;

	return !task_store_is_watched(tasks) || task_store_troubled(tasks) > 0;
}

static void note_result(const struct err *err, bool *is_broken)
{
	if (err && !*is_broken)
		log_error("push.store_failed", LOG_ERR(err),
			  LOG_TEXT("remedy", err->remedy));
	else if (!err && *is_broken)
		log_info("push.store_back");
	*is_broken = err != NULL;
}

/* All that is in the store. */
static void distributor_list_store(struct distributor *distributor)
{
	int64_t interval_ms = distributor->settings->interval_ms, again_ms = INT64_MAX;
	struct err err;
	int result;

	measure_clock(distributor);
	result = task_store_refresh(distributor->push->options.tasks, on_waiting,
				    leftover_seen, distributor, &err);
	if (result == 0) {
		result = requests_list(distributor, &err);
		leftovers_recover(distributor);
	}
	if (interval_ms > 0)
		again_ms = int64_min(again_ms, interval_ms);
	if (is_to_be_listed_again(distributor))
		again_ms = int64_min(again_ms, UNWATCHED_MS);
	if (result != 0)
		again_ms = int64_min(again_ms, LIST_RETRY_MS);
	distributor->list_at =
		again_ms == INT64_MAX ? INT64_MAX : clock_boot_ms() + again_ms;
	note_result(result != 0 ? &err : NULL, &distributor->is_broken);
}

/* It may have been lost in a pause, or with the directory of leases. */
static void show_presence(struct distributor *distributor)
{
	int64_t now = clock_boot_ms();

	if (distributor->presence_at > now)
		return;
	presence_keep(distributor->push);
	distributor->presence_at = now + PRESENCE_EVERY_MS;
	if (distributor->sweep_at > now)
		return;
	task_store_sweep(distributor->push->options.tasks, ERR_IGNORED);
	distributor->sweep_at = now + SWEEP_EVERY_MS;
}

static void look_at_leftovers(struct distributor *distributor)
{
	struct err err;

	if (task_store_list_running(distributor->push->options.tasks, leftover_seen,
				    distributor, &err) == 0)
		leftovers_recover(distributor);
	else
		distributor->leftovers_at = clock_boot_ms() + LIST_RETRY_MS;
}

static void list_if_due(struct distributor *distributor)
{
	struct push *push = distributor->push;
	bool is_woken;

	lock(&push->mutex);
	is_woken = push->is_woken;
	push->is_woken = false;
	unlock(&push->mutex);
	if (is_woken) {
		states_read(distributor);
		distributor->is_news = true;
		schedule_probe_all(&distributor->schedule, clock_boot_ms());
	}
	if (is_woken || distributor->list_at <= clock_boot_ms()) {
		distributor_list_store(distributor);
		return;
	}
	if (distributor->leftovers_at <= clock_boot_ms())
		look_at_leftovers(distributor);
	if (uri_request_hear(distributor->push->options.tasks) ||
	    distributor->must_list_requests)
		if (requests_list(distributor, ERR_IGNORED) != 0)
			distributor->list_at = clock_boot_ms() + LIST_RETRY_MS;
	if (is_to_be_listed_again(distributor))
		distributor->list_at =
			int64_min(distributor->list_at, clock_boot_ms() + UNWATCHED_MS);
}

static void end_run(struct distributor *distributor, struct push_run *run)
{
	struct schedule_entry *entry =
		schedule_find(&distributor->schedule, run->uri_key);

	if (run->has_no_tasks && entry->seen == run->seen_tasks)
		entry->tasks = 0; /* another node has done it */
	if (run->requests.count > 0)
		distributor->must_list_requests = true;
	if (run->is_stuck)
		distributor->list_at =
			int64_min(distributor->list_at, clock_boot_ms() + LIST_RETRY_MS);
	if (task_store_watch_fd(run->push->options.tasks) < 0)
		distributor->list_at = 0;
	distributor->is_news = true;
	entry->is_held = run->is_held;
	entry->is_head_failure = run->is_head;
	entry_set_times(entry);
	schedule_end(&distributor->schedule, entry, &run->result, clock_boot_ms());
	push_run_free(run);
}

static void end_runs(struct distributor *distributor, struct push_runs *runs)
{
	struct push_run *run;

	while ((run = TAILQ_FIRST(runs)) != NULL) {
		TAILQ_REMOVE(runs, run, link);
		end_run(distributor, run);
	}
}

static void start_run(struct distributor *distributor, struct schedule_entry *entry)
{
	struct push_run *run = xcalloc(1, sizeof(*run));

	run->push = distributor->push;
	run->settings = push_settings_ref(distributor->settings);
	memcpy(run->uri_key, entry->uri_key, sizeof(run->uri_key));
	run->uri = xstrdup(entry->uri);
	run->is_released = entry->is_released;
	run->seen_tasks = entry->seen;
	pool_submit(distributor->push->pool, push_run_work, run);
}

/* Whether a lane goes on although the node ends. */
static bool is_drained(const struct distributor *distributor,
		       const struct schedule_lane *lane, int64_t *until)
{
	const int64_t least_ms = 1000;
	const struct push_remote *remote =
		push_remote_find(distributor->settings, lane->name);

	if (!remote || remote->drain_attempts == 0 || lane->running + lane->waiting == 0)
		return false;
	int64_t step = remote->delay_ms > least_ms ? remote->delay_ms : least_ms;
	int64_t grace = distributor->grace_ms;
	if (remote->drain_attempts < (uint64_t)(grace / step))
		grace = (int64_t)remote->drain_attempts * step;
	*until = distributor->ending_at + grace;
	return clock_boot_ms() < *until;
}

static bool lane_allows(void *arg, const struct schedule_lane *lane)
{
	const struct distributor *distributor = arg;
	int64_t until;

	return distributor->ending_at == 0 || is_drained(distributor, lane, &until);
}

static void start_due(struct distributor *distributor)
{
	struct schedule_entry *entry;

	while ((entry = schedule_next(&distributor->schedule, clock_boot_ms(),
				      lane_allows, distributor)) != NULL)
		start_run(distributor, entry);
}

/* When the last of those that are drained has no more time; 0: none is. */
static int64_t drained_until(const struct distributor *distributor)
{
	int64_t last = 0;

	for (size_t i = 0; i < distributor->schedule.lanes.count; i++) {
		int64_t until;
		if (is_drained(distributor, distributor->schedule.lanes.items[i],
			       &until) &&
		    until > last)
			last = until;
	}
	return last;
}

static bool distributor_is_over(struct distributor *distributor)
{
	struct push *push = distributor->push;

	if (!stop_is_requested(&push->ending))
		return false;
	if (distributor->ending_at == 0) {
		lock(&push->mutex);
		distributor->grace_ms = push->grace_ms;
		unlock(&push->mutex);
		distributor->ending_at = clock_boot_ms();
		return false; /* one more round: what is drained may just have come */
	}
	return drained_until(distributor) == 0;
}

static void distributor_report_state(struct distributor *distributor)
{
	struct push *push = distributor->push;
	const struct schedule *schedule = &distributor->schedule;
	int64_t now = clock_boot_ms();
	size_t waiting = 0;

	for (size_t i = 0; i < schedule->lanes.count; i++)
		waiting += schedule->lanes.items[i]->waiting;
	lock(&push->mutex);
	push->look.running = schedule->running;
	push->look.waiting_uris = waiting;
	unlock(&push->mutex);
	distributor->has_work = waiting + schedule->running > 0;
	if (now < distributor->gauges_at && distributor->has_work)
		return;
	distributor->gauges_at = now + CLOCK_EVERY_MS;
	push_report_queue(schedule, now);
	if (task_store_troubled(push->options.tasks) != distributor->troubled)
		distributor->is_news = true;
	if (!distributor->is_news || now < distributor->dead_letters_at)
		return;
	distributor->is_news = false;
	distributor->troubled = task_store_troubled(push->options.tasks);
	distributor->dead_letters_at = now + DEAD_LETTERS_EVERY_MS;
	push_report_dead_letters(push->options.tasks, distributor->settings,
				 &distributor->letters);
}

static int64_t wait_until(const struct distributor *distributor)
{
	int64_t now = clock_boot_ms();
	int64_t at = int64_min(schedule_next_at(&distributor->schedule, now),
			       distributor->list_at);

	at = int64_min(at,
		       int64_min(distributor->leftovers_at, distributor->presence_at));
	if (distributor->is_news)
		at = int64_min(at, distributor->dead_letters_at);
	if (distributor->ending_at > 0)
		at = int64_min(at, drained_until(distributor));
	/* Gauges tell of ages; and a sleep of the machine is noticed. */
	if (distributor->has_work)
		at = int64_min(at, now + GAUGES_EVERY_MS);
	return at;
}

static void distributor_wait_for_news(const struct distributor *distributor)
{
	const struct push *push = distributor->push;
	bool is_ending = distributor->ending_at > 0;
	struct pollfd fds[] = {
		{ .fd = push->wake_fd, .events = POLLIN },
		{ .fd = task_store_watch_fd(push->options.tasks), .events = POLLIN },
		{ .fd = uri_request_watch_fd(push->options.tasks), .events = POLLIN },
		{ .fd = is_ending ? -1 : push->ending.fd, .events = POLLIN },
	};
	int64_t until = wait_until(distributor), left = until - clock_boot_ms();
	int64_t most = 24 * 3600 * 1000;
	uint64_t count;

	left = left < 0 ? 0 : int64_min(left, most);
	poll(fds, ARRAY_SIZE(fds), until == INT64_MAX ? -1 : (int)left);
	if (fds[0].revents & POLLIN && read(push->wake_fd, &count, sizeof(count)) < 0)
		return; /* cannot be: it is ours alone */
}

static void round_of(struct distributor *distributor)
{
	struct push *push = distributor->push;
	struct push_runs ended = TAILQ_HEAD_INITIALIZER(ended);

	lock(&push->mutex);
	TAILQ_CONCAT(&ended, &push->finished, link);
	unlock(&push->mutex);
	settings_obey(distributor);
	distributor_hear_store(distributor);
	end_runs(distributor, &ended);
	list_if_due(distributor);
	show_presence(distributor);
	start_due(distributor);
	distributor_report_state(distributor);
}

static uint64_t bytes_of(void *arg, const char *project)
{
	const struct push *push = arg;
	AUTO_FREE char *path = NULL;
	AUTO_CLOSE int dir = -1;

	if (name_check(project, ERR_IGNORED) == 0 &&
	    local_repository(push, project, &path, ERR_IGNORED) > 0)
		dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir >= 0 ? packs_size(dir) : 0;
}

void *distributor_run(void *arg)
{
	struct distributor distributor = { .push = arg,
					   .is_news = true,
					   .sweep_at = clock_boot_ms() + SWEEP_EVERY_MS };

	schedule_init(&distributor.schedule);
	distributor.schedule.bytes_of = bytes_of;
	distributor.schedule.arg = arg;
	task_store_report_all(distributor.push->options.tasks);
	while (!distributor_is_over(&distributor)) {
		round_of(&distributor);
		if (!distributor_is_over(&distributor))
			distributor_wait_for_news(&distributor);
	}
	schedule_clear(&distributor.schedule);
	push_settings_unref(distributor.settings);
	text_list_clear(&distributor.leftovers);
	map_clear_owned(&distributor.letters);
	return NULL;
}
