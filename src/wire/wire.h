/*
 * Messages between sites: docs/protocol.md. Each message is rendered and parsed in one
 * file of this folder, with one struct: text to struct, and back, nothing else. net/
 * transports messages, the callers provide the data. An invalid message is refused as a
 * whole (ERR_CORRUPT, with a text that says why); unknown members and lines are those of
 * a later version and are ignored. Any thread.
 */
#ifndef WIRE_WIRE_H
#define WIRE_WIRE_H

#include "base/base.h"
#include "base/json.h"
#include "blob/kinds.h"
#include "replicable/origin_rows.h"

/* The protocol's version: it changes when sites of different versions no longer
 * understand each other. */
#define WIRE_PROTOCOL 1

/* Headers. */
#define WIRE_TIMELINE "Refrelay-Timeline" /* of the event log */
#define WIRE_LAST_EVENT                                                                  \
	"Refrelay-Last-Event"               /* "ID MARK", or "ID" (wire/wire_event.h)    \
					     */
#define WIRE_TIME "Refrelay-Time"           /* the answering site's clock */
#define WIRE_REPORT "Refrelay-Report"       /* wire/wire_report.h */
#define WIRE_BANDWIDTH "Refrelay-Bandwidth" /* requested bytes a second */
#define WIRE_CHECKSUM "Refrelay-Checksum"   /* of a blob */
#define WIRE_ERROR_REASON "Refrelay-Error-Reason" /* for text answers without a code */

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

/* The error class of a refusal for the asking site. False: the code does not concern the
 * requested object. */
bool wire_code_class(const char *code, enum err_class *class);

/* Fills *err and returns -1: the primary's answer makes no sense. */
PRINTF_LIKE(2, 3) int wire_lied(struct err *err, const char *fmt, ...);

/* 16 hex digits: a timeline, or the mark of an event. */
bool wire_is_id(const char *text);

/* 64 hex digits. */
bool wire_is_digest(const char *text);

/* Reads a member of a JSON object. False: absent, or of another type. */
bool wire_get_id(const json_t *object, const char *key, char id[TIMELINE_SIZE]);
bool wire_get_number(const json_t *object, const char *key, uint64_t *number);
bool wire_get_time(const json_t *object, const char *key, int64_t *wall_ms);

/* NULL: absent, or not a text. The caller frees. */
char *wire_get_text(const json_t *object, const char *key);

/* A checksum, or null (*checksum NULL): "1-" and 64 digits for a repository, 64 digits
 * for a blob. The caller frees. */
bool wire_get_checksum(const json_t *object, const char *key, bool is_blob,
		       char **checksum);

#endif
