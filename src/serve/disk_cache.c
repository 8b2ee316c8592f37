/*
 * <directory>/<hh>/<62 digits>, form: serve/disk cache.h. A file is written under
 * another name and renamed when it is whole; nothing is synced: what a crash leaves cut
 * or empty its digest tells, and on a local file system the boot in the name keeps
 * entries of another boot from being found at all.
 *
 * The modification time is when it was written or last read, by the file server's clock,
 * and moved seldom: reading costs a write only then. Processes that sweep and write at
 * the same time remove at worst a file that would have been of use.
 */
#include "serve/disk_cache.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/vec.h"
#include "git/git_child.h"

/*
 * Files are read, never mapped: what is cut under a mapping kills its reader. Lengths
 * are compared with the file's own before anything is reserved for them, and nothing is
 * believed until the digest is right.
 */

enum { PARTS = 4 };

static const char magic[8] = { 'r', 'r', 's', 'h', 'e', 'l', 'f', '\n' };

static void put_number(unsigned char *at, uint64_t value)
{
	for (size_t i = 0; i < 8; i++)
		at[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t disk_cache_file_get_number(const unsigned char *at)
{
	uint64_t value = 0;

	for (size_t i = 0; i < 8; i++)
		value |= (uint64_t)at[i] << (8 * i);
	return value;
}

uint64_t disk_cache_file_size(const struct generation_parts *parts)
{
	return (uint64_t)DISK_CACHE_FILE_HEADER + parts->capabilities.len +
	       parts->symbolic.len + parts->refs.len + parts->packed_refs.len;
}

static void disk_cache_file_compute_digest(const unsigned char *header,
					   const struct str *const *parts,
					   unsigned char *digest)
{
	AUTO_HASH struct hash hash;

	hash_init(&hash, HASH_SHA256);
	hash_add(&hash, header + DISK_CACHE_FILE_DIGESTED_AT,
		 DISK_CACHE_FILE_HEADER - DISK_CACHE_FILE_DIGESTED_AT);
	for (size_t i = 0; i < PARTS; i++)
		hash_add(&hash, parts[i]->data, parts[i]->len);
	hash_end(&hash, digest);
}

int disk_cache_file_write(int fd, const struct generation_parts *parts, struct err *err)
{
	const struct str *const list[PARTS] = { &parts->capabilities, &parts->symbolic,
						&parts->refs, &parts->packed_refs };
	unsigned char header[DISK_CACHE_FILE_HEADER] = { 0 };

	memcpy(header, magic, sizeof(magic));
	put_number(header + sizeof(magic), DISK_CACHE_FILE_VERSION);
	if (!text_from_hex(parts->name, header + DISK_CACHE_FILE_DIGESTED_AT, 32))
		return err_set(err, ERR_INTERNAL, "a generation has no name");
	for (size_t i = 0; i < PARTS; i++)
		put_number(header + DISK_CACHE_FILE_LENGTHS_AT + 8 * i, list[i]->len);
	disk_cache_file_compute_digest(header, list, header + DISK_CACHE_FILE_DIGEST_AT);
	if (file_write_all(fd, header, sizeof(header), "a cache file", err) != 0)
		return -1;
	for (size_t i = 0; i < PARTS; i++)
		if (file_write_all(fd, list[i]->data, list[i]->len, "a cache file",
				   err) != 0)
			return -1;
	return 0;
}

static int broken(const char *what, struct err *err)
{
	return err_set(err, ERR_CORRUPT, "a cache file is broken: %s", what);
}

static int read_exactly(int fd, void *buffer, size_t len, struct err *err)
{
	char *at = buffer;

	while (len > 0) {
		ssize_t got = read(fd, at, len);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_errno(err, "cannot read a cache file");
		if (got == 0)
			return broken("it was cut", err);
		at += got;
		len -= (size_t)got;
	}
	return 0;
}

static int disk_cache_file_check_header(const unsigned char *header, const char *name,
					uint64_t size, struct err *err)
{
	unsigned char expected[32];
	uint64_t left = size - DISK_CACHE_FILE_HEADER;

	if (memcmp(header, magic, sizeof(magic)) != 0 ||
	    disk_cache_file_get_number(header + sizeof(magic)) != DISK_CACHE_FILE_VERSION)
		return broken("it is of another kind", err);
	if (!text_from_hex(name, expected, sizeof(expected)) ||
	    memcmp(header + DISK_CACHE_FILE_DIGESTED_AT, expected, sizeof(expected)) != 0)
		return broken("it bears another's name", err);
	for (size_t i = 0; i < PARTS; i++) {
		uint64_t len = disk_cache_file_get_number(
			header + DISK_CACHE_FILE_LENGTHS_AT + 8 * i);
		if (len > left)
			return broken("it is too short", err);
		left -= len;
	}
	return left == 0 ? 0 : broken("it is too long", err);
}

static int read_header(int fd, const char *name, unsigned char *header, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return err_errno(err, "cannot look at a cache file");
	if (!S_ISREG(st.st_mode) || st.st_size < DISK_CACHE_FILE_HEADER ||
	    (uint64_t)st.st_size > DISK_CACHE_FILE_MAX)
		return broken("it has a wrong size", err);
	if (read_exactly(fd, header, DISK_CACHE_FILE_HEADER, err) != 0)
		return -1;
	return disk_cache_file_check_header(header, name, (uint64_t)st.st_size, err);
}

static int read_part(int fd, size_t len, struct str *part, struct err *err)
{
	str_reserve(part, len);
	if (read_exactly(fd, part->data, len, err) != 0)
		return -1;
	part->len = len;
	part->data[len] = '\0';
	return 0;
}

int disk_cache_file_read(int fd, const char *name, struct generation_parts *parts,
			 struct err *err)
{
	struct str *const list[PARTS] = { &parts->capabilities, &parts->symbolic,
					  &parts->refs, &parts->packed_refs };
	unsigned char header[DISK_CACHE_FILE_HEADER], digest[32];

	if (read_header(fd, name, header, err) != 0)
		return -1;
	for (size_t i = 0; i < PARTS; i++)
		if (read_part(fd,
			      disk_cache_file_get_number(
				      header + DISK_CACHE_FILE_LENGTHS_AT + 8 * i),
			      list[i], err) != 0)
			return -1;
	disk_cache_file_compute_digest(header, (const struct str *const *)list, digest);
	if (memcmp(header + DISK_CACHE_FILE_DIGEST_AT, digest, sizeof(digest)) != 0)
		return broken("its digest is wrong", err);
	snprintf(parts->name, sizeof(parts->name), "%s", name);
	return 0;
}

#define DIGITS "0123456789abcdef"
#define TEMPORARY "tmp-"

enum {
	FOLDERS = 256,
	FILE_DIGITS = GENERATION_NAME_SIZE - 1 - 2,
	TEMPORARY_DIGITS = 16,
	FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
};

static int disk_cache_folder_make_directory(const char *directory, struct err *err)
{
	if (dir_make_parents(AT_FDCWD, directory, err) != 0)
		return -1;
	if (mkdir(directory, 0700) != 0 && errno != EEXIST)
		return err_errno(err, "cannot make directory %s", directory);
	return 0;
}

/* Who can write there decides what clients are told. */
static int disk_cache_folder_check_mode(int dir, const char *directory, struct err *err)
{
	struct stat st;

	if (fstat(dir, &st) != 0)
		return err_errno(err, "cannot look at %s", directory);
	if (!(st.st_mode & S_IWOTH))
		return 0;
	err_set(err, ERR_CONFIG, "everybody may write to the cache's directory %s",
		directory);
	return err_remedy(err, "chmod o-w %s", directory);
}

int disk_cache_directory_open(const char *directory, struct err *err)
{
	AUTO_CLOSE int dir = dir_open(AT_FDCWD, directory, err);

	if (dir < 0 && err->sys_errno == ENOENT) {
		if (disk_cache_folder_make_directory(directory, err) != 0)
			return -1;
		dir = dir_open(AT_FDCWD, directory, err);
	}
	if (dir < 0 || disk_cache_folder_check_mode(dir, directory, err) != 0)
		return -1;
	return TAKE_FD(dir);
}

static int copy_mode(int from, int to, mode_t mask, struct err *err)
{
	struct stat st;

	if (fstat(from, &st) != 0 || fchmod(to, st.st_mode & mask) != 0)
		return err_errno(err, "cannot set the mode of a cache file");
	return 0;
}

/* Opens the folder of a generation's name, in which its file is named by the digits
 * behind the first two. ERR_MISSING: there is none. */
static int disk_cache_folder_open(int dir, const char *name, struct err *err)
{
	const char folder[3] = { name[0], name[1] };
	int fd = openat(dir, folder, FOLDER_FLAGS);

	return fd >= 0 ? fd : err_errno(err, "cannot open the cache's folder %s", folder);
}

/* The same; makes it, with the directory's mode. */
static int disk_cache_folder_make(int dir, const char *name, struct err *err)
{
	const char folder[3] = { name[0], name[1] };
	bool is_new = mkdirat(dir, folder, 0700) == 0;

	if (!is_new && errno != EEXIST)
		return err_errno(err, "cannot make the cache's folder %s", folder);
	AUTO_CLOSE int fd = disk_cache_folder_open(dir, name, err);
	if (fd < 0 || (is_new && copy_mode(dir, fd, 07777, err) != 0))
		return -1;
	return TAKE_FD(fd);
}

/* Makes a file with a name that no other has, open for writing, with the mode of the
 * directory that it is in. The caller closes it, and renames or removes it. */
static int disk_cache_temporary(int folder, char name[DISK_CACHE_TEMPORARY_SIZE],
				struct err *err)
{
	char digits[TEMPORARY_DIGITS + 1];

	random_hex(digits, TEMPORARY_DIGITS / 2);
	snprintf(name, DISK_CACHE_TEMPORARY_SIZE, TEMPORARY "%s", digits);
	AUTO_CLOSE int fd =
		openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, "cannot create a cache file");
	if (copy_mode(folder, fd, 0666, err) != 0) {
		unlinkat(folder, name, 0);
		return -1;
	}
	return TAKE_FD(fd);
}

/* The file server's time, in milliseconds since 1970, by a file that is made there. */
static int disk_cache_now(int dir, int64_t *now_ms, struct err *err)
{
	char name[DISK_CACHE_TEMPORARY_SIZE];
	struct stat st;
	AUTO_CLOSE int fd = disk_cache_temporary(dir, name, err);

	if (fd < 0)
		return -1;
	unlinkat(dir, name, 0);
	if (fstat(fd, &st) != 0)
		return err_errno(err, "cannot look at a cache file");
	*now_ms = clock_ms(&st.st_mtim);
	return 0;
}

static bool is_digits(const char *text, size_t len)
{
	return strlen(text) == len && strspn(text, DIGITS) == len;
}

static bool disk_cache_folder_is_temporary(const char *file)
{
	return text_starts_with(file, TEMPORARY) &&
	       is_digits(file + strlen(TEMPORARY), TEMPORARY_DIGITS);
}

/* A regular file with a name of ours. */
struct disk_cache_found {
	int folder;       /* in which it is ... */
	const char *file; /* ... under this name */
	const char *name; /* of the generation; NULL: it is a temporary file */
	const struct stat *st;
};

struct disk_cache_walk {
	const struct stop *stop; /* may be NULL */
	int64_t rest_ms;         /* after each folder, if there is a stop */
	void (*show)(void *arg, const struct disk_cache_found *found);
	void *arg;
};

/* prefix: the folder's two digits; "" in the directory itself, where no generation is. */
static void disk_cache_folder_show_file(const struct disk_cache_walk *walk, int folder,
					const char *prefix, const char *file)
{
	char name[GENERATION_NAME_SIZE];
	bool is_generation = prefix[0] && is_digits(file, FILE_DIGITS);
	struct stat st;

	if ((!is_generation && !disk_cache_folder_is_temporary(file)) ||
	    fstatat(folder, file, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
		return;
	if (is_generation)
		snprintf(name, sizeof(name), "%s%s", prefix, file);
	walk->show(walk->arg,
		   &(struct disk_cache_found){ .folder = folder,
					       .file = file,
					       .name = is_generation ? name : NULL,
					       .st = &st });
}

/* What was removed since, or is no folder, is passed over. */
static int walk_folder(int dir, const struct disk_cache_walk *walk, const char *prefix,
		       struct err *err)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *list = dir_list(dir, prefix[0] ? prefix : ".");

	if (!list && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
		return 0;
	if (!list)
		return err_errno(err, "cannot list the cache's folder %s", prefix);
	while (errno = 0, (entry = readdir(list)) != NULL) {
		if (walk->stop && stop_is_requested(walk->stop))
			return err_set(err, ERR_CANCELED, "stopped");
		disk_cache_folder_show_file(walk, dirfd(list), prefix, entry->d_name);
	}
	if (errno != 0)
		return err_errno(err, "cannot list the cache's folder %s", prefix);
	if (walk->stop && stop_wait(walk->stop, walk->rest_ms))
		return err_set(err, ERR_CANCELED, "stopped");
	return 0;
}

/* Shows every file; what has another name or type is passed over. ERR_CANCELED: it was
 * stopped. */
static int disk_cache_walk(int dir, const struct disk_cache_walk *walk, struct err *err)
{
	if (walk_folder(dir, walk, "", err) != 0)
		return -1;
	for (unsigned i = 0; i < FOLDERS; i++) {
		char prefix[3];
		snprintf(prefix, sizeof(prefix), "%02x", i);
		if (walk_folder(dir, walk, prefix, err) != 0)
			return -1;
	}
	return 0;
}

enum {
	TOUCH_MS = 60 * 60 * 1000,
	TEMPORARY_AGE_MS = 10 * 60 * 1000,
	REPORT_MS = 10 * 60 * 1000,
	REST_MS = 1,
};

/* A sweep goes so far below the size, so that not each new file needs one. */
#define SWEPT_SHARE(size) ((size) - (size) / 10)

struct disk_cache {
	pthread_mutex_t mutex;
	struct disk_cache_limits limits; /* guarded by mutex */
	int64_t trouble_reported_at;     /* guarded by mutex; clock_boot_ms(); 0: never */
	int64_t broken_reported_at;      /* guarded by mutex, likewise */
	char *directory;                 /* owned */
	atomic_int_fast64_t
		lead_ms;           /* of the file server's clock before clock_boot_ms() */
	atomic_uint_fast64_t used; /* bytes on disk, as last counted, and what was
				      written since */
};

static void count_removed(const char *class, size_t count)
{
	metric_add(metric_at(metric_counter("refrelay_refs_disk_removed_total",
					    "Cached refs that were removed from disk.",
					    "class"),
			     class),
		   (double)count);
}

static void count_errors(size_t count)
{
	metric_add(metric_at(metric_counter("refrelay_refs_disk_errors_total",
					    "Cached refs that could not be read from "
					    "disk or written to it.")),
		   (double)count);
}

static void show_used(const struct disk_cache *disk_cache)
{
	metric_set(metric_at(metric_gauge("refrelay_refs_disk_bytes",
					  "Disk space that cached refs take.")),
		   (double)atomic_load(&disk_cache->used));
}

static struct disk_cache_limits disk_cache_get_limits(struct disk_cache *disk_cache)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&disk_cache->mutex);

	return disk_cache->limits;
}

/* Whether it is time to say so once more. */
static bool may_report(struct disk_cache *disk_cache, int64_t *reported_at)
{
	int64_t now = clock_boot_ms();
	AUTO_UNLOCK pthread_mutex_t *held = lock(&disk_cache->mutex);

	if (*reported_at != 0 && now - *reported_at < REPORT_MS)
		return false;
	*reported_at = now;
	return true;
}

static void report_trouble(struct disk_cache *disk_cache, const struct err *err)
{
	count_errors(1);
	if (may_report(disk_cache, &disk_cache->trouble_reported_at))
		log_warn("cache.trouble", LOG_ERR(err),
			 LOG_TEXT("path", disk_cache->directory),
			 LOG_TEXT("remedy", err->remedy));
}

static void disk_cache_report_broken(struct disk_cache *disk_cache, const char *name,
				     const struct err *err)
{
	count_removed("broken", 1);
	if (may_report(disk_cache, &disk_cache->broken_reported_at))
		log_warn("cache.broken", LOG_ERR(err),
			 LOG_TEXT("path", disk_cache->directory), LOG_TEXT("name", name));
}

static void learn_time(struct disk_cache *disk_cache, int64_t server_ms)
{
	atomic_store(&disk_cache->lead_ms, server_ms - clock_boot_ms());
}

/* Tries the directory at once, so that the log tells at the start what is wrong. */
static void try_directory(struct disk_cache *disk_cache)
{
	struct err err;
	int64_t now_ms;
	AUTO_CLOSE int dir = disk_cache_directory_open(disk_cache->directory, &err);

	if (dir < 0 || disk_cache_now(dir, &now_ms, &err) != 0)
		report_trouble(disk_cache, &err);
	else
		learn_time(disk_cache, now_ms);
}

struct disk_cache *disk_cache_open(const char *directory,
				   const struct disk_cache_limits *limits)
{
	struct disk_cache *disk_cache = xcalloc(1, sizeof(*disk_cache));

	mutex_init(&disk_cache->mutex);
	disk_cache->limits = *limits;
	disk_cache->directory = xstrdup(directory);
	atomic_init(&disk_cache->used, 0);
	atomic_init(&disk_cache->lead_ms, clock_wall_ms() - clock_boot_ms());
	count_errors(0);
	count_removed("age", 0);
	count_removed("size", 0);
	count_removed("broken", 0);
	show_used(disk_cache);
	if (limits->size > 0)
		try_directory(disk_cache);
	return disk_cache;
}

void disk_cache_close(struct disk_cache *disk_cache)
{
	pthread_mutex_destroy(&disk_cache->mutex);
	free(disk_cache->directory);
	free(disk_cache);
}

void disk_cache_set_limits(struct disk_cache *disk_cache,
			   const struct disk_cache_limits *limits)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&disk_cache->mutex);

	disk_cache->limits = *limits;
}

