/*
 * What others are told of a change that a mirror brought: one document, for a command's
 * standard input or the body of a webhook. Pure functions; any thread.
 */
#ifndef MIRROR_THEN_H
#define MIRROR_THEN_H

#include "base/base.h"
#include "base/str.h"
#include "base/vec.h"
#include "git/refs.h"

#define THEN_REFS_MAX 10000 /* of more only the number is told */

struct then_change {
	const char *mirror, *job;        /* its name, and the job's id; NULL: not known */
	const char *watcher;             /* whose credential it was; NULL: none */
	const struct ref_diff *diff;     /* what changed */
	const struct ref_snapshot *refs; /* as they are now */
	size_t skipped;     /* changes of refs before that had no document: in "more" */
	int64_t checked_at; /* wall ms at which the upstream said so; 0: not known */
};

/* Whether it is told to this URL, and not to a command. */
bool then_is_webhook(const char *then);

/* The words of a command, which no shell sees: blanks part them, but not within "..." or
 * '...'. ERR_CONFIG: a quote is open, or the first is no absolute path. The caller clears
 * them in any case. */
int then_split(const char *command, text_list *words, struct err *err);

/* Appends the document, one line of JSON with a newline:
 *	{"mirror":"a/b","job":"7","watcher":"app1","branch":"main","commit":"...",
 *	"checked_at":"...","refs":[{"ref":"refs/heads/main","old":"...","new":null}],
 *	"more":0}
 * branch and commit are null while HEAD is unborn, branch while it is detached; old is
 * null of a ref that was made, new of one that was deleted. job, watcher and checked_at
 * are null where they are not known. */
void then_render(const struct then_change *change, struct str *out);

/* The value of HTTP_ASK_SIGNATURE for a document, as replication.webhook has it. The
 * caller frees. NULL: there is no secret. */
char *then_sign(const struct str *secret, const struct str *document);

#endif
