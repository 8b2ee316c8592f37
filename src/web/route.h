/*
 * The table of routes: each request's handler, required right and body. Constant data.
 */
#ifndef WEB_ROUTE_H
#define WEB_ROUTE_H

#include "web/web.h"

/* The right that a request requires; a client has at most one of these. */
enum web_right {
	WEB_ANYBODY,  /* /healthz, /readyz, / */
	WEB_READER,   /* a site, an operator; loopback unless http.url is set */
	WEB_SITE,     /* a site or an operator */
	WEB_OPERATOR, /* an operator only */
	/* The same; but a secondary forwards it with the client's credential, and the
	 * primary decides. */
	WEB_PRIMARY_OPERATOR,
	WEB_GIT,      /* a reader of the repository, or a pusher, by service */
	WEB_GIT_LIST, /* a reader of any repository; see access_may_read() */
};

/* -1 makes the answer a problem; its code is the class of *err in upper case, its status:
 * missing 404, conflict and busy 409, config 400, auth 403, disk 507, timeout 504,
 * canceled 503, others 500. */
typedef int (*web_handler)(const struct web_request *request,
			   struct web_response *response, struct err *err);
enum { WEB_LATER = 1 }; /* for WEB_QUICK: not done, as it would have to wait */

enum web_body {
	WEB_BODY_NONE,
	WEB_BODY_MEMORY,
	WEB_BODY_FILE,
	WEB_BODY_HOOK, /* likewise, up to WEB_BODY_HOOK_MAX; not gzip */
	/* Also without a body. The handler is first called on a thread that serves all
	 * connections: there it answers from memory, never by a stream, or returns
	 * WEB_LATER. */
	WEB_QUICK,
	/* The handler is called on a worker as soon as the head has arrived and was
	 * accepted: it reads the body itself (web_read_upload). Not for a site's token,
	 * unless with WEB_GIT. Never for HEAD or GET. */
	WEB_BODY_STREAM,
};

struct web_route {
	const char *method; /* GET also stands for HEAD */
	/* "{name}" alone in a segment is one percent-encoded segment, and so is "{kind}";
	 * "{path}" at the start is everything before the rest: "/{path}/info/refs"; then
	 * "{last}" at the end is any one segment, which the handler reads from the
	 * target. "{?after,limit}" at the end of one below /api/v1/ are the parameters
	 * that its query may have (RFC 6570). Others are refused there, unless a site
	 * asks: a later version may send more. */
	const char *pattern;
	enum web_right right;
	enum web_body body;
	web_handler handle;
};

/* For WEB_BODY_HOOK, when only the head is here, on a thread that must not wait. False,
 * with the answer made: nobody could have signed the body, so it shall not come. Says
 * nothing of the mirror. */
bool web_webhook_may_come(const struct web_request *request,
			  struct web_response *response);

/* All routes, by files; each ends with a handler of NULL. web/router.c joins them. */
extern const struct web_route web_git_routes[];
extern const struct web_route web_lfs_routes[];
extern const struct web_route web_health_routes[];
extern const struct web_route web_page_routes[], web_view_routes[];
extern const struct web_route web_event_routes[];
extern const struct web_route web_repository_routes[];
extern const struct web_route web_refs_routes[];
extern const struct web_route web_pack_routes[];
extern const struct web_route web_blob_routes[];
extern const struct web_route web_retrieve_routes[];
extern const struct web_route web_lease_routes[];
extern const struct web_route web_push_routes[];
extern const struct web_route web_mirror_routes[], web_manifest_routes[];
extern const struct web_route web_version_routes[];
extern const struct web_route *const web_routes[];

/* Properties of a request for a repository by the protocols of Git and of Git LFS, for
 * its handler and for the access decision, which must agree: web/request.c. */

#define GIT_UPLOAD_PACK "git-upload-pack"
#define GIT_RECEIVE_PACK "git-receive-pack"

/* "git-upload-pack" (also for reads of Git LFS objects), "git-receive-pack" (also for
 * uploads of them; for a batch the body, which must be here, decides), another requested
 * service, or "". Borrowed for the request. */
const char *git_request_service(const struct web_request *request);

/* The repository's name, not checked; the caller frees. */
char *git_request_repository(const struct web_request *request);

#endif
