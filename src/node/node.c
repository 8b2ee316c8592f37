#include "node/node.h"

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hook_wire.h"
#include "base/log.h"
#include "change/hook_install.h"
#include "change/hook_socket.h"
#include "change/recorded_refs.h"
#include "change/watch.h"
#include "cli/push.h"
#include "cli/site.h"
#include "cli/site_tree.h"
#include "mirror/list_reader.h"
#include "mirror/listed.h"
#include "mirror/then_teller.h"
#include "node/alerts.h"
#include "node/node_push.h"
#include "node/role.h"
#include "node/settings.h"
#include "pull/kinds.h"
#include "pull/mirror_job.h"
#include "pull/mirror_lfs.h"
#include "pull/pull.h"
#include "replicable/name.h"
#include "report/followers.h"
#include "report/lag_curve.h"
#include "report/vitals.h"
#include "store/data_lock.h"
#include "upkeep/copies_root.h"
#include "upkeep/trash.h"
#include "verify/verify_origin.h"
#include "web/access.h"
#include "web/api.h"
#include "web/services.h"
#include "web/web_server.h"

struct node_life {
	const struct node_settings *settings; /* borrowed, as the store */
	struct store *store;
	struct vitals *vitals;
	struct followers *followers; /* of a primary, else NULL */
	struct lag_curve *lag_curve;
	char name[33]; /* of this run, as the primary is told */
};

/* Pull's copies are written to; what else is there is others' business. */
static void node_life_start(const struct node_settings *settings, struct store *store,
			    struct node_life *life)
{
	const bool is_copy = settings->site.role == SITE_SECONDARY;

	life->settings = settings;
	life->store = store;
	random_hex(life->name, (sizeof(life->name) - 1) / 2);
	life->vitals = vitals_start(
		&(struct vitals_options){ .store = store,
					  .data = settings->site.data,
					  .here = is_copy ? &settings->kinds : NULL });
	if (settings->site.role == SITE_PRIMARY)
		life->followers = followers_new();
}

static void node_life_add(struct node_life *life, const struct web_services *services)
{
	vitals_add(life->vitals,
		   &(struct vitals_parts){ .pull = services->pull,
					   .watch = services->watch,
					   .blob_watch = services->blob_watch,
					   .here = &life->settings->kinds,
					   .followers = life->followers,
					   .leases = services->leases });
}

/* When all of those have ended. Without a start it does nothing. */
static void node_life_stop(struct node_life *life)
{
	vitals_stop(life->vitals);
	followers_free(life->followers);
}

static int node_life_leave_out(struct followers *followers, const struct conf *conf,
			       const char *site, struct err *err)
{
	struct secondary_settings settings;
	int result = secondary_settings_read(conf, site, &settings, err);

	if (result == 0)
		followers_leave_out(followers, site, &settings.leaves_out);
	secondary_settings_clear(&settings);
	return result;
}

/* The sections [secondary] are those that are to ask. */
static int node_life_expect(struct node_life *life, const struct conf *conf,
			    struct err *err)
{
	struct conf_names names = { 0 };
	int result;

	if (!life->followers)
		return 0;
	conf_subsections(conf, "secondary", &names);
	result = followers_expect(life->followers, life->store, names.items, names.count,
				  err);
	/* A reload goes on with the new sections, whatever could not be written. */
	for (size_t i = 0; i < names.count; i++)
		if (node_life_leave_out(life->followers, conf, names.items[i],
					result == 0 ? err : ERR_IGNORED) != 0)
			result = -1;
	vec_clear(&names);
	return result;
}

/* pull_options.report; arg: the struct node_life. */
static int node_life_report(void *arg, struct str *out, bool *is_good, struct err *err)
{
	struct node_life *life = arg;
	const struct node_settings *settings = life->settings;
	struct vital_signs signs;
	struct report report;

	vitals_look(life->vitals, &signs);
	const struct report_options options = { .role = settings->site.role,
						.site = settings->site.name,
						.data = settings->site.data,
						.here = &settings->kinds,
						.store = life->store,
						.signs = &signs,
						.is_brief = true,
						.leaves_out_tasks = true };
	int result = report_make(&options, &report, err);

	if (result == 0) {
		report_for_primary(&report, life->name, out);
		*is_good = report_is_good(&report);
	}
	report_clear(&report);
	vital_signs_clear(&signs);
	return result;
}

void notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	AUTO_CLOSE int fd = -1;
	size_t len = path ? strlen(path) : 0;

	if (len < 2 || len >= sizeof(address.sun_path) || !strchr("/@", path[0]))
		return;
	memcpy(address.sun_path, path, len);
	if (path[0] == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	(void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT,
		      (const struct sockaddr *)&address,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
}

void notify_reloading(void)
{
	struct timespec now;
	char text[80];

	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%lld",
		 (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
	notify(text);
}

/* At a stop, for what goes on. */
enum { HTTP_GRACE_MS = 800, PULL_GRACE_MS = 500, DRAIN_MS = 5000 };

struct node {
	struct node_settings settings;
	int lock;
	VEC(int) root_locks;    /* as the kinds */
	struct tree_node *tree; /* NULL: others are not told of it there */
	struct site_data data;
	struct access *access;
	struct buckets *buckets;
	struct hook_place hooks; /* no program: it was not found */
	struct hook_socket *socket;
	struct node_push push;
	/* What sees changes; a secondary that does not push has none of these. */
	struct event_log *events;
	struct notice *notice;
	struct watch *watch;
	struct kinds_here mirrors;         /* none, if there are no mirrors */
	struct credential_marks *marks;    /* theirs */
	struct list_readers *list_readers; /* likewise */
	struct checkouts_trash
		*checkouts_trash; /* of a secondary; NULL: there are none */
	struct mirror_lfs_parts mirror_lfs;
	struct then_teller *teller;   /* NULL: nobody is told of what they bring */
	struct web_services services; /* all parts; those of the other role are NULL */
	struct web_server *server;
	struct node_life life;
	struct alerter *alerter; /* NULL: there are no alerts */
	int64_t started_at;      /* boot ms */
};

/* Something was put into the database by a command or an operator's request. */
static void node_wake_services(void *arg)
{
	struct node *node = arg;

	if (node->events)
		event_log_wake(node->events, NULL);
	if (node->services.verify_origin)
		verify_origin_wake(node->services.verify_origin);
	if (node->services.pull)
		pull_wake(node->services.pull);
	if (node->services.mirror_pull)
		pull_wake(node->services.mirror_pull);
	if (node->push.push)
		push_wake(node->push.push);
}

static const char *node_say_mirrors(void *arg)
{
	struct pull *pull = ((struct node *)arg)->services.mirror_pull;

	if (!pull)
		return HOOK_NO_MIRRORS;
	return pull_settings_now(pull).repository_capacity > 0 ? HOOK_MIRRORS
							       : HOOK_NO_WORKERS;
}

static void say_alive(void *arg, struct str *answer)
{
	struct node *node = arg;

	vitals_say(node->life.vitals, answer);
}

static void copy_changed(void *arg, const char *name)
{
	struct node *node = arg;

	pull_copy_changed(node->services.pull, name);
}

/* Without the program copies get no hooks, and hooks are not looked at. */
static const struct hook_place *hooks_of(const struct node *node)
{
	return node->hooks.program ? &node->hooks : NULL;
}

static void find_hooks(struct node *node)
{
	const struct site *site = &node->settings.site;
	bool is_copy = site->role == SITE_SECONDARY;
	struct err err;

	if (hook_place_find(site->data, is_copy ? HOOKS_OF_COPY : HOOKS_OF_ORIGIN,
			    &node->hooks, &err) != 0)
		log_warn("hooks.no_program", LOG_ERR(&err),
			 LOG_TEXT("remedy", err.remedy));
	node->hooks.is_quick = true;
	node->hooks.accepts_others = site_shares_tree(site);
}

static int open_notice(struct node *node, struct err *err)
{
	const struct node_settings *settings = &node->settings;
	struct notice_options options = { .store = node->data.store,
					  .root = settings->site.repositories,
					  .data = settings->site.data,
					  .verifies = settings->site.role == SITE_PRIMARY,
					  .reverify_ms = settings->pull.reverify_ms,
					  .kinds = &settings->kinds };

	if (event_log_open(node->data.store, settings->site.data, &node->events, err) !=
	    0)
		return -1;
	options.log = node->events;
	if (node->push.sink)
		options.sink = push_sink_as_change_sink(node->push.sink);
	if (settings->site.role == SITE_SECONDARY)
		options.check_copies = copies_root_check;
	else
		options.hooks = hooks_of(node);
	node->notice = notice_new(&options);
	node->push.notice = node->notice;
	return 0;
}

/* The primary's half of all kinds that have one, repositories first. The caller frees. */
static struct origin_kind *node_origin_kinds(const struct node *node, size_t *count)
{
	const struct kinds_here *here = &node->settings.kinds;
	struct origin_kind *kinds = xcalloc(here->all.count, sizeof(*kinds));
	const struct kind *kind = NULL;

	*count = 0;
	while ((kind = kinds_next(here, kind)) != NULL)
		if (kind->origin)
			kinds[(*count)++] = notice_kind(node->notice, kind);
	return kinds;
}

/* What a site that was a secondary has put there: it has no pull that would do it. */
static void node_tend_trash(const struct origin_kind *kind)
{
	if (kind->of.path)
		trash_expire(kind->of.path);
}

/* Of repositories, and of the site as a whole. */
static void start_watch(struct node *node)
{
	const struct node_settings *settings = &node->settings;
	size_t count;
	AUTO_FREE struct origin_kind *kinds = node_origin_kinds(node, &count);

	node->watch = watch_start(&(struct watch_options){
		.thread = "watch",
		.kinds = kinds,
		.kind_count = 1,
		.notice = node->notice,
		.store = node->data.store,
		.data = settings->site.data,
		.scan_interval_ms = settings->pull.scan_interval_ms,
		.tend = settings->site.role == SITE_SECONDARY ? NULL : node_tend_trash,
		.keep_ms = settings->keep_for_ms,
		.keep_count = settings->keep_number });
}

/* What cannot be noticed now is found by the next scan. */
static void published(void *arg, const char *name)
{
	struct node *node = arg;
	AUTO_NOTICED struct noticed noticed;
	struct err err;

	if (notice_compare_hint(node->notice, name, &noticed, &err) != 0 &&
	    err.class != ERR_MISSING)
		log_warn("sync.not_noticed", LOG_ERR(&err));
}

static bool node_mirror_stands(void *arg, const char *name, const char *checksum)
{
	const struct node *node = arg;

	return mirror_job_stands(node->settings.site.repositories, name, checksum);
}

static void node_wake_mirrors(void *arg)
{
	struct node *node = arg;

	pull_wake(node->services.mirror_pull);
}

static struct mirror_checkout_site node_checkouts(const struct node *node)
{
	return (struct mirror_checkout_site){
		.store = node->data.store,
		.leases = node->data.leases,
		.root = node->settings.site.repositories,
		.timeout_ms = node->settings.pull.timeout_ms,
	};
}

/* What they bring is noticed like any other change. */
static int start_mirrors(struct node *node, struct err *err)
{
	const struct node_settings *settings = &node->settings;
	struct web_services *services = &node->services;

	node->teller = then_teller_start(
		&(struct then_teller_options){ .mirrors = &settings->mirrors,
					       .data = settings->site.data,
					       .root = settings->site.repositories });
	if (!mirrors_are_any(&settings->mirrors))
		return mirror_poll_forget(node->data.store, err);
	kinds_fill_mirrors(&node->mirrors, settings->site.repositories);
	/* A job that begins before its mirror is known would end its request. */
	if (credential_marks_open(node->data.store, &node->marks, err) != 0 ||
	    listed_load(node->data.store, &settings->mirrors, err) != 0)
		return -1;
	node->mirror_lfs =
		(struct mirror_lfs_parts){ .names = services->lfs_names,
					   .notice = node->notice,
					   .kind = kinds_find_lfs(&settings->kinds) };
	if (pull_start(&(struct pull_options){ .store = node->data.store,
					       .leases = node->data.leases,
					       .lfs = services->lfs_names
							      ? &node->mirror_lfs
							      : NULL,
					       .mirrors = &settings->mirrors,
					       .marks = node->marks,
					       .teller = node->teller,
					       .here = &node->mirrors,
					       .settings = settings->pull,
					       .published = published,
					       .arg = node },
		       &services->mirror_pull, err) != 0)
		return -1;
	services->mirrors = &settings->mirrors;
	if (mirror_poll_start(
		    &(struct mirror_poll_options){ .store = node->data.store,
						   .mirrors = &settings->mirrors,
						   .root = settings->site.repositories,
						   .marks = node->marks,
						   .checkouts = node_checkouts(node),
						   .wake = node_wake_mirrors,
						   .stands = node_mirror_stands,
						   .arg = node },
		    &services->mirror_poll, err) != 0)
		return -1;
	node->list_readers = list_readers_start(
		&(struct list_readers_options){ .store = node->data.store,
						.mirrors = &settings->mirrors,
						.poll = services->mirror_poll,
						.root = settings->site.repositories,
						.source = mirror_job_source });
	return 0;
}

/* Repositories of a site that stands alone are verified nowhere; objects of LFS are, as
 * no git reads them. */
static void start_verify(struct node *node)
{
	const struct node_settings *settings = &node->settings;
	size_t count;
	AUTO_FREE struct origin_kind *kinds = node_origin_kinds(node, &count);
	const size_t first = settings->site.role == SITE_PRIMARY ? 0 : 1;

	if (count <= first)
		return;
	node->services.verify_origin =
		verify_origin_start(&(struct verify_origin_options){
			.store = node->data.store,
			.kinds = kinds + first,
			.kind_count = count - first,
			.capacity = settings->pull.verification_capacity,
			.reverify_ms = settings->pull.reverify_ms,
			.timeout_ms = settings->pull.timeout_ms,
			.notice = node->notice });
}

/* What primaries and sites that stand alone have in common. */
static int start_origin(struct node *node, struct err *err)
{
	struct web_services *services = &node->services;

	if (open_notice(node, err) != 0)
		return -1;
	start_verify(node); /* before there is anything to notice */
	start_watch(node);
	services->pushes =
		pushes_new(node->settings.site.repositories, &node->settings.serve);
	services->events = node->events;
	services->notice = node->notice;
	services->watch = node->watch;
	return start_mirrors(node, err);
}

/* A reader's answer broke off. */
static void origin_is_doubted(void *arg, const char *name, const struct err *why)
{
	verify_origin_doubt(arg, name, why);
}

/* Of all other kinds. */
static void start_blob_watch(struct node *node)
{
	const struct node_settings *settings = &node->settings;
	size_t count;
	AUTO_FREE struct origin_kind *kinds = node_origin_kinds(node, &count);

	if (count > 1)
		node->services.blob_watch = watch_start(&(struct watch_options){
			.thread = "blob-watch",
			.kinds = kinds + 1,
			.kind_count = count - 1,
			.store = node->data.store,
			.scan_interval_ms = settings->pull.scan_interval_ms,
			.tend = node_tend_trash });
}

static int start_primary(struct node *node, struct err *err)
{
	struct web_services *services = &node->services;

	if (start_origin(node, err) != 0)
		return -1;
	serve_on_doubt(services->serve, origin_is_doubted, services->verify_origin);
	node->push.verify_origin = services->verify_origin;
	start_blob_watch(node);
	return 0;
}

/* A reader's answer broke off. */
static void node_doubt_copy(void *arg, const char *name, const struct err *why)
{
	if (err_is_of_data(why))
		pull_doubt(arg, KIND_REPOSITORY, name, why);
}

static int start_standalone(struct node *node, struct err *err)
{
	if (start_origin(node, err) != 0)
		return -1;
	start_blob_watch(node);
	return 0;
}

static int start_secondary(struct node *node, struct err *err)
{
	const struct node_settings *settings = &node->settings;
	struct web_services *services = &node->services;

	if (primary_open(settings->site.primary_url, &settings->key, &services->primary,
			 err) != 0)
		return err_prefix(err, "primary.url");
	primary_trust(services->primary, settings->site.primary_ca_file);
	primary_set_bandwidth(services->primary, settings->pull.bandwidth);
	if (node->push.sink && open_notice(node, err) != 0)
		return -1;
	const struct mirror_checkout_site checkouts = node_checkouts(node);
	if (pull_start(
		    &(struct pull_options){ .store = node->data.store,
					    .leases = node->data.leases,
					    .primary = services->primary,
					    .here = &settings->kinds,
					    .settings = settings->pull,
					    .fresh_for_ms = settings->serve.fresh_for_ms,
					    .scan_interval_ms =
						    settings->pull.scan_interval_ms,
					    .hooks = hooks_of(node),
					    .report = node_life_report,
					    .report_arg = &node->life,
					    .published = node->notice ? published : NULL,
					    .arg = node },
		    &services->pull, err) != 0 ||
	    checkouts_trash_start(&checkouts, &node->checkouts_trash, err) != 0)
		return -1;
	serve_on_doubt(services->serve, node_doubt_copy, services->pull);
	services->forwarder = forwarder_new(settings->site.name);
	forwarder_trust(services->forwarder, settings->site.primary_ca_file);
	services->forwarded_reads = git_forward_places(false);
	services->forwarded_pushes = git_forward_places(true);
	services->forwarded_files = git_forward_file_places();
	services->freshness = freshness_new(node->data.store, services->pull,
					    settings->serve.fresh_for_ms);
	if (node->notice) /* pull has judged the root, or made it */
		start_watch(node);
	return 0;
}

static void fill_services(struct node *node)
{
	const struct node_settings *settings = &node->settings;

	node->services.role = settings->site.role;
	node->services.site = settings->site.name;
	node->services.root = settings->site.repositories;
	node->services.data = settings->site.data;
	node->services.primary_url = settings->site.primary_url;
	if (settings->transport.url && settings->transport.url[0])
		node->services.url = settings->transport.url;
	node->services.serve = serve_start(settings->site.repositories, &settings->serve);
	node->services.here = &settings->kinds;
	node->services.store = node->data.store;
	node->services.vitals = node->life.vitals;
	node->services.followers = node->life.followers;
	node->services.leases = node->data.leases;
	node->services.access = node->access;
	node->services.manifest = manifest_book_new(settings->site.repositories);
	node->services.inventory_tags = inventory_tags_new(node->data.store);
	node->services.buckets = node->buckets;
	node->services.tasks = node->push.tasks;
	node->services.push_leases = node->push.leases;
	node->services.push_sink = node->push.sink;
}

/* Of nodes that were killed: the refs at data/refs, and of the LFS objects that were
 * looked for, at data/lfs/refs. */
static void node_sweep_data(const char *data)
{
	AUTO_FREE char *lfs = xasprintf("%s/lfs", data);

	recorded_refs_sweep(data);
	recorded_refs_sweep(lfs);
}

static int node_open_data(struct node *node, struct err *err)
{
	struct site *site = &node->settings.site;

	site->lease.is_of_node = true;
	if (site_data_check_owner(site->data, err) != 0 ||
	    site_data_make(site->data, err) != 0 ||
	    site_data_check(site->data, err) != 0 ||
	    data_lock_take(site->data, &node->lock, err) != 0)
		return -1;
	node_sweep_data(site->data);
	return site_data_open_locked(site, &node->data, err);
}

/* Only a secondary makes the tree: an empty one in its place would look like the deletion
 * of everything. Pull judges that of a secondary. */
static int node_check_root(const struct site *site, struct err *err)
{
	struct stat st;

	if (site->role == SITE_SECONDARY)
		return 0;
	if (stat(site->repositories, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;
	err_set(err, ERR_CONFIG, "site.repositories %s does not exist",
		site->repositories);
	return err_remedy(err, "create it, mount it, or correct the configuration");
}

/* May be done again: a directory may have been made only now. */
static int lock_roots(struct node *node, struct err *err)
{
	const struct site *site = &node->settings.site;
	const bool is_shared = site_shares_tree(site);
	const struct kind *kind = NULL;

	for (size_t i = 0; (kind = kinds_next(&node->settings.kinds, kind)) != NULL;
	     i++) {
		AUTO_FREE char *key = kind_key(kind);
		if (node->root_locks.count == i)
			vec_add(&node->root_locks, -1);
		if (!kind->path)
			continue;
		if (root_lock_take(key, kind->path,
				   is_shared && !kind->blobs ? ROOT_LOCK_SHARED
							     : ROOT_LOCK_ALONE,
				   &node->root_locks.items[i], err) != 0)
			return -1;
	}
	return 0;
}

static struct site_tree node_tree(const struct node_settings *settings)
{
	return (struct site_tree){ .site = &settings->site,
				   .has_mirrors = mirrors_are_any(&settings->mirrors) };
}

static int node_enter_tree(struct node *node, struct err *err)
{
	struct site_tree tree = node_tree(&node->settings);

	tree.leases = node->data.leases;
	return site_tree_enter(&tree, &node->tree, err);
}

static int node_check_tree(const struct node_settings *settings, struct err *err)
{
	const struct site_tree tree = node_tree(settings);

	return site_tree_check(&tree, NULL, NULL, err);
}

static void start_lfs(struct node *node)
{
	const struct node_settings *settings = &node->settings;
	const struct kind *kind = kinds_find_lfs(&settings->kinds);
	bool is_copy = settings->site.role == SITE_SECONDARY;

	if (!kind)
		return;
	node->services.lfs_names = lfs_names_start(&(struct lfs_names_options){
		.store = node->data.store,
		.root = settings->site.repositories,
		.data = settings->site.data,
		.kind = kind->type,
		.side = is_copy ? LFS_REGISTRY : LFS_ORIGIN });
}

static int start_role(struct node *node, struct err *err)
{
	switch (node->settings.site.role) {
	case SITE_PRIMARY:
		return start_primary(node, err);
	case SITE_SECONDARY:
		return start_secondary(node, err);
	case SITE_STANDALONE:
		break;
	}
	return start_standalone(node, err);
}

static int node_start_socket(struct node *node, struct err *err)
{
	const struct node_settings *settings = &node->settings;

	return hook_socket_start(
		&(struct hook_socket_options){
			.data = settings->site.data,
			.notice = node->services.notice,
			.blobs = settings->site.role != SITE_SECONDARY &&
						 settings->kinds.all.count > 1
					 ? node->notice
					 : NULL,
			.copies =
				node->services.pull ? settings->site.repositories : NULL,
			.copy_changed = copy_changed,
			.wake = node_wake_services,
			.mirrors = node_say_mirrors,
			.alive = say_alive,
			.arg = node },
		&node->socket, err);
}

/* Reading the tasks of very many destinations each minute would cost more than their
 * curves are worth. */
#define LAG_DESTINATIONS_MOST 2000

/* lag_curve_options.report; arg: the struct node. */
static int node_report_lag(void *arg, struct report *report, struct err *err)
{
	const struct web_services *services = &((struct node *)arg)->services;
	struct push_look look = { 0 };

	if (services->push)
		push_look(services->push, &look);
	return api_report(services,
			  look.waiting_uris + look.running <= LAG_DESTINATIONS_MOST
				  ? API_WHOLE
				  : API_WITHOUT_TASKS,
			  report, err);
}

static int node_start_parts(struct node *node, const struct conf *conf, struct err *err)
{
	const struct node_settings *settings = &node->settings;

	if (node_check_root(&settings->site, err) != 0 ||
	    node_open_data(node, err) != 0 || lock_roots(node, err) != 0 ||
	    node_enter_tree(node, err) != 0 ||
	    access_read(conf, settings->site.role == SITE_PRIMARY, &node->access, err) !=
		    0 ||
	    buckets_set(node->buckets, conf, err) != 0 ||
	    node_push_open(settings, &node->push, err) != 0)
		return -1;
	if (role_begin(node->data.store, settings->site.role, err) != 0)
		return -1;
	node_life_start(settings, node->data.store, &node->life);
	find_hooks(node);
	access_keep_nonces(node->access, settings->site.data);
	fill_services(node);
	start_lfs(node);
	if (hook_role_set(settings->site.data,
			  settings->site.role == SITE_SECONDARY
				  ? settings->site.primary_url
				  : NULL,
			  settings->site.repositories, err) != 0 ||
	    node_life_expect(&node->life, conf, err) != 0 || start_role(node, err) != 0 ||
	    lock_roots(node, err) != 0 || /* one may have been made only now */
	    node_push_start(settings, &node->push, err) != 0)
		return -1;
	node->services.push = node->push.push;
	node_life_add(&node->life, &node->services);
	if (node_start_socket(node, err) != 0)
		return -1;
	node->life.lag_curve = lag_curve_start(&(struct lag_curve_options){
		.store = node->data.store, .report = node_report_lag, .arg = node });
	return web_server_start(
		&(struct web_server_options){ .listen = settings->transport.listen,
					      .transport = &settings->transport,
					      .services = &node->services },
		&node->server, err);
}

static void log_started(const struct node *node)
{
	log_info("node.started", LOG_TEXT("site", node->settings.site.name),
		 LOG_TEXT("role", site_role_name(node->settings.site.role)),
		 LOG_TEXT("listen", node->settings.transport.listen),
		 LOG_NUMBER("port", web_server_port(node->server)));
}

static void node_report_unused_sections(const struct conf *conf, const struct node *node)
{
	struct err unused;

	if (site_has_unused(conf, node->settings.site.role, &unused))
		log_warn("node.unused_section", LOG_ERR(&unused),
			 LOG_TEXT("remedy", unused.remedy));
}

/* A site that stands alone is there for nothing else, but for mirrors. */
static void report_remotes(const struct node_settings *settings)
{
	struct err err;

	if ((settings->push || (settings->site.role == SITE_STANDALONE &&
				!mirrors_are_any(&settings->mirrors))) &&
	    push_site_check_remotes(&settings->site, settings->push, &err) != 0)
		log_warn("push.no_remote", LOG_ERR(&err), LOG_TEXT("remedy", err.remedy));
}

/* Anew after a reload: what they know is kept. */
static void node_start_alerts(struct node *node, const struct conf *conf,
			      struct node_settings *settings)
{
	const struct push_settings *push = node->settings.push;
	const struct node_alerts_place place = { .services = &node->services,
						 .push_data =
							 push ? push->directory : NULL,
						 .started_at = node->started_at };

	alerter_stop(TAKE(node->alerter));
	node->alerter = node_alerts_start(conf, settings, &place);
}

int node_start(const struct conf *conf, struct node **node, struct err *err)
{
	struct node *started = xcalloc(1, sizeof(*started));

	started->lock = -1;
	started->buckets = buckets_new();
	started->started_at = clock_boot_ms();
	if (node_settings_read(conf, &started->settings, err) != 0) {
		node_stop(started);
		return -1;
	}
	log_set_format((enum log_format)started->settings.log_format);
	if (node_start_parts(started, conf, err) == 0) {
		node_start_alerts(started, conf, &started->settings);
		log_started(started);
		node_report_unused_sections(conf, started);
		report_remotes(&started->settings);
		*node = started;
		return 0;
	}
	node_stop(started);
	return -1;
}

/* For a node that pushes, no word of push means that there are no remotes any more. */
static int node_read_settings_again(const struct node *node, const struct conf *conf,
				    struct node_settings *settings, struct err *err)
{
	if (node_settings_read(conf, settings, err) != 0)
		return -1;
	if (!node->push.push || settings->push)
		return 0;
	return push_settings_read(conf, settings->site.data, &settings->push, err);
}

/* A certificate that is over keeps nothing else from being set: a reload may be there to
 * revoke a right, and the one that is shown may be over, too. 1: so it is. */
static int node_set_transport(const struct node *node, const struct transport *transport)
{
	struct transport set = *transport; /* borrows */
	struct err err;

	if (transport_check_expiry(transport, &err) != 0) {
		log_error("node.certificate_expired", LOG_ERR(&err),
			  LOG_TEXT("remedy", err.remedy));
		set.identity = NULL;
	}
	web_server_set(node->server, &set);
	return !set.identity && transport->identity;
}

int node_reload(struct node *node, const struct conf *conf, struct err *err)
{
	AUTO_SETTINGS struct node_settings settings;
	struct access *access = NULL;
	struct err later;
	int result;

	if (node_read_settings_again(node, conf, &settings, err) != 0 ||
	    node_check_tree(&settings, err) != 0 ||
	    access_read(conf, node->settings.site.role == SITE_PRIMARY, &access, err) !=
		    0)
		return -1;
	if (buckets_set(node->buckets, conf, err) != 0) {
		access_free(access);
		return -1;
	}
	log_set_format((enum log_format)settings.log_format);
	node_settings_report_restarts(&node->settings, &settings);
	node_report_unused_sections(conf, node);
	report_remotes(&settings);
	access_replace(node->access, access);
	manifest_book_renew(node->services.manifest);
	if (node_life_expect(&node->life, conf, &later) != 0)
		log_warn("node.not_forgotten", LOG_ERR(&later));
	if (node->services.primary && settings.has_key) {
		/* another name of the site is for the next start */
		memcpy(settings.key.site, node->settings.key.site, SITE_NAME_SIZE);
		primary_set_key(node->services.primary, &settings.key);
	}
	if (node->services.primary)
		primary_set_bandwidth(node->services.primary, settings.pull.bandwidth);
	if (node->services.pull)
		pull_set(node->services.pull, &settings.pull);
	if (node->services.mirror_pull)
		pull_set(node->services.mirror_pull, &settings.pull);
	if (node->services.mirror_poll)
		mirror_poll_set_timeout(node->services.mirror_poll,
					settings.pull.timeout_ms);
	if (node->notice)
		notice_set_reverify(node->notice, settings.pull.reverify_ms);
	if (node->services.verify_origin)
		verify_origin_set(node->services.verify_origin,
				  settings.pull.verification_capacity,
				  settings.pull.reverify_ms, settings.pull.timeout_ms);
	serve_set(node->services.serve, &settings.serve);
	if (node->services.pushes)
		pushes_set(node->services.pushes, &settings.serve);
	if (node->services.freshness)
		freshness_set(node->services.freshness, settings.serve.fresh_for_ms);
	result = node_set_transport(node, &settings.transport);
	if (node->push.push)
		node_push_set(&node->push, settings.push);
	node_start_alerts(node, conf, &settings);
	log_info("node.reloaded", LOG_TEXT("site", node->settings.site.name));
	return result;
}

/* Who takes work in goes first, who is asked by others last. */
void node_stop(struct node *node)
{
	struct web_services *services = &node->services;

	lfs_names_interrupt(services->lfs_names); /* requests and jobs wait for it */
	alerter_stop(node->alerter);
	web_server_stop(node->server, HTTP_GRACE_MS);
	lag_curve_stop(node->life.lag_curve);
	serve_stop(services->serve);
	pushes_free(services->pushes);
	forwarder_free(services->forwarder);
	fair_free(services->forwarded_reads);
	fair_free(services->forwarded_pushes);
	fair_free(services->forwarded_files);
	freshness_free(services->freshness);
	hook_socket_stop(node->socket);
	list_readers_stop(node->list_readers);
	mirror_poll_stop(services->mirror_poll);
	checkouts_trash_stop(node->checkouts_trash);
	pull_stop(services->mirror_pull, PULL_GRACE_MS);
	then_teller_stop(node->teller);
	pull_stop(services->pull, PULL_GRACE_MS);
	lfs_names_stop(services->lfs_names);
	watch_stop(node->watch);
	watch_stop(services->blob_watch);
	verify_origin_stop(services->verify_origin);
	node_push_stop(&node->push, DRAIN_MS);
	verify_origin_free(services->verify_origin);
	primary_close(services->primary);
	notice_free(node->notice);
	event_log_close(node->events);
	access_free(node->access);
	manifest_book_free(services->manifest);
	inventory_tags_free(services->inventory_tags);
	buckets_free(node->buckets);
	node_life_stop(&node->life);
	tree_node_leave(node->tree);
	site_data_close(&node->data);
	if (node->lock >= 0)
		close(node->lock);
	for (size_t i = 0; i < node->root_locks.count; i++)
		if (node->root_locks.items[i] >= 0)
			close(node->root_locks.items[i]);
	vec_clear(&node->root_locks);
	credential_marks_close(node->marks);
	kinds_clear(&node->mirrors);
	node_settings_clear(&node->settings);
	hook_place_clear(&node->hooks);
	free(node);
}
