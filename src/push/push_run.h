/*
 * One try of one URI: made by the distributor, filled by a worker, handed back.
 */
#ifndef PUSH_PUSH_RUN_H
#define PUSH_PUSH_RUN_H

#include "git/git_child.h"
#include "push/dead_letters.h"
#include "push/push_parts.h"
#include "push/schedule.h"
#include "push/target.h"
#include "push/transfer.h"
#include "push/uri_state.h"

struct judge;

struct push_run {
	TAILQ_ENTRY(push_run) link; /* guarded by push->mutex */
	struct push *push;
	struct push_settings *settings; /* a reference: those that it began with */
	char uri_key[URI_KEY_SIZE];
	char job_id[LEASE_JOB_SIZE]; /* of the log and of its lease */
	char *uri;                   /* owned */
	bool is_released;    /* its host is back, or a person has allowed deletions:
				ignore the retry time that was set because of that */
	uint64_t seen_tasks; /* the distributor's count when it began */

	/* While it runs. */
	struct lease *lease;
	struct git_work work;
	struct uri_state state;
	int64_t now; /* file server's, when it began */
	requested_list requests;
	bool has_recovered; /* tasks of a worker that was killed */

	/* Its outcome. */
	struct schedule_result result;
	bool is_empty; /* there was nothing to do */
	bool has_no_tasks;
	bool has_given_back;
	bool is_stuck;    /* tasks may be left in running/: check it again */
	bool is_failed;   /* some tasks wait for another try, because of `why` */
	bool is_head;     /* what is to be tried again is HEAD alone */
	bool has_refused; /* the destination, other refs than deletions; or all failed */
	bool is_lock, has_orphans;
	bool is_away;        /* a repository is out of this node's reach, or a push */
	bool is_held;        /* a deletion waits for a person */
	bool has_changed;    /* its list of dead letters */
	bool has_letters;    /* new ones, which are not written yet */
	bool is_interrupted; /* by a stop: ignore its outcome */
	struct err why;
	int64_t retry_ms; /* of the remote that failed */
};

/* Frees it and its reference. */
void push_run_free(struct push_run *run);

/* One try (pool_work): from the URI's lease to the outcome of its tasks. */
void push_run_work(void *run);

/* Tasks of one repository for one remote, in a run. */
struct push_group {
	const char *remote, *project;           /* borrowed from the first task */
	VEC(const struct claimed_task *) tasks; /* borrowed */
	claimed_tasks added; /* some of them: made and claimed by this run */
	struct destination destination;
	char *repository; /* its local path; NULL: it does not exist; owned */
};

/* Does all work for a group; moves its tasks on by the outcome. */
void push_group_work(struct push_run *run, struct push_group *group);

/* Of a repository that was there when the push began: 1: it is (again); 0: it was
 * deleted; -1: nobody can say, as *why tells, since its file system is away. */
int push_group_look_again(const struct push_run *run, const struct push_group *group,
			  struct err *why);

/* Refs of the repository here, and how long its object names are. */
int push_group_read_refs(const struct push_group *group, struct ref_snapshot *refs,
			 size_t *oid_len, struct err *err);

/* Ended from outside: by a stop, or since the lease was lost. */
bool push_was_interrupted(const struct err *why);

/* For requests to its destination other than pushes. */
struct target_call push_group_call(const struct push_run *run,
				   const struct push_group *group);

/* Whether this node lacks for a while what a push anywhere needs: space for its own
 * files, a descriptor, a process. Not the program, which somebody must install. */
bool push_is_this_nodes_fault(const struct err *why);
/* The run is tried again in a minute, and no failure is counted; the tasks wait again. */
void push_note_put_off(struct push_run *run, const struct err *why);
void push_group_put_off(struct push_run *run, const struct push_group *group,
			const struct err *why);

bool has_request(const struct push_run *run, enum uri_request request);
/* The time of the next try, after the last failure, has not come. */
bool has_to_wait(const struct push_run *run);

/* Handles deletion, if requested. True: it was, and the tasks were moved on. */
bool serve_deletion(struct push_run *run, const struct push_group *group);
/* Makes the destination's HEAD ours, if requested. */
void serve_head(struct push_run *run, const struct push_group *group);
/* *head (owned): what HEAD here names, if it is there, and has this name at the
 * destination, too; else NULL. */
