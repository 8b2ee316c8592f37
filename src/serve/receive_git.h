/*
 * Starts `git receive-pack`: in the repository that was found, in the pusher's name, and
 * only if the repository accepts pushes. For receive_pack.c. Any thread.
 */
#ifndef SERVE_RECEIVE_GIT_H
#define SERVE_RECEIVE_GIT_H

#include "base/base.h"
#include "base/map.h"
#include "base/str.h"
#include "git/git_child.h"
#include "git/repo.h"
#include "serve/receive_pack.h"

/* Finds the repository in which git will run; the caller closes it in either case.
 * ERR_MISSING: not found; ERR_AUTH: it does not accept pushes (http.receivepack is false,
 * or its history is not complete); ERR_CONFIG: git would write outside of it, or hang in
 * it. */
int receive_git_open(const struct receive_pack_request *request,
		     const struct git_work *work, struct repo *repo, struct err *err);

/* The call for git with these arguments; everything is borrowed. The caller clears it. */
#define RECEIVE_VARIABLES 7
struct receive_call {
	struct git_call call;
	char *variables[RECEIVE_VARIABLES]; /* owned */
};
void receive_call_init(struct receive_call *call,
		       const struct receive_pack_request *request,
		       const struct repo *repo, const struct git_work *work,
		       const char *const *args);
void receive_call_clear(struct receive_call *call);

/*
 * The commands of a push, read from the beginning of its body as it arrives, up to the
 * flush that ends them. Parsed only as far as necessary to know when git may begin to
 * change refs, and which it is to delete. Zero at first, but for what the caller sets; to
 * be cleared.
 *
 * Source: gitprotocol-pack(5), "Reference Update Request and Packfile Transfer".
 */

enum receive_step {
	RECEIVE_MORE,    /* the commands have not ended yet */
	RECEIVE_WHOLE,   /* they have ended; the flush is next */
	RECEIVE_SIGNED,  /* likewise, but git may read others in their certificate */
	RECEIVE_STRANGE, /* not understood: leave it to git */
};

struct receive_commands {
	size_t oid_len; /* of the repository: 20 or 32; set by the caller, as `names` */
	struct receive_sync *names; /* gets the refs' names; NULL: not used */
	enum receive_step step;
	size_t count, deletions;
	struct map deleted; /* names of refs that are to be deleted; of very many, some */
	size_t deleted_len; /* ... of so many bytes */
	bool needs_pack;    /* not all are deletions: git changes refs only after it has a
			       pack */
	bool has_side_band; /* what git says comes in packets of bands */
	bool is_signed, is_in_certificate;
};

void receive_commands_clear(struct receive_commands *commands);

/* Examines the next bytes, starting with those not taken before. Returns how many are
 * taken now: whole lines, never the flush. Takes bytes only in the state RECEIVE_MORE. */
size_t receive_commands_take(struct receive_commands *commands, const char *data,
			     size_t len);

/*
 * Refuses pushes of refs so deep that the repository could no longer be read: readers
 * limit the depth of directories, but git would make 2000 levels. Fed with the body as it
 * arrives; stops at the end of the commands. Plain data, zero at first.
 */

enum {
	RECEIVE_SLASHES_MAX = 60, /* in a ref's name; refs are read to a depth of 64 */
	RECEIVE_DEPTH_BEGIN = 16,
};

struct receive_depth {
	char head[4 + 1];                /* of the packet: its length */
	char begin[RECEIVE_DEPTH_BEGIN]; /* ... and what it begins with */
	size_t head_len, begin_len, left, slashes;
	bool is_in_certificate, is_cut, is_over;
};

/* False: a ref is too deep. Do not call it again after that. */
bool receive_depth_take(struct receive_depth *depth, const char *bytes, size_t len);

/*
 * Git's output in a push, on its way to the reader: progress and messages of hooks may
 * pass at once, the report and everything after it only when allowed. Plain data, for one
 * thread at a time.
 *
 * Source: gitprotocol-pack(5), "Report Status"; gitprotocol-capabilities(5),
 * "side-band".
 */

struct receive_report {
	struct str said; /* git's output that the reader has not yet taken */
	size_t passable; /* bytes of it that may pass: progress, or all */
	size_t taken;    /* bytes of that taken by the reader */
	bool has_begun;  /* the report follows after `passable` */
	struct receive_outcome_reader reader; /* of the report */
	bool is_unread; /* the reader has not started: excess progress is dropped */
};
#define RECEIVE_REPORT_INIT                                                              \
	{                                                                                \
		.said = STR_INIT, .reader = RECEIVE_OUTCOME_READER_INIT                  \
	}

void receive_report_clear(struct receive_report *report);

/* Adds more output of git. True: the report has begun. */
bool receive_report_add(struct receive_report *report, const char *data, size_t len);

/* Allows everything to pass. */
void receive_report_pass(struct receive_report *report);

/* Whether there is anything to take. */
bool receive_report_has(const struct receive_report *report);

/* Takes at most `size` bytes of what may pass. */
size_t receive_report_take(struct receive_report *report, void *buffer, size_t size);

/* Adds an empty packet if the report has not begun: a sign of life, as git's own. Only
 * for a client that wants side-band. */
void receive_report_keep_alive(struct receive_report *report);

/* Frees what was taken. */
void receive_report_drop_taken(struct receive_report *report);

/* Discards everything that may pass. */
void receive_report_ignore(struct receive_report *report);

/*
 * Makes the directories durable that a push has changed: git syncs the files that it
 * writes there, but not their names. Plain data, for one thread at a time.
 */

struct receive_sync {
	struct map folders; /* of refs, below the repository */
	bool is_all;        /* too many, or unknown: sync the whole file system */
};

void receive_sync_clear(struct receive_sync *sync);

/* Records that a ref of that name may change. */
void receive_sync_add(struct receive_sync *sync, const char *name, size_t len);

/* After git has changed them: objects and refs are on disk when it returns 0. */
int receive_sync_run(const struct receive_sync *sync, int dir, struct err *err);

#endif