static void add_item(struct str *items, const char *text)
{
	const uint64_t len = strlen(text);

	str_add_bytes(items, &len, sizeof(len));
	str_add(items, text);
}

void disk_cache_name(const struct look *look, char name[GENERATION_NAME_SIZE])
{
	AUTO_STR struct str items = STR_INIT;
	AUTO_STR struct str hex = STR_INIT;
	AUTO_FREE char *form = xasprintf("shelf %d", DISK_CACHE_FILE_VERSION);
	AUTO_FREE char *inode = xasprintf("%" PRIuMAX, (uintmax_t)look->inode);
	char version[GIT_VERSION_SIZE], fingerprint[FINGERPRINT_TEXT_SIZE];

	git_version(version);
	fingerprint_format(&look->fingerprint, fingerprint);
	add_item(&items, form);
	add_item(&items, version);
	add_item(&items, REFRELAY_VERSION);
	add_item(&items, look->fingerprint.is_shared ? "" : clock_boot_id());
	add_item(&items, look->path);
	add_item(&items, inode);
	add_item(&items, look->key);
	add_item(&items, fingerprint);
	hash_add_hex(HASH_SHA256, items.data, items.len, hash_size(HASH_SHA256), &hex);
	memcpy(name, hex.data, GENERATION_NAME_SIZE);
}

