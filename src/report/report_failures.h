/*
 * Which rows fail, by the classes of their errors, and examples for the sentence.
 * Internal to report/.
 */
#ifndef REPORT_REPORT_FAILURES_H
#define REPORT_REPORT_FAILURES_H

#include "report/report.h"

/* Of a kind of replicables; *examples is cleared first. Reads no row where none fails. */
int report_examples_of_origin(struct store_tx *tx, const char *kind,
			      struct report_examples *examples, struct err *err);
int report_examples_of_copies(struct store *store, const char *kind,
			      const struct registry_counts *counts,
			      struct report_examples *examples, struct err *err);
void report_examples_clear(struct report_examples *examples);

/* The same of one that is held, and how to see the rest, by `list`, and what to do. */
void report_held_say(const struct report_examples *examples, const char *list,
		     struct str *out);

/* The example of the only class, or each class with its number and its example. */
void report_failures_say(const struct report_examples *examples, struct str *out);
json_t *report_failures_json(const struct report_examples *examples);

/* refrelay_failing{kind,class}: also of classes that have none any more. */
void report_failures_metrics(const char *kind, const struct report_examples *examples);

#endif
