#include "cli/site.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/hook_wire.h"
#include "change/hook_socket.h"
#include "change/origin_root.h"
#include "git/git_child.h"
#include "replicable/name.h"
#include "store/data_lock.h"

/* What is in it tells who works on what: nobody else's business. */
int site_data_make(const char *directory, struct err *err)
{
	if (dir_make_parents(AT_FDCWD, directory, err) != 0)
		return -1;
	if (mkdir(directory, 0700) == 0)
		return 0;
	return dir_make(AT_FDCWD, directory, err);
}

static int site_check_owner(const char *setting, const char *directory, struct err *err)
{
	const struct passwd *user;
	struct stat st;

	if (geteuid() != 0 || stat(directory, &st) != 0 || st.st_uid == 0)
		return 0;
	user = getpwuid(st.st_uid);
	err_set(err, ERR_CONFIG, "%s (%s) belongs to user %s, but this is root", setting,
		directory, user ? user->pw_name : "without a name");
	return err_remedy(err, "run it as that user: sudo -u %s refrelay ...",
			  user ? user->pw_name : "NAME");
}

int site_data_check_owner(const char *directory, struct err *err)
{
	return site_check_owner("site.data", directory, err);
}

int site_leases_check_owner(const struct site *site, struct err *err)
{
	if (site->lease.backend != LEASE_DIRECTORY)
		return 0;
	return site_check_owner("lease.path", site->lease.path, err) == 0
		       ? site_data_check_owner(site->data, err)
		       : -1;
}

int site_data_check(const char *directory, struct err *err)
{
	struct stat st;

	if (stat(directory, &st) != 0 || (st.st_mode & 077) == 0)
		return 0;
	err_set(err, ERR_CONFIG, "other users can enter site.data (%s has mode %04o)",
		directory, (unsigned)st.st_mode & 07777);
	return err_remedy(err, "chmod 700 %s", directory);
}

static char *database_path(const char *directory)
{
	return xasprintf("%s/" HOOK_DATABASE, directory);
}

int site_store_open(const char *directory, bool may_migrate, struct store **store,
		    struct err *err)
{
	AUTO_FREE char *path = directory ? database_path(directory) : xstrdup(":memory:");
	AUTO_FREE char *url = xasprintf("sqlite:%s", path);

	if ((may_migrate ? store_open(url, store, err)
			 : store_open_beside(url, store, err)) != 0)
		return -1;
	/* No other node has that directory, and this one has it after each start. */
	AUTO_FREE char *node = directory ? identity_of(AT_FDCWD, directory) : NULL;
	if (node)
		store_set_node(*store, node);
	return 0;
}

/* Without a site, of a tree of copies. */
static struct lease_place lease_place_of(const struct site *site,
					 const struct site_data *data,
					 const char *directory)
{
	return (struct lease_place){
		.store = data->store,
		.directory = directory,
		.node = site ? site->node : NULL,
		.site = site && site->name ? site->name : "",
		.repositories = site ? site->repositories : "",
	};
}

static int open_leases(const struct site *site, struct site_data *data, struct err *err)
{
	AUTO_FREE char *directory = xasprintf("%s/leases", data->directory);
	const struct lease_place place = lease_place_of(site, data, directory);

	return lease_manager_open(site ? &site->lease : NULL, &place, &data->leases, err);
}

static int open_parts(const char *directory, const struct site *site, bool may_migrate,
		      struct site_data *data, struct err *err)
{
	*data = (struct site_data){ .directory = xstrdup(directory) };
	if (site_data_make(directory, err) == 0 && git_setup(directory, err) == 0 &&
	    site_store_open(directory, may_migrate, &data->store, err) == 0 &&
	    open_leases(site, data, err) == 0)
		return 0;
	site_data_close(data);
	return -1;
}

int site_data_open(const struct site *site, struct site_data *data, struct err *err)
{
	return open_parts(site->data, site, !data_lock_is_held(site->data), data, err);
}

int site_data_open_locked(const struct site *site, struct site_data *data,
			  struct err *err)
{
	return open_parts(site->data, site, true, data, err);
}

