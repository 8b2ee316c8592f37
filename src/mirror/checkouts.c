#include "mirror/checkouts.h"

#include <fcntl.h>

#include "base/clock.h"
#include "base/log.h"
#include "git/refs.h"
#include "git/repo.h"
#include "job/job.h"
#include "replicable/name.h"
#include "upkeep/checkout.h"
#include "upkeep/copies_root.h"

/* After a failure the next poll tries, and the longer it fails, the later. */
#define AGAIN_LEAST_MS ((int64_t)60 * 1000)
#define AGAIN_MOST_MS ((int64_t)3600 * 1000)
#define TRASH_AGAIN_MS 5000
#define BRANCHES "refs/heads/"

void mirror_checkout_clear(struct mirror_checkout *row)
{
	free(row->commit);
	free(row->branch);
	free(row->class);
	free(row->reason);
	free(row->message);
	free(row->remedy);
	*row = (struct mirror_checkout){ 0 };
}

static void mirror_checkout_take(struct query *query, void *arg)
{
	struct mirror_checkout *row = arg;

	*row = (struct mirror_checkout){
		.commit = query_copy_text(query, 0),
		.branch = query_copy_text(query, 1),
		.made_at = query_int(query, 2),
		.due_at = query_int(query, 3),
		.failing_since = query_int(query, 4),
		.class = query_copy_text(query, 5),
		.reason = query_copy_text(query, 6),
		.message = query_copy_text(query, 7),
		.remedy = query_copy_text(query, 8),
	};
}

int mirror_checkout_read(struct store *store, const char *name,
			 struct mirror_checkout *row, struct err *err)
{
	*row = (struct mirror_checkout){ 0 };
	return store_one(store, mirror_checkout_take, row, err,
			 "SELECT head_commit, branch, made_at, due_at, failing_since,"
			 " class, reason, message, remedy FROM mirror_checkout"
			 " WHERE name = ?1",
			 QUERY_TEXT(name));
}

struct mirror_checkout_work {
	const char *name;
	struct mirror_checkout *row; /* NULL: it is to go */
};

static int mirror_checkout_write(struct store_tx *tx, void *arg, struct err *err)
{
	const struct mirror_checkout_work *work = arg;
	const struct mirror_checkout *row = work->row;

	if (query_write(tx, err, "DELETE FROM mirror_checkout WHERE name = ?1",
			QUERY_TEXT(work->name)) != 0)
		return -1;
	if (!row)
		return 0;
	return query_write(tx, err,
			   "INSERT INTO mirror_checkout (name, head_commit, branch,"
			   " made_at, due_at, failing_since, class, reason, message,"
			   " remedy) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
			   QUERY_TEXT(work->name), QUERY_TEXT(row->commit),
			   QUERY_TEXT(row->branch), QUERY_INT(row->made_at),
			   QUERY_INT(row->due_at), QUERY_INT(row->failing_since),
			   QUERY_TEXT(row->class), QUERY_TEXT(row->reason),
			   QUERY_TEXT(row->message), QUERY_TEXT(row->remedy));
}

int mirror_checkouts_forget_in(struct store_tx *tx, struct err *err)
{
	return store_exec(tx,
			  "DELETE FROM mirror_checkout WHERE name NOT IN"
			  " (SELECT name FROM mirror)",
			  err);
}

/* One look at a working tree. */
struct mirror_checkout_look {
	const struct mirror_checkout_site *site;
	const struct mirror *mirror;
	struct checkout_call call;
	struct mirror_checkout row; /* as it was, then as it is to be */
	char *branch;               /* of HEAD; NULL: it is detached */
	struct oid commit;          /* len 0: HEAD names none */
};

static int mirror_checkout_read_head(struct mirror_checkout_look *look, struct err *err)
{
	AUTO_FREE char *path = name_to_copy(look->site->root, look->mirror->name);
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;
	AUTO_REPO struct repo copy = REPO_INIT;

	if (repo_open(AT_FDCWD, path, &copy, err) != 0 ||
	    ref_snapshot_read(copy.fd, copy.oid_len, &refs, err) != 0)
		return -1;
	if (!ref_snapshot_head(&refs, &look->commit))
		look->commit.len = 0;
	if (refs.head_target && text_starts_with(refs.head_target, BRANCHES))
		look->branch = xstrdup(refs.head_target + strlen(BRANCHES));
	return 0;
}

/* An upstream that is empty has nothing to be shown. One that was not is perhaps so by an
 * accident: what stands is not taken away from its readers. */
