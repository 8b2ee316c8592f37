/*
 * Starting and stopping, and what the threads tell each other.
 *
 * Stopping has two tokens. `stop` ends the three loops and begins nothing new; what the
 * pools run goes on until it is done or the grace is over. Then `kill` ends requests and
 * children, and each job gives its row back. So no row is left to a timeout.
 */
#include "pull/pull.h"

#include <fcntl.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "git/objects.h"
#include "pull/blob_copy_watch.h"
#include "pull/bring_packs.h"
#include "pull/copy_kind.h"
#include "pull/copy_watch.h"
#include "pull/decisions.h"
#include "pull/history.h"
#include "pull/hold.h"
#include "pull/maintainer.h"
#include "pull/mirror_source.h"
#include "pull/pull_parts.h"
#include "store/site_value.h"
#include "upkeep/copies_root.h"
#include "upkeep/trash.h"

#define AT(kind, member) SETTING_AT(kind, struct pull_settings, member)
#define CAPACITY_MOST 256
#define HISTORY_KEPT 4096

static const struct setting rows[] = {
	{ "repositoryCapacity", AT(NUMBER, repository_capacity), "10",
	  .max = CAPACITY_MOST },
	{ "blobCapacity", AT(NUMBER, blob_capacity), "10", .max = CAPACITY_MOST },
	{ "verificationCapacity", AT(NUMBER, verification_capacity), "2",
	  .max = CAPACITY_MOST },
	{ "scanInterval", AT(DURATION, scan_interval_ms), "1m", .min = 100,
	  .at_start = true },
	{ "consistencyInterval", AT(DURATION, consistency_interval_ms), "1m",
	  .min = CONF_SECOND },
	{ "timeout", AT(DURATION, timeout_ms), "3h", .min = CONF_SECOND },
	{ "reverifyInterval", AT(DURATION, reverify_ms), "7d", .min = CONF_SECOND,
	  .unit = CONF_DAY },
	{ "fastPath", AT(BOOL, takes_deltas), "true" },
	{ "shareObjects", AT(BOOL, shares_objects), "false" },
	{ "maintenance", AT(BOOL, is_maintained), "true" },
	{ "maintenanceInterval", AT(DURATION, maintenance_ms), "1h", .min = CONF_SECOND },
	{ "bandwidth", AT(SIZE, bandwidth), "0" },
	{ "deleteBrake", AT(SHARE, delete_brake), "5%" },
	{ 0 },
};

const struct setting_table pull_settings_table = { .section = "sync", .rows = rows };

/*
 * How the primary is heard of, kept for those who ask: the log says when it falls silent
 * and when it is back, site_value says how it is now. Two threads ask the primary;
 * it is back when neither fails any more.
 */

#define WRITE_EVERY_MS 10000

struct peer_note {
	int64_t heard_at, skew_ms;
	const char *failure; /* NULL: none */
};

static int write_note(struct store_tx *tx, void *arg, struct err *err)
{
	const struct peer_note *note = arg;

	if (note->heard_at > 0 &&
	    (site_value_set_number(tx, PULL_HEARD, note->heard_at, err) != 0 ||
	     site_value_set_number(tx, PULL_SKEW, note->skew_ms, err) != 0))
		return -1;
	return note->failure ? site_value_set(tx, PULL_FAILURE, note->failure, err)
			     : site_value_remove(tx, PULL_FAILURE, err);
}

static void failure_text(const struct pull_heard *heard, struct str *out)
{
	json_t *json = json_object();

	json_put_time(json, "since", heard->since);
	json_put(json, "class", json_string(err_class_name(heard->err.class)));
	json_put_message(json, "message", heard->err.text);
	json_put_message(json, "remedy", heard->err.remedy);
	json_render(json, out);
	json_decref(json);
}

