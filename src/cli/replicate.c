#include "cli/cli.h"

#include <getopt.h>
#include <sched.h>

#include "base/log.h"
#include "base/str.h"
#include "cli/replicate_run.h"

static const char options_text[] =
	"  --delete        move copies that SOURCE lacks to the trash; asks when they "
	"are\n"
	"                  more than 10 and more than 5 % of all\n"
	"  --blobs FROM=TO copy the files below directory FROM to the same places below "
	"TO,\n"
	"                  too; may be given several times\n"
	"  --force         do what is otherwise held: overwrite copies that hold "
	"commits\n"
	"                  which SOURCE lacks, delete very many refs or copies; never "
	"ask\n"
	"  -j, --jobs N    work on so many repositories at once, 1 to 256 (default: the\n"
	"                  number of processors, from 2 to 10)\n"
	"  --secret-file F the secret shared with the primary, if SOURCE is a URL\n"
	"  --site NAME     the name by which the primary knows the secret (default: "
	"the\n"
	"                  host's name)\n"
	"  --json          print one JSON object instead of the summary\n"
	"  --no-progress   no progress line, not even on a terminal\n"
	"  -v, --verbose   log what is done; no progress line\n";

enum {
	OPTION_DELETE = 256,
	OPTION_BLOBS,
	OPTION_FORCE,
	OPTION_JSON,
	OPTION_NO_PROGRESS,
	OPTION_SECRET_FILE,
	OPTION_SITE,
	OPTION_HELP
};

static const struct option long_options[] = {
	{ "delete", no_argument, NULL, OPTION_DELETE },
	{ "blobs", required_argument, NULL, OPTION_BLOBS },
	{ "force", no_argument, NULL, OPTION_FORCE },
	{ "jobs", required_argument, NULL, 'j' },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "no-progress", no_argument, NULL, OPTION_NO_PROGRESS },
	{ "secret-file", required_argument, NULL, OPTION_SECRET_FILE },
	{ "site", required_argument, NULL, OPTION_SITE },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, OPTION_HELP },
	{ NULL, 0, NULL, 0 },
};

/* Git children keep two processors busy each while they work, and wait for the disk
 * as often. */
static size_t default_jobs(void)
{
	cpu_set_t set;
	int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 2;

	return count < 2 ? 2 : count > 10 ? 10 : (size_t)count;
}

/* -1: go on. */
static int cli_replicate_read_option(int option, const char *word,
				     struct replicate_options *options)
{
	uint64_t jobs;

	switch (option) {
	case OPTION_DELETE:
		options->deletes = true;
		return -1;
	case OPTION_FORCE:
		options->is_forced = true;
		return -1;
	case OPTION_JSON:
		options->is_json = true;
		return -1;
	case OPTION_NO_PROGRESS:
		options->progress = PROGRESS_NEVER;
		return -1;
	case 'j':
		if (!text_to_uint64(optarg, &jobs) || jobs < 1 || jobs > 256)
			return cli_usage("replicate",
					 "--jobs takes a number from 1 to "
					 "256, not \"%s\"",
					 optarg);
		options->jobs = (size_t)jobs;
		return -1;
	case 'v':
		log_set_level(LOG_LEVEL_DEBUG);
		options->progress = PROGRESS_NEVER; /* the lines would mix */
		return -1;
	case OPTION_SECRET_FILE:
		options->secret_file = optarg;
		return -1;
	case OPTION_SITE:
		options->site = optarg;
		return -1;
	case OPTION_HELP:
		cli_help("replicate", options_text);
		return EXIT_DONE;
	default:
		return cli_usage("replicate", "wrong option %s", word);
	}
}

static int cli_replicate_read_options(int argc, char **argv, struct replicate_run *run)
{
	struct replicate_options *options = &run->options;
	int option;

	*options = (struct replicate_options){ .jobs = default_jobs() };
	while ((option = cli_getopt(argc, argv, "j:v", long_options)) != -1) {
		if (option == OPTION_BLOBS) {
			vec_add(&run->blobs, (struct replicate_blobs){ .pair = optarg });
			continue;
		}
		int status = cli_replicate_read_option(option, argv[optind - 1], options);
		if (status >= 0)
			return status;
	}
	if (argc - optind != 2)
		return cli_usage("replicate", "it takes SOURCE and DEST");
	options->source = argv[optind];
	options->dest = argv[optind + 1];
	if (!options->source[0] || !options->dest[0])
		return cli_usage("replicate", "SOURCE and DEST may not be empty");
	if ((options->secret_file || options->site) && !replicate_is_url(options->source))
		return cli_usage("replicate", "--secret-file and --site go with a URL");
	if (options->site && !options->secret_file)
		return cli_usage("replicate", "--site goes with --secret-file");
	if (run->blobs.count > 0 && replicate_is_url(options->source))
		return cli_usage("replicate", "--blobs goes with a SOURCE that is a "
					      "directory");
	return -1;
}

int cli_replicate(struct cli *cli, int argc, char **argv)
{
	struct replicate_run run = { 0 };
	struct err err;
	int status;

	if (!cli->is_verbose)
		log_set_level(LOG_LEVEL_NONE); /* the report says it, for people */
	status = cli_replicate_read_options(argc, argv, &run);
	if (cli->is_verbose)
		run.options.progress = PROGRESS_NEVER; /* the lines would mix */
	if (status >= 0) {
		vec_clear(&run.blobs);
		return status;
	}
	stop_init(&run.stop);
	cli_catch_signals(&run.stop);
	status = replicate_run(&run, &err) == 0 ? replicate_report(&run) : cli_fail(&err);
	replicate_run_clear(&run);
	cli_end_signals();
	stop_clear(&run.stop);
	return status;
}