int site_data_open_directory(const char *directory, struct site_data *data,
			     struct err *err)
{
	return open_parts(directory, NULL, !data_lock_is_held(directory), data, err);
}

int site_data_read_leases(const struct site *site, struct site_data *data,
			  struct err *err)
{
	const struct lease_place place = lease_place_of(site, data, "");

	if (site->lease.backend == LEASE_LOCAL) {
		lease_settings_apply(&site->lease, &place, data->leases);
		return 0;
	}
	lease_manager_close(TAKE(data->leases));
	return open_leases(site, data, err);
}

int site_data_open_to_read(const char *directory, struct site_data *data, struct err *err)
{
	AUTO_FREE char *path = database_path(directory);
	AUTO_FREE char *leases = xasprintf("%s/leases", directory);
	const struct lease_options options = { .directory = leases };
	int result;

	*data = (struct site_data){ .directory = xstrdup(directory) };
	result = store_open_to_read(path, &data->store, err);
	if (result != 0 && err->class == ERR_MISSING)
		result = site_store_open(NULL, true, &data->store, err);
	if (result == 0)
		data->leases = lease_manager_new_to_read(data->store, &options);
	else
		site_data_close(data);
	return result;
}

void site_data_close(struct site_data *data)
{
	lease_manager_close(data->leases);
	store_close(data->store);
	free(data->directory);
	*data = (struct site_data){ 0 };
}

static int from_directory(const char *directory, struct site *site, struct err *err)
{
	site->repositories = realpath(directory, NULL);
	if (!site->repositories)
		return err_errno(err, "cannot find %s", directory);
	site->data = xasprintf("%s/" OWN_FOLDER, site->repositories);
	if (access(site->data, F_OK) == 0)
		return 0;
	err_set(err, ERR_MISSING,
		"%s was not created by replicate: it has no " OWN_FOLDER, directory);
	return err_remedy(err, "use the DEST of a refrelay replicate run");
}

#define AT(kind, member) SETTING_AT(kind, struct site, member)

static const char *const roles[] = { "primary", "secondary", "standalone", NULL };

#define SITE_NAME_CHARACTERS                                                             \
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
#define SITE_NAME_MOST 63

/* A host's name may have others, as "(none)". */
static char *derive_host(const struct conf *conf)
{
	char host[HOST_NAME_MAX + 1] = "";

	(void)conf;
	if (gethostname(host, sizeof(host) - 1) != 0 || !host[0])
		return xstrdup("localhost");
	host[SITE_NAME_MOST] = '\0';
	for (char *at = host; *(at += strspn(at, SITE_NAME_CHARACTERS));)
		*at = '-';
	return xstrdup(host);
}

static const struct setting site_rows[] = {
	{ "name", AT(TEXT, name), .at_start = true },
	{ "node", AT(TEXT, node), .derive = derive_host, .at_start = true },
	{ "role", AT(CHOICE, role), .words = roles, .at_start = true },
	{ "repositories", AT(PATH, repositories), .is_required = true, .at_start = true },
	{ "data", AT(PATH, data), .is_required = true, .at_start = true },
	{ "coreDumps", AT(BOOL, has_core_dumps), "false", .at_start = true },
	{ 0 },
};

static const struct setting primary_rows[] = {
	{ "url", AT(TEXT, primary_url), .at_start = true },
	{ "secretFile", AT(TEXT, primary_secret) },
	{ "caFile", AT(PATH, primary_ca_file), .at_start = true },
	{ 0 },
};

const struct setting_table site_settings[] = {
	{ .section = "site", .rows = site_rows },
	{ .section = "primary", .rows = primary_rows },
};

/* It stands in tokens, rows and log lines. */
static int check_site_name(const char *key, const char *name, size_t most,
			   struct err *err)
{
	if (name[0] && strlen(name) <= most &&
	    strspn(name, SITE_NAME_CHARACTERS) == strlen(name))
		return 0;
	err_set(err, ERR_CONFIG, "invalid site.%s %s", key, name);
	return err_remedy(err, "use up to %zu letters, digits and - _ .", most);
}

