#include "pull/mirror_job.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/retry.h"
#include "git/refs.h"
#include "git/repo.h"
#include "mirror/checkouts.h"
#include "mirror/requests.h"
#include "mirror/then_teller.h"
#include "pull/copy_record.h"
#include "pull/mirror_adopt.h"
#include "pull/mirror_lfs.h"
#include "pull/mirror_source.h"
#include "pull/pull_parts.h"
#include "pull/repository_job.h"
#include "pull/repository_maintenance.h"
#include "replicable/name.h"
#include "upkeep/checkout.h"

#define REFS_TIMEOUT_MS 60000

static int mirror_job_open(struct pull_job *job, struct err *err)
{
	struct pull_item *item = &job->items[0];

	(void)err;
	item->is_uncounted = item->row->is_gone;
	return 0;
}

/* What the clone's HEAD names. */
static void mirror_job_read_head(const struct pull_job *job,
				 struct mirror_request *request)
{
	AUTO_FREE char *path =
		name_to_copy(job->pull->options.here->root, request->mirror);
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;
	AUTO_REPO struct repo copy = REPO_INIT;
	char text[OID_MAX_TEXT];
	struct oid head;

	if (repo_open(AT_FDCWD, path, &copy, ERR_IGNORED) != 0 ||
	    ref_snapshot_read(copy.fd, copy.oid_len, &refs, ERR_IGNORED) != 0)
		return;
	if (ref_snapshot_head(&refs, &head))
		request->commit = xstrdup(oid_text(&head, text));
	if (refs.head_target && text_starts_with(refs.head_target, "refs/heads/"))
		request->branch = xstrdup(refs.head_target + strlen("refs/heads/"));
}

/* The working tree, if it shows that commit; else why not. */
static void mirror_job_read_checkout(const struct pull_job *job,
				     struct mirror_request *request)
{
	const struct pull_options *options = &job->pull->options;
	const struct mirror *mirror = mirrors_find(options->mirrors, request->mirror);
	AUTO_MIRROR_CHECKOUT struct mirror_checkout row = { 0 };
	struct err why;

	if (!mirror || !mirror->has_checkout ||
	    mirror_checkout_read(options->store, mirror->name, &row, ERR_IGNORED) <= 0)
		return;
	if (row.commit && request->commit && strcmp(row.commit, request->commit) == 0)
		request->checkout = checkout_path(options->here->root, mirror->name);
	if (row.failing_since == 0)
		return;
	err_set(&why, err_class_of_name(row.class), "the working tree: %s", row.message);
	err_because(&why, err_reason_of_name(row.reason));
	if (row.remedy)
		err_remedy(&why, "%s", row.remedy);
	mirror_request_set_failure(request, &why);
}

static void mirror_job_say_held(const struct pull_item *item,
				struct mirror_request *request)
{
	struct err why;

	err_set(&why, ERR_CONFLICT, "it is held: %s", item->held_reason);
	if (item->remedy)
		err_remedy(&why, "%s", item->remedy);
	request->state = MIRROR_REQUEST_FAILED;
	mirror_request_set_failure(request, &why);
}

static void mirror_job_wait_again(struct mirror_request *request, int64_t in_ms)
{
	request->state = MIRROR_REQUEST_WAITING;
	request->next_at = clock_wall_ms() + in_ms;
}

/* A request that somebody waits for has one try; others come back after what no upstream
 * is to blame for. */
static void mirror_job_say_failed(const struct pull_item *item,
				  struct mirror_request *request)
{
	request->state = MIRROR_REQUEST_FAILED;
	mirror_request_set_failure(request, &item->why);
	if (item->why.class == ERR_CANCELED)
		mirror_job_wait_again(request, 0);
	else if (err_is_deferral(item->why.class) && !request->is_once)
		mirror_job_wait_again(
			request,
			retry_random_delay_ms((uint64_t)request->attempts, RETRY_CAP));
}

