#include "node/settings.h"

#include "cli/cli.h"
#include "web/access.h"
#include "web/listen.h"

static int read_listen(const struct conf *conf, struct node_settings *settings,
		       struct err *err)
{
	const struct conf_entry *entry = conf_get(conf, "http", NULL, "listen");
	const char *listen = "127.0.0.1:8418";
	const char *url = NULL;
	struct err bad = { 0 };

	if (conf_read_text(entry, &listen, err) != 0)
		return -1;
	if (listen_check(listen, &bad) != 0) {
		conf_error(entry, err, "%s", bad.text);
		return err_remedy(err, "%s", bad.remedy);
	}
	settings->listen = xstrdup(listen);
	if (conf_read_text(conf_get(conf, "http", NULL, "url"), &url, err) != 0)
		return -1;
	settings->url = url && *url ? xstrdup(url) : NULL;
	return 0;
}

/* A secondary may ask a primary that knows nobody's secret only when the primary lets
 * operators of loopback read, which is no replication: so both must be there. */
static int node_settings_read_primary(const struct conf *conf,
				      struct node_settings *settings, struct err *err)
{
	const char *file = NULL;

	if (conf_read_text(conf_get(conf, "primary", NULL, "secretFile"), &file, err) !=
	    0)
		return -1;
	if (!settings->site.primary_url) {
		err_set(err, ERR_CONFIG, "a secondary needs primary.url");
		return err_remedy(err, "set url in the section [primary]");
	}
	if (!file) {
		err_set(err, ERR_CONFIG, "a secondary needs primary.secretFile");
		return err_remedy(err,
				  "put the same random text into a file at both "
				  "sites, and name it in [primary] here and in "
				  "[secondary \"%s\"] there",
				  settings->site.name);
	}
	settings->has_key = true;
	return site_key_read(settings->site.name, file, &settings->key, err);
}

static int read_intervals(const struct conf *conf, struct node_settings *settings,
			  struct err *err)
{
	const struct conf_entry *scan = conf_get(conf, "sync", NULL, "scanInterval");

	settings->scan_interval_ms = CONF_MINUTE;
	settings->keep_for_ms = 14 * (int64_t)CONF_DAY;
	settings->keep_number = 1000000;
	if (conf_read_duration(scan, CONF_SECOND, &settings->scan_interval_ms, err) !=
		    0 ||
	    conf_read_duration(conf_get(conf, "events", NULL, "keepFor"), CONF_DAY,
			       &settings->keep_for_ms, err) != 0 ||
	    conf_read_uint(conf_get(conf, "events", NULL, "keepNumber"), 0, INT64_MAX,
			   &settings->keep_number, err) != 0)
		return -1;
	if (settings->scan_interval_ms < 100)
		return conf_error(scan, err, "at least 100 ms");
	return 0;
}

static int check_role(const struct conf *conf, struct err *err)
{
	if (!conf_get(conf, "site", NULL, "role")) {
		err_set(err, ERR_CONFIG, "site.role is not set");
		return err_remedy(err, "set it to primary, secondary or standalone");
	}
	if (!conf_get(conf, "site", NULL, "name")) {
		err_set(err, ERR_CONFIG, "site.name is not set");
		return err_remedy(err, "give each site a name of its own");
	}
	return 0;
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
	if (cli_check_built(conf, err) != 0 ||
	    site_from_conf(conf, &settings->site, err) != 0 ||
	    check_role(conf, err) != 0 || site_check_apart(&settings->site, err) != 0 ||
	    read_listen(conf, settings, err) != 0 ||
	    transport_read(conf, &settings->transport, err) != 0 ||
	    pull_settings_read(conf, &settings->pull, err) != 0 ||
	    serve_settings_read(conf, settings->site.data, &settings->serve, err) != 0 ||
	    serve_settings_check(&settings->serve, settings->site.repositories, err) !=
		    0 ||
	    blob_kinds_read(conf, &settings->blobs, err) != 0 ||
	    read_intervals(conf, settings, err) != 0 ||
	    read_push(conf, settings, err) != 0)
		return -1;
	if (settings->site.role == SITE_SECONDARY)
		return node_settings_read_primary(conf, settings, err);
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
	    access_read(conf, &access, err) != 0)
		return -1;
	access_free(access);
	return 0;
}

void node_settings_clear(struct node_settings *settings)
{
	site_clear(&settings->site);
	free(settings->listen);
	free(settings->url);
	transport_clear(&settings->transport);
	if (settings->has_key)
		site_key_clear(&settings->key);
	push_settings_unref(settings->push);
	serve_settings_clear(&settings->serve);
	blob_kinds_clear(&settings->blobs);
	*settings = (struct node_settings){ .key.secret = STR_INIT };
}
