/*
 * A webhook: one POST by which a forge tells that somebody pushed to a repository there.
 * Whether it is genuine is decided before anything of it is read. It is a hint where to
 * look, nothing more: sent again, late or out of order, it does no harm, so deliveries
 * are not remembered and times not compared. Pure functions; any thread.
 *
 * Source: GitHub "Validating webhook deliveries" and "Webhook events and payloads";
 * GitLab "Webhooks" and "Webhook events", Standard Webhooks for its signing tokens; Gitea
 * and Forgejo "Webhooks".
 */
#ifndef MIRROR_WEBHOOK_H
#define MIRROR_WEBHOOK_H

#include "base/base.h"
#include "base/str.h"
#include "base/vec.h"
#include "git/oid.h"
#include "net/http.h"
#include "net/uri_text.h"

/* Longer ones are refused; GitHub sends 25 MB at most. */
#define WEBHOOK_BODY_MAX ((size_t)32 << 20)

enum webhook_sender { WEBHOOK_GITHUB, WEBHOOK_GITLAB, WEBHOOK_GITEA, WEBHOOK_FORGEJO };

enum webhook_kind {
	WEBHOOK_PUSH,  /* refs have changed, maybe others than are named */
	WEBHOOK_PING,  /* the hook was set up, or is tried out */
	WEBHOOK_OTHER, /* of an event that changes no refs: to be ignored */
};

struct webhook_ref {
	char *name;               /* "refs/heads/main"; owned */
	struct oid before, after; /* null ones: created, deleted; len 0: not told */
};

struct webhook {
	enum webhook_sender sender;
	enum webhook_kind kind;
	char *event;      /* as the forge calls it; owned, as all of these */
	char *delivery;   /* its id: the same when it is sent again; NULL: not told */
	char *repository; /* "owner/name"; NULL: not told */
	VEC(struct webhook_ref) refs; /* those that are named, with valid names */
};

#define AUTO_WEBHOOK __attribute__((cleanup(webhook_clear)))

struct webhook_request {
	const struct http_header *headers; /* all of them, as they came, those that are
					      doubled too; end with a NULL name */
	const char *body;                  /* the very bytes: they are what is signed */
	size_t len;
	const struct str *secret; /* without the newline that ends its file */
};

/* ERR_AUTH: not signed with this secret; ERR_CONFIG: the secret is empty, or the request
 * is of no forge that is known; ERR_CORRUPT: it is signed, and makes no sense. The
 * request's sender may be told of the class, not more.
 *
 * GitHub, Gitea and Forgejo send HMACs of the body: all that are there must be right. A
 * secret that begins with "whsec_" is a signing token of GitLab's, which is looked for in
 * webhook-signature; GitLab's secret token comes as it is, in X-Gitlab-Token. */
int webhook_read(const struct webhook_request *request, struct webhook *webhook,
		 struct err *err);
void webhook_clear(struct webhook *webhook);

/* Whether it may be of the repository at this URL: the forge's name of it is how the
 * URL's path ends, in any case, with or without ".git". The host is not compared, it may
 * have several names. Of a repository that is not told, or a local path: true. */
bool webhook_is_of(const struct webhook *webhook, const struct uri_text *uri);

#endif
