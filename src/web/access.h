/*
 * Who may do what: tokens of sites, of operators, loopback. Kept apart from the
 * configuration so that SIGHUP can put new secrets in. Any thread.
 */
#ifndef WEB_ACCESS_H
#define WEB_ACCESS_H

#include "base/conf.h"
#include "web/route.h"

struct access;

/* Reads [http] operatorTokenFile, anonymousRead, url and [secondary "NAME"] secretFile,
 * enabled. ERR_CONFIG names the key. */
int access_read(const struct conf *conf, struct access **access, struct err *err);
void access_free(struct access *access);

/* Takes over the other's secrets and settings, and frees it. */
void access_replace(struct access *access, struct access *with);

/* What a request shows of itself. */
struct access_question {
	enum web_right needs;
	const struct signed_request *request;
	const char *authorization; /* the header, or NULL */
	bool is_loopback;          /* the peer's address is */
	bool is_forwarded;       /* it has Forwarded, X-Forwarded-For, X-Real-IP or Via */
	const char *git_service; /* with WEB_GIT_READER: "git-upload-pack" */
	const char *git_repository; /* ... and the name */
};

struct access_answer {
	int status;       /* 0: let in; else 401 or 403 */
	const char *code; /* static */
	char site[SITE_NAME_SIZE];
};

/* 401 comes with *err filled, message and remedy. Basic with any user and an operator's
 * token as password is as good as Bearer, for git. */
void access_decide(struct access *access, const struct access_question *question,
		   struct access_answer *answer, struct err *err);

/* The names of the sites that may follow; the caller clears the array and frees the
 * names. */
typedef VEC(char *) site_names;
void access_sites(struct access *access, site_names *names);

#endif
