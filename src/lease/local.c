/*
 * Leases between the processes of one kernel: a row a key in the tracking database, and
 * flocks (local_files.h) that tell the dead from the living.
 *
 * Each attempt, renewal and release is one write to the store. Those exclude each other
 * between all processes, so every decision is made on a picture that stays true until
 * it is committed, and nothing below needs a lock of its own. A work may be undone
 * after it ran (a failed commit): it leaves behind at most a guard's missing name or an
 * unlocked file in its place, which cost the next taker its look at orphans.
 *
 * A holder that knows who waits behind it only says in its guard that it gave the lease
 * up: that one's write does the rest. If it does not come, a write of its own follows.
 *
 * Why at most one living, unlapsed holder:
 *
 * - A row passes to another nonce only when its holder gave it up, is of another boot,
 *   dropped its alive lock (its process is gone), or let expires_at pass, or by force.
 * - expires_at is on this boot's clock, the same for all processes. Only a renewal that
 *   finds its own nonce and an expires_at in the future moves it: what somebody saw
 *   lapse never revives. The holder stops a margin before expires_at by that clock.
 * - A holder that is gone may have left children. They hold its guard, and for the
 *   rest of its ttl they are waited for; the supervisor ends them well before.
 *
 * The row is never deleted: its fence is what makes the one who was displaced by force,
 * or sleeps through its lapse, harmless. A fence is also above the wall clock in
 * microseconds, so that it grows even if the database is lost; nothing else here reads
 * that clock but to show it.
 */
#include <sys/inotify.h>

#include "base/clock.h"
#include "base/file.h"
#include "lease/local_line.h"

static struct local *local_of(struct lease_backend *backend)
{
	return (struct local *)backend;
}

/* A row of the table lease. */
struct lease_row {
	struct lease_holder holder; /* fence 0: there is no such row */
	char nonce[LEASE_NONCE_SIZE];
	char alive_file[ALIVE_NAME_SIZE];
	int64_t expires_at;
	int64_t ttl;
	bool forced;

	/* Judged by row_judge. */
	bool free; /* may be granted, but for orphans */
	enum lease_predecessor predecessor;
};

/* As store_write_unsynced(): a boot after a power cut makes all leases void, whether it
 * has their rows or not, and fences grow by the clock. But never ERR_BUSY: the store's
 * own contention is no answer about a lease. Not inside one. */
static int local_write(struct local *local, store_work work, void *arg, struct err *err);

/* Releases a grant: 1 if it was still in force, else 0. */
static int local_give_up(struct store_tx *tx, const struct local *local,
			 const struct lease_grant *grant, struct err *err);

#define SELECT_ROW                                                                       \
	"SELECT key, fence, nonce, node, boot_id, pid, alive_file, job, operation,"      \
	" acquired_at, expires_at, ttl, ended FROM lease"

#define COPY(to, query, column) local_row_copy_text((to), sizeof(to), (query), (column))

static void local_row_copy_text(char *to, size_t size, struct query *query, int column)
{
	const char *text = query_text(query, column);

	snprintf(to, size, "%s", text ? text : "");
}

static void local_row_read_columns(struct query *query, void *arg)
{
	struct lease_row *row = arg;
	struct lease_holder *holder = &row->holder;
	const char *ended = query_text(query, 12);

	*row = (struct lease_row){ 0 };
	COPY(holder->key, query, 0);
	holder->fence = (uint64_t)query_int(query, 1);
	COPY(row->nonce, query, 2);
	COPY(holder->node, query, 3);
	COPY(holder->boot_id, query, 4);
	holder->pid = query_int(query, 5);
	COPY(row->alive_file, query, 6);
	COPY(holder->job, query, 7);
	COPY(holder->operation, query, 8);
	holder->acquired_at = query_int(query, 9);
	row->expires_at = query_int(query, 10);
	row->ttl = query_int(query, 11);
	row->forced = ended && strcmp(ended, "forced") == 0;
}

/* Finds the key's row, or leaves it empty. */
static int row_load(struct store_tx *tx, const char *key, struct lease_row *row,
		    struct err *err)
{
	*row = (struct lease_row){ 0 };
	return query_each(tx, local_row_read_columns, row, err,
			  SELECT_ROW " WHERE key = ?1", QUERY_TEXT(key));
}