/* The age begins anew, now and then; who may not write there leaves it. */
static void touch(struct disk_cache *disk_cache, int fd, int64_t max_age_ms)
{
	int64_t now = clock_boot_ms() + atomic_load(&disk_cache->lead_ms);
	int64_t after = max_age_ms / 2 < TOUCH_MS ? max_age_ms / 2 : TOUCH_MS;
	struct stat st;

	if (fstat(fd, &st) != 0)
		return;
	int64_t age = now - clock_ms(&st.st_mtim);
	if (age > after || age < -TOUCH_MS)
		futimens(fd, NULL); /* NULL: the file server's own time */
}

/* Not so if there is something else where a directory should be. */
static bool disk_cache_is_absent(const struct err *err)
{
	return err->class == ERR_MISSING && err->sys_errno != ENOTDIR;
}

/* -1 with ERR_MISSING: there is none, or nothing of ours is under that name. */
static int open_entry(int folder, const char *file, struct err *err)
{
	struct stat st;
	AUTO_CLOSE int fd =
		openat(folder, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 && errno != ELOOP && errno != ENXIO)
		return err_errno(err, "cannot open cache file %s", file);
	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return err_set(err, ERR_MISSING, "%s is not a regular file", file);
	return TAKE_FD(fd);
}

static int disk_cache_read_generation(int fd, const char *name,
				      struct generation **generation, struct err *err)
{
	struct generation_parts parts = GENERATION_PARTS_INIT;

