/*
 * One push: refs of a local repository to one destination, by stock git. What is pushed
 * is read once, after the tasks were claimed, into a view: a temporary repository whose
 * packed-refs has exactly what shall stand at the destination and whose objects are the
 * repository's. Nothing else can go out, however many refs there are, and no
 * configuration of the repository has a say.
 *
 * First a push without force, which can undo nothing: it takes creations and
 * fast-forwards, the bulk. Only what that refuses and a "+" spec allows, and deletions,
 * go in a second one, each with the value that the destination was seen to have
 * (--force-with-lease) before our refs were read: so a late push cannot undo a newer one.
 * A ref whose objects cannot be read here does not hold up the others: what was to be
 * pushed together with it is halved until it is alone.
 *
 * A destination that lets nothing be heard for the remote's `timeout` is given up, its
 * processes here are killed. What git hears without telling us does not count: a hook
 * there that is silent for longer, or a listing of refs that takes longer to begin.
 */
#ifndef PUSH_TRANSFER_H
#define PUSH_TRANSFER_H

#include "base/base.h"
#include "git/git_child.h"
#include "push/destination.h"
#include "push/task_store.h"

/* As Gerrit names them in its events. */
enum ref_status {
	REF_OK,
	REF_UP_TO_DATE,
	REF_NON_EXISTING, /* nothing to delete there */
	REF_REJECTED_NONFASTFORWARD,
	REF_REJECTED_NODELETE,
	REF_REJECTED_REMOTE_CHANGED,
	REF_REJECTED_OTHER_REASON,
	REF_NOT_ATTEMPTED,
};
const char *ref_status_name(enum ref_status status); /* "REJECTED_NODELETE" */

bool ref_status_is_good(enum ref_status status);

struct ref_result {
	char *ref, *dst; /* owned; ref: local name */
	enum ref_status status;
	bool is_transient; /* it may succeed later: locked, a full disk, ... */
	bool is_lock;      /* it was locked at the destination */
	bool needs_force;  /* nothing was sent, as its spec does not force */
	bool is_deletion;
	bool is_held; /* too many deletions at once: it waits for a person's word */
	char *text;   /* what was said, or NULL; owned */
};
typedef VEC(struct ref_result) ref_results;
void ref_results_clear(ref_results *results);

struct transfer_request {
	const struct push_settings *settings;
	const struct destination *destination;
	const char *repository; /* local path, absolute */
	const char *directory;  /* for temporary files: site.data/tmp */
	const struct git_work *work;
	const text_list *refs; /* local names, or TASK_ALL_REFS alone */
	bool allows_deletions; /* above the deletion limit */
	double delete_brake;   /* share; and more than 20 refs */
};

/* Deletions that are held have results, too: REF_NOT_ATTEMPTED. */
struct transfer_result {
	ref_results refs;    /* those that a spec maps; of a full one those that differ */
	uint64_t sent_bytes; /* as git says; 0: unknown */
	unsigned pushes;     /* receive-packs that were started, or done without */
	bool used_git;
	bool is_held; /* too many deletions at once: those were not tried */
	size_t deletions, remote_refs; /* if held */
};
void transfer_result_clear(struct transfer_result *result);

/* 0: each ref has its result, however it went. -1: the whole failed, and nothing or a
 * part arrived, and those that were not tried or not to the end are REF_NOT_ATTEMPTED:
 * ERR_MISSING: the destination has no such repository (is_source_missing(err) false),
 * auth, network, timeout, disk, conflict, config, ... An error of the local repository
 * has REASON_LOCAL_REPOSITORY. */
int transfer_run(const struct transfer_request *request, struct transfer_result *result,
		 struct err *err);

#endif
