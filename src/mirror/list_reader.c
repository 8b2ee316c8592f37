#include "mirror/list_reader.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/retry.h"
#include "mirror/list_fit.h"
#include "mirror/listed.h"
#include "mirror/upstream.h"

#define PAGE_TIMEOUT_MS 60000
#define FIRST_MOST_MS 2000 /* after a start the lists are read within this time */
#define FINDINGS_LOGGED 20

struct list_reader {
	struct list_readers *readers;
	const struct mirror_list *list;
	pthread_t thread;
	/* Of the thread alone. */
	struct upstream_list said; /* the last whole one */
	struct err failure; /* the last, as it was logged; ERR_NONE: it went well */
	uint64_t failures;  /* in a row */
	size_t findings;    /* as many were logged */
	bool has_said;
};

struct list_readers {
	struct list_readers_options options;
	struct stop stop;
	VEC(struct list_reader *) items;
};

static int list_reader_ask(const struct mirror_list *list, const struct stop *stop,
			   bool is_trial, struct upstream_list *said, int64_t *rest_ms,
			   struct err *err)
{
	AUTO_STR struct str token = STR_INIT;
	int result = list->token_file
			     ? upstream_read_secret(list->token_file, &token, err)
			     : 0;

	*rest_ms = 0;
	if (result == 0)
		result = upstream_list_read(
			&(struct upstream_list_call){
				.source = &list->source,
				.token = list->token_file ? token.data : NULL,
				.ca_file = list->ca_file,
				.timeout_ms = PAGE_TIMEOUT_MS,
				.stop = stop,
				.is_trial = is_trial },
			said, rest_ms, err);
	str_wipe(&token);
	return result;
}

int list_reader_try(const struct mirror_list *list, size_t *count, struct err *err)
{
	struct upstream_list said = { 0 };
	int64_t rest_ms;
	int result = list_reader_ask(list, NULL, true, &said, &rest_ms, err);

	*count = said.chosen.count;
	upstream_list_clear(&said);
	return result;
}

static struct metric *list_reader_lists(void)
{
	return metric_counter("refrelay_mirror_lists_total",
			      "Lists of upstreams that were read.", "state");
}

static void list_reader_count(const char *result)
{
	metric_add(metric_at(list_reader_lists(), result), 1);
}

/* What could be mirrored and is not is told again when it is more, or less. */
static void list_reader_say_findings(struct list_reader *reader)
{
	const struct upstream_findings *findings = &reader->said.findings;
	const char *list = reader->list->name;

	if (reader->has_said && reader->findings == findings->left_out)
		return;
	reader->findings = findings->left_out;
	for (size_t i = 0; i < findings->items.count && i < FINDINGS_LOGGED; i++)
		log_warn("mirror.left_out", LOG_TEXT("list", list),
			 LOG_TEXT("name", findings->items.items[i].name),
			 LOG_ERR(&findings->items.items[i].err),
			 LOG_TEXT("remedy", findings->items.items[i].err.remedy));
	if (findings->left_out > FINDINGS_LOGGED)
		log_warn("mirror.left_out", LOG_TEXT("list", list),
			 LOG_NUMBER("all", findings->left_out));
}

static void list_reader_say_change(const struct list_reader *reader,
				   const struct listed_change *change)
{
	if (reader->has_said && reader->failures == 0 && change->added == 0 &&
	    change->moved == 0 && change->missing == 0 && change->gone == 0)
		return;
	log_info("mirror.listed", LOG_TEXT("list", reader->list->name),
		 LOG_NUMBER("mirrors", reader->said.chosen.count),
		 LOG_NUMBER("added", change->added), LOG_NUMBER("moved", change->moved),
		 LOG_NUMBER("missing", change->missing),
		 LOG_NUMBER("gone", change->gone));
}

static void list_reader_tell_poll(const struct list_reader *reader)
{
	for (size_t i = 0; i < reader->said.chosen.count; i++) {
		const struct upstream_chosen *one = &reader->said.chosen.items[i];
		if (one->entry->fingerprint && one->entry->branch)
			mirror_poll_tell(reader->readers->options.poll, one->name,
					 one->entry->fingerprint, one->entry->branch);
	}
}

