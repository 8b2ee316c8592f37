#include "change/spool.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/hook_wire.h"
#include "base/log.h"
#include "base/str.h"
#include "base/vec.h"

#define BAD "bad"

enum { BATCH = 4096, TORN_AGE_S = 3600 };

struct spooled {
	char *file, *path; /* owned */
};

struct spool {
	int dir;
	struct notice *notice;
	VEC(struct spooled) files;
	size_t done;
	bool has_left, is_told; /* a file that cannot be read now */
};

static void spool_clear(struct spool *spool)
{
	for (size_t i = 0; i < spool->files.count; i++) {
		free(spool->files.items[i].file);
		free(spool->files.items[i].path);
	}
	vec_clear(&spool->files);
}

/* A person may look at it there; it does not come again. */
static void set_aside(struct spool *spool, const char *file, const struct err *why)
{
	AUTO_FREE char *to = xasprintf(BAD "/%s", file);
	struct err err;

	log_error("spool.bad", LOG_ERR(why), LOG_TEXT("file", file));
	if ((mkdirat(spool->dir, BAD, 0700) == 0 || errno == EEXIST) &&
	    renameat(spool->dir, file, spool->dir, to) == 0)
		return;
	err_errno(&err, "cannot move %s to " BAD, file);
	log_warn("spool.failed", LOG_ERR(&err));
}

static bool is_own_name(const char *name)
{
	size_t time = strspn(name, "0123456789");
	size_t pid = name[time] == '.' ? strspn(name + time + 1, "0123456789") : 0;

	return time > 0 && pid > 0 && name[time + 1 + pid] == '\0';
}

static int spool_read_path(int dir, const char *file, struct str *path, struct err *err)
{
	if (!is_own_name(file))
		return err_set(err, ERR_CORRUPT, "%s is no file of a hook", file);
	if (file_read(dir, file, HOOK_MESSAGE_MAX, path, err) != 0)
		return -1;
	if (path->len == 0 || strlen(path->data) != path->len)
		return err_set(err, ERR_CORRUPT, "%s holds no path", file);
	return 0;
}

/* What the machine cannot read now, or the disk, is as good as before when it can; and
 * what another user's push has left, when it may be read. */
static bool spool_is_invalid(const struct err *err)
{
	return err_is_of_data(err) && err->class != ERR_DISK &&
	       err->sys_errno != EACCES && err->sys_errno != EPERM;
}

/* Once for all of them: a lack of descriptors or of memory is each one's, and a file of
 * another user's stays so until somebody mends it. */
static void spool_leave(struct spool *spool, const char *file, const struct err *err)
{
	if (!spool->is_told)
		log_warn("spool.deferred", LOG_ERR(err), LOG_TEXT("file", file),
			 LOG_TEXT("remedy", err->remedy));
	spool->has_left = spool->is_told = true;
}

static void spool_take_file(struct spool *spool, const char *file)
{
	AUTO_STR struct str path = STR_INIT;
	struct err err;

	if (spool_read_path(spool->dir, file, &path, &err) == 0) {
		struct spooled one = { xstrdup(file), str_take(&path) };
		vec_add(&spool->files, one);
	} else if (err.class != ERR_MISSING) {
		if (spool_is_invalid(&err))
			set_aside(spool, file, &err);
		else
			spool_leave(spool, file, &err);
	}
}

/* What a hook that died while it wrote has left: nobody was promised anything. */
static void remove_torn(int dir, const char *name)
{
	struct stat st;

	if (is_own_name(name + 1) && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    clock_wall_ms() / 1000 - (int64_t)st.st_mtime > TORN_AGE_S)
		unlinkat(dir, name, 0);
}

static bool spool_is_ours(const char *name)
{
	return name[0] != '.' && strcmp(name, BAD) != 0;
}

