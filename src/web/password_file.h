/*
 * http.passwordFile: who may log in by user and password. Read again when it changes; as
 * long as it cannot be read, nobody can. Any thread.
 *
 * A guess costs one bcrypt, whether there is such a user or not; as many are computed at
 * a time as there are processors, and so many may wait, in fair turns of the clients.
 * What is known of a pair is remembered for minutes, or until the file changes.
 */
#ifndef WEB_PASSWORD_FILE_H
#define WEB_PASSWORD_FILE_H

#include "base/base.h"

struct password_file;

/* ERR_CONFIG: it is no file, or everybody may change it; others: it cannot be read. */
int password_file_open(const char *path, struct password_file **file, struct err *err);
void password_file_close(struct password_file *file); /* NULL is allowed */

enum password_verdict {
	PASSWORD_GOOD,
	PASSWORD_WRONG,
	PASSWORD_LATER,    /* of _check_now: not known without waiting */
	PASSWORD_TOO_MANY, /* too many wait already, or it took too long */
};

/* Waits for the file, and for a processor, some seconds at most. A change of the file is
 * obeyed within a second. */
enum password_verdict password_file_check(struct password_file *file, const char *client,
					  const char *user, const char *password);

/* From memory alone; what the file said two seconds ago may still count. */
enum password_verdict password_file_check_now(struct password_file *file,
					      const char *user, const char *password);

#endif
