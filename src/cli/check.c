/*
 * Tries what the configuration names, each thing by itself, so that one fault does not
 * hide the others. Changes nothing but what opening the database makes, and rows of
 * copies that are found to be damaged.
 */
#include "cli/check.h"

#include <stdarg.h>
#include <sys/statvfs.h>

#include "base/disk_proof.h"
#include "base/file.h"
#include "base/json.h"
#include "base/proc.h"
#include "change/hook_install.h"
#include "change/notice.h"
#include "cli/site.h"
#include "cli/site_tree.h"
#include "git/repo.h"
#include "pull/glance.h"
#include "pull/primary.h"
#include "replicable/discover.h"
#include "replicable/name.h"
#include "serve/disk_cache.h"
#include "serve/settings.h"
#include "store/data_lock.h"
#include "upkeep/copies_root.h"
#include "verify/verify_origin.h"
#include "wire/wire_token.h"

/*
 * Repositories that could not be looked at: a check says nothing good of them.
 */

struct unseen {
	uint64_t count;
	char *example; /* owned */
	struct err why;
};

static void unseen_add(struct unseen *unseen, const char *name, const struct err *why)
{
	if (why->class == ERR_MISSING || unseen->count++ > 0) /* it has just gone */
		return;
	unseen->example = xstrdup(name);
	unseen->why = *why;
}

/* Frees the example. */
static void unseen_report(struct checking *checking, const char *what,
			  struct unseen *unseen)
{
	if (unseen->count > 0)
		check_say(checking, CHECK_WRONG, what, unseen->why.remedy,
			  "%" PRIu64 " repositor%s could not be looked at, e.g. %.100s: "
			  "%.300s",
			  unseen->count, unseen->count == 1 ? "y" : "ies",
			  unseen->example, unseen->why.text);
	free(TAKE(unseen->example));
}

/*
 * Repositories in a form that this version cannot read: nothing else is stopped by them,
 * so who does not look for them may not know that they are left out.
 */

struct unsupported {
	size_t count;
	const struct discovered *example;
	struct err why; /* of the example */
};

static void check_formats_inspect_repository(int root, const struct discovered *one,
					     struct unsupported *found,
					     struct unseen *unseen)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	struct err err;

	if (repo_open(root, one->path, &repo, &err) == 0)
		return;
	if (err.reason != REASON_FORMAT) {
		unseen_add(unseen, one->name, &err);
		return;
	}
	if (found->count++ > 0)
		return;
	found->example = one;
	found->why = err;
}

static void check_formats_report_unsupported(struct checking *checking,
					     const struct unsupported *found)
{
	check_say(checking, CHECK_WRONG, "formats", found->why.remedy,
		  "%zu %s a format that is not supported, e.g. %s: %s", found->count,
		  found->count == 1 ? "repository has" : "repositories have",
		  found->example->name, found->why.text);
}

#define DISCOVERED_MOST 10

/* What the walk could not take for a repository, or may have missed: the first ones of
 * those that are harmless, or of the others. */
static void check_discovered_of(struct checking *checking,
				const struct discovery *discovery, bool is_harmless)
{
	const enum check_verdict verdict = is_harmless ? CHECK_NOTE : CHECK_WRONG;
	size_t count = 0;

	for (size_t i = 0; i < discovery->findings.count; i++) {
		const struct discover_finding *finding = &discovery->findings.items[i];
		struct err err = finding->err;
		if (finding->is_harmless != is_harmless || count++ >= DISCOVERED_MOST)
			continue;
		err_prefix(&err, "%.300s", finding->path);
		check_report(checking, verdict, "repositories", &err);
	}
	if (count > DISCOVERED_MOST)
		check_say(checking, verdict, "repositories",
			  is_harmless ? "" : "refrelay hooks list names all",
			  "%zu more%s in site.repositories", count - DISCOVERED_MOST,
			  is_harmless ? " of the kind" : " that are not served");
}

