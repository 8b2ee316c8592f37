#include "pull/mirror_adopt.h"

#include <dirent.h>
#include <fcntl.h>

#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "job/job.h"
#include "mirror/upstream.h"
#include "pull/clone_secrets.h"
#include "pull/mirror_take.h"
#include "pull/pull_parts.h"
#include "pull/sync_repository.h"
#include "replicable/name.h"

#define FILE_MOST ((size_t)64 << 20)
#define CONFIG "config"
#define WORK_TREE_CONFIG "config.worktree"
#define FETCHED "FETCH_HEAD"
#define LOCK ".lock"

#define DEPTH_MOST 64

struct mirror_adopting {
	struct pull_job *job;
	const struct mirror *mirror;
	int clone;        /* its directory */
	const char *path; /* below the root */
};

struct mirror_adopting_secret {
	enum clone_secret form;
	const char *text;
	size_t len;
};

static bool mirror_adopt_is_of(const struct watcher *watcher,
			       const struct mirror_adopting_secret *secret)
{
	const char *file =
		watcher->token_file ? watcher->token_file : watcher->password_file;
	struct str own = STR_INIT;
	bool is_same = file && upstream_read_secret(file, &own, ERR_IGNORED) == 0 &&
		       clone_secrets_are(secret->form, secret->text, secret->len, &own);

	str_wipe(&own);
	return is_same;
}

/* The watcher of the mirror whose secret it is now; NULL: nobody's. */
static const struct watcher *mirror_adopt_recognize(
	const struct mirror_adopting *one, const struct mirror_adopting_secret *secret)
{
	const struct watcher *watcher;
	size_t at = 0;

	while ((watcher = mirrors_next_watcher(one->job->pull->options.mirrors,
					       one->mirror, &at)) != NULL)
		if (mirror_adopt_is_of(watcher, secret))
			return watcher;
	return NULL;
}

/* clone_secrets_sink.found; arg: struct mirror_adopting */
static void mirror_adopt_report(void *arg, enum clone_secret form, const char *text,
				size_t len)
{
	const struct mirror_adopting *one = arg;
	const struct mirror_adopting_secret secret = { form, text, len };
	const struct watcher *watcher = mirror_adopt_recognize(one, &secret);

	log_warn("mirror.token_removed", LOG_TEXT("name", one->mirror->name),
		 LOG_TEXT("path", one->path),
		 LOG_TEXT("watcher", watcher ? watcher->name : "unknown"),
		 LOG_TEXT("remedy",
			  watcher ? "give this watcher a new token, and revoke the old "
				    "one: whoever could read the clone knows it"
				  : "find out whose it was, and revoke it: whoever could "
				    "read the clone knows it"));
}

/* Links are not followed. */
static bool mirror_adopt_is_absent(int code)
{
	return code == ENOENT || code == ENOTDIR || code == ELOOP;
}

/* Whether there were some. After a power cut there may be NULs between the lines. */
static bool mirror_adopt_strip(const char *name, const struct str *text,
			       const struct clone_secrets_sink *sink, struct str *clean)
{
	const char *slash = strrchr(name, '/');
	const char *base = slash ? slash + 1 : name;
	const bool is_config =
		strcmp(base, CONFIG) == 0 || strcmp(base, WORK_TREE_CONFIG) == 0;
	const char *at = text->data, *end = at + text->len;
	bool is_any = false;

	while (at < end) {
		const char *nuls = at + strlen(at), *after = nuls;
		while (after < end && !*after)
			after++;
		is_any |= is_config ? clone_secrets_strip_config(at, sink, clean)
				    : clone_secrets_strip_urls(at, sink, clean);
		str_add_bytes(clean, nuls, (size_t)(after - nuls));
		at = after;
	}
	return is_any;
}