/* Whether the mirror's row has its end by it. */
static bool mirror_job_end_request(struct pull_job *job, struct mirror_request *request)
{
	const struct pull_item *item = &job->items[0];
	struct err err;
	bool is_end = item->end != PULL_FAILED && item->end != PULL_WAITS;

	request->ended_at = clock_wall_ms();
	request->waited_ms = (job->leased_at > 0 ? job->leased_at : request->ended_at) -
			     request->asked_at;
	if (item->end == PULL_HELD) {
		mirror_job_say_held(item, request);
	} else if (is_end && item->why.class == ERR_NONE) {
		request->state = MIRROR_REQUEST_DONE;
		mirror_request_forget_failure(request);
		mirror_job_read_head(job, request);
		mirror_job_read_checkout(job, request);
	} else {
		mirror_job_say_failed(item, request);
	}
	if (request->state == MIRROR_REQUEST_WAITING)
		request->ended_at = 0;
	if (mirror_request_save(job->pull->options.store, request, &err) != 0)
		log_error("registry.failed", LOG_ERR(&err));
	return is_end;
}

static void mirror_job_open_item(struct pull_item *item)
{
	free(TAKE(item->held_reason));
	free(TAKE(item->remedy));
	item->end = PULL_OPEN;
	item->why = (struct err){ 0 };
	item->wait_ms = 0;
	item->is_final = false;
}

/* Whatever this job, or one before it that died, has changed. */
static void mirror_job_take_change(struct pull_job *job, struct source *source)
{
	const struct watcher *watcher;
	struct then_origin origin = { .job = job->id,
				      .checked_at = source_read_at(source, &watcher) };

	origin.watcher = watcher ? watcher->name : NULL;
	then_teller_take(job->pull->options.teller, job->items[0].row->name, &origin);
}

static void mirror_job_keep_checkout(struct pull_job *job, struct job *leased)
{
	const struct pull_options *options = &job->pull->options;
	const struct mirror *mirror =
		mirrors_find(options->mirrors, job->items[0].row->name);
	const struct mirror_checkout_site site = { .store = options->store,
						   .leases = options->leases,
						   .root = options->here->root };

	if (mirror)
		mirror_checkout_keep(&site, mirror, leased);
}

/* The refs are there in any case: what objects of LFS are not fails the request, but not
 * the mirror's row. */
static void mirror_job_bring_lfs(struct pull_job *job, struct source *source,
				 bool is_asked)
{
	const struct watcher *watcher;
	struct err err;

	source_read_at(source, &watcher);
	if (mirror_lfs_bring(job, watcher, is_asked, &err) != 0)
		job->items[0].why = err;
}

static void mirror_job_bring_from(struct pull_job *job, const struct watcher *watcher,
				  bool is_asked)
{
	struct pull_item *item = &job->items[0];
	struct source *source = source_new_upstreams(
		&(struct upstream_call){ .mirrors = job->pull->options.mirrors,
					 .watcher = watcher,
					 .marks = job->pull->options.marks,
					 .is_asked = is_asked,
					 .timeout_ms = REFS_TIMEOUT_MS,
					 .stop = &job->pull->kill },
		pull_settings_now(job->pull).takes_deltas);

	job->brought = mirror_job_keep_checkout;
	repository_bring_from(job, source);
	if (item->end == PULL_FAILED) {
		item->wait_ms = source_retry_after_ms(source);
		item->is_final = source_is_refused(source);
	} else if (item->end != PULL_HELD) {
		mirror_job_take_change(job, source);
		mirror_job_bring_lfs(job, source, is_asked);
	}
	source_free(source);
}

/* With the credentials of that watcher, or with those of the mirror's watchers in turn.
 * What an upstream wants of rest, it gets. */
static void mirror_job_bring_as(struct pull_job *job, const struct watcher *watcher,
				bool is_asked)
{
	struct pull_item *item = &job->items[0];
	struct err err;

	mirror_job_open_item(item);
	if (mirror_adopt(job, &err) != 0)
		pull_item_fail_here(item, &err);
	else
		mirror_job_bring_from(job, watcher, is_asked);
}

