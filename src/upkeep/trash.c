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
#include "git/lock_file.h"
#include "git/pack_merge.h"
#include "replicable/name.h"
#include "upkeep/stale.h"

static bool is_owner_name(const char *name)
{
	return strlen(name) == 32 && strspn(name, "0123456789abcdef") == 32;
}

/* Owner files of locks whose owner died between making and removing them; what is not
 * marked there was not marked in time. */
static size_t bury_owners(const struct repo *repo)
{
	size_t removed = 0;
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *dir = dir_list(repo->fd, "refrelay");

	while (dir && (entry = readdir(dir)) != NULL) {
		AUTO_CLOSE int owner = -1;
		if (!is_owner_name(entry->d_name))
			continue;
		enum lock_owner_state state =
			lock_owner_probe(dirfd(dir), entry->d_name, &owner);
		if ((state == LOCK_OWNER_DEAD || state == LOCK_OWNER_FOREIGN) &&
		    unlinkat(dirfd(dir), entry->d_name, 0) == 0)
			removed++;
	}
	return removed;
}

int tidy_left_overs(const struct repo *repo, enum tidy_after after, struct err *err)
{
	static const struct stale_rule old = { "objects/pack", STALE_TEMPORARY_S,
					       stale_is_any_of_git };
	static const struct stale_rule all[] = {
		{ "objects/pack", INT64_MIN, stale_is_any_of_git },
		{ "objects", INT64_MIN, stale_is_any_of_git },
		{ NULL, INT64_MIN, stale_is_any_of_git },
		{ ".", INT64_MIN, stale_is_own_temporary },
		{ "refrelay", INT64_MIN, stale_is_own_temporary },
		{ "refrelay/state", INT64_MIN, stale_is_own_temporary },
	};
	bool has_crashed = after == TIDY_AFTER_CRASH;
	size_t removed = 0;

	if (stale_sweep(repo, after == TIDY_AFTER_SUCCESS ? &old : all,
			has_crashed ? ARRAY_SIZE(all) : 1, &removed, err) != 0)
		return -1;
	if (has_crashed)
		removed += bury_owners(repo) + lock_file_bury_dead(repo->fd);
	if (removed > 0)
		log_info("tidy.left_overs", LOG_NUMBER("removed", removed));
	return 0;
}

/* Without those that are kept as they are. */
static size_t count_packs(const struct repo *repo)
{
	size_t count = 0, kept = 0;
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *dir = dir_list(repo->fd, "objects/pack");

	while (dir && (entry = readdir(dir)) != NULL) {
		count += text_ends_with(entry->d_name, ".pack");
		kept += text_ends_with(entry->d_name, ".keep");
	}
	return count > kept ? count - kept : 0;
}

bool tidy_packs_are_few(const struct repo *repo)
{
	return count_packs(repo) <= TIDY_PACK_LIMIT;
}

static void tidy_log_packs(const char *way, size_t before, const struct repo *repo)
{
	log_info("tidy.packs", LOG_TEXT("way", way), LOG_NUMBER("before", before),
		 LOG_NUMBER("after", count_packs(repo)));
}

/* *count is of all packs, before and after. */
static int merge_small_packs(const struct repo *repo, size_t *count, struct err *err)
{
	int merged;

	if (*count <= TIDY_PACK_LIMIT || pack_merge_count(repo) <= TIDY_PACK_LIMIT)
		return 0;
	merged = pack_merge(repo, err);
	if (merged < 0)
		return err_prefix(err, "merging packs");
	if (merged > 0)
		tidy_log_packs("merge", *count, repo);
	*count = count_packs(repo);
	return 0;
}

int tidy_packs(const struct git_work *work, const struct repo *repo, size_t most,
	       struct err *err)
{
	/* Without -k git writes `shallow` anew, and without -n lists for servers of files
	 * (info/refs), which no later change of refs would renew. */
	static const char *const geometric[] = { "repack", "--quiet",       "-n", "-d",
						 "-k",     "--geometric=2", NULL };
	/* git before 2.41 mishandles the former where alternates are. */
	static const char *const all[] = { "repack", "--quiet", "-n", "-a",
					   "-d",     "-k",      "-l", NULL };
	size_t before = count_packs(repo);

	if (merge_small_packs(repo, &before, err) != 0)
		return -1;
	if (before <= most)
		return 0;
	if (git_run(&(struct git_call){ .work = work,
					.repository = repo->path,
					.args = repo->has_alternates ? all : geometric },
		    err) != 0)
		return err_prefix(err, "folding packs");
	tidy_log_packs("git", before, repo);
	return 0;
}

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

/* The copy of `g` would stand where the folder of `g.git/h` does. A copy that is damaged
 * has something of a repository left. One that a file system does not show now is not
 * missing. */
static int trash_check_copy(int copy, const char *path, struct err *err)
{
	static const char *const parts[] = { "HEAD", "objects", "refs" };
	int fault = 0;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (faccessat(copy, parts[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return 0;
		if (errno != ENOENT && errno != ENOTDIR)
			fault = errno;
	}
	errno = fault;
	if (fault != 0)
		return err_errno(err, "cannot look at %s", path);
	return err_set(err, ERR_MISSING, "%s is not a repository, and stays", path);
}

/* One that is not there may have been moved by somebody who died then. */
static int trash_raise_fence(const struct job *job, int root, const char *path,
			     struct err *err)
{
	AUTO_CLOSE int copy = dir_open(root, path, err);

	if (copy < 0 && err->class == ERR_MISSING)
		dir_remove_above(root, path, NULL);
	if (copy < 0 || trash_check_copy(copy, path, err) != 0)
		return -1;
	return fence_raise_anew(copy, job->fence, err);
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
	dir_remove_above(fd, path, NULL);
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

#define STAGED_OLD_S ((time_t)24 * 3600)

/* Without its lease, since lease.keyFormat makes keys of names and this is a number:
 * longer ago than any sync may take. */
static bool staged_is_old(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_ctime < time(NULL) - STAGED_OLD_S;
}

/* Names are <replicable's id>.<fence>. Whoever builds there holds that id's lease. */
static int trash_clear_staged(void *arg, int dir, const char *name, struct err *err)
{
	struct lease_manager *leases = arg;
	struct lease *lease = NULL;
	char key[LEASE_KEY_SIZE];
	int result;

	if (!lease_key_for(leases, KIND_REPOSITORY, strtoull(name, NULL, 10), NULL, key))
		return staged_is_old(dir, name) ? tree_remove(dir, name, err) : 0;
	if (lease_acquire(leases,
			  &(struct lease_request){ .key = key, .operation = "clear" },
			  &lease, err) != 0)
		return err_is_deferral(err->class) ? 0 : -1;
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
