/*
 * A row is dropped only if it is still the one that was read: what is added while the
 * sink is told stays. The mark tells them apart.
 */
#include "change/owed.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "change/notice_parts.h"

#define MARK_BYTES 8

int owed_add(struct store_tx *tx, const char *name, const struct err *why,
	     struct err *err)
{
	char mark[2 * MARK_BYTES + 1];

	random_hex(mark, MARK_BYTES);
	return query_write(
		tx, err,
		"INSERT INTO owed (name, mark, since, failure_class, failure,"
		" remedy, failure_reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
		" ON CONFLICT (name) DO UPDATE SET mark = ?2, failure_class = ?4,"
		" failure = ?5, remedy = ?6, failure_reason = ?7",
		QUERY_TEXT(name), QUERY_TEXT(mark), QUERY_INT(clock_wall_ms()),
		QUERY_TEXT(err_class_name(why->class)), QUERY_TEXT(why->text),
		QUERY_TEXT(why->remedy), QUERY_TEXT(err_reason_name(why->reason)));
}

static int owed_count_rows(struct store_tx *tx, struct owed_summary *summary,
			   struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx, "SELECT COUNT(*), MIN(since) FROM owed", &query, err) != 0 ||
	    query_step(query, err) < 0)
		return -1;
	summary->count = query_int(query, 0);
	summary->since = query_int(query, 1);
	return 0;
}

int owed_look(struct store_tx *tx, struct owed_summary *summary, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	*summary = (struct owed_summary){ 0 };
	if (owed_count_rows(tx, summary, err) != 0 ||
	    query_open(tx,
		       "SELECT name, failure_class, failure, remedy, failure_reason"
		       " FROM owed"
		       " ORDER BY since LIMIT 1",
		       &query, err) != 0)
		return -1;
	found = query_step(query, err);
	if (found <= 0)
		return found;
	snprintf(summary->example, sizeof(summary->example), "%s", query_text(query, 0));
	err_set(&summary->why, err_class_of_name(query_text(query, 1)), "%s",
		query_text(query, 2));
	err_remedy(&summary->why, "%s", query_text(query, 3));
	err_because(&summary->why, err_reason_of_name(query_text(query, 4)));
	return 0;
}

void owed_note(struct notice *notice, const char *name, const struct err *why)
{
	notice->may_owe = true;
	if (!atomic_exchange(&notice->reported_owed, true))
		log_warn("change.owed", LOG_TEXT("repo", name), LOG_ERR(why),
			 LOG_TEXT("remedy", why->remedy));
}

static char *add_told(const char *before, const char *checksum)
{
	return xstrdup(!before || strcmp(before, checksum) == 0 ? checksum : "");
}

void owed_note_told(struct comparison *one, const char *checksum)
{
	AUTO_FREE char *before = one->told;

	one->told = add_told(before, checksum);
}

static void keep_told(struct notice *notice, const char *name, const char *checksum)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&notice->mutex);
	AUTO_FREE char *before = map_remove(&notice->told, name);

	map_put(&notice->told, name, add_told(before, checksum));
}

/* What it did of that may have been overtaken since by what was not recorded either. */
bool owed_is_only_scanned(const struct comparisons *all, const struct comparison *one)
{
	struct notice *notice = all->kind->notice;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&notice->mutex);

	return all->cause->is_scanned && !one->told &&
	       !map_get(&notice->told, one->noticed->name);
}

static char *take_told(struct notice *notice, const char *name)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&notice->mutex);

	return map_remove(&notice->told, name);
}

struct owing {
	const char *name;
	struct err why;
};

static int owe_work(struct store_tx *tx, void *arg, struct err *err)
{
	const struct owing *owing = arg;

	return owed_add(tx, owing->name, &owing->why, err);
}

/* What is gone was told as that, by its own event, if it had ever been recorded. */
void owed_end_comparison(struct notice *notice, const struct comparison *one)
{
	struct owing owing = { .name = one->noticed->name };
	const char *recorded = one->noticed->row.checksum;
	bool is_gone = one->observation == OBSERVATION_GONE;

	if (one->told) /* maybe before another try, which recorded something else */
		keep_told(notice, owing.name, one->told);
	if (!one->is_done || (one->observation != OBSERVATION_WHOLE && !is_gone))
		return;
	AUTO_FREE char *told = take_told(notice, owing.name);
	if (!told || is_gone || (recorded && strcmp(told, recorded) == 0))
		return;
	err_set(&owing.why, ERR_CONFLICT,
		"a change was passed on before, but could not be recorded");
	if (store_write(notice->options.store, owe_work, &owing, ERR_IGNORED) == 0)
		owed_note(notice, owing.name, &owing.why);
	else
		keep_told(notice, owing.name, told);
}

