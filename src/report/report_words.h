/*
 * Rows and numbers as people read them.
 */
#ifndef REPORT_REPORT_WORDS_H
#define REPORT_REPORT_WORDS_H

#include "base/base.h"
#include "base/json.h"
#include "base/str.h"
#include "replicable/registry_types.h"

/* How long, for people: "0.4 s", "3 min", "2 d". */
void report_duration(int64_t ms, struct str *out);

/* So many bytes, for people: "3.4 GB". */
void report_size(int64_t bytes, struct str *out);

struct report;
struct verdict;

/* Appends a clause that says why a site is not known to be in sync, and since when. */
void report_why(const struct report *report, const struct verdict *verdict,
		struct str *out);

/* Appends that no node runs here, and since when as far as that is known. */
void report_no_node(const struct report *report, struct str *out);

/* One registry row for the API and `repository list --json`. */
json_t *report_row_json(const struct registry_row *row, int64_t now);

/* The word for people: up to date, behind, copying, verifying, waiting, held, failing,
 * gone. */
const char *report_row_word(const struct registry_row *row);

#endif
