#include "base/json.h"
#include "cli/cli.h"
#include "cli/push.h"
#include "cli/site.h"
#include "push/settings.h"
#include "push/task_store.h"

#define WATCH_MS 1000

struct status_call {
	bool watches, is_json;
};

static const struct cli_option rows[] = {
	{ "watch", 0, NULL, "refresh every second until interrupted",
	  CLI_AT(FLAG, struct status_call, watches) },
	CLI_JSON(struct status_call),
	{ 0 },
};

const struct cli_options status_options = {
	.rows = rows,
	.takes = "no arguments",
	.column = 11,
	.end = "The exit status is 0 when everything is in sync and verified, else 3.\n",
};

static void cli_status_print_report(const struct report *report,
				    const struct status_call *call)
{
	AUTO_STR struct str text = STR_INIT;

	if (call->is_json) {
		json_auto_t *object = report_json(report);
		json_write(stdout, object);
		return;
	}
	report_text(report, &text);
	if (call->watches && isatty(STDOUT_FILENO))
		fputs("\033[H\033[J", stdout);
	for (char *line = text.data, *end; (end = strchr(line, '\n')) != NULL;
	     line = end + 1) {
		*end = '\0';
		cli_print("%s", line);
	}
	fflush(stdout);
}

static int print_once(const struct report_options *options,
		      const struct status_call *call, struct err *err)
{
	struct report_options now = *options;
	struct vital_signs signs;
	struct report report;
	int status = -1;

	vitals_ask(options->data, &signs);
	now.signs = &signs;
	if (report_make(&now, &report, err) == 0) {
		cli_status_print_report(&report, call);
		status = report_is_good(&report) ? EXIT_DONE : EXIT_PARTLY;
	}
	report_clear(&report);
	vital_signs_clear(&signs);
	return status;
}

static int cli_status_print_all(const struct report_options *options,
				const struct status_call *call, struct err *err)
{
	struct stop stop;
	int status;

	if (!call->watches)
		return print_once(options, call, err);
	cli_catch_signals(&stop);
	do
		status = print_once(options, call, err);
	while (status >= 0 && !ferror(stdout) && !stop_wait(&stop, WATCH_MS));
	cli_end_signals(&stop);
	return status < 0 || ferror(stdout) ? status : EXIT_INTERRUPTED;
}

struct status_parts {
	struct site site;
	struct site_data data;
	struct kinds_here kinds;
	struct pull_settings sync;
	struct push_settings *push;          /* NULL: nothing is said of it */
	struct push_observation observation; /* without tasks because of failure */
	struct err failure;
};

/* That the task store is away is a finding, not the end. */
static int open_push(const struct conf *conf, struct status_parts *parts, struct err *err)
{
	if (!push_is_configured(conf))
		return 0;
	if (push_settings_read(conf, parts->site.data, &parts->push, err) != 0)
		return -1;
	push_site_look(parts->push, parts->site.data, &parts->observation,
		       &parts->failure);
	return 0;
}

static int cli_status_open_parts(const struct cli *cli, struct status_parts *parts,
				 struct err *err)
{
	AUTO_CONF struct conf *conf = NULL;

	if (cli_load_config(cli, &conf, err) != 0 ||
	    site_from_conf(conf, &parts->site, err) != 0 ||
	    kinds_read(conf, &parts->kinds, err) != 0 ||
	    settings_read(&pull_settings_table, conf, NULL, &parts->sync, err) != 0 ||
	    site_data_open_to_read(parts->site.data, &parts->data, err) != 0)
		return -1;
	return open_push(conf, parts, err);
}

static void close_parts(struct status_parts *parts)
{
	push_observation_close(&parts->observation);
	push_settings_unref(parts->push);
	kinds_clear(&parts->kinds);
	site_data_close(&parts->data);
	site_clear(&parts->site);
}

static int cli_status_run(const struct cli *cli, const struct status_call *call)
{
	struct status_parts parts = { 0 };
	struct err err;
	int status = -1;

	if (cli_status_open_parts(cli, &parts, &err) == 0)
		status = cli_status_print_all(
			&(struct report_options){ .role = parts.site.role,
						  .site = parts.site.name,
						  .primary_url = parts.site.primary_url,
						  .data = parts.site.data,
						  .store = parts.data.store,
						  .settings = &parts.sync,
						  .here = &parts.kinds,
						  .tasks = parts.observation.tasks,
						  .push_leases = parts.observation.leases,
						  .push_settings = parts.push,
						  .push_failure = &parts.failure },
			call, &err);
	close_parts(&parts);
	return status < 0 ? cli_fail(&err) : status;
}

int cli_status(struct cli *cli, char **argv)
{
	struct status_call call = { 0 };
	struct cli_operands operands;
	int status = cli_read_options(cli->command, argv, &call, &operands);

	return status >= 0 ? status : cli_status_run(cli, &call);
}
