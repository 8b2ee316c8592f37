/*
 * The dispatcher knows what is at work by its id; a row stays due until its result is
 * written, so that a crash costs nothing but the work.
 *
 * A result belongs to the refs that were read. When the repository changes meanwhile,
 * the row's checksum is the comparison's that noticed it, and what was found of the
 * packs and of the older history still stands: so the result goes to the newer row. But
 * objects that were found missing may have been dropped by that change: then they are
 * looked for anew.
 */
#include "verify/verify_origin.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/retry.h"
#include "base/vec.h"
#include "job/pool.h"
#include "replicable/name.h"
#include "verify/verify_objects.h"

#define TIMEOUT_MS ((int64_t)3 * 3600 * 1000)
/* A worker rests for so many times of what its work took. */
#define REST 3
#define REST_MAX_MS ((int64_t)10 * 60 * 1000)
/* How often a row may change while its result is being written. */
#define TRIES 5
/* How often a repository may change while its objects are looked for. */
#define LOOKS 5
/* After an error of the database. */
#define PATIENCE_MS 10000

struct verify_origin {
	pthread_mutex_t mutex;
	pthread_cond_t changed; /* capacity, a wake, work ended, stop */
	struct verify_origin_options
		options;       /* capacity, reverify_ms: guarded by mutex */
	char *root;            /* owned */
	struct pool *pool;     /* dispatcher only */
	int64_t clock_lead_ms; /* clock_was_set_back(); dispatcher only */
	VEC(uint64_t) busy;    /* guarded by mutex; ids at work */
	size_t threads;        /* guarded by mutex; at work or resting */
	bool is_woken;         /* guarded by mutex */
	struct stop stop;
	pthread_t dispatcher;
};

struct task {
	struct verify_origin *verify;
	uint64_t id;
	char *name; /* owned */
};

static int check_objects(struct verify_origin *verify, const struct noticed *noticed,
			 struct err *err)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	AUTO_FREE char *path = xasprintf("%s/%s", verify->root, noticed->row.path);
	const struct git_work work = { .stop = &verify->stop,
				       .guard_fd = -1,
				       .until = clock_boot_ms() + TIMEOUT_MS };

	if (repo_open(AT_FDCWD, path, &repo, err) != 0 ||
	    repo_check_files(&repo, err) != 0)
		return -1;
	return verify_objects(&work, &repo, &noticed->refs, err);
}

struct result {
	const char *name;
	const struct err *failure; /* NULL: whole */
	int64_t reverify_ms;
};

static void set_text(char **text, const char *value)
{
	free(*text);
	*text = value ? xstrdup(value) : NULL;
}

static void set_failure(struct origin_row *row, const struct err *failure)
{
	set_text(&row->failure_class, failure ? err_class_name(failure->class) : NULL);
	set_text(&row->failure, failure ? failure->text : NULL);
	set_text(&row->remedy, failure ? failure->remedy : NULL);
}

static void put_result(struct origin_row *row, const struct result *result)
{
	int64_t now = clock_wall_ms();

	row->verification_retry_count =
		result->failure ? row->verification_retry_count + 1 : 0;
	if (result->failure) {
		row->verification = VERIFICATION_FAILED;
		row->verification_due_at =
			now + retry_random_delay_ms(
				      (uint64_t)row->verification_retry_count, RETRY_CAP);
	} else {
		row->verification = VERIFICATION_SUCCEEDED;
		row->verified_at = now;
		row->verification_due_at = now + result->reverify_ms;
	}
	if (result->failure || row->checksum) /* else it says why there is none */
		set_failure(row, result->failure);
}

static int write_result(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };
	const struct result *result = arg;
	int found = origin_row_get(tx, KIND_REPOSITORY, result->name, &row, err);

	if (found <= 0)
		return found;
	put_result(&row, result);
	return origin_row_update(tx, &row, row.generation, err);
}

static int record(struct verify_origin *verify, const char *name,
		  const struct err *failure, struct err *err)
{
	struct result result = { .name = name, .failure = failure };

	lock(&verify->mutex);
	result.reverify_ms = verify->options.reverify_ms;
	unlock(&verify->mutex);
	for (int tries = 1;; tries++) {
		if (store_write(verify->options.store, write_result, &result, err) == 0)
			return 0;
		if (err->class != ERR_CONFLICT || tries == TRIES)
			return -1;
	}
}

