/*
 * The thread that looks what is wrong, and the workers that tell: [alert]. Starts and
 * ends with the node, and anew when the sections change; what was told is kept in
 * between.
 */
#ifndef ALERT_ALERTER_H
#define ALERT_ALERTER_H

#include "alert/facts.h"

struct alerter;

struct alerter_options {
	/* Taken, with what they own, unless there are no alerts. */
	struct alerts *alerts;
	alert_peers *peers;      /* whose certificates may expire */
	alert_endings *endings;  /* what of this site's own does */
	const char *site, *role; /* borrowed as long as it runs */
	struct alert_sources sources;
};

/* NULL: there are no alerts; what was kept of such is forgotten. */
struct alerter *alerter_start(const struct alerter_options *options);

/* What is being sent is broken off. NULL is allowed. */
void alerter_stop(struct alerter *alerter);

#endif
