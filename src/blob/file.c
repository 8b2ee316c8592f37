/*
 * A fingerprint's text is "<size>:<mtime>:<ctime>:<inode>", times in nanoseconds.
 *
 * Reading all files once a week must not push out of memory what is in use. Kernels from
 * 6.14 on can read so (RWF_DONTCACHE); with others, what was not in memory before a
 * window was read is dropped after. Mapping a window to ask reads nothing of it. Where
 * the kernel does not tell us (files that are not ours) it says that all is in memory,
 * and nothing is dropped.
 */
#include "blob/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"

#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x80
#endif

#define PIECE ((size_t)256 << 10)
#define WINDOW ((uint64_t)8 << 20)

/* The clock of files stands still for up to 10 ms on kernels before 6.13; where only full
 * seconds are seen, it may be one of seconds. */
#define SETTLE_NS INT64_C(20000000)
#define SETTLE_COARSE_NS INT64_C(2000000000)
#define SECOND_NS INT64_C(1000000000)

/* What one file system refused is not tried on others: the other way is right, too. */
static atomic_bool has_no_dontcache;

/* Times beyond the year 2262 wrap: they are compared for being the same only. */
static int64_t blob_file_to_nanoseconds(const struct timespec *time)
{
	return (int64_t)((uint64_t)time->tv_sec * 1000000000U + (uint64_t)time->tv_nsec);
}

void blob_fingerprint_of(const struct stat *stat, struct blob_fingerprint *fingerprint)
{
	*fingerprint = (struct blob_fingerprint){
		.size = (uint64_t)stat->st_size,
		.mtime_ns = blob_file_to_nanoseconds(&stat->st_mtim),
		.ctime_ns = blob_file_to_nanoseconds(&stat->st_ctim),
		.inode = stat->st_ino,
	};
}

void blob_fingerprint_format(const struct blob_fingerprint *fingerprint,
			     char text[BLOB_FINGERPRINT_SIZE])
{
	snprintf(text, BLOB_FINGERPRINT_SIZE,
		 "%" PRIu64 ":%" PRId64 ":%" PRId64 ":%" PRIu64, fingerprint->size,
		 fingerprint->mtime_ns, fingerprint->ctime_ns, fingerprint->inode);
}

void blob_digest_format(const unsigned char *bytes, char digest[BLOB_DIGEST_SIZE])
{
	AUTO_STR struct str hex = STR_INIT;

	str_add_hex(&hex, bytes, (BLOB_DIGEST_SIZE - 1) / 2);
	memcpy(digest, hex.data, BLOB_DIGEST_SIZE);
}

bool blob_fingerprint_parse(const char *text, struct blob_fingerprint *fingerprint)
{
	char again[BLOB_FINGERPRINT_SIZE];
	char *at = NULL;

	fingerprint->size = strtoull(text, &at, 10);
	at += *at == ':';
	fingerprint->mtime_ns = strtoll(at, &at, 10);
	at += *at == ':';
	fingerprint->ctime_ns = strtoll(at, &at, 10);
	at += *at == ':';
	fingerprint->inode = strtoull(at, &at, 10);
	blob_fingerprint_format(fingerprint, again);
	return strcmp(again, text) == 0;
}

bool blob_fingerprint_same(const struct blob_fingerprint *a,
			   const struct blob_fingerprint *b)
{
	return a->size == b->size && a->mtime_ns == b->mtime_ns && a->inode == b->inode;
}

/* No change escapes ctime, which nobody can set. */
bool blob_fingerprint_is_settled(const struct blob_fingerprint *fingerprint,
				 int64_t now_ns)
{
	bool is_coarse = fingerprint->ctime_ns % SECOND_NS == 0 &&
			 fingerprint->mtime_ns % SECOND_NS == 0;

	return fingerprint->ctime_ns <= now_ns &&
	       now_ns - fingerprint->ctime_ns >=
		       (is_coarse ? SETTLE_COARSE_NS : SETTLE_NS);
}

int blob_root_open(const struct blob_kind *kind, struct err *err)
{
	int root = dir_open(AT_FDCWD, kind->path, err);

	if (root >= 0 || (err->class != ERR_MISSING && err->class != ERR_CONFIG))
		return root;
	err_prefix(err, "blobs of type %s", kind->type);
	if (err->class == ERR_MISSING) {
		err->class = ERR_DISK;
		err_remedy(err, "make or mount the directory, or correct blob.%s.path",
			   kind->type);
	}
	return -1;
}

static int no_file(const char *id, const char *what, struct err *err)
{
	err_set(err, ERR_CORRUPT, "%s is %s", id, what);
	return err_remedy(err, "put a regular file there, or take it away");
}

static int open_failed(const char *id, struct err *err)
{
	if (errno == ELOOP || errno == EXDEV)
		return no_file(id, "a symbolic link, or below one", err);
	if (errno == ENXIO || errno == ENODEV)
		return no_file(id, "not a regular file", err);
	return err_errno(err, "cannot open %s", id);
}

int blob_open(int root, const char *id, int *fd, struct stat *stat, struct err *err)
{
	AUTO_CLOSE int file =
		path_open_beneath(root, id, O_RDONLY | O_NONBLOCK | O_NOCTTY);

	*fd = -1;
	if (file < 0 || fstat(file, stat) != 0)
		return open_failed(id, err);
	if (!S_ISREG(stat->st_mode))
		return no_file(id, "not a regular file", err);
	*fd = TAKE_FD(file);
	return 0;
}

