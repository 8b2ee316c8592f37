/*
 * Each file is proved on its way by the digest that it ends in: that is what the primary
 * has on its disk. Whether that is sound is another question, so all objects are read
 * here before anything of the copy is published, as git's fetch would have done.
 */
#include "pull/bring_packs.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "base/metrics.h"
#include "git/objects.h"
#include "git/pack_incoming.h"
#include "git/pack_list.h"
#include "git/pack_prove.h"
#include "git/packs.h"
#include "pull/source.h"
#include "verify/verify_objects.h"

#define STALL_MS 60000
/* Of a file whose connection broke: so many bytes more are worth another attempt at once.
 * Without them, the waits before attempts are doubled from the first to the last. */
#define GOES_ON_BYTES ((uint64_t)64 << 10)
#define WAIT_FIRST_MS 1000
#define WAIT_MOST_MS 16000
#define GIVE_UP_MS 180000
/* Before anything has come: nothing is lost then by what is tried next. */
#define GIVE_UP_EARLY_MS 5000
/* How often the packs are listed, when the primary has others by then. */
#define TRIES 3

struct bring_packs {
	struct primary_line *line;
	const struct source_want *want;
	wire_packs packs;
	uint64_t bytes, objects;
	int64_t begun, copied_ms;
	bool has_come; /* at least a byte of a file */
};

struct bring_file {
	struct bring_packs *bring;
	char *name;
	uint64_t size;
	struct pack_incoming *incoming;
	char etag[PRIMARY_PACK_ETAG_SIZE]; /* "": not known yet */
	uint64_t good;                     /* bytes that were here, */
	int64_t good_at;                   /* ... and when, when it last went on */
	int64_t wait_ms;                   /* the last wait; 0: none since */
};

bool bring_packs_is_worth_it(const struct source_want *want)
{
	return want->is_new && !want->is_anew &&
	       want->view->pack_bytes >= PACKS_WORTH_COPYING;
}

static int bring_file_take(void *arg, const struct pack_head *head, const void *bytes,
			   size_t len, struct err *err)
{
	struct bring_file *file = arg;
	const struct git_work *work = file->bring->want->work;

	if (head->size != file->size)
		return err_set(err, ERR_CONFLICT, "%s is another file by now",
			       file->name);
	snprintf(file->etag, sizeof(file->etag), "%s", head->etag);
	if (git_work_check(work, err) != 0 ||
	    pack_incoming_write(file->incoming, bytes, len, err) != 0)
		return -1;
	if (work->bytes)
		atomic_fetch_add(work->bytes, len);
	file->bring->has_come = true;
	failpoint("packs.arriving");
	return 0;
}

/* What has come is good. The next attempt is made at once if that is more than before. */
static void bring_file_note(struct bring_file *file)
{
	const uint64_t here = pack_incoming_here(file->incoming);

	if (here - file->good >= GOES_ON_BYTES) {
		file->good = here;
		file->good_at = clock_boot_ms();
		file->wait_ms = 0;
	} else if (file->wait_ms == 0) {
		file->wait_ms = WAIT_FIRST_MS;
	} else if (file->wait_ms < WAIT_MOST_MS) {
		file->wait_ms *= 2;
	}
}

/* The primary may be back soon; but what refuses from the start is not waited for. */
static bool bring_file_may_continue(const struct bring_file *file, const struct err *why)
{
	const struct bring_packs *bring = file->bring;
	const int64_t most_ms = bring->has_come ? GIVE_UP_MS : GIVE_UP_EARLY_MS;

	return (why->class == ERR_NETWORK || why->class == ERR_TIMEOUT) &&
	       clock_boot_ms() - file->good_at < most_ms &&
	       (bring->has_come || !primary_line_was_answered(bring->line));
}

static int bring_file_retry(struct bring_file *file, struct err *err)
{
	const struct git_work *work = file->bring->want->work;

	bring_file_note(file);
	if (!bring_file_may_continue(file, err) || git_work_check(work, err) != 0)
		return -1;
	log_info("sync.pack_resumed",
		 LOG_NUMBER("bytes", pack_incoming_here(file->incoming)),
		 LOG_TEXT("name", file->name), LOG_NUMBER("wait_ms", file->wait_ms),
		 LOG_ERR(err));
	return git_work_wait(work, file->wait_ms, err);
}

