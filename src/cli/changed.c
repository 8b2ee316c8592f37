/*
 * What is told of refs is checked and then not believed: the repository is compared with
 * what is recorded of it, whoever asks.
 */
#include <getopt.h>

#include "base/base.h"
#include "base/hook_wire.h"
#include "base/json.h"
#include "base/str.h"
#include "blob/kinds.h"
#include "change/blob_changed.h"
#include "change/event_log.h"
#include "change/hook_socket.h"
#include "change/notice.h"
#include "change/owed.h"
#include "cli/cli.h"
#include "cli/site.h"
#include "git/oid.h"
#include "git/refs.h"
#include "pull/pull.h"
#include "push/sink.h"

struct changed_blobs {
	const char *data; /* site.data */
	const struct blob_kinds *kinds;
	int64_t reverify_ms;
	const char *type;
	char *const *ids;
	size_t count;
};

enum { NODE_WAIT_MS = 60000, WAKE_WAIT_MS = 1000 };

struct reporting {
	const struct changed_blobs *changed;
	struct blob_notice *alone; /* NULL: a node may run */
	struct site_data data;
	struct event_log *log;
	uint64_t event_id;
};

/* A node's work, as none runs. */
static int open_alone(struct reporting *reporting, struct err *err)
{
	const struct changed_blobs *changed = reporting->changed;

	fprintf(stderr, "refrelay: no node runs here; the change is recorded all the "
			"same\n");
	if (site_data_open(changed->data, &reporting->data, err) != 0 ||
	    event_log_open(reporting->data.store, changed->data, &reporting->log, err) !=
		    0)
		return -1;
	reporting->alone = blob_notice_new(
		&(struct blob_notice_options){ .store = reporting->data.store,
					       .log = reporting->log,
					       .kinds = changed->kinds,
					       .reverify_ms = changed->reverify_ms });
	return 0;
}

static void close_alone(struct reporting *reporting)
{
	char ignored[8];

	if (reporting->alone) /* one that started meanwhile hears of it */
		hook_socket_report(reporting->changed->data, "wake", WAKE_WAIT_MS,
				   ignored, sizeof(ignored), ERR_IGNORED);
	blob_notice_free(reporting->alone);
	event_log_close(reporting->log);
	site_data_close(&reporting->data);
}

/* 1: it was told; 0: no node runs; -1. */
static int changed_blobs_report_to_node(struct reporting *reporting, const char *words,
					uint64_t *event_id, struct err *err)
{
	AUTO_FREE char *message = xasprintf(HOOK_CHANGED_BLOB "%s", words);
	char answer[32] = "";
	int reported = hook_socket_report(reporting->changed->data, message, NODE_WAIT_MS,
					  answer, sizeof(answer), err);

	if (reported == 1 && !text_to_uint64(answer, event_id))
		return err_set(err, ERR_INTERNAL, "the node gave no known answer");
	return reported;
}

static int changed_blobs_report_change(struct reporting *reporting, const char *words,
				       struct err *err)
{
	uint64_t event_id = 0;
	int reported = reporting->alone ? 0
					: changed_blobs_report_to_node(reporting, words,
								       &event_id, err);

	if (reported == 0 && !reporting->alone && open_alone(reporting, err) != 0)
		return -1;
	if (reported == 0)
		reported = blob_changed(reporting->alone, words, &event_id, err);
	if (event_id > reporting->event_id)
		reporting->event_id = event_id;
	return reported < 0 ? -1 : 0;
}

/* *event_id: of the last event, or 0. The error of the first that failed; the others are
 * recorded all the same, but for ERR_CONFIG. */
static int changed_blobs_report(const struct changed_blobs *changed, uint64_t *event_id,
				struct err *err)
{
	struct reporting reporting = { .changed = changed };
	size_t room = HOOK_MESSAGE_MAX - strlen(HOOK_CHANGED_BLOB);
	int result = 0;
	struct err why;

