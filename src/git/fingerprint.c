/*
 * What git itself does to refs always renames a file into its directory, which stamps
 * the directory; an editor may also write a file in place. So both directories and loose
 * files count. ctime is there because nobody can set it back.
 */
#include "git/fingerprint.h"

#include <assert.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/vec.h"
#include "git/repo.h"

/* Kernels before 6.13 stamp with the tick of their clock, up to 10 ms; file servers, and
 * ext4 with inodes of 128 bytes, with whole seconds, some with two. */
#define SETTLE_LOCAL_NS ((int64_t)20 * 1000 * 1000)
#define SETTLE_SHARED_NS ((int64_t)3 * 1000 * 1000 * 1000)

/* Each takes a descriptor and some stack. */
#define DEPTH_MAX 64

struct look {
	struct hash hash;
	unsigned depth;
	bool without_ctime;
	struct fingerprint *fingerprint;
	struct look *also; /* sees the same; NULL: nobody */
};

static void add_stat(struct look *look, const char *name, const struct stat *st)
{
	const int64_t values[] = {
		(int64_t)st->st_ino,
		(int64_t)st->st_mode,
		(int64_t)st->st_size,
		clock_ns(&st->st_mtim),
		look->without_ctime ? 0 : clock_ns(&st->st_ctim),
		(int64_t)(strlen(name) + 1),
	};
	int64_t newest = values[3] > values[4] ? values[3] : values[4];

	hash_add(&look->hash, values, sizeof(values));
	hash_add(&look->hash, name, strlen(name) + 1);
	if (S_ISREG(st->st_mode) &&
	    clock_ns(&st->st_ctim) > look->fingerprint->changed_ns)
		look->fingerprint->changed_ns = clock_ns(&st->st_ctim);
	look->fingerprint->has_links |= S_ISLNK(st->st_mode);
	look->fingerprint->has_others |=
		!S_ISLNK(st->st_mode) && !S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode);
	if (st->st_ctim.tv_nsec != 0)
		look->fingerprint->is_coarse = false;
	if (newest > look->fingerprint->newest_ns)
		look->fingerprint->newest_ns = newest;
	if (look->also)
		add_stat(look->also, name, st);
}

/* That a file is not there. */
static void add_absence(struct look *look, const char *name)
{
	hash_add(&look->hash, name, strlen(name) + 1);
	if (look->also)
		add_absence(look->also, name);
}

/* A file that may be absent: its absence is part of the picture too. */
static int fingerprint_add_path(struct look *look, int dir, const char *name,
				struct err *err)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		add_stat(look, name, &st);
	else if (errno == ENOENT)
		add_absence(look, name);
	else
		return err_errno(err, "cannot look at %s", name);
	return 0;
}

static int add_directory(struct look *look, int dir, const char *name, struct err *err);

static int fingerprint_add_entry(struct look *look, DIR *dir, const struct dirent *entry,
				 struct err *err)
{
	if (name_is_dots(entry->d_name))
		return 0;
	if (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN)
		return fingerprint_add_path(look, dirfd(dir), entry->d_name, err);
	if (add_directory(look, dirfd(dir), entry->d_name, err) == 0)
		return 0;
	if (err->sys_errno == ENOTDIR) /* DT_UNKNOWN, and a file */
		return fingerprint_add_path(look, dirfd(dir), entry->d_name, err);
	return err->sys_errno == ENOENT ? 0 : -1; /* its parent's stamp tells */
}

static int fingerprint_add_entries(struct look *look, DIR *dir, const char *name,
				   struct err *err)
{
	struct dirent *entry;

	while (errno = 0, (entry = readdir(dir)) != NULL)
		if (fingerprint_add_entry(look, dir, entry, err) != 0)
			return -1;
	return errno == 0 ? 0 : err_errno(err, "cannot list %s", name);
}

/* The directory's own stamp, then what is below it. The order of readdir is the file
 * system's: it only changes when the directory does. */
