/*
 * The refs of one repository at one moment, and the cuts of its history: plain bytes,
 * since names of refs need not be UTF-8. Lines of "KEY VALUE" up to an empty one, then
 * the refs, one per line; their names contain neither spaces nor line feeds
 * (ref_name_is_valid), so that lines need no quoting.
 */
#ifndef WIRE_WIRE_REFS_H
#define WIRE_WIRE_REFS_H

#include "git/checksum.h"
#include "git/refs.h"
#include "wire/wire.h"

#define WIRE_LENDERS_MOST 64
#define WIRE_REFS_TYPE "application/x-refrelay-refs"

struct wire_refs {
	struct ref_snapshot refs;
	size_t oid_len;
	char timeline[TIMELINE_SIZE];
	char log[TIMELINE_SIZE]; /* the log's timeline; "": not given, by an older primary
				  */
	uint64_t generation;
	char checksum[CHECKSUM_TEXT_SIZE];
	int64_t changed_at;
	char *description; /* owned; NULL: none */
	char *settings;    /* for readers (git/read_settings.h); owned; NULL: not given,
			      by a primary of an older version */
	uint64_t pushed_settled, pushed_announced; /* change/pushed.h; 0: not given */
	uint64_t pack_bytes;                       /* 0: not given */
	text_list lenders; /* names of repositories whose objects it borrows; owned */
};
void wire_refs_clear(struct wire_refs *refs);

/* Appends the answer's body, including `settings`. */
void wire_refs_render(const struct wire_refs *refs, struct str *body);

/* Checks that names are valid and in order, and the checksum that of the refs. After a
 * failure nothing needs clearing. */
int wire_refs_parse(const struct str *body, struct wire_refs *refs, struct err *err);

/*
 * The same as a difference from refs that the reader has: lines up to an empty one as
 * above, then only the changed refs ("- NAME" for a deleted one), then the pack of their
 * new objects, whose length is in a line "pack BYTES".
 */

#define WIRE_DELTA_TYPE "application/x-refrelay-delta"

/* names: of refs, in byte order, each once; HEAD is always sent. */
void wire_delta_render(const struct wire_refs *refs, const text_list *names,
		       const struct str *pack, struct str *body);

/* The reader's state: refs, and their checksum, which it has proved. */
struct wire_delta_base {
	struct ref_snapshot *refs; /* taken over, also on failure */
	const struct checksum *sum;
	size_t oid_len; /* 0: it has nothing, and accepts either */
};

/* Computes the new refs from the base, and the pack. The same proof as for whole refs, in
 * time proportional to the changes. For a reader without a base whole refs are a valid
 * answer, too, without a pack. */
int wire_delta_parse(const struct str *body, const struct wire_delta_base *base,
		     struct wire_refs *refs, struct str *pack, struct err *err);

#endif