/* The watcher may have gone from the configuration since it was asked for. */
static int mirror_job_find_watcher(const struct pull_job *job,
				   const struct mirror_request *request,
				   const struct watcher **watcher, struct err *err)
{
	const struct mirrors *mirrors = job->pull->options.mirrors;
	const struct mirror *mirror = mirrors_find(mirrors, request->mirror);

	*watcher = NULL;
	if (!mirror || !request->watcher)
		return 0; /* the source says that there is no such mirror */
	return mirrors_find_watcher(mirrors, mirror, request->watcher, watcher, err);
}

/* With nothing left, mostly because no worker was free for so long, it begins anew. So
 * others may have the mirror for two whole waits: before this job begins, and in it. What
 * requests before it in this job have waited in vain, it has waited, too. */
static int64_t mirror_job_wait_ms(const struct mirror_request *request, int64_t vain_ms)
{
	int64_t left = request->asked_at + request->wait_ms - clock_wall_ms();
	int64_t most = vain_ms > 0 && request->wait_ms > 0
			       ? int64_max(request->wait_ms - vain_ms, 1)
			       : request->wait_ms;

	return request->is_once && left > 0 ? int64_min(left, most) : most;
}

static bool mirror_job_run_request(struct pull_job *job, struct mirror_request *request,
				   int64_t *vain_ms)
{
	struct pull_item *item = &job->items[0];
	const int64_t began_at = clock_boot_ms();
	const unsigned wishes = item->row->wishes;
	const struct watcher *watcher;
	struct err err;

	job->leased_at = 0;
	request->has_changed = false;
	pull_job_take_id(job, request->id);
	if (mirror_job_find_watcher(job, request, &watcher, &err) != 0) {
		pull_item_fail(item, &err);
		return mirror_job_end_request(job, request);
	}
	job->lease_wait_ms = mirror_job_wait_ms(request, *vain_ms);
	item->row->wishes |= request->wishes;
	mirror_job_bring_as(job, watcher, true);
	item->row->wishes = wishes;
	job->lease_wait_ms = 0;
	if (item->why.class == ERR_LOCK_TIMEOUT ||
	    item->why.class == ERR_LOCK_UNAVAILABLE)
		*vain_ms += clock_boot_ms() - began_at;
	request->has_changed = pull_item_is_placed(item);
	return mirror_job_end_request(job, request);
}

/* Whether what became of one that was taken together with it is its end, too: it was
 * asked before that one began. What may pass by itself is tried again. */
static bool mirror_job_is_served(const struct pull_job *job,
				 const struct mirror_request *served,
				 const struct mirror_request *request)
{
	const struct pull_item *item = &job->items[0];

	return text_is_same(served->watcher, request->watcher) &&
	       served->wishes == request->wishes && item->end != PULL_WAITS &&
	       item->why.class != ERR_CONFLICT && !err_is_deferral(item->why.class);
}

/* Without work of its own, so nothing else in the log has its id. */
static bool mirror_job_share_end(struct pull_job *job,
				 const struct mirror_request *served,
				 struct mirror_request *request)
{
	pull_job_take_id(job, request->id);
	log_info("mirror.shared", LOG_TEXT("with", served->id));
	request->has_changed = false;
	return mirror_job_end_request(job, request);
}

/* Whether the mirror's row has its end by one of them. */
static bool mirror_job_run_requests(struct pull_job *job, const mirror_requests *requests)
{
	const struct mirror_request *served = NULL;
	int64_t vain_ms = 0;
	bool has_end = false;

	for (size_t i = 0; i < requests->count; i++) {
		struct mirror_request *request = &requests->items[i];
		if (served && mirror_job_is_served(job, served, request)) {
			has_end |= mirror_job_share_end(job, served, request);
			continue;
		}
		has_end |= mirror_job_run_request(job, request, &vain_ms);
		served = request;
	}
	return has_end;
}

