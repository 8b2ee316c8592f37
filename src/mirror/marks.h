/*
 * Which credentials an upstream has refused. One that was is not shown again before its
 * file is another, the node is started again, or a person asks for it: tries do not make
 * it better, and forges lock out those that go on. What is marked is the credential,
 * never the mirror: another watcher's may do. Kept in memory, and in the database for
 * commands to see. Any thread.
 *
 * Source: seed 004 (a failure of one token is not the repository's).
 */
#ifndef MIRROR_MARKS_H
#define MIRROR_MARKS_H

#include "mirror/mirrors.h"
#include "store/store.h"

struct credential_marks;

/* Without marks. The store is borrowed. */
int credential_marks_open(struct store *store, struct credential_marks **marks,
			  struct err *err);
void credential_marks_close(struct credential_marks *marks); /* NULL is allowed */

/* The file of a watcher's credential as it is at the moment: of another one it has
 * another text. NULL, or without a file: always the same. */
#define CREDENTIAL_STAMP_SIZE 120
void credential_take_stamp(const struct watcher *watcher,
			   char stamp[CREDENTIAL_STAMP_SIZE]);

/* True, with why in *err: it was refused, and its file is still the same. */
bool credential_is_refused(struct credential_marks *marks, const struct mirror *mirror,
			   const struct watcher *watcher, struct err *err);

/* What the upstream said of it; why NULL: it was taken. ERR_CONFIG: its file cannot be
 * used, and it was not shown; ERR_MISSING: it shows nothing, where another watcher's
 * does. Other errors than these and ERR_AUTH mark nothing. */
void credential_mark(struct credential_marks *marks, const struct mirror *mirror,
		     const struct watcher *watcher, const struct err *why);

/* Whether some watcher of the mirror has another file since it was refused. */
bool credential_was_replaced(struct credential_marks *marks,
			     const struct mirrors *mirrors, const struct mirror *mirror);

/* What tells the files of all its credentials from those that were there before; the
 * caller frees. */
char *credentials_stamp(const struct mirrors *mirrors, const struct mirror *mirror);

/* For commands: since when (wall ms) and why it is refused; 0: it is not. *message is the
 * caller's to free. */
int credential_mark_read(struct store *store, const char *mirror, const char *watcher,
			 int64_t *refused_at, char **message, struct err *err);

#endif