/* Whether there are repositories of a format that is not supported. */
static void check_formats(struct checking *checking)
{
	AUTO_DISCOVERY struct discovery discovery = { 0 };
	struct unsupported found = { 0 };
	struct unseen unseen = { 0 };
	AUTO_CLOSE int root =
		dir_open(AT_FDCWD, checking->site.repositories, ERR_IGNORED);

	if (root < 0 ||
	    discover(checking->site.repositories, &discovery, ERR_IGNORED) != 0)
		return; /* as check_repositories() says */
	check_discovered_of(checking, &discovery, false);
	check_discovered_of(checking, &discovery, true);
	for (size_t i = 0; i < discovery.found.count; i++)
		check_formats_inspect_repository(root, &discovery.found.items[i], &found,
						 &unseen);
	if (found.count > 0)
		check_formats_report_unsupported(checking, &found);
	else if (unseen.count == 0)
		check_say(checking, CHECK_GOOD, "formats", "",
			  "all repositories have a format that is supported");
	unseen_report(checking, "formats", &unseen);
}

/*
 * A look at each copy, as the node takes one when it starts; and at a primary at each
 * repository.
 */

static void report_doubted(struct checking *checking, const struct kind *kind,
			   const struct glance_result *result)
{
	bool is_running = data_lock_is_held(checking->site.data);
	const bool is_blobs = !kind_is_repository(kind->type);

	check_say(checking, CHECK_WRONG, "copies",
		  is_running ? "none needed: the node is now checking and repairing them"
			     : "start the node: it checks and repairs them",
		  "%" PRIu64 " of %" PRIu64
		  " copies of %s%s were changed by others, e.g. %.100s: %.300s",
		  result->doubted, result->looked,
		  is_blobs ? "blobs of type " : "repositories",
		  is_blobs ? kind->type : "", result->example, result->why.text);
	if (is_running)
		site_wake(checking->site.data);
}

void check_copies(struct checking *checking, struct store *store, const struct kind *kind)
{
	const struct glance_request request = { .store = store, .kind = kind };
	const bool is_blobs = !kind_is_repository(kind->type);
	struct glance_result result = { 0 };
	struct err err;

	if (copies_root_judge(store, kind->type, kind->path, &err) != 0)
		check_report(checking, CHECK_WRONG, "copies", &err);
	else if (access(kind->path, F_OK) != 0)
		return; /* nothing was copied yet */
	else if (glance_all(&request, &result, &err) != 0)
		check_report(checking, CHECK_WRONG, "copies", &err);
	else if (result.away.class != ERR_NONE)
		check_report(checking, CHECK_WRONG, "copies", &result.away);
	if (result.doubted > 0)
		report_doubted(checking, kind, &result);
	else if (result.looked > 0)
		check_say(checking, CHECK_GOOD, "copies", "",
			  "%" PRIu64
			  " %s%sunchanged since refrelay last wrote them (quick check)",
			  result.looked, is_blobs ? kind->type : "repositories",
			  is_blobs ? ": " : " are ");
	free(result.example);
}

static void check_copies_report_broken(struct checking *checking,
				       const struct verify_glances *glances)
{

	check_say(checking, CHECK_WRONG, "repositories",
		  "restore it; a secondary may have the missing objects",
		  "%" PRIu64 " of %" PRIu64 " repositories lack objects that their refs "
		  "point to, e.g. %.100s: %.300s",
		  glances->broken, glances->looked, glances->example, glances->why.text);
	site_wake(checking->site.data);
}

/* At a primary: whether the objects that refs name are there, by a look at each
 * repository; one that lacks some is marked as failed. */
static void check_originals(struct checking *checking, struct store *store)
{
	const char *root = checking->site.repositories;
	struct verify_glances glances;
	struct unseen unseen;
	struct err err;

	if (access(root, F_OK) != 0)
		return; /* said before */
	if (verify_origin_glance_all(store, root, &glances, &err) != 0)
		check_report(checking, CHECK_WRONG, "repositories", &err);
	if (glances.broken > 0)
		check_copies_report_broken(checking, &glances);
	else if (glances.looked > 0)
		check_say(checking, CHECK_GOOD, "repositories", "",
			  "%" PRIu64
			  " have the objects that their refs point to (quick check)",
			  glances.looked);
	free(glances.example);
	unseen = (struct unseen){ glances.unseen, glances.unseen_example,
				  glances.unseen_why };
	unseen_report(checking, "repositories", &unseen);
}

#define SKEW_LIMIT_MS 5000
#define LITTLE_ROOM (1ULL << 30)

struct check_call {
	bool is_json;
};