/* Ours, from a crash: nobody else makes an empty one for longer than a moment. */
static bool mirror_adopt_bury_lock(const struct mirror_adopting *one, const char *lock)
{
	struct stat st;

	return fstatat(one->clone, lock, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(st.st_mode) && st.st_size == 0 && st.st_uid == geteuid() &&
	       time(NULL) - st.st_mtime > MIRROR_TAKE_LOCK_AGE_S &&
	       unlinkat(one->clone, lock, 0) == 0;
}

/* Git's own lock: whoever changes the file meanwhile is not undone. */
static int mirror_adopt_lock(const struct mirror_adopting *one, const char *name,
			     struct err *err)
{
	AUTO_FREE char *lock = xasprintf("%s" LOCK, name);
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
	int fd = openat(one->clone, lock, flags, 0600);

	if (fd < 0 && errno == EEXIST) {
		if (mirror_adopt_bury_lock(one, lock))
			fd = openat(one->clone, lock, flags, 0600);
		else
			errno = EEXIST;
	}
	if (fd >= 0) {
		close(fd);
		failpoint("adopt.locked");
		return 0;
	}
	if (errno != EEXIST)
		return err_errno(err, "cannot make %s/%s", one->path, lock);
	err_set(err, ERR_CONFLICT, "%s/%s: somebody is changing it", one->path, name);
	return err_remedy(err, "if no git runs there, remove %s", lock);
}

static int mirror_adopt_clean_file(const struct mirror_adopting *one, const char *name,
				   struct err *err)
{
	AUTO_FREE char *lock = xasprintf("%s" LOCK, name);
	const struct clone_secrets_sink sink = { mirror_adopt_report,
						 (void *)(uintptr_t)one };
	struct str text = STR_INIT, clean = STR_INIT;
	int result;

	if (mirror_adopt_lock(one, name, err) != 0)
		return -1;
	result = file_read(one->clone, name, FILE_MOST, &text, err);
	if (result == 0) {
		mirror_adopt_strip(name, &text, &sink, &clean);
		result = file_replace(one->clone, name, clean.data, clean.len, FILE_SYNC,
				      err);
	}
	unlinkat(one->clone, lock, 0);
	str_wipe(&text);
	str_wipe(&clean);
	return result;
}

/* 0, if it is not for us to change: it is not there, a link, or no file. What cannot be
 * read now is read by the next try. */
static int mirror_adopt_forgive(const struct mirror_adopting *one, const char *name,
				struct err *err)
{
	if (err->class == ERR_MISSING)
		return 0;
	if (err->sys_errno != 0)
		return err_prefix(err, "%s", one->path);
	if (err->class == ERR_CORRUPT) { /* too large */
		AUTO_FREE char *path = xasprintf("%s/%s", one->path, name);
		log_warn("upkeep.failed", LOG_ERR(err), LOG_TEXT("path", path),
			 LOG_TEXT("name", one->mirror->name),
			 LOG_TEXT("remedy",
				  "it was not searched for credentials: remove it, or "
				  "what it has of them"));
	}
	return 0;
}

/* 1: it has one. 0: it has none. */
static int mirror_adopt_look(const struct mirror_adopting *one, const char *name,
			     struct err *err)
{
	struct str text = STR_INIT, clean = STR_INIT;
	int result = file_read(one->clone, name, FILE_MOST, &text, err);

	result = result == 0 ? mirror_adopt_strip(name, &text, NULL, &clean)
			     : mirror_adopt_forgive(one, name, err);
	str_wipe(&text);
	str_wipe(&clean);
	return result;
}

/* Adds it if it has a secret. */
static int mirror_adopt_search_file(const struct mirror_adopting *one, const char *name,
				    text_list *found, struct err *err)
{
	int result = mirror_adopt_look(one, name, err);

	if (result > 0)
		vec_add(found, xstrdup(name));
	return result < 0 ? -1 : 0;
}

static bool mirror_adopt_is_text(const char *path)
{
	const char *base = strrchr(path, '/') + 1;

	return text_starts_with(path, "logs/") || strstr(path, "/logs/") ||
	       strcmp(base, CONFIG) == 0 || strcmp(base, WORK_TREE_CONFIG) == 0 ||
	       strcmp(base, FETCHED) == 0;
}

/* Itself, what is above it, and objects: a submodule may be called like these. */
static bool mirror_adopt_passes(int dir, const char *name)
{
	struct stat st;

	return name_is_dots(name) ||
	       (strcmp(name, "objects") == 0 &&
		fstatat(dir, "HEAD", &st, AT_SYMLINK_NOFOLLOW) == 0);
}

static int mirror_adopt_search_folder(const struct mirror_adopting *one,
				      const char *folder, unsigned depth,
				      text_list *found, struct err *err);

static int mirror_adopt_search_entry(const struct mirror_adopting *one, int dir,
				     const struct dirent *entry, const char *path,
				     unsigned depth, text_list *found, struct err *err)
{
	if (mirror_adopt_passes(dir, entry->d_name))
		return 0;
	if (dir_entry_is_directory(dir, entry))
		return mirror_adopt_search_folder(one, path, depth + 1, found, err);
	return mirror_adopt_is_text(path)
		       ? mirror_adopt_search_file(one, path, found, err)
		       : 0;
}

/* Through no link. */
static int mirror_adopt_search_folder(const struct mirror_adopting *one,
				      const char *folder, unsigned depth,
				      text_list *found, struct err *err)
{
	int fd = path_open_beneath(one->clone, folder, O_RDONLY | O_DIRECTORY);
	struct dirent *entry;

	if (fd < 0 && mirror_adopt_is_absent(errno))
		return 0;
	AUTO_CLOSEDIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		err_errno(err, "%s: cannot open directory %s", one->path, folder);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	while (depth < DEPTH_MOST && (errno = 0, entry = readdir(dir)) != NULL) {
		AUTO_FREE char *path = xasprintf("%s/%s", folder, entry->d_name);
		if (mirror_adopt_search_entry(one, fd, entry, path, depth, found, err) !=
		    0)
			return -1;
	}
	return depth == DEPTH_MOST || errno == 0
		       ? 0
		       : err_errno(err, "%s: cannot list %s", one->path, folder);
}

static int mirror_adopt_search(const struct mirror_adopting *one, text_list *found,
			       struct err *err)
{
	static const char *const files[] = { CONFIG, WORK_TREE_CONFIG, FETCHED };
	static const char *const folders[] = { "logs", "modules", "worktrees" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (mirror_adopt_search_file(one, files[i], found, err) != 0)
			return -1;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (mirror_adopt_search_folder(one, folders[i], 0, found, err) != 0)
			return -1;
	return 0;
}

/* job_work */
static int mirror_adopt_leased(struct job *job, void *arg, struct err *err)
{
	const struct mirror_adopting *one = arg;
	AUTO_TEXT_LIST text_list found = { 0 };

	(void)job;
	if (mirror_adopt_search(one, &found, err) != 0)
		return -1;
	for (size_t i = 0; i < found.count; i++)
		if (mirror_adopt_clean_file(one, found.items[i], err) != 0)
			return -1;
	return 0;
}

static int mirror_adopt_run(struct pull_job *job, const struct mirror *mirror,
			    job_work run, void *arg, struct err *err)
{
	const struct pull_options *options = &job->pull->options;

	return job_run(
		&(struct job_request){
			.leases = options->leases,
			.kind = KIND_MIRROR,
			.name = mirror->name,
			.id = job->id,
			.operation = "adopt",
			.fence_floor = job_fence_floor(options->here->root, mirror->name),
			.timeout_ms = pull_settings_now(job->pull).timeout_ms,
			.wait_ms = job->lease_wait_ms,
			.stop = &job->pull->kill,
			.run = run,
			.arg = arg },
		err);
}

/* Whether it is nothing that passes by itself. */
static bool mirror_adopt_is_refused(const struct err *err)
{
	return err->sys_errno == EACCES || err->sys_errno == EPERM;
}

/* 1: some of it is not ours to read, as *err says. */
static int mirror_adopt_one(struct pull_job *job, const struct mirror *mirror,
			    const char *path, struct err *err)
{
	const struct pull_options *options = &job->pull->options;
	AUTO_TEXT_LIST text_list found = { 0 };
	AUTO_CLOSE int root = dir_open(AT_FDCWD, options->here->root, err);

	if (root < 0)
		return -1;
	AUTO_CLOSE int clone = path_open_beneath(root, path, O_RDONLY | O_DIRECTORY);
	if (clone < 0 && mirror_adopt_is_absent(errno))
		return 0;
	struct mirror_adopting one = {
		.job = job, .mirror = mirror, .clone = clone, .path = path
	};
	int result = clone < 0 ? err_errno(err, "cannot open %s", path)
			       : mirror_adopt_search(&one, &found, err);
	if (result != 0)
		return mirror_adopt_is_refused(err) ? 1 : -1;
	return found.count > 0
		       ? mirror_adopt_run(job, mirror, mirror_adopt_leased, &one, err)
		       : 0;
}

/* job_work; arg: struct mirror_take */
static int mirror_adopt_take_leased(struct job *job, void *arg, struct err *err)
{
	return mirror_take_over(job, arg, err);
}

static int mirror_adopt_take(struct pull_job *job, const struct mirror *mirror,
			     const struct err *unread, struct err *err)
{
	struct mirror_take take = { .root = job->pull->options.here->root,
				    .name = mirror->name,
				    .url = mirror->url,
				    .unread = unread };
	int needed = mirror_take_is_needed(&take, err);

	return needed > 0 ? mirror_adopt_run(job, mirror, mirror_adopt_take_leased, &take,
					     err)
			  : needed;
}

int mirror_adopt(struct pull_job *job, struct err *err)
{
	const struct mirror *mirror =
		mirrors_find(job->pull->options.mirrors, job->items[0].row->name);
	struct err unread = { 0 };

	if (!mirror)
		return 0; /* the source says so */
	AUTO_FREE char *bare = name_to_path(mirror->name);
	AUTO_FREE char *work_tree = xasprintf("%s/.git", mirror->name);
	if (mirror_adopt_one(job, mirror, bare, err) != 0)
		return -1;
	int result = mirror_adopt_one(job, mirror, work_tree, err);
	if (result < 0)
		return -1;
	if (result > 0)
		unread = *err;
	return mirror_adopt_take(job, mirror, result > 0 ? &unread : NULL, err);
}