static int mirror_checkout_say_unborn(const struct mirror_checkout_look *look,
				      struct err *err)
{
	if (!look->row.commit)
		return 0;
	err_set(err, ERR_MISSING,
		"the upstream's HEAD names %s, which is not there: the working tree "
		"stays "
		"at %.12s",
		look->branch ? look->branch : "nothing", look->row.commit);
	return err_remedy(err, "set the default branch at the upstream to one that is "
			       "there");
}

/* Writes what is new. */
static int mirror_checkout_make(struct mirror_checkout_look *look, struct err *err)
{
	char text[OID_MAX_TEXT];
	const int64_t started = clock_boot_ms();
	bool is_new;

	if (mirror_checkout_read_head(look, err) != 0)
		return -1;
	if (look->commit.len == 0)
		return mirror_checkout_say_unborn(look, err);
	if (checkout_switch(&look->call, &look->commit, &is_new, err) != 0)
		return -1;
	oid_text(&look->commit, text);
	if (is_new || !text_is_same(look->row.commit, text))
		look->row.made_at = clock_wall_ms();
	text_replace(&look->row.commit, text);
	text_replace(&look->row.branch, look->branch);
	if (is_new)
		log_info("checkout.switched", LOG_TEXT("name", look->mirror->name),
			 LOG_TEXT("branch", look->branch), LOG_TEXT("commit", text),
			 LOG_NUMBER("dur_ms", clock_boot_ms() - started));
	return 0;
}

static int64_t mirror_checkout_again_ms(const struct mirror_checkout *row)
{
	int64_t fails_ms =
		row->failing_since > 0 ? clock_wall_ms() - row->failing_since : 0;

	return fails_ms <= AGAIN_LEAST_MS ? AGAIN_LEAST_MS
	       : fails_ms < AGAIN_MOST_MS ? fails_ms
					  : AGAIN_MOST_MS;
}

/* Told once for each class. */
static void mirror_checkout_take_failure(struct mirror_checkout_look *look,
					 const struct err *why)
{
	struct mirror_checkout *row = &look->row;
	const char *class = err_class_name(why->class);

	row->due_at = clock_wall_ms() + mirror_checkout_again_ms(row);
	if (err_is_deferral(why->class)) {
		row->due_at = clock_wall_ms();
		return;
	}
	if (row->failing_since == 0 || !text_is_same(row->class, class))
		log_warn("checkout.failed", LOG_TEXT("name", look->mirror->name),
			 LOG_ERR(why), LOG_TEXT("remedy", why->remedy));
	if (row->failing_since == 0)
		row->failing_since = clock_wall_ms();
	text_replace(&row->class, class);
	text_replace(&row->reason, err_reason_name(why->reason));
	text_replace(&row->message, why->text);
	text_replace(&row->remedy, why->remedy);
}

static void mirror_checkout_take_success(struct mirror_checkout_look *look)
{
	struct mirror_checkout *row = &look->row;

	if (row->failing_since > 0)
		log_info("checkout.recovered", LOG_TEXT("name", look->mirror->name));
	row->failing_since = 0;
	text_replace(&row->class, NULL);
	text_replace(&row->reason, NULL);
	text_replace(&row->message, NULL);
	text_replace(&row->remedy, NULL);
}

/* Whether the next look has to be made by itself. */
static int mirror_checkout_tidy(struct mirror_checkout_look *look, struct err *err)
{
	int64_t next_ms = 0;

	if (checkout_expire(&look->call, &next_ms, err) != 0)
		return -1;
	look->row.due_at = next_ms > 0 ? clock_wall_ms() + next_ms : 0;
	return 0;
}

static int mirror_checkout_drop(struct mirror_checkout_look *look, struct err *err)
{
	if (checkout_drop(&look->call, err) != 0)
		return -1;
	if (look->row.commit)
		log_info("checkout.dropped", LOG_TEXT("name", look->mirror->name));
	text_replace(&look->row.commit, NULL);
	text_replace(&look->row.branch, NULL);
	look->row.made_at = 0;
	return 0;
}

static bool mirror_checkout_is_same(const struct mirror_checkout *one,
				    const struct mirror_checkout *other)
{
	return one->made_at == other->made_at && one->due_at == other->due_at &&
	       one->failing_since == other->failing_since &&
	       text_is_same(one->commit, other->commit) &&
	       text_is_same(one->branch, other->branch) &&
	       text_is_same(one->message, other->message);
}

