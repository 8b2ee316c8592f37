/*
 * The announcement of a change that a mirror brought: one document, for a command's
 * standard input or the body of a webhook. Pure functions; any thread.
 */
#ifndef MIRROR_THEN_H
#define MIRROR_THEN_H

#include "base/base.h"
#include "base/str.h"
#include "base/vec.h"
#include "git/refs.h"

#define THEN_REFS_MAX 10000 /* further ones are only counted */

struct then_change {
	const char *mirror, *job;        /* its name, and the job's id; NULL: unknown */
	const char *watcher;             /* the owner of the credential; NULL: not used */
	const struct ref_diff *diff;     /* what changed */
	const struct ref_snapshot *refs; /* as they are now */
	size_t skipped;     /* earlier changes of refs without a document: in "more" */
	int64_t checked_at; /* wall ms of the upstream's answer; 0: unknown */
};

/* Whether it is a URL, not a command. */
bool then_is_webhook(const char *then);

/* The words of a command, run without a shell: separated by blanks, except within "..."
 * or '...'. ERR_CONFIG: an open quote, or the first is not an absolute path. The caller
 * clears them in any case. */
int then_split(const char *command, text_list *words, struct err *err);

/* Appends the document, one line of JSON with a newline:
 *	{"mirror":"a/b","job":"7","watcher":"app1","branch":"main","commit":"...",
 *	"checked_at":"...","refs":[{"ref":"refs/heads/main","old":"...","new":null}],
 *	"more":0}
 * branch and commit are null while HEAD is unborn, branch while it is detached; old is
 * null for a created ref, new for a deleted one. job, watcher and checked_at are null if
 * they are unknown. */
void then_render(const struct then_change *change, struct str *out);

/* The value of HTTP_ASK_SIGNATURE for a document, as for replication.webhook. The caller
 * frees. NULL: without a secret. */
char *then_sign(const struct str *secret, const struct str *document);

#endif
