/*
 * Everything is written in pieces of 256 KiB that begin at multiples of that: half as
 * large or twice as large, and not aligned, cost more. What has been written is given to
 * the disk while more comes, so that the flush at the end finds little to do and a large
 * blob does not fill the memory with dirty pages.
 *
 * A file that may be resumed has a name that follows from its kind, id and `resume`. Its
 * writer holds a lock on it (flock) from opening it to its rename or removal, and whoever
 * removes such a file holds it, too. So the file of that name is the writer's, and
 * nobody else's bytes come into place by its rename. Who finds the lock taken begins
 * anew under a name of its own.
 *
 * What an earlier try left may have been damaged by a crash of the machine: the digest is
 * computed from what is read of it, and tells.
 */
#include "blob/incoming.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/flush.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/seen_time.h"
#include "blob/place.h"

struct blob_incoming {
	int root;    /* borrowed */
	char *id;    /* owned */
	char *place; /* the directory below root that the file is in; owned */
	char name[48];
	int fd; /* locked, so that nobody else writes to it or takes it away */
	dev_t device;
	bool is_resumable;
	bool is_broken;    /* a write failed: what is on disk is not known */
	uint64_t expected; /* UINT64_MAX: not known */
	uint64_t stored;   /* bytes in the file, and in the digest */
	char *buffer;      /* what follows them; owned, NULL: not needed yet */
	size_t used;
	struct hash hash;
	bool has_digest;
	char digest[BLOB_DIGEST_SIZE];
};

enum incoming_fate {
	INCOMING_IN_PLACE, /* the file is somebody's now */
	INCOMING_DROPPED,
};

static int incoming_store(struct blob_incoming *incoming, struct err *err);
static void incoming_free(struct blob_incoming *incoming, enum incoming_fate fate);

/*
 * In this order: the content of all is on disk; then, by one rename each, all have their
 * names; then the names are on disk. A crash between leaves old files or new ones, and
 * temporary ones that are resumed or expire.
 */

#define TRIES 3

/* Those on one file system. */
struct group {
	VEC(struct blob_arrival *) items;
	VEC(int) files;
	enum flush_way way;
};

static void blob_arrivals_mark_failed(struct blob_arrival *arrival, const struct err *why)
{
	arrival->failed = true;
	arrival->why = *why;
}

/* Who could not read the old file cannot read the new one; but we must. */
static int blob_arrivals_prepare(struct blob_arrival *arrival, struct err *err)
{
	struct blob_incoming *incoming = arrival->incoming;
	struct stat old;

	if (incoming->is_broken)
		return err_set(err, ERR_DISK, "%s could not be written", incoming->id);
	if (incoming->used > 0 && incoming_store(incoming, err) != 0)
		return -1;
	if (place_check(incoming->root, incoming->id, &old, err) != 0)
		return -1;
	if ((old.st_mode & S_IRUSR) && fchmod(incoming->fd, old.st_mode & 0777) != 0)
		return err_errno(err, "cannot set the mode of %s", incoming->id);
	if (old.st_mode == 0)
		arrival->keeps_old = false;
	return 0;
}

static int try_rename(const struct blob_incoming *incoming, struct err *err)
{
	AUTO_CLOSE int from =
		path_open_beneath(incoming->root, incoming->place, O_PATH | O_DIRECTORY);
	AUTO_CLOSE int to = place_open_parent(incoming->root, incoming->id, err);

	if (to < 0)
		return -1;
	if (from >= 0 &&
	    renameat(from, incoming->name, to, place_name(incoming->id)) == 0)
		return 0;
	err_errno(err, "cannot move %s into place", incoming->id);
	if (err->sys_errno == EISDIR)
		err->class = ERR_CONFLICT;
	return -1;
}

/* Again, when the directory was taken away as an empty one just then. */
static int move_into_place(struct blob_arrival *arrival, struct err *err)
{
	struct blob_incoming *incoming = arrival->incoming;
	struct stat st;
	int result = -1;

	if (arrival->keeps_old &&
	    blob_discard_file(incoming->root, incoming->id, err) != 0 &&
	    err->class != ERR_MISSING)
		return -1;
	*err = (struct err){ .class = ERR_MISSING };
	for (int i = 0; i < TRIES && result != 0 && err->class == ERR_MISSING; i++)
		result = try_rename(incoming, err);
	if (result != 0)
		return -1;
	failpoint("blob.renamed");
	if (fstat(incoming->fd, &st) != 0)
		return err_errno(err, "cannot look at %s", incoming->id);
	blob_fingerprint_of(&st, &arrival->fingerprint);
	return 0;
}