static void local_row_set_verdict(struct lease_row *row, bool is_free,
				  enum lease_predecessor predecessor, const char *proof)
{
	row->free = is_free;
	row->predecessor = predecessor;
	row->holder.is_dead = predecessor == LEASE_AFTER_DEATH;
	snprintf(row->holder.proof, sizeof(row->holder.proof), "%s", proof);
}

static void judge_by_process(const struct local *local, struct lease_row *row,
			     bool lapsed)
{
	switch (alive_probe(&local->files, row->alive_file)) {
	case ALIVE_NO:
		local_row_set_verdict(row, true, LEASE_AFTER_DEATH,
				      "dead: process is gone");
		break;
	case ALIVE_YES:
		local_row_set_verdict(row, lapsed, LEASE_AFTER_LAPSE,
				      lapsed ? "lapsed: alive but silent" : "alive");
		break;
	case ALIVE_UNKNOWN: /* no proof of anything: its ttl counts */
		local_row_set_verdict(row, lapsed, LEASE_AFTER_LAPSE, "unknown");
		break;
	}
}

/* Whether, and on which proof, its holder still holds it. */
static void row_judge(const struct local *local, struct lease_row *row)
{
	struct lease_holder *holder = &row->holder;

	if (holder->fence == 0) {
		local_row_set_verdict(row, true, LEASE_AFTER_NOBODY, "unknown");
	} else if (row->nonce[0] == '\0') {
		local_row_set_verdict(
			row, true, row->forced ? LEASE_AFTER_FORCE : LEASE_AFTER_RELEASE,
			"released");
	} else if (guard_is_marked(&local->files, holder->key, row->nonce)) {
		local_row_set_verdict(row, true, LEASE_AFTER_RELEASE, "released");
	} else if (strcmp(holder->boot_id, clock_boot_id()) != 0) {
		local_row_set_verdict(row, true, LEASE_AFTER_DEATH, "dead: other boot");
	} else {
		holder->ttl_left_ms = row->expires_at - clock_boot_ms();
		holder->held = holder->ttl_left_ms > 0;
		judge_by_process(local, row, !holder->held);
	}
}

#define LIST_ALL SELECT_ROW " ORDER BY key"
/* Those that somebody may hold. The plus sign has them read by their index: of very many
 * rows few are held. */
#define LIST_HELD SELECT_ROW " WHERE nonce IS NOT NULL ORDER BY +key"

/* Rows, judged. */
static int row_list(struct store_tx *tx, const struct local *local, const char *sql,
		    lease_holders *holders, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	struct lease_row row;
	int found;

	if (query_open(tx, sql, &query, err) != 0)
		return -1;
	while ((found = query_step(query, err)) > 0) {
		local_row_read_columns(query, &row);
		row_judge(local, &row);
		vec_add(holders, row.holder);
	}
	return found;
}

/*
 * One attempt to take a lease: everything is looked at, decided and written in one
 * store_write() (local.c has the why).
 */

struct attempt_work {
	struct local *local;
	struct lease_attempt *attempt;
	int64_t place; /* as it is once this is committed */
	char next[ALIVE_NAME_SIZE];
	bool was_offered; /* whoever offered it tells the next one (local_offer) */
	bool must_wait;
};

/* Whether it was granted to this process and given up in favour of this attempt. */
static bool was_handed(const struct lease_attempt *attempt, const struct lease_row *row)
{
	return row->nonce[0] && strcmp(row->nonce, attempt->handed.nonce) == 0;
}

static uint64_t local_attempt_next_fence(const struct lease_attempt *attempt,
					 const struct lease_row *row)
{
	uint64_t fence = (uint64_t)clock_wall_ns() / 1000;

	if (row->holder.fence > 0 && fence < row->holder.fence + LEASE_FENCES)
		fence = row->holder.fence + LEASE_FENCES;
	if (fence <= lease_attempt_floor(attempt))
		fence = lease_attempt_floor(attempt) + 1;
	return fence;
}

static int write_grant(struct store_tx *tx, const struct attempt_work *work,
		       struct err *err)
{
	const struct local *local = work->local;
	const struct lease_request *request = work->attempt->request;
	const struct lease_grant *grant = &work->attempt->grant;