static int look(struct verify_origin *verify, const char *name, struct err *err)
{
	struct err failure = { 0 };
	uint64_t failed_at = 0; /* generation */

	for (int looks = 0; looks < LOOKS; looks++) {
		AUTO_NOTICED struct noticed noticed = { 0 };
		if (notice_compare(verify->options.notice, name, &noticed, err) != 0)
			return -1;
		if (noticed.row.generation == failed_at)
			break;
		if (check_objects(verify, &noticed, err) == 0)
			return 0;
		if (err->class == ERR_CANCELED)
			return -1;
		failure = *err;
		failed_at = noticed.row.generation;
	}
	*err = failure;
	return -1;
}

/* That it changes faster than it can be read is no failure of the repository. */
static bool says_something(const struct err *failure)
{
	if (failure->class == ERR_CONFLICT)
		log_info("verify.deferred", LOG_ERR(failure));
	return failure->class != ERR_CONFLICT && failure->class != ERR_CANCELED;
}

/* False: the row is as due as before. One that is no more has no row, and needs none. */
static bool verify_one(struct verify_origin *verify, const char *name)
{
	int64_t started = clock_boot_ms();
	struct err failure, err;
	int result = look(verify, name, &failure);

	if (result != 0 && !says_something(&failure))
		return false;
	if (result == 0)
		log_debug("verify.done", LOG_NUMBER("dur_ms", clock_boot_ms() - started));
	else if (failure.class != ERR_MISSING)
		log_error("verify.failed",
			  LOG_NUMBER("dur_ms", clock_boot_ms() - started),
			  LOG_ERR(&failure), LOG_TEXT("remedy", failure.remedy));
	if (record(verify, name, result == 0 ? NULL : &failure, &err) == 0)
		return true;
	log_warn("verify.not_recorded", LOG_ERR(&err));
	return false;
}

static void forget_busy_locked(struct verify_origin *verify, uint64_t id)
{
	for (size_t i = 0; i < verify->busy.count; i++) {
		if (verify->busy.items[i] != id)
			continue;
		verify->busy.items[i] = verify->busy.items[--verify->busy.count];
		return;
	}
}

static bool is_busy_locked(const struct verify_origin *verify, uint64_t id)
{
	for (size_t i = 0; i < verify->busy.count; i++)
		if (verify->busy.items[i] == id)
			return true;
	return false;
}

static void rest(struct verify_origin *verify, int64_t took_ms, bool is_done)
{
	int64_t ms = REST * took_ms;

	if (!is_done && ms < PATIENCE_MS)
		ms = PATIENCE_MS;
	stop_wait(&verify->stop, ms < REST_MAX_MS ? ms : REST_MAX_MS);
}

static void forget_task(void *arg)
{
	struct task *task = arg;

	free(task->name);
	free(task);
}

static void work(void *arg)
{
	struct task *task = arg;
	struct verify_origin *verify = task->verify;
	int64_t started = clock_boot_ms();
	struct log_context before = log_set_context(
		(struct log_context){ .repo = task->name, .job = "verify" });

	bool is_done = verify_one(verify, task->name);
	log_set_context(before);
	lock(&verify->mutex);
	forget_busy_locked(verify, task->id);
	unlock(&verify->mutex);
	rest(verify, clock_boot_ms() - started, is_done);
	lock(&verify->mutex);
	verify->threads--;
	verify->is_woken = true;
	pthread_cond_broadcast(&verify->changed);
	unlock(&verify->mutex);
	forget_task(task);
}

struct due {
	size_t limit;
	origin_rows rows;
};

/* Also those that are not due yet: the first of them says when to look again. */
static int read_due(struct store_tx *tx, void *arg, struct err *err)
{
	struct due *due = arg;

	origin_rows_clear(&due->rows);
	return origin_rows_due(tx, KIND_REPOSITORY, INT64_MAX, due->limit, &due->rows,
			       err);
}

static void submit_locked(struct verify_origin *verify, const struct origin_row *row)
{
	struct task *task = xmalloc(sizeof(*task));

	*task = (struct task){ verify, row->id, xstrdup(row->name) };
	vec_add(&verify->busy, row->id);
	verify->threads++;
	pool_submit(verify->pool, work, task);
}

/* A repository that comes while we sleep is due after half of the interval at the
 * earliest (change/notice_commit.c), and nobody wakes us for it. */
static int64_t longest_sleep_locked(const struct verify_origin *verify)
{
	int64_t half = verify->options.reverify_ms / 2;

	return half > 0 ? half : INT64_MAX;
}

