#include "cli/cli.h"

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "change/hook_install.h"
#include "cli/site.h"
#include "replicable/discover.h"
#include "replicable/locate.h"
#include "replicable/name.h"

enum verb { LIST, INSTALL, REMOVE };

struct hooks_call {
	enum verb verb;
	char **names;
	size_t name_count;
	bool is_all, is_dry, is_json, is_shared;
	struct hook_place place;
	const char *root; /* path of site.repositories */
	json_t *array;    /* with --json */
	size_t changed, failed;
	size_t astray; /* of list */
	size_t taken;  /* repositories whose hooks told another node */
	char *example_taken, *example_from; /* one of them, and that node's data */
	size_t left;        /* repositories with hooks in a directory that others share */
	char *example_left; /* that directory of one */
};

#define AT(kind, member) CLI_AT(kind, struct hooks_call, member)

static const struct cli_option rows[] = {
	{ "all", 0, NULL, "all repositories below site.repositories (the default)",
	  AT(FLAG, is_all) },
	{ "shared", 0, NULL, "also change hook directories that other repositories share",
	  AT(FLAG, is_shared), .verbs = "install remove" },
	{ "dry-run", 0, NULL, "only print what would be done", AT(FLAG, is_dry),
	  .verbs = "install remove" },
	CLI_JSON(struct hooks_call),
	{ 0 },
};

static const struct cli_verb verbs[] = {
	[LIST] = { "list", .most = CLI_ANY_NUMBER },
	[INSTALL] = { "install", .most = CLI_ANY_NUMBER },
	[REMOVE] = { "remove", .most = CLI_ANY_NUMBER },
	{ 0 },
};

const struct cli_options hooks_options = {
	.rows = rows, .verbs = verbs, .takes = "install, remove or list", .column = 13
};

static void cli_hooks_report_failure(struct hooks_call *call, const char *name,
				     const struct err *err)
{
	struct err named = *err;

	call->failed++;
	err_prefix(&named, "%s", name);
	cli_fail(&named);
}

static json_t *look_to_json(const struct hooks_call *call, const struct hook_look *look)
{
	json_t *array = json_array();

	for (size_t i = 0; i < (size_t)call->place.side; i++) {
		json_t *hook = json_object();
		json_put_text(hook, "hook", hook_names[i]);
		json_put_text(hook, "state", hook_state_name(look->states[i]));
		json_put_bool(hook, "kept", look->is_kept[i]);
		json_array_append_new(array, hook);
	}
	return array;
}

static void add_states(const struct hooks_call *call, const struct hook_look *look,
		       struct str *text)
{
	for (size_t i = 0; i < (size_t)call->place.side; i++)
		str_addf(text, "%s %s %s", i ? "," : ":", hook_names[i],
			 hook_state_name(look->states[i]));
}

/* "installed", or what is amiss with each. */
static void print_look(const struct hooks_call *call, const char *name,
		       const struct hook_look *look)
{
	AUTO_STR struct str text = STR_INIT;

	str_add(&text, name);
	if (hook_look_state(look, &call->place) == HOOK_INSTALLED)
		str_add(&text, ": installed");
	else
		add_states(call, look, &text);
	if (look->other[0])
		str_addf(&text, ", its hooks report to the node of %s", look->other);
	else if (!look->has_node && look->states[0] != HOOK_MISSING)
		str_add(&text, ", no link to this site's data directory");
	if (look->is_noexec)
		str_add(&text, ", on a file system that is mounted noexec");
	if (look->is_shared && look->folder[0])
		str_addf(&text, ", in %s", look->folder);
	for (size_t i = 0; i < (size_t)call->place.side; i++)
		if (look->is_kept[i])
			str_addf(&text, ", keeps another %s", hook_names[i]);
	cli_print("%s", text.data);
}

static json_t *report_to_json(const struct hooks_call *call, const char *name,
			      const struct hook_look *look, bool did)
{
	enum hook_state state = hook_look_state(look, &call->place);
	json_t *object = json_object();

	json_put_text(object, "name", name);
	json_put_text(object, "state", hook_state_name(state));
	json_put_bool(object, "installed", state == HOOK_INSTALLED);
	json_put_bool(object, "changed", did);
	json_put_text(object, "other_node", look->other[0] ? look->other : NULL);
	json_put_text(object, "directory", look->folder[0] ? look->folder : NULL);
	json_put_bool(object, "shared", look->is_shared);
	json_put(object, "hooks", look_to_json(call, look));
	return object;
}

