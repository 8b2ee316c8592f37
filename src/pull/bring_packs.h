/*
 * A first copy from a primary by its packs as they are, in place of git's fetch: nothing
 * is packed there, and little is computed here but what proves the bytes.
 */
#ifndef PULL_BRING_PACKS_H
#define PULL_BRING_PACKS_H

#include "base/base.h"

struct primary_line;
struct source_want;

/* By what is known before anything is asked. */
bool bring_packs_is_worth_it(const struct source_want *want);

/* 0: as source_bring(); every object of the packs has been read and has its name. 1: git
 * is to bring it; of what was tried nothing is left. */
int bring_packs(struct primary_line *line, const struct source_want *want,
		struct err *err);

/* So that its metrics are there from the start. */
void bring_packs_begin_metrics(void);

#endif