	return query_write(tx, err,
			   "INSERT INTO lease (key, fence, nonce, node, boot_id, pid,"
			   " alive_file, job, operation, acquired_at, expires_at, ttl)"
			   " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"
			   " ON CONFLICT (key) DO UPDATE SET"
			   " fence = excluded.fence, nonce = excluded.nonce,"
			   " node = excluded.node, boot_id = excluded.boot_id,"
			   " pid = excluded.pid,"
			   " alive_file = excluded.alive_file, job = excluded.job,"
			   " operation = excluded.operation,"
			   " acquired_at = excluded.acquired_at,"
			   " expires_at = excluded.expires_at, ttl = excluded.ttl,"
			   " ended = NULL",
			   QUERY_TEXT(grant->key), QUERY_INT((int64_t)grant->fence),
			   QUERY_TEXT(grant->nonce), QUERY_TEXT(local->base.node),
			   QUERY_TEXT(clock_boot_id()), QUERY_INT(getpid()),
			   QUERY_TEXT(local->files.alive_name),
			   QUERY_TEXT(request->job ? request->job : ""),
			   QUERY_TEXT(request->operation), QUERY_INT(clock_wall_ms()),
			   QUERY_INT(work->attempt->sent_at + local->base.ttl_ms),
			   QUERY_INT(local->base.ttl_ms));
}

static int local_attempt_take_lease(struct store_tx *tx, struct attempt_work *work,
				    const struct lease_row *row, struct err *err)
{
	struct lease_attempt *attempt = work->attempt;
	struct lease_grant *grant = &attempt->grant;

	attempt->outcome = LEASE_GRANTED;
	work->was_offered = row->nonce[0] && row->predecessor == LEASE_AFTER_RELEASE &&
			    !was_handed(attempt, row);
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
	if (work->place != 0 && local_line_leave(tx, work->place, err) != 0)
		return -1;
	work->place = 0;
	if (local_line_next(tx, work->local, grant->key, work->next, err) != 0)
		return -1;
	memcpy(grant->next, work->next, sizeof(grant->next));
	attempt->has_others = grant->next[0] != '\0';
	return 0;
}

/* When to ask again, if no hint comes. */
static int64_t local_attempt_retry_after(const struct lease_attempt *attempt,
					 const struct lease_row *row, bool is_free)
{
	int64_t retry = lease_retry_ms(attempt, is_free ? LEASE_BEHIND_WAITER
							: LEASE_BEHIND_HOLDER);

	if (!is_free && row->holder.held && row->holder.ttl_left_ms < retry)
		retry = row->holder.ttl_left_ms;
	return retry;
}

static int stay_out(struct store_tx *tx, struct attempt_work *work,
		    const struct lease_row *row, struct err *err)
{
	struct lease_attempt *attempt = work->attempt;

	attempt->outcome = LEASE_HELD;
	if (was_handed(attempt, row) &&
	    (local_give_up(tx, work->local, &attempt->handed, err) < 0 ||
	     local_line_next(tx, work->local, attempt->request->key, work->next, err) !=
		     0))
		return -1;
	if (attempt->request->wait_ms <= 0)
		return 0;
	return local_line_stand(tx, work->local, attempt->request->key, &work->place,
				err);
}

/* What is left of a run before this one, which was undone. */
static void local_attempt_start_over(struct attempt_work *work)
{
	struct lease_attempt *attempt = work->attempt;

	if (attempt->grant.guard_fd >= 0)
		close(attempt->grant.guard_fd);
	attempt->grant = LEASE_NO_GRANT;
	work->place = attempt->place;
	work->was_offered = false;
	work->next[0] = '\0';
}

/* Since its last renewal. */
static int64_t silence(const struct lease_row *row)
{
	if (strcmp(row->holder.boot_id, clock_boot_id()) != 0)
		return -1;
	return clock_boot_ms() - (row->expires_at - row->ttl);
}

/* Judges the row for an attempt. Whether it may be taken, when it is our turn. */
static bool local_attempt_judge(struct attempt_work *work, struct lease_row *row)
{
	struct lease_attempt *attempt = work->attempt;

	row_judge(work->local, row);
	attempt->holder = row->holder;
	attempt->silent_ms = silence(row);
	attempt->orphans = row->predecessor == LEASE_AFTER_DEATH &&
			   guard_is_busy(&work->local->files, attempt->request->key);
	return was_handed(attempt, row) ||
	       (row->free && !(attempt->orphans && row->holder.held));
}