	if (disk_cache_file_read(fd, name, &parts, err) == 0)
		return generation_new(&parts, generation, err);
	generation_parts_clear(&parts);
	return -1;
}

static int read_entry(struct disk_cache *disk_cache, const char *name, int64_t max_age_ms,
		      struct generation **generation, struct err *err)
{
	AUTO_CLOSE int dir = disk_cache_directory_open(disk_cache->directory, err);
	if (dir < 0)
		return -1;
	AUTO_CLOSE int folder = disk_cache_folder_open(dir, name, err);
	if (folder < 0)
		return -1;
	AUTO_CLOSE int fd = open_entry(folder, name + 2, err);
	if (fd < 0)
		return -1;
	if (disk_cache_read_generation(fd, name, generation, err) == 0) {
		touch(disk_cache, fd, max_age_ms);
		return 0;
	}
	if (err->class == ERR_CORRUPT) {
		unlinkat(folder, name + 2, 0);
		disk_cache_report_broken(disk_cache, name, err);
	}
	return -1;
}

struct generation *disk_cache_read(struct disk_cache *disk_cache, const char *name)
{
	struct disk_cache_limits limits = disk_cache_get_limits(disk_cache);
	struct generation *generation = NULL;
	struct err err = { 0 };

	if (limits.size == 0 ||
	    read_entry(disk_cache, name, limits.max_age_ms, &generation, &err) == 0)
		return generation;
	if (!disk_cache_is_absent(&err) && err.class != ERR_CORRUPT)
		report_trouble(disk_cache, &err);
	return NULL;
}