	for (size_t at = 0, count; at < changed->count; at += count) {
		AUTO_STR struct str words = STR_INIT;
		count = blob_changed_render(changed->type, changed->ids + at,
					    changed->count - at, room, &words);
		if (count == 0) {
			result = err_set(err, ERR_CONFIG, "an id is too long");
			break;
		}
		if (changed_blobs_report_change(&reporting, words.data, &why) == 0)
			continue;
		if (result == 0)
			*err = why;
		result = -1;
		if (why.class == ERR_CONFIG)
			break;
	}
	close_alone(&reporting);
	*event_id = reporting.event_id;
	return result;
}

static const char options_text[] =
	"  --ref REF OLD NEW  what changed; may be given several times\n"
	"  --stdin            read lines of \"OLD NEW REF\", as post-receive gets them\n"
	"  --blob TYPE        what changed are files of this kind, named by their ids\n"
	"  --json             print one JSON object\n";

static const struct option long_options[] = {
	{ "ref", required_argument, NULL, 'r' },  { "stdin", no_argument, NULL, 's' },
	{ "blob", required_argument, NULL, 'b' }, { "json", no_argument, NULL, 'J' },
	{ "help", no_argument, NULL, 'h' },       { NULL, 0, NULL, 0 },
};

struct changed_call {
	const char *name; /* the one of ids that it is about now */
	const char *type; /* of blobs; NULL: repositories */
	char **ids;       /* of blobs, or names of repositories; in argv */
	size_t count;
	bool has_hints, reads_stdin, is_json;
	struct site site;
	struct blob_kinds kinds;
	struct push_settings *push; /* a reference; NULL: nothing is said of push */
	struct pull_settings sync;
	uint64_t event_id; /* the result; 0: nothing had changed */
};

static bool is_oid(const char *text, size_t len)
{
	struct oid oid;

	return (len == 40 || len == 64) && oid_parse(text, len / 2, &oid);
}

static bool is_change(const char *ref, const char *old, const char *new)
{
	return strlen(old) == strlen(new) && is_oid(old, strlen(old)) &&
	       is_oid(new, strlen(new)) &&
	       (ref_name_is_valid(ref) || strcmp(ref, "HEAD") == 0);
}

/* "old new ref" with its newline. */
static bool is_line(char *line)
{
	char *new = strchr(line, ' ');
	char *ref = new ? strchr(new + 1, ' ') : NULL;

	if (!ref)
		return false;
	*new ++ = '\0';
	*ref++ = '\0';
	ref[strcspn(ref, "\n")] = '\0';
	return is_change(ref, line, new);
}

static int check_stdin(void)
{
	AUTO_FREE char *line = NULL;
	size_t size = 0, number = 1;

	for (; getline(&line, &size, stdin) > 0; number++)
		if (!is_line(line))
			return cli_usage("changed",
					 "line %zu of stdin is not \"OLD NEW REF\"",
					 number);
	return -1;
}

static int cli_changed_read_site(const struct cli *cli, struct changed_call *call,
				 struct err *err)
{
	AUTO_CONF struct conf *conf = NULL;

	if (cli_load_config(cli, &conf, err) != 0 ||
	    site_from_conf(conf, &call->site, err) != 0)
		return -1;
	if (call->site.role == SITE_SECONDARY) {
		err_set(err, ERR_CONFIG,
			"this site is a secondary: its copies change "
			"only as its primary's do");
		return err_remedy(err, "tell the primary");
	}
	if (blob_kinds_read(conf, &call->kinds, err) != 0 ||
	    (push_is_configured(conf) &&
	     push_settings_read(conf, call->site.data, &call->push, err) != 0))
		return -1;
	return settings_read(&pull_settings_table, conf, NULL, &call->sync, err);
}

/* A task store that is away holds no change up: the node, when it runs, pushes it. */
static int cli_changed_refuse_change(void *arg, const struct change *change,
				     struct err *err)
{
	(void)change;
	*err = *(const struct err *)arg;
	return -1;
}

