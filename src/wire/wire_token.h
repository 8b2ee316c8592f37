/*
 * Signed requests between sites: JSON Web Tokens (HS256), see docs/protocol.md. Any
 * thread.
 */
#ifndef WIRE_WIRE_TOKEN_H
#define WIRE_WIRE_TOKEN_H

#include "base/base.h"
#include "base/str.h"

#define SITE_NAME_SIZE 128
#define WIRE_TOKEN_VALID_S 60

/* A secret shared by two sites, named after the secondary. */
struct site_key {
	char site[SITE_NAME_SIZE];
	struct str secret;
};

#define AUTO_SITE_KEY __attribute__((cleanup(site_key_clear)))

/* Reads a secretFile. ERR_CONFIG: too short, or readable by everybody. */
int site_key_read(const char *site, const char *file, struct site_key *key,
		  struct err *err);
void site_key_clear(struct site_key *key);

/* A request to be signed, or received with a token. */
struct signed_request {
	const char *method; /* "GET" */
	const char *target; /* path and query, as sent */
	const void *body;
	size_t body_len;
};

/* The caller frees. NULL with *err: libjwt failed. */
char *wire_token_for_request(const struct site_key *key,
			     const struct signed_request *request, struct err *err);

/* For a git child: service "git-upload-pack", one repository, until valid_s from now. */
char *wire_token_for_git(const struct site_key *key, const char *service,
			 const char *repository, int64_t valid_s, struct err *err);

/* The site that the token claims to be from, unverified: to find its key. False: not a
 * token of a site. */
bool wire_token_issuer(const char *token, char site[SITE_NAME_SIZE]);

enum token_verdict {
	TOKEN_GOOD,
	TOKEN_BAD_SIGNATURE,
	TOKEN_CLOCK_SKEW,
	TOKEN_REPLAYED,
	TOKEN_WRONG_REQUEST,
	TOKEN_TOO_MANY, /* too many of this site within a minute */
};

/* The code that users see ("CLOCK_SKEW"). Static. */
const char *token_verdict_code(enum token_verdict verdict);

#define WIRE_NONCE_SIZE 65

/* TOKEN_GOOD, or why not, with *err (ERR_AUTH, with a remedy) filled. Checks the
 * signature first, then the time: a difference of clocks is reported only to senders that
 * know the secret. net/nonces.h checks whether the nonce of a good one is new. */
enum token_verdict wire_token_check_request(const struct site_key *key, const char *token,
					    const struct signed_request *request,
					    char nonce[WIRE_NONCE_SIZE], struct err *err);
enum token_verdict wire_token_check_git(const struct site_key *key, const char *token,
					const char *service, const char *repository,
					struct err *err);

#endif