int push_requests_pushed_head(const struct push_group *group, char **head,
			      struct err *err);
int push_requests_set_head(struct push_run *run, const struct push_group *group,
			   const char *head, struct err *err);
/* Whether it may help to try again, and delays only what would wait anyway. */
bool push_requests_may_set_head_later(const struct push_group *group,
				      const struct err *why);
/* Whether the destination has the branch; it is pushed, where it is not as it is here. 1;
 * 0: it is refused, *may_pass: for a reason that may pass; -1. */
int push_group_has_branch(const struct push_run *run, const struct push_group *group,
			  const char *branch, bool *may_pass, struct err *err);
void forget_head(struct push_run *run);

/* The tasks wait again; or they are done. After loss of the lease, nothing is moved. */
void push_settle_give_back(struct push_run *run, const struct push_group *group);
void push_settle_finish(struct push_run *run, const struct push_group *group);
/* They wait again or, if the remote's retries are used up, become dead letters. */
void give_back_or_up(struct push_run *run, const struct push_group *group,
		     const struct err *why);
void push_settle_give_up(struct push_run *run, const struct push_group *group,
			 const struct err *why);
/* Settles each task by the results of its refs. */
void push_settle_group(struct push_run *run, const struct push_group *group,
		       const struct transfer_result *result);
/* A task is to become a dead letter: those of a URI are listed in its state, which is
 * written first: no later push would settle a letter that is not listed. */
void note_letter(struct push_run *run, const struct claimed_task *task);
int write_letters(struct push_run *run, struct err *err);
/* Removes those for which the push succeeded. */
void settle_dead_letters(struct push_run *run, const struct push_group *group,
			 const struct judge *judge);
/* A task for all refs was given up because of these: removes letters that the URI's state
 * lists and that say nothing more, so that each ref is reported once. */
int drop_repeated_letters(struct push_run *run, const struct task *all,
			  const ref_failures *refs, struct err *err);
/* Removes all: their purpose no longer exists. */
void forget_dead_letters(struct push_run *run);
/* The run must be tried again, because of this; the first reason counts. */
void fail_run(struct push_run *run, const struct push_group *group,
	      const struct err *why);

/*
 * The events of a push of a group; without push_events (NULL), nothing happens.
 */

/* Call after its tasks were moved on: one event for each requested ref, and one for each
 * ref whose pushes to all destinations of the repository have ended. `result` NULL: the
 * whole push failed. */
void ref_events_add(const struct push_run *run, const struct push_group *group,
		    const struct transfer_result *result);

/*
 * Logs and metrics of pushes. Any thread.
 */

/* A push that ended with results. */
struct push_account {
	const struct push_group *group;
	const char *uri;
	const struct transfer_result *result;
	int64_t took_ms, delay_ms;
	uint64_t retries;
	uint64_t max_refs; /* lines; 0: all */
};
void report_done(const struct push_account *account);
void push_report_failed(const struct push_run *run, int64_t retry_in_ms);
void report_gave_up(const struct push_group *group, const char *uri,
		    const struct err *why);
void report_class(const char *remote, enum err_class class);
/* Gauges. `now`: boot time. */
void push_report_queue(const struct schedule *schedule, int64_t now);
/* Removes the metrics of remotes that are gone. */
void report_forget(void);
/* `letters`: as task_store_letter_remotes() left it last. */
void push_report_dead_letters(struct task_store *tasks,
			      const struct push_settings *settings, struct map *letters);

/*
 * When a repository may be deleted at a destination: not before the other deletions of
 * the same time are known, and not if there are too many. Private to push/.
 */

#define DELETION_QUIET_MS 5000

enum deletion {
	DELETION_DUE,
	DELETION_LATER,   /* at *at, by the file server's clock */
	DELETION_HELD,    /* until a person allows it; *err says why */
	DELETION_UNKNOWN, /* it could not be determined, because of *err */
};
enum deletion deletion_judge(struct push_run *run, const struct push_group *group,
			     int64_t *at, struct err *err);

#endif
