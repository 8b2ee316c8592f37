/*
 * What a primary answers, read and judged: text in, struct out, nothing else. What makes
 * no sense is ERR_CORRUPT with a text that says what, and nothing of it counts. For
 * pull/primary.c and the tests.
 */
#ifndef PULL_PRIMARY_PARSE_H
#define PULL_PRIMARY_PARSE_H

#include "blob/kinds.h"
#include "pull/primary.h"

/* Fills *err and returns -1: the primary's answer is broken. */
PRINTF_LIKE(2, 3) int primary_lied(struct err *err, const char *fmt, ...);

/* 16 hex digits: a timeline, or the mark of an event. */
bool primary_is_id(const char *text);

/* A member of a JSON object. False: it is not there, or not of that kind. */
bool primary_get_id(const json_t *object, const char *key, char id[TIMELINE_SIZE]);
bool primary_get_number(const json_t *object, const char *key, uint64_t *number);
bool primary_get_time(const json_t *object, const char *key, int64_t *wall_ms);

/* "1-" and 64 digits, or null (*checksum NULL). The caller frees. */
bool primary_get_checksum(const json_t *object, char **checksum);

/* 64 hex digits. */
bool primary_is_digest(const char *text);

/* Of a blob: SHA-256 in 64 hex digits, or null. Likewise. */
bool primary_get_digest(const json_t *object, char **digest);

/* The headers of an answer about events. */
int primary_parse_ends(const char *timeline, const char *last_event,
		       struct event_ends *ends, struct err *err);

/* The body: one event a line, at most question->limit, ids dense, none above
 * answer->ends.last. */
int primary_parse_events(const struct str *body,
			 const struct primary_events_question *question,
			 struct primary_events *answer, struct err *err);

/* `kind` NULL: of repositories. */
int primary_parse_inventory(const struct str *body, const struct blob_kind *kind,
			    const struct page_question *question,
			    struct inventory_page *page, struct err *err);

int primary_parse_refs(const struct str *body, struct primary_refs *refs,
		       struct err *err);

#endif
