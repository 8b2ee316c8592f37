/*
 * Two sorted lists are merged as they come: what the walk meets, and rows, a page at a
 * time. What is as its row says costs one look at it; others, and rows of which nothing
 * stands there, are suspects, which are compared in groups.
 */
#include "change/scan.h"

#include "base/log.h"
#include "change/notice_parts.h"
#include "change/origin_root.h"

#define PAGE 1000
#define GROUP 500

int scan_check_stop(const struct scan *scan, struct err *err)
{
	if (!scan->request->stop || !stop_is_requested(scan->request->stop))
		return 0;
	return err_set(err, ERR_CANCELED, "the scan was interrupted");
}

bool scan_is_news(struct scan *scan, const char *where, const struct err *why)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&scan->mutex);
	const char *before = map_get(scan->request->troubles, where);

	free(map_put(&scan->troubles, where, xstrdup(why->text)));
	return !before || strcmp(before, why->text) != 0;
}

void scan_count(struct scan *scan, bool is_changed)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&scan->mutex);

	scan->result->looked_into++;
	scan->result->changed += is_changed;
}

void scan_set_incomplete(struct scan *scan)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&scan->mutex);

	scan->result->is_complete = false;
}

void scan_leave_out(struct scan *scan, const char *path, const struct err *why)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&scan->mutex);
	struct scan_result *result = scan->result;
	AUTO_STR struct str text = STR_INIT;

	if (result->left_out++ > 0)
		return;
	str_add_printable(&text, path);
	str_addf(&text, ": %s", why->text);
	if (why->remedy[0])
		str_addf(&text, " (%s)", why->remedy);
	snprintf(result->example, sizeof(result->example), "%s", text.data);
}

static void scan_note_no_row(struct scan *scan)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&scan->mutex);

	scan->result->lacks_rows = true;
}

void scan_note_unrecorded(struct scan *scan, char *identity)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&scan->mutex);

	vec_add(&scan->unrecorded, identity);
}

/* What is locked or changes too fast is mostly well a moment later: it counts when two
 * scans in a row met it. */
bool scan_fail(struct scan *scan, const struct noticed *noticed)
{
	const struct origin_row *row = &noticed->row;
	bool is_told = row->name && row->verification != VERIFICATION_SUCCEEDED;
	bool is_news = scan_is_news(scan, noticed->name, &noticed->why);

	if (!row->name)
		scan_note_no_row(scan);
	if (!is_told && (noticed->why.class != ERR_CONFLICT || !is_news))
		scan_leave_out(scan, noticed->name, &noticed->why);
	return is_news;
}

static enum log_level scan_level_of(const struct scan_finding *finding)
{
	if (finding->is_harmless)
		return LOG_LEVEL_INFO;
	return err_is_transient(finding->why->class) && finding->why->class != ERR_DISK
		       ? LOG_LEVEL_WARN
		       : LOG_LEVEL_ERROR;
}

void scan_find(struct scan *scan, const struct scan_finding *finding)
{
	const struct origin_kind *kind = scan->request->kind;

	if (finding->hides_names)
		scan_set_incomplete(scan);
	if (!finding->is_harmless)
		scan_leave_out(scan, finding->path, finding->why);
	if (scan_is_news(scan, finding->path, finding->why))
		log_at(scan_level_of(finding), kind->of.origin->events.finding,
		       LOG_ERR(finding->why), LOG_TEXT("kind", kind->of.type),
		       LOG_TEXT("path", finding->path));
}

void scan_enter(struct scan *scan, const char *path)
{
	if (scan->request->directory)
		scan->request->directory(scan->request->arg, path);
	if (scan->root >= 0)
		mounts_note(&scan->mounts, scan->root, path);
}

static int scan_compare(struct scan *scan, text_list *names, bool are_gone,
			struct err *err)
{
	int result = 0;

	if (names->count > 0)
		result = notice_scanned(scan, names->items, names->count, are_gone, err);
	text_list_clear(names);
	return result == 0 ? scan_check_stop(scan, err) : -1;
}

