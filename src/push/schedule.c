/*
 * An entry waits in the heap until it is due, then in the list of its lane until there is
 * a thread, and in the list of its host while that does not answer. So what cannot run
 * now never stands in the way of what can, and is not looked at again and again.
 *
 * A due time is (oldest task or retry) + random, and never later because of tasks that
 * come later: a hot repository is not postponed for ever.
 *
 * An open host is tried by one entry at once after the first failure, which may be the
 * fault of one repository, then by one each retry time; whoever comes next takes the
 * turn, so that a new change may find out that the host is back long before those that
 * have failed often are due.
 */
#include "push/schedule.h"

#include <assert.h>

#include "base/map.h"
#include "base/retry.h"
#include "push/nodes.h"
#include "push/push.h"
#include "push/store_file.h"
#include "push/task_parts.h"
#include "push/uri_state.h"

/*
 * A HashSet has 16 buckets, doubled whenever more than 3/4 as many texts are in it.
 * String.hashCode(), over UTF-16 units, says which bucket; texts of one bucket stand in
 * the order in which they came, which doubling keeps. (Nine texts in one bucket would
 * become a tree, in yet another order: that costs a second task for the same work, and no
 * real refs do it.)
 */

struct placed {
	char *name;
	size_t bucket, number;
};

/* The code point at *text, which moves behind it. Only well-formed names come into a
 * task; what others give does not matter, but must end. */
static uint32_t next_code_point(const char **text)
{
	const unsigned char *at = (const unsigned char *)*text;
	size_t more = *at < 0xc0 ? 0 : *at < 0xe0 ? 1 : *at < 0xf0 ? 2 : 3;
	uint32_t code = more ? *at & (0x3fU >> more) : *at;

	for (at++; more > 0 && (*at & 0xc0) == 0x80; more--)
		code = code << 6 | (*at++ & 0x3fU);
	*text = (const char *)at;
	return code;
}

static uint32_t java_hash(const char *text)
{
	uint32_t hash = 0;

	while (*text) {
		uint32_t code = next_code_point(&text);
		if (code >= 0x10000) {
			hash = 31 * hash + 0xd800 + ((code - 0x10000) >> 10);
			code = 0xdc00 + ((code - 0x10000) & 0x3ff);
		}
		hash = 31 * hash + code;
	}
	return hash ^ hash >> 16;
}

static void drop_repeated(text_list *names)
{
	struct map met = { 0 };
	size_t kept = 0;

	for (size_t i = 0; i < names->count; i++) {
		if (map_put(&met, names->items[i], names))
			free(names->items[i]);
		else
			names->items[kept++] = names->items[i];
	}
	names->count = kept;
	map_clear(&met);
}

static int by_bucket(const void *a, const void *b)
{
	const struct placed *one = a, *other = b;

	if (one->bucket != other->bucket)
		return one->bucket < other->bucket ? -1 : 1;
	return one->number < other->number ? -1 : 1;
}

void java_order(text_list *names)
{
	VEC(struct placed) places = { 0 };
	size_t buckets = 16;

	drop_repeated(names);
	while (names->count > buckets - buckets / 4)
		buckets *= 2;
	for (size_t i = 0; i < names->count; i++) {
		struct placed one = { names->items[i],
				      java_hash(names->items[i]) & (buckets - 1), i };
		vec_add(&places, one);
	}
	vec_sort(&places, by_bucket);
	for (size_t i = 0; i < names->count; i++)
		names->items[i] = places.items[i].name;
	vec_clear(&places);
}

enum { NAME_SIZE_MAX = 4096 };

int push_nodes_note(struct task_store *store, const char *node, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	char key[URI_KEY_SIZE];
	struct new_file file = { NODES, key, &text, 0, FILE_NO_SYNC };

	uri_key_of(node, key);
	str_add(&text, node);
	return store_put_new(store, &file, err);
}

char *push_node_lease(const char *node)
{
	return xasprintf(PUSH_NODE_LEASE "%s", node);
}

bool push_holder_lives(const struct lease_holder *holder)
{
	return holder->held && !holder->is_dead;
}

