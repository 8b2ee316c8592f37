#include "cli/site_data.h"

#include <sys/stat.h>

#include "base/file.h"
#include "git/git_child.h"

/* What is in it tells who works on what: nobody else's business. */
static int make_private(const char *directory, struct err *err)
{
	if (dir_make_parents(AT_FDCWD, directory, err) != 0)
		return -1;
	if (mkdir(directory, 0700) == 0)
		return 0;
	return dir_make(AT_FDCWD, directory, err);
}

static int open_parts(struct site_data *data, struct err *err)
{
	AUTO_FREE char *url = xasprintf("sqlite:%s/refrelay.db", data->directory);
	AUTO_FREE char *leases = xasprintf("%s/leases", data->directory);

	if (git_setup(data->directory, err) != 0 ||
	    store_open(url, &data->store, err) != 0)
		return -1;
	return lease_manager_open_local(data->store,
					&(struct lease_options){ .directory = leases },
					&data->leases, err);
}

int site_data_open(const char *directory, struct site_data *data, struct err *err)
{
	*data = (struct site_data){ .directory = xstrdup(directory) };
	if (make_private(directory, err) == 0 && open_parts(data, err) == 0)
		return 0;
	site_data_close(data);
	return -1;
}

void site_data_close(struct site_data *data)
{
	lease_manager_close(data->leases);
	store_close(data->store);
	free(data->directory);
	*data = (struct site_data){ 0 };
}
