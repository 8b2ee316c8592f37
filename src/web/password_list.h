/*
 * Users and hashes of an htpasswd file, as read: lines "user:$2y$10$...". Only bcrypt
 * counts ($2a$, $2b$, $2y$, cost 4 to 17). One thread at a time.
 *
 * Source: htpasswd(1) of Apache, crypt(5).
 */
#ifndef WEB_PASSWORD_LIST_H
#define WEB_PASSWORD_LIST_H

#include "base/str.h"
#include "base/vec.h"

enum { PASSWORD_HASH_LEN = 60, PASSWORD_USER_MAX = 100 };

struct password_user {
	char *name; /* owned */
	size_t line;
	char hash[PASSWORD_HASH_LEN + 1];
};

struct password_list {
	VEC(struct password_user) users; /* by name, each once: the first line counts */
	size_t unused;                   /* lines that are neither used nor comments */
	size_t unused_line;              /* the first of them, counted from 1 */
};

/* Fills an empty list. */
void password_list_parse(const struct str *text, struct password_list *list);
void password_list_clear(struct password_list *list);

/* NULL: no such user. */
const struct password_user *password_list_find(const struct password_list *list,
					       const char *name);

#endif
