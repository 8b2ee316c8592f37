#include "base/clock.h"
#include "base/log.h"
#include "base/retry.h"
#include "verify/verify_origin_parts.h"

/* A page of what is due. */
#define PAGE 200

void verify_lane_clear(struct verify_lane *lane)
{
	for (size_t i = 0; i < lane->dues.count; i++)
		free(lane->dues.items[i].name);
	vec_clear(&lane->dues);
	lane->at = 0;
}

struct filling {
	const char *kind;
	size_t limit;
	origin_rows due, next;
};

static int verify_origin_due_read_rows(struct store_tx *tx, void *arg, struct err *err)
{
	struct filling *filling = arg;

	origin_rows_clear(&filling->due);
	origin_rows_clear(&filling->next);
	if (origin_rows_due_new_first(tx, filling->kind, clock_wall_ms(), filling->limit,
				      &filling->due, err) != 0)
		return -1;
	/* Also those that are not due yet: the first says when to look again. */
	return origin_rows_due(tx, filling->kind, INT64_MAX, filling->limit,
			       &filling->next, err);
}

bool verify_is_busy_locked(const struct verify_origin *verify, uint64_t id)
{
	for (size_t i = 0; i < verify->busy.count; i++)
		if (verify->busy.items[i] == id)
			return true;
	return false;
}

static void take_dues(struct verify_origin *verify, struct verify_lane *lane,
		      const origin_rows *rows)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);

	for (size_t i = 0; i < rows->count; i++) {
		const struct origin_row *row = &rows->items[i];
		struct verify_due due = { .id = row->id,
					  .is_new = row->verified_at == 0 };
		if (verify_is_busy_locked(verify, row->id))
			continue;
		due.name = xstrdup(row->name);
		vec_add(&lane->dues, due);
	}
}

/* What comes while we sleep is due after half of the interval at the earliest
 * (change/notice_commit.c), or somebody wakes us for it. */
static int64_t verify_origin_due_compute_wait(struct verify_origin *verify,
					      const origin_rows *rows)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
	int64_t half = verify->options.reverify_ms / 2;
	int64_t longest = half > 0 ? half : INT64_MAX;

	for (size_t i = 0; i < rows->count; i++) {
		const struct origin_row *row = &rows->items[i];
		if (verify_is_busy_locked(verify, row->id))
			continue;
		int64_t wait = row->verification_due_at - clock_wall_ms();
		return wait <= 0 ? 1 : wait < longest ? wait : longest;
	}
	return longest;
}

static int64_t verify_origin_due_fill_lane(struct verify_origin *verify,
					   struct verify_lane *lane)
{
	struct filling filling = { .kind = lane->kind };
	struct err err;
	int64_t wait = VERIFY_PATIENCE_MS;

	lock(&verify->mutex);
	/* with those at work, which are due as well, and the next to come */
	filling.limit = PAGE + verify->busy.count + 1;
	unlock(&verify->mutex);
	verify_lane_clear(lane);
	if (store_read(verify->options.store, verify_origin_due_read_rows, &filling,
		       &err) != 0) {
		log_warn("verify.no_list", LOG_ERR(&err));
	} else {
		take_dues(verify, lane, &filling.due);
		wait = lane->dues.count > 0
			       ? 0
			       : verify_origin_due_compute_wait(verify, &filling.next);
	}
	origin_rows_clear(&filling.due);
	origin_rows_clear(&filling.next);
	return wait;
}

/* Something may have become due since it was looked for. */
static bool take_stale(struct verify_origin *verify, struct verify_lane *lane)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
	bool is_stale = lane->is_stale;

	lane->is_stale = false;
	return is_stale;
}

static int64_t verify_origin_due_get_pause(struct verify_origin *verify,
					   const struct verify_lane *lane)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);

	return lane->paused_until - clock_boot_ms();
}

int64_t verify_lane_fill(struct verify_origin *verify, struct verify_lane *lane)
{
	int64_t wait = verify_origin_due_get_pause(verify, lane);

	if (wait > 0)
		return wait;
	if (lane->at < lane->dues.count && lane->dues.items[lane->at].is_new)
		return 0;
	wait = lane->next_at - clock_boot_ms();
	if (!take_stale(verify, lane) && wait > 0)
		return wait;
	wait = verify_origin_due_fill_lane(verify, lane);
	lane->next_at = wait == INT64_MAX ? wait : clock_boot_ms() + wait;
	return wait;
}

struct healing {
	int64_t longest_ms, healed;
};

static int heal_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct healing *healing = arg;
	int64_t now = clock_wall_ms();

	return origin_rows_heal_due(tx, now, now + healing->longest_ms, &healing->healed,
				    err);
}

void verify_origin_heal(struct verify_origin *verify)
{
	struct healing healing = { .longest_ms = 1000 * retry_delay(UINT64_MAX, RETRY_CAP,
								    RETRY_ROLLS - 1) };
	struct err err;

	lock(&verify->mutex);
	int64_t reverify_ms = verify->options.reverify_ms;
	unlock(&verify->mutex);
	if (reverify_ms <= 0 ||
	    !clock_was_set_back(&verify->clock_lead_ms, clock_wall_ms(), clock_boot_ms()))
		return;
	if (healing.longest_ms < reverify_ms)
		healing.longest_ms = reverify_ms;
	if (store_write(verify->options.store, heal_work, &healing, &err) != 0) {
		verify->clock_lead_ms = INT64_MAX; /* again */
		log_warn("verify.no_list", LOG_ERR(&err));
	} else if (healing.healed > 0) {
		log_warn("verify.clock_set_back", LOG_NUMBER("rows", healing.healed));
	}
}
