/*
 * In these files the part between "://" and "@" of an http(s) URL goes, wherever it
 * stands: as a remote's URL, in "url.*.insteadOf", in a reflog. Comments are no
 * exception; they can be read as well.
 */
#include "pull/mirror_adopt.h"

#include <dirent.h>
#include <fcntl.h>
#include <strings.h>

#include "base/file.h"
#include "base/log.h"
#include "job/job.h"
#include "mirror/upstream.h"
#include "pull/pull_parts.h"
#include "pull/sync_repository.h"
#include "replicable/name.h"

#define FILE_MOST ((size_t)16 << 20)
#define CONFIG "config"
#define LOCK ".lock"

#define DEPTH_MOST 64

struct mirror_adopting {
	struct pull_job *job;
	const struct mirror *mirror;
	int clone;        /* its directory */
	const char *path; /* below the root */
};

/* Where userinfo begins and ends ('@'), from `at` on; NULL: there is none. */
static const char *mirror_adopt_find(const char *at, const char **end)
{
	while ((at = strstr(at, "://")) != NULL) {
		const char *begin = at + strlen("://");
		*end = begin + strcspn(begin, "/@ \t\r\n\"'<>");
		at = begin;
		if (**end == '@' && (strncasecmp(begin - 7, "http://", 7) == 0 ||
				     strncasecmp(begin - 8, "https://", 8) == 0))
			return begin;
	}
	return NULL;
}

/* "%2F" is "/". */
static void mirror_adopt_decode(const char *text, size_t len, struct str *out)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char byte = 0;
		char digits[3] = { 0 };
		if (text[i] == '%' && i + 2 < len) {
			memcpy(digits, text + i + 1, 2);
			if (text_from_hex(digits, &byte, 1)) {
				str_add_char(out, (char)byte);
				i += 2;
				continue;
			}
		}
		str_add_char(out, text[i]);
	}
}

static bool mirror_adopt_is_of(const struct watcher *watcher, const struct str *secret)
{
	const char *file =
		watcher->token_file ? watcher->token_file : watcher->password_file;
	struct str own = STR_INIT;
	bool is_same = file && upstream_read_secret(file, &own, ERR_IGNORED) == 0 &&
		       own.len == secret->len &&
		       memcmp(own.data, secret->data, own.len) == 0;

	str_wipe(&own);
	return is_same;
}

/* The watcher of the mirror whose secret it is now; NULL: nobody's. */
static const struct watcher *mirror_adopt_find_watcher(const struct mirror_adopting *one,
						       const struct str *secret)
{
	const struct watcher *watcher;
	size_t at = 0;

	while ((watcher = mirrors_next_watcher(one->job->pull->options.mirrors,
					       one->mirror, &at)) != NULL)
		if (mirror_adopt_is_of(watcher, secret))
			return watcher;
	return NULL;
}

/* Whose it is: a token may be in the password, or in place of the user's name. */
static const struct watcher *mirror_adopt_recognize(const struct mirror_adopting *one,
						    const char *begin, const char *end)
{
	const char *colon = memchr(begin, ':', (size_t)(end - begin));
	const struct watcher *watcher;
	struct str secret = STR_INIT;

	str_reserve(&secret, (size_t)(end - begin));
	mirror_adopt_decode(begin, (size_t)((colon ? colon : end) - begin), &secret);
	watcher = mirror_adopt_find_watcher(one, &secret);
	str_truncate(&secret, 0);
	if (!watcher && colon) {
		mirror_adopt_decode(colon + 1, (size_t)(end - colon - 1), &secret);
		watcher = mirror_adopt_find_watcher(one, &secret);
	}
	str_wipe(&secret);
	return watcher;
}

static void mirror_adopt_report(const struct mirror_adopting *one, const char *begin,
				const char *end)
{
	const struct watcher *watcher = mirror_adopt_recognize(one, begin, end);

	log_warn("mirror.token_removed", LOG_TEXT("name", one->mirror->name),
		 LOG_TEXT("path", one->path),
		 LOG_TEXT("watcher", watcher ? watcher->name : "unknown"),
		 LOG_TEXT("remedy",
			  watcher ? "give this watcher a new token, and revoke the old "
				    "one: whoever could read the clone knows it"
				  : "find out whose it was, and revoke it: whoever could "
				    "read the clone knows it"));
}

/* *clean: the text without userinfo. */
static void mirror_adopt_clean(const struct mirror_adopting *one, const char *text,
			       struct str *clean)
{
	const char *begin, *end;

	for (; (begin = mirror_adopt_find(text, &end)) != NULL; text = end + 1) {
		str_add_bytes(clean, text, (size_t)(begin - text));
		mirror_adopt_report(one, begin, end);
	}
	str_add(clean, text);
}

