/*
 * Each kind of blobs by itself: its directory, then what the node remembers of that, then
 * what the other site says of it.
 */
#include "base/file.h"
#include "base/proc.h"
#include "blob/file.h"
#include "change/blob_notice.h"
#include "change/scan_record.h"
#include "cli/check.h"
#include "cli/push.h"
#include "cli/site.h"
#include "mirror/checkouts.h"
#include "mirror/list_reader.h"
#include "mirror/listed.h"
#include "mirror/then.h"
#include "mirror/upstream.h"
#include "push/destination.h"
#include "push/queue_view.h"
#include "push/select.h"
#include "push/target.h"
#include "store/data_lock.h"

/*
 * Push: what each remote would get, whether the task store and its leases work, and what
 * lies in them. Destinations are not contacted: there may be thousands, and one that is
 * down is no fault of the configuration.
 */

static const char *check_push_get_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "?";
}

static void report_plain_note(struct checking *checking, const json_t *note)
{
	check_say(checking, CHECK_NOTE, "push", "", "%s", json_string_value(note));
}

static void check_push_visit_each(struct checking *checking, const json_t *array,
				  void (*say)(struct checking *checking,
					      const json_t *one))
{
	for (size_t i = 0; i < json_array_size(array); i++)
		say(checking, json_array_get(array, i));
}

static void add_examples(const json_t *examples, struct str *out)
{
	for (size_t i = 0; i < json_array_size(examples); i++) {
		const json_t *one = json_array_get(examples, i);
		str_addf(out, "%s%s to %s", i > 0 ? "; " : ": ",
			 check_push_get_text(one, "name"),
			 check_push_get_text(one, "uri"));
	}
}

static void add_specs(const json_t *specs, struct str *out)
{
	str_add(out, ", refs ");
	for (size_t i = 0; i < json_array_size(specs); i++)
		str_addf(out, "%s%s", i > 0 ? " " : "",
			 json_string_value(json_array_get(specs, i)));
}

static void check_push_explain_remote(struct checking *checking, const json_t *remote)
{
	json_int_t count = json_integer_value(json_object_get(remote, "repositories"));
	AUTO_STR struct str text = STR_INIT;

	str_addf(&text, "%" JSON_INTEGER_FORMAT " repositor%s", count,
		 count == 1 ? "y" : "ies");
	add_specs(json_object_get(remote, "push"), &text);
	add_examples(json_object_get(remote, "examples"), &text);
	if (count > 0) {
		check_say(checking, CHECK_GOOD, "remote", "", "%s: %s",
			  check_push_get_text(remote, "name"), text.data);
	} else {
		check_say(checking, CHECK_NOTE, "remote",
			  "check its projects and excludeProjects",
			  "%s matches no repository here",
			  check_push_get_text(remote, "name"));
	}
	check_push_visit_each(checking, json_object_get(remote, "notes"),
			      report_plain_note);
}

static void add_names(const json_t *names, struct str *out)
{
	for (size_t i = 0; i < json_array_size(names); i++)
		str_addf(out, "%s%s", i > 0 ? " and " : "",
			 json_string_value(json_array_get(names, i)));
}

/* Two repositories; or one, by two remotes. */
static void report_collision(struct checking *checking, const json_t *collision)
{
	const json_t *names = json_object_get(collision, "names");
	AUTO_STR struct str text = STR_INIT;

	add_names(names, &text);
	str_add(&text, " by ");
	add_names(json_object_get(collision, "remotes"), &text);
	check_say(checking, json_array_size(names) > 1 ? CHECK_WRONG : CHECK_NOTE,
		  "remote",
		  "give the remote another URL or remoteNameStyle, or leave one out with "
		  "excludeProjects",
		  "%s would be pushed to the same place, %s", text.data,
		  check_push_get_text(collision, "uri"));
}

