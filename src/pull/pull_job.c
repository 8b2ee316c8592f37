/*
 * A job on some rows of one kind: whatever the kind is and whatever happens, each row
 * that was claimed is given back with one word about it.
 */
#include <assert.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/retry.h"
#include "pull/copy_kind.h"
#include "pull/decisions.h"
#include "pull/hold.h"
#include "pull/pull_parts.h"
#include "upkeep/copies_root.h"
#include "upkeep/removal.h"
#include "upkeep/trash.h"
#include "verify/damage.h"

#define BUSY_AGAIN_MS 1000
/* A verification that took too long holds the lease for no more than a part of the time.
 */
#define TIMEOUT_SHARE 10
#define LIMIT_AGAIN_MS ((int64_t)10 * 60 * 1000)
/* One run tries nothing again: what failed is for the next one. */
#define NEVER_MS ((int64_t)100 * 365 * 24 * 3600 * 1000)

void pull_job_take_id(struct pull_job *job, const char *id)
{
	if (id)
		snprintf(job->id, sizeof(job->id), "%s", id);
	else
		lease_job_new(job->id);
	history_set_id(job->pull->history, job->shown, job->id);
}

int pull_item_fail(struct pull_item *item, const struct err *why)
{
	item->end = PULL_FAILED;
	item->why = *why;
	return -1;
}

int pull_item_fail_here(struct pull_item *item, const struct err *why)
{
	pull_item_fail(item, why);
	if (item->why.class == ERR_MISSING)
		item->why.class = ERR_DISK;
	return -1;
}

struct pull_item *pull_job_next(const struct pull_job *job, size_t *at, enum pull_end end)
{
	while (*at < job->rows.count) {
		struct pull_item *item = &job->items[(*at)++];
		if (item->end == end)
			return item;
	}
	return NULL;
}

size_t pull_job_count(const struct pull_job *job, enum pull_end end)
{
	size_t count = 0;

	for (size_t at = 0; pull_job_next(job, &at, end);)
		count++;
	return count;
}

bool pull_job_ran_out(const struct pull_job *job, const struct err *why)
{
	return why->class == ERR_TIMEOUT &&
	       (why->sys_errno == 0 || clock_boot_ms() >= job->until);
}

void pull_job_fail_here(struct pull_job *job, enum pull_end end, const struct err *why)
{
	struct pull_item *item;

	for (size_t at = 0; (item = pull_job_next(job, &at, end)) != NULL;)
		pull_item_fail_here(item, why);
}

/* One that is wanted again is brought at once. */
int pull_item_end_removed(struct pull_item *item, const struct err *why)
{
	item->end = PULL_REMOVED;
	if (why->class == ERR_NONE)
		return 0;
	pull_item_fail_here(item, why);
	if (why->reason == REASON_WANTED)
		item->why.class = ERR_LOST;
	return -1;
}

bool pull_item_is_placed(const struct pull_item *item)
{
	return item->end == PULL_CREATED || item->end == PULL_UPDATED;
}

static bool is_brought(const struct pull_item *item)
{
	return pull_item_is_placed(item) || item->end == PULL_UNCHANGED;
}

static bool is_brought_and_proved(const struct pull_item *item)
{
	return is_brought(item) && item->is_proved;
}

/* The registry knows of a removal; of a deletion that must wait it was told before. */
static bool is_to_be_told(const struct pull_item *item)
{
	return item->end != PULL_REMOVED && item->end != PULL_LIMITED;
}

static bool is_gone(const struct pull_item *item)
{
	return item->end == PULL_OPEN && item->row->is_gone;
}

static bool is_limited(const struct pull_item *item)
{
	return item->end == PULL_LIMITED;
}

static size_t count_items(const struct pull_job *job,
			  bool (*is_meant)(const struct pull_item *))
{
	size_t count = 0;

	for (size_t i = 0; i < job->rows.count; i++)
		count += is_meant(&job->items[i]);
	return count;
}

/*
 * What the registry is told.
 */

