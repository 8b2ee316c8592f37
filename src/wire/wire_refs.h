/*
 * The refs of one repository at one moment, and where its history is cut: plain bytes,
 * since names of refs need not be UTF-8. Lines of "KEY VALUE" up to an empty one, then
 * the refs, one a line; their names hold neither spaces nor line feeds
 * (ref_name_is_valid), so that lines need no quoting.
 */
#ifndef WIRE_WIRE_REFS_H
#define WIRE_WIRE_REFS_H

#include "git/checksum.h"
#include "git/refs.h"
#include "wire/wire.h"

#define WIRE_REFS_TYPE "application/x-refrelay-refs"

struct wire_refs {
	struct ref_snapshot refs;
	size_t oid_len;
	char timeline[TIMELINE_SIZE];
	uint64_t generation;
	char checksum[CHECKSUM_TEXT_SIZE];
	int64_t changed_at;
	char *description; /* owned; NULL: none */
	char *settings;    /* for readers (git/read_settings.h); owned; NULL: not told,
			      by a primary of an older version */
	uint64_t pushed_settled, pushed_announced; /* change/pushed.h; 0: not told */
	uint64_t pack_bytes;                       /* 0: not told */
};
void wire_refs_clear(struct wire_refs *refs);

/* Appends the answer's body; `settings` are told. */
void wire_refs_render(const struct wire_refs *refs, struct str *body);

/* Names valid and in order, the checksum that of the refs. Without success nothing is
 * left to be cleared. */
int wire_refs_parse(const struct str *body, struct wire_refs *refs, struct err *err);

/*
 * The same as a difference to refs that the reader has: lines up to an empty one as
 * above, then only the refs that are others now ("- NAME" of one that is gone), then the
 * pack of the objects that are new with them, as long as a line "pack BYTES" says.
 */

#define WIRE_DELTA_TYPE "application/x-refrelay-delta"

/* names: of refs, in byte order, each once; HEAD goes in any case. */
void wire_delta_render(const struct wire_refs *refs, const text_list *names,
		       const struct str *pack, struct str *body);

/* What the reader has: refs, and their checksum, which it has proved. */
struct wire_delta_base {
	struct ref_snapshot *refs; /* taken over, also in vain */
	const struct checksum *sum;
	size_t oid_len; /* 0: it has nothing, and takes either */
};

/* What the base becomes, and the pack. The same proof as of whole refs, in the time that
 * the changes take. For a reader that has nothing whole refs are an answer, too: then
 * there is no pack. */
int wire_delta_parse(const struct str *body, const struct wire_delta_base *base,
		     struct wire_refs *refs, struct str *pack, struct err *err);

#endif
