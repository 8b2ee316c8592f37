/*
 * Push: this node's part in bringing ref changes to destinations. Threads:
 *
 *	distributor	waiting/ -> the queue; what is due -> workers, within the limits
 *	push (n)	one URI: lease, claim, transfer, outcome
 *
 * Several nodes share the task store; who gets a URI's lease takes all its tasks, the
 * others drop it. Source: seed 001, steps 1 to 6.
 */
#ifndef PUSH_PUSH_H
#define PUSH_PUSH_H

#include "base/base.h"
#include "base/str.h"
#include "lease/lease.h"
#include "push/settings.h"
#include "push/sink.h"
#include "push/task_store.h"
#include "push/transfer.h"

struct push;
struct push_events;

struct push_options {
	struct task_store *tasks;       /* borrowed, as all but settings */
	struct lease_manager *leases;   /* of the task store (lease/directory.h) */
	const char *root;               /* site.repositories */
	const char *data;               /* site.data */
	const char *node;               /* this node's name in the cluster */
	struct push_settings *settings; /* a reference is taken */
	double delete_brake;
	struct push_events *events; /* NULL: none are made */
	/* Appends the names of all repositories of the site, owned by the caller. For
	 * replicateOnStartup, and to see whose copies share a place. */
	int (*names)(void *arg, text_list *names, struct err *err);
	/* Is told that a repository could not be pushed because of what is here. From any
	 * worker; may be NULL. */
	void (*broken)(void *arg, const char *name, const struct err *why);
	void *arg; /* of both */
};

int push_start(const struct push_options *options, struct push **push, struct err *err);

/* Takes no more work; what runs has until its remote's drain time, and grace_ms at most,
 * then its children are killed and its tasks wait again. NULL is allowed. */
void push_stop(struct push *push, int64_t grace_ms);

/* Other settings, obeyed by what starts from now on; what waits is scheduled anew. The
 * task store's directory does not change. */
void push_set(struct push *push, struct push_settings *settings);

/* Those that count now: a reference, which the caller gives back. */
struct push_settings *push_settings_of(struct push *push);

/* Something was put into the store by a command: look at all of it now. */
void push_wake(struct push *push);

struct push_look {
	size_t running, waiting_uris;
	int64_t last_listed_at; /* boot ms */
	bool is_failing;        /* the store cannot be read */
	struct err failure;
};
void push_look(struct push *push, struct push_look *look);

/* Names of leases in the task store. */
#define PUSH_URI_LEASE "push:uri:"   /* and the uri key */
#define PUSH_NODE_LEASE "push:node:" /* and the node's name: held while it lives */
#define PUSH_STARTUP_LEASE "push:startup"

/*
 * What `git push --porcelain` and those behind it say. Pure; any thread.
 *
 * Source: git-push(1), OUTPUT.
 */

/* One ref's line: <flag> TAB <from>:<dst> TAB <summary> [SP (<reason>)] */
struct push_line {
	char flag; /* one of " +-*!=" */
	const char *dst;
	const char *summary; /* "[remote rejected]", "1234..5678" */
	const char *reason;  /* or "" */
};

/* Cuts the next one out of *text, and moves it on; other lines are passed over. False at
 * the end. */
bool push_report_next(char **text, struct push_line *line);

enum push_verdict {
	PUSH_SETTLED,     /* *result has all */
	PUSH_NEEDS_FORCE, /* the same, if it may not be forced */
	PUSH_STALE,       /* it has another value than expected: look again */
};

/* `tail`: the end of stderr, for what the other side's hooks said. Fills status, text and
 * how it may go on. */
enum push_verdict push_report_judge(const struct push_line *line, const char *tail,
				    struct ref_result *result);

/* Whether the line says that the pack did not arrive whole, which is no ref's fault. */
bool push_report_is_unpacking(const struct push_line *line);

/* Makes the best of a push, or a look, that failed as a whole: *err has proc_run's or
 * git_run's error and gets the class that what was said stands for. Returns -1. */
int push_report_failure(const char *tail, struct err *err);

/* When the other side could not take the pack: 0 if that is worth another try of each
 * ref; -1 if its disk is to blame. */
int push_report_unpacking(const char *tail, struct err *err);

/* Whether the pack could not be made here; then the reason is REASON_LOCAL_REPOSITORY. */
bool push_report_is_local(const char *tail, struct err *err);

#endif
