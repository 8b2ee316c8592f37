/*
 * One thread knows when each mirror's turn is; workers tell. A mirror is with one worker
 * at a time, which tells document after document until there is none, one was not taken,
 * or the node stops.
 */
#include "mirror/then_teller.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/proc.h"
#include "base/retry.h"
#include "base/thread.h"
#include "git/git_child.h"
#include "job/pool.h"
#include "mirror/then.h"
#include "mirror/upstream.h"
#include "net/http.h"
#include "net/http_ask.h"
#include "replicable/name.h"

#define WORKERS_MOST 32
#define RETRY_FIRST_MS 1000
#define RETRY_LAST_MS 300000
#define WEBHOOK_TIMEOUT_MS 30000
#define COMMAND_TIMEOUT_MS 600000
#define COMMAND_GRACE_MS 500 /* a stop of the node waits for it */

struct then_receiver {
	struct then_teller *teller;
	char *mirror, *then; /* owned, as these, which may be NULL: */
	char *secret_file, *ca_file;
	struct then_queue *queue;
	/* Guarded by the mutex. */
	int64_t next_at; /* boot ms; INT64_MAX: there is nothing to tell */
	bool is_busy;    /* with a worker */
	bool is_wanted;  /* there was news meanwhile */
	bool is_owed;    /* what it has could not be kept */
	uint64_t unkept; /* how often that was so */
	/* Its worker's. */
	unsigned failures;
	int64_t failing_since; /* wall ms */
	int64_t rest_ms;       /* so long it wants not to be told; 0: it says nothing */
};

struct then_teller {
	pthread_mutex_t mutex; /* under it only the pool's is taken, by pool_submit() */
	pthread_cond_t changed;
	bool is_ending;
	struct stop stop;
	struct pool *pool;
	pthread_t thread;
	VEC(struct then_receiver) receivers; /* fixed; as the mirrors, in byte order */
};

static struct metric *then_told(void)
{
	return metric_counter("refrelay_mirror_told_total",
			      "Changes of mirrors that [mirror] then was told of.",
			      "state");
}

static void then_count(const char *result)
{
	metric_add(metric_at(then_told(), result), 1);
}

/* With the secret as it is now. */
static int then_sign_document(const struct then_receiver *one, const struct str *document,
			      char **signature, struct err *err)
{
	struct str secret = STR_INIT;
	int result = one->secret_file
			     ? upstream_read_secret(one->secret_file, &secret, err)
			     : 0;

	*signature = result == 0 ? then_sign(&secret, document) : NULL;
	str_wipe(&secret);
	return result;
}

/* What the URL has besides the host may be a secret. */
static int then_post(struct then_receiver *one, const struct str *document,
		     struct err *err)
{
	AUTO_FREE char *signature = NULL;
	AUTO_STR struct str host = STR_INIT, said = STR_INIT;
	int status = 0;

	if (then_sign_document(one, document, &signature, err) != 0)
		return -1;
	http_check_url(one->then, true, &host);
	if (http_ask(&(struct http_ask_request){ .method = "POST",
						 .url = one->then,
						 .peer = host.data,
						 .setting = "mirror.then",
						 .ca_file = one->ca_file,
						 .body = document->data,
						 .signature = signature,
						 .timeout_ms = WEBHOOK_TIMEOUT_MS,
						 .rest_ms = &one->rest_ms,
						 .stop = &one->teller->stop },
		     &status, &said, err) != 0)
		return -1;
	if (status < 300)
		return 0;
	err_set(err, http_classify_status(status), "%.200s answers %d", host.data,
		status);
	return err_remedy(err,
			  "see what %.150s says in its log; it is told again by "
			  "itself",
			  host.data);
}

static int then_run(const struct then_receiver *one, const struct str *document,
		    struct err *err)
{
	AUTO_TEXT_LIST text_list words = { 0 };

	if (then_split(one->then, &words, err) != 0)
		return -1;
	vec_add(&words, NULL);
	if (proc_run(&(struct proc_request){ .argv = (const char *const *)words.items,
					     .directory = "/",
					     .input = document->data,
					     .input_len = document->len,
					     .timeout_ms = COMMAND_TIMEOUT_MS,
					     .grace_ms = COMMAND_GRACE_MS,
					     .stop = &one->teller->stop },
		     NULL, err) == 0)
		return 0;
	return err->remedy[0] ? -1
			      : err_remedy(err, "see why the command of mirror.then "
						"fails; it is run again by itself");
}

static int then_tell(struct then_receiver *one, const struct str *document,
		     struct err *err)
{
	one->rest_ms = 0;
	return then_is_webhook(one->then) ? then_post(one, document, err)
					  : then_run(one, document, err);
}

