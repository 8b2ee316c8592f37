#include "cli/cli.h"

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/site.h"
#include "git/state.h"
#include "replicable/discover.h"
#include "replicable/name.h"
#include "serve/disk_cache.h"
#include "serve/find.h"
#include "serve/settings.h"

struct clear_call {
	char **names;
	size_t name_count;
	bool is_json;
	char *root;   /* site.repositories; owned */
	char *folder; /* the cache's; owned */
	json_t *array;
	size_t cleared, failed, files;
};

static const struct cli_option rows[] = {
	CLI_JSON(struct clear_call),
	{ 0 },
};

static const struct cli_verb verbs[] = {
	{ "clear", .most = CLI_ANY_NUMBER, .operands = "[NAME...]",
	  .help = "invalidate what is cached of these repositories; without NAME, "
		  "of\nall repositories below site.repositories, and remove the cache "
		  "files" },
	{ 0 },
};

const struct cli_options cache_options = {
	.rows = rows, .verbs = verbs, .takes = "clear", .column = 19
};

/* err NULL: nothing went wrong. */
static void cli_cache_report_result(struct clear_call *call, const char *name,
				    const struct err *err)
{
	json_t *object = json_object();

	json_put_text(object, "name", name);
	json_put_bool(object, "cleared", !err);
	if (err) {
		json_put_message(object, "failure", err->text);
		json_put_message(object, "remedy", err->remedy);
		cli_fail(err);
	}
	json_array_append_new(call->array, object);
	call->cleared += !err;
	call->failed += err != NULL;
}

static void renew_found(struct clear_call *call, const char *name)
{
	AUTO_FREE char *path = NULL;
	struct err err;
	AUTO_CLOSE int dir = find_repository(call->root, name, &path, &err);

	if (dir >= 0 && state_renew(dir, &err) == 0) {
		cli_cache_report_result(call, name, NULL);
	} else if (dir >= 0) {
		err_prefix(&err, "%s", name);
		cli_cache_report_result(call, name, &err);
	} else if (err.class != ERR_MISSING) { /* it went meanwhile */
		cli_cache_report_result(call, name, &err);
	}
}

static void cli_cache_report_findings(struct clear_call *call,
				      const struct discovery *discovery)
{
	for (size_t i = 0; i < discovery->findings.count; i++) {
		const struct discover_finding *finding = &discovery->findings.items[i];
		struct err err = finding->err;
		if (finding->is_harmless)
			continue;
		err_prefix(&err, "%s", finding->path);
		cli_cache_report_result(call, finding->path, &err);
	}
}

/* Keys first: what a node writes to the cache meanwhile it writes under a new one, or
 * under one that nobody looks for any more. */
static int clear_all(struct clear_call *call, struct err *err)
{
	AUTO_DISCOVERY struct discovery discovery = { 0 };
	struct err trouble;

	if (discover(call->root, &discovery, err) != 0)
		return -1;
	for (size_t i = 0; i < discovery.found.count; i++)
		renew_found(call, discovery.found.items[i].name);
	cli_cache_report_findings(call, &discovery);
	call->files = disk_cache_clear(call->folder, &trouble);
	if (trouble.class != ERR_NONE) {
		call->failed++;
		cli_fail(&trouble);
	}
	return 0;
}

/* All are looked for before the first is touched. */
static int clear_named(struct clear_call *call, struct err *err)
{
	for (size_t i = 0; i < call->name_count; i++) {
		AUTO_FREE char *name = name_of_path(call->names[i]);
		AUTO_FREE char *path = NULL;
		AUTO_CLOSE int dir = find_repository(call->root, name, &path, err);
		if (dir < 0)
			return -1;
	}
	for (size_t i = 0; i < call->name_count; i++) {
		AUTO_FREE char *name = name_of_path(call->names[i]);
		renew_found(call, name);
	}
	return 0;
}

static void cli_cache_print_summary(const struct clear_call *call)
{
	json_auto_t *object = json_object();

	if (!call->is_json) {
		printf("cleared: %zu repositor%s", call->cleared,
		       call->cleared == 1 ? "y" : "ies");
		if (call->name_count == 0)
			printf(", %zu file%s", call->files, call->files == 1 ? "" : "s");
		printf(call->failed ? ", %zu failed\n" : "\n", call->failed);
		return;
	}
	json_put_number(object, "cleared", (int64_t)call->cleared);
	json_put_number(object, "failed", (int64_t)call->failed);
	json_put_number(object, "files", (int64_t)call->files);
	json_put(object, "repositories", json_incref(call->array));
	json_write(stdout, object);
}

/* site.repositories and the cache's directory. */
static int read_places(const struct cli *cli, struct clear_call *call, struct err *err)
{
	AUTO_CONF struct conf *conf = NULL;
	struct serve_settings settings = { 0 };
	struct site site = { 0 };
	int result = -1;

	if (cli_load_config(cli, &conf, err) == 0 &&
	    site_from_conf(conf, &site, err) == 0 &&
	    serve_settings_read(conf, site.data, &settings, err) == 0 &&
	    serve_settings_check(&settings, site.repositories, err) == 0) {
		call->root = TAKE(site.repositories);
		call->folder = TAKE(settings.directory);
		result = 0;
	}
	serve_settings_clear(&settings);
	site_clear(&site);
	return result;
}

static int cli_cache_run_clear(struct cli *cli, struct clear_call *call)
{
	struct err err;
	int result = read_places(cli, call, &err);

	call->array = json_array();
	if (result == 0)
		result = call->name_count > 0 ? clear_named(call, &err)
					      : clear_all(call, &err);
	if (result == 0)
		cli_cache_print_summary(call);
	json_decref(call->array);
	free(call->root);
	free(call->folder);
	if (result != 0)
		return cli_fail(&err);
	if (call->failed == 0)
		return EXIT_DONE;
	return call->cleared + call->files > 0 ? EXIT_PARTLY : EXIT_FAILED;
}

int cli_cache(struct cli *cli, char **argv)
{
	struct clear_call call = { 0 };
	struct cli_operands operands;
	int status = cli_read_options(cli->command, argv, &call, &operands);

	if (status >= 0)
		return status;
	call.names = operands.items;
	call.name_count = operands.count;
	return cli_cache_run_clear(cli, &call);
}
