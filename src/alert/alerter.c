/*
 * One thread gathers what is known, judges it for each alert, and hands those that have
 * something to tell to a pool; so a receiver that hangs holds up no other, and no
 * heartbeat. While an alert is with its worker the thread leaves it alone: its state
 * belongs to one of them at a time.
 *
 * A message is told at least once: what it told is written down after it was taken. It is
 * not told again after a restart but if the node died in between.
 */
#include "alert/alerter.h"

#include "alert/send.h"
#include "alert/store.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/retry.h"
#include "base/thread.h"
#include "job/pool.h"

#define WORKERS_MOST 33
#define LOOK_MS 10000 /* between two looks, at most */
#define LOOK_LEAST_MS 250
#define LOOK_SHARE 20 /* a look rests this many times as long as it took */
#define LOOK_REST_MOST_MS 300000
#define RETRY_FIRST_MS 1000
#define RETRY_LAST_MS 300000
#define KEEP_MS 60000 /* texts that changed are written down so often */
#define PEERS_MS (INT64_C(6) * 3600 * 1000)
#define PEERS_AGAIN_MS 600000 /* while some have not answered */

struct alerter_one {
	struct alerter *alerter;
	const struct alert *alert;
	/* Its worker's while is_busy, else the thread's. */
	struct alert_state state;
	struct alert_sending sending;
	int64_t next_at; /* boot ms: no message before */
	int64_t kept_at; /* boot ms: it was written down */
	bool is_owed;    /* it could not be */
	int64_t beat_at; /* boot ms: the next heartbeat */
	/* The thread's. */
	int64_t looked_at; /* boot ms: the last look in which it was judged */
	bool has_missed;   /* a worker had it during the last look */
	/* Guarded by the mutex. */
	bool is_busy, is_beating;
	/* What the last heartbeat came to; the thread takes it. */
	bool has_beat;
	struct err beat; /* ERR_NONE: it was taken */
	int64_t beat_wall;
};

struct alerter {
	pthread_mutex_t mutex; /* the last; nothing is done under it */
	pthread_cond_t changed;
	/* Guarded by mutex. */
	bool is_ending;
	bool has_news;         /* for the thread: a message was sent, or not */
	bool is_asking;        /* peers, by a worker */
	alert_endings endings; /* of peers, in their order */
	int64_t ask_at;        /* boot ms: peers are asked next */
	/* Fixed. */
	struct stop stop;
	struct pool *pool;
	pthread_t thread;
	struct alerts alerts;
	alert_peers peers;
	alert_endings own; /* what of this site's own expires */
	const char *site, *role;
	struct alert_sources sources;
	VEC(struct alerter_one) all;
	/* The thread's. */
	bool is_readable; /* the last look could read the database */
	int64_t look_at;  /* boot ms: the next look */
};

static void alerter_count(const char *result, double by)
{
	struct metric *sent = metric_counter("refrelay_alert_messages_total",
					     "Messages of alerts.", "state");

	metric_add(metric_at(sent, result), by);
}

static void alerter_keep(struct alerter_one *one)
{
	struct err err;
	const bool was_owed = one->is_owed;

	one->kept_at = clock_boot_ms();
	one->is_owed = alert_store_write(one->alerter->sources.store, one->alert->name,
					 &one->state, &one->sending, &err) != 0;
	if (one->is_owed && !was_owed && err.class != ERR_CANCELED)
		log_warn("alert.not_kept", LOG_TEXT("alert", one->alert->name),
			 LOG_ERR(&err), LOG_TEXT("remedy", err.remedy));
}

/*
 * Workers.
 */

static int64_t alerter_retry_ms(int64_t failures, int64_t rest_ms)
{
	return int64_max(rest_ms, retry_doubled_ms((uint64_t)failures, RETRY_FIRST_MS,
						   RETRY_LAST_MS));
}

static void alerter_note_failure(struct alerter_one *one, int64_t rest_ms,
				 const struct err *why)
{
	struct alert_sending *sending = &one->sending;

	if (why->class == ERR_CANCELED)
		return;
	sending->failed_at = clock_wall_ms();
	if (sending->failing_since == 0)
		sending->failing_since = sending->failed_at;
	sending->failures++;
	sending->why = *why;
	const int64_t wait_ms = alerter_retry_ms(sending->failures, rest_ms);
	one->next_at = clock_boot_ms() + wait_ms;
	alerter_count("failed", 1);
	log_at(err_is_transient(why->class) ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR,
	       "alert.not_sent", LOG_TEXT("alert", one->alert->name), LOG_ERR(why),
	       LOG_NUMBER("retry_in_ms", wait_ms), LOG_TEXT("remedy", why->remedy));
}