static int scan_suspect(struct scan *scan, const char *name, struct err *err)
{
	vec_add(&scan->suspects, xstrdup(name));
	return scan->suspects.count < GROUP
		       ? 0
		       : scan_compare(scan, &scan->suspects, false, err);
}

static int scan_read_page(struct scan *scan, struct err *err)
{
	if (scan_check_stop(scan, err) != 0 ||
	    origin_rows_read_page(scan->request->kind->store,
				  scan->request->kind->of.type,
				  scan->after ? scan->after : scan->prefix, PAGE,
				  &scan->rows, err) != 0)
		return -1;
	scan->at = 0;
	scan->is_last = scan->rows.count < PAGE;
	if (scan->rows.count == 0)
		return 0;
	free(scan->after);
	scan->after = xstrdup(scan->rows.items[scan->rows.count - 1].name);
	return 0;
}

/* The next row that is not done; *row NULL: there is none. */
static int scan_peek(struct scan *scan, const struct origin_row **row, struct err *err)
{
	*row = NULL;
	if (scan->at == scan->rows.count && !scan->is_last &&
	    scan_read_page(scan, err) != 0)
		return -1;
	if (scan->at < scan->rows.count &&
	    text_starts_with(scan->rows.items[scan->at].name, scan->prefix))
		*row = &scan->rows.items[scan->at];
	return 0;
}

/* Of rows below the name (NULL: all) nothing stands where the walk came by. */
static int scan_pass_rows(struct scan *scan, const char *name,
			  const struct origin_row **row, struct err *err)
{
	int result;

	while ((result = scan_peek(scan, row, err)) == 0 && *row &&
	       (!name || strcmp((*row)->name, name) < 0)) {
		if (scan->request->kind->of.origin->is_gone_last)
			vec_add(&scan->gone, xstrdup((*row)->name));
		else if (scan_suspect(scan, (*row)->name, err) != 0)
			return -1;
		scan->at++;
	}
	return result;
}

int scan_meet(struct scan *scan, const struct scan_item *item, struct err *err)
{
	const struct origin_row *row;

	scan->result->found++;
	if (scan_pass_rows(scan, item->name, &row, err) != 0)
		return -1;
	if (!row || strcmp(row->name, item->name) != 0)
		return scan_suspect(scan, item->name, err);
	scan->at++;
	return scan->request->kind->of.origin->is_as_recorded(scan, item, row)
		       ? 0
		       : scan_suspect(scan, item->name, err);
}

static struct origin_root scan_root_of(const struct scan *scan)
{
	const struct origin_kind *kind = scan->request->kind;

	return (struct origin_root){ kind->store, kind->of.type, kind->of.path,
				     scan->root };
}

/* An empty directory in the place of the one that the rows were seen in says nothing. */
static int scan_check_root(struct scan *scan, struct err *err)
{
	const struct origin_root root = scan_root_of(scan);
	const struct origin_row *row;
	bool has_any;
	struct err other;

	if (origin_root_check(&root, &other) == 0)
		return 0;
	if (scan->request->kind->of.origin->has_any(scan, &has_any, err) != 0 ||
	    scan_peek(scan, &row, err) != 0)
		return -1;
	if (has_any)
		return origin_root_accept(&root, err);
	if (row)
		*err = other;
	return row ? -1 : 0;
}

/* One stands for all that was below it. */
static int scan_find_away(struct scan *scan, struct err *err)
{
	const struct origin_root root = scan_root_of(scan);
	json_auto_t *known = NULL;

	if (origin_root_mounts(&root, &known, err) != 0)
		return -1;
	for (size_t i = 0; i < json_array_size(known); i++) {
		const char *mount = json_string_value(json_array_get(known, i));
		struct err why;
		if (mounts_find_away(known, root.fd, mount) != mount)
			continue;
		mounts_say_away(mount, &why);
		scan_find(scan, &(struct scan_finding){ .path = mount,
							.why = &why,
							.hides_names = true });
	}
	return 0;
}

