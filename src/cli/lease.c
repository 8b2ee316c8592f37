#include "cli/cli.h"

#include <getopt.h>
#include <pwd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/site.h"
#include "cli/site_data.h"
#include "git/fence.h"
#include "replicable/name.h"

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

static json_t *to_json(const struct lease_holder *holder)
{
	json_t *object = json_object();

	json_put_text(object, "key", holder->key);
	json_put_number(object, "fence", (int64_t)holder->fence);
	json_put_bool(object, "held", holder->held);
	json_put_text(object, "proof", holder->proof);
	json_put_text(object, "node", holder->node);
	json_put_text(object, "boot_id", holder->boot_id);
	json_put_number(object, "pid", holder->pid);
	json_put_text(object, "job", holder->job);
	json_put_text(object, "operation", holder->operation);
	json_put_time(object, "acquired_at", holder->acquired_at);
	json_put_seconds(object, "ttl_left", holder->held ? holder->ttl_left_ms : 0);
	return object;
}

static void print_text(const struct lease_holder *holder)
{
	char since[CLOCK_TEXT_SIZE];

	clock_format(holder->acquired_at, since);
	printf("%s\n  fence %" PRIu64 ", %s: %s\n", holder->key, holder->fence,
	       holder->held ? "held" : "free", holder->proof);
	printf("  %s%s by process %" PRId64 " on %s, %s%s since %s\n",
	       holder->held ? "" : "last ", holder->operation, holder->pid, holder->node,
	       holder->job[0] ? "for " : "", holder->job, since);
	if (holder->held && strcmp(holder->proof, "alive") == 0)
		printf("  %.1f s left until it lapses unless renewed\n",
		       (double)holder->ttl_left_ms / 1000);
}

static int list(struct lease_manager *leases, const struct lease_call *call,
		struct err *err)
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
			json_array_append_new(array, to_json(&holders.items[i]));
		else if (holders.items[i].held)
			print_text(&holders.items[i]);
	}
	if (call->is_json)
		json_write(stdout, object);
	vec_clear(&holders);
	return 0;
}

static int show(struct lease_manager *leases, const struct lease_call *call,
		struct err *err)
{
	struct lease_holder holder;

	if (lease_inspect(leases, call->key, &holder, err) != 0)
		return -1;
	if (call->is_json) {
		json_auto_t *object = to_json(&holder);
		json_write(stdout, object);
	} else {
		print_text(&holder);
	}
	return 0;
}

/* The displaced holder learns of it at its next renewal; until then the repository's own
 * fence keeps it from publishing. The job of such a lease is the repository's name. */
static int raise_fence(const struct lease_call *call, const struct lease_holder *holder,
		       struct err *err)
{
	char key[LEASE_KEY_SIZE];
	AUTO_FREE char *below = name_to_path(holder->job);
	AUTO_FREE char *path = xasprintf("%s/%s", call->repositories, below);
	AUTO_CLOSE int copy = -1;

	lease_key_for(KIND_REPOSITORY, replicable_id(KIND_REPOSITORY, holder->job), key);
	if (strcmp(key, call->key) != 0)
		return 0;
	copy = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return copy < 0 ? 0 : fence_raise(copy, call->fence + 1, err);
}

static int release(struct lease_manager *leases, const struct lease_call *call,
		   struct err *err)
{
	struct lease_holder holder;

	if (lease_inspect(leases, call->key, &holder, err) != 0 ||
	    lease_force_release(leases, call->key, call->fence, actor(), call->reason,
				err) != 0)
		return -1;
	if (raise_fence(call, &holder, err) != 0)
		return err_prefix(err,
				  "the lease is released, but its holder may publish "
				  "once more");
	fprintf(stderr, "refrelay: released %s; its holder can publish nothing more\n",
		call->key);
	return 0;
}

/* -1: go on. */
static int read_options(int argc, char **argv, struct lease_call *call)
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

static int run(struct cli *cli, struct lease_call *call, lease_verb verb)
{
	struct site site;
	struct site_data data = { 0 };
	struct err err;
	int result = -1;

	if (site_read(cli, call->directory, &site, &err) == 0 &&
	    site_data_open(site.data, &data, &err) == 0) {
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
	int status = read_options(argc, argv, &call);
	const char *verb = optind < argc ? argv[optind] : "";
	int names = argc - optind - 1;

	if (status >= 0)
		return status;
	call.key = names > 0 ? argv[optind + 1] : NULL;
	if (strcmp(verb, "list") == 0 && names == 0)
		return run(cli, &call, list);
	if (strcmp(verb, "show") == 0 && names == 1)
		return run(cli, &call, show);
	if (strcmp(verb, "release") != 0 || names != 1)
		return cli_usage("lease", "it takes list, show KEY or release KEY");
	if (call.fence == 0 || !call.reason || !call.reason[0])
		return cli_usage("lease", "release takes --fence N, as show prints it, "
					  "and --reason TEXT");
	return run(cli, &call, release);
}
