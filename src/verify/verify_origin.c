/*
 * Rows are claimed in the database (replicable/origin_rows.h), so that nodes that share
 * it do not read the same; the claim ends with the result, which is void if it has ended
 * before. A row stays due until its result is written, so that a crash costs nothing but
 * the work. The dispatcher renews the claims, and takes care that none stays of which the
 * end could not be written.
 *
 * Kinds take turns: a repository is a piece of work, ten blobs are one. What
 * was never verified before goes before the rest of its kind; and where there are blobs,
 * one thread is kept free of the slow work (repositories, and what is only read again),
 * so that a new blob's checksum does not wait for it.
 *
 * A repository that somebody met damage of waits for none of them: it has a thread of its
 * own beside the others, one at a time, which does not rest.
 */
#include "verify/verify_origin.h"

#include <assert.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/retry.h"
#include "replicable/name.h"
#include "verify/verify_origin_parts.h"

/* How often claims are renewed. */
#define RENEW_MS (ORIGIN_CLAIM_MS / 3)
/* After another node has claimed what was due here. */
#define OUTRUN_MS 100

void verify_lane_clear(struct verify_lane *lane)
{
	vec_clear_members(&lane->dues, name);
	lane->at = 0;
}

struct filling {
	const char *kind;
	struct origin_next next;
};

static int read_next_due(struct store_tx *tx, void *arg, struct err *err)
{
	struct filling *filling = arg;

	return origin_next_due(tx, filling->kind, &filling->next, err);
}

/* What comes while we sleep is due after half of the interval at the earliest
 * (change/notice.c), or somebody wakes us for it. */
static int64_t compute_wait(struct verify_origin *verify, int64_t due_at)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
	int64_t half = verify->options.reverify_ms / 2;
	int64_t longest = half > 0 ? half : INT64_MAX;

	if (due_at == INT64_MAX)
		return longest;
	int64_t wait = due_at - clock_wall_ms();
	return wait <= 0 ? 1 : wait < longest ? wait : longest;
}

static bool may_work_slowly_locked(const struct verify_origin *verify)
{
	size_t capacity = verify->options.capacity;
	bool keeps_one = verify->lanes.count > 1 && capacity > 1;

	return verify->slow < capacity - keeps_one;
}

static void take_dues(struct verify_origin *verify, struct verify_lane *lane,
		      const origin_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++) {
		const struct origin_row *row = &rows->items[i];
		struct verify_due due = { .id = row->id,
					  .name = xstrdup(row->name),
					  .is_new = row->verified_at == 0 };
		memcpy(lane->claim_token, row->claim_token, CLAIM_TOKEN_SIZE);
		vec_add(&lane->dues, due);
	}
	lock(&verify->mutex);
	verify->claimed += rows->count;
	unlock(&verify->mutex);
}

/* Of what is slow no more than is begun at once: new blobs shall find a claim to come
 * before it. Nothing is claimed that may not be begun. 1: some was asked for. */
static int claim_dues(struct verify_origin *verify, struct verify_lane *lane,
		      const struct origin_next *next, int64_t now, struct err *err)
{
	AUTO_ORIGIN_ROWS origin_rows rows = { 0 };

	lock(&verify->mutex);
	bool may_work = verify->threads < verify->options.capacity;
	bool may_work_slowly = may_work && may_work_slowly_locked(verify);
	unlock(&verify->mutex);
	size_t new_limit = lane->ops->new_most > 0 && may_work ? lane->ops->new_most
							       : may_work_slowly;
	size_t known_limit = may_work_slowly ? lane->ops->most : 0;
	if ((next->new_at > now || new_limit == 0) &&
	    (next->known_at > now || known_limit == 0))
		return 0;
	if (origin_rows_claim(verify->options.store, lane->kind.of.type, new_limit,
			      known_limit, &rows, err) != 0)
		return -1;
	take_dues(verify, lane, &rows);
	return 1;
}

/* What is due, and may not be begun, waits for the end of a work, which wakes us. So it
 * is judged by one time what is due: what becomes so only after it was left alone would
 * wait for an end that nobody brings. */