/* A forced one that was held met something else than a person had permitted: what that
 * is, the next try says, by which the row is held (pull/bring.c). */
static bool mirror_job_was_forced_in_vain(const struct pull_job *job,
					  const mirror_requests *requests)
{
	return requests->count > 0 && job->items[0].end == PULL_HELD &&
	       requests->items[requests->count - 1].wishes & REGISTRY_WISH_FORCE;
}

static void mirror_job_bring(struct pull_job *job)
{
	AUTO_MIRROR_REQUESTS mirror_requests requests = { 0 };
	struct pull_item *item = &job->items[0];
	struct err err;

	if (item->end != PULL_OPEN)
		return;
	if (mirror_requests_take(job->pull->options.store, item->row->name, &requests,
				 &err) != 0)
		log_error("registry.failed", LOG_ERR(&err));
	if (mirror_job_run_requests(job, &requests) && item->end != PULL_FAILED &&
	    !mirror_job_was_forced_in_vain(job, &requests))
		return;
	if (requests.count > 0)
		pull_job_take_id(job, NULL); /* it is nobody's request */
	mirror_job_bring_as(job, NULL, item->row->wishes != 0);
}

static void mirror_job_end(struct pull_job *job)
{
	then_teller_wake(job->pull->options.teller, job->rows.items[0].name);
	repository_end(job);
}

/* What keeps this machine from looking says nothing of the clone. The record was read
 * before. */
static bool mirror_job_is_unchanged(const struct copy_record *record, int clone)
{
	const enum copy_stamps stamps = copy_record_look(record, clone);

	return stamps == COPY_STAMPS_SAME || stamps == COPY_STAMPS_UNKNOWN ||
	       repository_is_maintained(clone, record);
}

bool mirror_job_stands(const char *root, const char *name, const char *checksum)
{
	AUTO_FREE char *path = name_to_copy(root, name);
	AUTO_CLOSE int copy = dir_open(AT_FDCWD, path, ERR_IGNORED);
	AUTO_RECORD struct copy_record record = { 0 };
	struct checksum sum;

	if (copy < 0 || !checksum_parse(checksum, &sum))
		return false;
	copy_record_read(copy, &record);
	return copy_record_is_latest(&record, copy) &&
	       checksum_equal(&record.sum, &sum) &&
	       mirror_job_is_unchanged(&record, copy);
}

char *mirror_job_source(int clone)
{
	AUTO_RECORD struct copy_record record = { 0 };

	copy_record_read(clone, &record);
	return record.source ? xstrdup(record.source) : NULL;
}

/* What is equal to the row counts for the upstream's, even if it came another way. Of
 * another node's upstream, too, records tell that it was one. */
int mirror_job_is_from_elsewhere(const struct registry_row *row, int clone,
				 struct err *err)
{
	AUTO_RECORD struct copy_record record = { 0 };
	char sum[CHECKSUM_TEXT_SIZE];

	copy_record_read(clone, &record);
	if (record.is_kept_back)
		return err_set(err, ERR_DISK, "the record of %s cannot be read now",
			       row->name);
	checksum_format(&record.sum, sum);
	return record.timeline[0] && !record.is_foreign &&
	       strcmp(record.timeline, row->timeline) != 0 &&
	       (!row->checksum || strcmp(row->checksum, sum) != 0);
}

const struct copy_kind_ops mirror_copy_ops = {
	.workers = PULL_SYNC_WORKERS,
	.is_needed = true,
	.bring_most = 1,
	.verify_most = 1,
	.begin = repository_begin,
	.look = glance_look_at_repository,
	.open = mirror_job_open,
	.remove = repository_remove,
	.bring = mirror_job_bring,
	.verify = repository_verify,
	.end = mirror_job_end,
	.maintain = repository_maintain,
};
