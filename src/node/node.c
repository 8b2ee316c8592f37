#include "node/node.h"

#include "base/file.h"
#include "base/log.h"
#include "change/hook_role.h"
#include "change/hook_socket.h"
#include "change/watch.h"
#include "cli/push_site.h"
#include "cli/site_data.h"
#include "node/node_life.h"
#include "node/node_push.h"
#include "node/role.h"
#include "node/settings.h"
#include "pull/decisions.h"
#include "pull/pull.h"
#include "replicable/name.h"
#include "store/data_lock.h"
#include "store/root_lock.h"
#include "upkeep/copies_root.h"
#include "verify/verify_origin.h"
#include "web/access.h"
#include "web/services.h"
#include "web/web_server.h"

/* At a stop, for what goes on. */
enum { HTTP_GRACE_MS = 800, PULL_GRACE_MS = 500, DRAIN_MS = 5000 };

struct node {
	struct node_settings settings;
	int lock, root_lock;
	VEC(int) blob_locks; /* as the kinds */
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
	struct web_services services; /* all parts; those of the other role are NULL */
	struct web_server *server;
	struct node_life life;
};

/* Something was put into the database by a command or an operator's request. */
static void node_wake_services(void *arg)
{
	struct node *node = arg;

	if (node->events)
		event_log_wake(node->events);
	if (node->services.verify_origin)
		verify_origin_wake(node->services.verify_origin);
	if (node->services.pull)
		pull_wake(node->services.pull);
	if (node->push.push)
		push_wake(node->push.push);
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
	node->hooks.accepts_others = site->role == SITE_STANDALONE;
}

static int open_notice(struct node *node, struct err *err)
{
	const struct node_settings *settings = &node->settings;
	AUTO_FREE char *database = xasprintf("%s/refrelay.db", settings->site.data);
	struct notice_options options = { .store = node->data.store,
					  .root = settings->site.repositories,
					  .data = settings->site.data,
					  .reverify_ms = settings->pull.reverify_ms };

	if (event_log_open(node->data.store, database, &node->events, err) != 0)
		return -1;
	options.log = node->events;
	if (node->push.sink)
		options.sink = push_sink_as_change_sink(node->push.sink);
	if (settings->site.role == SITE_SECONDARY)
		options.check_copies = copies_root_check;
	else
		options.hooks = hooks_of(node);
	node->notice = notice_new(&options);
	return 0;
}

static void start_watch(struct node *node)
{
	const struct node_settings *settings = &node->settings;

	node->watch = watch_start(&(struct watch_options){
		.notice = node->notice,
		.store = node->data.store,
		.data = settings->site.data,
		.scan_interval_ms = settings->pull.scan_interval_ms,
		.keep_ms = settings->keep_for_ms,
		.keep_count = settings->keep_number,
		.looks_at_hooks =
			settings->site.role != SITE_SECONDARY && hooks_of(node) });
}

static int start_standalone(struct node *node, struct err *err)
{
	struct web_services *services = &node->services;

	if (open_notice(node, err) != 0)
		return -1;
	start_watch(node);
	services->pushes =
		pushes_new(node->settings.site.repositories, &node->settings.serve);
	services->events = node->events;
	services->notice = node->notice;
	services->watch = node->watch;
	return 0;
}

/* Blobs were noticed whose contents are to be read. */
static void blobs_are_due(void *arg)
{
	verify_origin_wake(arg);
}

static void start_verify(struct node *node)
{
	const struct node_settings *settings = &node->settings;
	struct blob_notice *blobs = node->services.blob_notice;

	node->services.verify_origin =
		verify_origin_start(&(struct verify_origin_options){
			.store = node->data.store,
			.notice = node->notice,
			.root = settings->site.repositories,
			.kinds = &settings->blobs,
			.blobs = blobs,
			.capacity = settings->pull.verification_capacity,
			.reverify_ms = settings->pull.reverify_ms });
	if (blobs)
		blob_notice_set_due(blobs, blobs_are_due, node->services.verify_origin);
}

