/*
 * What reading a blob's content says of its row. The print tells three cases apart in
 * which it is not what was read before:
 *
 * Its print is another, be it only by ctime: somebody wrote to it and set the time back;
 * a change, as any other.
 *
 * The print is the same to the nanosecond, and was taken long enough after the last write
 * that another one would show: nobody wrote. Then the disk has damaged it, and what a
 * secondary has is right: it is told as corrupt, and not passed on.
 *
 * An immutable one is never right with another content than its name says.
 */
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/retry.h"
#include "change/blob_notice_parts.h"

/* Until one that could not be judged is looked at again. */
#define DEFERRED_MS 30000

static void set_print(struct origin_row *row, const struct blob_print *print)
{
	char text[BLOB_PRINT_SIZE];

	blob_print_format(print, text);
	origin_row_set_text(&row->print, text);
	row->size = print->size;
	row->is_settled = false;
}

void blob_row_set_unread(struct origin_row *row, const struct blob_print *print)
{
	set_print(row, print);
	row->verification_due_at = clock_wall_ms();
}

/* Between half of the interval and all of it, so that a thousand that came at once are
 * not read again at once. */
static int64_t next_verification(int64_t reverify_ms)
{
	char digits[9];

	random_hex(digits, 4);
	uint64_t share = strtoul(digits, NULL, 16) & 0xffff;
	return clock_wall_ms() + reverify_ms / 2 +
	       (int64_t)((uint64_t)reverify_ms / 2 * share / 0xffff);
}

void blob_row_set_proved(struct origin_row *row, const struct blob_print *print,
			 const char *digest, int64_t reverify_ms)
{
	set_print(row, print);
	origin_row_set_text(&row->checksum, digest);
	origin_row_set_failure(row, NULL);
	row->verification = VERIFICATION_SUCCEEDED;
	row->verification_retry_count = 0;
	row->verified_at = clock_wall_ms();
	row->verification_due_at = next_verification(reverify_ms);
}

static void set_failed(struct origin_row *row, const struct err *why)
{
	origin_row_set_failure(row, why);
	row->verification = VERIFICATION_FAILED;
	row->verification_retry_count++;
	row->verification_due_at =
		clock_wall_ms() +
		retry_random_delay_ms((uint64_t)row->verification_retry_count, RETRY_CAP);
}

static bool is_of_class(const struct origin_row *row, enum err_class class)
{
	return row->failure_class &&
	       strcmp(row->failure_class, err_class_name(class)) == 0;
}

bool blob_row_is_damaged(const struct origin_row *row)
{
	return row->verification == VERIFICATION_FAILED &&
	       (row->failure_reason == REASON_WRONG_NAME ||
		row->failure_reason == REASON_DAMAGED);
}

bool blob_row_waits_unopened(const struct origin_row *row)
{
	return row->verification == VERIFICATION_FAILED &&
	       row->verification_due_at > clock_wall_ms() &&
	       (is_of_class(row, ERR_CONFIG) || is_of_class(row, ERR_CORRUPT)) &&
	       !blob_row_is_damaged(row);
}

static void say_wrong_name(struct err *why)
{
	err_set(why, ERR_CORRUPT, "its content is not the one that its name says");
	err_because(why, REASON_WRONG_NAME);
	err_remedy(why, "put the right file there, as from a secondary or a backup");
}

static void say_damaged(struct err *why)
{
	err_set(why, ERR_CORRUPT,
		"its content is not what it was, although nobody has written to it: the "
		"disk has damaged it");
	err_because(why, REASON_DAMAGED);
	err_remedy(why, "put it back from a secondary or a backup; if it is right, touch "
			"it");
}

/* True: it is not what it was, but no change either. */
static bool is_damaged(const struct blob_kind *kind, const struct origin_row *row,
		       const struct blob_result *result, struct err *why)
{
	char claimed[BLOB_DIGEST_SIZE], text[BLOB_PRINT_SIZE];

	if (blob_id_digest(kind, row->name, claimed)) {
		if (strcmp(claimed, result->digest) != 0)
			say_wrong_name(why);
		return strcmp(claimed, result->digest) != 0;
	}
	blob_print_format(&result->print, text);
	if (!row->is_settled || !row->checksum || !row->print ||
	    strcmp(row->checksum, result->digest) == 0 || strcmp(row->print, text) != 0)
		return false;
	say_damaged(why);
	return true;
}

struct recording {
	struct blob_notice *notice;
	const struct blob_kind *kind;
	struct blob_result *results;
	size_t count, events;
};

/* It was read, and is right. */
static int blob_notice_result_record_proof(struct store_tx *tx,
					   struct recording *recording,
					   const struct blob_result *result,
					   struct origin_row *row, struct err *err)
{
	bool differs = row->checksum && strcmp(row->checksum, result->digest) != 0;
	bool is_news = !row->checksum || row->failure;
	uint64_t event_id;

	row->generation += differs;
	blob_row_set_proved(row, &result->print, result->digest,
			    recording->notice->options.reverify_ms);
	row->is_settled = result->is_settled;
	if (!differs && !is_news)
		return 0;
	recording->events++;
	return blob_event_append(tx, recording->kind,
				 differs ? EVENT_UPDATED : EVENT_CHECKSUMMED, row,
				 &event_id, err);
}

/* What it says is put into the row. */
static int blob_notice_result_apply(struct store_tx *tx, struct recording *recording,
				    struct blob_result *result, struct origin_row *row,
				    struct err *err)
{
	result->verdict = result->why;
	if (result->is_deferred) {
		row->verification_due_at = clock_wall_ms() + DEFERRED_MS;
		return 0;
	}
	if (result->why.class == ERR_NONE &&
	    !is_damaged(recording->kind, row, result, &result->verdict))
		return blob_notice_result_record_proof(tx, recording, result, row, err);
	set_failed(row, &result->verdict);
	return 0;
}

static int record_one(struct store_tx *tx, struct recording *recording,
		      struct blob_result *result, struct err *err)
{
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };
	int found = blob_row_read_again(tx, recording->kind, result->row->name,
					result->row, &row, err);
	uint64_t generation = row.generation;

	if (found < 0)
		return err->class == ERR_CONFLICT ? 0 : -1;
	if (blob_notice_result_apply(tx, recording, result, &row, err) != 0)
		return -1;
	return origin_row_update(tx, &row, generation, err);
}

static int record_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct recording *recording = arg;

	recording->events = 0;
	for (size_t i = 0; i < recording->count; i++)
		if (record_one(tx, recording, &recording->results[i], err) != 0)
			return -1;
	return 0;
}

int blob_notice_record(struct blob_notice *notice, const struct blob_kind *kind,
		       struct blob_result *results, size_t count, struct err *err)
{
	struct recording recording = {
		.notice = notice, .kind = kind, .results = results, .count = count
	};

	if (count == 0)
		return 0;
	failpoint("blobs.record");
	if (store_write(notice->options.store, record_work, &recording, err) != 0)
		return -1;
	failpoint("blobs.recorded");
	blob_notice_tell(notice, recording.events > 0, false);
	return 0;
}
