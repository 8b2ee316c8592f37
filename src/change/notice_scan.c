/*
 * Two sorted lists are merged: what stands on disk, and the rows, a page at a time. A
 * repository is read only where its fingerprint does not prove that it is as recorded.
 * What seems to be gone is compared last, so that a renamed one is never nowhere.
 */
#include <stdatomic.h>

#include "base/file.h"
#include "base/log.h"
#include "change/notice_parts.h"
#include "replicable/name.h"

#define PAGE 250
#define THREADS 3       /* beside the caller's */
#define THREAD_SHARE 16 /* fewer comparisons are not worth one */

typedef VEC(char *) name_list; /* owned */

struct scan {
	struct notice *notice;
	const struct stop *stop;
	struct notice_scan_result *result;
	bool is_first; /* of a new database */
	int root;
	struct discovery discovery;
	size_t at; /* in the discovery: all before it are done */
	name_list suspects, gone;
	struct map troubles; /* as in struct notice; guarded by its mutex */
};

static void clear_names(name_list *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->items[i]);
	vec_clear(names);
}

struct page {
	char *after; /* owned */
	origin_rows rows;
};

static int notice_scan_read_page_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct page *page = arg;

	origin_rows_clear(&page->rows);
	return origin_rows_list(tx, KIND_REPOSITORY, page->after, PAGE, &page->rows, err);
}

/* Whether this is the first scan that meets this trouble. */
static bool notice_scan_is_news(struct scan *scan, const char *where,
				const struct err *why)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&scan->notice->mutex);
	const char *before = map_get(&scan->notice->troubles, where);

	free(map_put(&scan->troubles, where, xstrdup(why->text)));
	return !before || strcmp(before, why->text) != 0;
}

static void forget_troubles(struct map *troubles)
{
	const struct map_entry *entry;
	size_t at = 0;

	while ((entry = map_next(troubles, &at)) != NULL)
		free(entry->value);
	map_clear(troubles);
}

/* What this scan met is what the next one knows. */
static void keep_troubles(struct scan *scan)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&scan->notice->mutex);
	struct map before = scan->notice->troubles;

	scan->notice->troubles = scan->troubles;
	scan->troubles = before;
}

static void notice_scan_count_left_out(struct notice_scan_result *result,
				       const struct discover_finding *finding)
{
	AUTO_STR struct str text = STR_INIT;

	if (finding->is_harmless || result->left_out++ > 0)
		return;
	str_add_printable(&text, finding->path);
	str_addf(&text, ": %s", finding->err.text);
	if (finding->err.remedy[0])
		str_addf(&text, " (%s)", finding->err.remedy);
	snprintf(result->example, sizeof(result->example), "%s", text.data);
}

static void notice_scan_report_findings(struct scan *scan)
{
	for (size_t i = 0; i < scan->discovery.findings.count; i++) {
		const struct discover_finding *finding =
			&scan->discovery.findings.items[i];
		notice_scan_count_left_out(scan->result, finding);
		if (notice_scan_is_news(scan, finding->path, &finding->err))
			log_at(finding->is_harmless ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR,
			       "scan.finding", LOG_TEXT("path", finding->path),
			       LOG_ERR(&finding->err));
	}
}

static void notice_scan_count_compared(struct scan *scan, const struct noticed *noticed)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&scan->notice->mutex);

	scan->result->looked_into++;
	scan->result->changed += noticed->is_changed;
}

static int notice_scan_observe(struct scan *scan, const char *name, enum absence absence,
			       struct err *err)
{
	AUTO_NOTICED struct noticed noticed = { 0 };
	bool may;
	int result = notice_may_look(scan->notice, name, &may, err);

	if (result != 0 || !may)
		return result;
	result = notice_compare_scanned(scan->notice, name, scan->is_first, absence,
					&noticed, err);
	notice_scan_count_compared(scan, &noticed);
	return result;
}

static void notice_scan_compare(struct scan *scan, const char *name, enum absence absence)
{
	struct err err;
	int result = notice_scan_observe(scan, name, absence, &err);

	if (result == 0 || err.class == ERR_MISSING ||
	    !notice_scan_is_news(scan, name, &err))
		return;
	log_at(err_is_transient(err.class) ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR,
	       "scan.failed", LOG_TEXT("repo", name), LOG_ERR(&err));
}

static bool is_stopped(const struct scan *scan)
{
	return scan->stop && stop_is_requested(scan->stop);
}

static int check_stop(const struct scan *scan, struct err *err)
{
	if (!is_stopped(scan))
		return 0;
	return err_set(err, ERR_CANCELED, "the scan was interrupted");
}

struct work {
	struct scan *scan;
	const name_list *names;
	enum absence absence;
	atomic_size_t next;
};

static void *compare_next(void *arg)
{
	struct work *work = arg;
	size_t at;

	while (!is_stopped(work->scan) &&
	       (at = atomic_fetch_add(&work->next, 1)) < work->names->count)
		notice_scan_compare(work->scan, work->names->items[at], work->absence);
	return NULL;
}

/* Several at once share the commits that they wait for. */
static int notice_scan_compare_all(struct scan *scan, const name_list *names,
				   enum absence absence, struct err *err)
{
	struct work work = { .scan = scan, .names = names, .absence = absence };
	pthread_t threads[THREADS];
	size_t count = names->count / THREAD_SHARE;