static int64_t verify_origin_due_fill_lane(struct verify_origin *verify,
					   struct verify_lane *lane)
{
	struct filling filling = { .kind = lane->kind.of.type };
	const struct origin_next *next = &filling.next;
	const int64_t now = clock_wall_ms();
	struct err err;
	int claimed = -1;

	verify_lane_clear(lane);
	if (store_read(verify->options.store, read_next_due, &filling, &err) == 0)
		claimed = claim_dues(verify, lane, next, now, &err);
	if (claimed < 0) {
		log_warn("verify.no_list", LOG_ERR(&err));
		return VERIFY_PATIENCE_MS;
	}
	if (lane->dues.count > 0)
		return 0;
	if (claimed > 0)
		return OUTRUN_MS;
	bool is_due = next->new_at <= now || next->known_at <= now;
	return is_due ? 0 : compute_wait(verify, next->at);
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
	if (lane->at < lane->dues.count)
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
	int64_t overrun_ms = VERIFY_OVERRUN_FACTOR * verify->options.timeout_ms;
	if (verify->is_more_often)
		verify->clock_lead_ms = INT64_MAX;
	verify->is_more_often = false;
	unlock(&verify->mutex);
	if (reverify_ms <= 0 ||
	    !clock_was_set_back(&verify->clock_lead_ms, clock_wall_ms(), clock_boot_ms()))
		return;
	verify->renew_at = 0;
	healing.longest_ms =
		int64_max(healing.longest_ms, int64_max(reverify_ms, overrun_ms));
	if (store_write(verify->options.store, heal_work, &healing, &err) != 0) {
		verify->clock_lead_ms = INT64_MAX; /* again */
		log_warn("verify.no_list", LOG_ERR(&err));
	} else if (healing.healed > 0) {
		log_warn("verify.clock_set_back", LOG_NUMBER("rows", healing.healed));
	}
}

static void verify_origin_age_proofs(struct verify_origin *verify)
{
	int64_t aged, sum = 0;
	struct err err;

	lock(&verify->mutex);
	int64_t reverify_ms = verify->options.reverify_ms;
	unlock(&verify->mutex);
	if (!proofs_are_to_age(reverify_ms, &verify->proofs))
		return;
	for (size_t i = 0; i < verify->lanes.count; i++) {
		const char *kind = verify->lanes.items[i].kind.of.type;
		if (origin_rows_age_proofs(verify->options.store, kind, &verify->proofs,
					   &aged, &err) != 0) {
			proofs_age_again(&verify->proofs);
			log_warn("verify.no_list", LOG_ERR(&err));
		}
		sum += aged;
	}
	if (sum > 0)
		log_warn("verify.overdue", LOG_NUMBER("rows", sum));
}

/*
 * Whoever meets damage says so here. The row is written before anything is read again, so
 * that the site does not call itself verified meanwhile; whether it is damage the
 * verification decides, which then goes before all others.
 *
 * What a reader meets is git's word only, and some of it a client can bring about. So who
 * cried wolf three times waits: the words count again after a while that grows up to an
 * hour. It is forgotten when damage is found.
 */

#define AT_ONCE 3
#define WAIT_LEAST_MS ((int64_t)5000)
#define WAIT_MOST_MS ((int64_t)3600 * 1000)
#define REMEMBERED_MOST 10000

/* A repository that was doubted, and not found damaged since. */
struct alarm {
	unsigned count;
	int64_t until; /* boot ms: nothing counts before */
};

void verify_doubts_clear(struct verify_origin *verify)
{
	vec_clear_members(&verify->doubted, name);
	map_clear_owned(&verify->alarms);
}

static int64_t verify_origin_doubt_wait_ms(unsigned count)
{
	int64_t ms = WAIT_LEAST_MS;

	if (count < AT_ONCE)
		return 0;
	while (count-- > AT_ONCE && ms < WAIT_MOST_MS)
		ms *= 2;
	return ms < WAIT_MOST_MS ? ms : WAIT_MOST_MS;
}

