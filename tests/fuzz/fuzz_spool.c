/*
 * libFuzzer: any file of the spool, its name in the first line, is compared and removed,
 * set aside, or left for later, if the comparison failed for now; it stops nobody: the
 * file of an honest hook beside it is always done.
 */
#include "fuzz_notice.h"

#include <sys/stat.h>

#include "change/spool.h"

static char spool[PATH_MAX];

static void put(const char *name, const void *bytes, size_t len)
{
	AUTO_FREE char *path = xasprintf("%s/%s", spool, name);

	file_replace(AT_FDCWD, path, bytes, len, FILE_NO_SYNC, ERR_IGNORED);
}

static bool is_there(const char *name)
{
	AUTO_FREE char *path = xasprintf("%s/%s", spool, name);
	struct stat st;

	return lstat(path, &st) == 0;
}

static bool ends_with_later(const char *data, size_t len)
{
	return len >= 5 && memcmp(data + len - 5, "later", 5) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_FREE char *text = xstrndup((const char *)data, len);
	char *name = text, *end = strchr(text, '\n');
	bool is_told = false;
	size_t count = 0;
	struct err err;

	if (!spool[0]) {
		make_directory();
		snprintf(spool, sizeof(spool), "%s/" HOOK_SPOOL, directory);
	}
	if (!end || end == name || strchr(".b", *name) || strlen(name) > 200)
		return 0;
	*end++ = '\0';
	if (strchr(name, '/') || strcmp(name, "9.9") == 0)
		return 0;
	if (mkdir(spool, 0700) != 0)
		abort();
	size_t at = (size_t)(end - text);
	put(name, data + at, len - at);
	put("9.9", "/root/honest", strlen("/root/honest"));
	int result = spool_work(&notice, directory, &is_told, &count, &err);
	assert(result == 0 && count >= 1 && !is_there("9.9"));
	if (is_there(name))
		assert(ends_with_later((const char *)data + at, len - at));
	assert(spool_is_empty(directory) == !is_there(name));
	tree_remove(AT_FDCWD, spool, ERR_IGNORED);
	return 0;
}
