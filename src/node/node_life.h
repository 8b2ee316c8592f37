/*
 * What a node knows and tells of its own life: vital signs, which secondaries are to ask,
 * and what a primary is told of this one.
 */
#ifndef NODE_NODE_LIFE_H
#define NODE_NODE_LIFE_H

#include "node/settings.h"
#include "report/followers.h"
#include "report/vitals.h"
#include "web/services.h"

struct node_life {
	const struct node_settings *settings; /* borrowed, as the store */
	struct store *store;
	struct vitals *vitals;
	struct followers *followers; /* of a primary, else NULL */
	char name[33];               /* of this run, as the primary is told */
};

/* Before the role's parts are started; with them known, the second is called. */
void node_life_start(const struct node_settings *settings, struct store *store,
		     struct node_life *life);
void node_life_add(struct node_life *life, const struct web_services *services);

/* When all of those have ended. Without a start it does nothing. */
void node_life_stop(struct node_life *life);

/* The sections [secondary] are those that are to ask. */
int node_life_expect(struct node_life *life, const struct conf *conf, struct err *err);

/* pull_options.report; arg: the struct node_life. */
int node_life_report(void *arg, struct str *out, bool *is_good, struct err *err);

#endif
