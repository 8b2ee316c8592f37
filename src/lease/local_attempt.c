/*
 * One attempt to take a lease: everything is looked at, decided and written in one
 * store_write() (local.c has the why).
 */
#include "base/clock.h"
#include "base/file.h"
#include "lease/local.h"

#define POLL_MS 1000        /* should a hint fail us */
#define BLIND_POLL_MS 200   /* without any */
#define BEHIND_WAITER_MS 50 /* the lease is free, but another's turn */

struct attempt_work {
	struct local *local;
	struct lease_attempt *attempt;
	int64_t place; /* as it is once this is committed */
};

/* Whether it was granted to this process and given up in favour of this attempt. */
static bool was_handed(const struct lease_attempt *attempt, const struct lease_row *row)
{
	return row->nonce[0] && strcmp(row->nonce, attempt->handed.nonce) == 0;
}

static uint64_t local_attempt_next_fence(const struct lease_attempt *attempt,
					 const struct lease_row *row)
{
	uint64_t fence = (uint64_t)clock_wall_ms();

	if (fence <= row->holder.fence)
		fence = row->holder.fence + 1;
	if (fence <= attempt->request->fence_floor)
		fence = attempt->request->fence_floor + 1;
	return fence;
}

static int write_grant(struct store_tx *tx, const struct attempt_work *work,
		       struct err *err)
{
	const struct local *local = work->local;
	const struct lease_request *request = work->attempt->request;
	const struct lease_grant *grant = &work->attempt->grant;
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx,
		       "INSERT INTO lease (key, fence, nonce, node, boot_id, pid,"
		       " start_time, alive_file, job, operation, acquired_at,"
		       " expires_at, ttl) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
		       " ?10, ?11, ?12, ?13) ON CONFLICT (key) DO UPDATE SET"
		       " fence = excluded.fence, nonce = excluded.nonce,"
		       " node = excluded.node, boot_id = excluded.boot_id,"
		       " pid = excluded.pid, start_time = excluded.start_time,"
		       " alive_file = excluded.alive_file, job = excluded.job,"
		       " operation = excluded.operation,"
		       " acquired_at = excluded.acquired_at,"
		       " expires_at = excluded.expires_at, ttl = excluded.ttl,"
		       " ended = NULL",
		       &query, err) != 0)
		return -1;
	query_bind_text(query, 1, grant->key);
	query_bind_int(query, 2, (int64_t)grant->fence);
	query_bind_text(query, 3, grant->nonce);
	query_bind_text(query, 4, local->base.node);
	query_bind_text(query, 5, clock_boot_id());
	query_bind_int(query, 6, getpid());
	query_bind_int(query, 7, local->start_time);
	query_bind_text(query, 8, local->files.alive_name);
	query_bind_text(query, 9, request->job ? request->job : "");
	query_bind_text(query, 10, request->operation);
	query_bind_int(query, 11, clock_wall_ms());
	query_bind_int(query, 12, work->attempt->sent_at + local->base.ttl_ms);
	query_bind_int(query, 13, local->base.ttl_ms);
	return query_run(query, NULL, err);
}

static int local_attempt_take_lease(struct store_tx *tx, struct attempt_work *work,
				    const struct lease_row *row, struct err *err)
{
	struct lease_attempt *attempt = work->attempt;
	struct lease_grant *grant = &attempt->grant;

	attempt->outcome = LEASE_GRANTED;
	attempt->predecessor =
		was_handed(attempt, row) ? LEASE_AFTER_RELEASE : row->predecessor;
	snprintf(grant->key, sizeof(grant->key), "%s", attempt->request->key);
	random_hex(grant->nonce, (LEASE_NONCE_SIZE - 1) / 2);
	grant->fence = local_attempt_next_fence(attempt, row);
	if (grant->fence > INT64_MAX)
		return err_set(err, ERR_CORRUPT, "lease %.300s: its fences are used up",
			       grant->key);
	grant->guard_fd = guard_take(&work->local->files, grant->key, err);
	if (grant->guard_fd < 0 || write_grant(tx, work, err) != 0)
		return -1;
	if (work->place != 0 && line_leave(tx, work->place, err) != 0)
		return -1;
	work->place = 0;
	return 0;
}