static void fill_failed_move(const struct pull_item *item, struct registry_move *move)
{
	const struct err *why = &item->why;

	move->err = why;
	switch (why->class) {
	case ERR_BUSY:
	case ERR_LOCK_TIMEOUT:
	case ERR_LOCK_UNAVAILABLE:
		move->event = REGISTRY_DEFERRED;
		move->timeout_ms = BUSY_AGAIN_MS;
		break;
	case ERR_CANCELED:
	case ERR_LOST:
		move->event = REGISTRY_DEFERRED;
		break;
	case ERR_MISSING:
		move->event = REGISTRY_ABSENT;
		move->is_final = item->is_final;
		break;
	default:
		move->event = REGISTRY_ERRED;
		move->is_final = item->is_final;
		move->timeout_ms = item->wait_ms;
		break;
	}
}

static int64_t reverify_ms(const struct pull_job *job)
{
	return next_reverify_ms(pull_settings_now(job->pull).reverify_ms, random_roll());
}

static struct registry_move make_verified_move(const struct pull_job *job,
					       const struct pull_item *item)
{
	struct registry_move move = {
		.id = item->row->id,
		.claim_token = item->row->claim_token,
		.event = verification_end(&item->why, item->of_copy),
		.generation = item->generation,
		.timeline = item->timeline[0] ? item->timeline : NULL,
		.checksum = item->checksum,
		.err = &item->why,
		.wishes = item->wishes,
		.delay_ms = item->wait_ms,
		.timeout_ms = verification_again_ms(item->why.class),
	};

	if (move.event == REGISTRY_PROVED)
		move.timeout_ms = reverify_ms(job);
	else if (pull_job_ran_out(job, &item->why))
		move.timeout_ms = TIMEOUT_SHARE * pull_settings_now(job->pull).timeout_ms;
	return move;
}

static struct registry_move make_brought_move(const struct pull_job *job,
					      const struct pull_item *item)
{
	return (struct registry_move){
		.id = item->row->id,
		.claim_token = item->row->claim_token,
		.event = item->is_proved ? REGISTRY_COMPLETED : REGISTRY_BROUGHT,
		.generation = item->generation,
		.timeline = item->timeline,
		.checksum = item->checksum[0] ? item->checksum : NULL,
		.size = item->size,
		.delay_ms = pace_delay_ms(job->pull, item->row->id),
		.timeout_ms = reverify_ms(job),
	};
}

static struct registry_move make_move(const struct pull_job *job,
				      const struct pull_item *item)
{
	struct registry_move move = { .id = item->row->id,
				      .claim_token = item->row->claim_token,
				      .event = REGISTRY_DEFERRED };

	assert(job->is_verification || item->end > PULL_ARRIVED);
	if (job->is_verification)
		return make_verified_move(job, item);
	switch (item->end) {
	case PULL_WAITS:
		move.timeout_ms = item->wait_ms;
		break;
	case PULL_LIMITED:
		move.timeout_ms = LIMIT_AGAIN_MS;
		break;
	case PULL_HELD:
		move.event = REGISTRY_HELD;
		move.held_reason = item->held_reason;
		move.remedy = item->remedy;
		break;
	case PULL_FAILED:
		if (job->pull->options.once)
			move.timeout_ms = NEVER_MS;
		else
			fill_failed_move(item, &move);
		break;
	default:
		return make_brought_move(job, item);
	}
	return move;
}

void pull_move_later(struct pull *pull, const struct registry_move *move)
{
	struct given_back row = { .id = move->id, .event = move->event };

	if (move->claim_token)
		snprintf(row.claim_token, sizeof(row.claim_token), "%s",
			 move->claim_token);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	for (size_t i = 0; i < pull->given_back.count; i++) {
		const struct given_back *one = &pull->given_back.items[i];
		if (one->id == row.id && one->event == row.event &&
		    strcmp(one->claim_token, row.claim_token) == 0)
			return; /* as many readers doubt one copy */
	}
	vec_add(&pull->given_back, row);
	pull->woken = true;
	pthread_cond_broadcast(&pull->work);
}

static void give_back_later(const struct pull_job *job, const struct registry_move *said)
{
	pull_move_later(job->pull,
			&(struct registry_move){ .id = said->id,
						 .claim_token = said->claim_token,
						 .event = job->is_verification
								  ? REGISTRY_SUPERSEDED
								  : REGISTRY_DEFERRED });
}