static void check_push_report_failure(struct checking *checking, const json_t *failure)
{

	check_say(checking, CHECK_WRONG, "remote", "", "%s has no destination for %s: %s",
		  check_push_get_text(failure, "remote"),
		  check_push_get_text(failure, "name"),
		  check_push_get_text(failure, "failure"));
}

/* The first that is met: they are all of one kind. */
static void check_loops(struct checking *checking, const struct push_settings *settings,
			const text_list *names)
{
	AUTO_DESTINATIONS destination_list list = { 0 };
	struct err err;

	for (size_t i = 0; i < names->count; i++)
		destinations_of(settings, names->items[i], &list);
	for (size_t i = 0; i < list.count; i++) {
		if (destination_check_loop(settings, checking->site.repositories,
					   &list.items[i], &err) == 0)
			continue;
		check_report(checking, CHECK_WRONG, "remote", &err);
		return;
	}
}

static void check_push_explain_settings(struct checking *checking,
					const struct push_settings *settings)
{
	text_list names = { 0 };
	json_auto_t *said = NULL;

	/* That they cannot be read was said before. */
	push_select(checking->site.repositories, NULL, 0, &names, ERR_IGNORED);
	said = push_settings_explain(settings, (const char *const *)names.items,
				     names.count);
	check_push_visit_each(checking, json_object_get(said, "remotes"),
			      check_push_explain_remote);
	check_push_visit_each(checking, json_object_get(said, "collisions"),
			      report_collision);
	check_push_visit_each(checking, json_object_get(said, "failures"),
			      check_push_report_failure);
	check_push_visit_each(checking, json_object_get(said, "notes"),
			      report_plain_note);
	check_loops(checking, settings, &names);
	text_list_clear(&names);
}

/* 0: it can be taken and given back. */
static int check_push_try_lease(struct lease_manager *leases, struct err *err)
{
	struct lease *lease = NULL;

	if (lease_acquire(leases,
			  &(struct lease_request){ .key = "push:check",
						   .operation = "check",
						   .wait_ms = 5000 },
			  &lease, err) != 0 ||
	    lease_check(lease, err) != 0) {
		lease_release(lease);
		return -1;
	}
	lease_release(lease);
	return 0;
}

static void report_orphans(struct checking *checking, const struct queue_view *view)
{
	const struct queued_uri *example = NULL;
	size_t orphans = 0;

	for (size_t i = 0; i < view->uris.count; i++)
		if (view->uris.items[i].is_orphan) {
			example = &view->uris.items[i];
			orphans++;
		}
	if (orphans > 0)
		check_say(checking, CHECK_NOTE, "tasks",
			  "put the remote back, or drop them: refrelay push discard "
			  "--orphans",
			  "%zu destination%s in the task store without a remote, e.g. %s "
			  "of remote %s",
			  orphans, orphans == 1 ? " is" : "s are", example->uri,
			  example->remote);
}

static void check_dead_letters(struct checking *checking, const struct queue_view *view)
{

	if (view->letters.count == 0)
		return;
	check_say(checking, CHECK_NOTE, "tasks",
		  "see refrelay push queue --failed; then push retry or discard",
		  "%zu task%s given up, e.g. %s: %s", view->letters.count,
		  view->letters.count == 1 ? " was" : "s were",
		  view->letters.items[0].task.project, view->letters.items[0].why.text);
}

static void report_unreadable(struct checking *checking, const struct queue_view *view)
{

	if (view->unreadable.count > 0)
		check_say(checking, CHECK_NOTE, "tasks",
			  "check their owner and mode; inspect what is no task, push "
			  "those repositories again, then remove the files: refrelay "
			  "push discard --unreadable",
			  "%zu file%s no task or cannot be read, e.g. %s",
			  view->unreadable.count,
			  view->unreadable.count == 1 ? " is" : "s are",
			  view->unreadable.example);
}