/* With a log or a whole file system, the last name takes all others along. */
static int flush_names(int root, const struct group *group, struct err *err)
{
	bool is_done = false;

	for (size_t i = group->items.count; i > 0 && !is_done; i--) {
		const struct blob_arrival *arrival = group->items.items[i - 1];
		if (arrival->failed)
			continue;
		if (flush_name(root, arrival->incoming->id, group->way, err) != 0)
			return -1;
		is_done = group->way != FLUSH_EACH;
	}
	return 0;
}

/* What did not get to the disk is no part to go on with: the kernel still gives it to
 * those who read, and does not try to write it again. */
static void blob_incoming_forget(struct blob_incoming *incoming)
{
	incoming->is_broken = true;
	incoming->stored = 0;
}

static int commit_group(int root, struct group *group, struct err *err)
{
	assert(group->files.items); /* at least one */
	group->way = flush_way_for(group->files.items[0], group->files.count);
	if (flush_data(group->files.items, group->files.count, group->way, err) != 0) {
		for (size_t i = 0; i < group->items.count; i++)
			blob_incoming_forget(group->items.items[i]->incoming);
		return -1;
	}
	failpoint("blob.synced");
	for (size_t i = 0; i < group->items.count; i++) {
		struct err why;
		if (move_into_place(group->items.items[i], &why) != 0)
			blob_arrivals_mark_failed(group->items.items[i], &why);
	}
	return flush_names(root, group, err);
}

/* Those from `first` on that are on the same file system as that one. */
static void blob_arrivals_collect_group(blob_arrivals *arrivals, size_t first,
					bool *is_taken, struct group *group)
{
	dev_t device = arrivals->items[first].incoming->device;

	for (size_t i = first; i < arrivals->count; i++) {
		struct blob_arrival *arrival = &arrivals->items[i];
		if (is_taken[i] || arrival->incoming->device != device)
			continue;
		is_taken[i] = true;
		vec_add(&group->items, arrival);
		vec_add(&group->files, arrival->incoming->fd);
	}
}

static int commit_all(int root, blob_arrivals *arrivals, struct err *err)
{
	AUTO_FREE bool *is_taken = xcalloc(arrivals->count + 1, sizeof(*is_taken));
	int result = 0;

	for (size_t i = 0; i < arrivals->count; i++)
		is_taken[i] = arrivals->items[i].failed;
	for (size_t i = 0; i < arrivals->count && result == 0; i++) {
		struct group group = { 0 };
		if (is_taken[i])
			continue;
		blob_arrivals_collect_group(arrivals, i, is_taken, &group);
		result = commit_group(root, &group, err);
		vec_clear(&group.items);
		vec_clear(&group.files);
	}
	return result;
}

int blob_arrivals_commit(int root, blob_arrivals *arrivals, struct err *err)
{
	int result;

	for (size_t i = 0; i < arrivals->count; i++) {
		struct err why;
		arrivals->items[i].failed = false;
		arrivals->items[i].fingerprint = (struct blob_fingerprint){ 0 };
		if (blob_arrivals_prepare(&arrivals->items[i], &why) != 0)
			blob_arrivals_mark_failed(&arrivals->items[i], &why);
	}
	result = commit_all(root, arrivals, err);
	for (size_t i = 0; i < arrivals->count; i++) {
		struct blob_incoming *incoming = TAKE(arrivals->items[i].incoming);
		if (arrivals->items[i].fingerprint.inode != 0)
			incoming_free(incoming, INCOMING_IN_PLACE);
		else
			blob_incoming_close(incoming, false);
	}
	return result;
}

#define TRASH_TIME OWN_FOLDER "/" TRASH_CLOCK

char *blob_make_trash_path(int root, const char *id)
{
	char random[17];

	random_hex(random, 8);
	return xasprintf(PLACE_TRASH "/%" PRId64 "-%s/%s", seen_time_ms(root, TRASH_TIME),
			 random, id);
}