/* Before those who must wait have looked for the last time, their hint is armed: what
 * happens after the look is told. */
static int decide(struct store_tx *tx, void *arg, struct err *err)
{
	struct attempt_work *work = arg;
	struct local *local = work->local;
	struct lease_attempt *attempt = work->attempt;
	const char *key = attempt->request->key;
	struct ticket front;
	struct lease_row row;

	local_attempt_start_over(work);
	int waits = local_line_front(tx, local, key, attempt->place, LINE_REMOVE_DEAD,
				     &front, err);
	if (waits < 0 || row_load(tx, key, &row, err) != 0)
		return -1;
	bool is_free = local_attempt_judge(work, &row);
	if (!is_free && waits == 0) {
		local_files_watch(&local->files, key, row.alive_file, attempt->hint_fd);
		is_free = local_attempt_judge(work, &row);
	}
	if (is_free && waits == 0)
		return local_attempt_take_lease(tx, work, &row, err);
	if (is_free)
		local_line_describe(local, key, &front, &attempt->holder);
	attempt->retry_ms = local_attempt_retry_after(attempt, &row, is_free);
	return stay_out(tx, work, &row, err);
}

/* A look without the right to write, for those who were not told that they are first. */
static int look_at_line(struct store_tx *tx, void *arg, struct err *err)
{
	struct attempt_work *work = arg;
	struct lease_attempt *attempt = work->attempt;
	const char *key = attempt->request->key;
	struct ticket own, front;
	struct lease_row row;
	int found = local_line_find(tx, key, attempt->place - 1, attempt->place + 1, &own,
				    err);

	work->must_wait = false;
	if (found <= 0 || own.seen + SAY_EVERY_MS <= clock_boot_ms())
		return found < 0 ? -1 : 0;
	int waits = local_line_front(tx, work->local, key, attempt->place,
				     LINE_LEAVE_DEAD, &front, err);
	if (waits <= 0 || row_load(tx, key, &row, err) != 0)
		return waits < 0 || waits > 0 ? -1 : 0;
	row_judge(work->local, &row);
	attempt->outcome = LEASE_HELD;
	attempt->holder = row.holder;
	if (row.free)
		local_line_describe(work->local, key, &front, &attempt->holder);
	attempt->silent_ms = silence(&row);
	attempt->orphans = false;
	attempt->retry_ms = local_attempt_retry_after(attempt, &row, row.free);
	work->must_wait = true;
	return 0;
}

/* Whether it is certainly not its turn. */
static bool local_attempt_must_wait(struct attempt_work *work)
{
	const struct lease_attempt *attempt = work->attempt;

	return attempt->place != 0 && attempt->hint_fd >= 0 &&
	       !attempt->handed.nonce[0] &&
	       store_read(work->local->store, look_at_line, work, ERR_IGNORED) == 0 &&
	       work->must_wait;
}

/* The backend's try_acquire. Not inside a store_write(). */
static int local_try_acquire(struct lease_backend *backend, struct lease_attempt *attempt,
			     struct err *err)
{
	struct attempt_work work = { .local = local_of(backend), .attempt = attempt };

	bool is_told = local_files_drain_hints(attempt->hint_fd);
	local_files_watch_self(&work.local->files, attempt->hint_fd);
	if (!is_told && local_attempt_must_wait(&work))
		return 0;
	if (local_write(work.local, decide, &work, err) != 0) {
		local_attempt_start_over(&work);
		return -1;
	}
	attempt->place = work.place;
	if (attempt->handed.guard_fd >= 0)
		close(attempt->handed.guard_fd);
	attempt->handed = LEASE_NO_GRANT;
	if (!work.was_offered)
		alive_touch(&work.local->files, work.next);
	return 0;
}

/* The store's own contention is no answer about the lease. */
static int local_write(struct local *local, store_work work, void *arg, struct err *err)
{
	if (store_write_unsynced(local->store, work, arg, err) == 0)
		return 0;
	if (err->class == ERR_BUSY)
		err->class = ERR_TIMEOUT;
	return -1;
}