/* What was asked for anew meanwhile, or removed, counts more than what is told here. */
static void take_results(struct pull_job *job, bool (*is_meant)(const struct pull_item *),
			 const enum registry_result *results)
{
	size_t at = 0;

	for (size_t i = 0; i < job->rows.count; i++) {
		struct pull_item *item = &job->items[i];
		if (!is_meant(item))
			continue;
		item->is_recorded = true;
		item->result = results[at++];
	}
}

/* All that are meant in one transaction. */
static void tell_registry(struct pull_job *job,
			  bool (*is_meant)(const struct pull_item *))
{
	AUTO_FREE struct registry_move *moves = xcalloc(job->rows.count, sizeof(*moves));
	AUTO_FREE enum registry_result *results =
		xcalloc(job->rows.count, sizeof(*results));
	size_t count = 0;
	struct err err;

	for (size_t i = 0; i < job->rows.count; i++)
		if (is_meant(&job->items[i]))
			moves[count++] = make_move(job, &job->items[i]);
	if (registry_move_many(job->pull->options.store, moves, count, results, &err) ==
	    0) {
		take_results(job, is_meant, results);
		return;
	}
	log_error("registry.failed", LOG_ERR(&err));
	for (size_t i = 0; i < count; i++)
		give_back_later(job, &moves[i]);
}

static size_t count_given_back(struct pull *pull)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	return pull->given_back.count;
}

static struct given_back take_given_back(struct pull *pull)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	return pull->given_back.items[--pull->given_back.count];
}

/* To the other end: it is the last one to be tried again. */
static void put_given_back(struct pull *pull, const struct given_back *one)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	vec_add(&pull->given_back, *one);
	memmove(pull->given_back.items + 1, pull->given_back.items,
		(pull->given_back.count - 1) * sizeof(*one));
	pull->given_back.items[0] = *one;
}

static int give_back_one(struct pull *pull, const struct given_back *one, struct err *err)
{
	const struct registry_move move = {
		.id = one->id,
		.claim_token = one->claim_token,
		.event = (enum registry_event)one->event,
	};

	return registry_move(pull->options.store, &move, err) == 0 ||
			       err->class == ERR_CONFLICT || err->class == ERR_MISSING
		       ? 0
		       : -1;
}

/* Each is tried once. A database that is locked, or on a failing disk, takes its time
 * with each; but the disk may fail for one alone. */
int pull_give_back_now(struct pull *pull, struct err *err)
{
	struct err why = { 0 };
	int result = 0;

	for (size_t rest = count_given_back(pull);
	     rest > 0 && why.class != ERR_BUSY && why.class != ERR_DISK; rest--) {
		struct given_back one = take_given_back(pull);
		if (give_back_one(pull, &one, &why) == 0)
			continue;
		*err = why;
		result = -1;
		put_given_back(pull, &one);
	}
	return result;
}

/*
 * What the metrics are told.
 */

const char *pull_item_word(const struct pull_item *item)
{
	static const char *const words[PULL_ENDS] = {
		[PULL_CREATED] = "created",     [PULL_UPDATED] = "updated",
		[PULL_UNCHANGED] = "unchanged", [PULL_REMOVED] = "removed",
		[PULL_WAITS] = "deferred",      [PULL_HELD] = "held",
		[PULL_LIMITED] = "held",
	};

	if (item->end != PULL_FAILED)
		return words[item->end];
	if (err_is_deferral(item->why.class))
		return "deferred";
	return item->why.class == ERR_MISSING ? "missing" : "failed";
}

static bool is_counted(const struct pull_item *item)
{
	return !item->is_uncounted;
}

static struct metric *syncs(void)
{
	return metric_counter("refrelay_syncs_total", "Syncs that ended.", "kind",
			      "state");
}

static struct metric *sync_failures(void)
{
	return metric_counter("refrelay_sync_failures_total",
			      "Syncs that failed, by the class of their error.", "kind",
			      "class");
}

static struct metric *sync_durations(void)
{
	return metric_histogram("refrelay_sync_duration_seconds", "How long syncs took.",
				metric_buckets_seconds, "kind");
}

static struct metric *sync_bytes(void)
{
	return metric_counter("refrelay_sync_bytes_total",
			      "Bytes of packs and blobs that arrived.", "kind");
}