static int blob_discard_check_file(int dir, const char *id, struct err *err)
{
	struct stat st;

	if (dir < 0 || fstatat(dir, place_name(id), &st, AT_SYMLINK_NOFOLLOW) != 0)
		return err_errno(err, "cannot find %s", id);
	if (S_ISREG(st.st_mode))
		return 0;
	return err_set(err, ERR_MISSING,
		       "what stands at %s is not a regular file: it stays", id);
}

static int copy_to_end(int from, int to, const char *id, struct err *err)
{
	ssize_t sent;

	while ((sent = sendfile(to, from, NULL, (size_t)1 << 24)) > 0 ||
	       (sent < 0 && errno == EINTR))
		;
	if (sent != 0 || fsync(to) != 0)
		return err_errno(err, "cannot copy %s to the trash", id);
	return 0;
}

static int copy_over(int from, int to, const char *id, struct err *err)
{
	const char *name = place_name(id);
	AUTO_CLOSE int old =
		openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	AUTO_CLOSE int new =
		old < 0 ? -1
			: openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (new < 0)
		return err_errno(err, "cannot copy %s to the trash", id);
	if (copy_to_end(old, new, id, err) != 0) {
		unlinkat(to, name, 0);
		return -1;
	}
	return 0;
}

/* There first, and only then no longer here. */
static int flush_both(int root, const char *place, int from, struct err *err)
{
	enum flush_way way = flush_way_for(root, 1);

	if (flush_name(root, place, way, err) != 0)
		return -1;
	if (way == FLUSH_EACH && fsync(from) != 0)
		return err_errno(err, "cannot sync the directory of what is deleted");
	return 0;
}

/* On another file system than the trash. What cannot be removed here is not left there,
 * or each try would add a copy; but a file server may have removed it whatever it
 * answered. */
static int move_across(int root, const char *place, int from, int to, const char *id,
		       struct err *err)
{
	const char *name = place_name(id);
	struct stat st;

	if (copy_over(from, to, id, err) != 0)
		return -1;
	if (flush_name(root, place, FLUSH_EACH, err) != 0) {
		unlinkat(to, name, 0);
		return -1;
	}
	if (unlinkat(from, name, 0) != 0) {
		err_errno(err, "cannot remove %s", id);
		if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			unlinkat(to, name, 0);
		return -1;
	}
	return fsync(from) == 0 ? 0
				: err_errno(err, "cannot sync the directory of %s", id);
}

static int blob_discard_move_to_trash(int root, const char *id, const char *place,
				      struct err *err)
{
	const char *name = place_name(id);
	AUTO_FREE char *parent = xstrndup(id, name > id ? (size_t)(name - id - 1) : 0);
	AUTO_CLOSE int from = path_open_beneath(root, parent, O_RDONLY | O_DIRECTORY);

	if (blob_discard_check_file(from, id, err) != 0)
		return -1;
	if (faccessat(from, ".", W_OK | X_OK, 0) != 0)
		return err_errno(err, "cannot remove %s", id);
	AUTO_CLOSE int to = place_open_parent(root, place, err);
	if (to < 0)
		return -1;
	if (renameat(from, name, to, name) == 0)
		return flush_both(root, place, from, err);
	if (errno != EXDEV)
		return err_errno(err, "cannot move %s to the trash", id);
	return move_across(root, place, from, to, id, err);
}

int blob_discard_file(int root, const char *id, struct err *err)
{
	AUTO_FREE char *place = blob_make_trash_path(root, id);
	int result = blob_discard_move_to_trash(root, id, place, err);

	if (result == 0)
		failpoint("blob.discarded");
	if (result == 0 && faccessat(root, TRASH_TIME, F_OK, 0) != 0)
		seen_time_keep(root, TRASH_TIME, 0);
	return result;
}

int blob_discard(int root, const char *id, struct err *err)
{
	int result = blob_discard_file(root, id, err);

	/* also what somebody left who died just here */
	if (result == 0 || err->class == ERR_MISSING)
		place_remove_empty(root, id);
	return result;
}

#define PIECE ((size_t)256 << 10)
#define ROLL ((uint64_t)8 << 20) /* a multiple of PIECE */

static void name_randomly(struct blob_incoming *incoming)
{
	random_hex(incoming->name, 16);
	memcpy(incoming->name + 32, ".new", sizeof(".new"));
	incoming->is_resumable = false;
}

