#include "base/file.h"
#include "git/ref_reading.h"
#include "pull/source_kinds.h"

char *source_directory_url(const struct source_directory *source, const char *name,
			   struct err *err)
{
	const struct discovered *one = discovery_find(source->discovery, name);

	if (one)
		return xasprintf("%s/%s", source->root, one->path);
	err_set(err, ERR_MISSING, "the source has no repository %s", name);
	return NULL;
}

int source_directory_look(const struct source_directory *source, const char *name,
			  struct fingerprint *print, struct err *err)
{
	const struct discovered *one = discovery_find(source->discovery, name);
	AUTO_FREE char *path = source_directory_url(source, name, err);
	AUTO_CLOSE int fd = path ? dir_open(AT_FDCWD, path, err) : -1;

	if (fd < 0)
		return -1;
	if (one->is_damaged)
		return err_set(err, ERR_CORRUPT, "it is no whole bare repository");
	return fingerprint_take(fd, FINGERPRINT_REFS, print, err);
}

int source_directory_read(const struct source_directory *source, const char *name,
			  struct source_view *view, struct err *err)
{
	AUTO_FREE char *path = source_directory_url(source, name, err);
	struct ref_reading reading;

	if (!path || ref_reading_take(AT_FDCWD, path, &reading, err) != 0)
		return -1;
	*view = (struct source_view){
		.refs = reading.refs,
		.oid_len = reading.oid_len,
		.print = reading.print,
		.url = TAKE(path),
		.is_local = true,
		.has_packs = !reading.has_alternates,
		.description = reading.description,
		.settings = reading.settings,
	};
	return 0;
}