struct reading {
	int fd;
	int flags; /* RWF_DONTCACHE, while the kernel takes it */
	uint64_t offset;
	char *buffer;
	size_t size;
	const struct blob_patience *patience;
};

static ssize_t blob_file_read_piece(struct reading *reading)
{
	const struct iovec to = { .iov_base = reading->buffer, .iov_len = reading->size };
	ssize_t got;

	do {
		got = preadv2(reading->fd, &to, 1, (off_t)reading->offset,
			      reading->flags);
	} while (got < 0 && errno == EINTR);
	return got;
}

/* After the first read failed: whether it was for the flag, which is not used again. */
static bool goes_without_flag(struct reading *reading)
{
	if (!reading->flags ||
	    (errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS))
		return false;
	atomic_store(&has_no_dontcache, true);
	reading->flags = 0;
	return true;
}

/* Whether most of the window that begins at `offset` is in memory. */
static bool is_in_memory(int fd, uint64_t offset, uint64_t size)
{
	unsigned char pages[WINDOW / 4096];
	size_t page = (size_t)sysconf(_SC_PAGESIZE), there = 0;
	size_t len = (size_t)(size - offset < WINDOW ? size - offset : WINDOW);
	size_t count = (len + page - 1) / page;
	void *map = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, (off_t)offset);

	if (map == MAP_FAILED)
		return true;
	if (mincore(map, len, pages) != 0)
		there = count;
	else
		for (size_t i = 0; i < count; i++)
			there += pages[i] & 1;
	munmap(map, len);
	return there * 2 > count;
}

static int blob_file_check_patience(const struct reading *reading, struct err *err)
{
	const struct blob_patience *patience = reading->patience;

	if (patience->stop && stop_is_requested(patience->stop))
		return err_set(err, ERR_CANCELED, "asked to stop");
	if (clock_boot_ms() < patience->until)
		return 0;
	return err_set(err, ERR_TIMEOUT,
		       "it takes too long to read: only %" PRIu64 " bytes in time",
		       reading->offset);
}

/* Reads from a window's begin up to its end, or to the file's. 0: that was all; 1: not.
 */
static int read_window(struct reading *reading, uint64_t size, struct hash *hash,
		       struct err *err)
{
	uint64_t begin = reading->offset;
	bool keeps =
		reading->flags || begin >= size || is_in_memory(reading->fd, begin, size);
	ssize_t got = 1;

	while (got > 0 && reading->offset - begin < WINDOW) {
		if (blob_file_check_patience(reading, err) != 0)
			return -1;
		got = blob_file_read_piece(reading);
		if (got < 0 && goes_without_flag(reading))
			return 1;
		if (got < 0)
			return err_errno(err, "cannot read the file");
		hash_add(hash, reading->buffer, (size_t)got);
		reading->offset += (uint64_t)got;
	}
	if (!keeps)
		posix_fadvise(reading->fd, (off_t)begin, (off_t)(reading->offset - begin),
			      POSIX_FADV_DONTNEED);
	return got > 0;
}

static int blob_file_read_content(struct reading *reading, uint64_t size,
				  struct hash *hash, struct err *err)
{
	int result = 1;

	while (result == 1)
		result = read_window(reading, size, hash, err);
	return result;
}

static int blob_file_take_fingerprint(int fd, struct blob_fingerprint *fingerprint,
				      struct err *err)
{
	struct stat stat;

	if (fstat(fd, &stat) != 0)
		return err_errno(err, "cannot look at the file");
	blob_fingerprint_of(&stat, fingerprint);
	return 0;
}

int blob_digest(int fd, struct blob_fingerprint *fingerprint,
		char digest[BLOB_DIGEST_SIZE], const struct stop *stop, struct err *err)
{
	const struct blob_patience patience = { .stop = stop, .until = INT64_MAX };

	return blob_digest_until(fd, fingerprint, digest, &patience, err);
}

int blob_digest_until(int fd, struct blob_fingerprint *fingerprint,
		      char digest[BLOB_DIGEST_SIZE], const struct blob_patience *patience,
		      struct err *err)
{
	struct blob_fingerprint after;
	AUTO_HASH struct hash hash = { 0 };
	unsigned char bytes[HASH_MAX_SIZE];

	if (blob_file_take_fingerprint(fd, fingerprint, err) != 0)
		return -1;
	size_t size = fingerprint->size < PIECE ? (size_t)fingerprint->size + 1 : PIECE;
	AUTO_FREE char *buffer = xmalloc(size);
	struct reading reading = {
		.fd = fd,
		.flags = atomic_load(&has_no_dontcache) ? 0 : RWF_DONTCACHE,
		.buffer = buffer,
		.size = size,
		.patience = patience,
	};
	hash_init(&hash, HASH_SHA256);
	if (blob_file_read_content(&reading, fingerprint->size, &hash, err) != 0 ||
	    blob_file_take_fingerprint(fd, &after, err) != 0)
		return -1;
	if (reading.offset != fingerprint->size ||
	    !blob_fingerprint_same(fingerprint, &after) ||
	    fingerprint->ctime_ns != after.ctime_ns)
		return err_set(err, ERR_CONFLICT, "the file changed while it was read");
	hash_end(&hash, bytes);
	blob_digest_format(bytes, digest);
	return 0;
}
