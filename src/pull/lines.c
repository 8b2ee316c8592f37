#include "pull/lines.h"

void lines_init(struct lines *lines, struct primary *primary, const struct stop *stop)
{
	*lines = (struct lines){ .primary = primary, .stop = stop };
	mutex_init(&lines->mutex);
}

void lines_clear(struct lines *lines)
{
	for (size_t i = 0; i < lines->resting.count; i++)
		primary_line_close(lines->resting.items[i]);
	vec_clear(&lines->resting);
	pthread_mutex_destroy(&lines->mutex);
}

int lines_take(struct lines *lines, int64_t most_ms, struct primary_line **line,
	       struct err *err)
{
	lock(&lines->mutex);
	*line = lines->resting.count > 0 ? lines->resting.items[--lines->resting.count]
					 : NULL;
	unlock(&lines->mutex);
	if (!*line && primary_line_open(lines->primary, lines->stop, line, err) != 0)
		return -1;
	primary_line_limit(*line, most_ms);
	return 0;
}

void lines_rest(struct lines *lines, struct primary_line *line)
{
	if (!line)
		return;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&lines->mutex);

	vec_add(&lines->resting, line);
}
