#include "node/node.h"

#include "base/file.h"
#include "base/log.h"
#include "change/hook_socket.h"
#include "change/watch.h"
#include "cli/site_data.h"
#include "node/settings.h"
#include "pull/pull.h"
#include "store/data_lock.h"
#include "store/root_lock.h"
#include "verify/verify_origin.h"
#include "web/access.h"
#include "web/services.h"
#include "web/web.h"

struct node {
	struct node_settings settings;
	int lock, root_lock;
	struct site_data data;
	struct access *access;
	struct hook_socket *socket;
	struct web_services services; /* all parts; those of the other role are NULL */
	struct web_server *server;
};

/* Something was put into the database by a command or an operator's request. */
static void wake(void *arg)
{
	struct node *node = arg;

	if (node->services.events)
		event_log_wake(node->services.events);
	if (node->services.verify_origin)
		verify_origin_wake(node->services.verify_origin);
	if (node->services.pull)
		pull_wake(node->services.pull);
}

static int start_primary(struct node *node, struct err *err)
{
	const struct node_settings *settings = &node->settings;
	struct web_services *services = &node->services;
	AUTO_FREE char *database = xasprintf("%s/refrelay.db", settings->site.data);

	if (event_log_open(node->data.store, database, &services->events, err) != 0)
		return -1;
	services->notice = notice_new(
		&(struct notice_options){ .store = node->data.store,
					  .log = services->events,
					  .root = settings->site.repositories,
					  .data = settings->site.data,
					  .reverify_ms = settings->pull.reverify_ms });
	services->watch = watch_start(
		&(struct watch_options){ .notice = services->notice,
					 .store = node->data.store,
					 .data = settings->site.data,
					 .scan_interval_ms = settings->scan_interval_ms,
					 .keep_ms = settings->keep_for_ms,
					 .keep_count = settings->keep_number });
	services->verify_origin = verify_origin_start(&(struct verify_origin_options){
		.store = node->data.store,
		.notice = services->notice,
		.root = settings->site.repositories,
		.capacity = settings->pull.verification_capacity,
		.reverify_ms = settings->pull.reverify_ms });
	return 0;
}

static int start_secondary(struct node *node, struct err *err)
{
	const struct node_settings *settings = &node->settings;
	struct web_services *services = &node->services;

	if (primary_open(settings->site.primary_url, &settings->key, &services->primary,
			 err) != 0)
		return err_prefix(err, "primary.url");
	return pull_start(&(struct pull_options){ .store = node->data.store,
						  .leases = node->data.leases,
						  .primary = services->primary,
						  .root = settings->site.repositories,
						  .settings = settings->pull,
						  .report = report_for_primary },
			  &services->pull, err);
}

static void fill_services(struct node *node)
{
	const struct node_settings *settings = &node->settings;

	node->services.role = settings->site.role;
	node->services.site = settings->site.name;
	node->services.root = settings->site.repositories;
	node->services.data = settings->site.data;
	node->services.primary_url = settings->site.primary_url;
	node->services.git_timeout_ms = settings->pull.timeout_ms;
	node->services.store = node->data.store;
	node->services.leases = node->data.leases;
	node->services.access = node->access;
}

static int open_data(struct node *node, struct err *err)
{
	const struct site *site = &node->settings.site;

	if (site_data_make(site->data, err) != 0 ||
	    data_lock_take(site->data, &node->lock, err) != 0)
		return -1;
	return site_data_open_node(site->data, site->name, site->lease_ttl_ms,
				   &node->data, err);
}

/* A primary never makes the tree: an empty one in its place would look like the deletion
 * of everything. Pull judges that of a secondary. */
static int check_root(const struct site *site, struct err *err)
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
	return root_lock_take(node->settings.site.repositories, &node->root_lock, err);
}

static int start_parts(struct node *node, const struct conf *conf, struct err *err)
{
	const struct node_settings *settings = &node->settings;

	if (check_root(&settings->site, err) != 0 || open_data(node, err) != 0 ||
	    lock_root(node, err) != 0 || access_read(conf, &node->access, err) != 0)
		return -1;
	fill_services(node);
	if ((settings->site.role == SITE_PRIMARY ? start_primary
						 : start_secondary)(node, err) != 0 ||
	    lock_root(node, err) != 0) /* it may have been made only now */
		return -1;
	if (hook_socket_start(
		    &(struct hook_socket_options){ .data = settings->site.data,
						   .notice = node->services.notice,
						   .wake = wake,
						   .arg = node },
		    &node->socket, err) != 0)
		return -1;
	return web_server_start(
		&(struct web_server_options){ .listen = settings->listen,
					      .services = &node->services },
		&node->server, err);
}

