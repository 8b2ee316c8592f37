/*
 * Git children. Each runs under the supervisor with an environment of our own: no
 * configuration but ours and the repository's, no hooks (but of GIT_CONFIG_RECEIVE), no
 * prompts, no lazy fetches, no replace refs, no proxies, messages in English. Safe from
 * any thread; a git_stream is for one thread at a time.
 */
#ifndef GIT_GIT_CHILD_H
#define GIT_GIT_CHILD_H

#include <stdatomic.h>

#include "base/base.h"
#include "base/deadline.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/thread.h"
#include "git/git_reach.h"

/* Under what limits work is done; given by the job's runner, borrowed. */
struct git_work {
	struct deadline *deadline;   /* children are dead by then; may be NULL */
	const struct stop *stop;     /* may be NULL */
	int guard_fd;                /* inherited by children; -1: none */
	int64_t until;               /* the work's end, by clock_boot_ms(); 0: none */
	atomic_uint_fast64_t *bytes; /* grows by what arrives; may be NULL */
};

/* Another repository that a child may reach. */
struct git_remote {
	const char *url; /* http://, https://, git://, or else a path on this machine */
	const char
		*ssh_command; /* the URL is one for ssh: GIT_SSH_COMMAND; may be NULL */
	const char *header;   /* sent with each HTTP request, secret; NULL: none */
	const char *ca_file; /* of authorities for https, in place of the system's; may be
				NULL */
	int64_t stall_ms;    /* an HTTP answer that rests so long breaks off; 0: 60 s;
				less: none does */
	uint64_t pack_most;  /* bytes of a pack that comes from there, as these; 0: any */
	uint64_t memory_most; /* that its objects may take when they are unpacked */
	bool is_pushed_to;    /* its own hooks and settings count there, also on this
				 machine */
};

/* What stands below the repository's own configuration in place of the user's and the
 * system's. */
enum git_config {
	GIT_CONFIG_WORK,  /* for work of ours on it, and fetches */
	GIT_CONFIG_SERVE, /* nothing: clients get what the repository allows them */
	GIT_CONFIG_SERVE_PARTIAL, /* and may clone in part, unless the repository says no
				   */
	GIT_CONFIG_RECEIVE,       /* a push: hooks run, what it brings is on disk when git
				   * says so, and gc is left to others */
};

struct git_call {
	const struct git_work *work;
	const char *repository;  /* its path; the child's directory */
	int repository_fd;       /* above 0: the child's directory is this; borrowed for
				  * the start; `repository` is for messages then */
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
	struct proc_result *ended;    /* gets how git_run's child did; may be NULL */
};

struct git_stream;

/* Writes the configurations that children use in place of the user's and the system's
 * below <directory>, and keeps the paths for all later calls. Once, before any
 * thread calls git_run. It trusts every repository that we are asked to work on,
 * regardless of its owner: naming it to refrelay was the operator's decision. */
int git_setup(const char *directory, struct err *err);

/* Runs git to its end. The classes are proc_run's, and for what git says itself
 * the one that its message stands for; the text is that message. */
int git_run(const struct git_call *call, struct err *err);

/* Starts git, whose output is read while it runs; `output` of the call is not used.
 * `input_fd` becomes its stdin (borrowed for the call); -1: `input` of the call. The call
 * is borrowed for this call, what `work` points to until close. */
int git_stream_open(const struct git_call *call, int input_fd, struct git_stream **stream,
		    struct err *err);

/* The same with proc_stream_open_fed. */
int git_stream_open_fed(const struct git_call *call, struct git_stream **stream,
			struct err *err);
void git_stream_offer(struct git_stream *stream, const void *data, size_t len);
size_t git_stream_offered(const struct git_stream *stream);
void git_stream_end_input(struct git_stream *stream);
ssize_t git_stream_read_until(struct git_stream *stream, void *buffer, size_t size,
			      int64_t until);

/* As proc_stream_read. */
ssize_t git_stream_read(struct git_stream *stream, void *buffer, size_t size);

/* Ends it, by force (ERR_CANCELED) if it still runs, and frees; errors as git_run. NULL
 * is allowed: 0. */
int git_stream_close(struct git_stream *stream, struct err *err);

/*
 * Which git this machine has. Any thread.
 */

#define GIT_VERSION_SIZE 64

/* "git version 2.39.5". Asked of git the first time, and again when another program is
 * found under its name. When git does not say, a text that no other process and no later
 * call has. */
void git_version(char text[GIT_VERSION_SIZE]);

#endif
