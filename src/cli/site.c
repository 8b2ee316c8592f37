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

static int read_path(const struct conf *conf, const char *key, char **path,
		     struct err *err)
{
	const char *value = NULL;

	if (conf_read_text(conf_get(conf, "site", NULL, key), &value, err) != 0)
		return -1;
	if (!value || value[0] != '/') {
		err_set(err, ERR_CONFIG, "site.%s is %s", key,
			value ? "not an absolute path" : "not set");
		return err_remedy(err,
				  "set it in the section [site] of the configuration");
	}
	*path = xstrdup(value);
	return 0;
}

int site_read(const struct cli *cli, const char *directory, struct site *site,
	      struct err *err)
{
	AUTO_CONF struct conf *conf = NULL;

	*site = (struct site){ 0 };
	if (directory)
		return from_directory(directory, site, err);
	if (cli_load_config(cli, &conf, err) != 0)
		return -1;
	if (read_path(conf, "repositories", &site->repositories, err) != 0)
		return -1;
	return read_path(conf, "data", &site->data, err);
}

void site_clear(struct site *site)
{
	free(site->repositories);
	free(site->data);
	*site = (struct site){ 0 };
}