static void log_started(const struct node *node)
{
	log_info("node.started", LOG_TEXT("site", node->settings.site.name),
		 LOG_TEXT("role", site_role_name(node->settings.site.role)),
		 LOG_TEXT("listen", node->settings.listen),
		 LOG_NUMBER("port", web_server_port(node->server)));
}

static void tell_unused(const struct conf *conf, const struct node *node)
{
	struct err unused;

	if (site_has_unused(conf, node->settings.site.role, &unused))
		log_warn("node.unused_section", LOG_ERR(&unused),
			 LOG_TEXT("remedy", unused.remedy));
}

int node_start(const struct conf *conf, struct node **node, struct err *err)
{
	struct node *started = xcalloc(1, sizeof(*started));

	started->lock = started->root_lock = -1;
	if (node_settings_read(conf, &started->settings, err) == 0 &&
	    start_parts(started, conf, err) == 0) {
		log_started(started);
		tell_unused(conf, started);
		*node = started;
		return 0;
	}
	node_stop(started);
	return -1;
}

static void tell_restart(const char *key, const char *before, const char *after)
{
	if (strcmp(before ? before : "", after ? after : "") != 0)
		log_warn("node.restart_needed", LOG_TEXT("key", key),
			 LOG_TEXT("before", before), LOG_TEXT("after", after));
}

static void tell_restarts(const struct node_settings *before,
			  const struct node_settings *after)
{
	tell_restart("site.name", before->site.name, after->site.name);
	tell_restart("site.role", site_role_name(before->site.role),
		     site_role_name(after->site.role));
	tell_restart("site.repositories", before->site.repositories,
		     after->site.repositories);
	tell_restart("site.data", before->site.data, after->site.data);
	tell_restart("primary.url", before->site.primary_url, after->site.primary_url);
	tell_restart("http.listen", before->listen, after->listen);
	if (before->site.lease_ttl_ms != after->site.lease_ttl_ms)
		log_warn("node.restart_needed", LOG_TEXT("key", "lease.ttl"));
	if (before->scan_interval_ms != after->scan_interval_ms ||
	    before->keep_for_ms != after->keep_for_ms ||
	    before->keep_number != after->keep_number)
		log_warn("node.restart_needed",
			 LOG_TEXT("key", "sync.scanInterval, events"));
}

int node_reload(struct node *node, const struct conf *conf, struct err *err)
{
	AUTO_SETTINGS struct node_settings settings;
	struct access *access = NULL;

	if (node_settings_read(conf, &settings, err) != 0)
		return -1;
	if (access_read(conf, &access, err) != 0)
		return -1;
	tell_restarts(&node->settings, &settings);
	tell_unused(conf, node);
	access_replace(node->access, access);
	if (node->services.primary && settings.has_key)
		primary_set_key(node->services.primary, &settings.key);
	if (node->services.pull)
		pull_set(node->services.pull, &settings.pull);
	if (node->services.verify_origin)
		verify_origin_set(node->services.verify_origin,
				  settings.pull.verification_capacity,
				  settings.pull.reverify_ms);
	log_info("node.reloaded", LOG_TEXT("site", node->settings.site.name));
	return 0;
}

/* Who takes work in goes first, who is asked by others last. */
void node_stop(struct node *node)
{
	struct web_services *services = &node->services;

	web_server_stop(node->server, NODE_STOP_MS / 4);
	hook_socket_stop(node->socket);
	pull_stop(services->pull, NODE_STOP_MS / 2);
	watch_stop(services->watch);
	verify_origin_stop(services->verify_origin);
	primary_close(services->primary);
	notice_free(services->notice);
	event_log_close(services->events);
	access_free(node->access);
	site_data_close(&node->data);
	if (node->lock >= 0)
		close(node->lock);
	if (node->root_lock >= 0)
		close(node->root_lock);
	node_settings_clear(&node->settings);
	free(node);
}
