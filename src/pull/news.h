/*
 * How far the primary's events are known: the log cursor says it, freshness.c asks. A
 * part of struct pull; any thread.
 */
#ifndef PULL_NEWS_H
#define PULL_NEWS_H

#include "replicable/origin_rows.h"

struct pull;
struct stop;

/* Why nothing that was heard counts until all is compared. */
enum news_void {
	NEWS_COUNT,         /* it does, or nothing was heard yet */
	NEWS_FIRST,         /* of a primary that was not known */
	NEWS_LOST,          /* the primary does not keep events for that long */
	NEWS_OF_ANOTHER_LOG /* it was restored, or made anew */
};

struct pull_news {
	uint64_t asked;   /* requests of the log cursor, ever */
	uint64_t reached; /* the newest whose answer led to the log's end, and was taken
			     over; 0: none */
	int64_t heard_at; /* boot ms of that answer; 0: never, or it is void */
	enum news_void is_void;
	int64_t fresh_for_ms;
	uint64_t turn;   /* grows with `reached`, and with news_turn() */
	uint64_t cursor; /* as in struct pull_state */
	bool has_cursor;
	char timeline[TIMELINE_SIZE]; /* of the cursor */
};
void news_look(struct pull *pull, struct pull_news *news);

/* The log cursor asks: the number of that request. */
uint64_t news_asked(struct pull *pull);

/* Its answer told of all events that there were, and they are taken over. */
void news_all(struct pull *pull, uint64_t request, int64_t heard_at);

/* Events were lost: until all is compared, nothing that was heard counts. */
void news_none(struct pull *pull, enum news_void why);

/* Who waits for news is to look, or to see that it shall stop. */
void news_turn(struct pull *pull);

/* Waits for another turn than *turn, and sets it; false: stop. */
bool news_wait(struct pull *pull, uint64_t *turn, const struct stop *stop);

/* serve.freshFor; 0: its default. */
void news_set_fresh_for(struct pull *pull, int64_t fresh_for_ms);

/* For how long a request may wait for events, so that an idle primary is heard of often
 * enough. */
int64_t news_wait_s(struct pull *pull);

#endif
