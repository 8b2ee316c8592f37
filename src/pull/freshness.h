/*
 * Whether a copy is as good as the primary's repository, so that it can answer a reader:
 * its generation is the last one reported, on the same timeline, its row is synced and
 * not held, and the primary was heard from within serve.freshFor. A pusher through this
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
	FRESH_BEHIND,     /* something newer is known, or the row failed */
	FRESH_HELD,       /* held_reason is set */
	FRESH_PUSHED,     /* a push that went through this site is not here yet */
	FRESH_NOT_HEARD,  /* otherwise fresh, but the primary is silent */
	FRESH_GONE,       /* deleted at the primary */
	FRESH_DAMAGED,    /* its own files cannot be read, or are not as they were left */
	FRESH_KINDS
};

/* "fresh", "not_copied", "behind", ...: for logs and the metrics' label class. Static. */
const char *fresh_name(enum fresh fresh);

/* Both are borrowed, until _free. Pushes that were forwarded before the start, and were
 * not recorded as ended, are marked. */
struct freshness *freshness_new(struct store *store, struct pull *pull,
				int64_t fresh_for_ms);
void freshness_free(struct freshness *freshness);
void freshness_set(struct freshness *freshness, int64_t fresh_for_ms);

/* From memory, without waiting: true and *fresh if it is known and the database was not
 * written to since. For threads that must not wait. */
bool freshness_now(struct freshness *freshness, const char *name, enum fresh *fresh);

/* The same, by asking the database. */
int freshness_look(struct freshness *freshness, const char *name, enum fresh *fresh,
		   struct err *err);

/* A reader is shown the primary's state of `name`, which may be newer than the copy: from
 * now on the copy is FRESH_PUSHED, until the event given to _ended is reached: the
 * primary's last one, sent with that state, or requested after the push. NULL, or an
 * event of another timeline than the cursor's: it stays so until the cursor has read an
 * answer to a request made after this call. Marks may overlap. Each _began needs one of
 * the others, before the client gets its answer. */
void freshness_mark_began(struct freshness *freshness, const char *name);
/* The same for a push that is about to be forwarded. This mark is durable, and counts
 * after a crash, too: then as a push that ended before the start. Waits for the disk. -1:
 * nothing is marked; do not forward it. */
MUST_CHECK int freshness_push_began(struct freshness *freshness, const char *name,
				    struct err *err);
/* Whether the last _push_began() failed. */
bool freshness_cannot_note(struct freshness *freshness);
void freshness_mark_ended(struct freshness *freshness, const char *name,
			  const struct event_ends *ends);
/* The push certainly changed nothing: the primary was not reached, or refused it (401,
 * 403, 404, ...). As if it had not begun. */
void freshness_mark_dropped(struct freshness *freshness, const char *name);

/*
 * How far the primary's events are known: reported by the log cursor, read by
 * freshness.c. A part of struct pull; any thread.
 */

struct pull;
struct stop;

/* Why the news heard so far do not count until everything is compared. */
enum news_void {
	NEWS_COUNT,         /* they do count, or nothing was heard yet */
	NEWS_FIRST,         /* of a primary that was unknown */
	NEWS_LOST,          /* the primary does not keep events for that long */
	NEWS_OF_ANOTHER_LOG /* it was restored or created anew */
};

struct pull_news {
	uint64_t asked;   /* requests of the log cursor, ever */
	uint64_t reached; /* the newest whose answer led to the log's end and was taken
			     over; 0: none */
	int64_t heard_at; /* boot ms of that answer; 0: never, or it is void */
	enum news_void is_void;
	int64_t fresh_for_ms;
	uint64_t turn;   /* grows with `reached`, and with news_turn() */
	uint64_t cursor; /* as in struct pull_state */
	bool has_cursor;
	char timeline[TIMELINE_SIZE]; /* of the cursor */
};

/* The log cursor begins a request; returns its number. */
uint64_t news_asked(struct pull *pull);

/* Its answer had all events up to the log's end, and they are taken over. */
void news_all(struct pull *pull, uint64_t request, int64_t heard_at);

/* Events were lost: until everything is compared, the news heard so far do not count. */
void news_none(struct pull *pull, enum news_void why);

/* Wakes the threads that wait for news, to check again or to stop. */
void news_turn(struct pull *pull);

/* serve.freshFor; 0: its default. */
void news_set_fresh_for(struct pull *pull, int64_t fresh_for_ms);

/* How long a request may wait for events, so that an idle primary is heard from often
 * enough. */
int64_t news_wait_s(struct pull *pull);

#endif