static const struct cli_option rows[] = {
	CLI_JSON(struct check_call),
	{ 0 },
};

const struct cli_options check_options = {
	.rows = rows,
	.takes = "no arguments",
	.column = 10,
	.end = "The exit status is 0 if every check passes, else 1.\n",
};

/* One fault of the configuration may be met by several of those who read it. */
static bool was_reported(const struct checking *checking, const json_t *finding)
{
	for (size_t i = 0; i < json_array_size(checking->findings); i++) {
		const json_t *other = json_array_get(checking->findings, i);
		if (json_equal(json_object_get(other, "finding"),
			       json_object_get(finding, "finding")) &&
		    json_equal(json_object_get(other, "verdict"),
			       json_object_get(finding, "verdict")))
			return true;
	}
	return false;
}

void check_report(struct checking *checking, enum check_verdict verdict, const char *what,
		  const struct err *err)
{
	static const char *const words[] = { "ok", "note", "FAIL" };
	json_t *finding = json_object();

	json_put_text(finding, "verdict",
		      verdict == CHECK_WRONG ? "wrong" : words[verdict]);
	json_put_text(finding, "what", what);
	json_put_message(finding, "finding", err->text);
	const char *remedy = err->remedy;
	if (verdict == CHECK_WRONG && !remedy[0] && strcmp(what, "configuration") == 0)
		remedy = "refrelay.conf(5) has what is accepted";
	json_put_text(finding, "remedy", remedy);
	if (verdict != CHECK_GOOD && was_reported(checking, finding)) {
		json_decref(finding);
		return;
	}
	checking->wrong += verdict == CHECK_WRONG;
	json_array_append_new(checking->findings, finding);
	if (checking->is_json)
		return;
	cli_print("%-5s  %-13s %s%s%s", words[verdict], what, err->text,
		  remedy[0] ? "; hint: " : "", remedy);
}

void check_say(struct checking *checking, enum check_verdict verdict, const char *what,
	       const char *remedy, const char *fmt, ...)
{
	struct err said = { 0 };
	va_list args;

	va_start(args, fmt);
	vsnprintf(said.text, sizeof(said.text), fmt, args);
	va_end(args);
	snprintf(said.remedy, sizeof(said.remedy), "%s", remedy);
	check_report(checking, verdict, what, &said);
}

void check_room(struct checking *checking, const char *what, const char *path)
{
	struct statvfs st;

	if (statvfs(path, &st) != 0)
		return;
	uint64_t room = (uint64_t)st.f_bavail * st.f_frsize;
	if (room >= LITTLE_ROOM)
		return;
	/* With nothing left a node can write nothing down. */
	check_say(checking, room >> 20 == 0 ? CHECK_WRONG : CHECK_NOTE, what,
		  "free some space", "only %" PRIu64 " MiB are free at %s", room >> 20,
		  path);
}

static void check_repositories(struct checking *checking)
{
	const char *path = checking->site.repositories;
	bool writes = checking->site.role == SITE_SECONDARY;
	struct err err;

	if (access(path, R_OK | X_OK | (writes ? W_OK : 0)) == 0) {
		check_say(checking, CHECK_GOOD, "repositories", "", "%s can be %s", path,
			  writes ? "written" : "read");
		check_room(checking, "repositories", path);
		return;
	}
	err_errno(&err, "%s cannot be %s", path, writes ? "written" : "read");
	if (errno == ENOENT && writes) {
		check_say(checking, CHECK_NOTE, "repositories", "",
			  "%s does not exist yet: serve will create it", path);
		return;
	}
	check_report(checking, CHECK_WRONG, "repositories", &err);
}

void check_foreign(struct checking *checking, const char *what,
		   const struct leftovers_found *found)
{

	if (found->count > 0)
		check_say(checking, CHECK_NOTE, "copies",
			  "move them away, or restore them at the primary",
			  "the primary does not have %" PRId64 " of the %s here, e.g. %s",
			  found->count, what, found->example);
}

static int read_scan(struct store_tx *tx, void *arg, struct err *err)
{
	return scan_record_read(tx, KIND_REPOSITORY, arg, err);
}

struct hooks_found {
	struct hook_counts counts;
	int64_t others;       /* that are installed, and tell another node */
	char *example, *node; /* one of those, and that node's data; owned */
	struct unseen unseen;
};

