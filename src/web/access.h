/*
 * Access rights: of tokens of sites, operators and others, users with passwords, loopback
 * and anonymous clients. Separate from the configuration so that SIGHUP can load new
 * secrets. Any thread.
 */
#ifndef WEB_ACCESS_H
#define WEB_ACCESS_H

#include <stdatomic.h>

#include "base/conf.h"
#include "base/setting.h"
#include "web/password_file.h"
#include "web/route.h"
#include "web/tokens.h"
#include "wire/wire_token.h"

/* The header Authorization. */
struct credential {
	char *user;   /* of Basic; never with a colon; NULL: Bearer */
	char *secret; /* the token of Bearer, the password of Basic */
};

/* False: neither Bearer nor Basic, or truncated. The caller clears in either case. */
bool credential_read(const char *authorization, struct credential *credential);

/* Wipes it. */
void credential_clear(struct credential *credential);

#define AUTO_CREDENTIAL __attribute__((cleanup(credential_clear)))

struct access;

/* Reads [http] operatorTokenFile, passwordFile, anonymousRead, anonymousRepository, url;
 * [token "NAME"]; and at a primary [secondary "NAME"] secretFile, enabled, with the files
 * they name. ERR_CONFIG names the key. */
int access_read(const struct conf *conf, bool is_primary, struct access **access,
		struct err *err);
void access_free(struct access *access);

/* Also records the accepted signed requests in this directory. */
void access_keep_nonces(struct access *access, const char *directory);

/* Takes over the other's secrets and settings, and frees it. */
void access_replace(struct access *access, struct access *with);

/* A request's properties that decide its access. */
struct access_question {
	enum web_right needs;
	const struct signed_request *request;
	const char *authorization; /* the header, or NULL */
	bool is_loopback;          /* the peer's address is */
	bool is_forwarded;       /* it has Forwarded, X-Forwarded-For, X-Real-IP or Via */
	const char *client;      /* the address, without a port */
	const char *git_service; /* with WEB_GIT: "git-upload-pack", "git-receive-pack" */
	const char *git_repository; /* ... and the name */
	/* Must not wait: do not read files or compute passwords. */
	bool is_quick;
	/* The request will be forwarded to the primary, which decides (with WEB_GIT a
	 * push, with WEB_PRIMARY_OPERATOR any); so any credential is accepted, but one is
	 * required. */
	bool is_forwarded_push;
};

struct access_answer {
	int status;       /* 0: let in; ACCESS_LATER; else 401, 403, 409 or 429 */
	const char *code; /* static; NULL with 0 and ACCESS_LATER */
	char site[SITE_NAME_SIZE];
	char user[WEB_USER_SIZE]; /* the user's name, or "token NAME", or "operator" */
	bool may_operate;         /* the requester is an operator */
};
enum { ACCESS_LATER = 1 }; /* for is_quick: ask again where waiting is allowed */

/* 401, 403, 409 and 429 come with *err filled, message and remedy; they are logged and
 * counted here. Basic with any user and a token as password is as good as Bearer, for
 * git. Checking a site's token for the API uses it up: call this once for each. Without
 * is_quick it may wait some seconds. */
void access_decide(struct access *access, const struct access_question *question,
		   struct access_answer *answer, struct err *err);

/* Counts and logs a refusal that was decided elsewhere; at most one line a second of all
 * of them. */
void access_log_refused(struct access *access, const struct access_answer *answer,
			const struct err *err);

/* Whether a request that was let in with WEB_GIT_LIST may read the repository of that
 * name. */
bool access_may_read(struct access *access, const struct web_request *request,
		     const char *name);

/* [secondary "NAME"] */
struct secondary_settings {
	char *secret_file; /* owned */
	bool is_enabled;
	uint64_t bandwidth;   /* in bytes a second; 0: no limit */
	text_list leaves_out; /* kinds of blobs that it need not copy; owned */
};

/* The section of a site; the caller clears. */
int secondary_settings_read(const struct conf *conf, const char *site,
			    struct secondary_settings *settings, struct err *err);
void secondary_settings_clear(struct secondary_settings *settings);

extern const struct setting_table access_settings_table; /* of struct access_rules */
extern const struct setting_table secondary_settings_table;

#endif