static void peer_keep_note(struct pull *pull, const struct pull_heard *heard)
{
	struct primary_health health;
	struct peer_note note = { 0 };
	AUTO_STR struct str failure = STR_INIT;
	struct err err;

	primary_health(pull->options.primary, &health);
	note.heard_at = health.heard_at;
	note.skew_ms = health.skew_ms;
	if (heard->failing) {
		failure_text(heard, &failure);
		note.failure = failure.data;
	}
	if (store_write_quietly(pull->options.store, write_note, &note, &err) != 0)
		log_warn("pull.not_kept", LOG_ERR(&err));
}

/* Whether it is time to write again; if so it counts as written. */
static bool is_due_locked(struct pull_heard *heard, bool is_changed)
{
	int64_t now = clock_boot_ms();

	if (!is_changed && heard->written_at && now - heard->written_at < WRITE_EVERY_MS)
		return false;
	heard->written_at = now;
	return true;
}

/* Rows that failed because the primary was out of reach are tried again now. */
static void peer_retry_rows(struct pull *pull)
{
	struct err err;

	if (registry_retry_unreached(pull->options.store, &err) != 0)
		log_warn("pull.not_kept", LOG_ERR(&err));
	pull_signal(pull);
}

/* It answered one part again: the other need not wait for long to try it. */
static void hurry_other_locked(struct pull *pull)
{
	pull->hurries++;
	pthread_cond_broadcast(&pull->changed);
}

void peer_good(struct pull *pull, enum pull_part part)
{
	struct pull_heard heard;
	bool was_failing, is_due;

	lock(&pull->mutex);
	was_failing = pull->heard.failing != 0;
	if (pull->heard.failing == (PULL_PART_CURSOR | PULL_PART_CONSISTENCY))
		hurry_other_locked(pull);
	pull->heard.failing &= ~(unsigned)part;
	heard = pull->heard;
	is_due = is_due_locked(&pull->heard, was_failing && !heard.failing);
	unlock(&pull->mutex);
	if (is_due)
		peer_keep_note(pull, &heard);
	if (!was_failing || heard.failing)
		return;
	log_info("primary.back", LOG_NUMBER("dur_ms", clock_wall_ms() - heard.since));
	peer_retry_rows(pull);
}

void peer_bad(struct pull *pull, enum pull_part part, const struct err *err)
{
	struct pull_heard heard;
	bool is_new, is_other, is_due;

	lock(&pull->mutex);
	is_new = !pull->heard.failing || pull->heard.err.class != err->class;
	is_other = is_new || strcmp(pull->heard.err.text, err->text) != 0;
	if (!pull->heard.failing)
		pull->heard.since = clock_wall_ms();
	pull->heard.failing |= (unsigned)part;
	pull->heard.err = *err;
	if (!err->remedy[0])
		err_remedy(&pull->heard.err,
			   "see whether its node runs and can be reached; it is tried "
			   "again by itself");
	heard = pull->heard;
	is_due = is_due_locked(&pull->heard, is_other);
	unlock(&pull->mutex);
	if (is_new && err_is_transient(err->class))
		log_warn("primary.unreachable", LOG_ERR(err));
	else if (is_new)
		log_error("primary.unreachable", LOG_ERR(err));
	if (is_due)
		peer_keep_note(pull, &heard);
	if (is_new)
		bell_ring();
}

bool hold_limit_stops(struct hold_limit deletion_limit, size_t deletions, size_t all)
{
	return deletions > deletion_limit.more_than &&
	       (double)deletions > deletion_limit.share * (double)all;
}

/* The name of the first changed ref from which `commit` can be reached and nothing of
 * the source can; "HEAD" if only that. */
static const char *ref_with(const struct git_work *work, const struct repo *copy,
			    const struct ref_diff *diff, const oid_list *known)
{
	struct oid example;

	for (size_t i = 0; i < diff->changes.count && i < 50; i++) {
		const struct ref *before = diff->changes.items[i].before;
		oid_list tip = { 0 };
		if (!before || before->target)
			continue;
		vec_add(&tip, before->oid);
		int found =
			objects_has_more(work, copy, &tip, known, &example, ERR_IGNORED);
		vec_clear(&tip);
		if (found > 0)
			return before->name;
	}
	return "one of its refs";
}

