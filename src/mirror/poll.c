#include "mirror/poll.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/retry.h"
#include "git/checksum.h"
#include "git/cuts.h"
#include "job/pool.h"
#include "mirror/checked.h"
#include "mirror/checkouts.h"
#include "mirror/lfs_lack.h"
#include "mirror/listed.h"
#include "mirror/requests.h"
#include "mirror/silent_hosts.h"
#include "mirror/upstream.h"
#include "replicable/name.h"
#include "replicable/registry.h"

#define ASKERS 8
#define KEEPERS 1 /* of working trees: each takes all of a disk */
#define LOOKERS 4 /* at clones of which lists have told: all of a list at once */
#define TIMEOUT_MS 60000
#define FIRST_MOST_MS 30000 /* after a start the upstreams are asked within this time */
#define REQUESTS_MS 2000    /* requests that are to be tried again are looked for */
#define WRITE_MS 10000      /* when upstreams were asked is written */
#define EXPIRE_MS 3600000   /* requests that ended long ago are removed */
#define AT_WORK_MS 1000     /* whether a job has ended is looked at */
#define AT_WORK (-1)
#define LATER_MS 60000 /* a silent host's other mirrors wait so long */
#define LATER (-2)     /* or the database fails */
#define HURRY_MS 1000  /* between two questions, however much news there is */
#define BRANCHES "refs/heads/"

/* Of one mirror as long as that is there. */
struct mirror_polled {
	struct mirror_poll *poll;
	const struct mirror *mirror;
	/* Guarded by the mutex. */
	int64_t next_at;     /* boot ms, as the next */
	int64_t asked_at;    /* 0: never */
	int64_t rests_until; /* boot ms; so the upstream demands */
	int64_t checked_at;  /* wall ms, not written yet; 0: it is */
	bool is_asked;
	bool is_hurried; /* by news that no question was asked after yet */
	bool is_urgent;  /* the question under way is asked after such news */
	char *told;      /* by its list, of the upstream's refs; owned, or NULL */
	char *equal;     /* the same of what was found equal last; owned, or NULL */
	char checksum[CHECKSUM_TEXT_SIZE]; /* of the copy that was found so */
	char *credentials; /* their stamp at the last look; owned; the asker's alone */
	/* Of the refs that a job was asked to bring, and when one had succeeded before;
	 * likewise. */
	char seen[CHECKSUM_TEXT_SIZE];
	int64_t seen_after;
	bool is_by_list;   /* checked_at is so because a list told what is equal */
	int64_t told_at;   /* wall ms, when a list told so last */
	bool is_looked_at; /* its clone, after that, or waits for it */
	bool is_kept;      /* its working tree is being looked after, or waits for that */
	/* Of the question under way, or the last: by which the answer that was found
	 * equal last is known again, and the checksum of what it was equal to. */
	struct upstream_tag tag;
	char tagged[CHECKSUM_TEXT_SIZE];
};

typedef VEC(struct mirror_polled *) mirror_polled_list;

struct mirror_poll {
	struct mirror_poll_options options; /* the timeout guarded by the mutex */
	pthread_mutex_t mutex; /* under it only the pools' are taken, by pool_submit() */
	pthread_cond_t changed;
	struct stop stop;
	int64_t started_at; /* wall ms */
	struct pool *askers, *keepers, *lookers;
	struct silent_hosts *hosts;
	pthread_t thread;
	/* Guarded by the mutex. Owned; of mirrors that are there no more, too, as long as
	 * a question may be under way. */
	mirror_polled_list polled; /* in byte order of their names */
	mirror_polled_list former;
	bool stopping, is_changed;     /* lists have told of others */
	VEC(struct http_line) resting; /* connections */
	int64_t requests_at;           /* boot ms, as the other; guarded by the mutex */
	int64_t write_at, expire_at;   /* of the thread alone */
};

int64_t mirror_random_ms(int64_t most)
{
	return most > 0 ? random_between(0, most - 1) : 0;
}

int64_t mirror_jitter_ms(int64_t interval_ms)
{
	int64_t tenth = interval_ms / 10;

	return interval_ms - tenth + mirror_random_ms(2 * tenth + 1);
}

static struct http_line mirror_poll_take_line(struct mirror_poll *poll)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&poll->mutex);

	return poll->resting.count > 0 ? poll->resting.items[--poll->resting.count]
				       : http_line_open();
}

static void mirror_poll_rest_line(struct mirror_poll *poll, struct http_line line)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&poll->mutex);

	vec_add(&poll->resting, line);
}