static void alerter_note_success(struct alerter_one *one,
				 const struct alert_message *message,
				 const struct alert_answer *answer)
{
	AUTO_STR struct str title = STR_INIT;

	alert_message_title(message, &title);
	alert_state_told(&one->state, one->alert, message->at, ALERT_MESSAGE_MOST);
	one->sending.sent_at = message->at;
	one->sending.failing_since = 0;
	one->sending.failures = 0;
	one->sending.why = (struct err){ 0 };
	one->next_at = clock_boot_ms() + one->alert->settle_ms;
	alerter_count("sent", 1);
	log_info("alert.sent", LOG_TEXT("alert", one->alert->name),
		 LOG_TEXT("title", title.data), LOG_TEXT("answer", answer->text));
}

static void alerter_send(struct alerter_one *one)
{
	const struct alerter *alerter = one->alerter;
	const struct alert_message message = { .alert = one->alert->name,
					       .site = alerter->site,
					       .role = alerter->role,
					       .at = clock_wall_ms(),
					       .state = &one->state,
					       .settings = one->alert };
	struct alert_answer answer;
	struct err err;

	failpoint("alert.sends");
	if (alert_send(one->alert, &message, &alerter->stop, &answer, &err) == 0) {
		failpoint("alert.sent");
		alerter_note_success(one, &message, &answer);
	} else {
		alerter_note_failure(one, answer.rest_ms, &err);
	}
	alerter_keep(one);
}

/* pool_work */
static void alerter_work_send(void *arg)
{
	struct alerter_one *one = arg;
	struct alerter *alerter = one->alerter;

	if (!stop_is_requested(&alerter->stop))
		alerter_send(one);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&alerter->mutex);
	one->is_busy = false;
	alerter->has_news = true;
	pthread_cond_broadcast(&alerter->changed);
}

/* pool_work */
static void alerter_work_beat(void *arg)
{
	struct alerter_one *one = arg;
	struct alerter *alerter = one->alerter;
	struct alert_answer answer;
	struct err err = { 0 };
	const bool is_done =
		!stop_is_requested(&alerter->stop) &&
		(alert_beat(one->alert, &alerter->stop, &answer, &err) == 0 ||
		 err.class != ERR_CANCELED);

	AUTO_UNLOCK pthread_mutex_t *held = lock(&alerter->mutex);
	one->is_beating = false;
	one->has_beat = is_done;
	one->beat = err;
	one->beat_wall = clock_wall_ms();
	pthread_cond_broadcast(&alerter->changed);
}

/* pool_work */
static void alerter_work_ask(void *arg)
{
	struct alerter *alerter = arg;
	AUTO_FREE int64_t *at_ms = xcalloc(alerter->peers.count, sizeof(*at_ms));
	const bool is_whole = alert_peers_ask(&alerter->peers, &alerter->stop, at_ms);

	AUTO_UNLOCK pthread_mutex_t *held = lock(&alerter->mutex);
	/* What one said before still counts while it cannot be asked. */
	for (size_t i = 0; i < alerter->peers.count; i++)
		if (at_ms[i] > 0)
			alerter->endings.items[i].at_ms = at_ms[i];
	alerter->is_asking = false;
	alerter->ask_at = clock_boot_ms() + (is_whole ? PEERS_MS : PEERS_AGAIN_MS);
	pthread_cond_broadcast(&alerter->changed);
}

/*
 * The thread.
 */

static void alerter_log_news(const struct alerter_one *one)
{
	for (size_t i = 0; i < one->state.entries.count; i++) {
		const struct alert_entry *entry = &one->state.entries.items[i];
		const char *kind = alert_kind_name(entry->kind);
		if (entry->news == ALERT_BEGAN)
			log_warn("alert.began", LOG_TEXT("alert", one->alert->name),
				 LOG_TEXT("kind", kind),
				 LOG_TEXT("subject", entry->subject),
				 LOG_TEXT("message", entry->text),
				 LOG_TEXT("remedy", entry->remedy));
		else if (entry->news == ALERT_ENDED)
			log_info("alert.ended", LOG_TEXT("alert", one->alert->name),
				 LOG_TEXT("kind", kind),
				 LOG_TEXT("subject", entry->subject));
	}
}