/* Git's own lock: whoever changes the file meanwhile is not undone. */
static int mirror_adopt_lock(const struct mirror_adopting *one, const char *name,
			     struct err *err)
{
	AUTO_FREE char *lock = xasprintf("%s" LOCK, name);
	AUTO_CLOSE int fd =
		openat(one->clone, lock, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd >= 0)
		return 0;
	if (errno != EEXIST)
		return err_errno(err, "cannot make %s/%s", one->path, lock);
	err_set(err, ERR_CONFLICT, "%s/%s: somebody is changing it", one->path, name);
	return err_remedy(err, "if no git runs there, remove %s", lock);
}

static int mirror_adopt_clean_file(const struct mirror_adopting *one, const char *name,
				   struct err *err)
{
	AUTO_FREE char *lock = xasprintf("%s" LOCK, name);
	struct str text = STR_INIT, clean = STR_INIT;
	int result;

	if (mirror_adopt_lock(one, name, err) != 0)
		return -1;
	result = file_read(one->clone, name, FILE_MOST, &text, err);
	if (result == 0) {
		mirror_adopt_clean(one, text.data, &clean);
		result = file_replace(one->clone, name, clean.data, clean.len, FILE_SYNC,
				      err);
	}
	unlinkat(one->clone, lock, 0);
	str_wipe(&text);
	str_wipe(&clean);
	return result;
}

static bool mirror_adopt_has_secret(const struct mirror_adopting *one, const char *name)
{
	struct str text = STR_INIT;
	const char *end;
	bool has_secret =
		file_read(one->clone, name, FILE_MOST, &text, ERR_IGNORED) == 0 &&
		mirror_adopt_find(text.data, &end) != NULL;

	str_wipe(&text);
	return has_secret;
}

/* Adds those below the folder that have a secret. Through no link. */
static void mirror_adopt_walk(const struct mirror_adopting *one, const char *folder,
			      unsigned depth, text_list *found)
{
	int fd = path_open_beneath(one->clone, folder, O_RDONLY | O_DIRECTORY);
	AUTO_CLOSEDIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir && fd >= 0)
		close(fd);
	while (dir && depth < DEPTH_MOST && (entry = readdir(dir)) != NULL) {
		AUTO_FREE char *path = xasprintf("%s/%s", folder, entry->d_name);
		if (entry->d_name[0] == '.')
			continue;
		if (entry->d_type == DT_DIR)
			mirror_adopt_walk(one, path, depth + 1, found);
		else if (mirror_adopt_has_secret(one, path))
			vec_add(found, TAKE(path));
	}
}

static void mirror_adopt_search(const struct mirror_adopting *one, text_list *found)
{
	static const char *const files[] = { CONFIG, "FETCH_HEAD" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (mirror_adopt_has_secret(one, files[i]))
			vec_add(found, xstrdup(files[i]));
	mirror_adopt_walk(one, "logs", 0, found);
}

/* job_work */
static int mirror_adopt_leased(struct job *job, void *arg, struct err *err)
{
	const struct mirror_adopting *one = arg;
	AUTO_TEXT_LIST text_list found = { 0 };

	(void)job;
	mirror_adopt_search(one, &found);
	for (size_t i = 0; i < found.count; i++)
		if (mirror_adopt_clean_file(one, found.items[i], err) != 0)
			return -1;
	return 0;
}

static bool mirror_adopt_is_needed(const struct mirror_adopting *one)
{
	AUTO_TEXT_LIST text_list found = { 0 };

	mirror_adopt_search(one, &found);
	return found.count > 0;
}

static int mirror_adopt_one(struct pull_job *job, const struct mirror *mirror,
			    const char *path, struct err *err)
{
	const struct pull_options *options = &job->pull->options;
	AUTO_CLOSE int root = dir_open(AT_FDCWD, options->here->root, err);
	AUTO_CLOSE int clone =
		root < 0 ? -1 : path_open_beneath(root, path, O_RDONLY | O_DIRECTORY);
	struct mirror_adopting one = {
		.job = job, .mirror = mirror, .clone = clone, .path = path
	};

	if (root < 0)
		return -1;
	if (clone < 0 || !mirror_adopt_is_needed(&one))
		return 0;
	return job_run(
		&(struct job_request){
			.leases = options->leases,
			.kind = KIND_MIRROR,
			.name = mirror->name,
			.id = job->id,
			.operation = "adopt",
			.fence_floor =
				sync_fence_floor(options->here->root, mirror->name),
			.timeout_ms = pull_settings_now(job->pull).timeout_ms,
			.stop = &job->pull->kill,
			.run = mirror_adopt_leased,
			.arg = &one },
		err);
}

int mirror_adopt(struct pull_job *job, struct err *err)
{
	const struct mirror *mirror =
		mirrors_find(job->pull->options.mirrors, job->items[0].row->name);

	if (!mirror)
		return 0; /* the source says so */
	AUTO_FREE char *bare = name_to_path(mirror->name);
	AUTO_FREE char *work_tree = xasprintf("%s/.git", mirror->name);
	return mirror_adopt_one(job, mirror, bare, err) != 0
		       ? -1
		       : mirror_adopt_one(job, mirror, work_tree, err);
}