/* False: that could not be written. */
static bool mirror_poll_have_brought(struct mirror_poll *poll,
				     const struct mirror *mirror)
{
	struct err err;

	if (mirror_requests_want_row(poll->options.store, mirror->name, &err) != 0) {
		log_error("registry.failed", LOG_ERR(&err));
		return false;
	}
	poll->options.wake(poll->options.arg);
	return true;
}

static struct metric *mirror_polls(void)
{
	return metric_counter("refrelay_mirror_polls_total",
			      "Upstreams asked for their refs.", "state");
}

static void mirror_poll_count(const char *result)
{
	metric_add(metric_at(mirror_polls(), result), 1);
}

/* An upstream does not tell where a depth cuts its history: where the clone is cut stands
 * for that, as long as it was brought by the same depth. */
static bool mirror_poll_read_cuts(const struct mirror_polled *one,
				  struct ref_snapshot *refs, size_t oid_len)
{
	AUTO_FREE char *path = name_to_copy(one->poll->options.root, one->mirror->name);
	AUTO_CLOSE int clone = dir_open(AT_FDCWD, path, ERR_IGNORED);

	refs->cuts.count = 0;
	return clone < 0 || cuts_read(clone, oid_len, &refs->cuts, &refs->is_cutting,
				      ERR_IGNORED) == 0;
}

/* A tag stands for the refs that it came with as long as the row has their checksum. With
 * a depth the checksum is of more than these; and a list's word is compared with the
 * refs. */
static const struct upstream_tag *mirror_poll_find_tag(struct mirror_polled *one,
						       const struct registry_row *row)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&one->poll->mutex);

	return one->mirror->depth == 0 && row->checksum &&
			       strcmp(row->checksum, one->tagged) == 0 &&
			       (!one->told || one->equal)
		       ? &one->tag
		       : NULL;
}

static void mirror_poll_keep_tag(struct mirror_polled *one, struct upstream_view *view,
				 const struct registry_row *row)
{
	if (view->is_as_known)
		return;
	upstream_tag_clear(&one->tag);
	one->tag = view->tag;
	view->tag = (struct upstream_tag){ 0 };
	snprintf(one->tagged, sizeof(one->tagged), "%s", row->checksum);
}

/* Whether they are what was brought last, in the way in which they were. *sum: theirs;
 * "": it is not known. */
static bool mirror_poll_is_same(const struct mirror_polled *one,
				struct upstream_view *view,
				const struct registry_row *row,
				char sum[CHECKSUM_TEXT_SIZE])
{
	char timeline[UPSTREAM_TIMELINE_SIZE];
	struct checksum computed;

	*sum = '\0';
	upstream_timeline(one->mirror, timeline);
	if (view->is_as_known) {
		snprintf(sum, CHECKSUM_TEXT_SIZE, "%s", row->checksum);
	} else if (mirror_poll_read_cuts(one, &view->refs, view->oid_len)) {
		checksum_of(&view->refs, &computed);
		checksum_format(&computed, sum);
	}
	return row->checksum && strcmp(row->timeline, timeline) == 0 &&
	       strcmp(row->checksum, sum) == 0;
}

/* Another node may have brought something since, or removed it. */
static bool mirror_poll_stands(const struct mirror_polled *one, const char *checksum)
{
	const struct mirror_poll_options *options = &one->poll->options;

	return !options->stands ||
	       options->stands(options->arg, one->mirror->name, checksum);
}

static void mirror_poll_set_text(char **text, char *value)
{
	free(*text);
	*text = value;
}

static void mirror_poll_note_equal(struct mirror_polled *one,
				   const struct upstream_view *view,
				   const struct registry_row *row)
{
	const char *head = view->refs.head_target;
	char fingerprint[41];
	bool is_told;

	lock(&one->poll->mutex);
	one->checked_at = clock_wall_ms();
	one->is_by_list = false;
	is_told = one->told != NULL && !view->is_as_known;
	unlock(&one->poll->mutex);
	if (!is_told || !head || !text_starts_with(head, BRANCHES))
		return;
	checksum_grokmirror(&view->refs, fingerprint);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&one->poll->mutex);
	mirror_poll_set_text(&one->equal,
			     xasprintf("%s %s", fingerprint, head + strlen(BRANCHES)));
	snprintf(one->checksum, sizeof(one->checksum), "%s", row->checksum);
}

/* In how many ms it is asked again. Those that were not asked, as another mirror of the
 * host was told to wait, come one after the other; but news waits for the host alone. */