/* Whether it counts. What was well for long begins anew. */
static bool take_alarm_locked(struct verify_origin *verify, const char *name)
{
	struct alarm *alarm = map_get(&verify->alarms, name);
	int64_t now = clock_boot_ms();

	if (!alarm) {
		if (verify->alarms.count >= REMEMBERED_MOST)
			map_clear_owned(&verify->alarms);
		alarm = xcalloc(1, sizeof(*alarm));
		map_put(&verify->alarms, name, alarm);
	}
	if (now < alarm->until)
		return false;
	if (now - alarm->until > 2 * WAIT_MOST_MS)
		alarm->count = 0;
	alarm->until = now + verify_origin_doubt_wait_ms(++alarm->count);
	return true;
}

void verify_doubt_proved(struct verify_origin *verify, const char *name)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);

	free(map_remove(&verify->alarms, name));
}

static ssize_t verify_origin_doubt_find_locked(const struct verify_origin *verify,
					       const char *name)
{
	for (size_t i = 0; i < verify->doubted.count; i++)
		if (strcmp(verify->doubted.items[i].name, name) == 0)
			return (ssize_t)i;
	return -1;
}

static void verify_origin_doubt_put_locked(struct verify_origin *verify,
					   const struct origin_row *row, bool is_look)
{
	ssize_t at = verify_origin_doubt_find_locked(verify, row->name);

	if (at >= 0)
		verify->doubted.items[at].is_look &= is_look;
	else if (verify->doubted.count < REMEMBERED_MOST)
		vec_add(&verify->doubted,
			((struct verify_doubted){ .id = row->id,
						  .name = xstrdup(row->name),
						  .is_look = is_look }));
	verify->is_woken = true;
	pthread_cond_broadcast(&verify->changed);
}

struct doubting {
	const char *name;
	const struct err *why;
	bool is_proved; /* it is damage for sure */
	struct origin_row row;
};

/* Until it is found whole, or damaged: that is told by `failure`. */
static int verify_origin_doubt_write_row(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };
	const struct doubting *doubting = arg;
	int found = origin_row_get(tx, KIND_REPOSITORY, doubting->name, &row, err);

	if (found <= 0 || row.verification == VERIFICATION_FAILED)
		return found < 0 ? -1 : 0;
	row.verification = VERIFICATION_PENDING;
	row.verification_due_at = clock_wall_ms();
	row.claim_token[0] = '\0'; /* what was met may be newer than what is read now */
	if (doubting->is_proved) {
		row.verification = VERIFICATION_FAILED;
		origin_row_set_failure(&row, doubting->why);
	}
	return origin_row_update(tx, &row, row.generation, err);
}

int verify_doubt_fail(struct store *store, const char *name, const struct err *why,
		      struct err *err)
{
	struct doubting doubting = { .name = name, .why = why, .is_proved = true };

	return store_write(store, verify_origin_doubt_write_row, &doubting, err);
}

static int mark(struct store *store, struct doubting *doubting, struct err *err)
{
	if (store_write(store, verify_origin_doubt_write_row, doubting, err) != 0)
		return -1;
	log_warn("repository.doubted", LOG_TEXT("repo", doubting->name),
		 LOG_ERR(doubting->why), LOG_TEXT("remedy", doubting->why->remedy));
	return 0;
}

static bool may_be_damage(const struct err *why)
{
	return why->class == ERR_CORRUPT ||
	       (why->class == ERR_DISK && why->sys_errno == EIO);
}

/* Sure damage is, even of one that is in line to be read: it may be long until then. */
static bool verify_origin_doubt_is_news(struct verify_origin *verify,
					const struct doubting *doubting)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
	const char *name = doubting->row.name;
	ssize_t at = verify_origin_doubt_find_locked(verify, name);

	return doubting->is_proved || ((at < 0 || verify->doubted.items[at].is_look) &&
				       take_alarm_locked(verify, name));
}

/* In line when the row is written, which voids what is read now; or if it cannot be. */
static int doubt_now(struct verify_origin *verify, struct doubting *doubting,
		     struct err *err)
{
	int result = mark(verify->options.store, doubting, err);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);

	verify_origin_doubt_put_locked(verify, &doubting->row, false);
	return result;
}