static int local_give_up(struct store_tx *tx, const struct local *local,
			 const struct lease_grant *grant, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int64_t changed;

	if (query_ask(tx, &query, err,
		      "UPDATE lease SET nonce = NULL, ended = 'released'"
		      " WHERE key = ?1 AND nonce = ?2",
		      QUERY_TEXT(grant->key), QUERY_TEXT(grant->nonce)) != 0 ||
	    query_run(query, &changed, err) != 0)
		return -1;
	if (changed > 0)
		guard_drop(&local->files, grant->key);
	return changed > 0;
}

static int local_hint_open(struct lease_backend *backend)
{
	(void)backend;
	return inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
}

static int leave_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct attempt_work *work = arg;

	if (local_line_leave(tx, work->attempt->place, err) != 0)
		return -1;
	return local_line_next(tx, work->local, work->attempt->request->key, work->next,
			       err);
}

/* A ticket that stays behind is passed over after a while (local.c). */
static void local_leave(struct lease_backend *backend, struct lease_attempt *attempt)
{
	struct attempt_work work = { .local = local_of(backend), .attempt = attempt };

	if (local_write(work.local, leave_work, &work, ERR_IGNORED) != 0)
		return;
	attempt->place = 0;
	alive_touch(&work.local->files, work.next);
}

struct extend_work {
	struct local *local;
	struct lease_extension *all;
	size_t count;
	int64_t sent_at;
};

static int extend_work(struct store_tx *tx, void *arg, struct err *err)
{
	const struct extend_work *work = arg;
	AUTO_QUERY struct query *query = NULL;
	int64_t changed;

	if (query_open(tx,
		       "UPDATE lease SET expires_at = ?1"
		       " WHERE key = ?2 AND nonce = ?3 AND expires_at > ?4",
		       &query, err) != 0)
		return -1;
	for (size_t i = 0; i < work->count; i++) {
		query_bind_int(query, 1, work->sent_at + work->local->base.ttl_ms);
		query_bind_text(query, 2, work->all[i].grant.key);
		query_bind_text(query, 3, work->all[i].grant.nonce);
		query_bind_int(query, 4, clock_boot_ms());
		if (query_run(query, &changed, err) != 0)
			return -1;
		work->all[i].lost = changed == 0;
	}
	return 0;
}

static int local_extend_all(struct lease_backend *backend, struct lease_extension *all,
			    size_t count, int64_t sent_at, struct err *err)
{
	struct extend_work work = { local_of(backend), all, count, sent_at };

	return local_write(work.local, extend_work, &work, err);
}

struct pass_work {
	struct local *local;
	const struct lease_grant *grant;
	const struct lease_holder *holder;
	char next[ALIVE_NAME_SIZE];
};

static int pass_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct pass_work *work = arg;
	const struct lease_grant *grant = work->grant;
	const struct lease_holder *holder = work->holder;

	if (query_write(tx, err,
			"UPDATE lease SET fence = ?1, job = ?2, operation = ?3,"
			" acquired_at = ?4 WHERE key = ?5 AND nonce = ?6 AND fence < ?1",
			QUERY_INT((int64_t)grant->fence), QUERY_TEXT(holder->job),
			QUERY_TEXT(holder->operation), QUERY_INT(holder->acquired_at),
			QUERY_TEXT(grant->key), QUERY_TEXT(grant->nonce)) != 0)
		return -1;
	return local_line_next(tx, work->local, grant->key, work->next, err);
}

static int local_pass(struct lease_backend *backend, const struct lease_grant *grant,
		      const struct lease_holder *holder, bool *has_others,
		      struct err *err)
{
	struct pass_work work = { local_of(backend), grant, holder, "" };
	int result = local_write(work.local, pass_work, &work, err);

	*has_others = work.next[0] != '\0';
	return result;
}

struct release_work {
	struct local *local;
	const struct lease_grant *grant;
	bool was_offered, was_ours, is_there;
	char next[ALIVE_NAME_SIZE];
};

/* Whether the row still is the grant's; if not, who is to be told that it is the first in
 * the line now. */