static int64_t mirror_poll_take_rest(struct mirror_polled *one,
				     const struct upstream_view *view,
				     const struct err *err)
{
	int64_t interval_ms = mirror_jitter_ms(one->mirror->interval_ms);
	int64_t more_ms = 0;

	if (view->is_at_rest) {
		more_ms = one->is_urgent ? 0 : mirror_random_ms(interval_ms);
	} else {
		log_warn("mirror.limited", LOG_TEXT("name", one->mirror->name),
			 LOG_ERR(err), LOG_NUMBER("wait_ms", view->retry_after_ms));
		mirror_poll_count("limited");
	}
	AUTO_UNLOCK pthread_mutex_t *held = lock(&one->poll->mutex);
	one->rests_until = clock_boot_ms() + view->retry_after_ms;
	one->is_hurried |= one->is_urgent; /* the news has no answer yet */
	return int64_max(interval_ms, view->retry_after_ms + more_ms);
}

/* Whether a job would find what it found before: then one that is held stays so, without
 * a word about it. If one has succeeded since, it is held for something else. */
static bool mirror_poll_is_as_held(const struct mirror_polled *one,
				   const struct registry_row *row, int result,
				   const char *sum)
{
	return row->held_reason &&
	       (result != 0 || (*sum && strcmp(one->seen, sum) == 0 &&
				one->seen_after == row->last_success_at));
}

/* Of the next poll, in so many ms, or LATER. */
static int64_t mirror_poll_take_answer(struct mirror_polled *one,
				       const struct registry_row *row, int result,
				       struct upstream_view *view, const struct err *err)
{
	int64_t interval_ms = mirror_jitter_ms(one->mirror->interval_ms);
	char sum[CHECKSUM_TEXT_SIZE] = "";

	if (result == 0 && mirror_poll_is_same(one, view, row, sum) &&
	    !row->held_reason && mirror_poll_stands(one, row->checksum)) {
		mirror_poll_count("unchanged");
		mirror_poll_note_equal(one, view, row);
		mirror_poll_keep_tag(one, view, row);
		return interval_ms;
	}
	if (result != 0 && err->class == ERR_CANCELED)
		return interval_ms;
	if (result != 0 && view->retry_after_ms > 0)
		return mirror_poll_take_rest(one, view, err);
	if (mirror_poll_is_as_held(one, row, result, sum)) {
		mirror_poll_count(result == 0 ? "unchanged" : "failed");
		return interval_ms;
	}
	mirror_poll_count(result == 0 ? "changed" : "failed");
	if (!mirror_poll_have_brought(one->poll, one->mirror))
		return LATER;
	memcpy(one->seen, sum, sizeof(one->seen));
	one->seen_after = row->last_success_at;
	return interval_ms;
}

/* What a job of this node has brought was asked for by it: so long there is nothing to
 * ask. A webhook knows of something newer. */
static int64_t mirror_poll_rest_ms(const struct mirror_polled *one,
				   const struct registry_row *row)
{
	int64_t age_ms = clock_wall_ms() - row->last_success_at, rest_ms;

	if (one->is_urgent || row->last_success_at < one->poll->started_at || age_ms < 0)
		return 0;
	rest_ms = mirror_jitter_ms(one->mirror->interval_ms) - age_ms;
	return rest_ms > 0 ? rest_ms : 0;
}

/* By a list, of late: then only what is here is looked after. If no list tells anything
 * for two intervals, the upstream is asked again. */
static bool mirror_poll_is_told_same(struct mirror_polled *one)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&one->poll->mutex);
	const int64_t age_ms = clock_wall_ms() - one->told_at;

	return !one->is_urgent && one->equal && one->told &&
	       strcmp(one->equal, one->told) == 0 && age_ms >= 0 &&
	       age_ms < 2 * one->mirror->interval_ms;
}

static void mirror_poll_keep_checkout(void *arg)
{
	struct mirror_polled *one = arg;
	struct mirror_poll *poll = one->poll;

	lock(&poll->mutex);
	const struct mirror_checkout_site site = poll->options.checkouts;
	unlock(&poll->mutex);
	if (!stop_is_requested(&poll->stop))
		mirror_checkout_look_after(&site, one->mirror, &poll->stop);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&poll->mutex);
	one->is_kept = false;
}

/* A large one takes minutes, in which upstreams are asked. It waits for none: what was
 * brought last can be shown. */
static void mirror_poll_look_after_checkout(struct mirror_polled *one,
					    const struct registry_row *row)
{
	struct mirror_poll *poll = one->poll;
	bool can_be = row->state == REGISTRY_SYNCED ||
		      (row->state == REGISTRY_FAILED && row->last_success_at > 0);

	if (!can_be || row->is_gone ||
	    !mirror_checkout_is_due(&poll->options.checkouts, one->mirror))
		return;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&poll->mutex);
	if (!one->is_kept)
		pool_submit(poll->keepers, mirror_poll_keep_checkout, one);
	one->is_kept = true;
}

