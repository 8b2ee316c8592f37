/*
 * The credentials that upstreams have refused. A refused one is not used again before its
 * file changes, the node restarts, or a person asks for it: retries do not help, and
 * forges lock out clients that continue. Marks are on the credential, never on the
 * mirror: another watcher's may work. Kept in memory, and in the database for commands.
 * And how long hosts want no requests with a credential, in memory alone. Any thread.
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

/* Identifies the present files of a watcher, for each protocol, and the upstream: the
 * text differs if one of them is another. NULL, or without files: only with the URL. */
#define CREDENTIAL_STAMP_SIZE 65
void credential_take_stamp(const struct mirror *mirror, const struct watcher *watcher,
			   char stamp[CREDENTIAL_STAMP_SIZE]);

/* True, with the reason in *err: it was refused, and its file is unchanged. */
bool credential_is_refused(struct credential_marks *marks, const struct mirror *mirror,
			   const struct watcher *watcher, struct err *err);

/* Records the upstream's answer to it; why NULL: it was accepted. ERR_CONFIG: its file
 * cannot be used, so it was not sent; ERR_MISSING: the repository is hidden from it, but
 * not from another watcher's. Errors other than these and ERR_AUTH are ignored. `stamp`:
 * taken before its file was read, as another one may be there by now. */
void credential_mark(struct credential_marks *marks, const struct mirror *mirror,
		     const struct watcher *watcher, const char *stamp,
		     const struct err *why);

/* Whether the file of some watcher of the mirror has changed since its refusal. */
bool credential_was_replaced(struct credential_marks *marks,
			     const struct mirrors *mirrors, const struct mirror *mirror);

/* A text that changes with any file of its credentials; the caller frees. */
char *credentials_stamp(const struct mirrors *mirrors, const struct mirror *mirror);

/* The upstream's host wants no requests with that watcher's credential (NULL: without
 * one) for so long: they count for all of the host's mirrors. A shorter rest does not end
 * a longer one. 0: it takes them again. */
void credential_rest(struct credential_marks *marks, const struct mirror *mirror,
		     const struct watcher *watcher, int64_t rest_ms);

/* How long that still is; 0: it may be asked. */
int64_t credential_rest_ms(struct credential_marks *marks, const struct mirror *mirror,
			   const struct watcher *watcher);

/* For commands: since when (wall ms) and why it is refused; 0: it is not. The caller
 * frees *message. */
int credential_mark_read(struct store *store, const char *mirror, const char *watcher,
			 int64_t *refused_at, char **message, struct err *err);

#endif