static int cli_changed_compare_repository(struct changed_call *call,
					  struct notice *notice, struct err *err)
{
	AUTO_NOTICED struct noticed noticed = { 0 };
	AUTO_FREE char *name = notice_name_of(notice, call->name, err);
	int result = name ? notice_compare(notice, name, &noticed, err) : -1;
	size_t left;

	call->event_id = noticed.event_id;
	if (result != 0 && name && err->class == ERR_MISSING && noticed.is_changed)
		result = 0; /* it was deleted */
	if (result == 0)
		owed_settle(notice, NULL, &left, ERR_IGNORED);
	return result;
}

static int compare_with_sink(struct changed_call *call, struct notice_options *options,
			     struct err *err)
{
	struct task_store *tasks = NULL;
	struct push_sink *sink = NULL;
	struct notice *notice;
	struct err away;
	int result;

	if (call->push &&
	    task_store_recognize(call->push->directory, options->data, &away) == 0 &&
	    task_store_open(call->push->directory, &tasks, &away) == 0) {
		sink = push_sink_new(tasks, call->push);
		options->sink = push_sink_as_change_sink(sink);
	} else if (call->push) {
		options->sink = (struct change_sink){ .take = cli_changed_refuse_change,
						      .arg = &away };
	}
	notice = notice_new(options);
	result = cli_changed_compare_repository(call, notice, err);
	notice_free(notice);
	push_sink_free(sink);
	task_store_close(tasks);
	return result;
}

/* Does a node's work, as none runs. One that started meanwhile hears of it. */
static int compare_alone(struct changed_call *call, struct err *err)
{
	const struct site *site = &call->site;
	struct notice_options options = { .root = site->repositories,
					  .data = site->data,
					  .reverify_ms = call->sync.reverify_ms };
	struct site_data data = { 0 };
	struct event_log *log = NULL;
	char ignored[8];
	int result = -1;

	fprintf(stderr, "refrelay: no node runs here; the change is recorded all the "
			"same\n");
	if (site_data_open(site->data, &data, err) == 0 &&
	    event_log_open(data.store, site->data, &log, err) == 0) {
		options.store = data.store;
		options.log = log;
		result = compare_with_sink(call, &options, err);
	}
	event_log_close(log);
	site_data_close(&data);
	if (result == 0)
		hook_socket_report(site->data, "wake", WAKE_WAIT_MS, ignored,
				   sizeof(ignored), ERR_IGNORED);
	return result;
}

/* An absolute path stands for the id, as it does for a repository's name. */
static void shorten_paths(const struct changed_call *call, const struct blob_kind *kind)
{
	size_t len = strlen(kind->path);

	for (size_t i = 0; i < call->count; i++)
		if (strncmp(call->ids[i], kind->path, len) == 0 &&
		    call->ids[i][len] == '/')
			call->ids[i] += len + 1;
}

static int report_blobs(struct changed_call *call, struct err *err)
{
	const struct blob_kind *kind = blob_kinds_find(&call->kinds, call->type);
	const struct changed_blobs changed = { .data = call->site.data,
					       .kinds = &call->kinds,
					       .reverify_ms = call->sync.reverify_ms,
					       .type = call->type,
					       .ids = call->ids,
					       .count = call->count };

	if (call->site.role != SITE_PRIMARY)
		return err_set(err, ERR_CONFIG, "only a primary looks after blobs");
	if (!kind) {
		err_set(err, ERR_CONFIG, "this site has no blobs of type \"%.40s\"",
			call->type);
		return err_remedy(err, "name one of the sections [blob \"TYPE\"]");
	}
	shorten_paths(call, kind);
	if (changed_blobs_report(&changed, &call->event_id, err) == 0)
		return 0;
	if (err->class == ERR_MISSING)
		err_remedy(err, "an id is a path below %s", kind->path);
	return -1;
}