/* A file that cannot be read names nobody. */
static int add_living(struct lease_manager *leases, int dir, const char *file,
		      text_list *nodes, struct err *err)
{
	AUTO_STR struct str name = STR_INIT;
	AUTO_FREE char *key = NULL;
	struct lease_holder holder;

	if (file_read(dir, file, NAME_SIZE_MAX, &name, ERR_IGNORED) != 0 || name.len == 0)
		return 0;
	key = push_node_lease(name.data);
	if (strlen(key) >= LEASE_KEY_SIZE)
		return 0;
	if (lease_inspect(leases, key, &holder, err) != 0)
		return err->class == ERR_MISSING ? 0 : -1;
	if (push_holder_lives(&holder))
		vec_add(nodes, str_take(&name));
	return 0;
}

int push_nodes_living(struct task_store *store, struct lease_manager *leases,
		      text_list *nodes, struct err *err)
{
	AUTO_TEXT_LIST text_list names = { 0 };
	AUTO_CLOSE int dir = store_dir(store, NODES, err);

	if (dir < 0 || store_list_files(dir, &names, err) != 0)
		return -1;
	for (size_t i = 0; i < names.count; i++)
		if (add_living(leases, dir, names.items[i], nodes, err) != 0)
			return -1;
	return 0;
}

#define CLOCK_TOLERANCE_MS 100
/* An answer that comes late looks like a clock that was set back by less. */
#define CLOCK_SET_BACK_MS 10000
/* So long smaller repositories may pass by one for which there are not enough bytes. */
#define BYTES_PATIENCE_MS 60000
#define PROBE_LEAST_MS 1000

static int64_t random_below(int64_t below)
{
	return random_between(0, below - 1);
}

void schedule_init(struct schedule *schedule)
{
	*schedule = (struct schedule){ .random = random_below,
				       .limits.repository_transfers = 1 };
}

static void lane_free(struct schedule_lane *lane)
{
	for (size_t i = 0; i < lane->shares.count; i++) {
		free(lane->shares.items[i]->name);
		free(lane->shares.items[i]);
	}
	vec_clear(&lane->shares);
	free(lane->name);
	free(lane);
}

static void schedule_free_entry(struct schedule_entry *entry)
{
	free(entry->uri);
	free(entry->remote);
	free(entry->project);
	free(entry->runs_for);
	free(entry);
}

void schedule_clear(struct schedule *schedule)
{
	const struct map_entry *at;

	for (size_t i = 0; (at = map_next(&schedule->entries, &i)) != NULL;)
		schedule_free_entry(at->value);
	for (size_t i = 0; (at = map_next(&schedule->hosts, &i)) != NULL;)
		free(at->value);
	for (size_t i = 0; i < schedule->lanes.count; i++)
		lane_free(schedule->lanes.items[i]);
	map_clear(&schedule->entries);
	map_clear(&schedule->hosts);
	map_clear(&schedule->transfers);
	vec_clear(&schedule->lanes);
	vec_clear(&schedule->heap);
}

/* The heap: a parent at i is due before its children at 2i + 1 and 2i + 2. */

static void heap_set(struct schedule *schedule, size_t place,
		     struct schedule_entry *entry)
{
	schedule->heap.items[place] = entry;
	entry->place = place;
}

static void heap_rise(struct schedule *schedule, size_t place)
{
	struct schedule_entry *entry = schedule->heap.items[place];

	while (place > 0) {
		struct schedule_entry *above = schedule->heap.items[(place - 1) / 2];
		if (above->due_at <= entry->due_at)
			break;
		heap_set(schedule, place, above);
		place = (place - 1) / 2;
	}
	heap_set(schedule, place, entry);
}

static void heap_sink(struct schedule *schedule, size_t place)
{
	struct schedule_entry **items = schedule->heap.items;
	struct schedule_entry *entry = items[place];
	size_t below, count = schedule->heap.count;

	while ((below = 2 * place + 1) < count) {
		if (below + 1 < count && items[below + 1]->due_at < items[below]->due_at)
			below++;
		if (entry->due_at <= items[below]->due_at)
			break;
		heap_set(schedule, place, items[below]);
		place = below;
	}
	heap_set(schedule, place, entry);
}