/* In running/, and nobody works on them: a node takes them when it starts, or soon. */
static void report_stuck(struct checking *checking, const struct queue_view *view)
{
	size_t stuck = 0;

	for (size_t i = 0; i < view->uris.count; i++)
		stuck += view->uris.items[i].running > 0 &&
			 !view->uris.items[i].is_running;
	if (stuck > 0)
		check_say(checking, CHECK_NOTE, "tasks",
			  "none needed if a node is running: it resumes them",
			  "%zu push%s started by a node that no longer runs", stuck,
			  stuck == 1 ? " was" : "es were");
}

static void check_push_queue(struct checking *checking, const struct queue_view *view,
			     const char *directory)
{

	check_say(checking, CHECK_GOOD, "tasks", "", "%s: %zu destination%s in the queue",
		  directory, view->uris.count, view->uris.count == 1 ? "" : "s");
	report_stuck(checking, view);
	report_orphans(checking, view);
	check_dead_letters(checking, view);
	report_unreadable(checking, view);
	if (view->nodes.count > 0)
		return;
	check_say(checking, CHECK_NOTE, "tasks", "start the node: refrelay serve",
		  "no node of the cluster is running: nothing is pushed");
}

static void check_store(struct checking *checking, const struct push_settings *settings)
{
	struct push_observation observation;
	struct queue_view view = { 0 };
	struct err err;

	if (push_site_look(settings, checking->site.data, &observation, &err) != 0 ||
	    task_store_check_writable(observation.tasks, &err) != 0 ||
	    queue_view_read(observation.tasks, observation.leases, settings, &view,
			    &err) != 0)
		check_report(checking, CHECK_WRONG, "tasks", &err);
	else
		check_push_queue(checking, &view, settings->directory);
	if (observation.why_not.class != ERR_NONE)
		check_report(checking, CHECK_WRONG, "push leases", &observation.why_not);
	else if (observation.leases &&
		 check_push_try_lease(observation.leases, &err) != 0)
		check_report(checking, CHECK_WRONG, "push leases", &err);
	else if (observation.leases)
		check_say(checking, CHECK_GOOD, "push leases", "", "%s/leases works",
			  settings->directory);
	queue_view_clear(&view);
	push_observation_close(&observation);
}

static bool is_administered(const struct push_remote *remote, size_t which)
{
	AUTO_DESTINATION struct destination destination = { 0 };
	AUTO_DESTINATIONS destination_list admins = { 0 };
	bool result = true;

	if (destination_make(remote, which, "x", &destination, ERR_IGNORED) != 0 ||
	    destination_admin(&destination, &admins, ERR_IGNORED) != 0)
		return true; /* that was said before */
	for (size_t i = 0; i < admins.count; i++)
		result &= target_has_way(&admins.items[i]);
	return result;
}

static void check_administration(struct checking *checking,
				 const struct push_settings *settings)
{
	struct err err;

	for (size_t i = 0; i < settings->remotes.count; i++) {
		const struct push_remote *remote = &settings->remotes.items[i];
		size_t which = 0;
		while (which < remote->urls.count && is_administered(remote, which))
			which++;
		if (which == remote->urls.count)
			continue;
		err_set(&err, ERR_CONFIG,
			"%s: only refs are pushed to %s: repositories are not created or "
			"deleted there, and HEAD is not set",
			remote->name, remote->urls.items[which].template);
		err_remedy(&err,
			   "set remote.%.80s.adminUrl to an ssh, gerrit+ssh or "
			   "gerrit+https URL, or do it there yourself",
			   remote->name);
		check_report(checking, CHECK_NOTE, "remote", &err);
	}
}

static bool uses_ssh(const struct push_settings *settings)
{
	for (size_t i = 0; i < settings->remotes.count; i++) {
		const struct push_remote *remote = &settings->remotes.items[i];
		for (size_t k = 0; k < remote->urls.count; k++) {
			AUTO_DESTINATION struct destination destination = { 0 };
			if (destination_make(remote, k, "x", &destination, ERR_IGNORED) ==
				    0 &&
			    destination.kind == URL_SSH)
				return true;
		}
	}
	return false;
}

