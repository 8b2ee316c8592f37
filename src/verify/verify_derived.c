/*
 * Each of these files ends with the digest of all that is before it. Two of them say
 * besides which packs or commits there are: git itself looks whether that is true.
 */
#include "verify/verify_derived.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"

#define PACKS "objects/pack"
#define INFO "objects/info"
#define MULTI_PACK_INDEX "multi-pack-index"
#define COMMIT_GRAPH "commit-graph"
#define ALTERNATES_LIMIT ((size_t)1 << 20)

static bool is_of_packs(const char *name)
{
	return text_ends_with(name, ".rev") || text_ends_with(name, ".bitmap") ||
	       text_starts_with(name, MULTI_PACK_INDEX);
}

static bool is_graph(const char *name)
{
	return text_starts_with(name, COMMIT_GRAPH);
}

/* Adds all but the last `tail` bytes; those are left in *end. */
static bool verify_derived_hash_content(int fd, off_t size, size_t tail,
					struct hash *hash, unsigned char *end,
					const struct stop *stop)
{
	char buffer[65536];
	off_t at = 0, until = size - (off_t)tail;

	while (at < until) {
		size_t want = sizeof(buffer);
		if ((off_t)want > until - at)
			want = (size_t)(until - at);
		ssize_t got = pread(fd, buffer, want, at);
		if (got <= 0 || (stop && stop_is_requested(stop)))
			return false;
		hash_add(hash, buffer, (size_t)got);
		at += got;
	}
	return pread(fd, end, tail, until) == (ssize_t)tail;
}

bool verify_ends_with_digest(int dir, const char *name, size_t oid_len,
			     const struct stop *stop)
{
	unsigned char end[HASH_MAX_SIZE], digest[HASH_MAX_SIZE];
	AUTO_HASH struct hash hash = { 0 };
	AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ||
	    st.st_size <= (off_t)oid_len)
		return false;
	hash_init(&hash, oid_len == 32 ? HASH_SHA256 : HASH_SHA1);
	if (!verify_derived_hash_content(fd, st.st_size, oid_len, &hash, end, stop))
		return false;
	hash_end(&hash, digest);
	return memcmp(end, digest, oid_len) == 0;
}

static int verify_derived_discard_file(int dir, const char *folder, const char *name,
				       struct err *err)
{
	if (tree_remove(dir, name, err) != 0)
		return -1;
	AUTO_FREE char *path = xasprintf("%s/%s", folder, name);
	log_warn("verify.derived_removed", LOG_TEXT("path", path));
	return 0;
}

/* A chain of graphs is a directory; git itself looks at it. */
static bool is_chain(int dir, const char *name)
{
	struct stat st;

	return strcmp(name, COMMIT_GRAPH "s") == 0 &&
	       fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int verify_derived_check_folder(const struct repo *repo, const char *folder,
				       bool (*is_derived)(const char *name),
				       struct err *err)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *list = dir_list(repo->fd, folder);

	while (list && (entry = readdir(list)) != NULL)
		if (is_derived(entry->d_name) && !is_chain(dirfd(list), entry->d_name) &&
		    !verify_ends_with_digest(dirfd(list), entry->d_name, repo->oid_len,
					     NULL) &&
		    verify_derived_discard_file(dirfd(list), folder, entry->d_name,
						err) != 0)
			return -1;
	return 0;
}

static int verify_derived_discard_all(const struct repo *repo, const char *folder,
				      const char *prefix, struct err *err)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *list = dir_list(repo->fd, folder);

	while (list && (entry = readdir(list)) != NULL)
		if (text_starts_with(entry->d_name, prefix) &&
		    verify_derived_discard_file(dirfd(list), folder, entry->d_name,
						err) != 0)
			return -1;
	return 0;
}

static bool verify_derived_is_there(const struct repo *repo, const char *path)
{
	struct stat st;

	return fstatat(repo->fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Whether it leads to where objects may be. */
static bool leads_somewhere(int objects, char *line)
{
	struct stat st;

	return !line[0] || line[0] == '#' || line[0] == '"' ||
	       (fstatat(objects, line, &st, 0) == 0 && S_ISDIR(st.st_mode));
}

/* Git complains of one that leads nowhere, and goes without. What was only there is
 * missing then, and found to be so. */
static int check_alternates(const struct repo *repo, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_CLOSE int objects = dir_open(repo->fd, "objects", err);
	bool is_sound = true;

	if (objects < 0)
		return -1;
	if (file_read(objects, "info/alternates", ALTERNATES_LIMIT, &text, err) != 0) {
		if (err->class == ERR_MISSING)
			return 0;
		is_sound = false;
	}
	for (char *rest = text.data, *line; is_sound && (line = strsep(&rest, "\n"));)
		is_sound = leads_somewhere(objects, line);
	return is_sound ? 0
			: verify_derived_discard_file(objects, "objects",
						      "info/alternates", err);
}

/* Not what ended the work from outside. */
static bool is_verdict(const struct err *err)
{
	return err->class != ERR_CANCELED && err->class != ERR_LOST &&
	       err->class != ERR_TIMEOUT && err->class != ERR_DISK;
}

static int verify_derived_run_git(const struct git_work *work, const struct repo *repo,
				  const char *folder, const char *command,
				  struct err *err)
{
	const char *const args[] = { command, "verify", NULL };

	if (git_run(&(struct git_call){ .work = work,
					.repository = repo->path,
					.args = args },
		    err) == 0)
		return 0;
	return is_verdict(err) ? verify_derived_discard_all(repo, folder, command, err)
			       : -1;
}

int verify_derived(const struct git_work *work, const struct repo *repo, struct err *err)
{
	if (check_alternates(repo, err) != 0 ||
	    verify_derived_check_folder(repo, PACKS, is_of_packs, err) != 0 ||
	    verify_derived_check_folder(repo, INFO, is_graph, err) != 0)
		return -1;
	if (verify_derived_is_there(repo, PACKS "/" MULTI_PACK_INDEX) &&
	    verify_derived_run_git(work, repo, PACKS, MULTI_PACK_INDEX, err) != 0)
		return -1;
	if (!verify_derived_is_there(repo, INFO "/" COMMIT_GRAPH) &&
	    !verify_derived_is_there(repo, INFO "/" COMMIT_GRAPH "s"))
		return 0;
	return verify_derived_run_git(work, repo, INFO, COMMIT_GRAPH, err);
}
