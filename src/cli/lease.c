#include "cli/cli.h"

#include <getopt.h>
#include <pwd.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/site.h"
#include "lease/lease_json.h"
#include "replicable/take_away.h"

static const char options_text[] =
	"  --directory DEST  the leases of a tree that replicate made, in place of the\n"
	"                    configured site's\n"
	"  --fence N         release: the fence that list or show printed\n"
	"  --reason TEXT     release: why, for the log\n"
	"  --json            print one JSON object\n";

struct lease_call {
	const char *directory, *reason, *key;
	const char *repositories; /* the root of the copies */
	uint64_t fence;
	bool is_json;
};

static const struct option long_options[] = {
	{ "directory", required_argument, NULL, 'd' },
	{ "fence", required_argument, NULL, 'f' },
	{ "reason", required_argument, NULL, 'r' },
	{ "json", no_argument, NULL, 'J' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

/* Whoever asked: the name that the log keeps. */
static const char *actor(void)
{
	const struct passwd *user = getpwuid(getuid());

	return user ? user->pw_name : "unknown user";
}

static void cli_lease_print_holder(const struct lease_holder *holder)
{
	char since[CLOCK_TEXT_SIZE];

	clock_format(holder->acquired_at, since);
	printf("%s\n  fence %" PRIu64 ", %s: %s\n", holder->key, holder->fence,
	       holder->held ? "held" : "free", holder->proof);
	printf("  %s process %" PRId64 " on %s, for %s%s%s, since %s\n",
	       holder->held ? "by" : "last by", holder->pid, holder->node,
	       holder->operation, holder->job[0] ? " of " : "", holder->job, since);
	if (holder->held && !holder->is_dead && holder->ttl_left_ms > 0)
		printf("  %.1f s left until it lapses unless renewed\n",
		       (double)holder->ttl_left_ms / 1000);
}

static int cli_lease_list_holders(struct lease_manager *leases,
				  const struct lease_call *call, struct err *err)
{
	lease_holders holders = { 0 };
	json_auto_t *object = json_object();
	json_t *array = json_array();

	json_put(object, "leases", array);
	if (lease_list(leases, &holders, err) != 0) {
		vec_clear(&holders);
		return -1;
	}
	for (size_t i = 0; i < holders.count; i++) {
		if (call->is_json)
			json_array_append_new(array,
					      lease_holder_json(&holders.items[i]));
		else if (holders.items[i].held)
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

	if (lease_take_away(leases, &what, err) != 0)
		return -1;
	fprintf(stderr, "refrelay: released %s; its holder can publish nothing more\n",
		call->key);
	return 0;
}

/* -1: go on. */
static int cli_lease_read_options(int argc, char **argv, struct lease_call *call)
{
	int option;

	while ((option = cli_getopt(argc, argv, "", long_options)) != -1) {
		switch (option) {
		case 'd':
			call->directory = optarg;
			break;
		case 'f':
			if (!text_to_uint64(optarg, &call->fence) || call->fence == 0)
				return cli_usage("lease", "--fence takes a number");
			break;
		case 'r':
			call->reason = optarg;
			break;
		case 'J':
			call->is_json = true;
			break;
		case 'h':
			cli_help("lease", options_text);
			return EXIT_DONE;
		default:
			return cli_usage("lease", "wrong option %s", argv[optind - 1]);
		}
	}
	return -1;
}

typedef int (*lease_verb)(struct lease_manager *leases, const struct lease_call *call,
			  struct err *err);

static int cli_lease_run_verb(struct cli *cli, struct lease_call *call, lease_verb verb)
{
	int (*const open_data)(const char *directory, struct site_data *data,
			       struct err *err) =
		verb == cli_lease_release_key ? site_data_open : site_data_open_to_read;
	struct site site;
	struct site_data data = { 0 };
	struct err err;
	int result = -1;

	if (site_read(cli, call->directory, &site, &err) == 0 &&
	    open_data(site.data, &data, &err) == 0) {
		call->repositories = site.repositories;
		result = verb(data.leases, call, &err);
	}
	site_data_close(&data);
	site_clear(&site);
	return result == 0 ? EXIT_DONE : cli_fail(&err);
}

int cli_lease(struct cli *cli, int argc, char **argv)
{
	struct lease_call call = { 0 };
	int status = cli_lease_read_options(argc, argv, &call);
	const char *verb = optind < argc ? argv[optind] : "";
	int names = argc - optind - 1;

	if (status >= 0)
		return status;
	call.key = names > 0 ? argv[optind + 1] : NULL;
	if (strcmp(verb, "list") == 0 && names == 0)
		return cli_lease_run_verb(cli, &call, cli_lease_list_holders);
	if (strcmp(verb, "show") == 0 && names == 1)
		return cli_lease_run_verb(cli, &call, cli_lease_show_holder);
	if (strcmp(verb, "release") != 0 || names != 1)
		return cli_usage("lease", "it takes list, show KEY or release KEY");
	if (call.fence == 0 || !call.reason || !call.reason[0])
		return cli_usage("lease", "release takes --fence N, as show prints it, "
					  "and --reason TEXT");
	return cli_lease_run_verb(cli, &call, cli_lease_release_key);
}
