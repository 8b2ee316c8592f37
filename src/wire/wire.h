/*
 * What sites say to each other: docs/protocol.md. Each message is rendered and parsed in
 * one file of this folder, over one struct: text in, struct out, and back, nothing else.
 * How messages travel is net/'s matter, what they are made of the caller's. What makes no
 * sense is refused as a whole (ERR_CORRUPT, with a text that says what); members and
 * lines that are not known are a later version's. Any thread.
 */
#ifndef WIRE_WIRE_H
#define WIRE_WIRE_H

#include "base/base.h"
#include "base/json.h"
#include "blob/kinds.h"
#include "replicable/origin_rows.h"

/* Of what sites say to each other: another number if sites of one version do not
 * understand those of the other. */
#define WIRE_PROTOCOL 1

/* Headers. */
#define WIRE_TIMELINE "Refrelay-Timeline" /* of the event log */
#define WIRE_LAST_EVENT                                                                  \
	"Refrelay-Last-Event"               /* "ID MARK", or "ID" (wire/wire_event.h)    \
					     */
#define WIRE_TIME "Refrelay-Time"           /* the answering site's clock */
#define WIRE_REPORT "Refrelay-Report"       /* wire/wire_report.h */
#define WIRE_BANDWIDTH "Refrelay-Bandwidth" /* bytes a second that are wanted */
#define WIRE_CHECKSUM "Refrelay-Checksum"   /* of a blob */
#define WIRE_ERROR_REASON "Refrelay-Error-Reason" /* where text shows people no code */

/* Codes of refusals. */
#define WIRE_REPOSITORY_NOT_FOUND "REPOSITORY_NOT_FOUND"
#define WIRE_FILE_NOT_FOUND "FILE_NOT_FOUND"
#define WIRE_BLOB_NOT_FOUND "BLOB_NOT_FOUND"
#define WIRE_KIND_NOT_FOUND "KIND_NOT_FOUND"
#define WIRE_NOT_SCANNED "NOT_SCANNED"
#define WIRE_PACKS_UNAVAILABLE "PACKS_UNAVAILABLE"
#define WIRE_EVENTS_GONE "EVENTS_GONE"
#define WIRE_OTHER_TIMELINE "OTHER_TIMELINE"
#define WIRE_DELTA_UNAVAILABLE "DELTA_UNAVAILABLE"
#define WIRE_NOT_FOUND "NOT_FOUND" /* of URLs */

/* What a refusal is to the site that asked. False: the code says nothing of what was
 * asked for. */
bool wire_code_class(const char *code, enum err_class *class);

/* Fills *err and returns -1: the primary's answer makes no sense. */
PRINTF_LIKE(2, 3) int wire_lied(struct err *err, const char *fmt, ...);

/* 16 hex digits: a timeline, or the mark of an event. */
bool wire_is_id(const char *text);

/* 64 hex digits. */
bool wire_is_digest(const char *text);

/* A member of a JSON object. False: it is not there, or not of that kind. */
bool wire_get_id(const json_t *object, const char *key, char id[TIMELINE_SIZE]);
bool wire_get_number(const json_t *object, const char *key, uint64_t *number);
bool wire_get_time(const json_t *object, const char *key, int64_t *wall_ms);

/* NULL: there is no such text. The caller frees. */
char *wire_get_text(const json_t *object, const char *key);

/* A checksum, or null (*checksum NULL): "1-" and 64 digits of a repository, 64 digits of
 * a blob. The caller frees. */
bool wire_get_checksum(const json_t *object, const char *key, bool is_blob,
		       char **checksum);

#endif