static void name_for_resuming(struct blob_incoming *incoming,
			      const struct blob_incoming_request *request)
{
	unsigned char bytes[HASH_MAX_SIZE];
	char digest[BLOB_DIGEST_SIZE];

	hash_add(&incoming->hash, request->type, strlen(request->type) + 1);
	hash_add(&incoming->hash, request->id, strlen(request->id) + 1);
	hash_add(&incoming->hash, request->resume, strlen(request->resume));
	hash_end(&incoming->hash, bytes);
	blob_digest_format(bytes, digest);
	snprintf(incoming->name, sizeof(incoming->name), "%.32s.part", digest);
	incoming->is_resumable = true;
}

/* Not a pipe, and not another file under one more name, which would be written over. */
static bool blob_incoming_is_plain_file(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink <= 1;
}

enum { OPEN_FILE = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC };

/* A try that ended before its rename may have left the mode of a file that its owner must
 * not write. While one writes, there is no shared lock; an exclusive one NFS does not
 * grant on what is open for reading. */
static bool blob_incoming_make_writable(int dir, const char *name)
{
	AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | OPEN_FILE);
	struct stat st;

	if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0 &&
	    file_is_named(dir, name, fd) && blob_incoming_is_plain_file(fd) &&
	    fstat(fd, &st) == 0 && fchmod(fd, (st.st_mode & 0777) | S_IWUSR) == 0)
		return true;
	errno = fd >= 0 && errno == EWOULDBLOCK ? EWOULDBLOCK : EACCES;
	return false;
}

/* Opened for writing, and locked; -1 with errno, EWOULDBLOCK: it is somebody else's. */
static int blob_incoming_lock(int dir, const char *name, int flags)
{
	AUTO_CLOSE int fd = openat(dir, name, O_RDWR | OPEN_FILE | flags, 0666);

	if (fd < 0 && errno == EACCES && blob_incoming_make_writable(dir, name))
		fd = openat(dir, name, O_RDWR | OPEN_FILE | flags, 0666);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0)
		return -1;
	return TAKE_FD(fd);
}

/* Likewise, made if it is not there. */
static int blob_incoming_open_named(int dir, const char *name)
{
	errno = EWOULDBLOCK;
	for (int i = 0; i < TRIES; i++) {
		AUTO_CLOSE int fd = blob_incoming_lock(dir, name, O_CREAT);
		if (fd < 0)
			return -1;
		if (file_is_named(dir, name, fd) && blob_incoming_is_plain_file(fd))
			return TAKE_FD(fd);
		errno = EWOULDBLOCK;
	}
	return -1;
}

static int blob_incoming_open_file(struct blob_incoming *incoming, int dir,
				   const struct blob_incoming_request *request,
				   struct err *err)
{
	struct stat st;

	if (request->resume) {
		name_for_resuming(incoming, request);
		incoming->fd = blob_incoming_open_named(dir, incoming->name);
	}
	if (incoming->fd < 0 && (!request->resume || errno == EWOULDBLOCK)) {
		name_randomly(incoming);
		incoming->fd = blob_incoming_open_named(dir, incoming->name);
	}
	if (incoming->fd < 0 || fstat(incoming->fd, &st) != 0)
		return err_errno(err, "cannot make a file in %s", incoming->place);
	incoming->device = st.st_dev;
	return 0;
}

/* What is there is read again: only that counts which can be. */
static int digest_present(struct blob_incoming *incoming, struct err *err)
{
	AUTO_FREE char *buffer = xmalloc(PIECE);
	ssize_t got;

	while ((got = read(incoming->fd, buffer, PIECE)) > 0 ||
	       (got < 0 && errno == EINTR)) {
		if (got < 0)
			continue;
		hash_add(&incoming->hash, buffer, (size_t)got);
		incoming->stored += (uint64_t)got;
	}
	posix_fadvise(incoming->fd, 0, 0, POSIX_FADV_DONTNEED);
	return got == 0 ? 0
			: err_errno(err, "cannot read what is there of %s", incoming->id);
}

static int take_present(struct blob_incoming *incoming, struct err *err)
{
	struct stat st;

	if (!incoming->is_resumable)
		return 0;
	if (fstat(incoming->fd, &st) != 0)
		return err_errno(err, "cannot look at what is there of %s", incoming->id);
	if ((uint64_t)st.st_size <= incoming->expected)
		return st.st_size > 0 ? digest_present(incoming, err) : 0;
	return ftruncate(incoming->fd, 0) == 0
		       ? 0
		       : err_errno(err, "cannot begin %s anew", incoming->id);
}

