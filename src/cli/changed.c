/*
 * What is told of refs is checked and then not believed: the repository is compared with
 * what is recorded of it, whoever asks.
 */
#include "base/base.h"
#include "base/hook_wire.h"
#include "base/json.h"
#include "base/str.h"
#include "blob/kinds.h"
#include "change/blob_notice.h"
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

enum { NODE_WAIT_MS = 60000 };

/* A node's work, as none runs. */
struct alone {
	struct notice *notice; /* NULL: a node may run */
	struct site_data data;
	struct event_log *log;
	struct task_store *tasks;
	struct push_sink *sink;
	struct err away; /* why there are no tasks */
	bool is_told;    /* that no node runs */
};

struct changed_call {
	const char *name; /* the one of ids that it is about now */
	const char *type; /* of blobs; NULL: repositories */
	char **ids;       /* of blobs, or names of repositories; in argv */
	size_t count;
	cli_words refs; /* of --ref, three each */
	bool reads_stdin, is_json;
	struct site site;
	struct alone alone;
	struct kinds_here kinds;
	struct push_settings *push; /* a reference; NULL: nothing is said of push */
	struct pull_settings sync;
	uint64_t event_id; /* the result; 0: nothing had changed */
};

#define AT(kind, member) CLI_AT(kind, struct changed_call, member)

static const struct cli_option rows[] = {
	{ "ref", 0, "REF OLD NEW", "the ref that changed; may be repeated",
	  AT(LIST, refs), .each = 3 },
	{ "stdin", 0, NULL, "read \"OLD NEW REF\" lines, as given to post-receive",
	  AT(FLAG, reads_stdin) },
	{ "blob", 0, "TYPE", "files of this type changed; name them by their ids",
	  AT(TEXT, type) },
	CLI_JSON(struct changed_call),
	{ 0 },
};

