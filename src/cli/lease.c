#include "cli/cli.h"

#include <pwd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/proc.h"
#include "cli/site.h"
#include "lease/lease_json.h"
#include "replicable/take_away.h"
#include "store/data_lock.h"

enum { NOT_FOUND = 127, BY_SIGNAL = 128 };

struct lease_call {
	const char *directory, *reason, *key;
	const char *repositories; /* the root of the copies */
	uint64_t fence;
	int64_t wait_ms; /* -1: as set */
	char **argv;     /* of run */
	bool is_json;
};

#define AT(kind, member) CLI_AT(kind, struct lease_call, member)

static const struct cli_option rows[] = {
	{ "directory", 0, "DEST",
	  "the leases of a tree that replicate made, in place of the\n"
	  "configured site's",
	  AT(TEXT, directory) },
	{ "fence", 0, "N", "release: the fence that list or show printed",
	  AT(NUMBER, fence), .verbs = "release" },
	{ "reason", 0, "TEXT", "release: the reason, for the log", AT(TEXT, reason),
	  .verbs = "release" },
	{ "wait", 0, "TIME",
	  "run: how long to wait for the lease; 0: do not wait\n(default: lease.wait, "
	  "60s)",
	  AT(DURATION, wait_ms), .verbs = "run" },
	{ "-- COMMAND [ARGUMENT...]", 0, NULL,
	  "run: the command to run while holding the lease; its exit status is\nreturned",
	  .type = CLI_NOTE },
	CLI_JSON(struct lease_call),
	{ 0 },
};

enum { LIST, SHOW, RELEASE, RUN };

static const struct cli_verb verbs[] = {
	[LIST] = { .name = "list" },
	[SHOW] = { "show", 1, 1, .operands = "KEY" },
	[RELEASE] = { "release", 1, 1, .operands = "KEY" },
	[RUN] = { "run", 2, CLI_ANY_NUMBER, .operands = "KEY -- COMMAND" },
	{ 0 },
};

const struct cli_options lease_options = {
	.rows = rows,
	.verbs = verbs,
	.takes = "list, show KEY, release KEY, or run KEY -- COMMAND",
	.column = 20,
};

/* Whoever asked: the name that the log keeps. */
static const char *actor(void)
{
	const struct passwd *user = getpwuid(getuid());

	return user ? user->pw_name : "unknown user";
}

static void cli_lease_print_holder(const struct lease_holder *holder)
{
	char since[CLOCK_TEXT_SIZE], id[LEASE_JOB_SIZE];
	const char *name = lease_job_split(holder->job, id);

	clock_format(holder->acquired_at, since);
	cli_print("%s", holder->key);
	cli_print("  fence %" PRIu64 ", %s: %s", holder->fence,
		  holder->held ? "held" : "free", holder->proof);
	cli_print("  %s process %" PRId64 " on %s, for %s%s%s, since %s",
		  holder->held ? "by" : "last by", holder->pid, holder->node,
		  holder->operation, name[0] ? " of " : "", name, since);
	if (id[0])
		cli_print("  job %s", id);
	if (holder->held && !holder->is_dead && holder->ttl_left_ms > 0)
		printf("  expires in %.1f s unless renewed\n",
		       (double)holder->ttl_left_ms / 1000);
}

static int cli_lease_list_holders(struct lease_manager *leases,
				  const struct lease_call *call, struct err *err)
{
	lease_holders holders = { 0 };
	json_auto_t *object = json_object();
	json_t *array = json_array();

	json_put(object, "leases", array);
	if (lease_list(leases, !call->is_json, &holders, err) != 0) {
		vec_clear(&holders);
		return -1;
	}
	for (size_t i = 0; i < holders.count; i++) {
		if (call->is_json)
			json_array_append_new(array,
					      lease_holder_json(&holders.items[i]));
		else
			cli_lease_print_holder(&holders.items[i]);
	}
	if (call->is_json)
		json_write(stdout, object);
	vec_clear(&holders);
	return 0;
}

