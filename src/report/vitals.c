/*
 * Why these signs are enough. A thread that hangs shows by the age of what it does: the
 * log cursor by when it heard the primary, the comparison and the scan by theirs, the
 * writer of the database and the disks by the write here; a scheduler or a worker that
 * hangs leaves rows that are not synced, and who accepts connections is who is asked. A
 * process that is stopped does not answer at all.
 */
#include "report/vitals.h"

#include "base/bell.h"
#include "base/clock.h"
#include "base/disk_proof.h"
#include "base/hook_wire.h"
#include "base/json.h"
#include "base/log.h"
#include "base/thread.h"
#include "change/hook_socket.h"
#include "replicable/name.h"
#include "store/data_lock.h"
#include "store/site_value.h"

#define EVERY_MS 10000
#define ANSWER_MS 2000
#define ALIVE_KEY "node.alive"
#define STOPPED_KEY "node.stopped" /* the same as that; absent while one lives */

struct vitals {
	pthread_mutex_t mutex;
	/* Guarded by mutex. */
	struct vitals_parts parts;
	int64_t written_at, failing_since; /* boot ms; 0: never, not */
	struct err failure;
	/* Fixed from start to stop. */
	struct vitals_options options;
	struct stop stop;
	pthread_t thread;
};

void vital_signs_clear(struct vital_signs *signs)
{
	follower_list_clear(&signs->followers);
	*signs = VITAL_SIGNS_NONE;
}

static int write_alive(struct store_tx *tx, void *arg, struct err *err)
{
	char text[24];

	(void)arg;
	snprintf(text, sizeof(text), "%" PRId64, clock_wall_ms());
	if (site_value_set(tx, ALIVE_KEY, text, err) != 0)
		return -1;
	return site_value_remove(tx, STOPPED_KEY, err);
}

static int prove_database(struct store_tx *tx, void *arg, struct err *err)
{
	return store_check_place(tx, err) == 0 ? write_alive(tx, arg, err) : -1;
}

static int write_stopped(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	if (write_alive(tx, arg, err) != 0 ||
	    site_value_get(tx, ALIVE_KEY, &text, err) < 0)
		return -1;
	return site_value_set(tx, STOPPED_KEY, text.data, err);
}

int vitals_last(struct store_tx *tx, struct vitals_last *last, struct err *err)
{
	AUTO_STR struct str alive = STR_INIT;
	AUTO_STR struct str stopped = STR_INIT;

	if (site_value_get(tx, ALIVE_KEY, &alive, err) < 0 ||
	    site_value_get(tx, STOPPED_KEY, &stopped, err) < 0)
		return -1;
	last->at = strtoll(alive.data, NULL, 10);
	last->is_stop = alive.len > 0 && strcmp(alive.data, stopped.data) == 0;
	return 0;
}

/* That a directory of copies is away is found by others. */
static int vitals_prove_directory(const char *directory, struct err *err)
{
	return disk_prove(directory, err) == 0 || err->class == ERR_MISSING ? 0 : -1;
}

static int prove_all(const struct vitals_options *options, struct err *err)
{
	const struct kind *kind = NULL;

	if (store_write_quietly(options->store, prove_database, NULL, err) != 0 ||
	    disk_prove(options->data, err) != 0)
		return -1;
	while ((kind = kinds_next(options->here, kind)) != NULL)
		if (kind->path && vitals_prove_directory(kind->path, err) != 0)
			return -1;
	return 0;
}

/* It counts from before it was begun: a disk may have been slow. */
static void vitals_keep_result(struct vitals *vitals, int64_t begun_at,
			       const struct err *failure)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&vitals->mutex);

	if (!failure) {
		vitals->written_at = begun_at;
		vitals->failing_since = 0;
		vitals->failure = (struct err){ 0 };
		return;
	}
	if (vitals->failing_since == 0)
		vitals->failing_since = begun_at;
	vitals->failure = *failure;
}

static void *vitals_run_loop(void *arg)
{
	struct vitals *vitals = arg;
	bool is_failing = false;

	do {
		int64_t begun_at = clock_boot_ms();
		struct err err;
		bool fails = prove_all(&vitals->options, &err) != 0;
		vitals_keep_result(vitals, begun_at, fails ? &err : NULL);
		if (fails && !is_failing)
			log_error("node.not_written", LOG_ERR(&err),
				  LOG_TEXT("remedy", err.remedy));
		else if (!fails && is_failing)
			log_info("node.written_again");
		if (fails != is_failing)
			bell_ring();
		is_failing = fails;
	} while (!stop_wait(&vitals->stop, EVERY_MS));
	return NULL;
}

