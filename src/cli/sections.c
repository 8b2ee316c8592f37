/*
 * Which sections and keys there are. All names are fixed; what is not built yet is
 * refused by commands that would have to obey it.
 */
#include "base/conf_check.h"
#include "cli/cli.h"
#include "push/keys.h"

static const char *const site_keys[] = { "name", "role", "repositories", "data", NULL };
static const char *const http_keys[] = {
	"listen",       "url",         "anonymousRead",        "anonymousRepository",
	"passwordFile", "tlsKey",      "tlsCertificate",       "operatorTokenFile",
	"trustedProxy", "connections", "connectionsPerClient", NULL
};
static const char *const token_keys[] = { "file", "rights", "repository", "expires",
					  NULL };
static const char *const primary_keys[] = { "url", "secretFile", NULL };
static const char *const secondary_keys[] = { "secretFile", "enabled", "bandwidth",
					      NULL };
static const char *const sync_keys[] = { "repositoryCapacity",
					 "blobCapacity",
					 "verificationCapacity",
					 "scanInterval",
					 "consistencyInterval",
					 "timeout",
					 "reverifyInterval",
					 "deleteBrake",
					 "bandwidth",
					 NULL };
static const char *const serve_keys[] = { "cache",
					  "cacheSize",
					  "cacheMaxAge",
					  "cacheMemory",
					  "uploadPacks",
					  "uploadPackQueue",
					  "uploadPackWait",
					  "timeout",
					  "uploadPacksPerClient",
					  "receivePacksPerClient",
					  "leastRate",
					  "freshFor",
					  "receivePacks",
					  "maxPush",
					  NULL };
static const char *const events_keys[] = { "keepFor", "keepNumber", NULL };
static const char *const blob_keys[] = { "path", "layout", NULL };
static const char *const database_keys[] = { "url", NULL };
static const char *const lease_keys[] = { "backend", "url", "path", "ttl", "wait", NULL };
static const char *const mirror_keys[] = { "url", "interval", "depth", NULL };
static const char *const watcher_keys[] = { "mirror", "tokenFile", NULL };

static const struct conf_section sections[] = {
	{ "site", false, CONF_STRICT, site_keys },
	{ "http", false, CONF_STRICT, http_keys },
	{ "token", true, CONF_STRICT, token_keys },
	{ "primary", false, CONF_STRICT, primary_keys },
	{ "secondary", true, CONF_STRICT, secondary_keys },
	{ "sync", false, CONF_STRICT, sync_keys },
	{ "serve", false, CONF_STRICT, serve_keys },
	{ "events", false, CONF_STRICT, events_keys },
	{ "blob", true, CONF_STRICT, blob_keys },
	{ "database", false, CONF_STRICT, database_keys },
	{ "lease", false, CONF_STRICT, lease_keys },
	{ "mirror", true, CONF_STRICT, mirror_keys },
	{ "watcher", true, CONF_STRICT, watcher_keys },
	{ "remote", true, CONF_LENIENT, push_remote_keys },
	{ "replication", false, CONF_LENIENT, push_replication_keys },
	{ "gerrit", false, CONF_LENIENT, push_gerrit_keys },
};

/* Of keys in [remote] and the like that nobody knows push_settings_read makes notes. */
static void ignore(void *data, const char *text)
{
	(void)data;
	(void)text;
}

int cli_check_sections(const struct conf *conf, struct err *err)
{
	const struct conf_section *known[ARRAY_SIZE(sections)];
	const struct conf_report report = { .warn = ignore };

	for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
		known[i] = &sections[i];
	return conf_check(conf, known, ARRAY_SIZE(known), &report, err);
}

bool cli_has_key(const char *section, const char *subsection, const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
		const struct conf_section *one = &sections[i];
		if (strcasecmp(one->name, section) != 0 ||
		    one->has_subsection != (subsection != NULL))
			continue;
		if (one->strictness == CONF_LENIENT)
			return true;
		for (size_t k = 0; one->keys[k]; k++)
			if (strcasecmp(one->keys[k], key) == 0)
				return true;
	}
	return false;
}

/* key NULL: the whole section; value: the only one that is built, NULL: none is. */
static const struct unbuilt {
	const char *section, *key, *value;
} unbuilt[] = {
	{ "lease", "backend", "local" }, { "lease", "url", NULL },
	{ "lease", "path", NULL },       { "lease", "wait", NULL },
	{ "database", "url", "sqlite" }, { "mirror", NULL, NULL },
	{ "watcher", NULL, NULL },
};

static bool is_built(const struct conf_entry *entry)
{
	for (size_t i = 0; i < ARRAY_SIZE(unbuilt); i++) {
		const struct unbuilt *one = &unbuilt[i];
		if (strcasecmp(one->section, entry->section) != 0 ||
		    (one->key && strcasecmp(one->key, entry->key) != 0))
			continue;
		return one->value && entry->value &&
		       strcmp(one->value, entry->value) == 0;
	}
	return true;
}

int cli_check_built(const struct conf *conf, struct err *err)
{
	const struct conf_list *all = conf_entries(conf);

	for (size_t i = 0; i < all->count; i++) {
		if (is_built(all->items[i]))
			continue;
		conf_error(all->items[i], err, "this is not built yet");
		return err_remedy(err, "take it out of the configuration");
	}
	return 0;
}

void cli_tell_unbuilt(const struct conf *conf)
{
	const struct conf_list *all = conf_entries(conf);

	for (size_t i = 0; i < all->count; i++) {
		const struct conf_entry *entry = all->items[i];
		AUTO_STR struct str name = STR_INIT;
		if (is_built(entry))
			continue;
		conf_render_name(entry, &name);
		fprintf(stderr,
			"refrelay: %s:%u: %s is not built yet: serve refuses it\n",
			entry->file, entry->line, name.data);
	}
}
