#include <getopt.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/failpoint.h"
#include "base/log.h"
#include "base/metrics.h"
#include "cli/cli.h"
#include "node/node.h"
#include "node/notify.h"

static const char options_text[] =
	"  -v  log what is of interest to developers, too\n"
	"\n"
	"SIGTERM and SIGINT end it, SIGHUP has it read its configuration again.\n";

static const struct option long_options[] = {
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

/* Blocked in this thread before all others are started, so that this one alone gets
 * them. */
static void block_signals(sigset_t *set)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };

	sigemptyset(set);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		sigaddset(set, numbers[i]);
	pthread_sigmask(SIG_BLOCK, set, NULL);
}

static void count_failed(bool has_failed)
{
	struct metric *gauge = metric_gauge(
		"refrelay_configuration_failed",
		"1: the last reload failed, and what was read before counts.");

	metric_set(metric_at(gauge), has_failed);
}

static void reload(const struct cli *cli, struct node *node)
{
	AUTO_CONF struct conf *conf = NULL;
	struct err err;
	int result = -1;

	notify_reloading();
	if (cli_load_config(cli, &conf, &err) == 0)
		result = node_reload(node, conf, &err);
	if (result != 0)
		log_error("node.reload_failed", LOG_ERR(&err),
			  LOG_TEXT("remedy", err.remedy));
	count_failed(result != 0);
	notify("READY=1");
}

static void node_serve_wait_for_end(const struct cli *cli, struct node *node,
				    const sigset_t *set)
{
	int number = 0;

	while (sigwait(set, &number) != 0 || number == SIGHUP)
		if (number == SIGHUP)
			reload(cli, node);
	log_info("node.stopping", LOG_TEXT("signal", strsignal(number)));
	notify("STOPPING=1");
}

/* Whoever asks twice wants it now: a crash is what all of it is made for. */
static void end_at_once_next_time(const sigset_t *set)
{
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	pthread_sigmask(SIG_UNBLOCK, set, NULL);
}

/* Database, threads and watches of an idle node take some fifty. */
enum { FILES_MIN = 256 };

/* Connections and children need descriptors; the soft limit is there for select(). */
static int raise_file_limit(struct err *err)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 0;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_max >= FILES_MIN)
		return 0;
	err_set(err, ERR_CONFIG,
		"only %ju files may be open at a time, and a node needs %d at least",
		(uintmax_t)limit.rlim_max, FILES_MIN);
	return err_remedy(err, "raise the limit of open files (ulimit -n, or "
			       "LimitNOFILE= in the unit)");
}

static int node_serve_run(const struct cli *cli)
{
	AUTO_CONF struct conf *conf = NULL;
	struct node *node;
	struct err err;
	sigset_t set;

	block_signals(&set);
	if (raise_file_limit(&err) != 0 || cli_load_config(cli, &conf, &err) != 0 ||
	    node_start(conf, &node, &err) != 0)
		return cli_fail(&err);
	count_failed(false);
	notify("READY=1");
	node_serve_wait_for_end(cli, node, &set);
	end_at_once_next_time(&set);
	failpoint("node.stops");
	node_stop(node);
	log_info("node.stopped");
	return EXIT_DONE;
}

int cli_serve(struct cli *cli, int argc, char **argv)
{
	int option;

	if (!cli->is_verbose)
		log_set_level(LOG_LEVEL_INFO);
	while ((option = cli_getopt(argc, argv, "vh", long_options)) != -1) {
		if (option == 'h') {
			cli_help("serve", options_text);
			return EXIT_DONE;
		}
		if (option != 'v')
			return cli_usage("serve", "wrong option %s", argv[optind - 1]);
		log_set_level(LOG_LEVEL_DEBUG);
	}
	if (optind < argc)
		return cli_usage("serve", "it takes no operand");
	return node_serve_run(cli);
}
