/*
 * Two sorted lists are merged as they come: files from the walk, rows a page at a time. A
 * file that is as its row says costs one look at it; others, and rows without a file, are
 * suspects, which are compared in groups.
 */
#include "change/blob_scan.h"

#include "base/log.h"
#include "blob/walk.h"
#include "change/blob_notice_parts.h"
#include "change/event_rows.h"
#include "store/site_value.h"

#define PAGE 1000
#define SCANNED_KEY "log.scanned.%s"

struct scan {
	const struct blob_scan_request *request;
	struct blob_scan_result *result;
	const char *prefix;   /* of all names that are looked at; "": all */
	origin_rows rows;     /* a page */
	size_t at;            /* in it: all before are done */
	char *after;          /* owned; the last name of the page before */
	bool is_last;         /* page */
	VEC(char *) suspects; /* owned */
	struct map troubles;  /* that this scan met */
	int root;             /* -1: of a part only */
	json_t *mounts;       /* owned; found below it */
};

static void clear_suspects(struct scan *scan)
{
	for (size_t i = 0; i < scan->suspects.count; i++)
		free(scan->suspects.items[i]);
	scan->suspects.count = 0;
}

void blob_troubles_clear(struct map *troubles)
{
	const struct map_entry *entry;
	size_t at = 0;

	while ((entry = map_next(troubles, &at)) != NULL)
		free(entry->value);
	map_clear(troubles);
}

/* Whether this is the first scan that meets this trouble. */
static bool blob_scan_is_news(struct scan *scan, const char *where, const struct err *why)
{
	const char *before = map_get(scan->request->troubles, where);

	free(map_put(&scan->troubles, where, xstrdup(why->text)));
	return !before || strcmp(before, why->text) != 0;
}

static void blob_scan_count_left_out(struct scan *scan, const char *path,
				     const struct err *why)
{
	struct blob_scan_result *result = scan->result;
	AUTO_STR struct str text = STR_INIT;

	if (result->left_out++ > 0)
		return;
	str_add_printable(&text, path);
	str_addf(&text, ": %s", why->text);
	if (why->remedy[0])
		str_addf(&text, " (%s)", why->remedy);
	snprintf(result->example, sizeof(result->example), "%s", text.data);
}

static void blob_scan_report(struct scan *scan, const char *path, const struct err *why)
{
	if (blob_scan_is_news(scan, path, why))
		log_at(err_is_transient(why->class) ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR,
		       "blob_scan.finding", LOG_ERR(why),
		       LOG_TEXT("kind", scan->request->kind->type),
		       LOG_TEXT("path", path));
}

static void finding(void *arg, const struct blob_finding *finding)
{
	struct scan *scan = arg;

	if (finding->hides_names)
		scan->result->is_complete = false;
	blob_scan_count_left_out(scan, finding->path, finding->why);
	blob_scan_report(scan, finding->path, finding->why);
}

/* Of all that is on a file system that is away, one stands for the others. */
static void note_away(struct scan *scan, const struct blob_look *look)
{
	scan->result->is_complete = false;
	blob_scan_count_left_out(scan, look->id, &look->why);
	if (blob_scan_is_news(scan, look->why.text, &look->why))
		log_error("blob_scan.finding", LOG_ERR(&look->why),
			  LOG_TEXT("kind", scan->request->kind->type),
			  LOG_TEXT("path", look->id));
}

static void note_look(struct scan *scan, const struct blob_look *look)
{
	scan->result->looked_into++;
	scan->result->changed += look->is_changed;
	if (look->why.class == ERR_NONE || look->why.class == ERR_MISSING)
		return;
	if (look->why.class == ERR_DISK) {
		note_away(scan, look);
		return;
	}
	if (!look->row.name && look->why.class != ERR_CONFLICT)
		blob_scan_count_left_out(scan, look->id, &look->why);
	blob_scan_report(scan, look->id, &look->why);
}

static int compare_suspects(struct scan *scan, struct err *err)
{
	const struct blob_scan_request *request = scan->request;
	size_t count = scan->suspects.count;
	AUTO_FREE struct blob_look *looks = xcalloc(count + 1, sizeof(*looks));

	if (count == 0)
		return 0;
	for (size_t i = 0; i < count; i++)
		looks[i].id = scan->suspects.items[i];
	int result =
		blob_notice_compare(request->notice, request->kind, looks, count, err);
	for (size_t i = 0; i < count; i++) {
		if (result == 0)
			note_look(scan, &looks[i]);
		blob_look_clear(&looks[i]);
	}
	clear_suspects(scan);
	return result;
}

