#include "cli/site_data.h"

#include <sys/stat.h>

#include "base/file.h"
#include "git/git_child.h"

/* What is in it tells who works on what: nobody else's business. */
int site_data_make(const char *directory, struct err *err)
{
	if (dir_make_parents(AT_FDCWD, directory, err) != 0)
		return -1;
	if (mkdir(directory, 0700) == 0)
		return 0;
	return dir_make(AT_FDCWD, directory, err);
}

int site_data_check(const char *directory, struct err *err)
{
	struct stat st;

	if (stat(directory, &st) != 0 || (st.st_mode & 077) == 0)
		return 0;
	err_set(err, ERR_CONFIG, "others may enter site.data (%s has mode %04o)",
		directory, (unsigned)st.st_mode & 07777);
	return err_remedy(err, "chmod 700 %s", directory);
}

static int site_data_open_parts(struct site_data *data, struct lease_options options,
				struct err *err)
{
	AUTO_FREE char *url = xasprintf("sqlite:%s/refrelay.db", data->directory);
	AUTO_FREE char *leases = xasprintf("%s/leases", data->directory);

	options.directory = leases;
	if (git_setup(data->directory, err) != 0 ||
	    store_open(url, &data->store, err) != 0)
		return -1;
	return lease_manager_open_local(data->store, &options, &data->leases, err);
}

int site_data_open_node(const char *directory, const char *node, int64_t lease_ttl_ms,
			struct site_data *data, struct err *err)
{
	const struct lease_options options = { .node = node, .ttl_ms = lease_ttl_ms };

	*data = (struct site_data){ .directory = xstrdup(directory) };
	if (site_data_make(directory, err) == 0 &&
	    site_data_open_parts(data, options, err) == 0)
		return 0;
	site_data_close(data);
	return -1;
}

int site_data_open(const char *directory, struct site_data *data, struct err *err)
{
	return site_data_open_node(directory, NULL, 0, data, err);
}

int site_data_open_to_read(const char *directory, struct site_data *data, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/refrelay.db", directory);
	AUTO_FREE char *leases = xasprintf("%s/leases", directory);
	const struct lease_options options = { .directory = leases };
	int result;

	*data = (struct site_data){ .directory = xstrdup(directory) };
	result = store_open_to_read(path, &data->store, err);
	if (result != 0 && err->class == ERR_MISSING)
		result = store_open("sqlite::memory:", &data->store, err);
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
