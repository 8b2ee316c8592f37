/*
 * One page of an inventory compared with the registry; for pull/consistency.c, which has
 * the why.
 */
#ifndef PULL_COMPARE_PAGE_H
#define PULL_COMPARE_PAGE_H

#include "pull/pull_parts.h"

struct page_comparison {
	struct pull *pull;
	const char *kind;
	const char *after; /* as the page was asked for */
	const struct inventory_page *page;
	size_t found; /* grows by the differences */
	size_t left;  /* grows by those that are left to the events that tell of them */
	int64_t rows; /* grows by those of the registry that were looked at */
};

/* ERR_LOST: the lease of the comparing part; ERR_CANCELED: stop. */
int compare_page(struct lease *lease, struct page_comparison *comparison,
		 struct err *err);

#endif
