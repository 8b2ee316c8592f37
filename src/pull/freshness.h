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

#endif
