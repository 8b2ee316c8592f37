/*
 * One push: refs of a local repository to one destination, by stock git. The refs to push
 * are read once, after the tasks were claimed, into a view: a temporary repository whose
 * packed-refs has exactly the refs wanted at the destination and whose objects are the
 * repository's. Nothing else can be sent, however many refs there are, and the
 * repository's configuration has no effect.
 *
 * First comes a push without force, which cannot undo anything: it takes creations and
 * fast-forwards, the bulk. Only refs that it refuses and a "+" spec allows, and
 * deletions, go into a second one, each with the value read at the destination
 * (--force-with-lease) before our refs were read: so a late push cannot undo a newer one.
 * A ref whose objects cannot be read here, or for which the destination refuses the whole
 * push, does not hold up the others: its batch is halved until it is alone.
 *
 * A destination that is silent for the remote's `timeout` is given up, and its processes
 * here are killed. Progress that git does not report does not count: a hook there that is
 * silent for longer, or a listing of refs that takes longer to begin.
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
	bool needs_force;  /* not sent, as its spec does not force */
	bool is_deletion;
	bool deletes_head; /* refused, as HEAD of the destination names it */
	bool is_held; /* too many deletions at once: it waits for a person's decision */
	char *text;   /* the message, or NULL; owned */
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
	bool is_retry; /* an earlier push there was killed or failed: what is found there
			  may not be on disk yet */
};

/* Deletions that are held have results, too: REF_NOT_ATTEMPTED. */
struct transfer_result {
	ref_results refs;    /* those that a spec maps; in a full push only those that
				differ */
	uint64_t sent_bytes; /* as git reports; 0: unknown */
	unsigned pushes;     /* receive-packs started, or replaced by our own code */
	bool used_git;
	size_t deletions, remote_refs; /* if deletions are held; else 0 */
};
void transfer_result_clear(struct transfer_result *result);

/* 0: each ref has its result, good or bad. -1: the push failed as a whole; nothing or a
 * part of it arrived, and refs that were not tried or not completed are
 * REF_NOT_ATTEMPTED. ERR_MISSING: the destination lacks the repository
 * (is_source_missing(err) false); auth, network, timeout, disk, conflict, config, ... An
 * error of the local repository has REASON_LOCAL_REPOSITORY. */
int transfer_run(const struct transfer_request *request, struct transfer_result *result,
		 struct err *err);

#endif
