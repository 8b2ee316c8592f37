#include "cli/site.h"

#include "base/file.h"
#include "replicable/name.h"

static int from_directory(const char *directory, struct site *site, struct err *err)
{
	site->repositories = realpath(directory, NULL);
	if (!site->repositories)
		return err_errno(err, "cannot find %s", directory);
	site->data = xasprintf("%s/" OWN_FOLDER, site->repositories);
	if (access(site->data, F_OK) == 0)
		return 0;
	err_set(err, ERR_MISSING, "%s is no tree of copies: it has no " OWN_FOLDER,
		directory);
	return err_remedy(err, "name a DEST of refrelay replicate");
}

#define AT(kind, member) SETTING_AT(kind, struct site, member)

static const char *const roles[] = { "primary", "secondary", "standalone", NULL };

static const struct setting site_rows[] = {
	{ "name", AT(TEXT, name), .at_start = true },
	{ "role", AT(CHOICE, role), .words = roles, .at_start = true },
	{ "repositories", AT(PATH, repositories), .is_required = true, .at_start = true },
	{ "data", AT(PATH, data), .is_required = true, .at_start = true },
	{ 0 },
};

static const struct setting primary_rows[] = {
	{ "url", AT(TEXT, primary_url), .at_start = true },
	{ "secretFile", AT(TEXT, primary_secret) },
	{ 0 },
};

static const struct setting lease_rows[] = {
	{ "ttl", AT(DURATION, lease_ttl_ms), "30s", .min = CONF_SECOND,
	  .at_start = true },
	{ "backend", .type = SETTING_LATER, .initial = "local" },
	{ "url", .type = SETTING_LATER },
	{ "path", .type = SETTING_LATER },
	{ "wait", .type = SETTING_LATER },
	{ 0 },
};

const struct setting_table site_settings[] = {
	{ .section = "site", .rows = site_rows },
	{ .section = "primary", .rows = primary_rows },
	{ .section = "lease", .rows = lease_rows },
};

/* It stands in tokens, rows and log lines. */
static int check_site_name(struct site *site, struct err *err)
{
	char host[65] = "localhost";

	gethostname(host, sizeof(host) - 1);
	if (!site->name)
		site->name = xstrdup(host);
	if (site->name[0] && strlen(site->name) <= 64 &&
	    strspn(site->name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			       "0123456789-_.") == strlen(site->name))
		return 0;
	err_set(err, ERR_CONFIG, "site.name %s is no good name", site->name);
	return err_remedy(err, "use up to 64 letters, digits and - _ .");
}

int site_from_conf(const struct conf *conf, struct site *site, struct err *err)
{
	int result = 0;

	*site = (struct site){ .role = SITE_STANDALONE };
	for (size_t i = 0; i < SITE_SETTINGS && result == 0; i++)
		result = settings_read(&site_settings[i], conf, NULL, site, err);
	if (result == 0)
		result = check_site_name(site, err);
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

/* A scan would take what is in one for repositories, or a deletion of copies would meet
 * the database. */
int site_check_apart(const struct site *site, struct err *err)
{
	return paths_check_apart("site.repositories", site->repositories, "site.data",
				 site->data, err);
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
			"a primary takes [secondary \"NAME\"]; is the role right?",
		[SITE_SECONDARY] = "a secondary takes [primary]; is the role right?",
		[SITE_STANDALONE] = ("nobody follows a standalone site, nor does it "
				     "follow; is the role right?"),
	};
	const struct conf_list *all = conf_entries(conf);

	for (size_t i = 0; i < all->count; i++) {
		if (!is_unused(all->items[i]->section, role))
			continue;
		conf_error(all->items[i], err,
			   "the section is not used: this site's role is %s",
			   site_role_name(role));
		err_remedy(err, "%s", remedies[role]);
		return true;
	}
	return false;
}

void site_clear(struct site *site)
{
	for (size_t i = 0; i < SITE_SETTINGS; i++)
		settings_clear(&site_settings[i], site);
	*site = (struct site){ 0 };
}