/* In how many ms it is tried again. */
static int64_t then_note_failure(struct then_receiver *one, const struct err *why)
{
	const int64_t now = clock_wall_ms();
	int64_t wait_ms;

	if (why->class == ERR_CANCELED) {
		then_queue_fail(one->queue, NULL);
		return INT64_MAX;
	}
	if (one->failures++ == 0)
		one->failing_since = now;
	wait_ms = retry_doubled_ms(one->failures, RETRY_FIRST_MS, RETRY_LAST_MS);
	if (one->rest_ms > wait_ms)
		wait_ms = one->rest_ms;
	then_queue_fail(one->queue, &(struct then_failure){ .since = one->failing_since,
							    .tried_at = now,
							    .next_at = now + wait_ms,
							    .why = why });
	then_count("failed");
	log_at(err_is_transient(why->class) ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR,
	       "mirror.not_told", LOG_TEXT("name", one->mirror), LOG_ERR(why),
	       LOG_NUMBER("retry_in_ms", wait_ms), LOG_TEXT("remedy", why->remedy));
	return wait_ms;
}

/* 0: the next may follow; -1: *wait_ms. */
static int then_tell_one(struct then_receiver *one, const struct str *document,
			 int64_t *wait_ms)
{
	struct err err;

	failpoint("then.tells");
	int result = then_tell(one, document, &err);
	if (result == 0) {
		failpoint("then.told");
		result = then_queue_end(one->queue, &err);
	}
	if (result != 0) {
		*wait_ms = then_note_failure(one, &err);
		return -1;
	}
	one->failures = 0;
	then_count("told");
	log_info("mirror.told", LOG_TEXT("name", one->mirror),
		 LOG_NUMBER("bytes", document->len));
	return 0;
}

/* In how many ms its turn is again; INT64_MAX: when there is news. */
static int64_t then_tell_all(struct then_receiver *one)
{
	int64_t wait_ms = INT64_MAX;
	struct err err;

	while (!stop_is_requested(&one->teller->stop)) {
		AUTO_STR struct str document = STR_INIT;
		int found = then_queue_next(one->queue, &document, &err);
		if (found < 0)
			return then_note_failure(one, &err);
		if (found == 0 || then_tell_one(one, &document, &wait_ms) != 0)
			break;
	}
	return wait_ms;
}

static uint64_t then_count_unkept(struct then_receiver *one)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&one->teller->mutex);

	return one->unkept;
}

/* What another thread could not keep meanwhile may be newer than what was read here: it
 * stays owed. */
static void then_note_take(struct then_receiver *one, int result, uint64_t unkept_before)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&one->teller->mutex);

	if (result < 0) {
		one->is_owed = true;
		one->unkept++;
	} else if (one->unkept == unkept_before) {
		one->is_owed = false;
	}
}

static void then_report_unkept(const struct then_receiver *one, const struct err *why)
{
	log_at(err_is_transient(why->class) ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR,
	       "mirror.not_kept", LOG_TEXT("name", one->mirror), LOG_ERR(why),
	       LOG_TEXT("remedy", why->remedy));
}

static int then_take(struct then_receiver *one, const struct then_origin *origin,
		     struct err *err)
{
	const uint64_t unkept_before = then_count_unkept(one);
	int result = then_queue_take(one->queue, origin, err);

	then_note_take(one, result, unkept_before);
	return result;
}

/* What could not be kept holds up nothing that was. */
static int64_t then_run_turn(struct then_receiver *one)
{
	static const struct then_origin unknown = { 0 };
	struct err err;

	lock(&one->teller->mutex);
	bool is_owed = one->is_owed;
	unlock(&one->teller->mutex);
	is_owed = is_owed && then_take(one, &unknown, &err) < 0;
	int64_t wait_ms = then_tell_all(one);
	return is_owed && wait_ms == INT64_MAX ? then_note_failure(one, &err) : wait_ms;
}

/* pool_work */
static void then_run_one(void *arg)
{
	struct then_receiver *one = arg;
	struct then_teller *teller = one->teller;
	int64_t wait_ms =
		stop_is_requested(&teller->stop) ? INT64_MAX : then_run_turn(one);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&teller->mutex);

	one->is_busy = false;
	one->next_at = wait_ms == INT64_MAX ? INT64_MAX : clock_boot_ms() + wait_ms;
	if (one->is_wanted && wait_ms == INT64_MAX)
		one->next_at = 0;
	one->is_wanted = false;
	pthread_cond_broadcast(&teller->changed);
}

