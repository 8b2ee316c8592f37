/*
 * A service's output in bands: the answer in the first, messages to people in the second,
 * the reason for breaking off in the third. Plain data.
 *
 * Source: gitprotocol-pack(5), "side-band-64k".
 */
#ifndef GIT_SIDE_BAND_H
#define GIT_SIDE_BAND_H

#include "base/base.h"
#include "base/str.h"
#include "git/pkt_line.h"

/* Appends the first band up to the flush, which must come last. ERR_CORRUPT: no flush, or
 * broken off. */
int side_band_join(struct pkt_reader *reader, struct str *out, struct err *err);

#define SIDE_BANDS 3 /* the first byte of their packets is 1 to 3 */

#endif