static int bring_file_ask(struct bring_file *file, struct err *err)
{
	const struct bring_packs *bring = file->bring;
	const struct pack_part part = { .repository = bring->want->name,
					.file = file->name,
					.etag = file->etag,
					.offset = pack_incoming_here(file->incoming),
					.length = file->size -
						  pack_incoming_here(file->incoming),
					.stall_ms = STALL_MS };

	return primary_pack_read(
		bring->line, &part,
		&(struct pack_part_sink){ .take = bring_file_take, .arg = file }, err);
}

static int bring_file_all(struct bring_file *file, struct err *err)
{
	while (pack_incoming_here(file->incoming) < file->size) {
		const uint64_t before = pack_incoming_here(file->incoming);
		int result = bring_file_ask(file, err);
		if (result == 0 && pack_incoming_here(file->incoming) <= before)
			return wire_lied(err, "it sends nothing of %s", file->name);
		if (result != 0 && bring_file_retry(file, err) != 0)
			return -1;
	}
	return pack_incoming_finish(file->incoming, err);
}

static int bring_packs_file(struct bring_packs *bring, const struct wire_pack *pack,
			    const char *end, uint64_t size, struct err *err)
{
	struct bring_file file = { .bring = bring,
				   .name = xasprintf("%s.%s", pack->name, end),
				   .size = size,
				   .good_at = clock_boot_ms() };
	int result = pack_incoming_open(bring->want->copy, file.name, size,
					&file.incoming, err);

	if (result == 0)
		result = bring_file_all(&file, err);
	pack_incoming_close(file.incoming);
	free(file.name);
	return result;
}

/* Until its index is there it is no pack for git. */
static int bring_packs_pack(struct bring_packs *bring, const struct wire_pack *pack,
			    struct err *err)
{
	if (bring_packs_file(bring, pack, "pack", pack->bytes, err) != 0 ||
	    bring_packs_file(bring, pack, "idx", pack->index_bytes, err) != 0)
		return -1;
	bring->bytes += pack->bytes;
	bring->objects += pack->objects;
	return pack_list_check_index(bring->want->copy, pack->name, err);
}

/* A new copy has no packs but these. */
static void bring_packs_discard(const struct bring_packs *bring)
{
	for (size_t i = 0; i < bring->packs.count; i++)
		pack_list_remove(bring->want->copy, bring->packs.items[i].name,
				 ERR_IGNORED);
}

/* From now on it is known how much is to come; or, with `count` 0, it no longer is. */
static void bring_packs_tell_size(const struct bring_packs *bring, size_t count)
{
	const struct git_work *work = bring->want->work;
	uint64_t bytes = 0;

	if (!work->bytes || !work->bytes_at_end)
		return;
	for (size_t i = 0; i < count; i++)
		bytes += bring->packs.items[i].bytes + bring->packs.items[i].index_bytes;
	atomic_store(work->bytes_at_end,
		     count > 0 ? atomic_load(work->bytes) + bytes : 0);
}

static int bring_packs_copy_once(struct bring_packs *bring, struct err *err)
{
	bring->bytes = bring->objects = 0;
	if (primary_packs(bring->line, bring->want->name, &bring->packs, err) != 0)
		return -1;
	bring_packs_tell_size(bring, bring->packs.count);
	for (size_t i = 0; i < bring->packs.count; i++)
		if (bring_packs_pack(bring, &bring->packs.items[i], err) != 0)
			return -1;
	return dir_sync(bring->want->copy->fd, "objects/pack", err);
}

/* It repacks while its packs are copied: those that it has now are listed again. */
static int bring_packs_copy(struct bring_packs *bring, struct err *err)
{
	int result = -1;

	for (int tries = 0; tries < TRIES; tries++) {
		wire_packs_clear(&bring->packs);
		result = bring_packs_copy_once(bring, err);
		if (result == 0 ||
		    (err->class != ERR_MISSING && err->class != ERR_CONFLICT))
			break;
		bring_packs_discard(bring);
	}
	bring->copied_ms = clock_boot_ms() - bring->begun;
	return result;
}