/* Bytes of disk that it takes. */
static uint64_t space_of(const struct stat *st)
{
	return (uint64_t)st->st_blocks * 512;
}

static int disk_cache_write_file(struct disk_cache *disk_cache, int folder,
				 const struct generation_parts *parts, struct err *err)
{
	char temporary[DISK_CACHE_TEMPORARY_SIZE];
	struct stat st;
	AUTO_CLOSE int fd = disk_cache_temporary(folder, temporary, err);

	if (fd < 0)
		return -1;
	if (disk_cache_file_write(fd, parts, err) != 0)
		goto undo;
	failpoint("shelf.written");
	if (renameat(folder, temporary, folder, parts->name + 2) != 0) {
		err_errno(err, "cannot rename %s to %s", temporary, parts->name + 2);
		goto undo;
	}
	if (fstat(fd, &st) == 0) {
		learn_time(disk_cache, clock_ms(&st.st_mtim));
		atomic_fetch_add(&disk_cache->used, space_of(&st));
	}
	return 0;
undo:
	unlinkat(folder, temporary, 0);
	return -1;
}

static int write_entry(struct disk_cache *disk_cache,
		       const struct generation_parts *parts, struct err *err)
{
	AUTO_CLOSE int dir = disk_cache_directory_open(disk_cache->directory, err);
	if (dir < 0)
		return -1;
	AUTO_CLOSE int folder = disk_cache_folder_make(dir, parts->name, err);
	if (folder < 0)
		return -1;
	return disk_cache_write_file(disk_cache, folder, parts, err);
}