static int add_directory(struct look *look, int dir, const char *name, struct err *err)
{
	struct stat st;
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return err_errno(err, "cannot open directory %s", name);
	AUTO_CLOSEDIR DIR *list = fdopendir(fd);
	if (!list) {
		close(fd);
		return err_errno(err, "cannot list %s", name);
	}
	if (fstat(fd, &st) != 0)
		return err_errno(err, "cannot look at %s", name);
	add_stat(look, name, &st);
	if (look->depth >= DEPTH_MAX)
		return err_set(err, ERR_CONFIG, "directory %s is too deep", name);
	look->depth++;
	int result = fingerprint_add_entries(look, list, name, err);
	look->depth--;
	return result;
}

/* Which directory it is and who may enter, not what was done there. */
static void add_identity(struct look *look, int dir, const char *name)
{
	struct stat st;
	int64_t values[] = { 0, 0, (int64_t)(strlen(name) + 1) };

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		values[0] = (int64_t)st.st_ino;
		values[1] = (int64_t)st.st_mode;
	}
	for (; look; look = look->also) {
		hash_add(&look->hash, values, sizeof(values));
		hash_add(&look->hash, name, strlen(name) + 1);
	}
}

static int fingerprint_list_files(DIR *list, text_list *names)
{
	struct dirent *entry;

	while (errno = 0, (entry = readdir(list)) != NULL)
		if (!name_is_dots(entry->d_name) &&
		    !text_starts_with(entry->d_name, "tmp_") &&
		    !text_starts_with(entry->d_name, ".tmp-"))
			vec_add(names, xstrdup(entry->d_name));
	vec_sort(names, text_list_order);
	return errno == 0 ? 0 : -1;
}

/* The files in it, whatever comes and goes beside them meanwhile. */
static int fingerprint_add_files(struct look *look, int dir, const char *name,
				 struct err *err)
{
	AUTO_TEXT_LIST text_list names = { 0 };
	AUTO_CLOSEDIR DIR *list = dir_list(dir, name);

	add_identity(look, dir, name);
	if (!list)
		return errno == ENOENT ? 0 : err_errno(err, "cannot list %s", name);
	if (fingerprint_list_files(list, &names) != 0)
		return err_errno(err, "cannot list %s", name);
	for (size_t i = 0; i < names.count; i++)
		if (fingerprint_add_path(look, dirfd(list), names.items[i], err) != 0)
			return -1;
	return 0;
}

static int add_objects(struct look *look, int dir, struct err *err)
{
	add_identity(look, dir, "objects");
	if (fingerprint_add_files(look, dir, "objects/pack", err) != 0)
		return -1;
	return fingerprint_add_files(look, dir, "objects/info", err);
}

/* What git derives in parts has folders of its own. */
static int add_derived(struct look *look, int dir, struct err *err)
{
	if (fingerprint_add_files(look, dir, "objects/info/commit-graphs", err) != 0)
		return -1;
	return fingerprint_add_files(look, dir, "objects/pack/multi-pack-index.d", err);
}

static void note_diversion(struct look *look)
{
	for (; look; look = look->also)
		look->fingerprint->is_diverted = true;
}

/* Only if they are there: fingerprints of copies without them are what they were before
 * this was looked at. */