/* Every object of the packs is read. */
static int bring_packs_verify(const struct bring_packs *bring, struct err *err)
{
	const struct source_want *want = bring->want;
	int result = 0;

	for (size_t i = 0; result == 0 && i < bring->packs.count; i++)
		result = pack_prove(want->work, want->copy, bring->packs.items[i].name,
				    err);
	return result > 0 ? verify_packs(want->work, want->copy, err) : result;
}

/* 1: all that is wanted is here; 0: git is to bring the rest, as what is loose there. */
static int bring_packs_prove(const struct bring_packs *bring, struct err *err)
{
	const struct source_want *want = bring->want;

	if (bring_packs_verify(bring, err) != 0)
		return err_prefix(err, "the primary's packs");
	failpoint("packs.verified");
	return objects_are_complete(want->work, want->copy, want->oids, err);
}

static void bring_packs_report(const struct bring_packs *bring, int complete)
{
	log_info("sync.packs", LOG_NUMBER("dur_ms", clock_boot_ms() - bring->begun),
		 LOG_NUMBER("bytes", bring->bytes),
		 LOG_NUMBER("packs", bring->packs.count),
		 LOG_NUMBER("objects", bring->objects),
		 LOG_NUMBER("copied_ms", bring->copied_ms),
		 LOG_TEXT("complete", complete ? "yes" : "no"));
}

static struct metric *bring_packs_counter(void)
{
	return metric_counter("refrelay_pack_copies_total",
			      "First copies that were tried by packs.", "state");
}

static void bring_packs_count(const char *how)
{
	metric_add(metric_at(bring_packs_counter(), how), 1);
}

void bring_packs_begin_metrics(void)
{
	metric_begin(bring_packs_counter(),
		     METRIC_LIST("copied", "unavailable", "failed"), NULL);
}

/* What ends the work from outside, or happened on this machine, git would meet, too, as
 * it would a primary that went away meanwhile. But where nothing has come, it is there:
 * it told its refs a moment ago. Somebody between the sites may end, or swallow, just
 * these requests.
 */
static bool bring_packs_may_fetch(const struct bring_packs *bring, const struct err *err)
{
	if (err->class == ERR_TIMEOUT)
		return !bring->has_come &&
		       git_work_check(bring->want->work, ERR_IGNORED) == 0;
	return err->class != ERR_CANCELED && err->class != ERR_LOST &&
	       err->class != ERR_DISK &&
	       (err->class != ERR_NETWORK || !bring->has_come ||
		primary_line_was_answered(bring->line));
}

/* That the primary has no packs worth copying is no failure. */
static int bring_packs_give_up(const struct bring_packs *bring, struct err *err)
{
	bring_packs_discard(bring);
	bring_packs_tell_size(bring, 0);
	if (!bring_packs_may_fetch(bring, err))
		return -1;
	if (err->class == ERR_CONFIG) {
		bring_packs_count("unavailable");
		log_debug("sync.no_packs", LOG_ERR(err));
		return 1;
	}
	bring_packs_count("failed");
	log_warn("sync.packs_failed", LOG_ERR(err));
	return 1;
}

int bring_packs(struct primary_line *line, const struct source_want *want,
		struct err *err)
{
	struct bring_packs bring = { .line = line,
				     .want = want,
				     .begun = clock_boot_ms() };
	int result = bring_packs_copy(&bring, err);

	if (result == 0)
		result = bring_packs_prove(&bring, err);
	if (result < 0) {
		result = bring_packs_give_up(&bring, err);
	} else {
		bring_packs_count("copied");
		bring_packs_report(&bring, result);
		if (result == 0) /* how much Git is going to fetch is not known */
			bring_packs_tell_size(&bring, 0);
		result = result > 0 ? 0 : source_fetch_rest(want, err);
	}
	wire_packs_clear(&bring.packs);
	return result;
}
