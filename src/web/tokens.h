/*
 * Tokens accepted by this site: the operator's, and those of [token "NAME"]. Only their
 * digests are kept. Constant once read.
 */
#ifndef WEB_TOKENS_H
#define WEB_TOKENS_H

#include "base/hash.h"
#include "base/setting.h"
#include "push/pattern.h"

/* Each includes the previous ones. */
enum rights { RIGHTS_READ, RIGHTS_PUSH, RIGHTS_OPERATE };

struct token {
	char *name; /* "operator", "token ci"; owned */
	unsigned char digest[HASH_MAX_SIZE];
	enum rights rights;
	name_patterns repositories; /* empty: all, and the API */
	int64_t expires_ms;         /* wall ms at which it expires */
};

struct tokens {
	VEC(struct token) list;
};

extern const struct setting_table token_settings_table; /* of struct token */

/* Add the token of http.operatorTokenFile, and of each [token "NAME"]. ERR_CONFIG names
 * the key. The caller clears in either case. */
int tokens_read_operator(struct tokens *tokens, const struct conf_entry *entry,
			 struct err *err);
int tokens_read(const struct conf *conf, struct tokens *tokens, struct err *err);
void tokens_clear(struct tokens *tokens);

/* The token of this text, expired or not, or NULL. Takes the same time in any case. */
const struct token *tokens_find(const struct tokens *tokens, const char *text);

#endif
