/*
 * A primary as a source. Each read takes a line that rests, or opens one, so that there
 * are as many connections as threads that read at once.
 */
#include "base/thread.h"
#include "base/vec.h"
#include "pull/source_kinds.h"

struct source_primary {
	pthread_mutex_t mutex;
	struct primary *primary;
	int64_t valid_ms;
	const struct stop *stop;
	VEC(struct primary_line *) resting; /* guarded by mutex; owned */
};

struct source_primary *source_primary_new(struct primary *primary, int64_t valid_ms,
					  const struct stop *stop)
{
	struct source_primary *source = xcalloc(1, sizeof(*source));

	mutex_init(&source->mutex);
	source->primary = primary;
	source->valid_ms = valid_ms;
	source->stop = stop;
	return source;
}

void source_primary_free(struct source_primary *source)
{
	if (!source)
		return;
	for (size_t i = 0; i < source->resting.count; i++)
		primary_line_close(source->resting.items[i]);
	vec_clear(&source->resting);
	pthread_mutex_destroy(&source->mutex);
	free(source);
}

char *source_primary_url(const struct source_primary *source, const char *name)
{
	return primary_url(source->primary, name);
}

static int take_line(struct source_primary *source, struct primary_line **line,
		     struct err *err)
{
	lock(&source->mutex);
	*line = source->resting.count > 0 ? source->resting.items[--source->resting.count]
					  : NULL;
	unlock(&source->mutex);
	return *line ? 0 : primary_line_open(source->primary, source->stop, line, err);
}

static void rest_line(struct source_primary *source, struct primary_line *line)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&source->mutex);

	vec_add(&source->resting, line);
}

static void fill(struct primary_refs *refs, struct source_view *view)
{
	view->refs = refs->refs;
	view->oid_len = refs->oid_len;
	view->description = refs->description;
	memcpy(view->timeline, refs->timeline, sizeof(view->timeline));
	view->generation = refs->generation;
	view->changed_at = refs->changed_at;
}

int source_primary_read(struct source_primary *source, const char *name,
			struct source_view *view, struct err *err)
{
	struct primary_line *line;
	struct primary_refs refs;
	int result;

	if (take_line(source, &line, err) != 0)
		return -1;
	primary_line_limit(line, source->valid_ms); /* a job has no longer */
	result = primary_refs(line, name, &refs, err);
	rest_line(source, line);
	if (result != 0)
		return -1;
	fill(&refs, view);
	if (primary_git(source->primary, name, source->valid_ms / 1000, &view->url,
			&view->header, err) == 0)
		return 0;
	source_view_clear(view);
	return -1;
}