static int local_grant_is_there(struct store_tx *tx, void *arg, struct err *err)
{
	struct release_work *work = arg;
	struct ticket front;
	int found = query_one(
		tx, NULL, NULL, err, "SELECT 1 FROM lease WHERE key = ?1 AND nonce = ?2",
		QUERY_TEXT(work->grant->key), QUERY_TEXT(work->grant->nonce));

	work->is_there = found != 0;
	if (found == 0)
		found = local_line_front(tx, work->local, work->grant->key, 0,
					 LINE_LEAVE_DEAD, &front, err);
	if (found > 0 && !work->is_there)
		snprintf(work->next, sizeof(work->next), "%s", front.alive_file);
	return found < 0 ? -1 : 0;
}

/* Gives the lease up for the one that waited behind it, without a write of ours before
 * that one's. True: that one has it by now. It works already: so we tell the next one
 * that it is the first in the line. */
static bool local_offer(struct release_work *work)
{
	const struct lease_grant *grant = work->grant;

	if (!grant->next[0] || !guard_mark(grant->guard_fd, grant->nonce))
		return false;
	work->was_offered = true;
	alive_touch(&work->local->files, grant->next);
	usleep(LEASE_HEAD_START_US);
	return store_read(work->local->store, local_grant_is_there, work, ERR_IGNORED) ==
		       0 &&
	       !work->is_there;
}

static int release_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct release_work *work = arg;
	int result = local_give_up(tx, work->local, work->grant, err);

	work->was_ours = result > 0;
	if (result < 0)
		return -1;
	return local_line_next(tx, work->local, work->grant->key, work->next, err);
}

/* The guard is closed after the commit: that wakes those who wait. */
static int local_release(struct lease_backend *backend, struct lease_grant *grant,
			 enum lease_released *how, struct err *err)
{
	struct release_work work = { .local = local_of(backend), .grant = grant };
	bool was_taken = local_offer(&work);
	int result = was_taken ? 0 : local_write(work.local, release_work, &work, err);

	if (result != 0)
		atomic_store(&work.local->is_named, true);
	if (grant->guard_fd >= 0)
		close(grant->guard_fd);
	if (result == 0)
		alive_touch(&work.local->files, work.next);
	*how = work.was_ours || work.was_offered ? LEASE_RELEASED : LEASE_GONE;
	*grant = LEASE_NO_GRANT;
	return result;
}

struct look_work {
	struct local *local;
	const char *key;
	const char *list_sql;
	lease_holders *holders; /* those that it finds; or */
	struct lease_row row;   /* the key's */
	int waits;              /* somebody for the key: 1, or 0 */
};

static int list_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct look_work *work = arg;

	work->holders->count = 0;
	return row_list(tx, work->local, work->list_sql, work->holders, err);
}

static int local_list(struct lease_backend *backend, lease_holders *holders,
		      struct err *err)
{
	struct look_work work = { .local = local_of(backend),
				  .list_sql = LIST_ALL,
				  .holders = holders };

	return store_read(work.local->store, list_work, &work, err);
}

static int local_list_held(struct lease_backend *backend, lease_holders *holders,
			   struct err *err)
{
	struct look_work work = { .local = local_of(backend),
				  .list_sql = LIST_HELD,
				  .holders = holders };

	return store_read(work.local->store, list_work, &work, err);
}

static int inspect_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct look_work *work = arg;

	if (row_load(tx, work->key, &work->row, err) != 0)
		return -1;
	if (work->row.holder.fence == 0)
		return lease_report_never_granted(work->key, err);
	row_judge(work->local, &work->row);
	return 0;
}

static int local_inspect(struct lease_backend *backend, const char *key,
			 struct lease_holder *holder, struct err *err)
{
	struct look_work work = { .local = local_of(backend), .key = key };

	if (store_read(work.local->store, inspect_work, &work, err) != 0)
		return -1;
	*holder = work.row.holder;
	return 0;
}

static int wanted_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct look_work *work = arg;
	struct ticket front;

	work->waits = local_line_front(tx, work->local, work->key, 0, LINE_LEAVE_DEAD,
				       &front, err);
	return work->waits < 0 ? -1 : 0;
}

static int local_is_wanted(struct lease_backend *backend, const char *key,
			   struct err *err)
{
	struct look_work work = { .local = local_of(backend), .key = key };