static bool verify_origin_has_repositories(const struct verify_origin *verify)
{
	return verify->lanes.count > 0 &&
	       kind_is_repository(verify->lanes.items[0].kind.of.type);
}

void verify_origin_doubt(struct verify_origin *verify, const char *name,
			 const struct err *why)
{
	struct doubting doubting = { .name = name,
				     .why = why,
				     .is_proved = why->reason == REASON_LOST_OBJECT };
	struct err err;

	if (!verify_origin_has_repositories(verify) || !may_be_damage(why))
		return;
	if (origin_row_read(verify->options.store, KIND_REPOSITORY, name, &doubting.row,
			    &err) < 0 ||
	    (doubting.row.name && doubting.row.verification != VERIFICATION_FAILED &&
	     verify_origin_doubt_is_news(verify, &doubting) &&
	     doubt_now(verify, &doubting, &err) != 0))
		log_error("verify.not_recorded", LOG_ERR(&err), LOG_TEXT("repo", name));
	origin_row_clear(&doubting.row);
}

void verify_origin_look(struct verify_origin *verify, const char *name)
{
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };

	if (verify_origin_has_repositories(verify) &&
	    origin_row_read(verify->options.store, KIND_REPOSITORY, name, &row,
			    ERR_IGNORED) > 0 &&
	    row.verification == VERIFICATION_SUCCEEDED) {
		AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
		verify_origin_doubt_put_locked(verify, &row, true);
	}
}

void verify_origin_look_now(struct verify_origin *verify, const char *name)
{
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };
	struct err why;

	if (origin_row_read(verify->options.store, KIND_REPOSITORY, name, &row,
			    ERR_IGNORED) > 0 &&
	    row.path &&
	    verify_origin_glance(verify->lanes.items[0].kind.of.path, row.path,
				 &verify->stop, &why) != 0)
		verify_origin_doubt(verify, name, &why);
}

/* A worker rests for so many times of what its work took. */
#define REST 3
#define REST_MAX_MS ((int64_t)10 * 60 * 1000)
/* After what was never read before, for a share of it: secondaries wait for it. */
#define REST_NEW_SHARE 4

struct task {
	struct verify_origin *verify;
	struct verify_lane *lane;
	bool is_slow;
	bool is_look;
	char claim_token[CLAIM_TOKEN_SIZE];
	size_t count;
	uint64_t ids[VERIFY_MOST];
	char *names[VERIFY_MOST]; /* owned */
};

/* What is not recorded may be claimed again. */
static int end_claims(struct verify_origin *verify, const struct task *task,
		      struct err *err)
{
	if (origin_claims_end(verify->options.store, task->claim_token, task->ids,
			      task->count, err) != 0)
		return -1;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
	verify->claimed -= task->count;
	return 0;
}

static void verify_origin_rest(struct verify_origin *verify, bool is_slow,
			       int64_t took_ms)
{
	int64_t ms = is_slow ? REST * took_ms : took_ms / REST_NEW_SHARE;

	stop_wait(&verify->stop, ms < REST_MAX_MS ? ms : REST_MAX_MS);
}

static void forget_task(void *arg)
{
	struct task *task = arg;

	for (size_t i = 0; i < task->count; i++)
		free(task->names[i]);
	free(task);
}

static bool verify_origin_run_batch(struct verify_origin *verify, const struct task *task)
{
	const struct verify_lane *lane = task->lane;
	struct log_context before = log_set_context((struct log_context){
		.repo = lane->ops->most == 1 ? task->names[0] : NULL, .job = "verify" });
	bool is_done = lane->ops->verify(
		&(struct verify_batch){ .verify = verify,
					.kind = &lane->kind,
					.names = task->names,
					.count = task->count,
					.claim_token = task->claim_token,
					.stop = &verify->stop });

	log_set_context(before);
	return is_done;
}

