/*
 * http.passwordFile: the users who may log in by password. Reread when it changes; while
 * it cannot be read, all logins fail. Any thread.
 *
 * A guess costs one bcrypt, whether the user exists or not; as many are computed at a
 * time as there are processors, and a limited number may wait, with fair turns for the
 * clients. The result for a pair is kept for minutes, or until the file changes.
 */
#ifndef WEB_PASSWORD_FILE_H
#define WEB_PASSWORD_FILE_H

#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"

struct password_file;

/* ERR_CONFIG: it is not a file, or everybody may change it; others: it cannot be read. */
int password_file_open(const char *path, struct password_file **file, struct err *err);
void password_file_close(struct password_file *file); /* NULL is allowed */

enum password_verdict {
	PASSWORD_GOOD,
	PASSWORD_WRONG,
	PASSWORD_LATER,    /* from _check_now: unknown without waiting */
	PASSWORD_TOO_MANY, /* too many wait already, or it took too long */
};

/* Waits for the file, and for a processor, some seconds at most. A change of the file
 * takes effect within a second. */
enum password_verdict password_file_check(struct password_file *file, const char *client,
					  const char *user, const char *password);

/* From memory alone; the file's content of two seconds ago may still count. */
enum password_verdict password_file_check_now(struct password_file *file,
					      const char *user, const char *password);

/* Users and hashes of a password file, as read: lines "user:$2y$10$..." (htpasswd(1) of
 * Apache, crypt(5)). Only bcrypt counts ($2a$, $2b$, $2y$, cost 4 to 17). */
enum { PASSWORD_HASH_LEN = 60, PASSWORD_USER_MAX = 100 };

struct password_user {
	char hash[PASSWORD_HASH_LEN + 1];
};

struct password_list {
	VEC(struct password_user) users;
	struct map by_name; /* place in `users` + 1; the first line of a name counts */
	size_t unused;      /* lines that are neither valid nor comments */
	size_t unused_line; /* the first of them, counted from 1 */
};

/* Fills an empty list. */
void password_list_parse(const struct str *text, struct password_list *list);
void password_list_clear(struct password_list *list);

/* NULL: user not found. */
const struct password_user *password_list_find(const struct password_list *list,
					       const char *name);

#endif
