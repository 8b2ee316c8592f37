/*
 * Tokens that open this site: the operator's, and those of [token "NAME"]. Of each only a
 * digest is kept. Constant once read.
 */
#ifndef WEB_TOKENS_H
#define WEB_TOKENS_H

#include "base/conf.h"
#include "base/hash.h"
#include "push/pattern.h"

/* Each includes those before. */
enum rights { RIGHTS_READ, RIGHTS_PUSH, RIGHTS_OPERATE };

struct token {
	char *name; /* "operator", "token ci"; owned */
	unsigned char digest[HASH_MAX_SIZE];
	enum rights rights;
	name_patterns repositories; /* none: all, and the API */
	int64_t expires_ms;         /* wall ms from which on it is not good */
};

struct tokens {
	VEC(struct token) list;
};

/* Reads [http] operatorTokenFile and [token "NAME"] file, rights, repository, expires.
 * ERR_CONFIG names the key. The caller clears in either case. */
int tokens_read(const struct conf *conf, struct tokens *tokens, struct err *err);
void tokens_clear(struct tokens *tokens);

/* The token of this text, expired or not, or NULL. Takes as long whichever it is. */
const struct token *tokens_find(const struct tokens *tokens, const char *text);

/* Adds a pattern of repositories. */
int tokens_read_pattern(const struct conf_entry *entry, name_patterns *patterns,
			struct err *err);

/* For owners of secrets: "<file>:<line>: <key>: " before *err, its remedy kept. */
int tokens_entry_failed(const struct conf_entry *entry, struct err *err);

#endif