static void check_ssh(struct checking *checking, const struct push_settings *settings)
{
	static const char *const argv[] = { "ssh", "-V", NULL };
	AUTO_STR struct str output = STR_INIT;
	struct err err;

	if (!uses_ssh(settings))
		return;
	if (proc_run(&(struct proc_request){ .argv = argv,
					     .output = &output,
					     .output_limit = 4096,
					     .timeout_ms = 10000 },
		     NULL, &err) != 0) {
		err_remedy(&err, "install openssh-client");
		check_report(checking, CHECK_WRONG, "ssh", &err);
		return;
	}
	check_say(checking, CHECK_GOOD, "ssh", "", "can be started");
}

static void check_mirrors_credentials(struct checking *checking,
				      const struct mirrors *mirrors)
{
	for (size_t i = 0; i < mirrors->watchers.count; i++) {
		const struct watcher *one = &mirrors->watchers.items[i];
		const char *file = one->token_file ? one->token_file : one->password_file;
		AUTO_STR struct str secret = STR_INIT;
		struct err err;
		if (file && upstream_read_secret(file, &secret, &err) != 0)
			check_report(checking, CHECK_WRONG, "watcher", &err);
		str_wipe(&secret);
	}
}

static int check_mirrors_look_at_then(const struct mirror *mirror, struct err *err)
{
	AUTO_TEXT_LIST text_list words = { 0 };
	struct str secret = STR_INIT;
	int result = 0;

	if (mirror->then_secret_file)
		result = upstream_read_secret(mirror->then_secret_file, &secret, err);
	str_wipe(&secret);
	if (result != 0 || !mirror->then || then_is_webhook(mirror->then))
		return result;
	if (then_split(mirror->then, &words, err) != 0)
		return -1;
	return access(words.items[0], X_OK) == 0
		       ? 0
		       : err_errno(err, "the mirror %s cannot run %s", mirror->name,
				   words.items[0]);
}

/* Those who are told of changes. */
static void check_mirrors_then(struct checking *checking, const struct mirrors *mirrors)
{
	struct err err;

	for (size_t i = 0; i < mirrors->sections.count; i++)
		if (check_mirrors_look_at_then(mirrors->sections.items[i], &err) != 0)
			check_report(checking, CHECK_WRONG, "mirror", &err);
}

static void check_mirrors_list(struct checking *checking, const struct mirror_list *list)
{
	size_t count;
	struct err err;

	if (list_reader_try(list, &count, &err) != 0) {
		err_prefix(&err, "the list %s", list->name);
		check_report(checking, CHECK_WRONG, "mirrors", &err);
		return;
	}
	check_say(checking, CHECK_GOOD, "mirrors", "",
		  "the list %s can be read; %zu repositories to mirror on its first page",
		  list->name, count);
}

static void check_mirrors_ca_files(struct checking *checking,
				   const struct mirrors *mirrors)
{
	struct err err;

	for (size_t i = 0; i < mirrors->sections.count; i++) {
		const struct mirror *mirror = mirrors->sections.items[i];
		if (!mirror->ca_file || access(mirror->ca_file, R_OK) == 0)
			continue;
		err_errno(&err, "the mirror %s cannot read %s", mirror->name,
			  mirror->ca_file);
		check_report(checking, CHECK_WRONG, "mirror", &err);
	}
}

void check_checkouts(struct checking *checking, struct store *store)
{
	AUTO_MIRRORS struct mirrors mirrors = { 0 };
	struct err err;

	if (mirrors_read(checking->conf, &mirrors, ERR_IGNORED) != 0 ||
	    listed_load(store, &mirrors, ERR_IGNORED) != 0)
		return;
	for (const struct mirror *mirror = NULL;
	     (mirror = mirrors_next(&mirrors, mirror)) != NULL;) {
		AUTO_MIRROR_CHECKOUT struct mirror_checkout row = { 0 };
		if (!mirror->has_checkout ||
		    mirror_checkout_read(store, mirror->name, &row, ERR_IGNORED) <= 0 ||
		    row.failing_since == 0)
			continue;
		err_set(&err, err_class_of_name(row.class), "the working tree of %s: %s",
			mirror->name, row.message);
		if (row.remedy)
			err_remedy(&err, "%s", row.remedy);
		check_report(checking, CHECK_WRONG, "mirror", &err);
	}
}

