#include "node/settings.h"

#include "base/log.h"
#include "cli/cli.h"
#include "mirror/mirror_places.h"
#include "web/access.h"

static const struct setting events_rows[] = {
	{ "keepFor", SETTING_AT(DURATION, struct node_settings, keep_for_ms), "14d",
	  .unit = CONF_DAY, .min = CONF_MINUTE, .at_start = true },
	{ "keepNumber", SETTING_AT(NUMBER, struct node_settings, keep_number), "1000000",
	  .min = 1, .at_start = true },
	{ 0 },
};

static const struct setting log_rows[] = {
	{ "format", SETTING_AT(CHOICE, struct node_settings, log_format), "text",
	  .words = (const char *const[]){ "text", "json", "journald", NULL } },
	{ 0 },
};

static const struct setting database_rows[] = {
	{ "url", .type = SETTING_LATER, .initial = "sqlite" },
	{ 0 },
};

static const struct setting_table events_table = { .section = "events",
						   .rows = events_rows };
static const struct setting_table log_table = { .section = "log", .rows = log_rows };
static const struct setting_table database_table = { .section = "database",
						     .rows = database_rows };
const struct setting_table *const node_settings_tables[] = {
	&site_settings[0],
	&transport_settings_table,
	&access_settings_table,
	&token_settings_table,
	&site_settings[1],
	&secondary_settings_table,
	&pull_settings_table,
	&serve_settings_table,
	&events_table,
	&log_table,
	&blob_settings_table,
	&database_table,
	&lease_settings_table,
	&mirror_settings_table,
	&mirror_list_settings_table,
	&watcher_settings_table,
	&alert_settings_table,
	&push_settings_tables[0],
	&push_settings_tables[1],
	&push_settings_tables[2],
	NULL,
};

/* Where in struct node_settings the struct of a table is. */
static const struct {
	const struct setting_table *table;
	size_t offset;
} parts[] = {
	{ &site_settings[0], offsetof(struct node_settings, site) },
	{ &site_settings[1], offsetof(struct node_settings, site) },
	{ &lease_settings_table,
	  offsetof(struct node_settings, site) + offsetof(struct site, lease) },
	{ &transport_settings_table, offsetof(struct node_settings, transport) },
	{ &pull_settings_table, offsetof(struct node_settings, pull) },
	{ &serve_settings_table, offsetof(struct node_settings, serve) },
	{ &events_table, 0 },
};

/* A secondary may ask a primary that knows nobody's secret only when the primary lets
 * operators of loopback read, which is no replication: so both must be there. */
static int node_settings_read_primary(struct node_settings *settings, struct err *err)
{
	const struct site *site = &settings->site;

	if (!site->primary_url) {
		err_set(err, ERR_CONFIG, "primary.url is not set");
		return err_remedy(err, "set url in the section [primary]");
	}
	if (!site->primary_secret) {
		err_set(err, ERR_CONFIG, "primary.secretFile is not set");
		return err_remedy(
			err,
			"store the same random secret in a file at both sites; name it "
			"in [primary] here and in [secondary \"%s\"] there",
			site->name);
	}
	if (site->primary_ca_file && access(site->primary_ca_file, R_OK) != 0) {
		err_errno(err, "primary.caFile: cannot read %s", site->primary_ca_file);
		err->class = ERR_CONFIG;
		return -1;
	}
	settings->has_key = true;
	return site_key_read(site->name, site->primary_secret, &settings->key, err);
}

static int check_role(const struct conf *conf, struct err *err)
{
	if (!conf_get(conf, "site", NULL, "role")) {
		err_set(err, ERR_CONFIG, "site.role is not set");
		return err_remedy(err, "set it to primary, secondary or standalone");
	}
	if (!conf_get(conf, "site", NULL, "name")) {
		err_set(err, ERR_CONFIG, "site.name is not set");
		return err_remedy(err, "give each site its own name");
	}
	return 0;
}

/* Where nothing would keep them, and nobody give them out. */
static int check_mirrors_lfs(const struct node_settings *settings, struct err *err)
{
	const char *mirror = mirrors_find_with_lfs(&settings->mirrors);

	if (!mirror || kinds_find_lfs(&settings->kinds))
		return 0;
	err_set(err, ERR_CONFIG, "\"%s\" has lfs, but this site stores no LFS objects",
		mirror);
	return err_remedy(err, "add a [blob \"lfs\"] section with path and layout = lfs, "
			       "or remove lfs from that section");
}

static int read_mirrors(const struct conf *conf, struct node_settings *settings,
			struct err *err)
{
	if (mirrors_read(conf, &settings->mirrors, err) != 0)
		return -1;
	if (settings->site.role != SITE_SECONDARY)
		return check_mirrors_lfs(settings, err) != 0
			       ? -1
			       : mirrors_check_places(&settings->mirrors,
						      settings->site.repositories, err);
	if (!mirrors_are_any(&settings->mirrors))
		return 0;
	err_set(err, ERR_CONFIG, "mirrors cannot be configured at a secondary");
	return err_remedy(
		err, "move [mirror], [mirrors] and [watcher] to the primary's "
		     "configuration: its mirrors are copied like all its repositories");
}