/* Whether a credential's file is another than at the last look; at the first one, all may
 * be: the configuration was read anew. */
static bool mirror_poll_has_new_credentials(struct mirror_polled *one)
{
	char *now = credentials_stamp(one->poll->options.mirrors, one->mirror);
	bool is_other = !one->credentials || strcmp(one->credentials, now) != 0;

	mirror_poll_set_text(&one->credentials, now);
	return is_other;
}

/* A webhook tells that the upstream is there. One that wants rest gets it; and what is
 * too large is not fetched in vain for each push. */
static bool mirror_poll_is_helped_by_news(const struct registry_row *row)
{
	return row->failure_reason != REASON_RATE_LIMITED &&
	       row->failure_reason != REASON_TOO_LARGE;
}

/* Whether one that failed is to be tried before its time. What is final has none: it
 * needs another credential, another configuration, or somebody's word. */
static bool mirror_poll_is_worth_a_try(struct mirror_polled *one,
				       const struct registry_row *row)
{
	const struct mirror_poll_options *options = &one->poll->options;
	bool has_new = mirror_poll_has_new_credentials(one);

	if (row->state != REGISTRY_FAILED && row->state != REGISTRY_MISSING_ON_PRIMARY)
		return false;
	one->seen[0] = '\0'; /* its next job may read something else */
	if (one->is_urgent && mirror_poll_is_helped_by_news(row))
		return true;
	if (row->due_at == 0 && has_new)
		return true;
	return row->state == REGISTRY_FAILED &&
	       credential_was_replaced(options->marks, options->mirrors, one->mirror);
}

/* One that is being brought, or waits for that, is asked by its job; but not one that is
 * held. In how many ms it is asked again, or AT_WORK or LATER. */
static int64_t mirror_poll_ask_upstream(struct mirror_polled *one)
{
	struct mirror_poll *poll = one->poll;
	AUTO_UPSTREAM struct upstream_view view = { 0 };
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	struct http_line line;
	struct err err;
	int64_t rest_ms;
	int result;

	if (registry_get(poll->options.store, KIND_MIRROR, one->mirror->name, &row,
			 &err) != 0) {
		if (err.class == ERR_MISSING) /* it was removed */
			return mirror_jitter_ms(one->mirror->interval_ms);
		log_error("registry.failed", LOG_ERR(&err));
		return one->is_urgent ? AT_WORK : LATER;
	}
	mirror_poll_look_after_checkout(one, &row);
	if (mirror_poll_is_worth_a_try(one, &row) &&
	    !mirror_poll_have_brought(poll, one->mirror)) {
		mirror_poll_set_text(&one->credentials, NULL); /* new ones stay so */
		return LATER;
	}
	if (row.state == REGISTRY_STARTED && one->is_urgent)
		return AT_WORK; /* it may have asked before the news */
	if ((row.state != REGISTRY_SYNCED && !row.held_reason) || row.is_gone)
		return mirror_jitter_ms(one->mirror->interval_ms);
	rest_ms = mirror_poll_rest_ms(one, &row);
	if (rest_ms > 0)
		return rest_ms;
	if (!row.held_reason && mirror_poll_is_told_same(one))
		return mirror_jitter_ms(one->mirror->interval_ms);
	if (!silent_hosts_enter(poll->hosts, one->mirror))
		return LATER;
	line = mirror_poll_take_line(poll);
	result = upstream_read(
		&(struct upstream_call){ .mirrors = poll->options.mirrors,
					 .mirror = one->mirror,
					 .marks = poll->options.marks,
					 .known = mirror_poll_find_tag(one, &row),
					 .timeout_ms = TIMEOUT_MS,
					 .stop = &poll->stop,
					 .line = &line },
		&view, &err);
	silent_hosts_leave(poll->hosts, one->mirror, result,
			   view.is_at_rest ? NULL : &err);
	mirror_poll_rest_line(poll, line);
	return mirror_poll_take_answer(one, &row, result, &view, &err);
}

static void mirror_poll_place_at_locked(struct mirror_polled *one, int64_t next_at)
{
	one->next_at = next_at > one->rests_until ? next_at : one->rests_until;
}

/* At once, unless it was a moment ago: so a storm of webhooks costs the upstream little.
 */
static void mirror_poll_hurry_locked(struct mirror_polled *one)
{
	one->is_hurried = true;
	mirror_poll_place_at_locked(one,
				    one->asked_at > 0 ? one->asked_at + HURRY_MS : 0);
}

