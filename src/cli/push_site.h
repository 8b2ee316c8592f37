/*
 * What commands about push work with: the site, what its configuration says of remotes,
 * the task store and its leases. Opened without a node; a running one does not mind.
 */
#ifndef CLI_PUSH_SITE_H
#define CLI_PUSH_SITE_H

#include "base/base.h"
#include "cli/site.h"
#include "push/settings.h"
#include "push/task_store.h"

struct push_site {
	struct site site;
	struct push_settings *settings;
	struct task_store *tasks;
	struct lease_manager *leases; /* of the task store; NULL: it has none yet, and
					 is only read */
};

/* Who does not change the store makes nothing of it. Close it in any case. Without any
 * remote it succeeds. */
int push_site_open(const struct cli *cli, bool changes, struct push_site *push,
		   struct err *err);

/* ERR_CONFIG: the site has no remote. `settings` NULL: there is no word of push. */
int push_site_check_remotes(const struct site *site, const struct push_settings *settings,
			    struct err *err);
void push_site_close(struct push_site *push);

/* Store and leases of settings that were read before, to be looked at. */
struct push_sight {
	struct task_store *tasks;     /* NULL: it cannot be opened */
	struct lease_manager *leases; /* NULL: there are none yet, or cannot be opened */
	struct err why_not;           /* because of this; ERR_NONE: they can */
};
int push_site_look(const struct push_settings *settings, const char *data,
		   struct push_sight *sight, struct err *err);
void push_sight_close(struct push_sight *sight);

/* The node here looks at the store now, if one runs. Those of other hosts do at their
 * next interval. */
void push_site_wake(const struct push_site *push);

#endif
