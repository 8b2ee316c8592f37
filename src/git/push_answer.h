/*
 * The answer of receive-pack at the end of a push: untrusted input, accepted only as a
 * whole and plain report.
 *
 * Source: gitprotocol-pack(5), "Report Status"; gitprotocol-capabilities(5),
 * "report-status", "side-band-64k".
 */
#ifndef GIT_PUSH_ANSWER_H
#define GIT_PUSH_ANSWER_H

#include "base/base.h"
#include "base/vec.h"

/* Reads the answer to a push that asked for "report-status" (has_bands: and for
 * "side-band-64k"). 0: *taken, which the caller clears, gets the names of the refs
 * reported as updated, in byte order; others may have been refused. -1: ERR_CORRUPT: not
 * a report, truncated, or a ref reported twice; ERR_CONFLICT: the pack was refused. Then
 * *taken is empty. */
int push_answer_read(const char *bytes, size_t len, bool has_bands, text_list *taken,
		     struct err *err);

#endif