/* Without a way to send there is nobody to be told. */
static bool alerter_sends(const struct alerter_one *one)
{
	return strcmp(alert_way(one->alert), "none") != 0;
}

static bool alerter_judge(struct alerter_one *one, const struct alert_facts *facts)
{
	AUTO_TROUBLES alert_troubles troubles = { 0 };
	const int64_t now = clock_boot_ms();

	alert_rules(facts, one->alert, &troubles);
	const bool is_changed = alert_state_take(&one->state, &troubles, facts->report,
						 one->alert, facts->now);
	alerter_log_news(one);
	if (is_changed || one->is_owed ||
	    (one->state.entries.count > 0 && now - one->kept_at >= KEEP_MS))
		alerter_keep(one);
	return now >= one->next_at &&
	       alert_state_is_due(&one->state, one->alert, facts->now);
}

static bool alerter_is_free(struct alerter_one *one)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&one->alerter->mutex);

	return !one->is_busy;
}

static void alerter_submit(struct alerter_one *one, bool *mark, pool_work work)
{
	lock(&one->alerter->mutex);
	*mark = true;
	unlock(&one->alerter->mutex);
	pool_submit(one->alerter->pool, work, one);
}

/* The state belongs to the worker: then its result waits here. */
static void alerter_take_beat(struct alerter_one *one)
{
	struct alert_sending *sending = &one->sending;
	struct alerter *alerter = one->alerter;
	bool has_beat, was_failing = sending->beat_failing_since > 0;

	lock(&alerter->mutex);
	has_beat = one->has_beat && !one->is_busy;
	one->has_beat = one->has_beat && !has_beat;
	const struct err beat = one->beat;
	const int64_t beat_wall = one->beat_wall;
	unlock(&alerter->mutex);
	if (!has_beat)
		return;
	if (beat.class == ERR_NONE) {
		sending->beat_at = beat_wall;
		sending->beat_failing_since = 0;
	} else if (!was_failing) {
		sending->beat_failing_since = beat_wall;
		log_warn("alert.no_heartbeat", LOG_TEXT("alert", one->alert->name),
			 LOG_ERR(&beat), LOG_TEXT("remedy", beat.remedy));
	}
	snprintf(sending->beat_why, sizeof(sending->beat_why), "%.255s", beat.text);
	if (was_failing != (sending->beat_failing_since > 0) || one->kept_at == 0 ||
	    clock_boot_ms() - one->kept_at >= KEEP_MS)
		alerter_keep(one);
}

static void alerter_set_gauge(const struct alerter *alerter)
{
	struct metric *gauge =
		metric_gauge("refrelay_troubles",
			     "Troubles that alerts tell of now, by kind.", "kind");
	double counts[ALERT_KINDS] = { 0 };

	for (size_t i = 0; i < alerter->all.count; i++) {
		const struct alert_state *state = &alerter->all.items[i].state;
		double here[ALERT_KINDS] = { 0 };
		for (size_t k = 0; k < state->entries.count; k++)
			here[state->entries.items[k].kind] +=
				state->entries.items[k].is_due &&
				!state->entries.items[k].is_over;
		for (int kind = 0; kind < ALERT_KINDS; kind++)
			if (here[kind] > counts[kind])
				counts[kind] = here[kind];
	}
	for (int kind = 0; kind < ALERT_KINDS; kind++)
		metric_set(metric_at(gauge, alert_kind_name((enum alert_kind)kind)),
			   counts[kind]);
}

/* Of those that are with a worker nothing is known just now. */
static bool alerter_are_all_free(struct alerter *alerter)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&alerter->mutex);

	for (size_t i = 0; i < alerter->all.count; i++)
		if (alerter->all.items[i].is_busy)
			return false;
	return true;
}

static void alerter_copy_endings(struct alerter *alerter, alert_endings *endings)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&alerter->mutex);

	alert_endings_copy(&alerter->own, endings);
	alert_endings_copy(&alerter->endings, endings);
}

/* A write that hangs does not fail. */
static bool alerter_is_well(const struct alerter *alerter)
{
	struct vital_signs signs;

	alerter->sources.signs(alerter->sources.arg, &signs);
	const bool can_write = signs.write_failure.class == ERR_NONE &&
			       signs.written_age_ms >= 0 &&
			       signs.written_age_ms <= VERDICT_WRITTEN_MS;
	vital_signs_clear(&signs);
	return can_write && alerter->is_readable;
}