/* err: NULL: nothing went wrong. did: whether something was changed, or would be. */
static void cli_hooks_report_repository(struct hooks_call *call, const char *name,
					const struct hook_look *look, bool did,
					const struct err *err)
{
	call->changed += did;
	call->astray += call->verb == LIST && hook_look_is_astray(look, &call->place);
	if (err)
		cli_hooks_report_failure(call, name, err);
	if (call->is_json) {
		json_t *object = report_to_json(call, name, look, did);
		if (err) {
			json_put_message(object, "failure", err->text);
			json_put_message(object, "remedy", err->remedy);
		}
		json_array_append_new(call->array, object);
	} else if (call->verb == LIST) {
		print_look(call, name, look);
	}
}

static int cli_hooks_apply_verb(const struct hooks_call *call, int repository,
				struct err *err)
{
	return call->verb == INSTALL ? hook_install(repository, &call->place, err)
				     : hook_remove(repository, &call->place, err);
}

/* Git can tell one node only: another of this host hears by its scans from now on. */
static void note_taken(struct hooks_call *call, const char *path,
		       const struct hook_look *look)
{
	if (call->verb != INSTALL || !look->other[0])
		return;
	if (call->taken++ > 0)
		return;
	call->example_taken = xstrdup(path);
	call->example_from = xstrdup(look->other);
}

static void report_taken(const struct hooks_call *call)
{
	AUTO_STR struct str text = STR_INIT;

	if (call->taken == 0)
		return;
	str_addf(&text, "the hooks of %zu repositor%s, e.g. ", call->taken,
		 call->taken == 1 ? "y" : "ies");
	str_add_printable(&text, call->example_taken);
	str_addf(&text, ", %s the node of ", call->is_dry ? "report to" : "reported to");
	str_add_printable(&text, call->example_from);
	cli_note("%s: %s this node; the other one notices changes only by its scans",
		 text.data, call->is_dry ? "they would report to" : "they now report to");
}

/* Git refuses pushes there once the program is gone. */
static void note_left(struct hooks_call *call, const struct hook_look *look)
{
	struct hook_place place = call->place;
	struct hook_look hooks = *look;

	place.changes_shared = true;
	hooks.has_node = false;
	if (call->verb != REMOVE || call->is_shared || !look->is_shared ||
	    hook_look_is_removed(&hooks, &place))
		return;
	if (call->left++ == 0)
		call->example_left = xstrdup(look->folder);
}

static void report_left(const struct hooks_call *call)
{
	AUTO_STR struct str folder = STR_INIT;

	if (call->left == 0)
		return;
	str_add_printable(&folder, call->example_left);
	cli_note(
		"%zu repositor%s shared hooks, e.g. in %s, which stay; before you remove "
		"refrelay, run this with --shared, or git refuses every push there",
		call->left, call->left == 1 ? "y uses" : "ies use", folder.data);
}

static bool is_as_wanted(const struct hooks_call *call, const struct hook_look *look)
{
	switch (call->verb) {
	case INSTALL:
		return hook_look_state(look, &call->place) == HOOK_INSTALLED;
	case REMOVE:
		return hook_look_is_removed(look, &call->place);
	default:
		return true;
	}
}

/* Looks, acts and looks again: what is reported is what is there. */
static int cli_hooks_process_repository(struct hooks_call *call, int repository,
					const char *path, struct hook_look *look,
					bool *did, struct err *err)
{
	if (hook_look(repository, &call->place, look, err) != 0)
		return -1;
	if (is_as_wanted(call, look))
		return 0;
	note_taken(call, path, look);
	if (!call->is_dry && cli_hooks_apply_verb(call, repository, err) != 0) {
		hook_look(repository, &call->place, look, ERR_IGNORED);
		return -1;
	}
	*did = true;
	return call->is_dry ? 0 : hook_look(repository, &call->place, look, err);
}

