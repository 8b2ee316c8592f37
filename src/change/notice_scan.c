/*
 * The scan of repositories. One is read only where its fingerprint does not prove that it
 * is as recorded. What seems to be gone is compared last, so that a renamed one is never
 * nowhere.
 */
#include <stdatomic.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/metrics.h"
#include "change/notice_parts.h"
#include "replicable/name.h"

#define THREADS 3       /* beside the caller's */
#define THREAD_SHARE 16 /* fewer comparisons are not worth one */

static struct notice *notice_scan_notice(const struct scan *scan)
{
	return scan->request->kind->notice;
}

static int notice_scan_open(struct scan *scan, struct err *err)
{
	struct discovery *discovery = xcalloc(1, sizeof(*discovery));

	scan->state = discovery;
	scan->root = notice_open_root(notice_scan_notice(scan), err);
	return scan->root < 0 ? -1 : discover(scan->request->kind->path, discovery, err);
}

static void notice_scan_close(struct scan *scan)
{
	if (scan->state)
		discovery_clear(scan->state);
	free(scan->state);
}

static int notice_scan_has_any(struct scan *scan, bool *has_any, struct err *err)
{
	const struct discovery *discovery = scan->state;

	(void)err;
	*has_any = discovery->found.count > 0;
	return 0;
}

/* At each scan anew: a server may have written its own hooks over ours. */
static void notice_scan_look_at_hooks(struct scan *scan, const struct discovered *one)
{
	const struct hook_place *place = notice_scan_notice(scan)->options.hooks;
	AUTO_CLOSE int fd = place ? dir_open(scan->root, one->path, ERR_IGNORED) : -1;
	struct hook_look look;

	if (fd >= 0 && !one->is_damaged && hook_look(fd, place, &look, ERR_IGNORED) == 0)
		hook_count(&scan->result->hooks, one->name,
			   hook_look_state(&look, place));
}

static int notice_scan_walk(struct scan *scan, const char *below, struct err *err)
{
	const struct discovery *discovery = scan->state;

	(void)below;
	scan->result->has_hooks = notice_scan_notice(scan)->options.hooks != NULL;
	for (size_t i = 0; i < discovery->mounts.count; i++)
		scan_enter(scan, discovery->mounts.items[i]);
	for (size_t i = 0; i < discovery->findings.count; i++) {
		const struct discover_finding *finding = &discovery->findings.items[i];
		scan_find(scan, &(struct scan_finding){ finding->path, &finding->err,
							finding->hides_names,
							finding->is_harmless });
	}
	for (size_t i = 0; i < discovery->found.count; i++) {
		const struct discovered *one = &discovery->found.items[i];
		const struct scan_item item = { .name = one->name,
						.path = one->path,
						.is_damaged = one->is_damaged };
		notice_scan_look_at_hooks(scan, one);
		if (scan_check_stop(scan, err) != 0 || scan_meet(scan, &item, err) != 0)
			return -1;
	}
	return 0;
}

static bool notice_scan_is_as_recorded(struct scan *scan, const struct scan_item *item,
				       const struct origin_row *row)
{
	struct fingerprint fingerprint;
	char text[FINGERPRINT_TEXT_SIZE];

	if (!row->checksum || !row->fingerprint || !row->identity || !row->is_settled ||
	    item->is_damaged || strcmp(row->path, item->path) != 0)
		return false;
	AUTO_CLOSE int fd = dir_open(scan->root, item->path, ERR_IGNORED);
	if (fd < 0 ||
	    fingerprint_take(fd, FINGERPRINT_REFS, &fingerprint, ERR_IGNORED) != 0)
		return false;
	fingerprint_format(&fingerprint, text);
	return strcmp(text, row->fingerprint) == 0;
}

static int notice_scan_observe(struct scan *scan, const char *name, enum absence absence,
			       struct err *err)
{
	AUTO_NOTICED struct noticed noticed = { 0 };
	struct notice *notice = notice_scan_notice(scan);
	bool may;
	int result = notice_may_look(notice, name, &may, err);

	if (result != 0 || !may)
		return result;
	result = notice_compare_scanned(notice, name, scan->is_first, absence, &noticed,
					err);
	scan_count(scan, noticed.is_changed);
	return result;
}