static void alerter_look(struct alerter *alerter, int64_t now)
{
	struct alert_facts facts;
	struct report report;

	alert_facts_gather(&alerter->sources, &report, &facts);
	alerter_copy_endings(alerter, &facts.endings);
	alerter->is_readable = facts.report != NULL;
	for (size_t i = 0; i < alerter->all.count; i++) {
		struct alerter_one *one = &alerter->all.items[i];
		if (!alerter_sends(one))
			continue;
		one->has_missed = !alerter_is_free(one);
		if (one->has_missed)
			continue;
		facts.look_ms = one->looked_at > 0 ? now - one->looked_at : 0;
		one->looked_at = now;
		if (alerter_judge(one, &facts))
			alerter_submit(one, &one->is_busy, alerter_work_send);
	}
	alert_facts_clear(&facts, &report);
	if (alerter_are_all_free(alerter))
		alerter_set_gauge(alerter);
}

/* One that missed a look waits for no other: that may be minutes away. */
static bool alerter_is_look_due(struct alerter *alerter, int64_t now)
{
	for (size_t i = 0; i < alerter->all.count; i++) {
		struct alerter_one *one = &alerter->all.items[i];
		if (one->has_missed && alerter_is_free(one))
			return true;
	}
	return now >= alerter->look_at;
}

/* How long a look rests, so that short bounds are kept, a large site is not always looked
 * at, and its problems are still told within minutes. */
static int64_t alerter_pause_ms(const struct alerter *alerter, int64_t took_ms)
{
	int64_t pause_ms = LOOK_MS;

	for (size_t i = 0; i < alerter->all.count; i++) {
		const int64_t settle_ms = alerter->all.items[i].alert->settle_ms;
		if (settle_ms / 4 < pause_ms)
			pause_ms = settle_ms / 4;
	}
	if (pause_ms < LOOK_LEAST_MS)
		pause_ms = LOOK_LEAST_MS;
	return int64_max(pause_ms, int64_min(LOOK_SHARE * took_ms, LOOK_REST_MOST_MS));
}

/* A message that failed needs no look. When the next one is due. */
static int64_t alerter_retry(struct alerter_one *one, int64_t now)
{
	if (!alerter_is_free(one) || one->next_at == 0 || one->sending.failures == 0 ||
	    !alert_state_is_due(&one->state, one->alert, clock_wall_ms()))
		return INT64_MAX;
	if (now < one->next_at)
		return one->next_at;
	alerter_submit(one, &one->is_busy, alerter_work_send);
	return INT64_MAX;
}

/* Heartbeats that are due, while this node does its work. When the next one is. */
static int64_t alerter_beat(struct alerter *alerter, int64_t now)
{
	int64_t next_at = INT64_MAX;

	for (size_t i = 0; i < alerter->all.count; i++) {
		struct alerter_one *one = &alerter->all.items[i];
		if (!one->alert->heartbeat)
			continue;
		alerter_take_beat(one);
		if (now >= one->beat_at && !alerter_is_well(alerter)) {
			next_at = int64_min(next_at, now + LOOK_MS);
		} else if (now >= one->beat_at) {
			one->beat_at = now + one->alert->heartbeat_ms;
			lock(&alerter->mutex);
			const bool is_beating = one->is_beating;
			unlock(&alerter->mutex);
			if (!is_beating)
				alerter_submit(one, &one->is_beating, alerter_work_beat);
		}
		if (one->beat_at > now && one->beat_at < next_at)
			next_at = one->beat_at;
	}
	return next_at;
}

static void alerter_ask_peers(struct alerter *alerter, int64_t now)
{
	bool asks;

	lock(&alerter->mutex);
	asks = alerter->peers.count > 0 && !alerter->is_asking && now >= alerter->ask_at;
	alerter->is_asking = alerter->is_asking || asks;
	unlock(&alerter->mutex);
	if (asks)
		pool_submit(alerter->pool, alerter_work_ask, alerter);
}

