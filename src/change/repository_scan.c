/*
 * Repositories as a scan of the primary meets them: the tree as discover() finds it, and
 * which of them need no look because they are as recorded.
 */
#include "change/repository_scan.h"
#include "base/file.h"
#include "base/log.h"
#include "base/metrics.h"
#include "change/notice_parts.h"
#include "git/fingerprint.h"
#include "replicable/locate.h"

int repository_scan_open(struct scan *scan, struct err *err)
{
	struct discovery *discovery = xcalloc(1, sizeof(*discovery));

	scan->state = discovery;
	return discover(scan->request->kind->of.path, discovery, err);
}

void repository_scan_close(struct scan *scan)
{
	if (scan->state)
		discovery_clear(scan->state);
	free(scan->state);
}

int repository_scan_has_any(struct scan *scan, bool *has_any, struct err *err)
{
	const struct discovery *discovery = scan->state;

	(void)err;
	*has_any = discovery->found.count > 0;
	return 0;
}

/* At each scan anew: a server may have written its own hooks over ours. */
static void repository_scan_look_at_hooks(struct scan *scan, const struct discovered *one)
{
	const struct hook_place *place = scan->request->kind->notice->options.hooks;
	AUTO_CLOSE int fd = place ? dir_open(scan->root, one->path, ERR_IGNORED) : -1;
	struct hook_look look;

	if (fd >= 0 && !one->is_damaged && hook_look(fd, place, &look, ERR_IGNORED) == 0)
		hook_count(&scan->result->hooks, one->name,
			   hook_look_state(&look, place));
}

int repository_scan_walk(struct scan *scan, const char *below, struct err *err)
{
	const struct discovery *discovery = scan->state;

	(void)below;
	scan->result->has_hooks = scan->request->kind->notice->options.hooks != NULL;
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
		repository_scan_look_at_hooks(scan, one);
		if (scan_check_stop(scan, err) != 0 || scan_meet(scan, &item, err) != 0)
			return -1;
	}
	return 0;
}

bool repository_scan_is_as_recorded(struct scan *scan, const struct scan_item *item,
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

/* It may be one that is gone elsewhere. */
static void repository_note_unrecorded(struct scan *scan, const char *name)
{
	AUTO_FREE char *path = NULL;
	char *identity = NULL;

	if (scan->root >= 0 &&
	    locate_repository(scan->root, name, &path, ERR_IGNORED) > 0)
		identity = identity_of(scan->root, path);
	if (identity)
		scan_note_unrecorded(scan, identity);
	else
		scan_set_incomplete(scan);
}

void repository_scan_note(struct scan *scan, const struct noticed *noticed)
{
	const struct err *why = &noticed->why;

	scan_count(scan, noticed->is_changed);
	if (why->class != ERR_NONE && why->class != ERR_MISSING && !noticed->row.name &&
	    !scan->is_at_gone)
		repository_note_unrecorded(scan, noticed->name);
	if (why->class == ERR_NONE || why->class == ERR_MISSING ||
	    !scan_fail(scan, noticed))
		return;
	log_at(err_is_transient(why->class) ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR,
	       "scan.failed", LOG_TEXT("repo", noticed->name), LOG_ERR(why));
}

/* Only that they have become fewer or more. */
static void repository_scan_log_hooks(struct notice *notice,
				      const struct hook_counts *counts)
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

void repository_scan_show_hooks(const struct hook_counts *counts)
{
	struct metric *gauge = metric_gauge(
		"refrelay_hooks", "Repositories by the state of their hooks.", "state");

	for (size_t i = 0; i < HOOK_STATES; i++)
		metric_set(metric_at(gauge, hook_state_name((enum hook_state)i)),
			   (double)counts->states[i]);
}

static void repository_scan_report_hooks(struct notice *notice,
					 const struct hook_counts *counts)
{
	if (!notice->options.hooks)
		return;
	repository_scan_show_hooks(counts);
	repository_scan_log_hooks(notice, counts);
}

void repository_scan_finish(const struct origin_kind *kind,
			    const struct scan_result *result, int64_t took_ms)
{
	repository_scan_report_hooks(kind->notice, &result->hooks);
	log_debug("watch.scanned", LOG_NUMBER("dur_ms", took_ms),
		  LOG_NUMBER("repositories", result->found),
		  LOG_NUMBER("looked_into", result->looked_into),
		  LOG_NUMBER("changed", result->changed));
}