/* When the next one's turn is. */
static int64_t then_submit_due_locked(struct then_teller *teller)
{
	int64_t now = clock_boot_ms(), next_at = INT64_MAX;

	for (size_t i = 0; i < teller->receivers.count; i++) {
		struct then_receiver *one = &teller->receivers.items[i];
		if (one->is_busy)
			continue;
		if (one->next_at <= now) {
			one->is_busy = true;
			one->is_wanted = false;
			pool_submit(teller->pool, then_run_one, one);
		} else if (one->next_at < next_at) {
			next_at = one->next_at;
		}
	}
	return next_at;
}

static void *then_teller_run(void *arg)
{
	struct then_teller *teller = arg;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&teller->mutex);

	while (!teller->is_ending) {
		int64_t next_at = then_submit_due_locked(teller);
		cond_wait_until(&teller->changed, &teller->mutex, next_at);
	}
	return NULL;
}

ORDER_BY_TEXT(then_receiver_order, struct then_receiver, mirror);

static struct then_receiver *then_teller_find(struct then_teller *teller,
					      const char *mirror)
{
	const struct then_receiver key = { .mirror = xstrdup(mirror) };
	struct then_receiver *found =
		teller ? bsearch(&key, teller->receivers.items, teller->receivers.count,
				 sizeof(key), then_receiver_order)
		       : NULL;

	free(key.mirror);
	return found;
}

void then_teller_take(struct then_teller *teller, const char *mirror,
		      const struct then_origin *origin)
{
	struct then_receiver *one = then_teller_find(teller, mirror);
	struct err err;

	if (one && then_take(one, origin, &err) < 0)
		then_report_unkept(one, &err);
}

/* One that is not taken keeps its rest. */
void then_teller_wake(struct then_teller *teller, const char *mirror)
{
	struct then_receiver *one = then_teller_find(teller, mirror);

	if (!one)
		return;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&teller->mutex);
	one->is_wanted = one->is_busy;
	if (!one->is_busy && one->next_at == INT64_MAX)
		one->next_at = 0;
	pthread_cond_broadcast(&teller->changed);
}

static void then_teller_add(struct then_teller *teller, const struct mirror *mirror,
			    const struct then_teller_options *options)
{
	AUTO_FREE char *clone = name_to_copy(options->root, mirror->name);
	struct then_receiver one = { .teller = teller,
				     .mirror = xstrdup(mirror->name),
				     .then = xstrdup(mirror->then) };
	struct err err;

	if (mirror->then_secret_file)
		one.secret_file = xstrdup(mirror->then_secret_file);
	if (mirror->then_ca_file)
		one.ca_file = xstrdup(mirror->then_ca_file);
	if (then_queue_open(options->data, mirror->name, clone, &one.queue, &err) != 0) {
		one.is_owed = true;
		then_report_unkept(&one, &err);
	}
	vec_add(&teller->receivers, one);
}

static void then_teller_forget_others(const struct then_teller *teller, const char *data)
{
	AUTO_FREE const char **names =
		xcalloc(teller->receivers.count + 1, sizeof(*names));

	for (size_t i = 0; i < teller->receivers.count; i++)
		names[i] = teller->receivers.items[i].mirror;
	then_queue_forget_others(data, names, teller->receivers.count);
}

struct then_teller *then_teller_start(const struct then_teller_options *options)
{
	struct then_teller *teller = xcalloc(1, sizeof(*teller));
	size_t count;

	for (size_t i = 0; i < options->mirrors->sections.count; i++)
		if (options->mirrors->sections.items[i]->then)
			then_teller_add(teller, options->mirrors->sections.items[i],
					options);
	then_teller_forget_others(teller, options->data);
	count = teller->receivers.count;
	if (count == 0) {
		free(teller);
		return NULL;
	}
	metric_begin(then_told(), METRIC_LIST("told", "failed"), NULL);
	mutex_init(&teller->mutex);
	cond_init(&teller->changed);
	stop_init(&teller->stop);
	teller->pool = pool_start("then", count < WORKERS_MOST ? count : WORKERS_MOST);
	thread_start(&teller->thread, "mirror-then", then_teller_run, teller);
	return teller;
}

void then_teller_stop(struct then_teller *teller)
{
	if (!teller)
		return;
	stop_request(&teller->stop);
	lock(&teller->mutex);
	teller->is_ending = true;
	pthread_cond_broadcast(&teller->changed);
	unlock(&teller->mutex);
	thread_join(teller->thread);
	pool_stop(teller->pool, NULL);
	for (size_t i = 0; i < teller->receivers.count; i++) {
		struct then_receiver *one = &teller->receivers.items[i];
		then_queue_close(one->queue);
		free(one->mirror);
		free(one->then);
		free(one->secret_file);
		free(one->ca_file);
	}
	vec_clear(&teller->receivers);
	stop_clear(&teller->stop);
	pthread_cond_destroy(&teller->changed);
	pthread_mutex_destroy(&teller->mutex);
	free(teller);
}
