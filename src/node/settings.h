/*
 * What a node reads from its configuration besides what the parts read for themselves.
 */
#ifndef NODE_SETTINGS_H
#define NODE_SETTINGS_H

#include "base/conf.h"
#include "blob/kinds.h"
#include "cli/site.h"
#include "pull/pull.h"
#include "push/settings.h"
#include "serve/settings.h"
#include "web/transport.h"
#include "wire/wire_token.h"

struct node_settings {
	struct site site;
	char *listen; /* http.listen; owned */
	char *url;    /* http.url; owned; NULL: not said */
	struct transport transport;
	struct site_key key; /* of a secondary, if has_key */
	bool has_key;
	struct pull_settings pull; /* also for the primary: verification */
	struct serve_settings serve;
	struct blob_kinds blobs;
	int64_t scan_interval_ms;
	int64_t keep_for_ms;
	uint64_t keep_number;
	struct push_settings *push; /* a reference; NULL: nothing is said of push */
};

#define AUTO_SETTINGS __attribute__((cleanup(node_settings_clear)))

/* ERR_CONFIG says what is missing or wrong for this role. */
int node_settings_read(const struct conf *conf, struct node_settings *settings,
		       struct err *err);
void node_settings_clear(struct node_settings *settings);

/* Whether serve would take it, tokens included. */
int node_settings_check(const struct conf *conf, struct err *err);

#endif