/* Which commits would no ref reach any more? */
static int find_lost_commits(const struct git_work *work, const struct repo *copy,
			     const struct ref_diff *diff, const oid_list *known,
			     char **reason, struct err *err)
{
	oid_list tips = { 0 };
	struct oid example;
	char text[OID_MAX_TEXT];
	int found = 0;

	for (size_t i = 0; i < diff->changes.count; i++) {
		const struct ref *before = diff->changes.items[i].before;
		if (before && !before->target)
			vec_add(&tips, before->oid);
	}
	oid_list_tidy(&tips);
	if (tips.count > 0)
		found = objects_has_more(work, copy, &tips, known, &example, err);
	vec_clear(&tips);
	if (found > 0)
		*reason = xasprintf(
			"the copy has commits that the source lacks, e.g. %s in %s",
			oid_text(&example, text), ref_with(work, copy, diff, known));
	return found;
}

uint64_t hold_deletions(const struct hold_question *question)
{
	uint64_t deletions = question->diff->deletions;

	return deletions > question->pushed ? deletions - question->pushed : 0;
}

int hold_decide(const struct hold_question *question, char **reason, struct err *err)
{
	size_t deletions = hold_deletions(question), all = question->from->refs.count;
	oid_list known = { 0 };
	int found;

	if (deletions > question->permitted &&
	    hold_limit_stops(HOLD_REFS(question->delete_share), deletions, all)) {
		*reason = xasprintf("%zu of %zu refs would be deleted at once", deletions,
				    all);
		return 1;
	}
	if (question->is_ours)
		return 0;
	oid_list_add_tips(&known, &question->view->refs);
	found = find_lost_commits(question->work, question->copy, question->diff, &known,
				  reason, err);
	vec_clear(&known);
	return found;
}

/* What the copy `old` cannot show any more cannot be lost; but the old one is not blamed
 * for anything else. */
static int list_held_tips(const struct git_work *work, const struct repo *old,
			  const oid_list *tips, oid_list *held, struct err *err)
{
	if (objects_present(work, old, tips, held, err) == 0 || err_is_of_data(err))
		return 0;
	return err_prefix(err, "looking for commits of its own in the damaged copy");
}

int hold_lost_tips(const struct git_work *work, const struct repo *old,
		   const struct repo *new, const struct ref_snapshot *refs, char **reason,
		   struct err *err)
{
	oid_list tips = { 0 }, here = { 0 }, there = { 0 };
	char text[OID_MAX_TEXT];
	int result = 0;

	oid_list_add_tips(&tips, refs);
	if (tips.count > 0)
		result = list_held_tips(work, old, &tips, &there, err);
	if (result == 0 && there.count > 0)
		result = objects_present(work, new, &there, &here, err);
	oid_list_tidy(&here);
	for (size_t i = 0; result == 0 && i < there.count; i++) {
		if (oid_list_has(&here, &there.items[i]))
			continue;
		*reason = xasprintf("the copy is damaged and has commits that the source "
				    "lacks, e.g. %s",
				    oid_text(&there.items[i], text));
		result = 1;
	}
	vec_clear(&tips);
	vec_clear(&here);
	vec_clear(&there);
	return result;
}

void pull_signal(struct pull *pull)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	pull->woken = true;
	pthread_cond_broadcast(&pull->work);
}

void pull_wake(struct pull *pull)
{
	pull_signal(pull);
}

struct pull_settings pull_settings_now(struct pull *pull)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	return pull->settings;
}

void pull_set(struct pull *pull, const struct pull_settings *settings)
{
	lock(&pull->mutex);
	pull->settings = *settings;
	pull->hurries++;
	pthread_cond_broadcast(&pull->changed);
	unlock(&pull->mutex);
	source_set_valid(pull->source, settings->timeout_ms);
	peer_retry_rows(pull);
}

