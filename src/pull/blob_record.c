/*
 * How a job on blobs ended: rows in one transaction a word, one line of the log for all,
 * and the metrics.
 */
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "pull/blob_work.h"
#include "pull/decisions.h"

struct record {
	const struct blob_work *work;
	VEC(struct registry_move) moves;
	VEC(const struct blob_item *) items; /* of the moves */
	enum registry_result *results;
};

static struct registry_move blob_record_make_brought_move(const struct blob_work *work,
							  const struct blob_item *item)
{
	struct pull *pull = work->pull;

	return (struct registry_move){
		.id = item->row->id,
		.event = REGISTRY_BROUGHT,
		.generation = item->generation,
		.timeline = item->timeline,
		.checksum = item->expected[0] ? item->expected : NULL,
		.size = item->size,
		.delay_ms = pace_delay_ms(pull, item->row->id),
		.timeout_ms = next_reverify_ms(pull_settings_now(pull).reverify_ms,
					       random_roll()),
	};
}

static struct registry_move blob_record_make_move(const struct blob_work *work,
						  const struct blob_item *item)
{
	if (item->end == BLOB_FAILED)
		return pull_failed_move(item->row->id, &item->why);
	if (item->end == BLOB_WAITS)
		return (struct registry_move){ .id = item->row->id,
					       .event = REGISTRY_DEFERRED,
					       .timeout_ms = item->wait_ms };
	return blob_record_make_brought_move(work, item);
}

static void blob_record_add_item(struct record *record, const struct blob_item *item)
{
	vec_add(&record->moves, blob_record_make_move(record->work, item));
	vec_add(&record->items, item);
}

static int64_t lag_of(const struct blob_work *work, const struct blob_item *item)
{
	int64_t lag_ms =
		primary_now_ms(work->pull->options.primary) - item->row->behind_since;

	return lag_ms > 0 ? lag_ms : 0; /* clocks are read to some milliseconds */
}

static void measure_lags(const struct record *record)
{
	for (size_t i = 0; i < record->items.count; i++)
		if (record->results[i] == REGISTRY_MOVED &&
		    record->items.items[i]->row->behind_since > 0)
			pull_measure_lag(record->work->kind->type,
					 lag_of(record->work, record->items.items[i]));
}

/* A person removed its row before it was put in place: what nobody wants is taken away
 * again. */
static void discard_unwanted(const struct record *record)
{
	struct err err;

	for (size_t i = 0; i < record->items.count; i++) {
		const struct blob_item *item = record->items.items[i];
		if (record->results[i] != REGISTRY_NO_ROW || item->end != BLOB_PLACED)
			continue;
		if (blob_discard(record->work->root, item->row->name, &err) != 0 &&
		    err.class != ERR_MISSING)
			log_error("blob.not_removed", LOG_ERR(&err),
				  LOG_TEXT("kind", record->work->kind->type),
				  LOG_TEXT("name", item->row->name));
	}
}

/* What a person removed is discarded before. */
static void blob_record_look_again(const struct record *record)
{
	for (size_t i = 0; i < record->items.count; i++) {
		const struct blob_item *item = record->items.items[i];
		if (record->results[i] == REGISTRY_MOVED &&
		    (item->end == BLOB_PLACED || item->end == BLOB_ADOPTED))
			blob_look_again(record->work->pull, record->work->kind,
					record->work->root, item->row->name,
					&item->print);
	}
}

static void blob_record_give_back(const struct record *record, const struct err *err)
{
	log_error("registry.failed", LOG_ERR(err));
	for (size_t i = 0; i < record->moves.count; i++)
		pull_give_back_later(record->work->pull, record->moves.items[i].id,
				     REGISTRY_BROUGHT);
}