static int cli_lease_show_holder(struct lease_manager *leases,
				 const struct lease_call *call, struct err *err)
{
	struct lease_holder holder;

	if (lease_inspect(leases, call->key, &holder, err) != 0)
		return -1;
	if (call->is_json) {
		json_auto_t *object = lease_holder_json(&holder);
		json_write(stdout, object);
	} else {
		cli_lease_print_holder(&holder);
	}
	return 0;
}

static int cli_lease_release_key(struct lease_manager *leases,
				 const struct lease_call *call, struct err *err)
{
	const struct take_away what = {
		.key = call->key,
		.fence = call->fence,
		.actor = actor(),
		.reason = call->reason,
		.repositories = call->repositories,
	};

	int raised = lease_take_away(leases, &what, err);
	if (raised < 0)
		return -1;
	cli_note(raised ? "released %s; its former holder can no longer publish"
			: "released %s; no repository's fence was raised: its former "
			  "holder is stopped at its next renewal, or goes on until its "
			  "end if it renews nothing",
		 call->key);
	return 0;
}

/* Our own, with what tells the command of its lease. Pointers are borrowed. */
static void make_environment(char *fence, char *job, text_list *env)
{
	for (char **at = environ; *at; at++)
		if (strncmp(*at, "REFRELAY_FENCE=", 15) != 0 &&
		    strncmp(*at, "REFRELAY_JOB=", 13) != 0)
			vec_add(env, *at);
	vec_add(env, fence);
	vec_add(env, job);
	vec_add(env, NULL);
}

/* Returns the command's status as a shell gives it; -1 if the lease was lost meanwhile,
 * or a person ended us: the command is dead by then. */
static int run_under(struct lease *lease, const struct lease_call *call, const char *job,
		     const struct stop *stop, struct err *err)
{
	AUTO_FREE char *fence_text =
		xasprintf("REFRELAY_FENCE=%" PRIu64, lease_fence(lease));
	AUTO_FREE char *job_text = xasprintf("REFRELAY_JOB=%s", job);
	const int keep[] = { lease_guard_fd(lease), -1 };
	struct proc_result result;
	text_list env = { 0 };
	struct proc_request request = {
		.argv = (const char *const *)call->argv,
		.keep_fds = keep,
		.has_ours = true,
		.deadline = lease_deadline(lease),
		.stop = stop,
	};

	make_environment(fence_text, job_text, &env);
	request.env = (const char *const *)env.items;
	int ended = proc_run(&request, &result, err);
	vec_clear(&env);
	if (ended == 0)
		return lease_check(lease, err);
	if (err->class == ERR_LOST) { /* whatever it made of its SIGTERM */
		struct err why = *err;
		lease_blame(lease, &why);
		if (why.class == ERR_TIMEOUT) { /* what no lease is renewed for */
			*err = why;
			err->class = ERR_LOST;
		}
		return -1;
	}
	if (result.exit_code >= 0)
		return result.exit_code;
	if (err->class == ERR_CONFIG) {
		cli_fail(err);
		return NOT_FOUND;
	}
	return err->class == ERR_INTERNAL && result.signal ? BY_SIGNAL + result.signal
							   : -1;
}

static int run_leased(struct lease_manager *leases, const struct lease_call *call,
		      const struct stop *stop, struct err *err)
{
	char key[LEASE_KEY_SIZE], job[LEASE_JOB_SIZE];
	struct lease *lease = NULL;
	int status = -1;

	lease_job_new(job);
	log_set_context((struct log_context){ .job = "run", .job_id = job });
	if (lease_key_of_person(leases, call->key, key, err) == 0 &&
	    lease_acquire(leases,
			  &(struct lease_request){
				  .key = key,
				  .operation = "run",
				  .job = job,
				  .name = call->key,
				  .wait_ms = call->wait_ms >= 0
						     ? call->wait_ms
						     : lease_manager_wait_ms(leases),
				  .stop = stop,
			  },
			  &lease, err) == 0)
		status = run_under(lease, call, job, stop, err);
	lease_release(lease);
	log_set_context((struct log_context){ 0 });
	return status;
}