static void cli_hooks_visit_repository(struct hooks_call *call, const char *name,
				       const char *below)
{
	AUTO_FREE char *path = xasprintf("%s/%s", call->root, below);
	struct hook_look look = { 0 };
	struct err err;
	bool did = false;
	AUTO_CLOSE int repository = dir_open(AT_FDCWD, path, &err);
	int result = repository < 0 ? -1
				    : cli_hooks_process_repository(call, repository, path,
								   &look, &did, &err);

	note_left(call, &look);
	cli_hooks_report_repository(call, name, &look, did, result == 0 ? NULL : &err);
}

static int cli_hooks_visit_all(struct hooks_call *call, struct err *err)
{
	AUTO_DISCOVERY struct discovery discovery = { 0 };

	if (discover(call->root, &discovery, err) != 0)
		return -1;
	for (size_t i = 0; i < discovery.found.count; i++)
		cli_hooks_visit_repository(call, discovery.found.items[i].name,
					   discovery.found.items[i].path);
	for (size_t i = 0; i < discovery.findings.count; i++)
		if (!discovery.findings.items[i].is_harmless)
			cli_hooks_report_failure(call, discovery.findings.items[i].path,
						 &discovery.findings.items[i].err);
	return 0;
}

/* All are looked for before the first is touched. */
static int visit_named(struct hooks_call *call, struct err *err)
{
	AUTO_CLOSE int root = dir_open(AT_FDCWD, call->root, err);
	AUTO_FREE char **paths = xcalloc(call->name_count, sizeof(*paths));
	int result = root < 0 ? -1 : 0;

	for (size_t i = 0; result == 0 && i < call->name_count; i++) {
		AUTO_FREE char *name = name_of_path(call->names[i]);
		int found = name_check(name, err) == 0
				    ? locate_repository(root, name, &paths[i], err)
				    : -1;
		if (found == 0)
			err_set(err, ERR_MISSING, "no repository %s below %s", name,
				call->root);
		result = found == 1 ? 0 : -1;
	}
	for (size_t i = 0; i < call->name_count; i++) {
		if (result == 0) {
			AUTO_FREE char *name = name_of_path(paths[i]);
			cli_hooks_visit_repository(call, name, paths[i]);
		}
		free(paths[i]);
	}
	return result;
}

static void cli_hooks_print_summary(const struct hooks_call *call)
{
	if (call->is_json) {
		json_auto_t *object = json_object();
		json_put_bool(object, "dry_run", call->is_dry);
		json_put_number(object, "changed", (int64_t)call->changed);
		json_put_number(object, "failed", (int64_t)call->failed);
		json_put(object, "repositories", json_incref(call->array));
		json_write(stdout, object);
	} else if (call->verb != LIST) {
		printf("%s%s hooks: %zu repositor%s", call->is_dry ? "would " : "",
		       verbs[call->verb].name, call->changed,
		       call->changed == 1 ? "y" : "ies");
		printf(call->failed ? ", %zu failed\n" : "\n", call->failed);
	}
}

static int cli_hooks_run(struct cli *cli, struct hooks_call *call)
{
	struct site site;
	struct err err;
	int result = -1;

	if (site_read(cli, NULL, &site, &err) == 0 &&
	    hook_place_find(site.data,
			    site.role == SITE_SECONDARY ? HOOKS_OF_COPY : HOOKS_OF_ORIGIN,
			    &call->place, &err) == 0) {
		call->place.changes_shared = call->is_shared;
		call->root = site.repositories;
		call->array = json_array();
		result = call->name_count ? visit_named(call, &err)
					  : cli_hooks_visit_all(call, &err);
		if (result == 0)
			cli_hooks_print_summary(call);
		report_taken(call);
		report_left(call);
		json_decref(call->array);
	}
	hook_place_clear(&call->place);
	free(call->example_taken);
	free(call->example_from);
	free(call->example_left);
	site_clear(&site);
	if (result != 0)
		return cli_fail(&err);
	return call->failed || call->astray ? EXIT_PARTLY : EXIT_DONE;
}

int cli_hooks(struct cli *cli, char **argv)
{
	struct hooks_call call = { 0 };
	struct cli_operands operands;
	int status = cli_read_options(cli->command, argv, &call, &operands);

	if (status >= 0)
		return status;
	call.verb = (enum verb)operands.verb_at;
	call.names = operands.items;
	call.name_count = operands.count;
	if (call.is_all && call.name_count > 0)
		return cli_usage("hooks", "names and --all cannot be combined");
	return cli_hooks_run(cli, &call);
}
