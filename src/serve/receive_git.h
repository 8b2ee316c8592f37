/*
 * How `git receive-pack` is started: in the repository that was found, in the name of who
 * pushes, and only where the repository takes pushes. For receive_pack.c and
 * receive_pack.c. Any thread.
 */
#ifndef SERVE_RECEIVE_GIT_H
#define SERVE_RECEIVE_GIT_H

#include "base/base.h"
#include "base/map.h"
#include "base/str.h"
#include "git/git_child.h"
#include "git/repo.h"
#include "serve/receive_pack.h"

/* Until when, and by whom it is stopped. */
struct git_work receive_git_work(const struct receive_pack_request *request);

/* Finds the repository in which git is to run; the caller closes it in either case.
 * ERR_MISSING: there is none; ERR_AUTH: it takes no pushes (http.receivepack is false,
 * or its history is not whole); ERR_CONFIG: git would write outside of it, or be lost in
 * it. */
int receive_git_open(const struct receive_pack_request *request,
		     const struct git_work *work, struct repo *repo, struct err *err);

/* The call for git with these arguments, which are borrowed as all else is. The caller
 * clears what is made for it. */
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
 * What a push asks for, read from the beginning of its body as it comes: the commands,
 * up to the flush that ends them. Only so much is understood as tells when git may begin
 * to change refs. Plain data.
 *
 * Source: gitprotocol-pack(5), "Reference Update Request and Packfile Transfer".
 */

enum receive_step {
	RECEIVE_MORE,    /* the commands have not ended yet */
	RECEIVE_WHOLE,   /* they have; the flush is the next */
	RECEIVE_STRANGE, /* signed, or not understood: git knows */
};

struct receive_commands {
	size_t oid_len; /* of the repository: 20 or 32; set by the caller, as `names` */
	struct receive_sync *names; /* gets the refs' names; NULL: nobody does */
	enum receive_step step;
	size_t count, deletions;
	bool needs_pack; /* not all of them delete: git changes nothing before it has a
			  * pack */
};

/* Looks at the next bytes, of which the first were not taken before. Returns how many
 * are taken now: whole lines, never the flush. Nothing is taken after RECEIVE_MORE. */
size_t receive_commands_take(struct receive_commands *commands, const char *data,
			     size_t len);

/*
 * Refuses pushes of refs so deep that the repository could not be read any more: nobody
 * follows directories without end, and git would make 2000 of them. Fed with the body as
 * it comes; looks no further than to the end of the commands. Plain data, zero at first.
 */

enum {
	RECEIVE_SLASHES_MAX = 60, /* in a ref's name; refs are read to a depth of 64 */
	RECEIVE_DEPTH_BEGIN = 16,
};

struct receive_depth {
	char head[4 + 1];                /* of the packet: its length */
	char begin[RECEIVE_DEPTH_BEGIN]; /* ... and what it begins with */
	size_t head_len, begin_len, left, slashes;
	bool is_in_certificate, is_over;
};

/* False: there is such a ref. Nothing is taken after that. */
bool receive_depth_take(struct receive_depth *depth, const char *bytes, size_t len);

/*
 * What git says in a push, between git and who reads it: progress and what hooks say may
 * pass at once, the report and all behind it only when that is allowed. Plain data, for
 * one thread at a time.
 *
 * Source: gitprotocol-pack(5), "Report Status"; gitprotocol-capabilities(5),
 * "side-band".
 */

struct receive_report {
	struct str said; /* by git, and not yet taken by the reader */
	size_t passable; /* of it: progress, or all */
	size_t taken;    /* of that, by the reader */
	bool has_begun;  /* what stands behind `passable` is the report */
	struct receive_outcome_reader reader; /* of the report */
	bool is_unread; /* nobody takes any yet: progress beyond a bound is dropped */
};
#define RECEIVE_REPORT_INIT                                                              \
	{                                                                                \
		.said = STR_INIT, .reader = RECEIVE_OUTCOME_READER_INIT                  \
	}

void receive_report_clear(struct receive_report *report);

/* Git has said more. True: the report has begun. */
bool receive_report_add(struct receive_report *report, const char *data, size_t len);

/* Everything may pass. */
void receive_report_pass(struct receive_report *report);

/* Whether there is anything to take. */
bool receive_report_has(const struct receive_report *report);

/* Takes at most `size` bytes of what may pass. */
size_t receive_report_take(struct receive_report *report, void *buffer, size_t size);

/* Frees what was taken. */
void receive_report_drop_taken(struct receive_report *report);

/* All that may pass is taken, by nobody. */
void receive_report_ignore(struct receive_report *report);

/*
 * The directories that a push has changed, made durable: git syncs the files that it
 * writes there, not their names. Plain data, for one thread at a time.
 */

struct receive_sync {
	struct map folders; /* of refs, below the repository */
	bool is_all;        /* too many, or not known: the whole file system */
};

void receive_sync_clear(struct receive_sync *sync);

/* A ref of that name may change. */
void receive_sync_add(struct receive_sync *sync, const char *name, size_t len);

/* After git has changed them: objects and refs are on disk when it returns 0. */
int receive_sync_run(const struct receive_sync *sync, int dir, struct err *err);

#endif
