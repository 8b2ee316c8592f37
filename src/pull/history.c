/*
 * A ring of ends, a list of what runs, and a ring of minutes. Ends of blobs are counted
 * and not kept: there may be thousands a second, and a row tells of what fails. Nor is
 * kept what was not tried after all, as when another had the lease: no person can do
 * anything about it.
 */
#include "pull/history.h"

#include <sys/queue.h>

#include "base/clock.h"
#include "base/thread.h"
#include "pull/copy_kind.h"
#include "pull/decisions.h"

#define HISTORY_MINUTES 60
#define MINUTE_MS 60000

struct history_end {
	char *kind, *name; /* owned; NULL: none yet */
	int64_t at, took_ms;
	const char *what, *word; /* static */
	struct err why;
	char *held_reason; /* owned, may be NULL */
	uint64_t bytes;
	size_t refs_changed;
};

struct shown_job {
	struct history_job shown; /* first: its address is that of this */
	char *kind, *name;        /* owned; of several rows the first */
	char id[LEASE_JOB_SIZE];  /* guarded by the history's mutex */
	size_t rows;
	uint64_t size; /* of them all; 0: not known */
	bool is_verification;
	int64_t begun_at, begun_boot;
	TAILQ_ENTRY(shown_job) link;
};

struct history_minute {
	int64_t number; /* since the boot */
	uint64_t jobs, bytes;
};

struct history {
	pthread_mutex_t mutex; /* guards the rest */
	TAILQ_HEAD(, shown_job) running;
	struct history_minute minutes[HISTORY_MINUTES];
	size_t kept, next;              /* next: of ends, where the next one goes */
	int64_t synced_at, verified_at; /* wall ms: when one last was; 0: never */
	struct history_end *ends;
};

struct history *history_new(size_t kept)
{
	struct history *history = xcalloc(1, sizeof(*history));

	mutex_init(&history->mutex);
	TAILQ_INIT(&history->running);
	history->kept = kept;
	history->ends = xcalloc(kept, sizeof(*history->ends));
	return history;
}

static void history_clear_end(struct history_end *end)
{
	free(end->kind);
	free(end->name);
	free(end->held_reason);
	*end = (struct history_end){ 0 };
}

static void history_free_shown(struct shown_job *shown)
{
	free(shown->kind);
	free(shown->name);
	free(shown);
}

void history_free(struct history *history)
{
	if (!history)
		return;
	for (size_t i = 0; i < history->kept; i++)
		history_clear_end(&history->ends[i]);
	free(history->ends);
	pthread_mutex_destroy(&history->mutex);
	free(history);
}

struct history_job *history_begin(struct history *history, const struct pull_job *job)
{
	struct shown_job *shown;

	if (!history)
		return NULL;
	shown = xcalloc(1, sizeof(*shown));
	shown->kind = xstrdup(job->kind.type);
	shown->name = xstrdup(job->rows.count > 0 ? job->rows.items[0].name : "");
	snprintf(shown->id, sizeof(shown->id), "%s", job->id);
	shown->rows = job->rows.count;
	for (size_t i = 0; i < job->rows.count; i++)
		shown->size += job->rows.items[i].size;
	shown->is_verification = job->is_verification;
	shown->begun_at = clock_wall_ms();
	shown->begun_boot = clock_boot_ms();
	AUTO_UNLOCK pthread_mutex_t *held = lock(&history->mutex);
	TAILQ_INSERT_TAIL(&history->running, shown, link);
	return &shown->shown;
}

void history_set_id(struct history *history, struct history_job *shown, const char *id)
{
	struct shown_job *own = (struct shown_job *)(void *)shown;

	if (!history || !shown)
		return;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&history->mutex);
	snprintf(own->id, sizeof(own->id), "%s", id);
}

static const char *history_word(const struct pull_job *job, const struct pull_item *item)
{
	if (!job->is_verification)
		return pull_item_word(item);
	switch (verification_end(&item->why, item->of_copy)) {
	case REGISTRY_PROVED:
		return "proved";
	case REGISTRY_DISPROVED:
		return "disproved";
	default:
		return "deferred";
	}
}

static void history_keep_locked(struct history *history, const struct shown_job *shown,
				const struct pull_job *job, const struct pull_item *item)
{
	const char *word = history_word(job, item);
	struct history_end *end = &history->ends[history->next];

	if (strcmp(word, "deferred") == 0)
		return;
	history->next = (history->next + 1) % history->kept;
	history_clear_end(end);
	end->kind = xstrdup(shown->kind);
	end->name = xstrdup(item->row->name);
	end->at = clock_wall_ms();
	end->took_ms = clock_boot_ms() - shown->begun_boot;
	end->what = job->is_verification ? "verify" : "sync";
	end->word = word;
	if (item->end == PULL_FAILED || strcmp(word, "disproved") == 0)
		end->why = item->why;
	end->held_reason = item->held_reason ? xstrdup(item->held_reason) : NULL;
	end->bytes = item->bytes;
	end->refs_changed = item->refs_changed;
}

