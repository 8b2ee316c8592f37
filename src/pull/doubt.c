/*
 * Whoever meets damage says so here. The row is written at once, so that nobody is told
 * that the copy is well; but a disk that goes on failing must not have everything brought
 * again and again: from the fourth time on each waits twice as long as the one before.
 */
#include "base/clock.h"
#include "base/log.h"
#include "pull/copy_watch.h"
#include "pull/glance.h"
#include "pull/pull_job.h"
#include "replicable/name.h"
#include "upkeep/copies_root.h"

#define AT_ONCE 3
#define WAIT_LEAST_MS ((int64_t)5000)
#define WAIT_MOST_MS ((int64_t)3600 * 1000)
#define REMEMBERED_MOST 10000
#define GLANCE_GOOD_MS 250

struct pace {
	int64_t until; /* boot ms: not before */
	unsigned count;
};

static void doubt_forget_paces(struct map *paces)
{
	const struct map_entry *entry;
	size_t at = 0;

	while ((entry = map_next(paces, &at)) != NULL)
		free(entry->value);
	map_clear(paces);
}

void doubts_clear(struct pull *pull)
{
	map_clear(&pull->glanced);
	doubt_forget_paces(&pull->doubts);
	doubt_forget_paces(&pull->rebuilds);
}

/* Many thousand at once are another trouble than one that comes back. */
static struct pace *pace_of(struct map *paces, uint64_t id)
{
	char key[24];
	struct pace *pace;

	snprintf(key, sizeof(key), "%" PRIx64, id);
	pace = map_get(paces, key);
	if (pace)
		return pace;
	if (paces->count >= REMEMBERED_MOST)
		doubt_forget_paces(paces);
	pace = xcalloc(1, sizeof(*pace));
	map_put(paces, key, pace);
	return pace;
}

static int64_t step_ms(unsigned count)
{
	int64_t ms = WAIT_LEAST_MS;

	while (count-- > AT_ONCE && ms < WAIT_MOST_MS)
		ms *= 2;
	return ms < WAIT_MOST_MS ? ms : WAIT_MOST_MS;
}

static int64_t doubt_wait_locked(const struct pace *pace, int64_t now)
{
	return pace->until > now ? pace->until - now : 0;
}

/* What was well for long begins anew. */
static void doubt_take_locked(struct pace *pace, int64_t now)
{
	if (now - pace->until > 2 * WAIT_MOST_MS)
		pace->count = 0;
	pace->count++;
	pace->until = (pace->until > now ? pace->until : now);
	if (pace->count >= AT_ONCE)
		pace->until += step_ms(pace->count);
}

int64_t rebuild_wait_ms(struct pull *pull, uint64_t id)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	return doubt_wait_locked(pace_of(&pull->rebuilds, id), clock_boot_ms());
}

void rebuild_take(struct pull *pull, uint64_t id)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	doubt_take_locked(pace_of(&pull->rebuilds, id), clock_boot_ms());
}

int64_t doubt_take(struct pull *pull, uint64_t id)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);
	struct pace *pace = pace_of(&pull->doubts, id);
	int64_t now = clock_boot_ms(), wait_ms = doubt_wait_locked(pace, now);
	int64_t rebuild_ms = doubt_wait_locked(pace_of(&pull->rebuilds, id), now);

	doubt_take_locked(pace, now);
	/* A try that may not rebuild yet fails, and then waits for long. */
	return wait_ms > rebuild_ms ? wait_ms : rebuild_ms;
}

/* What is away with its file system is not damaged. */
static int doubt_check_root(const struct pull *pull, const char *kind, struct err *err)
{
	const struct pull_options *options = &pull->options;
	const struct blob_kind *blob = pull_kind(pull, kind);

	return blob ? copies_root_check_blobs(options->store, blob, err)
		    : copies_root_check(options->store, options->root, err);
}

static bool doubt_is_known(const struct registry_row *row)
{
	return row->is_gone ||
	       (row->state != REGISTRY_SYNCED && (row->wishes & REGISTRY_WISH_RECHECK));
}

/* generation 0: whatever it is of. */
static int doubt_mark_row(struct pull *pull, const struct registry_row *row,
			  uint64_t generation, const struct err *why, struct err *err)
{
	struct registry_move move = { .id = row->id,
				      .event = REGISTRY_DOUBTED,
				      .generation = generation,
				      .err = why };

	if (doubt_is_known(row))
		return 0;
	if (doubt_check_root(pull, row->kind, err) != 0)
		return -1;
	move.delay_ms = doubt_take(pull, row->id);
	if (registry_move(pull->options.store, &move, err) != 0)
		return -1;
	log_warn("copy.doubted", LOG_TEXT("kind", row->kind), LOG_TEXT("name", row->name),
		 LOG_ERR(why));
	pull_signal(pull);
	return 0;
}

void pull_doubt(struct pull *pull, const char *kind, const char *name,
		const struct err *why)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	struct err err;

	if (registry_get(pull->options.store, kind, name, &row, &err) == 0 &&
	    doubt_mark_row(pull, &row, 0, why, &err) == 0)
		return;
	if (err.class != ERR_MISSING && err.class != ERR_CONFLICT)
		log_error("registry.failed", LOG_ERR(&err), LOG_TEXT("name", name));
}

/* Many readers share a look. */
static bool was_well_just_now(struct pull *pull, const char *name)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);
	int64_t now = clock_boot_ms();

	if (now - pull->glanced_at >= GLANCE_GOOD_MS) {
		map_clear(&pull->glanced);
		pull->glanced_at = now;
	}
	return map_get(&pull->glanced, name) != NULL;
}

static void is_well_now(struct pull *pull, const char *name)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	map_put(&pull->glanced, name, pull);
}

bool pull_glance(struct pull *pull, const char *name)
{
	const struct pull_options *options = &pull->options;
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	struct err err, why;

	if (was_well_just_now(pull, name) ||
	    registry_get(options->store, KIND_REPOSITORY, name, &row, &err) != 0 ||
	    row.state != REGISTRY_SYNCED || row.is_gone || row.generation == 0)
		return true;
	int seen = glance_repository(options->root, &row, &why);
	if (seen >= 0) {
		if (seen > 0)
			copy_watch_tell(pull->copy_watch, name);
		is_well_now(pull, name);
		return true;
	}
	if (doubt_mark_row(pull, &row, row.generation, &why, &err) != 0)
		log_error("registry.failed", LOG_ERR(&err), LOG_TEXT("name", name));
	return false;
}
