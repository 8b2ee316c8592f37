/*
 * A row a minute and peer, keyed by the minute: a second sample within one, as after a
 * restart, takes the place of the first. What could not be sampled, as while no node ran,
 * is a gap, never a zero.
 */
#include "report/lag_curve.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

#define MINUTE_MS 60000

struct lag_curve {
	struct lag_curve_options options;
	struct stop stop;
	pthread_t thread;
};

/* What people read: "site" is one that follows, "remote" one that is pushed to. */
struct lag_sampling {
	const struct report *report;
	int64_t minute;
};

static int lag_curve_put(struct store_tx *tx, const struct lag_sampling *sampling,
			 const char *kind, const char *peer, int64_t lag_ms,
			 struct err *err)
{
	if (query_write(tx, err,
			"DELETE FROM lag_sample WHERE kind = ?1 AND peer = ?2"
			" AND minute = ?3",
			QUERY_TEXT(kind), QUERY_TEXT(peer),
			QUERY_INT(sampling->minute)) != 0)
		return -1;
	return query_write(tx, err,
			   "INSERT INTO lag_sample (kind, peer, minute, lag_ms)"
			   " VALUES (?1, ?2, ?3, ?4)",
			   QUERY_TEXT(kind), QUERY_TEXT(peer),
			   QUERY_INT(sampling->minute), QUERY_INT(lag_ms));
}

static int lag_curve_put_sites(struct store_tx *tx, const struct lag_sampling *sampling,
			       struct err *err)
{
	const struct report *report = sampling->report;

	if (report->role == SITE_SECONDARY)
		return lag_curve_put(tx, sampling, "site", report->site, report->lag_ms,
				     err);
	for (size_t i = 0; i < report->secondaries.count; i++) {
		const struct report_secondary *one = &report->secondaries.items[i];
		if (one->seen_at > 0 &&
		    lag_curve_put(tx, sampling, "site", one->site, one->lag_ms, err) != 0)
			return -1;
	}
	return 0;
}

static int lag_curve_put_all(struct store_tx *tx, void *arg, struct err *err)
{
	const struct lag_sampling *sampling = arg;
	const struct report_push *push = &sampling->report->push;

	if (query_write(tx, err, "DELETE FROM lag_sample WHERE minute <= ?1",
			QUERY_INT(sampling->minute - LAG_CURVE_MINUTES)) != 0 ||
	    lag_curve_put_sites(tx, sampling, err) != 0)
		return -1;
	for (size_t i = 0; i < push->remotes.count; i++)
		if (lag_curve_put(tx, sampling, "remote", push->remotes.items[i].name,
				  push->remotes.items[i].lag_ms, err) != 0)
			return -1;
	return 0;
}

int lag_curve_write(struct store *store, const struct report *report, struct err *err)
{
	struct lag_sampling sampling = { report, report->now / MINUTE_MS };

	return store_write_quietly(store, lag_curve_put_all, &sampling, err);
}

static void lag_curve_sample(const struct lag_curve_options *options)
{
	struct report report = { 0 };
	struct err err;

	if (options->report(options->arg, &report, &err) != 0 ||
	    lag_curve_write(options->store, &report, &err) != 0)
		log_warn("lag.not_kept", LOG_ERR(&err));
	report_clear(&report);
}

static void *lag_curve_run(void *arg)
{
	struct lag_curve *curve = arg;

	while (!stop_wait(&curve->stop, MINUTE_MS - clock_wall_ms() % MINUTE_MS))
		lag_curve_sample(&curve->options);
	return NULL;
}

struct lag_curve *lag_curve_start(const struct lag_curve_options *options)
{
	struct lag_curve *curve = xcalloc(1, sizeof(*curve));

	curve->options = *options;
	stop_init(&curve->stop);
	thread_start(&curve->thread, "lag-curve", lag_curve_run, curve);
	return curve;
}

void lag_curve_stop(struct lag_curve *curve)
{
	if (!curve)
		return;
	stop_request(&curve->stop);
	thread_join(curve->thread);
	stop_clear(&curve->stop);
	free(curve);
}

struct lag_reading {
	int64_t from, minutes;
	json_t *curves; /* owned by the caller of the work */
};

/* A curve with a gap at each minute. */
static json_t *lag_curve_begin(const struct lag_reading *reading, const char *kind,
			       const char *peer)
{
	json_t *curve = json_object(), *lags = json_array();

	for (int64_t i = 0; i < reading->minutes; i++)
		json_array_append_new(lags, json_null());
	json_put_text(curve, "kind", kind);
	json_put_text(curve, "peer", peer);
	json_put(curve, "lag", lags);
	json_array_append_new(reading->curves, curve);
	return curve;
}

static bool lag_curve_is_of(json_t *curve, const char *kind, const char *peer)
{
	return curve &&
	       strcmp(json_string_value(json_object_get(curve, "kind")), kind) == 0 &&
	       strcmp(json_string_value(json_object_get(curve, "peer")), peer) == 0;
}

static int lag_curve_read(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	struct lag_reading *reading = arg;
	json_t *curve = NULL;
	int found;

	json_array_clear(reading->curves);
	if (query_ask(tx, &query, err,
		      "SELECT kind, peer, minute, lag_ms FROM lag_sample"
		      " WHERE minute >= ?1 AND minute < ?2 ORDER BY kind, peer, minute",
		      QUERY_INT(reading->from),
		      QUERY_INT(reading->from + reading->minutes)) != 0)
		return -1;
	while ((found = query_step(query, err)) > 0) {
		const char *kind = query_text(query, 0), *peer = query_text(query, 1);
		if (!lag_curve_is_of(curve, kind, peer))
			curve = lag_curve_begin(reading, kind, peer);
		json_array_set_new(json_object_get(curve, "lag"),
				   (size_t)(query_int(query, 2) - reading->from),
				   json_real((double)query_int(query, 3) / 1000));
	}
	return found;
}

int lag_curve_json(struct store *store, int64_t now, int64_t minutes, json_t **json,
		   struct err *err)
{
	struct lag_reading reading = { .from = now / MINUTE_MS - minutes + 1,
				       .minutes = minutes,
				       .curves = json_array() };

	if (store_read(store, lag_curve_read, &reading, err) != 0) {
		json_decref(reading.curves);
		return -1;
	}
	*json = json_object();
	json_put_time(*json, "from", reading.from * MINUTE_MS);
	json_put_seconds(*json, "step", MINUTE_MS);
	json_put(*json, "curves", reading.curves);
	return 0;
}