static int cli_changed_report_to_node(struct changed_call *call, struct err *err)
{
	AUTO_FREE char *message = xasprintf(HOOK_CHANGED "%s", call->name);
	char answer[32] = "";
	int reported = hook_socket_report(call->site.data, message, NODE_WAIT_MS, answer,
					  sizeof(answer), err);

	if (reported == 0)
		return compare_alone(call, err);
	if (reported == 1 && !text_to_uint64(answer, &call->event_id))
		return err_set(err, ERR_INTERNAL, "the node gave no known answer");
	return reported == 1 ? 0 : -1;
}

static void cli_changed_print_result(const struct changed_call *call)
{
	json_auto_t *object = json_object();

	if (!call->is_json) {
		if (!call->type && call->count > 1)
			printf("%s: ", call->name);
		if (call->event_id)
			printf("event %" PRIu64 "\n", call->event_id);
		else
			puts("unchanged");
		return;
	}
	if (call->type)
		json_put_text(object, "kind", call->type);
	else
		json_put_text(object, "name", call->name);
	if (call->event_id)
		json_put_number(object, "event_id", (int64_t)call->event_id);
	else
		json_put(object, "event_id", json_null());
	json_write(stdout, object);
}

/* getopt knows of one argument; the other two follow. */
static int cli_changed_read_ref(int argc, char **argv)
{
	if (optind + 1 >= argc || !is_change(optarg, argv[optind], argv[optind + 1]))
		return cli_usage("changed", "--ref takes REF OLD NEW: the full name of a "
					    "ref and two object ids");
	optind += 2;
	return -1;
}

/* -1: go on. */
static int cli_changed_read_names(int argc, char **argv, struct changed_call *call)
{
	call->ids = argv + optind;
	call->count = (size_t)(argc - optind);
	if (call->type)
		return call->count > 0 ? -1
				       : cli_usage("changed", "it takes ids of blobs");
	if (call->count == 0)
		return cli_usage("changed", "it takes names of repositories");
	if (call->count > 1 && call->has_hints)
		return cli_usage("changed", "--ref and --stdin go with one NAME");
	return call->reads_stdin ? check_stdin() : -1;
}

/* -1: go on. */
static int cli_changed_read_options(int argc, char **argv, struct changed_call *call)
{
	int option, status;

	while ((option = cli_getopt(argc, argv, "", long_options)) != -1) {
		switch (option) {
		case 'r':
			call->has_hints = true;
			status = cli_changed_read_ref(argc, argv);
			if (status >= 0)
				return status;
			break;
		case 's':
			call->has_hints = call->reads_stdin = true;
			break;
		case 'b':
			call->type = optarg;
			break;
		case 'J':
			call->is_json = true;
			break;
		case 'h':
			cli_help("changed", options_text);
			return EXIT_DONE;
		default:
			return cli_usage("changed", "wrong option %s", argv[optind - 1]);
		}
	}
	return cli_changed_read_names(argc, argv, call);
}

/* Each, also after one that failed, whose status counts. */
static int report_each(struct changed_call *call)
{
	int status = EXIT_DONE;
	struct err err;

	for (size_t i = 0; i < call->count; i++) {
		call->name = call->ids[i];
		call->event_id = 0;
		if (cli_changed_report_to_node(call, &err) == 0) {
			cli_changed_print_result(call);
			continue;
		}
		if (call->count > 1)
			err_prefix(&err, "%s", call->name);
		int failed = cli_fail(&err);
		if (status == EXIT_DONE)
			status = failed;
	}
	return status;
}

static int report_all(struct changed_call *call)
{
	struct err err;

	if (!call->type)
		return report_each(call);
	if (report_blobs(call, &err) != 0)
		return cli_fail(&err);
	cli_changed_print_result(call);
	return EXIT_DONE;
}

int cli_changed(struct cli *cli, int argc, char **argv)
{
	struct changed_call call = { 0 };
	struct err err;
	int status = cli_changed_read_options(argc, argv, &call);

	if (status >= 0)
		return status;
	status = cli_changed_read_site(cli, &call, &err) == 0 ? report_all(&call)
							      : cli_fail(&err);
	push_settings_unref(call.push);
	blob_kinds_clear(&call.kinds);
	site_clear(&call.site);
	return status;
}