static int read_push(const struct conf *conf, struct node_settings *settings,
		     struct err *err)
{
	if (!push_is_configured(conf))
		return 0;
	return push_settings_read(conf, settings->site.data, &settings->push, err);
}

static int node_settings_read_all(const struct conf *conf, struct node_settings *settings,
				  struct err *err)
{
	if (settings_check_built(node_settings_tables, conf, err) != 0 ||
	    site_from_conf(conf, &settings->site, err) != 0 ||
	    check_role(conf, err) != 0 || site_check_apart(&settings->site, err) != 0 ||
	    transport_read(conf, &settings->transport, err) != 0 ||
	    settings_read(&pull_settings_table, conf, NULL, &settings->pull, err) != 0 ||
	    settings_read(&events_table, conf, NULL, settings, err) != 0 ||
	    settings_read(&log_table, conf, NULL, settings, err) != 0 ||
	    serve_settings_read(conf, settings->site.data, &settings->serve, err) != 0 ||
	    serve_settings_check(&settings->serve, settings->site.repositories, err) !=
		    0 ||
	    kinds_read(conf, &settings->kinds, err) != 0 ||
	    read_mirrors(conf, settings, err) != 0 ||
	    alerts_read(conf, &settings->alerts, err) != 0 ||
	    read_push(conf, settings, err) != 0)
		return -1;
	if (settings->site.role == SITE_SECONDARY)
		return node_settings_read_primary(settings, err);
	return 0;
}

int node_settings_read(const struct conf *conf, struct node_settings *settings,
		       struct err *err)
{
	*settings = (struct node_settings){ .key.secret = STR_INIT };
	if (node_settings_read_all(conf, settings, err) == 0)
		return 0;
	node_settings_clear(settings);
	return -1;
}

int node_settings_check(const struct conf *conf, struct err *err)
{
	AUTO_SETTINGS struct node_settings settings;
	struct access *access = NULL;

	if (node_settings_read(conf, &settings, err) != 0 ||
	    access_read(conf, settings.site.role == SITE_PRIMARY, &access, err) != 0)
		return -1;
	access_free(access);
	return 0;
}

void node_settings_clear(struct node_settings *settings)
{
	site_clear(&settings->site);
	transport_clear(&settings->transport);
	if (settings->has_key)
		site_key_clear(&settings->key);
	push_settings_unref(settings->push);
	serve_settings_clear(&settings->serve);
	kinds_clear(&settings->kinds);
	mirrors_clear(&settings->mirrors);
	alerts_clear(&settings->alerts);
	*settings = (struct node_settings){ .key.secret = STR_INIT };
}

static void report_restart(const char *key, const char *before, const char *after)
{
	if (strcmp(before ? before : "", after ? after : "") != 0)
		log_warn("node.restart_needed", LOG_TEXT("key", key),
			 LOG_TEXT("before", before), LOG_TEXT("after", after));
}

/* Those rows that a node obeys from its start only. */
static void report_restarts_of(const struct setting_table *table, const void *before,
			       const void *after)
{
	for (const struct setting *row = table->rows; row->key; row++) {
		AUTO_FREE char *name = xasprintf("%s.%s", table->section, row->key);
		if (row->at_start && !setting_is_same(row, before, after))
			log_warn("node.restart_needed", LOG_TEXT("key", name),
				 LOG_TEXT("before", setting_text(row, before)),
				 LOG_TEXT("after", setting_text(row, after)));
	}
}

static bool same_blobs(const struct blob_kinds *before, const struct blob_kinds *after)
{
	bool is_same = before->items.count == after->items.count;

	for (size_t i = 0; is_same && i < before->items.count; i++) {
		const struct blob_kind *one = &before->items.items[i];
		const struct blob_kind *other = &after->items.items[i];
		is_same = strcmp(one->type, other->type) == 0 &&
			  strcmp(one->path, other->path) == 0 &&
			  one->layout == other->layout;
	}
	return is_same;
}

void node_settings_report_restarts(const struct node_settings *before,
				   const struct node_settings *after)
{
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		report_restarts_of(parts[i].table, (const char *)before + parts[i].offset,
				   (const char *)after + parts[i].offset);
	report_restart("http.url", before->transport.url, after->transport.url);
	report_restart("http.tlsCertificate", before->transport.identity ? "set" : NULL,
		       after->transport.identity ? "set" : NULL);
	if (before->push)
		report_restart("replication.eventsDirectory", before->push->directory,
			       after->push ? after->push->directory : NULL);
	else if (after->push)
		log_warn("node.restart_needed", LOG_TEXT("key", "remote"));
	if (!same_blobs(&before->kinds.blobs, &after->kinds.blobs))
		log_warn("node.restart_needed", LOG_TEXT("key", "blob"));
	if (!mirrors_are_same(&before->mirrors, &after->mirrors))
		log_warn("node.restart_needed", LOG_TEXT("key", "mirror"));
}