void check_mirrors(struct checking *checking)
{
	AUTO_MIRRORS struct mirrors mirrors = { 0 };

	/* Else the configuration has been called wrong already. */
	if (mirrors_read(checking->conf, &mirrors, ERR_IGNORED) != 0) {
		checking->has_mirrors = true;
		return;
	}
	checking->has_mirrors = mirrors_are_any(&mirrors);
	if (checking->has_mirrors)
		check_say(checking, CHECK_GOOD, "mirrors", "", "%zu, with %zu watchers",
			  mirrors.sections.count, mirrors.watchers.count);
	check_mirrors_credentials(checking, &mirrors);
	check_mirrors_then(checking, &mirrors);
	check_mirrors_ca_files(checking, &mirrors);
	for (size_t i = 0; i < mirrors.lists.count; i++)
		check_mirrors_list(checking, mirrors.lists.items[i]);
}

/* A site that stands alone is there for nothing else, but for mirrors. */
static void check_push_check_remotes(struct checking *checking,
				     const struct push_settings *settings)
{
	bool stands_alone =
		checking->site.role == SITE_STANDALONE && !checking->has_mirrors;
	struct err err;

	if ((settings || stands_alone) &&
	    push_site_check_remotes(&checking->site, settings, &err) != 0)
		check_report(checking, stands_alone ? CHECK_WRONG : CHECK_NOTE, "push",
			     &err);
}

/* By names: whether it is cut already does not matter. */
static void check_push_mirror(struct checking *checking,
			      const struct push_settings *settings,
			      const struct mirror *mirror)
{
	struct err err;

	for (size_t i = 0; mirror->depth > 0 && i < settings->remotes.count; i++) {
		const char *remote = settings->remotes.items[i].name;
		if (!push_remote_takes(&settings->remotes.items[i], mirror->name))
			continue;
		err_set(&err, ERR_CONFIG,
			"%s: the mirror %s has a depth of %" PRIu64
			"; shallow repositories cannot be pushed",
			remote, mirror->name, mirror->depth);
		err_remedy(&err,
			   "leave it out of remote.%.80s.projects, or set its depth to 0",
			   remote);
		check_report(checking, CHECK_WRONG, "remote", &err);
	}
}

static void check_push_mirrors(struct checking *checking,
			       const struct push_settings *settings)
{
	AUTO_MIRRORS struct mirrors mirrors = { 0 };
	struct site_data data = { 0 };

	if (mirrors_read(checking->conf, &mirrors, ERR_IGNORED) != 0)
		return; /* check_mirrors() says so */
	if (mirrors.lists.count > 0 &&
	    site_data_open_to_read(checking->site.data, &data, ERR_IGNORED) == 0)
		listed_load(data.store, &mirrors, ERR_IGNORED);
	site_data_close(&data);
	for (const struct mirror *mirror = NULL;
	     (mirror = mirrors_next(&mirrors, mirror)) != NULL;)
		check_push_mirror(checking, settings, mirror);
}

void check_push(struct checking *checking)
{
	struct push_settings *settings = NULL;
	struct err err;

	if (!push_is_configured(checking->conf)) {
		check_push_check_remotes(checking, NULL);
		return;
	}
	if (push_settings_read(checking->conf, checking->site.data, &settings, &err) !=
	    0) {
		check_report(checking, CHECK_WRONG, "push", &err);
		return;
	}
	check_push_check_remotes(checking, settings);
	check_push_explain_settings(checking, settings);
	check_administration(checking, settings);
	check_push_mirrors(checking, settings);
	check_ssh(checking, settings);
	if (settings->remotes.count > 0 && site_check_apart(&checking->site, &err) == 0) {
		check_store(checking, settings);
		check_say(checking, CHECK_NOTE, "push", "",
			  "destinations are not contacted; to test one: refrelay push "
			  "start --wait NAME");
	}
	push_settings_unref(settings);
}