void pull_look(struct pull *pull, struct pull_state *state)
{
	lock(&pull->mutex);
	*state = pull->state;
	state->is_comparing = pull->compared < pull->asked;
	state->heard_boot = pull->news.heard_at;
	state->news_void = pull->news.is_void;
	unlock(&pull->mutex);
	state->has_looked = copy_watch_has_looked(pull->copy_watch) &&
			    blob_copy_watch_has_looked(pull->blob_copy_watch);
	if (pull->options.primary)
		state->primary_wait_ms = primary_wait_ms(pull->options.primary);
	if (pull->history)
		history_look(pull->history, &state->copies);
}

#define LEASE_PATIENCE_MS ((int64_t)3600 * 1000)
#define LEASE_RETRY_MS 5000
#define NODE_DIGEST_BYTES 8

/* Nodes of one site share the server that keeps their leases, but each has rows of its
 * own: what is done once is done once for the rows of a data directory. */
static char *site_lease_text(const struct store *store, const char *name)
{
	const char *node = store_node(store);
	AUTO_STR struct str text = STR_INIT;

	str_addf(&text, "site:%s:", name);
	hash_add_hex(HASH_SHA256, node, strlen(node), NODE_DIGEST_BYTES, &text);
	return str_take(&text);
}

bool site_lease_hold(struct pull *pull, const char *name, struct lease **lease)
{
	AUTO_FREE char *text = site_lease_text(pull->options.store, name);
	char key[LEASE_KEY_SIZE];
	struct err err;

	if (*lease && lease_check(*lease, &err) == 0)
		return !stop_is_requested(&pull->stop);
	lease_release(TAKE(*lease));
	lease_key_of_site(pull->options.leases, text, key);
	while (!stop_is_requested(&pull->stop)) {
		if (lease_acquire(pull->options.leases,
				  &(struct lease_request){ .key = key,
							   .operation = name,
							   .wait_ms = LEASE_PATIENCE_MS,
							   .is_kept = true,
							   .stop = &pull->stop },
				  lease, &err) == 0)
			return true;
		if (err.class == ERR_LOCK_TIMEOUT || err.class == ERR_CANCELED)
			continue;
		log_error("pull.no_lease", LOG_ERR(&err), LOG_TEXT("lease_key", key));
		stop_wait(&pull->stop, LEASE_RETRY_MS);
	}
	return false;
}

uint64_t comparison_ask(struct pull *pull)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	pull->asked++;
	pthread_cond_broadcast(&pull->changed);
	return pull->asked;
}

bool comparison_wait(struct pull *pull, uint64_t number, int64_t ms)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);
	int64_t until = clock_boot_ms() + ms;

	while (!pull->stopping && pull->compared < number)
		if (!cond_wait_until(&pull->changed, &pull->mutex, until))
			break;
	return pull->compared >= number;
}

void names_record(struct pull *pull)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	map_clear(&pull->touched);
	pull->records_names = true;
}

void names_forget(struct pull *pull)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	map_clear(&pull->touched);
	pull->records_names = false;
}

void names_touch(struct pull *pull, const char *kind, const char *name)
{
	AUTO_FREE char *key = xasprintf("%s:%s", kind, name);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	if (pull->records_names)
		map_put(&pull->touched, key, pull);
}

bool names_has(struct pull *pull, const char *kind, const char *name)
{
	AUTO_FREE char *key = xasprintf("%s:%s", kind, name);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	return map_get(&pull->touched, key) != NULL;
}

int pull_check_root(const struct pull *pull, const char *type, struct err *err)
{
	const struct kind *kind = kinds_find(pull->options.here, type);

	if (!kind)
		return err_set(err, ERR_MISSING, "this site has no kind %s", type);
	return kind->path ? copies_root_check(pull->options.store, type, kind->path, err)
			  : 0;
}

int pull_check_copy(const struct pull *pull, const char *type, const char *name,
		    struct err *err)
{
	const struct kind *kind = kinds_find(pull->options.here, type);

	return kind && kind->path ? copies_root_check_copy(pull->options.store, type,
							   kind->path, name, err)
				  : pull_check_root(pull, type, err);
}

int pull_check_place(const struct pull *pull, const char *type, const char *name,
		     struct err *err)
{
	const struct kind *kind = kinds_find(pull->options.here, type);

