/*
 * The services for request handlers. Filled in by node/; everything is borrowed while the
 * server runs. Members of the other role are NULL.
 */
#ifndef WEB_SERVICES_H
#define WEB_SERVICES_H

#include "base/fair.h"
#include "change/blob_notice.h"
#include "change/event_log.h"
#include "change/inventory.h"
#include "change/notice.h"
#include "change/watch.h"
#include "lease/lease.h"
#include "mirror/poll.h"
#include "net/forward.h"
#include "pull/freshness.h"
#include "pull/pull.h"
#include "push/push.h"
#include "report/followers.h"
#include "report/report.h"
#include "report/vitals.h"
#include "serve/pushes.h"
#include "serve/serve.h"
#include "store/store.h"
#include "verify/lfs_names.h"
#include "verify/verify_origin.h"
#include "web/access.h"
#include "web/bucket.h"
#include "web/manifest.h"

struct web_services {
	enum site_role role;
	const char *site;
	const char *root; /* site.repositories */
	const char *data; /* site.data */
	const char *primary_url;
	const char *url; /* http.url: as clients reach this site; NULL: not set */
	struct serve *serve;
	struct pushes *pushes; /* not of a secondary */
	struct store *store;
	struct vitals *vitals;
	struct followers *followers; /* of a primary */
	struct lease_manager *leases;
	struct access *access;
	struct manifest_book *manifest;
	struct buckets *buckets;       /* may be NULL */
	const struct kinds_here *here; /* any role */
	struct lfs_names *lfs_names;   /* NULL: no kind for objects of Git LFS */
	/* primary and standalone; a secondary that pushes keeps its own private */
	struct event_log *events;
	struct notice *notice;
	struct watch *watch;
	const struct mirrors *mirrors; /* NULL: not configured; likewise: */
	struct mirror_poll *mirror_poll;
	struct pull *mirror_pull;
	/* primary */
	struct inventory_tags *inventory_tags;
	struct verify_origin *verify_origin;
	struct watch *blob_watch;
	/* secondary */
	struct pull *pull;
	struct primary *primary;
	struct freshness *freshness;
	struct forwarder *forwarder;
	struct fair *forwarded_reads, *forwarded_pushes; /* of Git */
	struct fair *forwarded_files; /* blobs, and objects of Git LFS */
	/* any role, if push is configured; settings: push_settings_of() */
	struct task_store *tasks;
	struct lease_manager *push_leases; /* of the task store */
	struct push_sink *push_sink;
	struct push *push;
};

/* Limits how many requests at once a secondary forwards to its primary. */
struct fair *git_forward_places(bool is_of_pushes);
struct fair *git_forward_file_places(void);

#endif