static int list_reader_take(struct list_reader *reader, struct err *err)
{
	const struct list_readers_options *options = &reader->readers->options;
	const struct list_fit_call fit = { .store = options->store,
					   .list = reader->list,
					   .root = options->root,
					   .source = options->source };
	struct listed_change change;

	if (list_fit(&fit, &reader->said, err) != 0 ||
	    listed_take(options->store, options->mirrors, reader->list, &reader->said,
			&change, err) != 0)
		return -1;
	list_reader_count("read");
	list_reader_say_change(reader, &change);
	list_reader_say_findings(reader);
	reader->has_said = true;
	reader->failures = 0;
	reader->failure = (struct err){ 0 };
	if (change.added > 0 || change.moved > 0 || change.gone > 0)
		mirror_poll_reload(options->poll);
	list_reader_tell_poll(reader);
	return 0;
}

static bool list_reader_is_same_failure(const struct err *one, const struct err *other)
{
	return one->class == other->class && one->reason == other->reason;
}

static void list_reader_fail(struct list_reader *reader, const struct err *why)
{
	bool is_limited = why->reason == REASON_RATE_LIMITED;
	struct err err;

	reader->failures++;
	list_reader_count(is_limited ? "limited" : "failed");
	if (!list_reader_is_same_failure(&reader->failure, why))
		log_warn("mirror.list_failed", LOG_TEXT("list", reader->list->name),
			 LOG_ERR(why), LOG_TEXT("remedy", why->remedy));
	reader->failure = *why;
	if (listed_fail(reader->readers->options.store, reader->list, why, &err) != 0)
		log_error("registry.failed", LOG_ERR(&err));
}

/* What failed is tried again sooner than after its interval, if that is long; but not
 * before the forge allows it, and not sooner if it limits how often it is asked. */
static int64_t list_reader_next_ms(const struct list_reader *reader, int64_t rest_ms)
{
	const bool is_limited = reader->failure.reason == REASON_RATE_LIMITED;
	int64_t next_ms = mirror_jitter_ms(reader->list->interval_ms);

	if (reader->failures > 0) {
		int64_t again_ms = retry_random_delay_ms(reader->failures, RETRY_CAP);
		if ((again_ms < next_ms) != is_limited)
			next_ms = again_ms;
	}
	return rest_ms > next_ms ? rest_ms : next_ms;
}

/* In how many ms it is read again. */
static int64_t list_reader_read(struct list_reader *reader)
{
	const struct list_readers_options *options = &reader->readers->options;
	struct err err;
	int64_t rest_ms = 0;

	if ((listed_read_mounts(options->store, reader->list, &reader->said.mounts,
				&err) != 0 ||
	     list_reader_ask(reader->list, &reader->readers->stop, false, &reader->said,
			     &rest_ms, &err) != 0 ||
	     list_reader_take(reader, &err) != 0) &&
	    err.class != ERR_CANCELED)
		list_reader_fail(reader, &err);
	return list_reader_next_ms(reader, rest_ms);
}

static void *list_reader_run(void *arg)
{
	struct list_reader *reader = arg;
	const int64_t interval_ms = reader->list->interval_ms;
	int64_t next_ms = mirror_random_ms(interval_ms < FIRST_MOST_MS ? interval_ms
								       : FIRST_MOST_MS);

	while (!stop_wait(&reader->readers->stop, next_ms))
		next_ms = list_reader_read(reader);
	return NULL;
}

struct list_readers *list_readers_start(const struct list_readers_options *options)
{
	struct list_readers *readers;

	if (options->mirrors->lists.count == 0)
		return NULL;
	metric_begin(list_reader_lists(), METRIC_LIST("read", "limited", "failed"), NULL);
	readers = xcalloc(1, sizeof(*readers));
	readers->options = *options;
	stop_init(&readers->stop);
	for (size_t i = 0; i < options->mirrors->lists.count; i++) {
		struct list_reader *reader = xcalloc(1, sizeof(*reader));
		*reader =
			(struct list_reader){ .readers = readers,
					      .list = options->mirrors->lists.items[i] };
		vec_add(&readers->items, reader);
		thread_start(&reader->thread, "mirror-list", list_reader_run, reader);
	}
	return readers;
}

void list_readers_stop(struct list_readers *readers)
{
	if (!readers)
		return;
	stop_request(&readers->stop);
	for (size_t i = 0; i < readers->items.count; i++) {
		thread_join(readers->items.items[i]->thread);
		upstream_list_clear(&readers->items.items[i]->said);
	}
	vec_clear_owned(&readers->items);
	stop_clear(&readers->stop);
	free(readers);
}
