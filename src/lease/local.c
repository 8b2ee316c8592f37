/*
 * Leases between the processes of one kernel: a row a key in the tracking database, and
 * flocks (local_files.h) that tell the dead from the living.
 *
 * Each attempt, renewal and release is one store_write(). Those exclude each other
 * between all processes, so every decision is made on a picture that stays true until
 * it is committed, and nothing below needs a lock of its own. A work may be undone
 * after it ran (a failed commit): it leaves behind at most a guard's missing name or an
 * unlocked file in its place, which cost the next taker its look at orphans.
 *
 * Why at most one living, unlapsed holder:
 *
 * - A row passes to another nonce only when its holder released it, is of another boot,
 *   dropped its alive lock (its process is gone), or let expires_at pass, or by force.
 * - expires_at is on this boot's clock, the same for all processes. Only a renewal that
 *   finds its own nonce and an expires_at in the future moves it: what somebody saw
 *   lapse never revives. The holder stops a margin before expires_at by that clock.
 * - A holder that is gone may have left children. They hold its guard, and for the
 *   rest of its ttl they are waited for; the supervisor ends them well before.
 *
 * The row is never deleted: its fence is what makes the one who was displaced by force,
 * or sleeps through its lapse, harmless. A fence is also above the wall clock in
 * milliseconds, so that it grows even if the database is lost; nothing else here reads
 * that clock but to show it.
 */
#include "lease/local.h"

#include <sys/inotify.h>

#include "base/clock.h"
#include "base/file.h"

static struct local *local_of(struct lease_backend *backend)
{
	return (struct local *)backend;
}

/* The store's own contention is no answer about the lease. */
int local_write(struct local *local, store_work work, void *arg, struct err *err)
{
	if (store_write(local->store, work, arg, err) == 0)
		return 0;
	if (err->class == ERR_BUSY)
		err->class = ERR_TIMEOUT;
	return -1;
}

int local_give_up(struct store_tx *tx, const struct local *local,
		  const struct lease_grant *grant, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int64_t changed;

	if (query_open(tx,
		       "UPDATE lease SET nonce = NULL, ended = 'released'"
		       " WHERE key = ?1 AND nonce = ?2",
		       &query, err) != 0)
		return -1;
	query_bind_text(query, 1, grant->key);
	query_bind_text(query, 2, grant->nonce);
	if (query_run(query, &changed, err) != 0)
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
	return line_leave(tx, *(const int64_t *)arg, err);
}

/* A ticket that stays behind is passed over after a while (local_line.c). */
static void local_leave(struct lease_backend *backend, struct lease_attempt *attempt)
{
	if (local_write(local_of(backend), leave_work, &attempt->place, ERR_IGNORED) == 0)
		attempt->place = 0;
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

struct release_work {
	struct local *local;
	const struct lease_grant *grant;
	bool was_ours;
};

static int release_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct release_work *work = arg;
	int result = local_give_up(tx, work->local, work->grant, err);

	work->was_ours = result > 0;
	return result < 0 ? -1 : 0;
}

/* The guard is closed after the commit: that wakes those who wait. */
static int local_release(struct lease_backend *backend, struct lease_grant *grant,
			 enum lease_released *how, struct err *err)
{
	struct release_work work = { .local = local_of(backend), .grant = grant };
	int result = local_write(work.local, release_work, &work, err);

	if (result != 0)
		atomic_store(&work.local->is_named, true);
	if (grant->guard_fd >= 0)
		close(grant->guard_fd);
	*how = work.was_ours ? LEASE_RELEASED : LEASE_GONE;
	*grant = LEASE_NO_GRANT;
	return result;
}

struct look_work {
	struct local *local;
	const char *key;
	lease_holders *holders; /* all of them; or */
	struct lease_row row;   /* the key's */
};

static int list_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct look_work *work = arg;

	work->holders->count = 0;
	return row_list(tx, work->local, work->holders, err);
}

static int local_list(struct lease_backend *backend, lease_holders *holders,
		      struct err *err)
{
	struct look_work work = { .local = local_of(backend), .holders = holders };

	return store_read(work.local->store, list_work, &work, err);
}

static int local_report_never_granted(const char *key, struct err *err)
{
	return err_set(err, ERR_MISSING, "no lease %.300s was ever granted", key);
}

static int inspect_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct look_work *work = arg;

	if (row_load(tx, work->key, &work->row, err) != 0)
		return -1;
	if (work->row.holder.fence == 0)
		return local_report_never_granted(work->key, err);
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
		return local_report_never_granted(work->key, err);
	if (row.nonce[0] && row.holder.fence == work->fence)
		return 0;
	return err_set(err, ERR_CONFLICT,
		       "lease %.300s: %s at fence %" PRIu64 ", not %" PRIu64, work->key,
		       row.nonce[0] ? "held" : "released", row.holder.fence, work->fence);
}

static int force_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct force_work *work = arg;
	AUTO_QUERY struct query *query = NULL;

	if (check_force(tx, work, err) != 0 ||
	    query_open(tx,
		       "UPDATE lease SET nonce = NULL, fence = fence + 1,"
		       " ended = 'forced' WHERE key = ?1",
		       &query, err) != 0)
		return -1;
	query_bind_text(query, 1, work->key);
	if (query_run(query, NULL, err) != 0)
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
	.hint_open = local_hint_open,
	.try_acquire = local_try_acquire,
	.leave = local_leave,
	.extend_all = local_extend_all,
	.release = local_release,
	.list = local_list,
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
	AUTO_QUERY struct query *query = NULL;

	if (query_open(work->tx,
		       "SELECT 1 FROM lease"
		       " WHERE alive_file = ?1 AND nonce IS NOT NULL LIMIT 1",
		       &query, err) != 0)
		return -1;
	query_bind_text(query, 1, name);
	int named = query_step(query, err);
	if (named != 0)
		return named < 0 ? -1 : 0;
	query_close(&query);
	if (query_open(work->tx, "DELETE FROM lease_waiter WHERE alive_file = ?1", &query,
		       err) != 0)
		return -1;
	query_bind_text(query, 1, name);
	return query_run(query, NULL, err) == 0 ? 1 : -1;
}

/* Inside a write, so that our file cannot be seen before it is locked. */
static int join_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct join_work work = { .local = arg, .tx = tx };

	if (alive_start(&work.local->files, err) != 0)
		return -1;
	return alive_sweep(&work.local->files, local_forget_dead_manager, &work, err);
}

/* Field 22 of /proc/self/stat; the second, in brackets, may hold anything. */
static int64_t read_start_time(void)
{
	AUTO_STR struct str stat = STR_INIT;
	uint64_t ticks = 0;
	char *at, *rest;

	if (file_read(AT_FDCWD, "/proc/self/stat", 4096, &stat, ERR_IGNORED) != 0)
		return 0;
	at = strrchr(stat.data, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at)
		ticks = strtoull(at + 1, &rest, 10);
	return (int64_t)ticks;
}

int lease_manager_open_local(struct store *store, const struct lease_options *options,
			     struct lease_manager **manager, struct err *err)
{
	struct local *local = xcalloc(1, sizeof(*local));

	*manager = NULL;
	local->store = store;
	local->start_time = read_start_time();
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