static void add_diversions(struct look *look, int dir)
{
	struct stat st;

	for (const char *const *name = repo_diversions; *name; name++)
		if (fstatat(dir, *name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
			add_stat(look, *name, &st);
			note_diversion(look);
		}
}

static void add_pack_folder(struct look *look, int dir)
{
	struct stat st;

	if (fstatat(dir, "objects/pack", &st, 0) == 0)
		add_stat(look, "objects/pack", &st);
}

static int fingerprint_observe(struct look *look, int dir, enum fingerprint_scope scope,
			       struct err *err)
{
	static const char *const files[] = {
		"HEAD",        "config",  "packed-refs",
		"description", "shallow", "config.worktree"
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (fingerprint_add_path(look, dir, files[i], err) != 0)
			return -1;
	if (add_directory(look, dir, "refs", err) != 0)
		return -1;
	if (scope == FINGERPRINT_REFS)
		return 0;
	add_diversions(look, dir);
	if (scope == FINGERPRINT_COPY)
		add_pack_folder(look, dir);
	return 0;
}

static struct look fingerprint_begin(bool is_shared, enum fingerprint_scope scope,
				     struct fingerprint *fingerprint)
{
	struct look look = { .fingerprint = fingerprint,
			     .without_ctime = scope == FINGERPRINT_FILES ||
					      scope == FINGERPRINT_OBJECTS };

	*fingerprint = (struct fingerprint){ .taken_ns = clock_wall_ns(),
					     .is_shared = is_shared,
					     .is_coarse = true };
	hash_init(&look.hash, HASH_SHA256);
	return look;
}

static void fingerprint_end(struct look *look)
{
	hash_end(&look->hash, look->fingerprint->digest);
	hash_clear(&look->hash);
}

int fingerprint_take(int dir, enum fingerprint_scope scope,
		     struct fingerprint *fingerprint, struct err *err)
{
	struct look look =
		fingerprint_begin(!file_system_is_local(dir), scope, fingerprint);
	int result = 0;

	if (scope != FINGERPRINT_OBJECTS)
		result = fingerprint_observe(&look, dir, scope, err);
	if (result == 0 && look.without_ctime)
		result = add_objects(&look, dir, err);
	if (result == 0 && scope == FINGERPRINT_OBJECTS)
		result = add_derived(&look, dir, err);
	fingerprint_end(&look);
	return result;
}

int fingerprint_take_files(int dir, struct fingerprint *files,
			   struct fingerprint *objects, struct fingerprint *copy,
			   struct err *err)
{
	const bool is_shared = !file_system_is_local(dir);
	struct look all = fingerprint_begin(is_shared, FINGERPRINT_FILES, files);
	struct look some = fingerprint_begin(is_shared, FINGERPRINT_OBJECTS, objects);
	struct look refs = fingerprint_begin(is_shared, FINGERPRINT_COPY, copy);
	int result;

	all.also = &refs;
	result = fingerprint_observe(&all, dir, FINGERPRINT_FILES, err);
	add_pack_folder(&refs, dir);
	all.also = &some;
	if (result == 0)
		result = add_objects(&all, dir, err);
	if (result == 0)
		result = add_derived(&some, dir, err);
	fingerprint_end(&all);
	fingerprint_end(&some);
	fingerprint_end(&refs);
	return result;
}

bool fingerprint_is_settled(const struct fingerprint *fingerprint)
{
	bool is_long = fingerprint->is_shared || fingerprint->is_coarse;

	return fingerprint->taken_ns - fingerprint->newest_ns >=
	       (is_long ? SETTLE_SHARED_NS : SETTLE_LOCAL_NS);
}

bool fingerprint_is_old(int dir, const struct stat *st)
{
	int64_t modified = clock_ns(&st->st_mtim);
	int64_t changed = clock_ns(&st->st_ctim);

	return fingerprint_is_settled(&(struct fingerprint){
		.newest_ns = modified > changed ? modified : changed,
		.taken_ns = clock_wall_ns(),
		.is_shared = !file_system_is_local(dir),
		.is_coarse = st->st_ctim.tv_nsec == 0 });
}

bool fingerprint_equal(const struct fingerprint *a, const struct fingerprint *b)
{
	return memcmp(a->digest, b->digest, sizeof(a->digest)) == 0;
}

void fingerprint_format(const struct fingerprint *fingerprint,
			char text[FINGERPRINT_TEXT_SIZE])
{
	for (size_t i = 0; i < sizeof(fingerprint->digest); i++)
		snprintf(text + 2 * i, 3, "%02x", fingerprint->digest[i]);
}