static void add_hooks(const char *name, const struct hook_look *look,
		      enum hook_state state, struct hooks_found *found)
{
	hook_count(&found->counts, name, state);
	if (state != HOOK_INSTALLED || look->has_node || found->others++ > 0)
		return;
	found->example = xstrdup(name);
	found->node = xstrdup(look->other);
}

/* Looked at now, with and without a node. */
static int count_hooks(const struct checking *checking, const struct hook_place *place,
		       struct hooks_found *found, struct err *err)
{
	AUTO_DISCOVERY struct discovery discovery = { 0 };
	AUTO_CLOSE int root = dir_open(AT_FDCWD, checking->site.repositories, err);

	if (root < 0 || discover(checking->site.repositories, &discovery, err) != 0)
		return -1;
	for (size_t i = 0; i < discovery.found.count; i++) {
		const struct discovered *one = &discovery.found.items[i];
		struct err why;
		AUTO_CLOSE int fd = dir_open(root, one->path, &why);
		struct hook_look look;
		if (fd >= 0 && hook_look(fd, place, &look, &why) == 0)
			add_hooks(one->name, &look, hook_look_state(&look, place), found);
		else
			unseen_add(&found->unseen, one->name, &why);
	}
	return 0;
}

/* Nodes of one host that share their tasks can have it so, with one that is told. */
static void report_others(struct checking *checking, const struct hooks_found *found)
{
	int64_t all = found->counts.states[HOOK_INSTALLED] +
		      hook_counts_lacking(&found->counts);

	if (found->others == 0)
		return;
	check_say(checking, CHECK_NOTE, "hooks",
		  "run refrelay hooks install, unless both nodes share their push "
		  "tasks; refrelay hooks list names them",
		  "the hooks of %" PRId64 " of %" PRId64
		  " repositories report to the node of %s, e.g. %s: this node notices "
		  "their pushes only by the next scan",
		  found->others, all, found->node, found->example);
}

static void check_report_hooks(struct checking *checking,
			       const struct hook_counts *counts)
{
	int64_t lacking = hook_counts_lacking(counts);

	if (lacking == 0)
		return;
	check_say(checking, CHECK_NOTE, "hooks",
		  "run refrelay hooks install; refrelay hooks list names them",
		  "%" PRId64 " of %" PRId64 " repositories have no hooks, e.g. %s: "
		  "pushes are noticed only by the next scan",
		  lacking, lacking + counts->states[HOOK_INSTALLED], counts->example);
}

static void cli_check_hooks(struct checking *checking)
{
	AUTO_HOOK_PLACE struct hook_place place = { 0 };
	struct hooks_found found = { 0 };
	struct err err;

	if (hook_place_find(checking->site.data, HOOKS_OF_ORIGIN, &place, &err) != 0) {
		check_report(checking, CHECK_WRONG, "hooks", &err);
		return;
	}
	place.is_quick = true;
	place.accepts_others = site_shares_tree(&checking->site);
	/* that they cannot be counted is said of the repositories */
	if (count_hooks(checking, &place, &found, &err) == 0) {
		check_report_hooks(checking, &found.counts);
		report_others(checking, &found);
		if (found.others == 0 && hook_counts_lacking(&found.counts) == 0)
			check_say(checking, CHECK_GOOD, "hooks", "",
				  "%" PRId64 " repositories have them",
				  found.counts.states[HOOK_INSTALLED]);
		unseen_report(checking, "hooks", &found.unseen);
	}
	free(found.example);
	free(found.node);
}

/* What the node said last is true only while it runs. */
static void check_scan(struct checking *checking, struct store *store)
{
	struct scan_record scan = { 0 };
	struct err err;

	if (notice_judge_root(store, checking->site.repositories, &err) != 0 ||
	    store_read(store, read_scan, &scan, &err) != 0)
		check_report(checking, CHECK_WRONG, "scan", &err);
	else if (scan.failing_since > 0 && data_lock_is_held(checking->site.data))
		check_report(checking, CHECK_WRONG, "scan", &scan.failure);
}

static void check_secondary(struct checking *checking, struct store *store)
{
	AUTO_KINDS struct kinds_here here = { 0 };
	struct leftovers_found found;

	kinds_fill(&here, checking->site.repositories);
	check_copies(checking, store, kinds_next(&here, NULL));
	if (leftovers_count(store, kinds_next(&here, NULL), &found, ERR_IGNORED) == 0)
		check_foreign(checking, "repositories", &found);
}