static void mirror_poll_place_locked(struct mirror_polled *one, int64_t next_ms)
{
	const bool is_put_off = next_ms == AT_WORK || next_ms == LATER;

	if (next_ms == AT_WORK)
		next_ms = AT_WORK_MS;
	else if (next_ms == LATER)
		next_ms = mirror_jitter_ms(int64_min(LATER_MS, one->mirror->interval_ms));
	one->is_asked = false;
	mirror_poll_place_at_locked(one, clock_boot_ms() + next_ms);
	if (one->is_hurried)
		mirror_poll_hurry_locked(one); /* there was news meanwhile */
	else
		one->is_hurried = is_put_off && one->is_urgent;
}

static void mirror_poll_run_one(void *arg)
{
	struct mirror_polled *one = arg;
	struct mirror_poll *poll = one->poll;
	int64_t next_ms =
		stop_is_requested(&poll->stop) ? 0 : mirror_poll_ask_upstream(one);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&poll->mutex);

	mirror_poll_place_locked(one, next_ms);
	pthread_cond_broadcast(&poll->changed);
}

/* When the next is due. */
static int64_t mirror_poll_submit_due_locked(struct mirror_poll *poll)
{
	int64_t now = clock_boot_ms(), next_at = INT64_MAX;

	for (size_t i = 0; i < poll->polled.count; i++) {
		struct mirror_polled *one = poll->polled.items[i];
		if (!one->is_asked && one->next_at <= now) {
			one->is_asked = true;
			one->asked_at = now;
			one->is_urgent = one->is_hurried;
			one->is_hurried = false;
			pool_submit(poll->askers, mirror_poll_run_one, one);
		}
		if (!one->is_asked && one->next_at < next_at)
			next_at = one->next_at;
	}
	return next_at;
}

static void mirror_poll_take_checks(struct mirror_poll *poll, mirror_checks *checks)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&poll->mutex);

	for (size_t i = 0; i < poll->polled.count; i++) {
		struct mirror_polled *one = poll->polled.items[i];
		struct mirror_check check = { .one = one,
					      .name = one->mirror->name,
					      .at = one->checked_at };
		if (one->checked_at == 0)
			continue;
		if (one->is_by_list)
			memcpy(check.checksum, one->checksum, sizeof(check.checksum));
		vec_add(checks, check);
		one->checked_at = 0;
	}
}

/* What a list tells is no longer equal to the clone: the upstream is asked, again if it
 * is being asked, since the end of that sets when the next is due. */
static void mirror_poll_ask_again_locked(struct mirror_polled *one)
{
	mirror_poll_set_text(&one->equal, NULL);
	mirror_poll_place_at_locked(one, 0);
	one->is_hurried |= one->is_asked;
}

/* What a list told is equal to a copy that was replaced since: it is asked. */
static void mirror_poll_ask_void(struct mirror_poll *poll, const mirror_checks *checks)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&poll->mutex);

	for (size_t i = 0; i < checks->count; i++) {
		struct mirror_polled *one = checks->items[i].one;
		if (checks->items[i].is_void)
			mirror_poll_ask_again_locked(one);
	}
}

/* The times of a moment, apart from those that are polled meanwhile. What a power cut
 * takes is asked again. */
static void mirror_poll_keep_checked(struct mirror_poll *poll)
{
	mirror_checks checks = { 0 };
	struct err err;

	mirror_poll_take_checks(poll, &checks);
	if (mirror_checks_write(poll->options.store, &checks, &err) != 0)
		log_error("registry.failed", LOG_ERR(&err));
	mirror_poll_ask_void(poll, &checks);
	vec_clear(&checks);
}

static void mirror_poll_look_after_requests(struct mirror_poll *poll)
{
	bool any = false, any_lacks = false;
	struct err err;

	if (mirror_requests_hurry(poll->options.store, &any, &err) != 0 ||
	    lfs_lack_hurry(poll->options.store, &any_lacks, &err) != 0)
		log_error("registry.failed", LOG_ERR(&err));
	if (any || any_lacks)
		poll->options.wake(poll->options.arg);
}

static void mirror_poll_expire_requests(struct mirror_poll *poll, int64_t now)
{
	struct err err;

	if (now < poll->expire_at)
		return;
	poll->expire_at = now + EXPIRE_MS;
	if (mirror_requests_expire(poll->options.store, &err) != 0)
		log_error("registry.failed", LOG_ERR(&err));
}

/* Whether it is time to look what others have written into the database. */
static bool mirror_poll_is_time(struct mirror_poll *poll, int64_t now)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&poll->mutex);

	if (now < poll->requests_at)
		return false;
	poll->requests_at = now + REQUESTS_MS;
	return true;
}