static void heap_remove(struct schedule *schedule, const struct schedule_entry *entry)
{
	size_t place = entry->place;
	struct schedule_entry *last = schedule->heap.items[--schedule->heap.count];

	if (last == entry)
		return;
	heap_set(schedule, place, last);
	heap_sink(schedule, place);
	heap_rise(schedule, last->place);
}

struct schedule_lane *schedule_lane(struct schedule *schedule, const char *name)
{
	struct schedule_lane *lane;

	for (size_t i = 0; i < schedule->lanes.count; i++)
		if (strcmp(schedule->lanes.items[i]->name, name) == 0)
			return schedule->lanes.items[i];
	lane = xcalloc(1, sizeof(*lane));
	lane->name = xstrdup(name);
	TAILQ_INIT(&lane->ready);
	vec_add(&schedule->lanes, lane);
	return lane;
}

struct schedule_share *schedule_share(struct schedule_lane *lane, const char *name)
{
	struct schedule_share *share;

	for (size_t i = 0; i < lane->shares.count; i++)
		if (strcmp(lane->shares.items[i]->name, name) == 0)
			return lane->shares.items[i];
	share = xcalloc(1, sizeof(*share));
	share->name = xstrdup(name);
	vec_add(&lane->shares, share);
	return share;
}

void schedule_share_threads(struct schedule_lane *lane)
{
	size_t others = 0;

	for (size_t i = 0; i < lane->shares.count; i++)
		others += lane->shares.items[i]->is_configured;
	others -= others > 0;
	lane->share_limit = lane->threads > others + 1 ? lane->threads - others : 1;
}

struct schedule_host *schedule_host(struct schedule *schedule, const char *name)
{
	struct schedule_host *host;

	if (!name[0])
		return NULL;
	host = map_get(&schedule->hosts, name);
	if (!host) {
		host = xcalloc(1, sizeof(*host));
		TAILQ_INIT(&host->parked);
		map_put(&schedule->hosts, name, host);
	}
	return host;
}

struct schedule_entry *schedule_find(const struct schedule *schedule, const char *uri_key)
{
	return map_get(&schedule->entries, uri_key);
}

struct schedule_entry *schedule_add(struct schedule *schedule, const char *uri_key)
{
	struct schedule_entry *entry = xcalloc(1, sizeof(*entry));

	snprintf(entry->uri_key, sizeof(entry->uri_key), "%s", uri_key);
	map_put(&schedule->entries, uri_key, entry);
	return entry;
}

static bool schedule_is_entry_wanted(const struct schedule_entry *entry)
{
	return entry->tasks > 0 || entry->requests != 0;
}

static bool waits_for_retry(const struct schedule_entry *entry)
{
	if (entry->is_released)
		return false;
	return !entry->is_head_failure ||
	       (entry->tasks == 0 && !(entry->requests & 1U << REQUEST_DELETE));
}

/* Without what this node adds by itself. */
static int64_t asked_at(const struct schedule *schedule,
			const struct schedule_entry *entry)
{
	int64_t at = entry->since;

	if (!entry->is_urgent)
		at += entry->lane->delay_ms;
	if (waits_for_retry(entry))
		at = int64_max(at, entry->retry_at);
	return at - schedule->server_lead_ms;
}

static int64_t due_at(const struct schedule *schedule, const struct schedule_entry *entry)
{
	return int64_max(asked_at(schedule, entry) + entry->random_ms, entry->not_before);
}

/* Out of where it waits. It keeps its lane for the counts. */
static void take_out(struct schedule *schedule, struct schedule_entry *entry)
{
	switch (entry->state) {
	case ENTRY_WAITING:
		heap_remove(schedule, entry);
		break;
	case ENTRY_READY:
		TAILQ_REMOVE(&entry->counted_in->ready, entry, link);
		break;
	case ENTRY_PARKED:
		TAILQ_REMOVE(&entry->parked_in->parked, entry, link);
		entry->parked_in = NULL;
		break;
	default:
		return;
	}
	entry->counted_in->waiting--;
	entry->counted_in = NULL;
}

