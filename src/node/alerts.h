/*
 * The input of a node's alerts.
 */
#ifndef NODE_ALERTS_H
#define NODE_ALERTS_H

#include "alert/alerter.h"
#include "node/settings.h"
#include "web/services.h"

/* Lives from the node's start to its end. */
struct node_alerts_place {
	const struct web_services *services;
	const char *push_data; /* of the task store; NULL: none */
	int64_t started_at;    /* boot ms */
};

/* Starts them by the sections in *settings, which it takes from there. NULL: none
 * configured. */
struct alerter *node_alerts_start(const struct conf *conf, struct node_settings *settings,
				  const struct node_alerts_place *place);

#endif