static bool writes(const struct checking *checking)
{
	return checking->site.role == SITE_SECONDARY;
}

static int try_kind(const struct checking *checking, const struct kind *kind,
		    struct err *err)
{
	AUTO_CLOSE int root = kind->blobs ? blob_root_open(kind->blobs, err)
					  : dir_open(AT_FDCWD, kind->path, err);

	if (root < 0)
		return -1;
	if (access(kind->path, R_OK | X_OK | (writes(checking) ? W_OK : 0)) == 0)
		return 0;
	return err_errno(err, "blobs of type %s: %s cannot be %s", kind->type, kind->path,
			 writes(checking) ? "written" : "read");
}

/* Objects of LFS come through the server; other files may come by other ways. */
static void check_uploads(struct checking *checking, const struct kind *kind)
{
	struct err err;

	if (writes(checking) || kind_layout(kind) != BLOB_LFS ||
	    access(kind->path, W_OK) == 0)
		return;
	err_errno(&err, "blobs of type %s: %s cannot be written", kind->type, kind->path);
	err_remedy(&err, "let the node write there, or clients of LFS cannot upload");
	check_report(checking, CHECK_NOTE, "blobs", &err);
}

/* The type is only a name: the layout makes it Git LFS. */
static void check_layout(struct checking *checking, const struct kind *kind)
{
	if (kind->blobs && strcasecmp(kind->type, "lfs") == 0 &&
	    kind_layout(kind) != BLOB_LFS)
		check_say(checking, CHECK_NOTE, "blobs",
			  "set blob.lfs.layout = lfs, if these are Git LFS objects",
			  "blobs of type %s have the layout plain: no Git LFS is served",
			  kind->type);
}

static void check_kind(struct checking *checking, const struct kind *kind, void *arg)
{
	struct err err;

	(void)arg;
	if (!kind->path)
		return;
	check_layout(checking, kind);
	if (writes(checking) && access(kind->path, F_OK) != 0 && errno == ENOENT) {
		check_say(checking, CHECK_NOTE, "blobs", "",
			  "blobs of type %s: %s does not exist yet: serve will create it",
			  kind->type, kind->path);
		return;
	}
	if (try_kind(checking, kind, &err) != 0) {
		check_report(checking, CHECK_WRONG, "blobs", &err);
		return;
	}
	check_say(checking, CHECK_GOOD, "blobs", "", "of type %s: %s can be %s",
		  kind->type, kind->path, writes(checking) ? "written" : "read");
	check_uploads(checking, kind);
	check_room(checking, "blobs", kind->path);
}

static void each_kind(struct checking *checking, void *arg,
		      void (*look)(struct checking *checking, const struct kind *kind,
				   void *arg))
{
	AUTO_KINDS struct kinds_here here = { 0 };
	const struct kind *kind = NULL;

	/* what is wrong with the sections was said before */
	if (kinds_read(checking->conf, &here, ERR_IGNORED) != 0)
		return;
	while ((kind = kinds_next(&here, kind)) != NULL)
		if (!kind_is_repository(kind->type))
			look(checking, kind, arg);
}

void check_blobs_directories(struct checking *checking)
{
	each_kind(checking, NULL, check_kind);
}

struct reading {
	const char *type;
	struct scan_record record;
};

static int read_record(struct store_tx *tx, void *arg, struct err *err)
{
	struct reading *reading = arg;

	return scan_record_read(tx, reading->type, &reading->record, err);
}

