#include "cli/push_site.h"

#include "change/hook_socket.h"
#include "cli/site_data.h"
#include "lease/directory.h"

#define WAKE_MS 1000

static int push_site_open_leases(const char *path, struct lease_manager **leases,
				 struct err *err)
{
	return lease_manager_open_directory(&(struct lease_options){ .directory = path },
					    leases, err);
}

int push_site_look(const struct push_settings *settings, const char *data,
		   struct push_sight *sight, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/leases", settings->directory);

	*sight = (struct push_sight){ 0 };
	if (task_store_open_to_read(settings->directory, data, &sight->tasks, err) != 0) {
		push_sight_close(sight);
		return -1;
	}
	if (access(path, F_OK) == 0 &&
	    push_site_open_leases(path, &sight->leases, &sight->why_not) != 0)
		sight->leases = NULL;
	return 0;
}

void push_sight_close(struct push_sight *sight)
{
	lease_manager_close(sight->leases);
	task_store_close(sight->tasks);
	*sight = (struct push_sight){ 0 };
}

/* The default directory of the store is in site.data, which may not be there yet. */
static int open_to_change(struct push_site *push, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/leases", push->settings->directory);

	if (site_data_make(push->site.data, err) != 0 ||
	    task_store_recognize(push->settings->directory, push->site.data, err) != 0 ||
	    task_store_open(push->settings->directory, &push->tasks, err) != 0)
		return -1;
	return push_site_open_leases(path, &push->leases, err);
}

static int push_site_read_settings(const struct cli *cli, struct push_site *push,
				   struct err *err)
{
	AUTO_CONF struct conf *conf = NULL;

	if (cli_load_config(cli, &conf, err) != 0 ||
	    site_from_conf(conf, &push->site, err) != 0 ||
	    push_settings_read(conf, push->site.data, &push->settings, err) != 0)
		return -1;
	return 0;
}

int push_site_check_remotes(const struct site *site, const struct push_settings *settings,
			    struct err *err)
{
	if (settings && settings->remotes.count > 0)
		return 0;
	err_set(err, ERR_CONFIG, "site \"%s\" pushes nowhere: it has no remote",
		site->name);
	return err_remedy(err,
			  "add a section [remote \"NAME\"], or name Gerrit's file in "
			  "replication.config");
}

int push_site_open(const struct cli *cli, bool changes, struct push_site *push,
		   struct err *err)
{
	struct push_sight sight;

	*push = (struct push_site){ 0 };
	if (push_site_read_settings(cli, push, err) != 0)
		return -1;
	if (changes)
		return open_to_change(push, err);
	if (push_site_look(push->settings, push->site.data, &sight, err) != 0)
		return -1;
	push->tasks = sight.tasks;
	push->leases = sight.leases;
	return 0;
}

void push_site_close(struct push_site *push)
{
	lease_manager_close(push->leases);
	task_store_close(push->tasks);
	push_settings_unref(push->settings);
	site_clear(&push->site);
	*push = (struct push_site){ 0 };
}

void push_site_wake(const struct push_site *push)
{
	char answer[64];

	hook_socket_tell(push->site.data, "wake", WAKE_MS, answer, sizeof(answer),
			 ERR_IGNORED);
}
