/*
 * How the primary is heard of, kept for those who ask: the log says when it falls silent
 * and when it is back, site_value says how it is now. Two threads ask the primary;
 * it is back when neither fails any more.
 */
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "pull/pull_parts.h"
#include "store/site_value.h"

#define WRITE_EVERY_MS 10000

struct peer_note {
	int64_t heard_at, skew_ms;
	const char *failure; /* NULL: none */
};

static int peer_set_number(struct store_tx *tx, const char *key, int64_t value,
			   struct err *err)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, value);
	return site_value_set(tx, key, text, err);
}

static int write_note(struct store_tx *tx, void *arg, struct err *err)
{
	const struct peer_note *note = arg;

	if (note->heard_at > 0 &&
	    (peer_set_number(tx, PULL_HEARD, note->heard_at, err) != 0 ||
	     peer_set_number(tx, PULL_SKEW, note->skew_ms, err) != 0))
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
	if (store_write(pull->options.store, write_note, &note, &err) != 0)
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

void peer_retry_rows(struct pull *pull)
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
}