static void history_count_locked(struct history *history, const struct pull_job *job)
{
	int64_t number = clock_boot_ms() / MINUTE_MS;
	struct history_minute *minute = &history->minutes[number % HISTORY_MINUTES];

	if (minute->number != number)
		*minute = (struct history_minute){ .number = number };
	minute->jobs++;
	minute->bytes += job->bytes;
	for (size_t i = 0; i < job->rows.count; i++) {
		const char *word = history_word(job, &job->items[i]);
		if (strcmp(word, "proved") == 0 || job->items[i].is_proved)
			history->verified_at = clock_wall_ms();
		if (!job->is_verification && pull_item_is_placed(&job->items[i]))
			history->synced_at = clock_wall_ms();
	}
}

void history_end(struct history *history, struct history_job *shown,
		 const struct pull_job *job)
{
	struct shown_job *own = (struct shown_job *)(void *)shown;

	if (!history)
		return;
	lock(&history->mutex);
	TAILQ_REMOVE(&history->running, own, link);
	history_count_locked(history, job);
	for (size_t i = 0; job->kind.copies->bring_most == 1 && i < job->rows.count; i++)
		history_keep_locked(history, own, job, &job->items[i]);
	unlock(&history->mutex);
	history_free_shown(own);
}

static json_t *history_end_json(const struct history_end *end)
{
	json_t *object = json_object();

	json_put_text(object, "what", end->what);
	json_put_text(object, "result", end->word);
	json_put_time(object, "at", end->at);
	json_put_seconds(object, "took", end->took_ms);
	json_put_number(object, "bytes", (int64_t)end->bytes);
	json_put_number(object, "refs_changed", (int64_t)end->refs_changed);
	if (end->held_reason)
		json_put_message(object, "held_reason", end->held_reason);
	json_put(object, "failure",
		 end->why.class != ERR_NONE ? json_from_err(&end->why) : json_null());
	return object;
}

json_t *history_of_json(struct history *history, const char *kind, const char *name,
			size_t most)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&history->mutex);
	json_t *array = json_array();

	for (size_t i = 1; i <= history->kept && json_array_size(array) < most; i++) {
		const struct history_end *end =
			&history->ends[(history->next + history->kept - i) %
				       history->kept];
		if (!end->name)
			break;
		if (strcmp(end->name, name) == 0 && strcmp(end->kind, kind) == 0)
			json_array_append_new(array, history_end_json(end));
	}
	return array;
}

/* 0: unknown. */
static uint64_t history_size(const struct shown_job *shown)
{
	const uint64_t at_end = atomic_load(&shown->shown.bytes_at_end);

	return at_end > 0 ? at_end : shown->size;
}

/* Of a first copy by pack files. It is served when it is verified. */
static const char *history_phase(const struct shown_job *shown)
{
	const uint64_t at_end = atomic_load(&shown->shown.bytes_at_end);

	if (at_end == 0)
		return NULL;
	return atomic_load(&shown->shown.bytes) < at_end ? "copying" : "verifying";
}

static json_t *history_shown_json(const struct shown_job *shown)
{
	json_t *object = json_object();

	json_put_text(object, "job", shown->id);
	json_put_text(object, "kind", shown->kind);
	json_put_text(object, "name", shown->name);
	json_put_number(object, "rows", (int64_t)shown->rows);
	json_put_number(object, "size", (int64_t)history_size(shown));
	json_put_text(object, "what", shown->is_verification ? "verify" : "sync");
	json_put_text(object, "phase", history_phase(shown));
	json_put_time(object, "since", shown->begun_at);
	json_put_seconds(object, "took", clock_boot_ms() - shown->begun_boot);
	json_put_number(object, "bytes", (int64_t)atomic_load(&shown->shown.bytes));
	return object;
}

json_t *history_running_json(struct history *history, size_t most)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&history->mutex);
	json_t *array = json_array();
	const struct shown_job *shown;

	TAILQ_FOREACH(shown, &history->running, link)
	if (json_array_size(array) < most)
		json_array_append_new(array, history_shown_json(shown));
	return array;
}

void history_look(struct history *history, struct pull_copies *copies)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&history->mutex);
	const struct shown_job *shown;

	*copies = (struct pull_copies){ 0 };
	TAILQ_FOREACH(shown, &history->running, link)
	{
		const uint64_t size = atomic_load(&shown->shown.bytes_at_end);
		const uint64_t here = atomic_load(&shown->shown.bytes);
		if (size == 0)
			continue;
		copies->sized++;
		copies->bytes_to_come += here < size ? (int64_t)(size - here) : 0;
		copies->copied += here >= size;
	}
}

static json_t *history_rate_json(const struct history *history, int64_t minutes)
{
	int64_t now = clock_boot_ms() / MINUTE_MS;
	uint64_t jobs = 0, bytes = 0;
	json_t *object = json_object();

	for (size_t i = 0; i < HISTORY_MINUTES; i++) {
		const struct history_minute *minute = &history->minutes[i];
		if (now - minute->number >= minutes)
			continue;
		jobs += minute->jobs;
		bytes += minute->bytes;
	}
	json_put_number(object, "jobs", (int64_t)jobs);
	json_put_number(object, "bytes", (int64_t)bytes);
	return object;
}

json_t *history_rates_json(struct history *history)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&history->mutex);
	json_t *object = json_object();

	json_put(object, "five_minutes", history_rate_json(history, 5));
	json_put(object, "hour", history_rate_json(history, HISTORY_MINUTES));
	json_put_time(object, "last_sync_at", history->synced_at);
	json_put_time(object, "last_verified_at", history->verified_at);
	return object;
}