struct vitals *vitals_start(const struct vitals_options *options)
{
	struct vitals *vitals = xcalloc(1, sizeof(*vitals));

	mutex_init(&vitals->mutex);
	stop_init(&vitals->stop);
	vitals->options = *options;
	thread_start(&vitals->thread, "vitals", vitals_run_loop, vitals);
	return vitals;
}

void vitals_add(struct vitals *vitals, const struct vitals_parts *parts)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&vitals->mutex);

	vitals->parts = *parts;
}

void vitals_stop(struct vitals *vitals)
{
	struct err err;

	if (!vitals)
		return;
	stop_request(&vitals->stop);
	thread_join(vitals->thread);
	if (store_write(vitals->options.store, write_stopped, NULL, &err) != 0)
		log_warn("node.stop_not_written", LOG_ERR(&err));
	stop_clear(&vitals->stop);
	pthread_mutex_destroy(&vitals->mutex);
	free(vitals);
}

static int64_t vitals_compute_age(int64_t at, int64_t now)
{
	if (at == 0)
		return -1;
	return now > at ? now - at : 0;
}

static void look_at_pull(struct pull *pull, struct vital_signs *signs)
{
	struct pull_state state;

	pull_look(pull, &state);
	int64_t now = clock_boot_ms();
	signs->heard_age_ms = vitals_compute_age(state.heard_boot, now);
	signs->news_void = state.news_void;
	signs->compared_age_ms = vitals_compute_age(state.compared_boot, now);
	if (state.compared_boot > 0)
		signs->compared_left_ms = state.compared_until - now;
	signs->unchecked = !state.has_looked;
	signs->primary_wait_ms = state.primary_wait_ms;
	signs->sized = state.copies.sized;
	signs->bytes_to_come = state.copies.bytes_to_come;
	signs->copied = state.copies.copied;
}

/* Of all scans the one that proves the least. What its next scans should have been done
 * in bounds its age: one late one is none. */
static void vitals_add_scan(const struct watch_state *state, struct vital_signs *signs)
{
	int64_t bound = 3 * (state->interval_ms + state->took_ms) + 30000;
	int64_t age = state->has_scanned
			      ? vitals_compute_age(state->scanned_boot, clock_boot_ms())
			      : -1;
	int64_t left = age < 0 ? -1 : bound - age;

	if (signs->scan_left_ms < left)
		return;
	signs->scan_age_ms = age;
	signs->scan_left_ms = left;
}

static void look_at_scans(const struct vitals_parts *parts, struct vital_signs *signs)
{
	const struct kind *kind = NULL;
	struct watch_state state;

	signs->scan_left_ms = INT64_MAX;
	watch_look(parts->watch, KIND_REPOSITORY, &state);
	vitals_add_scan(&state, signs);
	while (parts->blob_watch && (kind = kinds_next(parts->here, kind)) != NULL)
		if (watch_look(parts->blob_watch, kind->type, &state))
			vitals_add_scan(&state, signs);
}

static void look_at_self(struct vitals *vitals, struct vitals_parts *parts,
			 struct vital_signs *signs)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&vitals->mutex);
	int64_t now = clock_boot_ms();

	*parts = vitals->parts;
	signs->write_failure = vitals->failure;
	signs->written_age_ms = vitals_compute_age(vitals->written_at, now);
	signs->failing_age_ms = vitals_compute_age(vitals->failing_since, now);
}

bool vitals_cannot_write(struct vitals *vitals)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&vitals->mutex);

	return vitals->failure.class != ERR_NONE;
}

void vitals_look(struct vitals *vitals, struct vital_signs *signs)
{
	struct vitals_parts parts;

	*signs = VITAL_SIGNS_NONE;
	signs->node = NODE_ANSWERS;
	look_at_self(vitals, &parts, signs);
	if (parts.pull)
		look_at_pull(parts.pull, signs);
	else if (parts.watch)
		look_at_scans(&parts, signs);
	if (parts.leases)
		signs->leases_away =
			lease_manager_away_since(parts.leases, &signs->leases_failure);
	if (parts.followers)
		followers_look(parts.followers, &signs->followers);
}