bool owed_may_be(struct notice *notice)
{
	return notice->may_owe;
}

struct owed {
	char *name; /* owned; NULL: none */
	char mark[2 * MARK_BYTES + 1];
};

struct settling {
	struct notice *notice;
	char *after; /* owned; NULL: the beginning */
	struct owed next;
	bool is_refused; /* the sink takes nothing now */
	size_t settled;
};

static void owed_take(struct query *query, void *arg)
{
	struct owed *owed = arg;

	owed->name = query_copy_text(query, 0);
	snprintf(owed->mark, sizeof(owed->mark), "%s", query_text(query, 1));
}

static void owed_give_to_sink(struct settling *settling, const struct change *change)
{
	const struct change_sink *sink = &settling->notice->options.sink;
	struct err err;

	if (sink->take(sink->arg, change, &err) == 0)
		return;
	settling->is_refused = true;
	log_debug("change.still_owed", LOG_TEXT("repo", change->name), LOG_ERR(&err));
}

/* Whether it is settled. What cannot be read has no task; when it can be, that is an
 * event, and the sink hears of it. Without a `why`, an error is none of the repository.
 */
static bool report_owed_again(struct settling *settling, const char *name)
{
	AUTO_NOTICED struct noticed noticed;
	struct change change = { .name = name, .what = EVENT_UPDATED };

	if (notice_compare(settling->notice, name, &noticed, ERR_IGNORED) == 0) {
		change.checksum = noticed.row.checksum;
		change.after = &noticed.refs;
	} else if (noticed.why.class == ERR_MISSING) {
		change.what = EVENT_DELETED;
	} else {
		return noticed.why.class == ERR_CORRUPT ||
		       noticed.why.class == ERR_CONFIG;
	}
	owed_give_to_sink(settling, &change);
	return !settling->is_refused;
}

/* 1: more may follow; 0; -1. */
static int settle_next(struct settling *settling, struct err *err)
{
	struct store *store = settling->notice->options.store;
	struct owed *next = &settling->next;

	int found = store_one(store, owed_take, next, err,
			      "SELECT name, mark FROM owed WHERE name > ?1 ORDER BY name"
			      " LIMIT 1",
			      QUERY_TEXT(settling->after ? settling->after : ""));
	if (found <= 0)
		return found;
	if (report_owed_again(settling, next->name)) {
		if (store_run(store, err,
			      "DELETE FROM owed WHERE name = ?1 AND mark = ?2",
			      QUERY_TEXT(next->name), QUERY_TEXT(next->mark)) != 0)
			return -1;
		settling->settled++;
	}
	free(settling->after);
	settling->after = TAKE(next->name);
	return !settling->is_refused;
}

static int settle_all(struct notice *notice, const struct stop *stop, size_t *settled,
		      struct err *err)
{
	struct settling settling = { .notice = notice };
	int result;

	if (!notice->options.sink.take)
		return store_run(notice->options.store, err, "DELETE FROM owed");
	do
		result = settle_next(&settling, err);
	while (result > 0 && !(stop && stop_is_requested(stop)));
	*settled = settling.settled;
	free(settling.next.name);
	free(settling.after);
	return result < 0 ? -1 : 0;
}

static int look_work(struct store_tx *tx, void *arg, struct err *err)
{
	return owed_look(tx, arg, err);
}

static int owed_count_left(struct notice *notice, size_t *left, struct err *err)
{
	struct owed_summary summary;

	if (store_read(notice->options.store, look_work, &summary, err) != 0)
		return -1;
	*left = (size_t)summary.count;
	return 0;
}

int owed_settle(struct notice *notice, const struct stop *stop, size_t *left,
		struct err *err)
{
	size_t settled = 0;

	*left = 0;
	notice->may_owe = false; /* before the look: who adds meanwhile sets it after */
	if (owed_count_left(notice, left, err) != 0 ||
	    (*left > 0 && (settle_all(notice, stop, &settled, err) != 0 ||
			   owed_count_left(notice, left, err) != 0))) {
		notice->may_owe = true;
		return -1;
	}
	if (*left > 0)
		notice->may_owe = true;
	else
		notice->reported_owed = false;
	if (settled > 0)
		log_info("change.settled", LOG_NUMBER("repositories", settled),
			 LOG_NUMBER("left", *left));
	return 0;
}
