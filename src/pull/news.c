/*
 * How far the primary's events are known, as the log cursor says it to those who judge
 * copies. An answer counts only if it led to the log's end and all of it is in the
 * database: until then there may be changes that no row tells of.
 */
#include "pull/news.h"

#include "pull/pull_parts.h"

#define FRESH_FOR_MS 60000
/* The primary is heard often enough for its silence to be noticed soon
 * (report/verdict.h). */
#define WAIT_MOST_S 10

uint64_t news_asked(struct pull *pull)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	return ++pull->news.asked;
}

void news_all(struct pull *pull, uint64_t request, int64_t heard_at)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	pull->news.reached = request;
	pull->news.heard_at = heard_at;
	pull->news.is_void = NEWS_COUNT;
	pull->news.turn++;
	pthread_cond_broadcast(&pull->changed);
}

void news_turn(struct pull *pull)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	pull->news.turn++;
	pthread_cond_broadcast(&pull->changed);
}

bool news_wait(struct pull *pull, uint64_t *turn, const struct stop *stop)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	while (pull->news.turn == *turn && !stop_is_requested(stop))
		cond_wait_until(&pull->changed, &pull->mutex, INT64_MAX);
	*turn = pull->news.turn;
	return !stop_is_requested(stop);
}

void news_none(struct pull *pull, enum news_void why)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	pull->news.heard_at = 0;
	pull->news.is_void = why;
}

void news_look(struct pull *pull, struct pull_news *news)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	*news = pull->news;
	news->cursor = pull->state.cursor;
	news->has_cursor = pull->state.has_cursor;
}

void news_set_fresh_for(struct pull *pull, int64_t fresh_for_ms)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	pull->news.fresh_for_ms = fresh_for_ms > 0 ? fresh_for_ms : FRESH_FOR_MS;
}

/* Half: the next answer comes before the one before has become too old. */
int64_t news_wait_s(struct pull *pull)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);
	int64_t half_s = pull->news.fresh_for_ms / 2000;

	if (half_s < 1)
		return 1;
	return half_s < WAIT_MOST_S ? half_s : WAIT_MOST_S;
}