/* Above the size nothing is added until a sweep has made room. */
void disk_cache_write(struct disk_cache *disk_cache, const struct generation *generation)
{
	struct disk_cache_limits limits = disk_cache_get_limits(disk_cache);
	struct generation_parts parts;
	struct err err;

	generation_write(generation, &parts);
	uint64_t size = disk_cache_file_size(&parts);
	if (size > DISK_CACHE_FILE_MAX || size > limits.size ||
	    atomic_load(&disk_cache->used) > limits.size - size)
		return;
	if (write_entry(disk_cache, &parts, &err) != 0)
		report_trouble(disk_cache, &err);
	show_used(disk_cache);
}

struct kept {
	int64_t mtime_ms;
	uint64_t space;
	char name[GENERATION_NAME_SIZE];
};

struct sweep {
	int64_t now_ms, max_age_ms;
	uint64_t used;
	size_t aged, for_space;
	VEC(struct kept) kept;
};

/* One from the future, written when a clock was wrong, is as new as can be; its age is
 * counted from now on. */
static void disk_cache_inspect_file(void *arg, const struct disk_cache_found *found)
{
	struct sweep *sweep = arg;
	int64_t mtime_ms = clock_ms(&found->st->st_mtim);
	int64_t age_ms = sweep->now_ms - mtime_ms;
	int64_t most_ms = found->name ? sweep->max_age_ms : TEMPORARY_AGE_MS;
	struct kept kept = { .mtime_ms = mtime_ms, .space = space_of(found->st) };

	if (age_ms > most_ms) {
		if (unlinkat(found->folder, found->file, 0) == 0)
			sweep->aged++;
		return;
	}
	if (age_ms < -TEMPORARY_AGE_MS)
		utimensat(found->folder, found->file, NULL, AT_SYMLINK_NOFOLLOW);
	sweep->used += kept.space;
	if (!found->name)
		return;
	memcpy(kept.name, found->name, sizeof(kept.name));
	vec_add(&sweep->kept, kept);
}