static struct metric *verifications(void)
{
	return metric_counter("refrelay_verifications_total", "Verifications that ended.",
			      "kind", "state");
}

static struct metric *changes_to_verified(void)
{
	return metric_histogram("refrelay_change_to_verified_seconds",
				"From a change at the primary to its verified copy.",
				metric_buckets_seconds, "kind");
}

void pull_job_begin_metrics(const struct kinds_here *here)
{
	const struct kind *kind = NULL;

	while ((kind = kinds_next_copied(here, kind)) != NULL) {
		const char *const *type = METRIC_LIST(kind->type);
		metric_begin(syncs(), type,
			     METRIC_LIST("created", "updated", "unchanged", "removed",
					 "held", "deferred", "missing", "failed"));
		metric_begin(sync_failures(), type, err_class_names);
		metric_begin(sync_durations(), type, NULL);
		metric_begin(sync_bytes(), type, NULL);
		metric_begin(verifications(), type,
			     METRIC_LIST("proved", "disproved", "superseded"));
		metric_begin(changes_to_verified(), type, NULL);
	}
}

static void count_sync(const struct pull_job *job, const struct pull_item *item)
{
	const char *type = job->kind.type, *word = pull_item_word(item);

	metric_add(metric_at(syncs(), type, word), 1);
	if (item->end == PULL_FAILED && strcmp(word, "deferred") != 0)
		metric_add(
			metric_at(sync_failures(), type, err_class_name(item->why.class)),
			1);
}

static void measure_bringing(const struct pull_job *job)
{
	if (count_items(job, is_counted) == 0)
		return;
	for (size_t i = 0; i < job->rows.count; i++)
		if (is_counted(&job->items[i]))
			count_sync(job, &job->items[i]);
	metric_observe(metric_at(sync_durations(), job->kind.type),
		       (double)job->took_ms / 1000);
	metric_add(metric_at(sync_bytes(), job->kind.type), (double)job->bytes);
}

static void measure_verification(const struct pull_job *job)
{
	static const char *const words[REGISTRY_EVENTS] = {
		[REGISTRY_PROVED] = "proved",
		[REGISTRY_DISPROVED] = "disproved",
		[REGISTRY_SUPERSEDED] = "superseded",
	};
	for (size_t i = 0; i < job->rows.count; i++) {
		const struct pull_item *item = &job->items[i];
		enum registry_event end = verification_end(&item->why, item->of_copy);
		if (end == REGISTRY_DISPROVED && item->why.class == ERR_CORRUPT)
			damage_note(job->kind.type, item->row->name, &item->why);
		metric_add(metric_at(verifications(), job->kind.type, words[end]), 1);
	}
}

/* Clocks are read to some milliseconds. */
static int64_t lag_of(const struct pull_job *job, const struct pull_item *item)
{
	int64_t since = item->row->behind_since;
	int64_t lag_ms = since > 0 ? pull_now_ms(job->pull) - since : 0;

	return lag_ms > 0 ? lag_ms : 0;
}

static void measure_lag(const struct pull_job *job, const struct pull_item *item)
{
	metric_observe(metric_at(changes_to_verified(), job->kind.type),
		       (double)item->lag_ms / 1000);
}

static void measure_lags(struct pull_job *job)
{
	for (size_t i = 0; i < job->rows.count; i++) {
		struct pull_item *item = &job->items[i];
		if (!is_brought_and_proved(item))
			continue;
		item->lag_ms = lag_of(job, item);
		if (item->is_recorded && item->result == REGISTRY_MOVED &&
		    item->row->behind_since > 0)
			measure_lag(job, item);
	}
}

/*
 * What the primary has no more: copies into the trash, rows out, as far as the deletion
 * limit of the kind lets them.
 */

static int may_remove(const struct pull_job *job, int root, bool *may, struct err *err)
{
	const struct removal_limit deletion_limit = {
		.kind = job->kind.type,
		.root = root,
		.share = pull_settings_now(job->pull).delete_brake,
		.more_than = HOLD_REPLICABLES.more_than,
	};

	return removal_may(job->pull->options.store, &deletion_limit, may, err);
}