const struct cli_options changed_options = { .rows = rows,
					     .most = CLI_ANY_NUMBER,
					     .column = 21 };

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
			"this site is a secondary: its copies follow the primary");
		return err_remedy(err, "run this at the primary");
	}
	if (kinds_read(conf, &call->kinds, err) != 0 ||
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

static int cli_changed_compare_repository(struct changed_call *call, const char *given,
					  struct err *err)
{
	struct notice *notice = call->alone.notice;
	AUTO_NOTICED struct noticed noticed = { 0 };
	AUTO_FREE char *name = notice_name_of(notice, given, err);
	int result = name ? notice_compare_hint(notice, name, &noticed, err) : -1;
	size_t left;

	call->event_id = noticed.event.id;
	if (result != 0 && name && err->class == ERR_MISSING && noticed.is_changed)
		result = 0; /* it was deleted */
	if (result == 0)
		owed_settle(notice, NULL, &left, ERR_IGNORED);
	return result;
}

static struct change_sink open_sink(struct changed_call *call)
{
	const char *directory = call->push->directory;
	struct alone *alone = &call->alone;

	if (task_store_recognize(directory, call->site.data, &alone->away) != 0 ||
	    task_store_open(directory, &alone->tasks, &alone->away) != 0)
		return (struct change_sink){ .take = cli_changed_refuse_change,
					     .arg = &alone->away };
	alone->sink = push_sink_new(alone->tasks, call->push);
	return push_sink_as_change_sink(alone->sink);
}

/* One that started meanwhile hears of it. */
static void close_alone(struct changed_call *call)
{
	struct alone *alone = &call->alone;
	const bool was_open = alone->notice != NULL;

	notice_free(alone->notice);
	push_sink_free(alone->sink);
	task_store_close(alone->tasks);
	event_log_close(alone->log);
	site_data_close(&alone->data);
	*alone = (struct alone){ 0 };
	if (was_open)
		site_wake(call->site.data);
}

static int open_alone(struct changed_call *call, struct err *err)
{
	struct notice_options options = { .reverify_ms = call->sync.reverify_ms };
	const struct site *site = &call->site;
	struct alone *alone = &call->alone;

	if (site_data_check_owner(site->data, err) != 0 ||
	    site_data_open_directory(site->data, &alone->data, err) != 0 ||
	    event_log_open(alone->data.store, site->data, &alone->log, err) != 0) {
		close_alone(call);
		return -1;
	}
	options.store = alone->data.store;
	options.log = alone->log;
	if (call->type) {
		options.kinds = &call->kinds;
	} else {
		options.root = site->repositories;
		options.data = site->data;
		options.verifies = site->role == SITE_PRIMARY;
		if (call->push)
			options.sink = open_sink(call);
	}
	alone->notice = notice_new(&options);
	return 0;
}

/* 1: it was told; 0: no node runs; -1. */
static int cli_changed_report_to_node(struct changed_call *call, const char *words,
				      struct err *err)
{
	AUTO_FREE char *message =
		xasprintf("%s%s", call->type ? HOOK_CHANGED_BLOB : HOOK_CHANGED, words);
	char answer[32] = "";
	int reported = hook_socket_report(call->site.data, message, NODE_WAIT_MS, answer,
					  sizeof(answer), err);

	if (reported == 1 && !text_to_uint64(answer, &call->event_id))
		return err_set(err, ERR_INTERNAL, "unexpected answer from the node");
	return reported;
}

/* A repository's name, or a type and ids of blobs. */
static int cli_changed_report_change(struct changed_call *call, const char *words,
				     struct err *err)
{
	int reported = 0;

	call->event_id = 0;
	if (!call->alone.notice)
		reported = cli_changed_report_to_node(call, words, err);
	if (reported != 0)
		return reported < 0 ? -1 : 0;
	if (!call->alone.notice && open_alone(call, err) != 0)
		return -1;
	if ((call->type ? blob_changed(call->alone.notice, words, &call->event_id, err)
			: cli_changed_compare_repository(call, words, err)) != 0)
		return -1;
	if (!call->alone.is_told)
		cli_note("no node is running here%s",
			 call->event_id ? "; the change was recorded anyway" : "");
	call->alone.is_told = true;
	return 0;
}

/* The event is the last one. The error is that of the first that failed; the others are
 * recorded all the same, but for ERR_CONFIG. */
static int cli_changed_report_ids(struct changed_call *call, struct err *err)
{
	const size_t room = HOOK_MESSAGE_MAX - strlen(HOOK_CHANGED_BLOB);
	uint64_t last = 0;
	int result = 0;
	struct err why;

	for (size_t at = 0, count; at < call->count; at += count) {
		AUTO_STR struct str words = STR_INIT;
		count = blob_changed_render(call->type, call->ids + at, call->count - at,
					    room, &words);
		if (count == 0)
			return err_set(err, ERR_CONFIG, "an id is too long");
		if (cli_changed_report_change(call, words.data, &why) != 0) {
			if (result == 0)
				*err = why;
			result = -1;
			if (why.class == ERR_CONFIG)
				break;
		}
		last = call->event_id > last ? call->event_id : last;
	}
	call->event_id = last;
	return result;
}

/* An absolute path stands for the id, as it does for a repository's name. */
static void shorten_paths(const struct changed_call *call, const struct kind *kind)
{
	size_t len = strlen(kind->path);

	for (size_t i = 0; i < call->count; i++)
		if (strncmp(call->ids[i], kind->path, len) == 0 &&
		    call->ids[i][len] == '/')
			call->ids[i] += len + 1;
}

static int report_blobs(struct changed_call *call, struct err *err)
{
	const struct kind *kind = kinds_find(&call->kinds, call->type);

	if (call->site.role == SITE_SECONDARY)
		return err_set(err, ERR_CONFIG, "blobs change only at a primary");
	if (!kind || !kind->origin || kind_is_repository(kind->type)) {
		err_set(err, ERR_CONFIG, "no blob type \"%.40s\" at this site",
			call->type);
		return err_remedy(err, "use the TYPE of a [blob \"TYPE\"] section");
	}
	shorten_paths(call, kind);
	if (cli_changed_report_ids(call, err) == 0)
		return 0;
	if (err->class == ERR_MISSING)
		err_remedy(err, "an id is a path below %s", kind->path);
	return -1;
}

static void cli_changed_print_result(const struct changed_call *call)
{
	json_auto_t *object = json_object();

	if (!call->is_json) {
		AUTO_FREE char *event = xasprintf("event %" PRIu64, call->event_id);
		const bool is_one_of_many = !call->type && call->count > 1;
		cli_print("%s%s%s", is_one_of_many ? call->name : "",
			  is_one_of_many ? ": " : "",
			  call->event_id ? event : "unchanged");
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

static int check_refs(const cli_words *refs)
{
	for (size_t i = 0; i < refs->count; i += 3)
		if (!is_change(refs->items[i], refs->items[i + 1], refs->items[i + 2]))
			return cli_usage("changed",
					 "--ref takes REF OLD NEW: the full name of a "
					 "ref and two object ids");
	return -1;
}

/* -1: go on. */
static int cli_changed_check_call(const struct changed_call *call)
{
	int status = check_refs(&call->refs);

	if (status >= 0)
		return status;
	if (call->type)
		return call->count > 0 ? -1
				       : cli_usage("changed", "it takes ids of blobs");
	if (call->count == 0)
		return cli_usage("changed", "it takes names of repositories");
	if (call->count > 1 && (call->reads_stdin || call->refs.count > 0))
		return cli_usage("changed", "--ref and --stdin need exactly one NAME");
	return call->reads_stdin ? check_stdin() : -1;
}

/* Each, also after one that failed. */
static int report_each(struct changed_call *call)
{
	int status = EXIT_DONE;
	size_t done = 0;
	struct err err;

	for (size_t i = 0; i < call->count; i++) {
		call->name = call->ids[i];
		if (cli_changed_report_change(call, call->name, &err) == 0) {
			cli_changed_print_result(call);
			done++;
			continue;
		}
		if (call->count > 1)
			err_prefix(&err, "%s", call->name);
		int failed = cli_fail(&err);
		if (status == EXIT_DONE)
			status = failed;
	}
	return status != EXIT_DONE && done > 0 ? EXIT_PARTLY : status;
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

int cli_changed(struct cli *cli, char **argv)
{
	struct changed_call call = { 0 };
	struct cli_operands operands;
	struct err err;
	int status = cli_read_options(cli->command, argv, &call, &operands);

	call.ids = operands.items;
	call.count = operands.count;
	if (status < 0)
		status = cli_changed_check_call(&call);
	if (status < 0)
		status = cli_changed_read_site(cli, &call, &err) == 0 ? report_all(&call)
								      : cli_fail(&err);
	close_alone(&call);
	vec_clear(&call.refs);
	push_settings_unref(call.push);
	kinds_clear(&call.kinds);
	site_clear(&call.site);
	return status;
}