static void mirror_poll_wait(struct mirror_poll *poll)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&poll->mutex);
	int64_t until = mirror_poll_submit_due_locked(poll);

	until = int64_min(until, poll->requests_at);
	if (!poll->stopping)
		cond_wait_until(&poll->changed, &poll->mutex,
				int64_min(until, poll->write_at));
}

/*
 * The mirrors that there are.
 */

/* Of those that are no more, nothing is known any more. */
static int mirror_poll_write_mirrors(struct store_tx *tx, const struct mirrors *mirrors,
				     struct err *err)
{
	if (store_exec(tx, "UPDATE mirror SET interval_ms = 0", err) != 0)
		return -1;
	for (const struct mirror *mirror = NULL;
	     (mirror = mirrors_next(mirrors, mirror)) != NULL;)
		if (query_write(tx, err,
				"INSERT INTO mirror (name, interval_ms, checked_at)"
				" VALUES (?1, ?2, 0) ON CONFLICT (name)"
				" DO UPDATE SET interval_ms = ?2",
				QUERY_TEXT(mirror->name),
				QUERY_INT(mirror->interval_ms)) != 0)
			return -1;
	return store_exec(tx, "DELETE FROM mirror WHERE interval_ms = 0", err) != 0 ||
			       mirror_checkouts_forget_in(tx, err) != 0
		       ? -1
		       : lfs_lack_begin_in(tx, mirrors, err);
}

static int mirror_poll_write_none(struct store_tx *tx, void *arg, struct err *err)
{
	return mirror_poll_write_mirrors(tx, arg, err);
}

int mirror_poll_forget(struct store *store, struct err *err)
{
	struct mirrors none = { 0 };

	return listed_begin(store, &none, err) != 0
		       ? -1
		       : store_write(store, mirror_poll_write_none, &none, err);
}

static void mirror_poll_say_taken(void *arg, const struct mirror_told *one,
				  const struct mirror *by)
{
	(void)arg;
	if (!by || (by->list == one->list && strcmp(by->name, one->name) == 0)) {
		log_error("mirror.not_followed", LOG_TEXT("name", one->name),
			  LOG_TEXT("list", one->list->name),
			  LOG_TEXT("remedy", "see why that list changes so often; a new "
					     "start takes what it says"));
		return;
	}
	log_warn("mirror.name_taken", LOG_TEXT("name", one->name),
		 LOG_TEXT("list", one->list->name), LOG_TEXT("by", by->name),
		 LOG_TEXT("by_list", by->list ? by->list->name : NULL));
}

/* What lists have told of is there; rows of new ones are made. In one work: else a list
 * that is taken in between would have a row made of what it has no more. */
static int mirror_poll_load_in(struct store_tx *tx, void *arg, struct err *err)
{
	const struct mirrors *mirrors = arg;
	VEC(const char *) names = { 0 };
	int result;

	if (listed_load_in(tx, mirrors, mirror_poll_say_taken, err) != 0 ||
	    mirror_poll_write_mirrors(tx, mirrors, err) != 0)
		return -1;
	for (const struct mirror *mirror = NULL;
	     (mirror = mirrors_next(mirrors, mirror)) != NULL;)
		vec_add(&names, mirror->name);
	result = registry_add_in(tx, KIND_MIRROR, names.items, names.count, err);
	vec_clear(&names);
	return result;
}

static int mirror_poll_load(const struct mirror_poll_options *options, struct err *err)
{
	struct mirrors written = *options->mirrors; /* a work's argument is not const */

	return store_write(options->store, mirror_poll_load_in, &written, err);
}

static int mirror_poll_want_row(struct store_tx *tx, const struct registry_row *row,
				void *arg, struct err *err)
{
	const struct mirrors *mirrors = arg;
	const struct registry_move asked = { .event = REGISTRY_ASKED,
					     .changed_at = clock_wall_ms() };

	return mirrors_find(mirrors, row->name)
		       ? registry_ask_in(tx, KIND_MIRROR, row->name, &asked, err)
		       : 0;
}

/* What was to be removed may have a section by now. */
static int mirror_poll_want_again(struct store_tx *tx, void *arg, struct err *err)
{
	const struct registry_filter gone = { .kind = KIND_MIRROR,
					      .state = REGISTRY_ANY,
					      .gone_only = true };

	return registry_each_in(tx, &gone, mirror_poll_want_row, arg, err);
}