static int spool_list_files(struct spool *spool, DIR *dir, struct err *err)
{
	struct dirent *entry;

	while (spool->files.count < BATCH && (errno = 0, entry = readdir(dir)) != NULL) {
		if (spool_is_ours(entry->d_name))
			spool_take_file(spool, entry->d_name);
		else if (entry->d_name[0] == '.')
			remove_torn(spool->dir, entry->d_name);
	}
	return errno == 0 || spool->files.count == BATCH
		       ? 0
		       : err_errno(err, "cannot list " HOOK_SPOOL);
}

ORDER_BY_TEXT(by_path, struct spooled, path);

/* Whether the comparison is over: also when its result, recorded, is that the repository
 * is gone or cannot be read. Everything else may pass by itself, as what kept the result
 * from being recorded: then there is no `why`. */
static bool spool_is_settled(const struct noticed *noticed)
{
	enum err_class class = noticed->why.class;

	return class == ERR_MISSING || class == ERR_CORRUPT || class == ERR_CONFIG;
}

static bool spool_compare_repository(struct spool *spool, const char *name)
{
	AUTO_NOTICED struct noticed noticed = { 0 };
	struct err err;

	if (notice_compare_hint(spool->notice, name, &noticed, &err) == 0)
		return true;
	log_warn("spool.deferred", LOG_TEXT("repo", name), LOG_ERR(&err));
	return spool_is_settled(&noticed);
}

/* Files from..to name the same path. They were there before the comparison begins, so
 * it sees what they tell of. */
static void spool_work_on_files(struct spool *spool, size_t from, size_t to)
{
	struct err err;
	AUTO_FREE char *name =
		notice_name_of(spool->notice, spool->files.items[from].path, &err);
	bool is_done = name && spool_compare_repository(spool, name);

	failpoint("spool.compared");
	for (size_t i = from; i < to; i++) {
		const char *file = spool->files.items[i].file;
		if (!name)
			set_aside(spool, file, &err);
		else if (is_done && unlinkat(spool->dir, file, 0) == 0)
			spool->done++;
		failpoint("spool.removed");
	}
}

static int work_on_batch(struct spool *spool, struct err *err)
{
	AUTO_CLOSEDIR DIR *dir = dir_list(spool->dir, ".");

	if (!dir || spool_list_files(spool, dir, err) != 0)
		return dir ? -1 : err_errno(err, "cannot list " HOOK_SPOOL);
	vec_sort(&spool->files, by_path);
	for (size_t from = 0, to; from < spool->files.count; from = to) {
		const char *path = spool->files.items[from].path;
		for (to = from + 1; to < spool->files.count; to++)
			if (strcmp(spool->files.items[to].path, path) != 0)
				break;
		spool_work_on_files(spool, from, to);
	}
	return 0;
}

int spool_work(struct notice *notice, const char *data, bool *is_told, size_t *count,
	       struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/" HOOK_SPOOL, data);
	AUTO_CLOSE int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct spool spool = { .dir = dir, .notice = notice, .is_told = *is_told };
	size_t before;
	bool is_full;

	*count = 0;
	if (dir < 0)
		return errno == ENOENT ? 0 : err_errno(err, "cannot open %s", path);
	do {
		before = spool.done;
		int result = work_on_batch(&spool, err);
		is_full = spool.files.count == BATCH;
		spool_clear(&spool);
		*count = spool.done;
		*is_told = spool.is_told;
		if (result != 0)
			return -1;
	} while (is_full && spool.done > before);
	*is_told = spool.has_left;
	return 0;
}

size_t spool_count(const char *data)
{
	AUTO_FREE char *path = xasprintf("%s/" HOOK_SPOOL, data);
	AUTO_CLOSEDIR DIR *dir = dir_list(AT_FDCWD, path);
	struct dirent *entry;
	size_t count = 0;

	while (dir && (entry = readdir(dir)) != NULL)
		count += spool_is_ours(entry->d_name);
	return count;
}

bool spool_is_empty(const char *data)
{
	AUTO_FREE char *path = xasprintf("%s/" HOOK_SPOOL, data);
	AUTO_CLOSEDIR DIR *dir = dir_list(AT_FDCWD, path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)) != NULL)
		if (spool_is_ours(entry->d_name))
			return false;
	return true;
}