/* Takes the task. What cannot be written is written later, by the dispatcher. */
static void end_task(struct verify_origin *verify, struct task *task)
{
	struct err err;

	if (task->is_look || end_claims(verify, task, &err) == 0) {
		forget_task(task);
		return;
	}
	log_warn("verify.not_recorded", LOG_ERR(&err));
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
	vec_add(&verify->unended, task);
}

/* When the claims have ended: what was put off may be due. */
static void note_end(struct verify_origin *verify, struct verify_lane *lane, bool is_done)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);

	lane->is_stale = true;
	if (!is_done && lane->ops->new_most > 0)
		lane->paused_until = clock_boot_ms() + VERIFY_PATIENCE_MS;
}

static void work_on_doubt(void *arg)
{
	struct task *task = arg;
	struct verify_origin *verify = task->verify;

	if (task->is_look)
		verify_origin_look_now(verify, task->names[0]);
	else
		verify_origin_run_batch(verify, task);
	end_task(verify, task);
	note_end(verify, &verify->lanes.items[0], true);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
	verify->is_doubt_at_work = false;
	verify->is_woken = true;
	pthread_cond_broadcast(&verify->changed);
}

static void verify_origin_run_task(void *arg)
{
	struct task *task = arg;
	struct verify_origin *verify = task->verify;
	struct verify_lane *lane = task->lane;
	bool is_slow = task->is_slow;
	int64_t started = clock_boot_ms();
	bool is_done = verify_origin_run_batch(verify, task);
	int64_t took_ms = clock_boot_ms() - started;
	end_task(verify, task);
	note_end(verify, lane, is_done);
	if (!is_done && lane->ops->new_most == 0)
		stop_wait(&verify->stop, VERIFY_PATIENCE_MS);
	verify_origin_rest(verify, is_slow, took_ms);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
	verify->threads--;
	verify->slow -= is_slow;
	verify->is_woken = true;
	pthread_cond_broadcast(&verify->changed);
}

/* One, or some that are all new, or all not. */
static void submit_locked(struct verify_origin *verify, struct verify_lane *lane)
{
	bool is_new = lane->dues.items[lane->at].is_new;
	struct task *task = xcalloc(1, sizeof(*task));

	task->verify = verify;
	task->lane = lane;
	task->is_slow = lane->ops->new_most == 0 || !is_new;
	memcpy(task->claim_token, lane->claim_token, CLAIM_TOKEN_SIZE);
	while (lane->at < lane->dues.count && task->count < lane->ops->most &&
	       lane->dues.items[lane->at].is_new == is_new) {
		struct verify_due *due = &lane->dues.items[lane->at++];
		task->ids[task->count] = due->id;
		task->names[task->count++] = TAKE(due->name);
	}
	verify->threads++;
	verify->slow += task->is_slow;
	pool_submit(verify->pool, verify_origin_run_task, task);
}

static bool may_submit_locked(const struct verify_origin *verify,
			      const struct verify_lane *lane)
{
	if (lane->at >= lane->dues.count || verify->threads >= verify->options.capacity ||
	    lane->paused_until > clock_boot_ms())
		return false;
	bool is_slow = lane->ops->new_most == 0 || !lane->dues.items[lane->at].is_new;
	return !is_slow || may_work_slowly_locked(verify);
}

/* True: something was. */
static bool submit_next_locked(struct verify_origin *verify)
{
	for (size_t i = 0; i < verify->lanes.count; i++) {
		size_t at = (verify->turn + i) % verify->lanes.count;
		struct verify_lane *lane = &verify->lanes.items[at];
		if (!may_submit_locked(verify, lane))
			continue;
		submit_locked(verify, lane);
		verify->turn = at + 1;
		return true;
	}
	return false;
}

/* The one at `at` in line; it stays there. The caller frees its name. */
static bool peek_doubt(struct verify_origin *verify, size_t at,
		       struct verify_doubted *doubted)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);

	if (verify->is_doubt_at_work || verify->options.capacity == 0 ||
	    at >= verify->doubted.count)
		return false;
	*doubted = verify->doubted.items[at];
	doubted->name = xstrdup(doubted->name);
	return true;
}