static int mirror_poll_begin(const struct mirror_poll_options *options, struct err *err)
{
	struct mirrors read = *options->mirrors; /* a work's argument is not const */

	if (mirror_requests_reset(options->store, err) != 0 ||
	    listed_begin(options->store, options->mirrors, err) != 0 ||
	    mirror_poll_load(options, err) != 0)
		return -1;
	return store_write(options->store, mirror_poll_want_again, &read, err);
}

static struct mirror_polled *mirror_polled_new(struct mirror_poll *poll,
					       const struct mirror *mirror)
{
	struct mirror_polled *one = xcalloc(1, sizeof(*one));
	int64_t first_ms = int64_min(mirror->interval_ms, FIRST_MOST_MS);

	*one = (struct mirror_polled){
		.poll = poll,
		.mirror = mirror,
		.next_at = clock_boot_ms() + mirror_random_ms(first_ms),
	};
	return one;
}

static void mirror_polled_free(struct mirror_polled *one)
{
	free(one->told);
	free(one->equal);
	upstream_tag_clear(&one->tag);
	free(one->credentials);
	free(one);
}

/* Those that no other thread has. */
static void mirror_poll_free_former_locked(struct mirror_poll *poll)
{
	size_t kept = 0;

	for (size_t i = 0; i < poll->former.count; i++) {
		struct mirror_polled *one = poll->former.items[i];
		if (one->is_asked || one->is_kept || one->is_looked_at)
			poll->former.items[kept++] = one;
		else
			mirror_polled_free(one);
	}
	poll->former.count = kept;
}

static int mirror_polled_order(const void *name, const void *one)
{
	const struct mirror_polled *const *polled = one;

	return strcmp(name, (*polled)->mirror->name);
}

/* NULL: it is not polled (any more). */
static struct mirror_polled *mirror_poll_find_locked(struct mirror_poll *poll,
						     const char *name)
{
	struct mirror_polled **found =
		poll->polled.count == 0
			? NULL
			: bsearch(name, poll->polled.items, poll->polled.count,
				  sizeof(*poll->polled.items), mirror_polled_order);

	return found ? *found : NULL;
}

/* Another mirror of the same name, as of another URL, is polled anew. */
static void mirror_poll_follow(struct mirror_poll *poll)
{
	VEC(const struct mirror *) mirrors = { 0 };
	mirror_polled_list before, now = { 0 };

	for (const struct mirror *mirror = NULL;
	     (mirror = mirrors_next(poll->options.mirrors, mirror)) != NULL;)
		vec_add(&mirrors, mirror);
	lock(&poll->mutex);
	mirror_poll_free_former_locked(poll);
	for (size_t i = 0; i < mirrors.count; i++) {
		const struct mirror *mirror = mirrors.items[i];
		struct mirror_polled *one = mirror_poll_find_locked(poll, mirror->name);
		if (!one || one->mirror != mirror)
			one = mirror_polled_new(poll, mirror);
		vec_add(&now, one);
	}
	before = poll->polled;
	poll->polled = now;
	for (size_t i = 0; i < before.count; i++) {
		const char *name = before.items[i]->mirror->name;
		if (mirror_poll_find_locked(poll, name) != before.items[i])
			vec_add(&poll->former, before.items[i]);
	}
	unlock(&poll->mutex);
	vec_clear(&before);
	vec_clear(&mirrors);
}

/* After an error it is tried again with the next look for requests. */
static void mirror_poll_look_after_lists(struct mirror_poll *poll)
{
	struct err err;
	bool is_changed;

	lock(&poll->mutex);
	is_changed = poll->is_changed;
	poll->is_changed = false;
	unlock(&poll->mutex);
	if (!is_changed)
		return;
	if (mirror_poll_load(&poll->options, &err) != 0) {
		log_error("registry.failed", LOG_ERR(&err));
		AUTO_UNLOCK pthread_mutex_t *held = lock(&poll->mutex);
		poll->is_changed = true;
		return;
	}
	mirror_poll_follow(poll);
	poll->options.wake(poll->options.arg);
}

/* A list tells of the upstream alone. So each time that it says that nothing is new, the
 * clone is looked at as after a question, and only then counts as checked. Apart from
 * those who ask: there may be tens of thousands, on a slow file server. */
static void mirror_poll_look(void *arg)
{
	struct mirror_polled *one = arg;
	struct mirror_poll *poll = one->poll;
	char checksum[CHECKSUM_TEXT_SIZE];
	bool stands;

	lock(&poll->mutex);
	memcpy(checksum, one->checksum, sizeof(checksum));
	unlock(&poll->mutex);
	stands = mirror_poll_stands(one, checksum);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&poll->mutex);
	one->is_looked_at = false;
	if (!one->equal || strcmp(one->checksum, checksum) != 0)
		return; /* asked meanwhile */
	if (stands) {
		one->checked_at = one->told_at;
		one->is_by_list = true;
	} else {
		mirror_poll_ask_again_locked(one);
	}
}