static void lease_server_finding(void *arg, bool is_error, const char *what,
				 const char *remedy)
{
	check_say(arg, is_error ? CHECK_WRONG : CHECK_NOTE, "leases", remedy, "%s", what);
}

/* A key that nobody has: its server must answer that. */
static void check_leases(struct checking *checking, struct lease_manager *leases)
{
	const struct lease_settings *settings = &checking->site.lease;
	const struct lease_place place = { .site = checking->site.name,
					   .repositories = checking->site.repositories };
	char key[LEASE_KEY_SIZE];
	const char *unused = lease_settings_unused(settings);
	struct lease_holder holder;
	struct err err;

	if (unused)
		check_say(checking, CHECK_NOTE, "leases",
			  "remove it, or set the lease.backend that it is for",
			  "lease.%s has no effect: this backend does not use it", unused);
	lease_settings_try(settings, &place, lease_server_finding, checking);
	if (settings->backend != LEASE_POSTGRESQL && settings->backend != LEASE_REDIS)
		return;
	if ((lease_key_of_person(leases, "check", key, &err) == 0 &&
	     lease_inspect(leases, key, &holder, &err) == 0) ||
	    err.class == ERR_MISSING)
		check_say(checking, CHECK_GOOD, "leases", "", "%s answers",
			  settings->urls);
	else
		check_report(checking, CHECK_WRONG, "leases", &err);
}

static void check_neighbour(void *arg, const char *who, const struct err *doubt)
{
	if (doubt->class != ERR_NONE)
		check_report(arg, CHECK_NOTE, "nodes", doubt);
	else
		check_say(arg, CHECK_GOOD, "nodes", "",
			  "%s works on the same repositories, with the same leases", who);
}

/* Others that work on this tree. What is wrong with the mirrors is said there. */
static void check_neighbours(struct checking *checking)
{
	AUTO_MIRRORS struct mirrors mirrors = { 0 };
	struct err err;

	if (mirrors_read(checking->conf, &mirrors, ERR_IGNORED) != 0)
		return;
	const struct site_tree tree = { .site = &checking->site,
					.has_mirrors = mirrors_are_any(&mirrors) };
	if (site_tree_check(&tree, check_neighbour, checking, &err) != 0)
		check_report(checking, CHECK_WRONG, "nodes", &err);
}

static void check_data(struct checking *checking)
{
	const char *path = checking->site.data;
	struct site_data data = { 0 };
	struct err err;

	if (site_check_apart(&checking->site, &err) != 0)
		return; /* said before; nothing is made there */
	if (site_data_check_owner(path, &err) != 0) {
		check_report(checking, CHECK_WRONG, "data", &err);
		return; /* likewise */
	}
	if (site_data_check(path, &err) != 0)
		check_report(checking, CHECK_WRONG, "data", &err);
	if (site_data_open(&checking->site, &data, &err) != 0 ||
	    disk_prove(path, &err) != 0) {
		check_report(checking, CHECK_WRONG, "data", &err);
	} else {
		AUTO_CLOSE int fd = dir_open(AT_FDCWD, path, ERR_IGNORED);
		check_say(checking, CHECK_GOOD, "data", "",
			  "%s: database and leases open", path);
		check_leases(checking, data.leases);
		if (fd >= 0 && !file_system_is_local(fd)) {
			check_say(checking, CHECK_WRONG, "data",
				  "keep site.data on a local disk",
				  "%s is on a network file system", path);
		}
		check_room(checking, "data", path);
		if (checking->site.role == SITE_SECONDARY)
			check_secondary(checking, data.store);
		else
			check_scan(checking, data.store);
		if (checking->site.role == SITE_PRIMARY)
			check_originals(checking, data.store);
		check_blob_roots(checking, data.store);
		check_checkouts(checking, data.store);
	}
	site_data_close(&data);
}

/* Whether what was kept can be used. One that is not there will be made. */
static int try_cache(const char *directory, struct err *err)
{
	AUTO_CLOSE int dir = -1;

	if (access(directory, W_OK | X_OK) != 0)
		return errno == ENOENT
			       ? 0
			       : err_errno(err, "%s cannot be written", directory);
	dir = disk_cache_directory_open(directory, err);
	return dir < 0 ? -1 : 0;
}