/* A reader's answer broke off. */
static void origin_is_doubted(void *arg, const char *name, const struct err *why)
{
	verify_origin_doubt(arg, name, why);
}

static int start_primary(struct node *node, struct err *err)
{
	const struct node_settings *settings = &node->settings;
	struct web_services *services = &node->services;

	if (start_standalone(node, err) != 0)
		return -1;
	if (settings->blobs.items.count > 0)
		services->blob_notice = blob_notice_new(&(struct blob_notice_options){
			.store = node->data.store,
			.log = node->events,
			.kinds = &settings->blobs,
			.reverify_ms = settings->pull.reverify_ms });
	start_verify(node);
	serve_on_doubt(services->serve, origin_is_doubted, services->verify_origin);
	node->push.verify_origin = services->verify_origin;
	if (services->blob_notice)
		services->blob_watch = blob_watch_start(&(struct blob_watch_options){
			.notice = services->blob_notice,
			.store = node->data.store,
			.kinds = &settings->blobs,
			.scan_interval_ms = settings->pull.scan_interval_ms });
	return 0;
}

/* What cannot be noticed now is found by the next scan. */
static void published(void *arg, const char *name)
{
	struct node *node = arg;
	AUTO_NOTICED struct noticed noticed;
	struct err err;

	if (notice_compare(node->notice, name, &noticed, &err) != 0 &&
	    err.class != ERR_MISSING)
		log_warn("sync.not_noticed", LOG_ERR(&err));
}

/* A reader's answer broke off. */
static void node_doubt_copy(void *arg, const char *name, const struct err *why)
{
	if (copy_is_at_fault(why))
		pull_doubt(arg, KIND_REPOSITORY, name, why);
}

static int start_secondary(struct node *node, struct err *err)
{
	const struct node_settings *settings = &node->settings;
	struct web_services *services = &node->services;

	if (primary_open(settings->site.primary_url, &settings->key, &services->primary,
			 err) != 0)
		return err_prefix(err, "primary.url");
	primary_set_bandwidth(services->primary, settings->pull.bandwidth);
	if (node->push.sink && open_notice(node, err) != 0)
		return -1;
	if (pull_start(
		    &(struct pull_options){ .store = node->data.store,
					    .leases = node->data.leases,
					    .primary = services->primary,
					    .root = settings->site.repositories,
					    .kinds = &settings->blobs,
					    .settings = settings->pull,
					    .fresh_for_ms = settings->serve.fresh_for_ms,
					    .scan_interval_ms =
						    settings->pull.scan_interval_ms,
					    .hooks = hooks_of(node),
					    .report = node_life_report,
					    .report_arg = &node->life,
					    .published = node->notice ? published : NULL,
					    .arg = node },
		    &services->pull, err) != 0)
		return -1;
	serve_on_doubt(services->serve, node_doubt_copy, services->pull);
	services->forwarder = forwarder_new(settings->site.name);
	services->forwarded_reads = git_forward_places(false);
	services->forwarded_pushes = git_forward_places(true);
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
	node->services.blob_kinds = &settings->blobs;
	node->services.store = node->data.store;
	node->services.vitals = node->life.vitals;
	node->services.followers = node->life.followers;
	node->services.leases = node->data.leases;
	node->services.access = node->access;
	node->services.buckets = node->buckets;
	node->services.tasks = node->push.tasks;
	node->services.push_leases = node->push.leases;
	node->services.push_sink = node->push.sink;
}

static int node_open_data(struct node *node, struct err *err)
{
	const struct site *site = &node->settings.site;

	if (site_data_make(site->data, err) != 0 ||
	    site_data_check(site->data, err) != 0 ||
	    data_lock_take(site->data, &node->lock, err) != 0)
		return -1;
	return site_data_open_node(site->data, site->name, site->lease_ttl_ms,
				   &node->data, err);
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
	err_set(err, ERR_CONFIG, "site.repositories %s is not there", site->repositories);
	return err_remedy(err, "make it, or mount it, or correct the configuration");
}