void mirror_poll_tell(struct mirror_poll *poll, const char *name, const char *fingerprint,
		      const char *branch)
{
	AUTO_FREE char *told = xasprintf("%s %s", fingerprint, branch);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&poll->mutex);
	struct mirror_polled *one = mirror_poll_find_locked(poll, name);

	if (!one)
		return;
	if (one->equal && strcmp(one->equal, told) == 0) {
		mirror_poll_count("told");
		one->told_at = clock_wall_ms();
		if (!one->is_looked_at)
			pool_submit(poll->lookers, mirror_poll_look, one);
		one->is_looked_at = true;
	} else if (one->told && strcmp(one->told, told) != 0) {
		mirror_poll_hurry_locked(one);
		pthread_cond_broadcast(&poll->changed);
	}
	mirror_poll_set_text(&one->told, TAKE(told));
}

void mirror_poll_reload(struct mirror_poll *poll)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&poll->mutex);

	poll->is_changed = true;
	poll->requests_at = 0;
	pthread_cond_broadcast(&poll->changed);
}

/*
 * From the start to the stop.
 */

static void *mirror_poll_run(void *arg)
{
	struct mirror_poll *poll = arg;

	while (!stop_is_requested(&poll->stop)) {
		int64_t now = clock_boot_ms();
		if (mirror_poll_is_time(poll, now)) {
			mirror_poll_look_after_lists(poll);
			mirror_poll_look_after_requests(poll);
			mirror_poll_expire_requests(poll, now);
		}
		if (now >= poll->write_at) {
			mirror_poll_keep_checked(poll);
			poll->write_at = now + WRITE_MS;
		}
		mirror_poll_wait(poll);
	}
	return NULL;
}

int mirror_poll_start(const struct mirror_poll_options *options,
		      struct mirror_poll **poll, struct err *err)
{
	struct mirror_poll *started;

	if (mirror_poll_begin(options, err) != 0)
		return -1;
	started = xcalloc(1, sizeof(*started));
	started->options = *options;
	started->started_at = clock_wall_ms();
	metric_begin(mirror_polls(),
		     METRIC_LIST("unchanged", "changed", "limited", "failed", "told"),
		     NULL);
	mutex_init(&started->mutex);
	cond_init(&started->changed);
	stop_init(&started->stop);
	started->hosts = silent_hosts_new();
	started->write_at = clock_boot_ms() + WRITE_MS;
	mirror_poll_follow(started);
	started->askers = pool_start("mirror", ASKERS);
	started->keepers = pool_start("checkout", KEEPERS);
	started->lookers = pool_start("mirror-look", LOOKERS);
	thread_start(&started->thread, "mirror-poll", mirror_poll_run, started);
	*poll = started;
	options->wake(options->arg); /* of new rows, and of requests that wait again */
	return 0;
}

static void mirror_polled_list_clear(mirror_polled_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		mirror_polled_free(list->items[i]);
	vec_clear(list);
}

void mirror_poll_stop(struct mirror_poll *poll)
{
	if (!poll)
		return;
	lock(&poll->mutex);
	poll->stopping = true;
	pthread_cond_broadcast(&poll->changed);
	unlock(&poll->mutex);
	stop_request(&poll->stop);
	thread_join(poll->thread);
	pool_stop(poll->askers, NULL);
	pool_stop(poll->keepers, NULL);
	pool_stop(poll->lookers, NULL);
	mirror_poll_keep_checked(poll);
	vec_clear_each(&poll->resting, http_line_close);
	mirror_polled_list_clear(&poll->polled);
	mirror_polled_list_clear(&poll->former);
	silent_hosts_free(poll->hosts);
	stop_clear(&poll->stop);
	pthread_cond_destroy(&poll->changed);
	pthread_mutex_destroy(&poll->mutex);
	free(poll);
}

void mirror_poll_set_timeout(struct mirror_poll *poll, int64_t timeout_ms)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&poll->mutex);

	poll->options.checkouts.timeout_ms = timeout_ms;
}

void mirror_poll_hurry(struct mirror_poll *poll, const struct mirror *mirror)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&poll->mutex);
	struct mirror_polled *one = mirror_poll_find_locked(poll, mirror->name);

	if (!one)
		return; /* it went this moment */
	mirror_poll_hurry_locked(one);
	pthread_cond_broadcast(&poll->changed);
}