static int no_room(struct blob_incoming *incoming, uint64_t need, struct err *err)
{
	errno = ENOSPC;
	return err_errno(err, "no room for %s, %" PRIu64 " bytes", incoming->id, need);
}

/* File systems that cannot set room aside are asked how much there is. */
static int ask_for_room(struct blob_incoming *incoming, struct err *err)
{
	struct statvfs fs;
	uint64_t need = incoming->expected - incoming->stored;
	int result;

	if (incoming->expected == UINT64_MAX || need <= PIECE)
		return 0;
	if (incoming->expected > INT64_MAX)
		return no_room(incoming, need, err);
	do {
		result = fallocate(incoming->fd, FALLOC_FL_KEEP_SIZE, 0,
				   (off_t)incoming->expected);
	} while (result != 0 && errno == EINTR);
	if (result == 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != ENOSYS)
		return err_errno(err, "no room for %s, %" PRIu64 " bytes", incoming->id,
				 need);
	if (fstatvfs(incoming->fd, &fs) == 0 &&
	    (uint64_t)fs.f_bavail * fs.f_frsize < need)
		return no_room(incoming, need, err);
	return 0;
}

static int blob_incoming_open_all(struct blob_incoming *incoming,
				  const struct blob_incoming_request *request,
				  struct err *err)
{
	struct stat old;

	if (place_check(request->root, request->id, &old, err) != 0)
		return -1;
	incoming->place = place_of_incoming(request->root, request->id);
	AUTO_CLOSE int dir = place_open_incoming(request->root, incoming->place, err);
	if (dir < 0 || blob_incoming_open_file(incoming, dir, request, err) != 0)
		return -1;
	if (take_present(incoming, err) != 0)
		return -1;
	return ask_for_room(incoming, err);
}

int blob_incoming_open(const struct blob_incoming_request *request,
		       struct blob_incoming **incoming, struct err *err)
{
	struct blob_incoming *one = xcalloc(1, sizeof(*one));

	*incoming = NULL;
	one->root = request->root;
	one->id = xstrdup(request->id);
	one->expected = request->size;
	one->fd = -1;
	hash_init(&one->hash, HASH_SHA256);
	if (blob_incoming_open_all(one, request, err) != 0) {
		blob_incoming_close(one, false);
		return -1;
	}
	*incoming = one;
	return 0;
}

uint64_t blob_incoming_size(const struct blob_incoming *incoming)
{
	return incoming->stored + incoming->used;
}

/* Begins to write what came last, and waits for what came before it: nobody will ask
 * for that soon. An error that is told here is not told by fsync any more. */
static int blob_incoming_start_writeback(struct blob_incoming *incoming, struct err *err)
{
	uint64_t last = incoming->stored - ROLL, before = last - ROLL;
	const unsigned wait = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
			      SYNC_FILE_RANGE_WAIT_AFTER;

	if (sync_file_range(incoming->fd, (off_t)last, (off_t)ROLL,
			    SYNC_FILE_RANGE_WRITE) != 0 ||
	    (last >= ROLL &&
	     sync_file_range(incoming->fd, (off_t)before, (off_t)ROLL, wait) != 0)) {
		blob_incoming_forget(incoming);
		return err_errno(err, "cannot write %s", incoming->id);
	}
	if (last >= ROLL)
		posix_fadvise(incoming->fd, (off_t)before, (off_t)ROLL,
			      POSIX_FADV_DONTNEED);
	return 0;
}

static int blob_incoming_store_data(struct blob_incoming *incoming, const void *data,
				    size_t len, struct err *err)
{
	incoming->is_broken = true;
	if (file_write_all(incoming->fd, data, len, incoming->id, err) != 0)
		return -1;
	hash_add(&incoming->hash, data, len);
	incoming->stored += len;
	failpoint("blob.written");
	if (len > 0 && incoming->stored >= ROLL && incoming->stored % ROLL == 0 &&
	    blob_incoming_start_writeback(incoming, err) != 0)
		return -1;
	incoming->is_broken = false;
	return 0;
}

/* Puts what is buffered into the file. */
static int incoming_store(struct blob_incoming *incoming, struct err *err)
{
	size_t used = incoming->used;

	if (used == 0 && incoming->stored > 0)
		return 0;
	incoming->used = 0;
	return blob_incoming_store_data(incoming, incoming->buffer, used, err);
}