	return kind && kind->path ? copies_root_check_place(pull->options.store, type,
							    kind->path, name, err)
				  : pull_check_root(pull, type, err);
}

int pull_open_copies(const struct pull *pull, const char *type)
{
	const struct kind *kind = kinds_find(pull->options.here, type);

	if (!kind || !kind->path || pull_check_place(pull, type, NULL, ERR_IGNORED) != 0)
		return -1;
	return dir_open(AT_FDCWD, kind->path, ERR_IGNORED);
}

void pull_copy_changed(struct pull *pull, const char *name)
{
	copy_watch_report(pull->copy_watch, name);
}

static void pull_free(struct pull *pull)
{
	copy_watch_free(pull->copy_watch);
	blob_copy_watch_free(pull->blob_copy_watch);
	maintainer_free(pull->maintainer);
	history_free(pull->history);
	if (!pull->options.once)
		source_free(pull->source);
	doubts_clear(pull);
	map_clear(&pull->touched);
	map_clear(&pull->unknown_kinds);
	map_clear(&pull->reverified);
	map_clear(&pull->too_large);
	vec_clear(&pull->given_back);
	stop_clear(&pull->stop);
	stop_clear(&pull->kill);
	pthread_cond_destroy(&pull->work);
	pthread_cond_destroy(&pull->told);
	pthread_cond_destroy(&pull->changed);
	pthread_mutex_destroy(&pull->mutex);
	free(pull);
}

static struct pull *pull_new(const struct pull_options *options)
{
	struct pull *pull = xcalloc(1, sizeof(*pull));

	mutex_init(&pull->mutex);
	cond_init(&pull->work);
	cond_init(&pull->told);
	cond_init(&pull->changed);
	stop_init(&pull->stop);
	stop_init(&pull->kill);
	pull->options = *options;
	pull->settings = options->settings;
	news_set_fresh_for(pull, options->fresh_for_ms);
	if (!options->once)
		pull->history = history_new(HISTORY_KEPT);
	if (options->once)
		pull->source = options->once->source;
	else if (options->mirrors)
		pull->source = source_new_upstreams(
			&(struct upstream_call){ .mirrors = options->mirrors }, false);
	else if (options->primary)
		pull->source = source_new_primary(
			options->primary, options->settings.timeout_ms, &pull->kill);
	return pull;
}

struct history *pull_history(struct pull *pull)
{
	return pull->history;
}

uint64_t pull_capacity(const struct pull_settings *settings, enum pull_workers workers)
{
	return workers == PULL_BLOB_WORKERS ? settings->blob_capacity
					    : settings->repository_capacity;
}

static size_t threads_of(uint64_t capacity)
{
	return capacity > 0 ? (size_t)capacity : 1;
}

static void start_pools(struct pull *pull)
{
	static const char *const names[PULL_WORKERS] = {
		[PULL_SYNC_WORKERS] = "sync", [PULL_BLOB_WORKERS] = "blob"
	};
	const struct pull_settings *settings = &pull->options.settings;
	const struct kind *kind = NULL;

	while ((kind = kinds_next_copied(pull->options.here, kind)) != NULL) {
		enum pull_workers workers = kind->copies->workers;
		if (!pull->pools[workers])
			pull->pools[workers] =
				pool_start(names[workers],
					   threads_of(pull_capacity(settings, workers)));
	}
	if (!pull->options.once)
		pull->verify_pool =
			pool_start("verify", threads_of(settings->verification_capacity));
}

int64_t pull_now_ms(struct pull *pull)
{
	return pull->options.primary ? primary_now_ms(pull->options.primary)
				     : clock_wall_ms();
}

static bool follows(const struct pull *pull)
{
	return !pull->options.once && pull->options.primary;
}

/* What a secondary has. */
static void start_following(struct pull *pull)
{
	bring_packs_begin_metrics();
	pull->copy_watch = copy_watch_start(pull);
	pull->blob_copy_watch = blob_copy_watch_start(pull, 0);
	thread_start(&pull->consistency_thread, "consistency", consistency_run, pull);
	thread_start(&pull->cursor_thread, "log-cursor", log_cursor_run, pull);
}

