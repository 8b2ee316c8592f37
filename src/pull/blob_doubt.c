/*
 * A primary's checksum may be stale: a file that was changed under the same time and
 * size. Which side is wrong is known when it has read its file again. Asked often, that
 * would read a large file over and over.
 */
#include "base/clock.h"
#include "base/log.h"
#include "pull/blob_work.h"
#include "pull/decisions.h"
#include "pull/glance.h"
#include "pull/primary.h"

#define AGAIN_MS ((int64_t)3600 * 1000)
#define REMEMBERED_MOST 10000

/* Whether it was not asked about this one for an hour; if so it counts as asked. */
static bool is_due(struct pull *pull, const char *key)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);
	int64_t now = clock_boot_ms();

	if (now - pull->reverified_at >= AGAIN_MS) {
		map_clear(&pull->reverified);
		pull->reverified_at = now;
	}
	return pull->reverified.count < REMEMBERED_MOST &&
	       !map_put(&pull->reverified, key, pull);
}

static int blob_doubt_ask_primary(struct pull *pull, struct primary_line *line,
				  const struct blob_kind *kind, const char *id,
				  struct err *err)
{
	struct primary_line *own = NULL;
	int result;

	if (line)
		return primary_blob_reverify(line, kind, id, err);
	result = lines_take(&pull->lines, BLOB_STALL_MS, &own, err);
	if (result == 0)
		result = primary_blob_reverify(own, kind, id, err);
	lines_rest(&pull->lines, own);
	return result;
}

/* The next time that they disagree it is asked again. */
static void blob_doubt_forget(struct pull *pull, const char *key)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	map_remove(&pull->reverified, key);
}

void blob_doubt(struct pull *pull, struct primary_line *line,
		const struct blob_kind *kind, const char *id)
{
	AUTO_FREE char *key = xasprintf("%s:%s", kind->type, id);
	struct err err;

	if (!is_due(pull, key) || blob_doubt_ask_primary(pull, line, kind, id, &err) == 0)
		return;
	blob_doubt_forget(pull, key);
	log_warn("verify.not_asked", LOG_ERR(&err), LOG_TEXT("name", id));
}

void blob_look_again(struct pull *pull, const struct blob_kind *kind, int root,
		     const char *id, const struct blob_print *print)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;
	struct err why;

	if (blob_open(root, id, &fd, &st, &why) == 0 &&
	    glance_blob_print(print, fd, &st, &why) == 0)
		return;
	if (copy_is_at_fault(&why))
		pull_doubt(pull, kind->type, id, &why);
}
