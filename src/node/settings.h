/*
 * A node's settings, besides those that its parts read for themselves.
 */
#ifndef NODE_SETTINGS_H
#define NODE_SETTINGS_H

#include "alert/settings.h"
#include "base/log.h"
#include "base/setting.h"
#include "cli/site.h"
#include "mirror/mirrors.h"
#include "pull/kinds.h"
#include "pull/pull.h"
#include "push/settings.h"
#include "serve/settings.h"
#include "web/transport.h"
#include "wire/wire_token.h"

struct node_settings {
	struct site site;
	struct transport transport;
	struct site_key key; /* of a secondary, if has_key */
	bool has_key;
	struct pull_settings pull; /* also for the primary: verification */
	struct serve_settings serve;
	struct kinds_here kinds;
	struct mirrors mirrors;
	struct alerts alerts;
	int64_t keep_for_ms; /* events */
	uint64_t keep_number;
	unsigned log_format;        /* enum log_format */
	struct push_settings *push; /* a reference; NULL: push is not configured */
};

#define AUTO_SETTINGS __attribute__((cleanup(node_settings_clear)))

/* ERR_CONFIG names the missing or wrong setting for this role. */
int node_settings_read(const struct conf *conf, struct node_settings *settings,
		       struct err *err);
void node_settings_clear(struct node_settings *settings);

/* Logs which changed settings take effect only after a restart. */
void node_settings_report_restarts(const struct node_settings *before,
				   const struct node_settings *after);

/* All existing sections and keys; ends in NULL. */
extern const struct setting_table *const node_settings_tables[];
/* Whether serve would accept it, tokens included. */
int node_settings_check(const struct conf *conf, struct err *err);

#endif