static int open_roots(const struct pull_options *options, struct err *err)
{
	const struct kind *kind = NULL;

	if (registry_reset_started(options->store, options->settings.reverify_ms, err) !=
	    0)
		return -1;
	while ((kind = kinds_next_copied(options->here, kind)) != NULL) {
		int result = kind->path ? copies_root_open(options->store, kind->type,
							   kind->path, err)
					: 0;
		if (result != 0 && kind->copies->is_needed)
			return -1;
		if (result != 0)
			log_error("root.failed", LOG_ERR(err),
				  LOG_TEXT("remedy", err->remedy));
		else if (kind->copies->begin)
			kind->copies->begin(options, kind);
	}
	return 0;
}

int pull_start(const struct pull_options *options, struct pull **pull, struct err *err)
{
	struct pull *started;

	if (open_roots(options, err) != 0)
		return -1;
	started = pull_new(options);
	start_pools(started);
	pull_job_begin_metrics(options->here);
	if (!options->once)
		started->maintainer = maintainer_start(started);
	if (follows(started))
		start_following(started);
	thread_start(&started->scheduler_thread, "scheduler", scheduler_run, started);
	*pull = started;
	return 0;
}

bool pull_is_bringing_locked(const struct pull *pull)
{
	for (size_t i = 0; i < PULL_WORKERS; i++)
		if (pull->state.bringing[i] > 0)
			return true;
	return false;
}

static void wait_for_jobs(struct pull *pull, int64_t grace_ms)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);
	int64_t until = clock_boot_ms() + grace_ms;

	while (pull_is_bringing_locked(pull) || pull->state.verifying > 0)
		if (!cond_wait_until(&pull->work, &pull->mutex, until))
			return;
}

static void leave_loops(struct pull *pull)
{
	lock(&pull->mutex);
	pull->stopping = true;
	pthread_cond_broadcast(&pull->work);
	pthread_cond_broadcast(&pull->changed);
	unlock(&pull->mutex);
	stop_request(&pull->stop);
	thread_join(pull->scheduler_thread);
}

void pull_stop(struct pull *pull, int64_t grace_ms)
{
	if (!pull)
		return;
	leave_loops(
		pull); /* also what reads a copy that was touched, which may be large */
	copy_watch_stop(pull->copy_watch); /* workers still tell it */
	blob_copy_watch_stop(pull->blob_copy_watch);
	maintainer_stop(pull->maintainer);
	wait_for_jobs(pull, grace_ms);
	stop_request(&pull->kill);
	for (size_t i = 0; i < PULL_WORKERS; i++)
		pool_stop(pull->pools[i], pull_job_forget);
	pool_stop(pull->verify_pool, pull_job_forget);
	if (follows(pull)) {
		thread_join(pull->cursor_thread);
		thread_join(pull->consistency_thread);
	}
	pull_free(pull);
}

static char *pull_skipped_key(const char *type)
{
	return xasprintf(PULL_SKIPPED ".%s", type);
}

int pull_skipped_read(struct store *store, const char *type, struct scan_record *skipped,
		      struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_FREE char *key = pull_skipped_key(type);
	int found = site_value_read(store, key, &text, err);
	char *rest = text.data;

	*skipped = (struct scan_record){ 0 };
	if (found <= 0)
		return found;
	skipped->left_out = strtoll(text.data, &rest, 10);
	snprintf(skipped->example, sizeof(skipped->example), "%s",
		 *rest == ' ' ? rest + 1 : rest);
	return 0;
}

int pull_skipped_write(struct store_tx *tx, const char *type,
		       const struct scan_record *skipped, struct err *err)
{
	AUTO_FREE char *key = pull_skipped_key(type);
	AUTO_FREE char *text =
		xasprintf("%" PRId64 " %s", skipped->left_out, skipped->example);

	return skipped->left_out > 0 ? site_value_set(tx, key, text, err)
				     : site_value_remove(tx, key, err);
}
