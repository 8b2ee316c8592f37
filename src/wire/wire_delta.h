/*
 * The request of a secondary that has some generation of a repository already, or nothing
 * of it yet, and the combined changes of several events. For the answer see
 * wire/wire_refs.h.
 */
#ifndef WIRE_WIRE_DELTA_H
#define WIRE_WIRE_DELTA_H

#include "base/vec.h"
#include "git/checksum.h"
#include "git/oid.h"
#include "wire/wire.h"

/* The secondary's state, proved from its own disk. */
struct wire_delta_question {
	char timeline[TIMELINE_SIZE]; /* "": it has nothing */
	uint64_t generation;          /* 0 then */
	char checksum[CHECKSUM_TEXT_SIZE];
	uint64_t limit; /* largest pack that it accepts, in bytes */
};

/* Appends a JSON object, the request's body. */
void wire_delta_ask(const struct wire_delta_question *question, struct str *body);
int wire_delta_read_question(const struct str *body, struct wire_delta_question *question,
			     struct err *err);

/* A value of one ref, or of HEAD. */
struct wire_ref_value {
	struct oid oid; /* len 0: it does not exist, or is symbolic */
	char *target;   /* owned; NULL: it is not symbolic */
};
struct wire_ref_change {
	char *name; /* owned */
	struct wire_ref_value before, after;
	size_t order; /* position in which it was added */
};
typedef VEC(struct wire_ref_change) wire_ref_changes;
#define AUTO_REF_CHANGES __attribute__((cleanup(wire_ref_changes_clear)))
void wire_ref_changes_clear(wire_ref_changes *changes);

/* Adds those of one event, from event.changes. ERR_CORRUPT: not a list of changes. */
int wire_ref_changes_add(wire_ref_changes *changes, const char *text, size_t oid_len,
			 struct err *err);

/* One for each name, from the first value to the last, in byte order of names. */
void wire_ref_changes_fold(wire_ref_changes *changes);

/* The checksum of refs after these changes. */
void wire_ref_changes_apply(const wire_ref_changes *changes, struct checksum *sum);

#endif