/* What the node said last is true only while it runs. */
static int judge_scan(const struct checking *checking, struct store *store,
		      const struct kind *kind, struct err *err)
{
	struct reading reading = { .type = kind->type };

	if ((kind->blobs && blob_notice_judge_root(store, kind->blobs, err) != 0) ||
	    store_read(store, read_record, &reading, err) != 0)
		return -1;
	if (reading.record.failing_since == 0 || !data_lock_is_held(checking->site.data))
		return 0;
	*err = reading.record.failure;
	return -1;
}

static void look_at_root(struct checking *checking, const struct kind *kind, void *arg)
{
	bool is_copy = checking->site.role == SITE_SECONDARY;
	struct store *store = arg;
	struct leftovers_found found;
	struct err err;

	if (is_copy && kind->path &&
	    leftovers_count(store, kind, &found, ERR_IGNORED) == 0)
		check_foreign(checking, kind->type, &found);
	if (is_copy && kind->path && kind->copies)
		check_copies(checking, store, kind);
	else if (!is_copy && kind->origin && judge_scan(checking, store, kind, &err) != 0)
		check_report(checking, CHECK_WRONG, "blobs", &err);
}

void check_blob_roots(struct checking *checking, struct store *store)
{
	each_kind(checking, store, look_at_root);
}

static const char *layout_name(enum blob_layout layout)
{
	return layout == BLOB_LFS ? "lfs" : "plain";
}

static void compare_kind(struct checking *checking, const struct kind *kind, void *arg)
{
	const struct blob_kind *its = blob_kinds_find(arg, kind->type);
	const enum blob_layout ours = kind_layout(kind);
	struct err err;

	if (!its) {
		err_set(&err, ERR_CONFIG, "the primary has no blob type %s", kind->type);
		err_remedy(&err, "configure the same blob types at both sites");
	} else if (its->layout != ours) {
		err_set(&err, ERR_CONFIG,
			"blobs of type %s have the layout %s here and %s at the primary",
			kind->type, layout_name(ours), layout_name(its->layout));
		err_remedy(&err, "set blob.%s.layout to the same value at both sites",
			   kind->type);
	} else {
		return;
	}
	check_report(checking, CHECK_WRONG, "blobs", &err);
}

/* A site need not follow all that there is; its primary tells what it lacks. */
static void check_blobs_note_missing_kinds(struct checking *checking,
					   const struct blob_kinds *theirs)
{
	AUTO_KINDS struct kinds_here ours = { 0 };
	struct err err;

	if (kinds_read(checking->conf, &ours, ERR_IGNORED) != 0)
		return;
	for (size_t i = 0; i < theirs->items.count; i++) {
		const char *type = theirs->items.items[i].type;
		if (kinds_find(&ours, type))
			continue;
		err_set(&err, ERR_MISSING,
			"the primary has blobs of type %s, which are not copied", type);
		if (blob_type_is_valid(type))
			err_remedy(&err, "to copy them, set blob.%s.path here", type);
		else
			err_remedy(&err, "to copy them, configure them here, too");
		check_report(checking, CHECK_NOTE, "blobs", &err);
	}
}

/* Maybe it is misspelt: then this site says that it is not in sync. */
void check_blobs_left_out(struct checking *checking, const char *site)
{
	AUTO_KINDS struct kinds_here ours = { 0 };
	const struct conf_list *all =
		conf_get_all(checking->conf, "secondary", site, "leavesOut");
	const char *type = NULL;

	if (all->count == 0 || kinds_read(checking->conf, &ours, ERR_IGNORED) != 0)
		return;
	for (size_t i = 0; i < all->count; i++)
		if (conf_read_text(all->items[i], &type, ERR_IGNORED) == 0 && type &&
		    !blob_kinds_find(&ours.blobs, type))
			check_say(checking, CHECK_NOTE, "blobs", "correct or remove it",
				  "secondary.%s.leavesOut: there are no blobs of type "
				  "%s here",
				  site, type);
}

void check_blobs_of_primary(struct checking *checking, struct blob_kinds *theirs)
{
	each_kind(checking, theirs, compare_kind);
	check_blobs_note_missing_kinds(checking, theirs);
}
