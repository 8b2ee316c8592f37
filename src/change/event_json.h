/*
 * What changed between two pictures of refs, as it stands in an event.
 */
#ifndef CHANGE_EVENT_JSON_H
#define CHANGE_EVENT_JSON_H

#include "base/base.h"
#include "git/refs.h"

/* The JSON array of docs/protocol.md as text, HEAD included; NULL: more than
 * EVENT_CHANGES_MAX. The caller frees. */
char *event_changes_of(const struct ref_snapshot *before,
		       const struct ref_snapshot *after);

#endif
