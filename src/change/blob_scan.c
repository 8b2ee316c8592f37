#include "change/blob_notice.h"

#include "base/log.h"
#include "blob/incoming.h"
#include "change/blob_notice_parts.h"

#define UPLOAD_KEEP_MS ((int64_t)24 * 3600 * 1000)

static int blob_scan_open(struct scan *scan, struct err *err)
{
	scan->root = blob_root_open(scan->request->kind->blobs, err);
	return scan->root < 0 ? -1 : 0;
}

static int blob_scan_has_any(struct scan *scan, bool *has_any, struct err *err)
{
	return blob_has_any(scan->request->kind->blobs, scan->request->stop, has_any,
			    err);
}

static int blob_scan_meet(void *arg, const char *id,
			  const struct blob_fingerprint *fingerprint, struct err *err)
{
	const struct scan_item item = { .name = id, .fingerprint = fingerprint };

	return scan_meet(arg, &item, err);
}

static void blob_scan_find(void *arg, const struct blob_finding *finding)
{
	scan_find(arg, &(struct scan_finding){ .path = finding->path,
					       .why = finding->why,
					       .hides_names = finding->hides_names });
}

static void blob_scan_enter(void *arg, const char *path)
{
	scan_enter(arg, path);
}

static int blob_scan_walk(struct scan *scan, const char *below, struct err *err)
{
	const struct blob_visitor visitor = { blob_scan_meet, blob_scan_find,
					      blob_scan_enter, scan };
	const struct blob_kind *kind = scan->request->kind->blobs;
	const struct stop *stop = scan->request->stop;

	return *below ? blob_walk_below(kind, below, &visitor, stop, err)
		      : blob_walk(kind, &visitor, stop, err);
}

static bool blob_scan_is_as_recorded(struct scan *scan, const struct scan_item *item,
				     const struct origin_row *row)
{
	char text[BLOB_FINGERPRINT_SIZE];

	(void)scan;
	blob_fingerprint_format(item->fingerprint, text);
	return row->fingerprint && strcmp(row->fingerprint, text) == 0 &&
	       !blob_row_waits_unopened(row);
}

/* What is on a file system that is away, the scan's finding of that tells. */
static void blob_scan_note(struct scan *scan, const struct blob_look *look)
{
	const struct err *why = &look->why;

	scan_count(scan, look->is_changed);
	if (why->class == ERR_NONE || why->class == ERR_MISSING)
		return;
	if (why->class == ERR_DISK) {
		scan_set_incomplete(scan);
		return;
	}
	if (!look->row.name && why->class != ERR_CONFLICT)
		scan_leave_out(scan, look->id, why);
	if (scan_is_news(scan, look->id, why))
		log_at(err_is_transient(why->class) ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR,
		       "blob_scan.finding", LOG_ERR(why),
		       LOG_TEXT("kind", scan->request->kind->type),
		       LOG_TEXT("path", look->id));
}

/* scan NULL: nobody wants to know what came of it. */
static int blob_scan_compare_ids(const struct origin_kind *kind, struct scan *scan,
				 char *const *ids, size_t count, struct err *err)
{
	AUTO_FREE struct blob_look *looks = xcalloc(count, sizeof(*looks));

	for (size_t i = 0; i < count; i++)
		looks[i].id = ids[i];
	int result = blob_notice_compare(kind->notice, kind->blobs, looks, count, err);
	for (size_t i = 0; i < count; i++) {
		if (result == 0 && scan)
			blob_scan_note(scan, &looks[i]);
		blob_look_clear(&looks[i]);
	}
	return result;
}

static int blob_scan_compare(struct scan *scan, char *const *names, size_t count,
			     bool are_gone, struct err *err)
{
	(void)are_gone;
	return blob_scan_compare_ids(scan->request->kind, scan, names, count, err);
}

static int blob_scan_look(const struct origin_kind *kind, char *const *names,
			  size_t count, struct err *err)
{
	return blob_scan_compare_ids(kind, NULL, names, count, err);
}

static void blob_scan_finish(const struct origin_kind *kind,
			     const struct scan_result *result, int64_t took_ms)
{
	log_debug("blob_watch.scanned", LOG_NUMBER("dur_ms", took_ms),
		  LOG_TEXT("kind", kind->type), LOG_NUMBER("files", result->found),
		  LOG_NUMBER("looked_into", result->looked_into),
		  LOG_NUMBER("changed", result->changed));
}

/* Uploads that a crash cut off: nobody resumes them. Those under way are locked. */
static void blob_scan_tend(const struct origin_kind *kind)
{
	blob_incoming_expire(kind->blobs, UPLOAD_KEEP_MS);
}

struct origin_kind blob_notice_origin_kind(struct blob_notice *notice,
					   const struct blob_kind *kind)
{
	static const struct origin_kind_ops ops = {
		.events = { "blob_scan.finding", "blob_watch.failed",
			    "blob_watch.not_kept" },
		.open = blob_scan_open,
		.has_any = blob_scan_has_any,
		.walk = blob_scan_walk,
		.is_as_recorded = blob_scan_is_as_recorded,
		.look = blob_scan_look,
		.compare = blob_scan_compare,
		.finish = blob_scan_finish,
		.tend = blob_scan_tend,
	};

	return (struct origin_kind){ .ops = &ops,
				     .type = kind->type,
				     .path = kind->path,
				     .store = notice->options.store,
				     .notice = notice,
				     .blobs = kind };
}