/* One that was interrupted, or failed, is followed by another first one. Another timeline
 * is none of another database: what came since the last scan is new. */
static int scan_judge_first(struct scan *scan, struct err *err)
{
	const struct origin_kind *kind = scan->request->kind;
	bool was_scanned;

	if (event_log_was_scanned(kind->store, kind->of.type, &was_scanned, err) != 0)
		return -1;
	scan->is_first = !was_scanned;
	return 0;
}

/* What this scan met is what the next one knows. A directory that has nothing may be away
 * itself: it says nothing of what is mounted below. */
static int scan_keep_findings(struct scan *scan, struct err *err)
{
	const struct origin_root root = scan_root_of(scan);
	struct map before = *scan->request->troubles;

	*scan->request->troubles = scan->troubles;
	scan->troubles = before;
	return scan->result->found == 0
		       ? 0
		       : origin_root_keep_mounts(&root, scan->mounts, err);
}

static int scan_merge(struct scan *scan, const char *below, struct err *err)
{
	const struct origin_row *row;

	if (scan->request->kind->of.origin->walk(scan, below, err) != 0 &&
	    !(*below && err->class == ERR_MISSING))
		return -1;
	return scan_pass_rows(scan, NULL, &row, err) != 0 ||
			       scan_compare(scan, &scan->suspects, false, err) != 0
		       ? -1
		       : 0;
}

static int scan_run(struct scan *scan, struct err *err)
{
	const struct origin_kind *kind = scan->request->kind;

	scan->root = kind->of.origin->open_root(kind, err);
	if (scan->root < 0 ||
	    (kind->of.origin->open && kind->of.origin->open(scan, err) != 0) ||
	    scan_judge_first(scan, err) != 0 || scan_check_root(scan, err) != 0 ||
	    scan_find_away(scan, err) != 0 || scan_merge(scan, "", err) != 0)
		return -1;
	scan->is_at_gone = true;
	if (scan->result->is_complete && scan_compare(scan, &scan->gone, true, err) != 0)
		return -1;
	return scan_keep_findings(scan, err);
}

static void scan_clear(struct scan *scan)
{
	if (scan->request->kind->of.origin->close)
		scan->request->kind->of.origin->close(scan);
	text_list_clear(&scan->suspects);
	text_list_clear(&scan->gone);
	text_list_clear(&scan->unrecorded);
	origin_rows_clear(&scan->rows);
	free(scan->after);
	map_clear_owned(&scan->troubles);
	json_decref(scan->mounts);
	if (scan->root >= 0)
		close(scan->root);
	pthread_mutex_destroy(&scan->mutex);
}

static void scan_init(struct scan *scan, const struct scan_request *request,
		      struct scan_result *result)
{
	*result = (struct scan_result){ .is_complete = true };
	*scan = (struct scan){
		.request = request, .result = result, .prefix = "", .root = -1
	};
	mutex_init(&scan->mutex);
}

int scan_all(const struct scan_request *request, struct scan_result *result,
	     struct err *err)
{
	struct scan scan;

	scan_init(&scan, request, result);
	int done = scan_run(&scan, err);
	if (done != 0)
		result->is_complete = false;
	scan_clear(&scan);
	return done;
}

/* What a scan of a part met is known to the next of all, which tells of it no more. */
static void scan_add_troubles(struct scan *scan)
{
	const struct map_entry *entry;
	size_t at = 0;

	while ((entry = map_next(&scan->troubles, &at)) != NULL)
		free(map_put(scan->request->troubles, entry->key, entry->value));
	map_clear(&scan->troubles);
}

int scan_below(const struct scan_request *request, const char *directory,
	       struct scan_result *result, struct err *err)
{
	AUTO_FREE char *prefix = xasprintf("%s/", directory);
	struct scan scan;

	scan_init(&scan, request, result);
	scan.prefix = prefix;
	int done = scan_merge(&scan, directory, err);
	scan_add_troubles(&scan);
	scan_clear(&scan);
	return done;
}