/* Most looks find nothing new. */
static void mirror_checkout_save(struct mirror_checkout_look *look)
{
	AUTO_MIRROR_CHECKOUT struct mirror_checkout before = { 0 };
	struct store *store = look->site->store;
	const char *name = look->mirror->name;
	bool is_over = !look->mirror->has_checkout && look->row.due_at == 0;
	struct mirror_checkout_work work = { .name = name,
					     .row = is_over ? NULL : &look->row };
	struct err err;
	int found = mirror_checkout_read(store, name, &before, &err);

	if (found >= 0 &&
	    (is_over ? found == 0
		     : found > 0 && mirror_checkout_is_same(&before, &look->row)))
		return;
	if (found < 0 || store_write(store, mirror_checkout_write, &work, &err) != 0)
		log_error("registry.failed", LOG_ERR(&err));
}

/* What is old goes also after a failure: it may be the room that is lacking. */
static int mirror_checkout_do(struct mirror_checkout_look *look, struct err *err)
{
	int result = look->mirror->has_checkout ? mirror_checkout_make(look, err)
						: mirror_checkout_drop(look, err);

	if (result != 0 && !err_is_deferral(err->class))
		mirror_checkout_tidy(look, ERR_IGNORED);
	if (result != 0 || mirror_checkout_tidy(look, err) != 0)
		return -1;
	mirror_checkout_take_success(look);
	return 0;
}

/* Of most mirrors there never was one. */
static bool mirror_checkout_is_needless(const struct mirror_checkout_site *site,
					const struct mirror *mirror)
{
	AUTO_MIRROR_CHECKOUT struct mirror_checkout row = { 0 };

	return !mirror->has_checkout && !checkout_is_any(site->root, mirror->name) &&
	       mirror_checkout_read(site->store, mirror->name, &row, ERR_IGNORED) == 0;
}

void mirror_checkout_keep(const struct mirror_checkout_site *site,
			  const struct mirror *mirror, struct job *leased)
{
	struct mirror_checkout_look look = {
		.site = site,
		.mirror = mirror,
		.call = { .job = leased, .root = site->root, .name = mirror->name }
	};
	struct err err;

	if (mirror_checkout_is_needless(site, mirror))
		return;
	if (mirror_checkout_read(site->store, mirror->name, &look.row, &err) < 0) {
		log_error("registry.failed", LOG_ERR(&err));
		return;
	}
	if (mirror_checkout_do(&look, &err) != 0)
		mirror_checkout_take_failure(&look, &err);
	mirror_checkout_save(&look);
	mirror_checkout_clear(&look.row);
	free(look.branch);
}

/*
 * Apart from the mirror's jobs.
 */

bool mirror_checkout_is_due(const struct mirror_checkout_site *site,
			    const struct mirror *mirror)
{
	AUTO_MIRROR_CHECKOUT struct mirror_checkout row = { 0 };
	int found = mirror_checkout_read(site->store, mirror->name, &row, ERR_IGNORED);

	if (found < 0)
		return false;
	if (found == 0)
		return mirror->has_checkout || checkout_is_any(site->root, mirror->name);
	if (!mirror->has_checkout && row.commit)
		return true;
	/* Switched on again, before what it had was removed. */
	if (mirror->has_checkout && !row.commit && row.made_at == 0 &&
	    row.failing_since == 0 && row.due_at > 0)
		return true;
	return row.due_at > 0 && row.due_at <= clock_wall_ms();
}

struct mirror_checkout_run {
	const struct mirror_checkout_site *site;
	const char *name;
	const struct mirror *mirror; /* NULL: it is none any more */
};

/* job_work */
static int mirror_checkout_leased(struct job *job, void *arg, struct err *err)
{
	const struct mirror_checkout_run *run = arg;

	(void)err;
	mirror_checkout_keep(run->site, run->mirror, job);
	return 0;
}

static int mirror_checkout_run_job(struct mirror_checkout_run *run, job_work work,
				   const struct stop *stop, struct err *err)
{
	const struct mirror_checkout_site *site = run->site;

	return job_run(&(struct job_request){ .leases = site->leases,
					      .kind = KIND_MIRROR,
					      .name = run->name,
					      .operation = "checkout",
					      .fence_floor = job_fence_floor(site->root,
									     run->name),
					      .timeout_ms = site->timeout_ms,
					      .stop = stop,
					      .run = work,
					      .arg = run },
		       err);
}

