/*
 * A secondary's state, over all kinds of replicables: the header WIRE_REPORT of its
 * requests for events.
 */
#ifndef WIRE_WIRE_REPORT_H
#define WIRE_WIRE_REPORT_H

#include "base/vec.h"
#include "wire/wire.h"

#define WIRE_REPORT_TYPES_MAX 64 /* or none are told, as they might not fit */

struct wire_report {
	int64_t behind, failing, held, lag_ms, synced, replicables;
	bool knows_in_sync, in_sync; /* its own verdict; false: from a version without
					one */
	char *reason;                /* why it is not in sync; owned, may be NULL */
	char *node;                  /* names this run of its node; owned, may be NULL */
	bool knows_blob_types;       /* false: from a version that does not tell them */
	text_list blob_types;        /* the kinds of blobs that it copies; owned */
};

#define AUTO_WIRE_REPORT __attribute__((cleanup(wire_report_clear)))
void wire_report_clear(struct wire_report *report);

/* Appends the header's value, including the verdict. */
void wire_report_render(const struct wire_report *report, struct str *out);

/* Members that are absent, or of another type, become 0. ERR_CORRUPT: not an object. The
 * caller clears in any case. */
int wire_report_parse(const char *text, struct wire_report *report, struct err *err);

#endif