	return store_read(work.local->store, wanted_work, &work, err) == 0 ? work.waits
									   : -1;
}

struct force_work {
	struct local *local;
	const char *key;
	uint64_t fence;
	int guard; /* closed after the commit, to wake those who wait */
};

static int check_force(struct store_tx *tx, const struct force_work *work,
		       struct err *err)
{
	struct lease_row row;

	if (row_load(tx, work->key, &row, err) != 0)
		return -1;
	if (row.holder.fence == 0)
		return lease_report_never_granted(work->key, err);
	if (row.nonce[0] && row.holder.fence == work->fence)
		return 0;
	return lease_report_other_fence(work->key, row.nonce[0] != '\0', row.holder.fence,
					work->fence, err);
}

static int force_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct force_work *work = arg;

	if (check_force(tx, work, err) != 0 ||
	    query_write(tx, err,
			"UPDATE lease SET nonce = NULL, fence = fence + 1,"
			" ended = 'forced' WHERE key = ?1",
			QUERY_TEXT(work->key)) != 0)
		return -1;
	if (work->guard < 0)
		work->guard = guard_open(&work->local->files, work->key);
	guard_drop(&work->local->files, work->key);
	return 0;
}

static int local_force_release(struct lease_backend *backend, const char *key,
			       uint64_t fence, struct err *err)
{
	struct force_work work = { local_of(backend), key, fence, -1 };
	int result = local_write(work.local, force_work, &work, err);

	if (work.guard >= 0)
		close(work.guard);
	return result;
}

static void local_close(struct lease_backend *backend)
{
	struct local *local = local_of(backend);

	/* The file stays, without its lock, as the proof of our end. */
	if (atomic_load(&local->is_named))
		close(TAKE_FD(local->files.alive_fd));
	local_files_close(&local->files);
	free(local);
}

static const struct lease_backend_ops ops = {
	.name = "local",
	.hint_open = local_hint_open,
	.try_acquire = local_try_acquire,
	.leave = local_leave,
	.extend_all = local_extend_all,
	.pass = local_pass,
	.release = local_release,
	.is_wanted = local_is_wanted,
	.list = local_list,
	.list_held = local_list_held,
	.inspect = local_inspect,
	.force_release = local_force_release,
	.close = local_close,
};

struct join_work {
	struct local *local;
	struct store_tx *tx;
};

/* A dead manager's file is the proof of its death for as long as a row names it. */
static int local_forget_dead_manager(const char *name, void *arg, struct err *err)
{
	const struct join_work *work = arg;
	int named = query_one(work->tx, NULL, NULL, err,
			      "SELECT 1 FROM lease"
			      " WHERE alive_file = ?1 AND nonce IS NOT NULL LIMIT 1",
			      QUERY_TEXT(name));

	if (named != 0)
		return named < 0 ? -1 : 0;
	return query_write(work->tx, err,
			   "DELETE FROM lease_waiter WHERE alive_file = ?1",
			   QUERY_TEXT(name)) == 0
		       ? 1
		       : -1;
}

/* Inside a write, so that our file cannot be seen before it is locked. */
static int join_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct join_work work = { .local = arg, .tx = tx };

	if (alive_start(&work.local->files, err) != 0)
		return -1;
	return alive_sweep(&work.local->files, local_forget_dead_manager, &work, err);
}

int lease_manager_open_local(struct store *store, const struct lease_options *options,
			     struct lease_manager **manager, struct err *err)
{
	struct local *local = xcalloc(1, sizeof(*local));

	*manager = NULL;
	local->store = store;
	lease_backend_init(&local->base, &ops, options);
	if (local_files_open(&local->files, options->directory, err) != 0 ||
	    local_write(local, join_work, local, err) != 0) {
		local_close(&local->base);
		return err_prefix(err, "leases");
	}
	*manager = lease_manager_new(&local->base);
	return 0;
}

struct lease_manager *lease_manager_new_to_read(struct store *store,
						const struct lease_options *options)
{
	struct local *local = xcalloc(1, sizeof(*local));

	local->store = store;
	lease_backend_init(&local->base, &ops, options);
	local->files = (struct local_files){ .directory = xstrdup(options->directory),
					     .alive_fd = -1 };
	return lease_manager_new(&local->base);
}