static int cli_lease_run_command(struct lease_manager *leases,
				 const struct lease_call *call, struct err *err)
{
	struct stop stop;
	int status;

	cli_catch_signals(&stop);
	status = run_leased(leases, call, &stop, err);
	cli_end_signals(&stop);
	return status;
}

typedef int (*lease_verb)(struct lease_manager *leases, const struct lease_call *call,
			  struct err *err);

/* Where the key is as the person wrote it, or as `lease run` wrote it for them. */
static void find_key(struct lease_manager *leases, struct lease_call *call,
		     char key[LEASE_KEY_SIZE])
{
	struct lease_holder ignored;
	struct err err;

	if (!call->key || call->argv ||
	    lease_key_of_person(leases, call->key, key, &err) != 0)
		return;
	const size_t prefix_len = strlen(key) - strlen(call->key);
	const bool is_whole = strncmp(call->key, key, prefix_len) == 0;

	if (is_whole && lease_inspect(leases, call->key, &ignored, &err) == 0)
		return;
	/* Beyond the prefix a server may refuse to say anything. */
	if (lease_inspect(leases, key, &ignored, &err) == 0 ||
	    (err.class == ERR_MISSING && !is_whole &&
	     lease_inspect(leases, call->key, &ignored, &err) != 0 &&
	     err.class != ERR_MISSING))
		call->key = key;
}

static bool must_write(lease_verb verb)
{
	return verb == cli_lease_release_key || verb == cli_lease_run_command;
}

static int open_for_verb(struct cli *cli, struct lease_call *call, lease_verb verb,
			 struct site *site, struct site_data *data, struct err *err)
{
	if (site_read(cli, call->directory, site, err) != 0)
		return -1;
	call->repositories = site->repositories;
	if (must_write(verb) && !call->directory &&
	    site_leases_check_owner(site, err) != 0)
		return -1;
	if (must_write(verb))
		return call->directory ? site_data_open_directory(site->data, data, err)
				       : site_data_open(site, data, err);
	if (!call->directory && !data_lock_is_held(site->data))
		cli_note("no node is running here");
	if (site_data_open_to_read(site->data, data, err) != 0)
		return -1;
	return call->directory ? 0 : site_data_read_leases(site, data, err);
}

static int cli_lease_run_verb(struct cli *cli, struct lease_call *call, lease_verb verb)
{
	struct site site = { 0 };
	struct site_data data = { 0 };
	char key[LEASE_KEY_SIZE];
	struct err err;
	int result = open_for_verb(cli, call, verb, &site, &data, &err);

	if (result == 0) {
		find_key(data.leases, call, key);
		result = verb(data.leases, call, &err);
	}
	site_data_close(&data);
	site_clear(&site);
	if (result < 0)
		return cli_fail(&err);
	return result;
}

int cli_lease(struct cli *cli, char **argv)
{
	static const lease_verb runs[] = { [LIST] = cli_lease_list_holders,
					   [SHOW] = cli_lease_show_holder,
					   [RELEASE] = cli_lease_release_key,
					   [RUN] = cli_lease_run_command };
	struct lease_call call = { .wait_ms = -1, .fence = UINT64_MAX };
	struct cli_operands operands;
	int status = cli_read_options(cli->command, argv, &call, &operands);

	if (status >= 0)
		return status;
	call.key = operands.items[0];
	if (operands.count > 1)
		call.argv = operands.items + 1;
	if (operands.verb_at == RELEASE &&
	    (call.fence == UINT64_MAX || !call.reason || !call.reason[0]))
		return cli_usage("lease", "release takes --fence N, as show prints it, "
					  "and --reason TEXT");
	return cli_lease_run_verb(cli, &call, runs[operands.verb_at]);
}