static void put_in(struct schedule *schedule, struct schedule_entry *entry,
		   enum entry_state state)
{
	entry->state = state;
	entry->counted_in = entry->lane;
	entry->lane->waiting++;
	if (state == ENTRY_WAITING) {
		vec_add(&schedule->heap, entry);
		heap_rise(schedule, schedule->heap.count - 1);
	} else if (state == ENTRY_READY) {
		TAILQ_INSERT_TAIL(&entry->lane->ready, entry, link);
	} else {
		entry->parked_in = entry->host;
		TAILQ_INSERT_TAIL(&entry->host->parked, entry, link);
	}
}

static void move_to(struct schedule *schedule, struct schedule_entry *entry,
		    enum entry_state state)
{
	take_out(schedule, entry);
	put_in(schedule, entry, state);
}

static void unreserve(struct schedule *schedule, struct schedule_entry *entry)
{
	entry->short_of_bytes_since = 0;
	if (schedule->reserved == entry)
		schedule->reserved = NULL;
}

void schedule_place(struct schedule *schedule, struct schedule_entry *entry, int64_t now)
{
	if (entry->state == ENTRY_RUNNING)
		return;
	bool is_new = entry->state == ENTRY_IDLE || entry->state == ENTRY_ORPHAN;
	if (schedule_is_entry_wanted(entry) && entry->lane &&
	    entry->lane == entry->counted_in && !is_new) {
		entry->due_at = due_at(schedule, entry);
		bool was_due = entry->state != ENTRY_WAITING;
		if (was_due && entry->due_at <= now)
			return;
	}
	take_out(schedule, entry);
	unreserve(schedule, entry);
	if (!schedule_is_entry_wanted(entry)) {
		map_remove(&schedule->entries, entry->uri_key);
		schedule_free_entry(entry);
		return;
	}
	if (!entry->lane) {
		entry->state = ENTRY_ORPHAN;
		return;
	}
	if (is_new && schedule->limits.random_ms > 0)
		entry->random_ms = schedule->random(schedule->limits.random_ms + 1);
	entry->due_at = due_at(schedule, entry);
	put_in(schedule, entry, ENTRY_WAITING);
}

void schedule_replace_all(struct schedule *schedule, int64_t now)
{
	const struct map_entry *at;

	for (size_t i = 0; (at = map_next(&schedule->entries, &i)) != NULL;) {
		struct schedule_entry *entry = at->value;
		if (entry->random_ms > schedule->limits.random_ms)
			entry->random_ms = schedule->limits.random_ms;
		if (schedule_is_entry_wanted(
			    entry)) /* else it would be taken out of the map */
			schedule_place(schedule, entry, now);
	}
}

/* What is ahead of the server's clock, now that it was set back, is now. When a retry is
 * due, its owner knows. */
static void cap_times(struct schedule *schedule, int64_t server_ms)
{
	const struct map_entry *at;

	for (size_t i = 0; (at = map_next(&schedule->entries, &i)) != NULL;) {
		struct schedule_entry *entry = at->value;
		int64_t *const times[] = { &entry->since, &entry->tasks_since,
					   &entry->requests_since };
		for (size_t k = 0; k < ARRAY_SIZE(times); k++)
			if (*times[k] > server_ms)
				*times[k] = server_ms;
	}
}

bool schedule_set_clock(struct schedule *schedule, int64_t server_ms, int64_t now)
{
	int64_t moved;

	schedule->server_lead_ms = server_ms - now;
	moved = schedule->server_lead_ms - schedule->placed_lead_ms;
	if (moved < CLOCK_TOLERANCE_MS && moved > -CLOCK_TOLERANCE_MS)
		return false;
	schedule->placed_lead_ms = schedule->server_lead_ms;
	if (moved <= -CLOCK_SET_BACK_MS)
		cap_times(schedule, server_ms);
	schedule_replace_all(schedule, now);
	return moved <= -CLOCK_SET_BACK_MS;
}

static void take_due(struct schedule *schedule, int64_t now)
{
	while (schedule->heap.count > 0 && schedule->heap.items[0]->due_at <= now) {
		struct schedule_entry *entry = schedule->heap.items[0];
		if (schedule->limits.bytes > 0 && schedule->bytes_of)
			entry->bytes = schedule->bytes_of(schedule->arg, entry->project);
		move_to(schedule, entry, ENTRY_READY);
	}
}

