/*
 * Git children. Each runs under the supervisor with an environment of our own: no
 * configuration except ours and the repository's, no hooks (except with
 * GIT_CONFIG_RECEIVE), no prompts, no lazy fetches, no replace refs, no proxies, messages
 * in English. Safe from any thread; a git_stream is for one thread at a time.
 */
#ifndef GIT_GIT_CHILD_H
#define GIT_GIT_CHILD_H

#include "base/base.h"
#include "base/proc.h"
#include "base/str.h"
#include "git/git_reach.h"
#include "git/git_work.h"

/* Another repository that a child may reach. */
struct git_remote {
	const char *url; /* http://, https://, git://, or else a path on this machine */
	const char *ssh_command; /* for an ssh URL: GIT_SSH_COMMAND; may be NULL */
	const char *header;      /* sent with each HTTP request, secret; NULL: none */
	const char *ca_file; /* CAs for https, in place of the system's; may be NULL */
	int64_t stall_ms;   /* an HTTP answer silent for this long is broken off; 0: 60 s;
			       less: never */
	uint64_t pack_most; /* bytes of a pack from there, likewise the next; 0: any */
	uint64_t memory_most; /* bytes its objects may take when unpacked */
	bool is_site;         /* a refrelay site: the errors that it reports count */
	bool is_pushed_to;    /* its own hooks and settings apply, also on this machine */
};

/* The configuration that replaces the user's and the system's, below the repository's
 * own. */
enum git_config {
	GIT_CONFIG_WORK,          /* for our own work on it, and fetches */
	GIT_CONFIG_SERVE,         /* empty: clients get what the repository allows */
	GIT_CONFIG_SERVE_PARTIAL, /* ... and partial clones, unless the repository forbids
				     them */
	GIT_CONFIG_RECEIVE, /* a push: hooks run, and may leave jobs behind; its objects
			       are on disk when git says so, and gc is left to others */
};

struct git_call {
	const struct git_work *work;
	const char *repository; /* its path; the child's directory */
	int repository_fd;      /* above 0: the child's directory; borrowed for the start;
				   `repository` is then for messages */
	const char *const *args; /* behind "git", NULL-terminated */
	enum git_config config;
	const struct str *input; /* may be NULL */
	struct str *output;      /* may be NULL */
	size_t output_limit;
	const struct git_remote *remote; /* NULL: this machine only */
	const char *protocol; /* GIT_PROTOCOL of a child that serves; NULL: unset */
	const char *const *variables; /* more of its environment, NULL-terminated; may be
				       * NULL */
	const char *object_directory; /* in place of the repository's; NULL: its own */
	int64_t silence_ms;           /* as in proc_request */
	bool yields;                  /* as in proc_request */
	enum git_reach reach;         /* of calls without a remote */
	struct proc_result *ended; /* gets the child's result when it ends; may be NULL */
};

struct git_stream;

/* Writes below <directory> the configurations that children use in place of the user's
 * and the system's, and keeps the paths for all later calls. Once, before any thread
 * calls git_run. They trust every repository that we are asked to work on, regardless of
 * its owner: naming it to refrelay was the operator's decision. */
int git_setup(const char *directory, struct err *err);

/* Runs git to its end. The classes are proc_run's, and for git's own errors the one that
 * the message stands for; the text is that message. */
int git_run(const struct git_call *call, struct err *err);

/* Starts git, whose output is read while it runs; `output` of the call is not used.
 * `input_fd` is as for proc_stream_open, -1: `input` of the call. The call
 * is borrowed for this call, the target of `work` until close. */
int git_stream_open(const struct git_call *call, int input_fd, struct git_stream **stream,
		    struct err *err);

/* By which it is fed and read. */
struct proc_stream *git_stream_proc(const struct git_stream *stream);

/* Ends it, by force (ERR_CANCELED) if it still runs, and frees; errors as git_run. NULL
 * is allowed: 0. */
int git_stream_close(struct git_stream *stream, struct err *err);

/*
 * The version of git on this machine. Any thread.
 */

#define GIT_VERSION_SIZE 64

/* "git version 2.39.5". Asked of git the first time, and again when another program is
 * found under its name. When git does not say, a text unique to this call. */
void git_version(char text[GIT_VERSION_SIZE]);

#endif