/* Trouble costs speed and nothing else, but nobody would look for it. */
static void check_cache(struct checking *checking)
{
	struct serve_settings settings = { 0 };
	struct err err;

	/* what is wrong with the settings was said before */
	if (serve_settings_read(checking->conf, checking->site.data, &settings, &err) ==
		    0 &&
	    try_cache(settings.directory, &err) != 0)
		check_report(checking, CHECK_NOTE, "cache", &err);
	serve_settings_clear(&settings);
}

static void check_node(struct checking *checking)
{

	if (data_lock_is_held(checking->site.data)) {
		check_say(checking, CHECK_GOOD, "node", "", "a node is running here");
		return;
	}
	check_say(checking, CHECK_NOTE, "node", "start the node: refrelay serve",
		  "no node is running here");
}

static void check_git(struct checking *checking)
{
	static const char *const argv[] = { "git", "version", NULL };
	AUTO_STR struct str output = STR_INIT;
	struct err err;

	if (proc_run(&(struct proc_request){ .argv = argv,
					     .output = &output,
					     .output_limit = 4096,
					     .timeout_ms = 10000 },
		     NULL, &err) != 0) {
		check_report(checking, CHECK_WRONG, "git", &err);
		return;
	}
	output.data[strcspn(output.data, "\n")] = '\0';
	check_say(checking, CHECK_GOOD, "git", "", "%s, supervised by %s", output.data,
		  proc_supervisor_path());
}

static void check_confinement(struct checking *checking)
{
	if (proc_can_confine()) {
		check_say(checking, CHECK_GOOD, "confinement", "",
			  "git reads repositories under Landlock and a syscall filter%s",
			  proc_can_confine_signals()
				  ? ""
				  : "; it can signal other processes of its user, which "
				    "Linux prevents since 6.12");
		return;
	}
	check_say(checking, CHECK_NOTE, "confinement",
		  "start the kernel with landlock in its list lsm=; it has it since 5.13",
		  "git reads repositories under a syscall filter only: the kernel offers "
		  "no Landlock; it can signal other processes of its user");
}

static void report_skew(struct checking *checking, int64_t skew_ms)
{

	if (skew_ms > -SKEW_LIMIT_MS && skew_ms < SKEW_LIMIT_MS)
		return;
	check_say(checking, CHECK_WRONG, "clocks",
		  "synchronize both clocks (NTP); requests are refused above 60 s",
		  "the primary's clock differs from ours by %+.0f s",
		  (double)skew_ms / 1000);
}

/* One that is older than blobs does not know the question. */
static void ask_kinds(struct checking *checking, struct primary_line *line)
{
	struct blob_kinds theirs = { 0 };

	if (primary_blob_kinds(line, &theirs, ERR_IGNORED) == 0)
		check_blobs_of_primary(checking, &theirs);
	blob_kinds_clear(&theirs);
}

/* Small requests, signed: reaches, secret and clocks; then which blobs it has. */
static int cli_check_ask_primary(struct checking *checking, struct primary_health *health,
				 struct err *err)
{
	AUTO_SITE_KEY struct site_key key = { .secret = STR_INIT };
	struct primary *primary = NULL;
	struct primary_line *line = NULL;
	struct primary_events answer = { 0 };
	const char *file = checking->site.primary_secret;
	int result;

	if (!file || !checking->site.primary_url) {
		err_set(err, ERR_CONFIG, "primary.url and primary.secretFile are needed");
		return err_remedy(err, "set them in the section [primary]");
	}
	if (site_key_read(checking->site.name, file, &key, err) != 0 ||
	    primary_open(checking->site.primary_url, &key, &primary, err) != 0)
		return -1;
	primary_trust(primary, checking->site.primary_ca_file);
	result = primary_line_open(primary, NULL, &line, err);
	if (result == 0)
		result = primary_events(
			line, &(struct wire_events_question){ .limit = 1 }, &answer, err);
	primary_health(primary, health);
	event_list_clear(&answer.events);
	if (result == 0)
		ask_kinds(checking, line);
	primary_line_close(line);
	primary_close(primary);
	return result;
}