static int by_time(const void *a, const void *b)
{
	const struct kept *one = a, *two = b;

	return (one->mtime_ms > two->mtime_ms) - (one->mtime_ms < two->mtime_ms);
}

static void remove_kept(int dir, struct sweep *sweep, const struct kept *kept)
{
	AUTO_CLOSE int folder = disk_cache_folder_open(dir, kept->name, ERR_IGNORED);

	if (folder < 0)
		return;
	if (unlinkat(folder, kept->name + 2, 0) == 0)
		sweep->for_space++;
	else if (errno != ENOENT)
		return;
	sweep->used -= kept->space;
}

static void make_room(int dir, struct sweep *sweep, uint64_t size,
		      const struct stop *stop)
{
	if (sweep->used <= size)
		return;
	vec_sort(&sweep->kept, by_time);
	for (size_t i = 0; i < sweep->kept.count; i++) {
		if (sweep->used <= SWEPT_SHARE(size) || (stop && stop_is_requested(stop)))
			return;
		remove_kept(dir, sweep, &sweep->kept.items[i]);
	}
}

static int run_sweep(struct disk_cache *disk_cache, struct sweep *sweep,
		     const struct stop *stop, struct err *err)
{
	struct disk_cache_limits limits = disk_cache_get_limits(disk_cache);
	struct disk_cache_walk walk = { .stop = stop,
					.rest_ms = REST_MS,
					.show = disk_cache_inspect_file,
					.arg = sweep };
	AUTO_CLOSE int dir = disk_cache_directory_open(disk_cache->directory, err);

	if (dir < 0 || disk_cache_now(dir, &sweep->now_ms, err) != 0)
		return -1;
	learn_time(disk_cache, sweep->now_ms);
	sweep->max_age_ms = limits.max_age_ms;
	if (disk_cache_walk(dir, &walk, err) != 0)
		return -1;
	make_room(dir, sweep, limits.size, stop);
	atomic_store(&disk_cache->used, sweep->used);
	show_used(disk_cache);
	return 0;
}

void disk_cache_sweep(struct disk_cache *disk_cache, const struct stop *stop)
{
	struct sweep sweep = { 0 };
	struct err err;

	if (run_sweep(disk_cache, &sweep, stop, &err) != 0 && err.class != ERR_CANCELED)
		report_trouble(disk_cache, &err);
	count_removed("age", sweep.aged);
	count_removed("size", sweep.for_space);
	vec_clear(&sweep.kept);
}

struct clearing {
	size_t removed;
	struct err *err;
};

static void disk_cache_clear_file(void *arg, const struct disk_cache_found *found)
{
	struct clearing *clearing = arg;

	if (unlinkat(found->folder, found->file, 0) == 0)
		clearing->removed++;
	else if (errno != ENOENT && clearing->err->class == ERR_NONE)
		err_errno(clearing->err, "cannot remove cache file %s", found->file);
}

/* By their names, one by one: whatever else an operator's directory holds stays. */
size_t disk_cache_clear(const char *directory, struct err *err)
{
	struct clearing clearing = { .err = err };
	struct disk_cache_walk walk = { .show = disk_cache_clear_file, .arg = &clearing };
	struct err walked = { 0 };
	AUTO_CLOSE int dir = dir_open(AT_FDCWD, directory, &walked);

	*err = (struct err){ 0 };
	if ((dir < 0 && !disk_cache_is_absent(&walked)) ||
	    (dir >= 0 && disk_cache_walk(dir, &walk, &walked) != 0))
		*err = walked;
	return clearing.removed;
}