/* Of each host whose turn to be tried it is, one. */
static void take_probes(struct schedule *schedule, int64_t now)
{
	const struct map_entry *at;

	for (size_t i = 0; (at = map_next(&schedule->hosts, &i)) != NULL;) {
		struct schedule_host *host = at->value;
		struct schedule_entry *entry = TAILQ_FIRST(&host->parked);
		if (entry && host->probe_at <= now)
			move_to(schedule, entry, ENTRY_READY);
	}
}

static bool schedule_has_bytes(struct schedule *schedule, struct schedule_entry *entry,
			       int64_t now)
{
	uint64_t limit = schedule->limits.bytes;

	if (limit == 0 || schedule->bytes_running == 0)
		return true;
	if (schedule->reserved && schedule->reserved != entry)
		return false;
	if (schedule->bytes_running < limit &&
	    entry->bytes <= limit - schedule->bytes_running)
		return true;
	if (entry->short_of_bytes_since == 0)
		entry->short_of_bytes_since = now;
	else if (now - entry->short_of_bytes_since >= BYTES_PATIENCE_MS)
		schedule->reserved = entry;
	return false;
}

static size_t transfers_of(const struct schedule *schedule, const char *project)
{
	return (size_t)(uintptr_t)map_get(&schedule->transfers, project);
}

static void set_transfers(struct schedule *schedule, const char *project, size_t count)
{
	if (count > 0)
		map_put(&schedule->transfers, project, (void *)(uintptr_t)count);
	else
		map_remove(&schedule->transfers, project);
}

/* Parks it if it is its host for which it has to wait. */
static bool schedule_may_run(struct schedule *schedule, struct schedule_entry *entry,
			     int64_t now)
{
	const struct schedule_host *host = entry->host;

	if (host && host->failures > 0 && host->probe_at > now) {
		unreserve(schedule, entry); /* others need not wait for it meanwhile */
		move_to(schedule, entry, ENTRY_PARKED);
		return false;
	}
	return transfers_of(schedule, entry->project) <
		       schedule->limits.repository_transfers &&
	       schedule_has_bytes(schedule, entry, now);
}

static void schedule_begin_run(struct schedule *schedule, struct schedule_entry *entry,
			       int64_t now)
{
	struct schedule_lane *lane = entry->counted_in;

	take_out(schedule, entry);
	unreserve(schedule, entry);
	entry->state = ENTRY_RUNNING;
	entry->counted_in = lane;
	entry->runs_in = entry->share;
	if (entry->runs_in)
		entry->runs_in->running++;
	lane->running++;
	schedule->running++;
	schedule->bytes_running += entry->bytes;
	entry->runs_for = xstrdup(entry->project);
	set_transfers(schedule, entry->runs_for,
		      transfers_of(schedule, entry->runs_for) + 1);
	if (entry->host && entry->host->failures > 0)
		entry->host->probe_at = now + int64_max(lane->retry_ms, PROBE_LEAST_MS);
}

static bool has_share(const struct schedule_lane *lane,
		      const struct schedule_entry *entry)
{
	return !entry->share || lane->share_limit == 0 ||
	       entry->share->running < lane->share_limit;
}

static struct schedule_entry *next_of_lane(struct schedule *schedule,
					   struct schedule_lane *lane, int64_t now)
{
	struct schedule_entry *entry, *next;

	if (lane->running >= lane->threads)
		return NULL;
	for (entry = TAILQ_FIRST(&lane->ready); entry; entry = next) {
		next = TAILQ_NEXT(entry, link);
		if (has_share(lane, entry) && schedule_may_run(schedule, entry, now))
			return entry;
	}
	return NULL;
}

struct schedule_entry *schedule_next(struct schedule *schedule, int64_t now,
				     lane_allowed allows, void *arg)
{
	take_due(schedule, now);
	take_probes(schedule, now);
	for (size_t i = 0; i < schedule->lanes.count; i++) {
		size_t which = schedule->next_lane++ % schedule->lanes.count;
		struct schedule_lane *lane = schedule->lanes.items[which];
		struct schedule_entry *entry = NULL;
		if (!allows || allows(arg, lane))
			entry = next_of_lane(schedule, lane, now);
		if (entry) {
			schedule_begin_run(schedule, entry, now);
			return entry;
		}
	}
	return NULL;
}

