/*
 * A name in the trash is <ms>.<fence>.<path, "/" as "%2F", "%" as "%25">: the first
 * number says when it may go. It counts by a clock that is kept in the trash
 * (base/seen_time.h): a node that starts with a clock that is weeks ahead must not delete
 * what nobody had the time to look for.
 */
#include "upkeep/trash.h"

#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "base/seen_time.h"
#include "base/str.h"
#include "git/fence.h"
#include "replicable/name.h"

#define TRASH OWN_FOLDER "/trash"
#define CLOCK OWN_FOLDER "/" TRASH_CLOCK
#define STAGING OWN_FOLDER "/staging"

static void trash_add_escaped(const char *path, struct str *out)
{
	for (; *path; path++) {
		if (*path == '/' || *path == '%')
			str_addf(out, "%%%02X", (unsigned char)*path);
		else
			str_add_char(out, *path);
	}
	if (out->len > 240) /* for people only: the numbers in front make it unique */
		str_truncate(out, 240);
}

void trash_remove_folders(int root, const char *path)
{
	AUTO_FREE char *parent = xstrdup(path);
	char *slash;

	while ((slash = strrchr(parent, '/')) != NULL) {
		*slash = '\0';
		if (unlinkat(root, parent, AT_REMOVEDIR) != 0)
			break;
	}
}

/* The copy of `g` would stand where the folder of `g.git/h` does. A copy that is damaged
 * has something of a repository left. */
static int trash_check_copy(int copy, const char *path, struct err *err)
{
	static const char *const parts[] = { "HEAD", "objects", "refs" };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (faccessat(copy, parts[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return 0;
	return err_set(err, ERR_MISSING, "what stands at %s is no repository: it stays",
		       path);
}

/* One that is not there may have been moved by somebody who died then. */
static int trash_raise_fence(const struct job *job, int root, const char *path,
			     struct err *err)
{
	AUTO_CLOSE int copy = dir_open(root, path, err);

	if (copy < 0 && err->class == ERR_MISSING)
		trash_remove_folders(root, path);
	if (copy < 0 || trash_check_copy(copy, path, err) != 0)
		return -1;
	return fence_raise(copy, job->fence, err);
}

char *trash_make_place(const struct job *job, int root, const char *path, struct err *err)
{
	AUTO_STR struct str name = STR_INIT;

	if (dir_make(root, TRASH, err) != 0)
		return NULL;
	str_addf(&name, TRASH "/%" PRId64 ".%" PRIu64 ".", seen_time_keep(root, CLOCK, 0),
		 job->fence);
	trash_add_escaped(path, &name);
	return str_take(&name);
}

int trash_put(struct job *job, const char *root, const char *path, char **to,
	      struct err *err)
{
	AUTO_CLOSE int fd = dir_open(AT_FDCWD, root, err);
	AUTO_FREE char *name = fd < 0 ? NULL : trash_make_place(job, fd, path, err);

	if (!name || trash_raise_fence(job, fd, path, err) != 0 ||
	    lease_check(job->lease, err) != 0)
		return -1;
	if (renameat(fd, path, fd, name) != 0)
		return err_errno(err, "cannot move %s to the trash", path);
	failpoint("trash.moved");
	if (dir_sync(fd, TRASH, err) != 0)
		return -1;
	trash_remove_folders(fd, path);
	log_info("trash.put", LOG_TEXT("path", path), LOG_TEXT("to", name));
	*to = TAKE(name);
	return dir_sync(fd, ".", err);
}

/* Calls `each` for every entry of <root>/<folder>; one that fails stops no other. */
static void for_each(const char *root, const char *folder,
		     int (*each)(void *arg, int dir, const char *name, struct err *err),
		     void *arg)
{
	struct dirent *entry;
	AUTO_FREE char *path = xasprintf("%s/%s", root, folder);
	AUTO_CLOSEDIR DIR *dir = dir_list(AT_FDCWD, path);

	while (dir && (entry = readdir(dir)) != NULL) {
		struct err err;
		if (entry->d_name[0] != '.' &&
		    each(arg, dirfd(dir), entry->d_name, &err) != 0)
			log_warn("upkeep.failed", LOG_ERR(&err), LOG_TEXT("path", path),
				 LOG_TEXT("name", entry->d_name));
	}
}

static int find_newest(void *arg, int dir, const char *name, struct err *err)
{
	int64_t *newest = arg, since = strtoll(name, NULL, 10);

	(void)dir;
	(void)err;
	if (since > *newest)
		*newest = since;
	return 0;
}

static int expire_one(void *arg, int dir, const char *name, struct err *err)
{
	const int64_t *now = arg;
	int64_t since = strtoll(name, NULL, 10);

	if (since <= 0 || *now - since <= TRASH_KEEP_MS)
		return 0;
	if (tree_remove(dir, name, err) != 0)
		return -1;
	log_info("trash.expired", LOG_TEXT("name", name));
	return 0;
}

void trash_expire(const char *root)
{
	AUTO_CLOSE int fd = dir_open(AT_FDCWD, root, ERR_IGNORED);
	int64_t newest = 0, now;

	if (fd < 0 || faccessat(fd, TRASH, F_OK, 0) != 0)
		return;
	for_each(root, TRASH, find_newest, &newest);
	now = seen_time_keep(fd, CLOCK, newest);
	for_each(root, TRASH, expire_one, &now);
}

/* Names are <replicable's id>.<fence>. Whoever builds there holds that id's lease. */
static int trash_clear_staged(void *arg, int dir, const char *name, struct err *err)
{
	struct lease_manager *leases = arg;
	struct lease *lease = NULL;
	char key[LEASE_KEY_SIZE];
	int result;

	lease_key_for(KIND_REPOSITORY, strtoull(name, NULL, 10), key);
	if (lease_acquire(leases,
			  &(struct lease_request){ .key = key, .operation = "clear" },
			  &lease, err) != 0)
		return err->class == ERR_BUSY ? 0 : -1;
	result = tree_remove(dir, name, err);
	lease_release(lease);
	if (result == 0)
		log_info("staging.cleared", LOG_TEXT("name", name));
	return result;
}

void staging_clear(struct lease_manager *leases, const char *root)
{
	for_each(root, STAGING, trash_clear_staged, leases);
}
