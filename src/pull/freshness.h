/*
 * Whether a copy is as good as the primary's repository, so that it can answer a reader:
 * its generation is the last one heard of, of the same timeline, its row is synced and
 * not held, and the primary was heard of within serve.freshFor. Who pushed through this
 * site sees that push: until the copy has it, the copy counts as behind. Any thread.
 *
 * Source: architecture, "Read"; Geo's question whether a repository is fresh enough.
 */
#ifndef PULL_FRESHNESS_H
#define PULL_FRESHNESS_H

#include "pull/pull.h"
#include "replicable/origin_rows.h"

struct freshness;

enum fresh {
	FRESH,
	FRESH_NOT_COPIED, /* no row, or never synced */
	FRESH_BEHIND,     /* something newer is known of, or the row failed */
	FRESH_HELD,       /* held_reason is set */
	FRESH_PUSHED,     /* a push went through this site that is not here yet */
	FRESH_NOT_HEARD,  /* as above it would be fresh, but the primary is silent */
	FRESH_GONE,       /* deleted at the primary */
	FRESH_DAMAGED,    /* its own files cannot be read, or are not as they were left */
	FRESH_KINDS
};

/* "fresh", "not_copied", "behind", ...: for logs and the metrics' label class. Static. */
const char *fresh_name(enum fresh fresh);

/* Both are borrowed, until _free. What was passed on before the start, and was not known
 * to be over, is marked. */
struct freshness *freshness_new(struct store *store, struct pull *pull,
				int64_t fresh_for_ms);
void freshness_free(struct freshness *freshness);
void freshness_set(struct freshness *freshness, int64_t fresh_for_ms);

/* From memory, without waiting: true and *fresh if it is known and nothing was written to
 * the database since. For threads that must not wait. */
bool freshness_now(struct freshness *freshness, const char *name, enum fresh *fresh);

/* The same, asking the database. */
int freshness_look(struct freshness *freshness, const char *name, enum fresh *fresh,
		   struct err *err);

/* What the primary has of `name` may be newer than the copy, and is shown to a reader:
 * from now on it is FRESH_PUSHED, until the event that comes with _ended is reached: the
 * primary's last one, told with what is shown, or asked for after the push. NULL, or of
 * another timeline than the cursor's: it stays so until the cursor has read an answer
 * that was asked for after this call. Marks may overlap. Each _began has one of the
 * others, before the client is told. */
void freshness_mark_began(struct freshness *freshness, const char *name);
/* The same for a push that is about to be forwarded; it may become newer there. This one
 * is durable, and counts after a crash, too: then as one that has ended before the start.
 * Waits for the disk. -1: nothing is marked, it must not be forwarded. */
MUST_CHECK int freshness_push_began(struct freshness *freshness, const char *name,
				    struct err *err);
/* Whether the last _push_began() failed. */
bool freshness_cannot_note(struct freshness *freshness);
void freshness_mark_ended(struct freshness *freshness, const char *name,
			  const struct event_ends *ends);
/* It changed nothing, for certain: the primary was not reached, or refused it (401, 403,
 * 404, ...). As if it had not begun. */
void freshness_mark_dropped(struct freshness *freshness, const char *name);

/*
 * How far the primary's events are known: the log cursor says it, freshness.c asks. A
 * part of struct pull; any thread.
 */

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

/* The log cursor asks: the number of that request. */
uint64_t news_asked(struct pull *pull);

/* Its answer told of all events that there were, and they are taken over. */
void news_all(struct pull *pull, uint64_t request, int64_t heard_at);

/* Events were lost: until all is compared, nothing that was heard counts. */
void news_none(struct pull *pull, enum news_void why);

/* Wakes those that wait for news, to look again or to stop. */
void news_turn(struct pull *pull);

/* serve.freshFor; 0: its default. */
void news_set_fresh_for(struct pull *pull, int64_t fresh_for_ms);

/* For how long a request may wait for events, so that an idle primary is heard of often
 * enough. */
int64_t news_wait_s(struct pull *pull);

#endif