/* A little off the beat, so that those who wait do not ask all at once. */
static int64_t local_attempt_poll_ms(int64_t ms)
{
	return ms * (800 + clock_wall_ns() / 1000 % 400) / 1000;
}

/* When to ask again, if no hint comes. */
static int64_t local_attempt_retry_after(const struct lease_attempt *attempt,
					 const struct lease_row *row, bool is_free)
{
	int64_t retry = attempt->hint_fd >= 0 ? local_attempt_poll_ms(POLL_MS)
					      : local_attempt_poll_ms(BLIND_POLL_MS);

	if (is_free)
		return local_attempt_poll_ms(BEHIND_WAITER_MS);
	if (row->holder.held && row->holder.ttl_left_ms < retry)
		retry = row->holder.ttl_left_ms;
	return retry;
}

static int stay_out(struct store_tx *tx, struct attempt_work *work,
		    const struct lease_row *row, struct err *err)
{
	struct lease_attempt *attempt = work->attempt;

	attempt->outcome = LEASE_HELD;
	if (was_handed(attempt, row) &&
	    local_give_up(tx, work->local, &attempt->handed, err) < 0)
		return -1;
	if (attempt->request->wait_ms <= 0)
		return 0;
	return line_stand(tx, work->local, attempt->request->key, &work->place, err);
}

/* What is left of a run before this one, which was undone. */
static void local_attempt_start_over(struct attempt_work *work)
{
	struct lease_attempt *attempt = work->attempt;

	if (attempt->grant.guard_fd >= 0)
		close(attempt->grant.guard_fd);
	attempt->grant = LEASE_NO_GRANT;
	work->place = attempt->place;
}

/* Since its last renewal. */
static int64_t silence(const struct lease_row *row)
{
	if (strcmp(row->holder.boot_id, clock_boot_id()) != 0)
		return -1;
	return clock_boot_ms() - (row->expires_at - row->ttl);
}

/* Hints are armed before anything is looked at: what happens after the look is told. */
static int decide(struct store_tx *tx, void *arg, struct err *err)
{
	struct attempt_work *work = arg;
	struct local *local = work->local;
	struct lease_attempt *attempt = work->attempt;
	const char *key = attempt->request->key;
	struct lease_holder front;
	struct lease_row row;

	local_attempt_start_over(work);
	if (row_load(tx, key, &row, err) != 0)
		return -1;
	local_files_watch(&local->files, key, row.alive_file, attempt->hint_fd);
	row_judge(local, &row);
	attempt->holder = row.holder;
	attempt->silent_ms = silence(&row);
	attempt->orphans =
		row.predecessor == LEASE_AFTER_DEATH && guard_is_busy(&local->files, key);

	bool is_free = was_handed(attempt, &row) ||
		       (row.free && !(attempt->orphans && row.holder.held));
	int waits = line_front(tx, local, key, attempt->place, &front, err);
	if (waits < 0)
		return -1;
	if (is_free && waits == 0)
		return local_attempt_take_lease(tx, work, &row, err);
	if (is_free) {
		attempt->holder = front;
		local_files_watch_takes(&local->files, attempt->hint_fd);
	}
	attempt->retry_ms = local_attempt_retry_after(attempt, &row, is_free);
	return stay_out(tx, work, &row, err);
}

static void local_attempt_drain_hints(int hint_fd)
{
	char events[4096];

	while (hint_fd >= 0 && read(hint_fd, events, sizeof(events)) > 0)
		;
}

int local_try_acquire(struct lease_backend *backend, struct lease_attempt *attempt,
		      struct err *err)
{
	struct attempt_work work = { .local = (struct local *)backend,
				     .attempt = attempt };

	local_attempt_drain_hints(attempt->hint_fd);
	if (local_write(work.local, decide, &work, err) != 0) {
		local_attempt_start_over(&work);
		return -1;
	}
	attempt->place = work.place;
	if (attempt->handed.guard_fd >= 0)
		close(attempt->handed.guard_fd);
	attempt->handed = LEASE_NO_GRANT;
	return 0;
}
