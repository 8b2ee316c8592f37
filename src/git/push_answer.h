/*
 * What a receive-pack says at the end of a push: a stranger's words, of which only a
 * whole and plain report counts.
 *
 * Source: gitprotocol-pack(5), "Report Status"; gitprotocol-capabilities(5),
 * "report-status", "side-band-64k".
 */
#ifndef GIT_PUSH_ANSWER_H
#define GIT_PUSH_ANSWER_H

#include "base/base.h"
#include "base/vec.h"

/* Of the answer to a push that asked for "report-status", and for a band of its own
 * (has_bands: for "side-band-64k"). 0: *taken, which the caller clears, gets the names of
 * the refs that are said to be as they were asked to be, in byte order; others may have
 * been refused. -1: ERR_CORRUPT: it is no report, is cut short, or tells of a ref twice;
 * ERR_CONFLICT: the pack was refused. Then *taken is empty. */
int push_answer_read(const char *bytes, size_t len, bool has_bands, text_list *taken,
		     struct err *err);

#endif
