/*
 * Makes a first copy from a primary by copying its packs as they are, instead of git's
 * fetch: the primary packs nothing, and this side computes little more than the proof of
 * the bytes.
 */
#ifndef PULL_BRING_PACKS_H
#define PULL_BRING_PACKS_H

#include "base/base.h"

struct primary_line;
struct source_want;

/* Decides from what is known before any request. */
bool bring_packs_is_worth_it(const struct source_want *want);

/* 0: as source_bring(); every object of the packs has been read and matches its name. 1:
 * git must bring it; nothing of the attempt is left. */
int bring_packs(struct primary_line *line, const struct source_want *want,
		struct err *err);

/* Registers its metrics, so that they exist from the start. */
void bring_packs_begin_metrics(void);

#endif
