/*
 * What a service sends in bands: its answer in the first, what it says to people in the
 * second, why it broke off in the third. Plain data.
 *
 * Source: gitprotocol-pack(5), "side-band-64k".
 */
#ifndef GIT_SIDE_BAND_H
#define GIT_SIDE_BAND_H

#include "base/base.h"
#include "base/str.h"
#include "git/pkt_line.h"

/* Appends the first band up to the flush, which has to be the last. ERR_CORRUPT: it has
 * none, or broke off. */
int side_band_join(struct pkt_reader *reader, struct str *out, struct err *err);

#define SIDE_BANDS 3 /* the first byte of their packets is 1 to 3 */

#endif