/* The limit holds those that nobody works on: ours are given back, then asked about. */
static void hold_back(struct pull_job *job, int root)
{
	struct err err;
	bool may;

	for (size_t i = 0; i < job->rows.count; i++)
		if (is_gone(&job->items[i]))
			job->items[i].end = PULL_LIMITED;
	tell_registry(job, is_limited);
	if (may_remove(job, root, &may, &err) != 0)
		log_error("registry.failed", LOG_ERR(&err));
}

static bool has_gone_copies(const struct pull_job *job, int root)
{
	for (size_t i = 0; i < job->rows.count; i++)
		if (is_gone(&job->items[i]) &&
		    !removal_has_no_copy(root, job->items[i].row))
			return true;
	return false;
}

static void remove_gone(struct pull_job *job)
{
	bool may = false;
	struct err err;

	if (count_items(job, is_gone) == 0)
		return;
	AUTO_CLOSE int root = pull_open_copies(job->pull, job->kind.type);
	if (!has_gone_copies(job, root)) {
		job->kind.copies->remove(job);
		return;
	}
	if (may_remove(job, root, &may, &err) == 0) {
		if (may)
			job->kind.copies->remove(job);
		else
			hold_back(job, root);
		return;
	}
	log_error("registry.failed", LOG_ERR(&err));
	for (size_t i = 0; i < job->rows.count; i++)
		if (is_gone(&job->items[i]))
			pull_item_fail_here(&job->items[i], &err);
}

/*
 * A job from its claim to its end.
 */

static void make_items(struct pull_job *job)
{
	job->items = xcalloc(job->rows.count + 1, sizeof(*job->items));
	for (size_t i = 0; i < job->rows.count; i++)
		job->items[i].row = &job->rows.items[i];
}

/* A repository may be meant for the folder itself (copies_root_check_place()). */
static int check_away(const struct pull_job *job, const json_t *mounts, const char *name,
		      struct err *err)
{
	if (copies_root_check_mounts(mounts, job->kind.path, name, err) == 0)
		return 0;
	return kind_is_repository(job->kind.type)
		       ? pull_check_place(job->pull, job->kind.type, name, err)
		       : -1;
}

static int fail_away(struct pull_job *job, struct err *err)
{
	json_auto_t *mounts = NULL;
	struct pull_item *item;

	if (job->pull->options.once || !job->kind.path ||
	    (kind_is_repository(job->kind.type) && !job->is_verification))
		return 0; /* bringing and removing one look by themselves */
	if (copies_root_read_mounts(job->pull->options.store, job->kind.type, &mounts,
				    err) != 0)
		return -1;
	for (size_t at = 0; (item = pull_job_next(job, &at, PULL_OPEN));)
		if (check_away(job, mounts, item->row->name, err) != 0)
			pull_item_fail(item, err);
	return 0;
}

/* A name becomes a path here, wherever it came from. */
static int open_job(struct pull_job *job)
{
	struct err err;

	make_items(job);
	for (size_t i = 0; i < job->rows.count; i++)
		if (job->kind.check_name(&job->kind, job->items[i].row->name, &err) != 0)
			pull_item_fail(&job->items[i], &err);
	if ((!job->kind.copies->open || job->kind.copies->open(job, &err) == 0) &&
	    fail_away(job, &err) == 0)
		return 0;
	pull_job_fail_here(job, PULL_OPEN, &err);
	return -1;
}

/* One of *running is no more: the scheduler looks. */
static void end_job(struct pull_job *job)
{
	struct pull *pull = job->pull;

	lock(&pull->mutex);
	(*job->running)--;
	pull->finished++;
	pull->woken = true;
	pthread_cond_broadcast(&pull->work);
	unlock(&pull->mutex);
	for (size_t i = 0; job->items && i < job->rows.count; i++) {
		free(job->items[i].held_reason);
		free(job->items[i].remedy);
	}
	free(job->items);
	registry_rows_clear(&job->rows);
	free(job);
}

void pull_job_forget(void *arg)
{
	struct pull_job *job = arg;

	if (!job->kind.copies) {
		free(job);
		return;
	}
	make_items(job);
	for (size_t i = 0; i < job->rows.count; i++) {
		job->items[i].end = PULL_WAITS;
		job->items[i].why.class = ERR_CANCELED;
	}
	tell_registry(job, is_to_be_told);
	end_job(job);
}