void schedule_probe_all(struct schedule *schedule, int64_t now)
{
	const struct map_entry *at;

	for (size_t i = 0; (at = map_next(&schedule->hosts, &i)) != NULL;) {
		struct schedule_host *host = at->value;
		if (host->probe_at > now)
			host->probe_at = now;
	}
}

int64_t schedule_next_at(const struct schedule *schedule, int64_t now)
{
	int64_t at =
		schedule->heap.count > 0 ? schedule->heap.items[0]->due_at : INT64_MAX;
	const struct map_entry *item;

	for (size_t i = 0; (item = map_next(&schedule->hosts, &i)) != NULL;) {
		const struct schedule_host *host = item->value;
		if (!TAILQ_EMPTY(&host->parked) && host->probe_at > now &&
		    host->probe_at < at)
			at = host->probe_at;
	}
	return at;
}

/* The host is back: all that wait for it are due now, unless their delay is not over. One
 * that failed nevertheless when it was due in this way, though the host had answered, has
 * a trouble of its own: it waits for its next try, whoever succeeds. */
static void schedule_release_host(struct schedule *schedule, struct schedule_host *host,
				  int64_t now)
{
	const struct map_entry *at;

	host->failures = 0;
	for (size_t i = 0; (at = map_next(&schedule->entries, &i)) != NULL;) {
		struct schedule_entry *entry = at->value;
		if (entry->host != host || entry->state == ENTRY_RUNNING)
			continue;
		entry->is_released = entry->is_host_failure && !entry->was_released;
		if (entry->state == ENTRY_PARKED)
			move_to(schedule, entry, ENTRY_READY);
		schedule_place(schedule, entry, now);
	}
}

static void schedule_note_host_end(struct schedule *schedule,
				   const struct schedule_entry *entry,
				   const struct schedule_lane *lane, enum host_end end,
				   int64_t now)
{
	struct schedule_host *host = entry->host;

	if (!host)
		return;
	if (end == HOST_ANSWERED && host->failures > 0)
		schedule_release_host(schedule, host, now);
	if (end == HOST_FAILED && ++host->failures == 1)
		host->probe_at = now;
	else if (end == HOST_FAILED)
		host->probe_at = now + int64_max(lane->retry_ms, PROBE_LEAST_MS);
}

void schedule_end(struct schedule *schedule, struct schedule_entry *entry,
		  const struct schedule_result *result, int64_t now)
{
	struct schedule_lane *lane = TAKE(entry->counted_in);
	AUTO_FREE char *project = TAKE(entry->runs_for);

	assert(entry->state == ENTRY_RUNNING);
	if (entry->runs_in)
		entry->runs_in->running--;
	entry->runs_in = NULL;
	lane->running--;
	schedule->running--;
	schedule->bytes_running -= entry->bytes;
	set_transfers(schedule, project, transfers_of(schedule, project) - 1);
	schedule_note_host_end(schedule, entry, lane, result->host, now);
	entry->state = ENTRY_IDLE;
	entry->random_ms = 0;
	entry->not_before = 0;
	entry->retry_at = result->end == RUN_LATER ? result->retry_at : 0;
	entry->is_host_failure = result->end == RUN_LATER && result->is_host_failure;
	entry->was_released = entry->is_released && entry->is_host_failure &&
			      (!entry->host || entry->host->failures == 1);
	entry->is_released = false;
	if (result->end == RUN_BUSY)
		entry->not_before = now + (result->wait_ms > 0 ? result->wait_ms
							       : lane->reschedule_ms);
	else if ((result->end == RUN_DONE || entry->is_head_failure) && entry->lane &&
		 schedule_is_entry_wanted(entry) && asked_at(schedule, entry) <= now)
		entry->not_before = asked_at(schedule, entry) + lane->reschedule_ms;
	schedule_place(schedule, entry, now);
}