static int lock_root(struct node *node, struct err *err)
{
	const struct site *site = &node->settings.site;

	return root_lock_take("site.repositories", site->repositories,
			      site->role == SITE_STANDALONE ? ROOT_LOCK_SHARED
							    : ROOT_LOCK_ALONE,
			      &node->root_lock, err);
}

/* A standalone site has nothing to do with them. */
static int lock_blobs(struct node *node, struct err *err)
{
	const struct blob_kinds *kinds = &node->settings.blobs;

	if (node->settings.site.role == SITE_STANDALONE)
		return 0;
	for (size_t i = 0; i < kinds->items.count; i++) {
		const struct blob_kind *kind = &kinds->items.items[i];
		AUTO_FREE char *key = xasprintf("blob.%s.path", kind->type);
		vec_add(&node->blob_locks, -1);
		if (root_lock_take(key, kind->path, ROOT_LOCK_ALONE,
				   &node->blob_locks.items[i], err) != 0)
			return -1;
	}
	return 0;
}

/* Of the kind of blobs that has objects of Git LFS, if there is one. */
static void start_lfs(struct node *node)
{
	const struct node_settings *settings = &node->settings;
	bool is_copy = settings->site.role == SITE_SECONDARY;

	for (size_t i = 0; i < settings->blobs.items.count; i++) {
		const struct blob_kind *kind = &settings->blobs.items.items[i];
		if (kind->layout != BLOB_LFS || settings->site.role == SITE_STANDALONE)
			continue;
		node->services.lfs_names = lfs_names_start(&(struct lfs_names_options){
			.store = node->data.store,
			.root = settings->site.repositories,
			.data = settings->site.data,
			.kind = kind->type,
			.side = is_copy ? LFS_REGISTRY : LFS_ORIGIN });
		return;
	}
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

static int node_start_parts(struct node *node, const struct conf *conf, struct err *err)
{
	const struct node_settings *settings = &node->settings;

	if (node_check_root(&settings->site, err) != 0 ||
	    node_open_data(node, err) != 0 || lock_root(node, err) != 0 ||
	    lock_blobs(node, err) != 0 || access_read(conf, &node->access, err) != 0 ||
	    buckets_set(node->buckets, conf, err) != 0 ||
	    node_push_open(settings, &node->push, err) != 0)
		return -1;
	if (role_begin(node->data.store, settings->site.role, err) != 0)
		return -1;
	node_life_start(settings, node->data.store, &node->life);
	find_hooks(node);
	access_keep_nonces(node->access, settings->site.data);
	fill_services(node);
	if (hook_role_set(settings->site.data,
			  settings->site.role == SITE_SECONDARY
				  ? settings->site.primary_url
				  : NULL,
			  settings->site.repositories, err) != 0 ||
	    node_life_expect(&node->life, conf, err) != 0 || start_role(node, err) != 0 ||
	    lock_root(node, err) != 0 || /* it may have been made only now */
	    node_push_start(settings, &node->push, err) != 0)
		return -1;
	node->services.push = node->push.push;
	node_life_add(&node->life, &node->services);
	start_lfs(node);
	if (hook_socket_start(
		    &(struct hook_socket_options){
			    .data = settings->site.data,
			    .notice = node->services.notice,
			    .blobs = node->services.blob_notice,
			    .copies = node->services.pull ? settings->site.repositories
							  : NULL,
			    .copy_changed = copy_changed,
			    .wake = node_wake_services,
			    .alive = say_alive,
			    .arg = node },
		    &node->socket, err) != 0)
		return -1;
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

/* A site that stands alone is there for nothing else. */
static void tell_remotes(const struct node_settings *settings)
{
	struct err err;

	if ((settings->push || settings->site.role == SITE_STANDALONE) &&
	    push_site_check_remotes(&settings->site, settings->push, &err) != 0)
		log_warn("push.no_remote", LOG_ERR(&err), LOG_TEXT("remedy", err.remedy));
}

int node_start(const struct conf *conf, struct node **node, struct err *err)
{
	struct node *started = xcalloc(1, sizeof(*started));

	started->lock = started->root_lock = -1;
	started->buckets = buckets_new();
	if (node_settings_read(conf, &started->settings, err) == 0 &&
	    node_start_parts(started, conf, err) == 0) {
		log_started(started);
		node_report_unused_sections(conf, started);
		tell_remotes(&started->settings);
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

int node_reload(struct node *node, const struct conf *conf, struct err *err)
{
	AUTO_SETTINGS struct node_settings settings;
	struct access *access = NULL;
	struct err later;

	if (node_read_settings_again(node, conf, &settings, err) != 0 ||
	    transport_check_expiry(&settings.transport, err) != 0 ||
	    buckets_set(node->buckets, conf, err) != 0 ||
	    access_read(conf, &access, err) != 0)
		return -1;
	node_settings_tell_restarts(&node->settings, &settings);
	node_report_unused_sections(conf, node);
	tell_remotes(&settings);
	access_replace(node->access, access);
	if (node_life_expect(&node->life, conf, &later) != 0)
		log_warn("node.not_forgotten", LOG_ERR(&later));
	if (node->services.primary && settings.has_key)
		primary_set_key(node->services.primary, &settings.key);
	if (node->services.primary)
		primary_set_bandwidth(node->services.primary, settings.pull.bandwidth);
	if (node->services.pull)
		pull_set(node->services.pull, &settings.pull);
	if (node->services.verify_origin)
		verify_origin_set(node->services.verify_origin,
				  settings.pull.verification_capacity,
				  settings.pull.reverify_ms);
	serve_set(node->services.serve, &settings.serve);
	if (node->services.pushes)
		pushes_set(node->services.pushes, &settings.serve);
	if (node->services.freshness)
		freshness_set(node->services.freshness, settings.serve.fresh_for_ms);
	web_server_set(node->server, &settings.transport);
	if (node->push.push)
		node_push_set(&node->push, settings.push);
	log_info("node.reloaded", LOG_TEXT("site", node->settings.site.name));
	return 0;
}

/* Who takes work in goes first, who is asked by others last. */
void node_stop(struct node *node)
{
	struct web_services *services = &node->services;

	web_server_stop(node->server, HTTP_GRACE_MS);
	serve_stop(services->serve);
	pushes_free(services->pushes);
	forwarder_free(services->forwarder);
	fair_free(services->forwarded_reads);
	fair_free(services->forwarded_pushes);
	freshness_free(services->freshness);
	hook_socket_stop(node->socket);
	pull_stop(services->pull, PULL_GRACE_MS);
	lfs_names_stop(services->lfs_names);
	watch_stop(node->watch);
	blob_watch_stop(services->blob_watch);
	verify_origin_stop(services->verify_origin);
	node_push_stop(&node->push, DRAIN_MS);
	verify_origin_free(services->verify_origin);
	primary_close(services->primary);
	notice_free(node->notice);
	blob_notice_free(services->blob_notice);
	event_log_close(node->events);
	access_free(node->access);
	buckets_free(node->buckets);
	node_life_stop(&node->life);
	site_data_close(&node->data);
	if (node->lock >= 0)
		close(node->lock);
	if (node->root_lock >= 0)
		close(node->root_lock);
	for (size_t i = 0; i < node->blob_locks.count; i++)
		if (node->blob_locks.items[i] >= 0)
			close(node->blob_locks.items[i]);
	vec_clear(&node->blob_locks);
	node_settings_clear(&node->settings);
	hook_place_clear(&node->hooks);
	free(node);
}
