/*
 * A primary as a source. Each read takes a line that rests, or opens one.
 */
#include "pull/lines.h"
#include "pull/source_kinds.h"

struct source_primary {
	struct primary *primary;
	int64_t valid_ms;
	struct lines lines;
};

struct source_primary *source_primary_new(struct primary *primary, int64_t valid_ms,
					  const struct stop *stop)
{
	struct source_primary *source = xcalloc(1, sizeof(*source));

	source->primary = primary;
	source->valid_ms = valid_ms;
	lines_init(&source->lines, primary, stop);
	return source;
}

void source_primary_free(struct source_primary *source)
{
	if (!source)
		return;
	lines_clear(&source->lines);
	free(source);
}

char *source_primary_url(const struct source_primary *source, const char *name)
{
	return primary_url(source->primary, name);
}

static void source_primary_fill_view(struct wire_refs *refs, struct source_view *view)
{
	view->refs = refs->refs;
	view->oid_len = refs->oid_len;
	view->description = refs->description;
	view->settings = refs->settings;
	memcpy(view->timeline, refs->timeline, sizeof(view->timeline));
	view->generation = refs->generation;
	view->changed_at = refs->changed_at;
	view->pushed_settled = refs->pushed_settled;
	view->pushed_announced = refs->pushed_announced;
}

int source_primary_read(struct source_primary *source, const char *name,
			struct source_view *view, struct err *err)
{
	struct primary_line *line;
	struct wire_refs refs;
	int result;

	if (lines_take(&source->lines, source->valid_ms, &line, err) != 0)
		return -1; /* a job has no longer */
	result = primary_refs(line, name, &refs, err);
	lines_rest(&source->lines, line);
	if (result != 0)
		return -1;
	source_primary_fill_view(&refs, view);
	if (primary_git(source->primary, name, source->valid_ms / 1000, &view->url,
			&view->header, err) == 0)
		return 0;
	source_view_clear(view);
	return -1;
}