static void *alerter_run(void *arg)
{
	struct alerter *alerter = arg;

	while (!stop_is_requested(&alerter->stop)) {
		const int64_t now = clock_boot_ms();
		alerter_ask_peers(alerter, now);
		if (alerter_is_look_due(alerter, now)) {
			alerter_look(alerter, now);
			const int64_t after = clock_boot_ms();
			alerter->look_at = after + alerter_pause_ms(alerter, after - now);
		}
		int64_t until = alerter_beat(alerter, clock_boot_ms());
		for (size_t i = 0; i < alerter->all.count; i++)
			until = int64_min(until, alerter_retry(&alerter->all.items[i],
							       clock_boot_ms()));
		until = int64_min(until, alerter->look_at);
		AUTO_UNLOCK pthread_mutex_t *held = lock(&alerter->mutex);
		if (!alerter->is_ending && !alerter->has_news)
			cond_wait_until(&alerter->changed, &alerter->mutex, until);
		alerter->has_news = false;
	}
	return NULL;
}

/*
 * Start and stop.
 */

/* What cannot be read is begun anew: better told twice than not at all. */
static void alerter_add(struct alerter *alerter, const struct alert *alert)
{
	struct alerter_one one = { .alerter = alerter, .alert = alert };
	struct err err;

	if (alert_store_open(alerter->sources.store, alert, &one.state, &one.sending,
			     &err) != 0)
		log_warn("alert.not_kept", LOG_TEXT("alert", alert->name), LOG_ERR(&err),
			 LOG_TEXT("remedy", err.remedy));
	vec_add(&alerter->all, one);
}

static void alerter_forget_others(const struct alerter_options *options)
{
	struct err err;

	if (alert_store_forget_others(options->sources.store, options->alerts, &err) != 0)
		log_warn("alert.not_kept", LOG_ERR(&err), LOG_TEXT("remedy", err.remedy));
}

/* So that what is begun anew has all that it was given. */
static struct alerter *alerter_new(const struct alerter_options *options)
{
	struct alerter *alerter = xcalloc(1, sizeof(*alerter));

	alerter->alerts = *options->alerts;
	alerter->peers = *options->peers;
	alerter->own = *options->endings;
	*options->alerts = (struct alerts){ 0 };
	*options->peers = (alert_peers){ 0 };
	*options->endings = (alert_endings){ 0 };
	for (size_t i = 0; i < alerter->peers.count; i++) {
		const struct alert_ending ending = {
			.what = xstrdup(alerter->peers.items[i].what),
			.remedy = "have it renewed there"
		};
		vec_add(&alerter->endings, ending);
	}
	alerter->site = options->site;
	alerter->role = options->role;
	alerter->sources = options->sources;
	mutex_init(&alerter->mutex);
	cond_init(&alerter->changed);
	stop_init(&alerter->stop);
	return alerter;
}

/* For each a message and a heartbeat at once, and one that asks for certificates. */
static size_t alerter_count_workers(size_t alert_count)
{
	const size_t most = 2 * alert_count + 1;

	return most < WORKERS_MOST ? most : WORKERS_MOST;
}

struct alerter *alerter_start(const struct alerter_options *options)
{
	const size_t count = options->alerts->list.count;
	struct alerter *alerter;

	alerter_forget_others(options);
	if (count == 0)
		return NULL;
	alerter = alerter_new(options);
	for (size_t i = 0; i < count; i++)
		alerter_add(alerter, alerter->alerts.list.items[i]);
	alerter->pool = pool_start("alert-send", alerter_count_workers(count));
	alerter_count("sent", 0); /* so that there is a figure from the start */
	alerter_count("failed", 0);
	thread_start(&alerter->thread, "alert", alerter_run, alerter);
	return alerter;
}

void alerter_stop(struct alerter *alerter)
{
	if (!alerter)
		return;
	stop_request(&alerter->stop);
	lock(&alerter->mutex);
	alerter->is_ending = true;
	pthread_cond_broadcast(&alerter->changed);
	unlock(&alerter->mutex);
	thread_join(alerter->thread);
	pool_stop(alerter->pool, NULL);
	for (size_t i = 0; i < alerter->all.count; i++)
		alert_state_clear(&alerter->all.items[i].state);
	vec_clear(&alerter->all);
	alert_endings_clear(&alerter->endings);
	alert_endings_clear(&alerter->own);
	alerts_clear(&alerter->alerts);
	alert_peers_clear(&alerter->peers);
	stop_clear(&alerter->stop);
	pthread_cond_destroy(&alerter->changed);
	pthread_mutex_destroy(&alerter->mutex);
	free(alerter);
}