	if (count > THREADS)
		count = THREADS;
	for (size_t i = 0; i < count; i++)
		thread_start(&threads[i], "scan", compare_next, &work);
	compare_next(&work);
	for (size_t i = 0; i < count; i++)
		thread_join(threads[i]);
	return check_stop(scan, err);
}

static bool notice_scan_is_as_recorded(const struct scan *scan,
				       const struct discovered *one,
				       const struct origin_row *row)
{
	struct fingerprint print;
	char text[FINGERPRINT_TEXT_SIZE];

	if (!row->checksum || !row->print || !row->identity || !row->is_settled ||
	    one->is_damaged || strcmp(row->path, one->path) != 0)
		return false;
	AUTO_CLOSE int fd = dir_open(scan->root, one->path, ERR_IGNORED);
	if (fd < 0 || fingerprint_take(fd, FINGERPRINT_REFS, &print, ERR_IGNORED) != 0)
		return false;
	fingerprint_format(&print, text);
	return strcmp(text, row->print) == 0;
}

/* At each scan anew: a server may have written its own hooks over ours. */
static void look_at_hooks(struct scan *scan, const struct discovered *one)
{
	const struct hook_place *place = scan->notice->options.hooks;
	AUTO_CLOSE int fd = place ? dir_open(scan->root, one->path, ERR_IGNORED) : -1;
	struct hook_look look;

	if (fd >= 0 && !one->is_damaged && hook_look(fd, place, &look, ERR_IGNORED) == 0)
		hook_count(&scan->result->hooks, one->name,
			   hook_look_state(&look, place));
}

/* Works off what was discovered up to the row's name; row NULL: all that is left. */
static void merge_row(struct scan *scan, const struct origin_row *row)
{
	while (scan->at < scan->discovery.found.count) {
		const struct discovered *one = &scan->discovery.found.items[scan->at];
		int order = row ? strcmp(one->name, row->name) : -1;
		if (order > 0)
			break;
		scan->at++;
		look_at_hooks(scan, one);
		if (order < 0 || !notice_scan_is_as_recorded(scan, one, row))
			vec_add(&scan->suspects, xstrdup(one->name));
		if (order == 0)
			return;
	}
	if (row)
		vec_add(&scan->gone, xstrdup(row->name));
}

/* 1: more may follow. */
static int merge_page(struct scan *scan, struct page *page, struct err *err)
{
	for (size_t i = 0; i < page->rows.count; i++) {
		if (check_stop(scan, err) != 0)
			return -1;
		merge_row(scan, &page->rows.items[i]);
	}
	if (page->rows.count < PAGE) {
		merge_row(scan, NULL);
		return 0;
	}
	free(page->after);
	page->after = xstrdup(page->rows.items[PAGE - 1].name);
	return 1;
}

static int notice_scan_merge(struct scan *scan, struct err *err)
{
	struct page page = { 0 };
	int result;

	do {
		result = store_read(scan->notice->options.store,
				    notice_scan_read_page_work, &page, err);
		if (result == 0)
			result = merge_page(scan, &page, err);
	} while (result > 0);
	origin_rows_clear(&page.rows);
	free(page.after);
	return result;
}

/* A directory in which nothing is found may be one that is not mounted. */
static int notice_scan_check_root(struct scan *scan, struct err *err)
{
	if (scan->discovery.found.count > 0)
		return notice_accept_root(scan->notice, scan->root, err);
	return scan->gone.count > 0 ? notice_check_root(scan->notice, scan->root, err)
				    : 0;
}

/* One that was interrupted, or failed, is followed by another first one. */
static int judge_first(struct scan *scan, struct err *err)
{
	enum event_scanned scanned;

	if (event_log_scanned(scan->notice->options.store, &scanned, err) != 0)
		return -1;
	scan->is_first = scanned == SCANNED_NOTHING;
	return 0;
}

static int notice_scan_run(struct scan *scan, struct err *err)
{
	scan->result->repositories = scan->discovery.found.count;
	if (notice_note_mounts(scan->notice, scan->root, &scan->discovery, err) != 0)
		return -1;
	notice_scan_report_findings(scan);
	if (notice_scan_merge(scan, err) != 0 ||
	    notice_scan_compare_all(scan, &scan->suspects, ABSENCE_LATER, err) != 0 ||
	    notice_scan_check_root(scan, err) != 0)
		return -1;
	scan->result->is_complete = discovery_is_complete(&scan->discovery);
	if (scan->result->is_complete &&
	    notice_scan_compare_all(scan, &scan->gone, ABSENCE_DELETED, err) != 0)
		return -1;
	keep_troubles(scan);
	return 0;
}

int notice_scan(struct notice *notice, const struct stop *stop,
		struct notice_scan_result *result, struct err *err)
{
	AUTO_CLOSE int root = notice_open_root(notice, err);
	struct scan scan = {
		.notice = notice, .stop = stop, .result = result, .root = root
	};
	int done = -1;

	*result = (struct notice_scan_result){ 0 };
	if (root >= 0 && judge_first(&scan, err) == 0 &&
	    discover(notice->options.root, &scan.discovery, err) == 0)
		done = notice_scan_run(&scan, err);
	if (done != 0)
		result->is_complete = false;
	forget_troubles(&scan.troubles);
	clear_names(&scan.suspects);
	clear_names(&scan.gone);
	discovery_clear(&scan.discovery);
	return done;
}