int site_from_conf(const struct conf *conf, struct site *site, struct err *err)
{
	int result = 0;

	*site = (struct site){ .role = SITE_STANDALONE };
	for (size_t i = 0; i < SITE_SETTINGS && result == 0; i++)
		result = settings_read(&site_settings[i], conf, NULL, site, err);
	if (result == 0)
		result = check_site_name("name", site->name ? site->name : site->node, 64,
					 err);
	if (result == 0)
		result = check_site_name("node", site->node, SITE_NAME_MOST, err);
	if (result == 0 && !site->name)
		site->name = xstrdup(site->node);
	if (result == 0)
		result = lease_settings_read(conf, &site->lease, err);
	if (result != 0)
		site_clear(site);
	return result;
}

int site_read(const struct cli *cli, const char *directory, struct site *site,
	      struct err *err)
{
	AUTO_CONF struct conf *conf = NULL;

	*site = (struct site){ .role = SITE_STANDALONE };
	if (directory)
		return from_directory(directory, site, err);
	if (cli_load_config(cli, &conf, err) != 0)
		return -1;
	return site_from_conf(conf, site, err);
}

bool site_shares_tree(const struct site *site)
{
	return site->role == SITE_STANDALONE ||
	       (site->role == SITE_PRIMARY && site->lease.backend != LEASE_LOCAL);
}

/* A scan would take what is in one for repositories, or a deletion of copies would meet
 * the database. */
int site_check_apart(const struct site *site, struct err *err)
{
	return paths_check_apart("site.repositories", site->repositories, "site.data",
				 site->data, err);
}

int site_wake(const char *data)
{
	return site_wake_to_hear(data, NULL, 0);
}

int site_wake_to_hear(const char *data, char *answer, size_t size)
{
	return hook_socket_report(data, "wake", 1000, answer, size, ERR_IGNORED);
}

void site_note_if_alone(const struct site *site)
{
	if (!data_lock_is_held(site->data))
		cli_note("no node is running here; this is what the last one recorded");
}

static bool is_blob(const struct conf_entry *entry)
{
	return strcasecmp(entry->section, "blob") == 0;
}

/* A site that stands alone keeps objects of Git LFS only. */
static bool is_blob_for_copies(const struct conf *conf, const struct conf_entry *entry)
{
	const struct conf_entry *layout =
		is_blob(entry) ? conf_get(conf, "blob", entry->subsection, "layout")
			       : NULL;

	return is_blob(entry) &&
	       (!layout || !layout->value || strcasecmp(layout->value, "lfs") != 0);
}

static bool is_unused(const char *section, enum site_role role)
{
	return (role != SITE_PRIMARY && strcasecmp(section, "secondary") == 0) ||
	       (role != SITE_SECONDARY && strcasecmp(section, "primary") == 0);
}

bool site_has_unused(const struct conf *conf, enum site_role role, struct err *err)
{
	static const char *const remedies[] = {
		[SITE_PRIMARY] =
			"a primary has [secondary \"NAME\"] sections; is the role right?",
		[SITE_SECONDARY] =
			"a secondary has a [primary] section; is the role right?",
		[SITE_STANDALONE] = ("a standalone site has no primary and no "
				     "secondaries; is the role right?"),
	};
	const struct conf_list *all = conf_entries(conf);

	for (size_t i = 0; i < all->count; i++) {
		const bool is_for_copies = role == SITE_STANDALONE &&
					   is_blob_for_copies(conf, all->items[i]);
		if (!is_for_copies && !is_unused(all->items[i]->section, role))
			continue;
		conf_error(all->items[i], err,
			   "the section is not used: this site's role is %s",
			   site_role_name(role));
		err_remedy(err, "%s",
			   is_for_copies ? "a standalone site keeps only blobs with "
					   "layout = lfs; is the role right?"
					 : remedies[role]);
		return true;
	}
	return false;
}

void site_clear(struct site *site)
{
	for (size_t i = 0; i < SITE_SETTINGS; i++)
		settings_clear(&site_settings[i], site);
	lease_settings_clear(&site->lease);
	*site = (struct site){ 0 };
}
