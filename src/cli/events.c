#include "cli/cli.h"

#include "base/json.h"
#include "base/str.h"
#include "base/thread.h"
#include "change/event_log.h"
#include "cli/site.h"
#include "push/push_events.h"

enum { PAGE = 1000, LOOK_EVERY_MS = 500 };

struct events_call {
	uint64_t after; /* moves on with what was printed */
	bool follows, is_push, is_json;
	const char *data; /* site.data */
	struct stop stop;
};

#define AT(kind, member) CLI_AT(kind, struct events_call, member)

static const struct cli_option rows[] = {
	{ "after", 0, "N", "only events after number N (default: all that are kept)",
	  AT(NUMBER, after) },
	{ "follow", 0, NULL, "keep printing new events until interrupted",
	  AT(FLAG, follows) },
	{ "push", 0, NULL, "events of pushes to remotes, from their own log",
	  AT(FLAG, is_push) },
	{ "json", 0, NULL, "accepted for scripts: the output is always JSON",
	  AT(FLAG, is_json) },
	{ 0 },
};

const struct cli_options events_options = { .rows = rows,
					    .takes = "no arguments",
					    .column = 13 };

static int cannot_be_had(const struct events_call *call, enum event_read how,
			 const struct event_ends *ends, struct err *err)
{
	if (how == EVENTS_GONE) {
		err_set(err, ERR_CONFLICT, "events up to %" PRIu64 " are no longer kept",
			ends->first - 1);
		return err_remedy(err,
				  "continue with --after %" PRIu64
				  ", and compare whatever depends on earlier events",
				  ends->first - 1);
	}
	err_set(err, ERR_CONFLICT, "no event %" PRIu64 ": the newest is %" PRIu64,
		call->after, ends->last);
	return err_remedy(
		err,
		"the number is from another log, or %s: compare whatever depends "
		"on it",
		call->is_push ? "this one was lost" : "the database was restored");
}

static int print_push_page(struct events_call *call, size_t *count, struct err *err)
{
	AUTO_STR struct str lines = STR_INIT;
	struct push_events_page page = { .after = call->after,
					 .limit = PAGE,
					 .lines = &lines };

	if (push_events_read(call->data, &page, err) != 0)
		return -1;
	if (page.how != EVENTS_READ)
		return cannot_be_had(call, page.how, &page.ends, err);
	fputs(lines.data, stdout);
	call->after = page.after;
	*count = lines.len > 0;
	return 0;
}

/* *count: how many were printed. */
static int print_page(struct store *store, struct events_call *call, size_t *count,
		      struct err *err)
{
	AUTO_EVENTS event_list events = { 0 };
	struct event_ends ends;
	enum event_read how;

	if (event_log_read_once(
		    store,
		    &(struct event_question){ .after = call->after, .limit = PAGE }, &how,
		    &events, &ends, err) != 0)
		return -1;
	if (how != EVENTS_READ)
		return cannot_be_had(call, how, &ends, err);
	for (size_t i = 0; i < events.count; i++) {
		json_auto_t *object = wire_event_json(&events.items[i]);
		json_write(stdout, object);
		call->after = events.items[i].id;
	}
	*count = events.count;
	return 0;
}

static int cli_events_print_all(struct store *store, struct events_call *call,
				struct err *err)
{
	size_t count;

	while (!stop_is_requested(&call->stop)) {
		if ((call->is_push ? print_push_page(call, &count, err)
				   : print_page(store, call, &count, err)) != 0)
			return -1;
		if (fflush(stdout) != 0 || ferror(stdout))
			return 0; /* main() says it */
		if (count == 0 && !call->follows)
			return 0;
		if (count == 0)
			stop_wait(&call->stop, LOOK_EVERY_MS);
	}
	return 0;
}

static int cli_events_run(struct cli *cli, struct events_call *call)
{
	struct site site;
	struct site_data data = { 0 };
	struct err err;
	int result = -1;

	if (site_read(cli, NULL, &site, &err) == 0 &&
	    site_data_open_to_read(site.data, &data, &err) == 0) {
		site_note_if_alone(&site);
		call->data = site.data;
		result = cli_events_print_all(data.store, call, &err);
	}
	site_data_close(&data);
	site_clear(&site);
	if (result != 0)
		return cli_fail(&err);
	return stop_is_requested(&call->stop) ? EXIT_INTERRUPTED : EXIT_DONE;
}

int cli_events(struct cli *cli, char **argv)
{
	struct events_call call = { .after = EVENTS_FROM_OLDEST };
	struct cli_operands operands;
	int status = cli_read_options(cli->command, argv, &call, &operands);

	if (status >= 0)
		return status;
	cli_catch_signals(&call.stop);
	status = cli_events_run(cli, &call);
	cli_end_signals(&call.stop);
	return status;
}