static void check_primary(struct checking *checking)
{
	struct primary_health health = { 0 };
	struct err err;

	if (cli_check_ask_primary(checking, &health, &err) == 0)
		check_say(checking, CHECK_GOOD, "primary", "",
			  "%s answers and accepts our secret",
			  checking->site.primary_url);
	else
		check_report(checking, CHECK_WRONG, "primary", &err);
	report_skew(checking, health.skew_ms);
}

static void check_secret(struct checking *checking, const char *name)
{
	AUTO_SITE_KEY struct site_key key = { .secret = STR_INIT };
	const struct conf *conf = checking->conf;
	const char *file = NULL;
	bool is_enabled = true;
	struct err err;

	if (conf_read_bool(conf_get(conf, "secondary", name, "enabled"), &is_enabled,
			   &err) != 0 ||
	    conf_read_text(conf_get(conf, "secondary", name, "secretFile"), &file,
			   &err) != 0 ||
	    (is_enabled && file && site_key_read(name, file, &key, &err) != 0))
		check_report(checking, CHECK_WRONG, "secret", &err);
	else if (!is_enabled)
		check_say(checking, CHECK_NOTE, "secret", "", "secondary %s is disabled",
			  name);
	else if (!file)
		check_say(checking, CHECK_WRONG, "secret", "",
			  "secondary.%s.secretFile is not set", name);
	else
		check_say(checking, CHECK_GOOD, "secret", "", "of secondary %s", name);
}

static void check_secrets(struct checking *checking)
{
	struct conf_names names = { 0 };

	conf_subsections(checking->conf, "secondary", &names);
	for (size_t i = 0; i < names.count; i++) {
		check_secret(checking, names.items[i]);
		check_blobs_left_out(checking, names.items[i]);
	}
	if (names.count == 0) {
		check_say(checking, CHECK_NOTE, "secret",
			  "add a section [secondary \"NAME\"] for each",
			  "no [secondary] section: no site can follow this primary");
	}
	vec_clear(&names);
}

static void cli_check_run_all(struct checking *checking)
{
	struct err err;

	if (checking->node->check_settings(checking->conf, &err) != 0)
		check_report(checking, CHECK_WRONG, "configuration", &err);
	else
		check_say(checking, CHECK_GOOD, "configuration", "", "%s, a %s",
			  checking->site.name, site_role_name(checking->site.role));
	if (site_has_unused(checking->conf, checking->site.role, &err))
		check_report(checking, CHECK_NOTE, "configuration", &err);
	check_git(checking);
	check_confinement(checking);
	check_repositories(checking);
	check_formats(checking);
	check_blobs_directories(checking);
	check_neighbours(checking);
	check_data(checking);
	check_cache(checking);
	check_node(checking);
	checking->node->check_transport(checking);
	if (checking->site.role == SITE_SECONDARY)
		check_primary(checking);
	else
		cli_check_hooks(checking);
	if (checking->site.role == SITE_PRIMARY)
		check_secrets(checking);
	check_mirrors(checking);
	check_push(checking);
	check_alerts(checking);
}

static int cli_check_run(const struct cli *cli, bool is_json)
{
	AUTO_CONF struct conf *conf = NULL;
	json_auto_t *object = json_object();
	struct checking checking = { .node = cli->node,
				     .is_json = is_json,
				     .findings = json_array() };
	struct err err;
	int status;

	json_put(object, "findings", checking.findings);
	if (cli_read_config(cli, &conf, &err) != 0 ||
	    site_from_conf(conf, &checking.site, &err) != 0) {
		status = cli_fail(&err);
		if (is_json)
			check_report(&checking, CHECK_WRONG, "configuration", &err);
	} else {
		checking.conf = conf;
		cli_check_run_all(&checking);
		status = checking.wrong > 0 ? EXIT_FAILED : EXIT_DONE;
	}
	json_put_number(object, "wrong", (int64_t)checking.wrong);
	if (is_json)
		json_write(stdout, object);
	site_clear(&checking.site);
	return status;
}

int cli_check(struct cli *cli, char **argv)
{
	struct check_call call = { 0 };
	struct cli_operands operands;
	int status = cli_read_options(cli->command, argv, &call, &operands);

	return status >= 0 ? status : cli_check_run(cli, call.is_json);
}