static void notice_scan_compare(struct scan *scan, const char *name, enum absence absence)
{
	struct err err;
	int result = notice_scan_observe(scan, name, absence, &err);

	if (result == 0 || err.class == ERR_MISSING || !scan_is_news(scan, name, &err))
		return;
	log_at(err_is_transient(err.class) ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR,
	       "scan.failed", LOG_TEXT("repo", name), LOG_ERR(&err));
}

struct notice_scan_work {
	struct scan *scan;
	char *const *names;
	size_t count;
	enum absence absence;
	atomic_size_t next;
};

static void *notice_scan_compare_next(void *arg)
{
	struct notice_scan_work *work = arg;
	size_t at;

	while (scan_check_stop(work->scan, ERR_IGNORED) == 0 &&
	       (at = atomic_fetch_add(&work->next, 1)) < work->count)
		notice_scan_compare(work->scan, work->names[at], work->absence);
	return NULL;
}

/* Several at once share the commits that they wait for. */
static int notice_scan_compare_all(struct scan *scan, char *const *names, size_t count,
				   bool are_gone, struct err *err)
{
	struct notice_scan_work work = {
		.scan = scan,
		.names = names,
		.count = count,
		.absence = are_gone ? ABSENCE_DELETED : ABSENCE_LATER,
	};
	pthread_t threads[THREADS];
	size_t share = count / THREAD_SHARE;

	(void)err;
	if (share > THREADS)
		share = THREADS;
	for (size_t i = 0; i < share; i++)
		thread_start(&threads[i], "scan", notice_scan_compare_next, &work);
	notice_scan_compare_next(&work);
	for (size_t i = 0; i < share; i++)
		thread_join(threads[i]);
	return 0;
}

/* Only that they have become fewer or more. */
static void notice_scan_log_hooks(struct notice *notice, const struct hook_counts *counts)
{
	int64_t lacking = hook_counts_lacking(counts);
	int64_t before = notice->lacking_hooks;

	notice->lacking_hooks = lacking;
	if (lacking > before)
		log_warn("hooks.lacking", LOG_NUMBER("repositories", lacking),
			 LOG_TEXT("example", counts->example),
			 LOG_TEXT("remedy", "run refrelay hooks install"));
	else if (lacking < before && lacking == 0)
		log_info("hooks.whole",
			 LOG_NUMBER("repositories", counts->states[HOOK_INSTALLED]));
}

static void notice_scan_report_hooks(struct notice *notice,
				     const struct hook_counts *counts)
{
	if (!notice->options.hooks)
		return;
	struct metric *gauge = metric_gauge(
		"refrelay_hooks", "Repositories by the state of their hooks.", "state");
	for (size_t i = 0; i < HOOK_STATES; i++)
		metric_set(metric_at(gauge, hook_state_name((enum hook_state)i)),
			   (double)counts->states[i]);
	notice_scan_log_hooks(notice, counts);
}

static void notice_scan_finish(const struct origin_kind *kind,
			       const struct scan_result *result, int64_t took_ms)
{
	notice_scan_report_hooks(kind->notice, &result->hooks);
	log_debug("watch.scanned", LOG_NUMBER("dur_ms", took_ms),
		  LOG_NUMBER("repositories", result->found),
		  LOG_NUMBER("looked_into", result->looked_into),
		  LOG_NUMBER("changed", result->changed));
}

struct origin_kind notice_origin_kind(struct notice *notice)
{
	static const struct origin_kind_ops ops = {
		.events = { "scan.finding", "watch.failed", "watch.not_kept" },
		.is_gone_last = true,
		.open = notice_scan_open,
		.close = notice_scan_close,
		.has_any = notice_scan_has_any,
		.walk = notice_scan_walk,
		.is_as_recorded = notice_scan_is_as_recorded,
		.compare = notice_scan_compare_all,
		.finish = notice_scan_finish,
	};

	return (struct origin_kind){ .ops = &ops,
				     .type = KIND_REPOSITORY,
				     .path = notice->options.root,
				     .store = notice->options.store,
				     .notice = notice };
}
