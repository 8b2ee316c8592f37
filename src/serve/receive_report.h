/*
 * What git says in a push, between git and who reads it: progress and what hooks say may
 * pass at once, the report and all behind it only when that is allowed. Plain data, for
 * one thread at a time.
 *
 * Source: gitprotocol-pack(5), "Report Status"; gitprotocol-capabilities(5),
 * "side-band".
 */
#ifndef SERVE_RECEIVE_REPORT_H
#define SERVE_RECEIVE_REPORT_H

#include "base/str.h"
#include "serve/receive_outcome.h"

struct receive_report {
	struct str said; /* by git, and not yet taken by the reader */
	size_t passable; /* of it: progress, or all */
	size_t taken;    /* of that, by the reader */
	bool has_begun;  /* what stands behind `passable` is the report */
	struct receive_outcome_reader reader; /* of the report */
	bool is_unread; /* nobody takes any yet: progress beyond a bound is dropped */
};
#define RECEIVE_REPORT_INIT                                                              \
	{                                                                                \
		.said = STR_INIT, .reader = RECEIVE_OUTCOME_READER_INIT                  \
	}

void receive_report_clear(struct receive_report *report);

/* Git has said more. True: the report has begun. */
bool receive_report_add(struct receive_report *report, const char *data, size_t len);

/* Everything may pass. */
void receive_report_pass(struct receive_report *report);

/* Whether there is anything to take. */
bool receive_report_has(const struct receive_report *report);

/* Takes at most `size` bytes of what may pass. */
size_t receive_report_take(struct receive_report *report, void *buffer, size_t size);

/* Frees what was taken. */
void receive_report_drop_taken(struct receive_report *report);

/* All that may pass is taken, by nobody. */
void receive_report_ignore(struct receive_report *report);

#endif
