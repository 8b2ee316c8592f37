/*
 * The refs that were recorded last of a repository at the primary: data/refs/<id>. Only
 * ever a help: what is torn, absent or of another moment is as if there were none.
 */
#ifndef CHANGE_RECORDED_REFS_H
#define CHANGE_RECORDED_REFS_H

#include "base/base.h"
#include "base/str.h"
#include "git/refs.h"

/* Those that belong to this checksum; the caller clears the snapshot. */
bool recorded_refs_read(const char *data, uint64_t id, const char *checksum,
			size_t oid_len, struct ref_snapshot *snapshot);

int recorded_refs_write(const char *data, uint64_t id, const char *checksum,
			const struct ref_snapshot *snapshot, struct err *err);

/* What has become of refs that were recorded last. False: to be written whole, since
 * others stand there, or there is no room, or the repository is small. */
struct recorded_change {
	const char *before_sum, *after_sum; /* checksums */
	const struct ref_diff *diff;
	const struct ref_snapshot *after; /* of HEAD */
};
bool recorded_refs_append(const char *data, uint64_t id,
			  const struct recorded_change *change);

void recorded_refs_remove(const char *data, uint64_t id);

/* The refs as such a file has them below its first line; and back. Names and targets then
 * point into the lines, which are cut up. */
void recorded_refs_add_lines(const struct ref_snapshot *snapshot, struct str *lines);
bool recorded_refs_parse(char *lines, size_t oid_len, struct ref_snapshot *snapshot);

#endif