void mirror_checkout_look_after(const struct mirror_checkout_site *site,
				const struct mirror *mirror, const struct stop *stop)
{
	struct mirror_checkout_run run = { site, mirror->name, mirror };

	if (mirror_checkout_is_due(site, mirror))
		mirror_checkout_run_job(&run, mirror_checkout_leased, stop, ERR_IGNORED);
}

/*
 * At a secondary, which keeps no mirrors, so that no poll looks after them.
 */

/* job_work */
static int mirror_checkout_trash_leased(struct job *job, void *arg, struct err *err)
{
	const struct mirror_checkout_run *run = arg;
	const struct checkout_call call = { .job = job,
					    .root = run->site->root,
					    .name = run->name };
	struct mirror_checkout_work work = { .name = run->name };

	if (copies_root_check_copy(run->site->store, KIND_REPOSITORY, run->site->root,
				   run->name, err) != 0 ||
	    checkout_trash(&call, err) != 0 ||
	    store_write(run->site->store, mirror_checkout_write, &work, err) != 0)
		return -1;
	log_info("checkout.dropped", LOG_TEXT("name", run->name));
	return 0;
}

static int mirror_checkout_read_names(struct store_tx *tx, void *arg, struct err *err)
{
	return query_each(tx, query_add_text, arg, err,
			  "SELECT name FROM mirror_checkout");
}

struct checkouts_trash {
	struct mirror_checkout_site site;
	text_list names; /* owned */
	struct stop stop;
	pthread_t thread;
};

/* Whether to come back: its lease cannot be had just now. */
static bool checkouts_trash_is_left(struct checkouts_trash *trash, const char *name)
{
	struct mirror_checkout_run run = { .site = &trash->site, .name = name };
	struct err err;

	/* perhaps its file system is not mounted: the row stays */
	return !stop_is_requested(&trash->stop) &&
	       checkout_is_any(trash->site.root, name) &&
	       mirror_checkout_run_job(&run, mirror_checkout_trash_leased, &trash->stop,
				       &err) != 0 &&
	       (err_is_deferral(err.class) || err.class == ERR_LOCK_UNAVAILABLE);
}

static void *checkouts_trash_run(void *arg)
{
	struct checkouts_trash *trash = arg;

	do {
		AUTO_TEXT_LIST text_list left = { 0 };
		for (size_t i = 0; i < trash->names.count; i++)
			if (checkouts_trash_is_left(trash, trash->names.items[i]))
				vec_add(&left, xstrdup(trash->names.items[i]));
		text_list old = trash->names;
		trash->names = left;
		left = old;
	} while (trash->names.count > 0 && !stop_wait(&trash->stop, TRASH_AGAIN_MS));
	return NULL;
}

int checkouts_trash_start(const struct mirror_checkout_site *site,
			  struct checkouts_trash **trash, struct err *err)
{
	AUTO_TEXT_LIST text_list names = { 0 };

	*trash = NULL;
	if (store_read(site->store, mirror_checkout_read_names, &names, err) != 0)
		return -1;
	if (names.count == 0)
		return 0;
	*trash = xcalloc(1, sizeof(**trash));
	(*trash)->site = *site;
	(*trash)->names = names;
	names = (text_list){ 0 };
	stop_init(&(*trash)->stop);
	thread_start(&(*trash)->thread, "checkouts-trash", checkouts_trash_run, *trash);
	return 0;
}

void checkouts_trash_stop(struct checkouts_trash *trash)
{
	if (!trash)
		return;
	stop_request(&trash->stop);
	thread_join(trash->thread);
	stop_clear(&trash->stop);
	text_list_clear(&trash->names);
	free(trash);
}

json_t *mirror_checkout_json(struct store *store, const char *root, const char *name,
			     const struct mirror *mirror)
{
	AUTO_MIRROR_CHECKOUT struct mirror_checkout row = { 0 };
	AUTO_FREE char *path = checkout_path(root, name);
	json_t *object;

	if (mirror_checkout_read(store, name, &row, ERR_IGNORED) <= 0 &&
	    !(mirror && mirror->has_checkout))
		return json_null();
	object = json_object();
	json_put_text(object, "path", row.commit ? path : NULL);
	json_put_text(object, "branch", row.branch);
	json_put_text(object, "commit", row.commit);
	json_put_time(object, "made_at", row.made_at);
	json_put_time(object, "failing_since", row.failing_since);
	json_put_text(object, "class", row.class);
	json_put_text(object, "reason", row.reason);
	json_put_text(object, "message", row.message);
	json_put_text(object, "remedy", row.remedy);
	return object;
}
