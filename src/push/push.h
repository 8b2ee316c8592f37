/*
 * Push: this node's share of pushing ref changes to destinations. Threads:
 *
 *	distributor	waiting/ -> the queue; due URIs -> workers, within the limits
 *	push (n)	one URI: lease, claim, transfer, outcome
 *
 * Several nodes share the task store; the one that gets a URI's lease takes all its
 * tasks, the others skip it. Source: seed 001, steps 1 to 6.
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
	 * replicateOnStartup, and to detect repositories that share a destination. */
	int (*names)(void *arg, text_list *names, struct err *err);
	/* Called when a repository could not be pushed because of a local problem. By any
	 * worker; may be NULL. */
	void (*broken)(void *arg, const char *name, const struct err *why);
	/* Called when no repository of that name is found. True: it was deleted. False:
	 * *why says why that is not known; its tasks wait. By any worker; NULL: what is
	 * not found was deleted. */
	bool (*is_deleted)(void *arg, const char *name, struct err *why);
	void *arg; /* of all three */
};

int push_start(const struct push_options *options, struct push **push, struct err *err);

/* Takes no more work; running pushes have their remote's drain time, grace_ms at most;
 * then their children are killed and their tasks wait again. NULL is allowed. */
void push_stop(struct push *push, int64_t grace_ms);

/* New settings, for pushes that start from now on; waiting ones are rescheduled. The task
 * store's directory does not change. */
void push_set(struct push *push, struct push_settings *settings);

/* The current settings: a reference, which the caller releases. */
struct push_settings *push_settings_of(struct push *push);

/* A command has changed the store: read all of it now. */
void push_wake(struct push *push);

struct push_look {
	size_t running, waiting_uris;
};
void push_look(struct push *push, struct push_look *look);

/* Names of leases in the task store. */
#define PUSH_URI_LEASE "push:uri:"   /* and the uri key */
#define PUSH_NODE_LEASE "push:node:" /* and the node's name: held while it lives */
#define PUSH_STARTUP_LEASE "push:startup"

/*
 * Parses the output of `git push --porcelain` and of the programs behind it. Pure; any
 * thread.
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

/* Cuts the next one out of *text and advances it; skips other lines. False at the end. */
bool push_report_next(char **text, struct push_line *line);

enum push_verdict {
	PUSH_SETTLED,     /* *result has all */
	PUSH_NEEDS_FORCE, /* likewise, if it must not be forced */
	PUSH_STALE,       /* its value is not the expected one: read it again */
};

/* `tail`: the end of stderr, for messages of the other side's hooks. Fills in the status,
 * the text and whether a retry may help. */
enum push_verdict push_report_judge(const struct push_line *line, const char *tail,
				    struct ref_result *result);

/* Whether the line says that the pack did not arrive whole; the ref is not at fault
 * then. */
bool push_report_is_unpacking(const struct push_line *line);

/* Whether it may be the fault of another ref in the same push: likewise, or a hook
 * refused all of them. */
bool push_report_is_together(const struct push_line *line);

/* Classifies a push, or a reading of refs, that failed as a whole: *err has proc_run's or
 * git_run's error and gets the class that the messages indicate. Returns -1. */
int push_report_failure(const char *tail, struct err *err);

/* After the other side could not take the pack: 0 if each ref is worth another try; -1 if
 * its disk is the cause. */
int push_report_unpacking(const char *tail, struct err *err);

/* Whether making the pack failed here; then the reason is REASON_LOCAL_REPOSITORY. */
bool push_report_is_local(const char *tail, struct err *err);

#endif