/* The members of the answer that are ages, or other numbers. */
static const struct {
	const char *name;
	size_t at;
} ages[] = {
	{ "failing", offsetof(struct vital_signs, failing_age_ms) },
	{ "written", offsetof(struct vital_signs, written_age_ms) },
	{ "heard", offsetof(struct vital_signs, heard_age_ms) },
	{ "news_void", offsetof(struct vital_signs, news_void) },
	{ "compared", offsetof(struct vital_signs, compared_age_ms) },
	{ "compared_left", offsetof(struct vital_signs, compared_left_ms) },
	{ "unchecked", offsetof(struct vital_signs, unchecked) },
	{ "primary_wait", offsetof(struct vital_signs, primary_wait_ms) },
	{ "sized", offsetof(struct vital_signs, sized) },
	{ "bytes_to_come", offsetof(struct vital_signs, bytes_to_come) },
	{ "copied", offsetof(struct vital_signs, copied) },
	{ "scanned", offsetof(struct vital_signs, scan_age_ms) },
	{ "scan_left", offsetof(struct vital_signs, scan_left_ms) },
	{ "leases_away", offsetof(struct vital_signs, leases_away) },
};

static int64_t *age_at(struct vital_signs *signs, size_t i)
{
	return (int64_t *)(void *)((char *)signs + ages[i].at);
}

void vitals_say(struct vitals *vitals, struct str *out)
{
	struct vital_signs signs;
	json_auto_t *object = json_object();
	json_t *followers = json_array();

	vitals_look(vitals, &signs);
	for (size_t i = 0; i < ARRAY_SIZE(ages); i++)
		json_put_number(object, ages[i].name, *age_at(&signs, i));
	if (signs.write_failure.class != ERR_NONE)
		json_put(object, "failure", json_from_err(&signs.write_failure));
	if (signs.leases_away > 0)
		json_put(object, "leases_failure", json_from_err(&signs.leases_failure));
	for (size_t i = 0; i < signs.followers.count; i++) {
		const struct follower *one = &signs.followers.items[i];
		json_t *item = json_object();
		json_put_text(item, "site", one->site);
		json_put_number(item, "age", one->age_ms);
		json_put_number(item, "told", one->told_age_ms);
		json_put_bool(item, "twice", one->is_twice);
		json_put(item, "leaves_out",
			 json_texts(one->leaves_out.items, one->leaves_out.count));
		json_array_append_new(followers, item);
	}
	json_put(object, "secondaries", followers);
	json_render(object, out);
	vital_signs_clear(&signs);
}

static void vitals_read_failure(const json_t *said, struct err *failure)
{
	const char *code = json_string_value(json_object_get(said, "code"));
	const char *message = json_string_value(json_object_get(said, "message"));
	const char *remedy = json_string_value(json_object_get(said, "remedy"));

	if (!code || !message)
		return;
	err_set(failure, err_class_of_name(code), "%s", message);
	if (remedy)
		err_remedy(failure, "%s", remedy);
}

static int64_t vitals_number_of(const json_t *said, const char *name, int64_t unknown)
{
	const json_t *value = json_object_get(said, name);

	return json_is_integer(value) ? json_integer_value(value) : unknown;
}

/* A node of another version may leave something out: that is not known then. */
static void vitals_read_answer(const json_t *said, struct vital_signs *signs)
{
	const json_t *followers = json_object_get(said, "secondaries");

	signs->node = NODE_ANSWERS;
	signs->unchecked = 1;
	for (size_t i = 0; i < ARRAY_SIZE(ages); i++)
		*age_at(signs, i) =
			vitals_number_of(said, ages[i].name, *age_at(signs, i));
	vitals_read_failure(json_object_get(said, "failure"), &signs->write_failure);
	vitals_read_failure(json_object_get(said, "leases_failure"),
			    &signs->leases_failure);
	for (size_t i = 0; i < json_array_size(followers); i++) {
		const json_t *one = json_array_get(followers, i);
		const char *site = json_string_value(json_object_get(one, "site"));
		struct follower follower = {
			.site = xstrdup(site ? site : ""),
			.age_ms = vitals_number_of(one, "age", -1),
			.told_age_ms = vitals_number_of(one, "told", -1),
			.is_twice = json_is_true(json_object_get(one, "twice"))
		};
		json_add_texts(json_object_get(one, "leaves_out"), &follower.leaves_out);
		vec_add(&signs->followers, follower);
	}
}

void vitals_ask(const char *data, struct vital_signs *signs)
{
	AUTO_FREE char *answer = xcalloc(1, HOOK_ANSWER_MAX + 1);
	json_auto_t *said = NULL;

	*signs = VITAL_SIGNS_NONE;
	if (!data_lock_is_held(data))
		return;
	signs->node = NODE_MUTE;
	if (hook_socket_report(data, HOOK_ALIVE, ANSWER_MS, answer, HOOK_ANSWER_MAX + 1,
			       ERR_IGNORED) != 1)
		return;
	said = json_parse_object(answer, strlen(answer), HOOK_ANSWER_MAX, ERR_IGNORED);
	if (said)
		vitals_read_answer(said, signs);
}