static int blob_scan_add_suspect(struct scan *scan, const char *id, struct err *err)
{
	vec_add(&scan->suspects, xstrdup(id));
	return scan->suspects.count < BLOB_GROUP ? 0 : compare_suspects(scan, err);
}

static int blob_scan_read_page_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct scan *scan = arg;

	origin_rows_clear(&scan->rows);
	return origin_rows_list(tx, scan->request->kind->type,
				scan->after ? scan->after : scan->prefix, PAGE,
				&scan->rows, err);
}

static int next_page(struct scan *scan, struct err *err)
{
	if (store_read(scan->request->store, blob_scan_read_page_work, scan, err) != 0)
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
static int peek(struct scan *scan, const struct origin_row **row, struct err *err)
{
	*row = NULL;
	if (scan->at == scan->rows.count && !scan->is_last && next_page(scan, err) != 0)
		return -1;
	if (scan->at < scan->rows.count &&
	    text_starts_with(scan->rows.items[scan->at].name, scan->prefix))
		*row = &scan->rows.items[scan->at];
	return 0;
}

/* Rows below the id (NULL: all) have no file where the walk came by. */
static int pass_rows(struct scan *scan, const char *id, const struct origin_row **row,
		     struct err *err)
{
	int result;

	while ((result = peek(scan, row, err)) == 0 && *row &&
	       (!id || strcmp((*row)->name, id) < 0)) {
		if (blob_scan_add_suspect(scan, (*row)->name, err) != 0)
			return -1;
		scan->at++;
	}
	return result;
}

static bool blob_scan_is_as_recorded(const struct origin_row *row,
				     const struct blob_print *print)
{
	char text[BLOB_PRINT_SIZE];

	blob_print_format(print, text);
	return row->print && strcmp(row->print, text) == 0 &&
	       !blob_row_waits_unopened(row);
}

static void count_file(struct scan *scan, const struct blob_print *print)
{
	scan->result->files++;
	scan->result->bytes += print->size;
}

static int merge_file(void *arg, const char *id, const struct blob_print *print,
		      struct err *err)
{
	struct scan *scan = arg;
	const struct origin_row *row;

	count_file(scan, print);
	if (pass_rows(scan, id, &row, err) != 0)
		return -1;
	if (!row || strcmp(row->name, id) != 0)
		return blob_scan_add_suspect(scan, id, err);
	scan->at++;
	return blob_scan_is_as_recorded(row, print)
		       ? 0
		       : blob_scan_add_suspect(scan, id, err);
}

static void blob_scan_enter_directory(void *arg, const char *path)
{
	struct scan *scan = arg;

	if (scan->request->directory)
		scan->request->directory(scan->request->arg, path);
	if (scan->root >= 0)
		blob_mounts_note(&scan->mounts, scan->root, path);
}

/* An empty directory in the place of the one that the rows were seen in says nothing. */
static int blob_scan_check_root(struct scan *scan, struct err *err)
{
	const struct blob_scan_request *request = scan->request;
	int root = blob_root_open(request->kind, err);
	const struct origin_row *row;
	bool has_file;
	struct err other;

	scan->root = root;
	if (root < 0)
		return -1;
	if (blob_root_check(request->notice, request->kind, root, &other) == 0)
		return 0;
	if (blob_root_has_file(request->kind, request->stop, &has_file, err) != 0 ||
	    peek(scan, &row, err) != 0)
		return -1;
	if (has_file)
		return blob_root_accept(request->notice, request->kind, root, err);
	if (row)
		*err = other;
	return row ? -1 : 0;
}

/* What this scan met is what the next one knows. A directory that has nothing may be away
 * itself: it says nothing of what is mounted below. */
static int blob_scan_keep_findings(struct scan *scan, struct err *err)
{
	const struct blob_scan_request *request = scan->request;
	struct map before = *request->troubles;

	*request->troubles = scan->troubles;
	scan->troubles = before;
	return scan->result->files == 0 ? 0
					: blob_mounts_keep(request->notice, request->kind,
							   scan->root, scan->mounts, err);
}

static void scan_clear(struct scan *scan)
{
	clear_suspects(scan);
	vec_clear(&scan->suspects);
	origin_rows_clear(&scan->rows);
	free(scan->after);
	blob_troubles_clear(&scan->troubles);
	json_decref(scan->mounts);
	if (scan->root >= 0)
		close(scan->root);
}

int blob_scan(const struct blob_scan_request *request, struct blob_scan_result *result,
	      struct err *err)
{
	struct scan scan = {
		.request = request, .result = result, .prefix = "", .root = -1
	};
	const struct blob_visitor visitor = { merge_file, finding,
					      blob_scan_enter_directory, &scan };
	const struct origin_row *row;
	int done = -1;

	*result = (struct blob_scan_result){ .is_complete = true };
	if (blob_scan_check_root(&scan, err) == 0 &&
	    blob_walk(request->kind, &visitor, request->stop, err) == 0 &&
	    pass_rows(&scan, NULL, &row, err) == 0 && compare_suspects(&scan, err) == 0 &&
	    blob_scan_keep_findings(&scan, err) == 0)
		done = 0;
	if (done != 0)
		result->is_complete = false;
	scan_clear(&scan);
	return done;
}

/* What a scan of a part met is known to the next of all, which tells of it no more. */
static void blob_scan_add_troubles(struct scan *scan)
{
	const struct map_entry *entry;
	size_t at = 0;

	while ((entry = map_next(&scan->troubles, &at)) != NULL)
		free(map_put(scan->request->troubles, entry->key, entry->value));
	map_clear(&scan->troubles);
}

int blob_scan_below(const struct blob_scan_request *request, const char *directory,
		    struct blob_scan_result *result, struct err *err)
{
	AUTO_FREE char *prefix = xasprintf("%s/", directory);
	struct scan scan = {
		.request = request, .result = result, .prefix = prefix, .root = -1
	};
	const struct blob_visitor visitor = { merge_file, finding,
					      blob_scan_enter_directory, &scan };
	const struct origin_row *row;
	int done = -1;

	*result = (struct blob_scan_result){ .is_complete = true };
	if ((blob_walk_below(request->kind, directory, &visitor, request->stop, err) ==
		     0 ||
	     err->class == ERR_MISSING) &&
	    pass_rows(&scan, NULL, &row, err) == 0 && compare_suspects(&scan, err) == 0)
		done = 0;
	blob_scan_add_troubles(&scan);
	scan_clear(&scan);
	return done;
}

static void scanned_key(const char *type, char key[64])
{
	snprintf(key, 64, SCANNED_KEY, type);
}

int blob_scanned_in(struct store_tx *tx, const char *type, enum event_scanned *scanned,
		    struct err *err)
{
	AUTO_STR struct str timeline = STR_INIT;
	AUTO_STR struct str known = STR_INIT;
	char key[64];

	scanned_key(type, key);
	*scanned = SCANNED_NOTHING;
	if (site_value_get(tx, EVENT_TIMELINE_KEY, &timeline, err) < 0 ||
	    site_value_get(tx, key, &known, err) < 0)
		return -1;
	size_t len = timeline.len;
	if (len > 0 && strncmp(known.data, timeline.data, len) == 0)
		*scanned = strcmp(known.data + len, " all") == 0 ? SCANNED_ALL
								 : SCANNED_PART;
	return 0;
}

struct scan_mark {
	const char *type;
	enum event_scanned scanned;
};

static int set_work(struct store_tx *tx, void *arg, struct err *err)
{
	const struct scan_mark *mark = arg;
	AUTO_STR struct str value = STR_INIT;
	enum event_scanned before;
	char key[64];

	if (blob_scanned_in(tx, mark->type, &before, err) != 0 ||
	    site_value_get(tx, EVENT_TIMELINE_KEY, &value, err) < 0)
		return -1;
	if (before >= mark->scanned)
		return 0;
	str_add(&value, mark->scanned == SCANNED_ALL ? " all" : " part");
	scanned_key(mark->type, key);
	return site_value_set(tx, key, value.data, err);
}

int blob_set_scanned(struct store *store, const char *type, enum event_scanned scanned,
		     struct err *err)
{
	struct scan_mark mark = { type, scanned };

	return store_write(store, set_work, &mark, err);
}