/* In how many milliseconds to look again; INT64_MAX: all are at work. */
static int64_t dispatch_locked(struct verify_origin *verify, const origin_rows *rows)
{
	int64_t now = clock_wall_ms(), longest = longest_sleep_locked(verify);

	for (size_t i = 0; i < rows->count; i++) {
		const struct origin_row *row = &rows->items[i];
		if (is_busy_locked(verify, row->id))
			continue;
		if (verify->threads >= verify->options.capacity)
			return INT64_MAX; /* the end of a work wakes us */
		int64_t wait = row->verification_due_at - now;
		if (wait > 0)
			return wait < longest ? wait : longest;
		submit_locked(verify, row);
	}
	return longest;
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

/* At the start, and when the clock was set back: nothing waits longer than it was told
 * to. */
static void heal_due(struct verify_origin *verify)
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

/* Returns in how many milliseconds to look again. */
static int64_t look_for_work(struct verify_origin *verify)
{
	struct due due = { 0 };
	struct err err;
	int64_t wait = INT64_MAX;

	lock(&verify->mutex);
	size_t capacity = verify->options.capacity;
	bool is_full = verify->threads >= capacity;
	/* with those at work, which are due as well, and the next to come */
	due.limit = capacity + verify->busy.count + 1;
	unlock(&verify->mutex);
	if (is_full)
		return INT64_MAX;
	pool_set_capacity(verify->pool, capacity);
	if (store_read(verify->options.store, read_due, &due, &err) != 0) {
		log_warn("verify.no_list", LOG_ERR(&err));
		wait = PATIENCE_MS;
	} else {
		AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
		wait = dispatch_locked(verify, &due.rows);
	}
	origin_rows_clear(&due.rows);
	return wait;
}

static void *dispatch(void *arg)
{
	struct verify_origin *verify = arg;

	while (!stop_is_requested(&verify->stop)) {
		heal_due(verify);
		int64_t wait = look_for_work(verify);
		int64_t until = wait == INT64_MAX ? wait : clock_boot_ms() + wait;
		AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
		bool in_time = true;
		while (in_time && !verify->is_woken && !stop_is_requested(&verify->stop))
			in_time =
				cond_wait_until(&verify->changed, &verify->mutex, until);
		verify->is_woken = false;
	}
	return NULL;
}

struct verify_origin *verify_origin_start(const struct verify_origin_options *options)
{
	struct verify_origin *verify = xcalloc(1, sizeof(*verify));

	mutex_init(&verify->mutex);
	cond_init(&verify->changed);
	stop_init(&verify->stop);
	verify->options = *options;
	verify->clock_lead_ms = INT64_MAX;
	verify->root = xstrdup(options->root);
	verify->pool = pool_start("verify", options->capacity ? options->capacity : 1);
	thread_start(&verify->dispatcher, "verify-origin", dispatch, verify);
	return verify;
}

void verify_origin_wake(struct verify_origin *verify)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);

	verify->is_woken = true;
	pthread_cond_broadcast(&verify->changed);
}

void verify_origin_set(struct verify_origin *verify, size_t capacity, int64_t reverify_ms)
{
	lock(&verify->mutex);
	verify->options.capacity = capacity;
	verify->options.reverify_ms = reverify_ms;
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
	pool_stop(verify->pool, forget_task);
	vec_clear(&verify->busy);
	stop_clear(&verify->stop);
	pthread_cond_destroy(&verify->changed);
	pthread_mutex_destroy(&verify->mutex);
	free(verify->root);
	free(verify);
}

struct asking {
	const char *name;
	int64_t at_least_ms;
};

static int ask(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };
	const struct asking *asking = arg;
	int64_t now = clock_wall_ms();
	int found = origin_row_get(tx, KIND_REPOSITORY, asking->name, &row, err);

	if (found == 0)
		return err_set(err, ERR_MISSING, "%s: there is no such repository",
			       asking->name);
	if (found < 0)
		return -1;
	if (row.verified_at <= now && now - row.verified_at < asking->at_least_ms)
		return err_set(err, ERR_BUSY, "%s was verified %" PRId64 " s ago",
			       asking->name, (now - row.verified_at) / 1000);
	if (row.verification != VERIFICATION_FAILED) /* until it is found whole */
		row.verification = VERIFICATION_PENDING;
	row.verification_due_at = now;
	return origin_row_update(tx, &row, row.generation, err);
}

int verify_origin_ask(struct store *store, const char *name, int64_t at_least_ms,
		      struct err *err)
{
	struct asking asking = { name, at_least_ms };

	return store_write(store, ask, &asking, err);
}