/* How much may still be put behind what is stored and buffered, up to the piece's end. */
static size_t room(const struct blob_incoming *incoming)
{
	return PIECE - (size_t)(incoming->stored % PIECE) - incoming->used;
}

static int blob_incoming_buffer_data(struct blob_incoming *incoming, const char *data,
				     size_t len, bool is_last, struct err *err)
{
	if (incoming->used == 0 && (is_last || len == room(incoming)))
		return blob_incoming_store_data(incoming, data, len, err);
	if (!incoming->buffer)
		incoming->buffer = xmalloc(PIECE);
	memcpy(incoming->buffer + incoming->used, data, len);
	incoming->used += len;
	return room(incoming) == 0 ? incoming_store(incoming, err) : 0;
}

static int check_write(const struct blob_incoming *incoming, size_t len, struct err *err)
{
	if (incoming->is_broken)
		return err_set(err, ERR_DISK, "%s could not be written", incoming->id);
	if (len > incoming->expected - blob_incoming_size(incoming))
		return err_set(err, ERR_CORRUPT,
			       "%s: more came than its %" PRIu64 " bytes", incoming->id,
			       incoming->expected);
	return 0;
}

int blob_incoming_write(struct blob_incoming *incoming, const void *data, size_t len,
			struct err *err)
{
	const char *at = data;

	if (check_write(incoming, len, err) != 0)
		return -1;
	while (len > 0) {
		size_t part = len < room(incoming) ? len : room(incoming);
		bool is_last = blob_incoming_size(incoming) + part == incoming->expected;
		if (blob_incoming_buffer_data(incoming, at, part, is_last, err) != 0)
			return -1;
		at += part;
		len -= part;
	}
	return 0;
}

int blob_incoming_digest(struct blob_incoming *incoming, char digest[BLOB_DIGEST_SIZE],
			 struct err *err)
{
	unsigned char bytes[HASH_MAX_SIZE];

	if (check_write(incoming, 0, err) != 0 || incoming_store(incoming, err) != 0)
		return -1;
	if (incoming->expected != UINT64_MAX && incoming->stored != incoming->expected)
		return err_set(err, ERR_CORRUPT,
			       "%s: only %" PRIu64 " of %" PRIu64 " bytes came",
			       incoming->id, incoming->stored, incoming->expected);
	/* A flush comes; what is written until then it need not wait for. */
	if (incoming->stored >= PIECE && incoming->stored < ROLL &&
	    sync_file_range(incoming->fd, 0, 0, SYNC_FILE_RANGE_WRITE) != 0) {
		blob_incoming_forget(incoming);
		return err_errno(err, "cannot write %s", incoming->id);
	}
	if (!incoming->has_digest) {
		hash_end(&incoming->hash, bytes);
		blob_digest_format(bytes, incoming->digest);
		incoming->has_digest = true;
		free(TAKE(incoming->buffer)); /* many may wait for one flush */
	}
	memcpy(digest, incoming->digest, BLOB_DIGEST_SIZE);
	return 0;
}

static void remove_file(const struct blob_incoming *incoming)
{
	AUTO_CLOSE int dir =
		path_open_beneath(incoming->root, incoming->place, O_PATH | O_DIRECTORY);

	if (dir >= 0)
		unlinkat(dir, incoming->name, 0);
}

/* Frees it, without touching the file if that is in place. */
static void incoming_free(struct blob_incoming *incoming, enum incoming_fate fate)
{
	if (fate == INCOMING_DROPPED && incoming->fd >= 0)
		remove_file(incoming); /* while the lock is held */
	if (incoming->fd >= 0)
		close(incoming->fd);
	hash_clear(&incoming->hash);
	free(incoming->buffer);
	free(incoming->place);
	free(incoming->id);
	free(incoming);
}

void blob_incoming_close(struct blob_incoming *incoming, bool is_wrong)
{
	if (!incoming)
		return;
	if (!is_wrong && !incoming->is_broken && incoming->used > 0 &&
	    incoming->is_resumable)
		incoming_store(incoming, ERR_IGNORED);
	/* What was reserved behind it goes. */
	bool is_kept = incoming->is_resumable && incoming->stored > 0 && !is_wrong &&
		       ftruncate(incoming->fd, (off_t)incoming->stored) == 0;
	incoming_free(incoming, is_kept ? INCOMING_IN_PLACE : INCOMING_DROPPED);
}

