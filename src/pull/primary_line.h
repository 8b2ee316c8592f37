/*
 * One request on a line, for the files of pull/primary.h only.
 */
#ifndef PULL_PRIMARY_LINE_H
#define PULL_PRIMARY_LINE_H

#include "blob/kinds.h"
#include "pull/primary.h"

#define PRIMARY_API "/api/v1/"

/* Signs, asks, judges: 0: an answer of status 200, 206 or 304; -1 with *err and the
 * answer that it came from. What a refrelay primary says of one replicable is no failure
 * of the primary; only its own word makes one missing: a 404 may be anybody's. */
int primary_call(struct primary_line *line, struct site_request *request,
		 struct site_answer *answer, struct err *err);

/* An answer that makes no sense is a failure of the primary. Returns -1. */
int primary_call_failed(struct primary_line *line, const struct err *err);

/* As primary_inventory(), of the inventory that is at `target`; kind NULL: of
 * repositories. */
int primary_inventory_at(struct primary_line *line, const char *target,
			 const struct blob_kind *kind,
			 const struct page_question *question,
			 struct inventory_page *page, struct err *err);

#endif
