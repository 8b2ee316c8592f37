/*
 * A webhook: one POST by which a forge reports a push to a repository there. Its
 * signature is checked before anything of it is used. It is only a hint where to look:
 * sent again, late or out of order, it is harmless, so deliveries are not recorded and
 * times not compared. Pure functions; any thread.
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
	WEBHOOK_PUSH,  /* refs have changed, perhaps also others than those named */
	WEBHOOK_PING,  /* the hook was set up, or is being tested */
	WEBHOOK_OTHER, /* an event that does not change refs: ignore it */
};

struct webhook_ref {
	char *name;               /* "refs/heads/main"; owned */
	struct oid before, after; /* null ones: created, deleted; len 0: not given */
};

struct webhook {
	enum webhook_sender sender;
	enum webhook_kind kind;
	char *event;      /* the forge's name of it; owned, as all of these */
	char *delivery;   /* its id: the same when it is sent again; NULL: not given */
	char *repository; /* "owner/name"; NULL: not given */
	VEC(struct webhook_ref) refs; /* those named, with valid names */
};

#define AUTO_WEBHOOK __attribute__((cleanup(webhook_clear)))

struct webhook_request {
	const struct http_header *headers; /* all of them, as received, including
					      duplicates; ends with a NULL name */
	const char *body;                  /* the exact bytes, which are signed */
	size_t len;
	int fd; /* above 0: a file that has them instead; it is loaded when it has proved
		   genuine */
	const struct str *secret; /* without the newline that ends its file */
};

/* ERR_AUTH: not signed with this secret; ERR_CONFIG: the secret is empty, or the request
 * is not from a known forge; ERR_CORRUPT: it is signed, but makes no sense. The sender
 * may get the class, not more.
 *
 * GitHub, Gitea and Forgejo send HMACs of the body: all present ones must be correct. A
 * secret that begins with "whsec_" is a signing token of GitLab, whose signature is in
 * webhook-signature; GitLab's secret token comes unchanged in X-Gitlab-Token. */
int webhook_read(const struct webhook_request *request, struct webhook *webhook,
		 struct err *err);
void webhook_clear(struct webhook *webhook);

/* Whether a header is there by which it could be genuine: known before its body is. */
bool webhook_is_signed(const struct http_header *headers);

/* Whether it may be for the repository at this URL: the URL's path ends with the forge's
 * name of it, ignoring case, with or without ".git". The host is not compared, as it may
 * have several names. For a repository that is not given, or a local path: true. */
bool webhook_is_of(const struct webhook *webhook, const struct uri_text *uri);

#endif