static void write_proved(struct record *record)
{
	struct err err;

	record->results = xcalloc(record->moves.count, sizeof(*record->results));
	if (registry_complete_many(record->work->pull->options.store, record->moves.items,
				   record->moves.count, record->results, &err) != 0)
		blob_record_give_back(record, &err);
	else {
		measure_lags(record);
		discard_unwanted(record);
		blob_record_look_again(record);
	}
	free(record->results);
}

static void write_others(struct record *record)
{
	struct err err;

	record->results = xcalloc(record->moves.count, sizeof(*record->results));
	if (registry_move_many(record->work->pull->options.store, record->moves.items,
			       record->moves.count, record->results, &err) != 0)
		blob_record_give_back(record, &err);
	else {
		discard_unwanted(record);
		blob_record_look_again(record);
	}
	free(record->results);
}

static void blob_record_write_rows(const struct blob_work *work)
{
	struct record proved = { .work = work }, others = { .work = work };

	for (size_t i = 0; i < work->count; i++) {
		const struct blob_item *item = &work->items[i];
		if (item->end != BLOB_REMOVED && item->end != BLOB_HELD)
			blob_record_add_item(item->end != BLOB_FAILED && item->is_proved
						     ? &proved
						     : &others,
					     item);
	}
	if (proved.moves.count > 0)
		write_proved(&proved);
	if (others.moves.count > 0)
		write_others(&others);
	vec_clear(&proved.moves);
	vec_clear(&proved.items);
	vec_clear(&others.moves);
	vec_clear(&others.items);
}

static const char *word_of(const struct blob_item *item)
{
	switch (item->end) {
	case BLOB_PLACED:
		return item->row->generation > 0 ? "updated" : "created";
	case BLOB_ADOPTED:
		return "unchanged";
	case BLOB_REMOVED:
		return "removed";
	case BLOB_WAITS:
		return "deferred";
	case BLOB_HELD:
		return "held";
	default:
		return pull_failed_word(&item->why);
	}
}

static void blob_record_measure_work(const struct blob_work *work, int64_t took_ms)
{
	for (size_t i = 0; i < work->count; i++)
		pull_count_sync(work->kind->type, word_of(&work->items[i]));
	pull_measure_job(work->kind->type, took_ms, work->bytes);
}

/* Many fail for one reason: it is told once, by an example. */
static void tell_failures(const struct blob_work *work)
{
	const struct blob_item *example = NULL;
	size_t failed = 0;

	for (size_t i = 0; i < work->count; i++) {
		const struct blob_item *item = &work->items[i];
		if (item->end != BLOB_FAILED || item->why.class == ERR_BUSY ||
		    item->why.class == ERR_CANCELED)
			continue;
		failed++;
		if (!example || !err_is_transient(item->why.class))
			example = item;
	}
	if (failed > 0)
		log_at(err_is_transient(example->why.class) ? LOG_LEVEL_WARN
							    : LOG_LEVEL_ERROR,
		       "blob.failed", LOG_TEXT("kind", work->kind->type),
		       LOG_NUMBER("failed", failed), LOG_TEXT("name", example->row->name),
		       LOG_ERR(&example->why));
}

static void blob_record_report_done(const struct blob_work *work, int64_t took_ms)
{
	size_t placed = 0, adopted = 0;

	for (size_t i = 0; i < work->count; i++) {
		placed += work->items[i].end == BLOB_PLACED;
		adopted += work->items[i].end == BLOB_ADOPTED;
	}
	if (placed + adopted > 0)
		log_info("blob.done", LOG_NUMBER("dur_ms", took_ms),
			 LOG_NUMBER("bytes", work->bytes),
			 LOG_TEXT("kind", work->kind->type), LOG_NUMBER("count", placed),
			 LOG_NUMBER("unchanged", adopted));
}

void blob_record(struct blob_work *work, int64_t took_ms)
{
	blob_record_write_rows(work);
	failpoint("blob.recorded");
	blob_record_measure_work(work, took_ms);
	blob_record_report_done(work, took_ms);
	tell_failures(work);
}