/* False: another reads it now, or it is gone. */
static bool claim_doubt(struct verify_origin *verify, struct task *task)
{
	AUTO_ORIGIN_ROWS origin_rows rows = { 0 };
	struct err err;

	if (task->is_look)
		return true;
	if (origin_row_claim(verify->options.store, KIND_REPOSITORY, task->names[0],
			     &rows, &err) != 0) {
		log_warn("verify.no_list", LOG_ERR(&err));
		return false;
	}
	if (rows.count > 0)
		memcpy(task->claim_token, rows.items[0].claim_token, CLAIM_TOKEN_SIZE);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
	verify->claimed += rows.count;
	return rows.count > 0;
}

/* But for a doubt that has taken the place of a look. */
static void leave_line_locked(struct verify_origin *verify, const char *name,
			      bool is_look)
{
	ssize_t at = verify_origin_doubt_find_locked(verify, name);

	if (at < 0 || (is_look && !verify->doubted.items[at].is_look))
		return;
	free(verify->doubted.items[at].name);
	memmove(&verify->doubted.items[at], &verify->doubted.items[at + 1],
		(--verify->doubted.count - (size_t)at) * sizeof(*verify->doubted.items));
}

/* One that is gone is forgotten. */
static bool has_row(struct verify_origin *verify, const char *name)
{
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };
	bool is_there = origin_row_read(verify->options.store, KIND_REPOSITORY, name,
					&row, ERR_IGNORED) != 0;

	if (!is_there) {
		AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
		leave_line_locked(verify, name, false);
	}
	return is_there;
}

/* True: one is left, of which the end of another's work is waited for. */
static bool submit_doubt(struct verify_origin *verify)
{
	struct verify_doubted doubted;

	for (size_t at = 0; peek_doubt(verify, at, &doubted);) {
		struct task *task = xcalloc(1, sizeof(*task));
		task->verify = verify;
		task->lane = &verify->lanes.items[0];
		task->is_look = doubted.is_look;
		task->ids[0] = doubted.id;
		task->names[0] = doubted.name;
		task->count = 1;
		if (!claim_doubt(verify, task)) {
			at += has_row(verify, doubted.name);
			forget_task(task);
			continue;
		}
		AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
		leave_line_locked(verify, doubted.name, doubted.is_look);
		verify->is_doubt_at_work = true;
		pool_submit(verify->pool, work_on_doubt, task);
		return false;
	}
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
	return verify->doubted.count > 0 && !verify->is_doubt_at_work &&
	       verify->options.capacity > 0;
}

static bool take_unended(struct verify_origin *verify, struct task **task)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);

	if (verify->unended.count == 0)
		return false;
	*task = verify->unended.items[--verify->unended.count];
	return true;
}

/* At the start what a former life of the node had is given back; later what is had is
 * renewed, and what has ended without a word, as on a full disk, is given back. */
static int look_after_claims(struct verify_origin *verify, struct err *err)
{
	struct store *store = verify->options.store;
	struct task *task;

	if (!verify->is_begun && origin_claims_give_back(store, err) != 0)
		return -1;
	verify->is_begun = true;
	while (take_unended(verify, &task)) {
		if (end_claims(verify, task, err) == 0) {
			forget_task(task);
			continue;
		}
		AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
		vec_add(&verify->unended, task);
		return -1;
	}
	lock(&verify->mutex);
	bool has_claims = verify->claimed > 0;
	unlock(&verify->mutex);
	if (clock_boot_ms() < verify->renew_at)
		return 0;
	if (has_claims && origin_claims_renew(store, err) != 0)
		return -1;
	verify->renew_at = clock_boot_ms() + RENEW_MS;
	return 0;
}

/* Returns in how many milliseconds to look again, if the end of a work does not wake us
 * before. */
