/*
 * The thread that checks for troubles, and the workers that send messages: [alert].
 * Starts and ends with the node, and restarts when the sections change; the record of
 * sent messages is kept in between.
 */
#ifndef ALERT_ALERTER_H
#define ALERT_ALERTER_H

#include "alert/facts.h"

struct alerter;

struct alerter_options {
	/* Taken, with their content, unless there are no alerts. */
	struct alerts *alerts;
	alert_peers *peers;      /* whose certificates may expire */
	alert_endings *endings;  /* this site's own expiring ones */
	const char *site, *role; /* borrowed while it runs */
	struct alert_sources sources;
};

/* NULL: there are no alerts; the stored state of former ones is removed. */
struct alerter *alerter_start(const struct alerter_options *options);

/* Aborts messages being sent. NULL is allowed. */
void alerter_stop(struct alerter *alerter);

#endif
