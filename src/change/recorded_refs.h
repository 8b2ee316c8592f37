/*
 * The last recorded refs of a repository at the primary: data/refs/<id>. Optional: a torn
 * or outdated file counts as absent.
 */
#ifndef CHANGE_RECORDED_REFS_H
#define CHANGE_RECORDED_REFS_H

#include "base/base.h"
#include "base/str.h"
#include "git/refs.h"

/* Reads the refs with this checksum; the caller clears the snapshot. */
bool recorded_refs_read(const char *data, uint64_t id, const char *checksum,
			size_t oid_len, struct ref_snapshot *snapshot);

int recorded_refs_write(const char *data, uint64_t id, const char *checksum,
			const struct ref_snapshot *snapshot, struct err *err);

/* Records the change since the last recorded refs. False: write them in full, since the
 * file has others or is full. */
struct recorded_change {
	const char *before_sum, *after_sum; /* checksums */
	const struct ref_diff *diff;
	const struct ref_snapshot *after; /* of HEAD */
};
bool recorded_refs_append(const char *data, uint64_t id,
			  const struct recorded_change *change);

/* Removes what a killed process left half written: each may be as large as a repository's
 * refs. At the start: of a command that writes just then the refs are not recorded, which
 * costs a delta. */
void recorded_refs_sweep(const char *data);

void recorded_refs_remove(const char *data, uint64_t id);

/* Formats refs as in the file after its first line; and parses them. Names and targets
 * then point into the lines, which are modified. */
void recorded_refs_add_lines(const struct ref_snapshot *snapshot, struct str *lines);
bool recorded_refs_parse(char *lines, size_t oid_len, struct ref_snapshot *snapshot);

#endif