static int64_t look_for_work(struct verify_origin *verify)
{
	int64_t wait = INT64_MAX;
	bool is_left = true;
	struct err err;

	if (look_after_claims(verify, &err) != 0) {
		log_warn("verify.no_list", LOG_ERR(&err));
		return VERIFY_PATIENCE_MS;
	}
	lock(&verify->mutex);
	size_t capacity = verify->options.capacity;
	bool is_full = verify->threads >= capacity;
	unlock(&verify->mutex);
	pool_set_capacity(verify->pool, capacity + 1);
	const int64_t longest = submit_doubt(verify) ? VERIFY_PATIENCE_MS : RENEW_MS;
	if (is_full)
		return longest;
	while (is_left) {
		wait = longest;
		for (size_t i = 0; i < verify->lanes.count; i++) {
			int64_t next = verify_lane_fill(verify, &verify->lanes.items[i]);
			if (next > 0 && next < wait)
				wait = next;
		}
		AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
		is_left = submit_next_locked(verify);
	}
	return wait;
}

static void *dispatch(void *arg)
{
	struct verify_origin *verify = arg;

	while (!stop_is_requested(&verify->stop)) {
		verify_origin_heal(verify);
		verify_origin_age_proofs(verify);
		int64_t wait = look_for_work(verify);
		int64_t until = clock_boot_ms() + wait;
		AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
		bool in_time = true;
		while (in_time && !verify->is_woken && !stop_is_requested(&verify->stop))
			in_time =
				cond_wait_until(&verify->changed, &verify->mutex, until);
		verify->is_woken = false;
	}
	return NULL;
}

/* What was noticed is to be verified. */
static void verify_origin_on_due(void *arg)
{
	verify_origin_wake(arg);
}

struct verify_origin *verify_origin_start(const struct verify_origin_options *options)
{
	struct verify_origin *verify = xcalloc(1, sizeof(*verify));

	mutex_init(&verify->mutex);
	cond_init(&verify->changed);
	stop_init(&verify->stop);
	verify->options = *options;
	verify->clock_lead_ms = INT64_MAX;
	verify->options.kinds = NULL;
	for (size_t i = 0; i < options->kind_count; i++)
		if (options->kinds[i].of.verify)
			vec_add(&verify->lanes,
				((struct verify_lane){
					.kind = options->kinds[i],
					.ops = options->kinds[i].of.verify }));
	if (options->notice) /* before the threads use it */
		notice_set_due(options->notice, verify_origin_on_due, verify);
	verify->pool = pool_start("verify", options->capacity + 1);
	thread_start(&verify->dispatcher, "verify-origin", dispatch, verify);
	return verify;
}

void verify_origin_wake(struct verify_origin *verify)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);

	for (size_t i = 0; i < verify->lanes.count; i++)
		verify->lanes.items[i].is_stale = true;
	verify->is_woken = true;
	pthread_cond_broadcast(&verify->changed);
}

int64_t verify_origin_timeout_ms(struct verify_origin *verify)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);

	return verify->options.timeout_ms;
}

void verify_origin_set(struct verify_origin *verify, size_t capacity, int64_t reverify_ms,
		       int64_t timeout_ms)
{
	lock(&verify->mutex);
	verify->options.capacity = capacity;
	verify->is_more_often |= reverify_ms < verify->options.reverify_ms;
	verify->options.reverify_ms = reverify_ms;
	verify->options.timeout_ms = timeout_ms;
	unlock(&verify->mutex);
	verify_origin_wake(verify);
}

void verify_origin_stop(struct verify_origin *verify)
{
	if (!verify)
		return;
	stop_request(&verify->stop);
	verify_origin_wake(verify);
	thread_join(verify->dispatcher);
	pool_stop(TAKE(verify->pool), forget_task);
	origin_claims_give_back(verify->options.store, ERR_IGNORED); /* or at the start */
}

void verify_origin_free(struct verify_origin *verify)
{
	if (!verify)
		return;
	assert(!verify->pool);
	verify_doubts_clear(verify);
	verify_places_clear(verify);
	vec_clear_each(&verify->lanes, verify_lane_clear);
	for (size_t i = 0; i < verify->unended.count; i++)
		forget_task(verify->unended.items[i]);
	vec_clear(&verify->unended);
	stop_clear(&verify->stop);
	pthread_cond_destroy(&verify->changed);
	pthread_mutex_destroy(&verify->mutex);
	free(verify);
}
