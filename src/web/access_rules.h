/*
 * What the configuration says of who may do what. Constant once read, but that the
 * password file is read again; kept as long as somebody uses it. Any thread.
 */
#ifndef WEB_ACCESS_RULES_H
#define WEB_ACCESS_RULES_H

#include <stdatomic.h>

#include "base/setting.h"
#include "web/password_file.h"
#include "web/tokens.h"
#include "wire/wire_token.h"

struct access_rules {
	atomic_uint users;
	bool anonymous_read;     /* of all repositories */
	name_patterns anonymous; /* of these */
	bool trusts_loopback;
	struct tokens tokens;
	struct password_file *passwords; /* NULL: nobody logs in by password */
	VEC(struct site_key) keys;       /* in the order of the configuration */
};

/* [secondary "NAME"] */
struct secondary_settings {
	char *secret_file; /* owned */
	bool is_enabled;
	uint64_t bandwidth; /* in bytes a second; 0: no limit */
};

extern const struct setting_table access_settings_table; /* of struct access_rules */
extern const struct setting_table secondary_settings_table;

int access_rules_read(const struct conf *conf, struct access_rules **rules,
		      struct err *err);
struct access_rules *access_rules_ref(struct access_rules *rules);
void access_rules_unref(struct access_rules *rules);
void access_rules_release(struct access_rules *const *rules);

#define AUTO_ACCESS_RULES __attribute__((cleanup(access_rules_release)))

/* NULL: it may not follow. */
const struct site_key *access_rules_key(const struct access_rules *rules,
					const char *site);

/* Whether everybody may read this repository. `name` is not checked yet. */
bool access_rules_let_read(const struct access_rules *rules, const char *name);

/* Whether there is any credential that may push some repository. */
bool access_rules_let_push(const struct access_rules *rules);

/* Whether the token is for this repository. */
bool access_rules_token_takes(const struct token *token, const char *name);

#endif