static void report_ends(const struct pull_job *job)
{
	const struct pull_once *once = job->pull->options.once;

	for (size_t i = 0; once && i < job->rows.count; i++) {
		const struct pull_item *item = &job->items[i];
		/* without a stop nothing comes back to it */
		bool is_cut =
			item->end == PULL_WAITS ||
			(item->end == PULL_FAILED && item->why.class == ERR_CANCELED &&
			 (stop_is_requested(&job->pull->stop) ||
			  stop_is_requested(&job->pull->kill)));
		if (!is_cut)
			once->ended(once->arg, item);
	}
}

static void bring_job(struct pull_job *job)
{
	int64_t started = clock_boot_ms();

	if (open_job(job) == 0) {
		remove_gone(job);
		job->kind.copies->bring(job);
	}
	job->took_ms = clock_boot_ms() - started;
	measure_bringing(job);
	tell_registry(job, is_to_be_told);
	measure_lags(job);
	job->kind.copies->end(job);
	report_ends(job);
}

static bool is_known_hindrance(const struct pull_item *item)
{
	const char *class = item->row->failure_class;

	return class && strcmp(class, err_class_name(item->why.class)) == 0;
}

/* Its row says so, too, until it was verified. Blobs whose file system is away are many:
 * one of a job and class, and only those that are new. */
static void log_hindrances(const struct pull_job *job)
{
	const bool is_repository = job->kind.copies->bring_most == 1;
	unsigned logged = 0; /* classes */

	for (size_t i = 0; i < job->rows.count; i++) {
		const struct pull_item *item = &job->items[i];
		if (verification_end(&item->why, item->of_copy) != REGISTRY_SUPERSEDED ||
		    !registry_is_hindrance(&item->why) || is_known_hindrance(item) ||
		    (logged & 1U << item->why.class) != 0)
			continue;
		log_warn("verify.deferred", LOG_NUMBER("dur_ms", job->took_ms),
			 LOG_ERR(&item->why), LOG_TEXT("remedy", item->why.remedy),
			 LOG_TEXT("kind", is_repository ? NULL : job->kind.type),
			 LOG_TEXT("name", is_repository ? NULL : item->row->name));
		logged |= 1U << item->why.class;
	}
}

static void verify_job(struct pull_job *job)
{
	int64_t started = clock_boot_ms();

	if (open_job(job) == 0)
		job->kind.copies->verify(job);
	job->took_ms = clock_boot_ms() - started;
	measure_verification(job);
	log_hindrances(job);
	failpoint("verify.done");
	tell_registry(job, is_to_be_told);
	job->kind.copies->end(job);
	if (job->rests)
		stop_wait(&job->pull->stop, clock_boot_ms() - started);
}

/* It may have waited for long behind other large ones, or behind upkeep: before the rest
 * of its time is too short, it is claimed anew. What was proved is not doubted for that.
 */
static bool is_too_late(struct pull_job *job)
{
	int64_t timeout_ms = pull_settings_now(job->pull).timeout_ms;

	job->until = job->claimed_at + timeout_ms;
	return clock_boot_ms() - job->claimed_at > timeout_ms / 2;
}

static void upkeep(struct pull_job *job)
{
	const struct kind *kind = NULL;

	while ((kind = kinds_next_copied(job->pull->options.here, kind)) != NULL) {
		if (kind->path)
			trash_expire(kind->path);
		if (kind->copies->tidy)
			kind->copies->tidy(kind);
	}
	free(job);
}

void pull_job_run(void *arg)
{
	struct pull_job *job = arg;

	if (!job->kind.copies) {
		upkeep(job);
		return;
	}
	if (stop_is_requested(&job->pull->stop) || is_too_late(job)) {
		pull_job_forget(job);
		return;
	}
	pull_job_take_id(job, NULL);
	const struct log_context context = {
		.repo = job->kind.copies->bring_most > 1 ? NULL : job->rows.items[0].name,
		.job = job->is_verification ? "verify" : "sync",
		.job_id = job->id, /* whatever id it takes later */
	};
	struct log_context before = log_set_context(context);
	job->shown = history_begin(job->pull->history, job);
	if (job->is_verification)
		verify_job(job);
	else
		bring_job(job);
	history_end(job->pull->history, TAKE(job->shown), job);
	log_set_context(before);
	end_job(job);
}