struct expiring {
	int root;
	int64_t older_ms;
	uint64_t files, bytes; /* that were removed; as they took on disk */
	uint64_t failed;
	struct err why; /* of the last one */
};

/* What another user left here can be removed, but not written; what was only read NFS
 * does not lock. */
static int expire_lock(int dir, const char *name)
{
	AUTO_CLOSE int fd = blob_incoming_lock(dir, name, 0);

	if (fd < 0 && errno == EACCES) {
		fd = openat(dir, name, O_RDONLY | OPEN_FILE);
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0)
			return -1;
	}
	return TAKE_FD(fd);
}

static void expire_file(struct expiring *expiring, int dir, const char *name)
{
	struct stat st;
	struct blob_fingerprint fingerprint;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
		return;
	blob_fingerprint_of(&st, &fingerprint);
	if ((clock_wall_ns() - fingerprint.mtime_ns) / 1000000 < expiring->older_ms)
		return;
	AUTO_CLOSE int fd = expire_lock(dir, name);
	if (fd >= 0 && !file_is_named(dir, name, fd))
		return;
	if (fd < 0 || unlinkat(dir, name, 0) != 0) {
		if (errno == EWOULDBLOCK || errno == ENOENT)
			return;
		err_errno(&expiring->why, "cannot remove %s", name);
		expiring->failed++;
		return;
	}
	expiring->files++;
	expiring->bytes += (uint64_t)st.st_blocks * 512;
}

static void expire_place(struct expiring *expiring, const char *place);

/* Where a link says that files wait on another file system. */
static void expire_link(struct expiring *expiring, int dir, const char *name)
{
	char place[PATH_MAX];
	ssize_t len = readlinkat(dir, name, place, sizeof(place) - 1);

	if (len <= 0)
		return;
	place[len] = '\0';
	if (path_fault(place) || strcmp(place_name(place), OWN_FOLDER "-incoming") != 0)
		return;
	expire_place(expiring, place);
	AUTO_FREE char *above = xstrndup(place, (size_t)(place_name(place) - place));
	AUTO_CLOSE int parent =
		path_open_beneath(expiring->root, above, O_PATH | O_DIRECTORY);
	if (parent >= 0 &&
	    (unlinkat(parent, place_name(place), AT_REMOVEDIR) == 0 || errno == ENOENT))
		unlinkat(dir, name, 0);
}

static void expire_place(struct expiring *expiring, const char *place)
{
	int fd = path_open_beneath(expiring->root, place, O_RDONLY | O_DIRECTORY);
	AUTO_CLOSEDIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir && fd >= 0)
		close(fd);
	while (dir && (entry = readdir(dir)) != NULL) {
		if (text_starts_with(entry->d_name, PLACE_LINK_PREFIX))
			expire_link(expiring, dirfd(dir), entry->d_name);
		else if (entry->d_name[0] != '.')
			expire_file(expiring, dirfd(dir), entry->d_name);
	}
}

void blob_incoming_expire(const struct blob_kind *kind, int64_t older_ms)
{
	AUTO_CLOSE int root = blob_root_open(kind, ERR_IGNORED);
	struct expiring expiring = { .root = root, .older_ms = older_ms };

	if (root < 0)
		return;
	expire_place(&expiring, PLACE_INCOMING);
	if (expiring.files > 0)
		log_info("blob.expired", LOG_NUMBER("bytes", expiring.bytes),
			 LOG_TEXT("kind", kind->type),
			 LOG_NUMBER("count", expiring.files));
	if (expiring.failed > 0)
		log_warn("blob.expire_failed", LOG_ERR(&expiring.why),
			 LOG_TEXT("kind", kind->type),
			 LOG_NUMBER("count", expiring.failed));
}

static uint64_t count_place(int root, const char *place)
{
	int fd = path_open_beneath(root, place, O_RDONLY | O_DIRECTORY);
	AUTO_CLOSEDIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	struct stat st;
	uint64_t bytes = 0;

	if (!dir && fd >= 0)
		close(fd);
	while (dir && (entry = readdir(dir)) != NULL)
		if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(st.st_mode))
			bytes += (uint64_t)st.st_size;
	return bytes;
}

uint64_t blob_incoming_bytes(int root)
{
	return count_place(root, PLACE_INCOMING);
}
