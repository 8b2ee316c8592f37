#include "verify/verify_objects.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/map.h"
#include "git/git_child.h"
#include "git/objects.h"
#include "git/oid.h"
#include "git/refs.h"
#include "git/repo.h"

/*
 * objects/ab/cdef... is the zlib stream of "<type> <size>", a NUL and the content; the
 * object's name is the digest of what was deflated. Git reads a blob only when somebody
 * wants it, and checks no digest then; no walk over the history reads one. So they are
 * read here, without Git. A file is renamed or linked into its place when it is whole, so
 * a bad one is not one that is just being written.
 */

#define OBJECTS "objects"
#define BLOCK ((size_t)64 << 10)
#define FSCK "run git fsck in that repository and restore what it names"

struct loose {
	const struct git_work *work;
	const struct repo *repo;
	const char *objects; /* the directory that has them */
	char path[PATH_MAX]; /* of the one that is read */
	struct hash hash;
	z_stream inflater;
	unsigned char from[BLOCK], to[BLOCK];
};

static int may_go_on(const struct git_work *work, struct err *err)
{
	int64_t now = clock_boot_ms();

	if (work->stop && stop_is_requested(work->stop))
		return err_set(err, ERR_CANCELED, "the verification was stopped");
	if (work->deadline && now >= deadline_at(work->deadline))
		return err_set(err, ERR_LOST, "the lease ended before the verification");
	if (work->until != 0 && now >= work->until)
		return err_set(err, ERR_TIMEOUT, "the verification took too long");
	return 0;
}

static int verify_loose_fail_damaged(const struct loose *loose, const char *how,
				     struct err *err)
{
	err_set(err, ERR_CORRUPT, "%s %s", loose->path, how);
	return err_remedy(err, FSCK);
}

/* 1: the stream has ended; 0: more is to be read. */
static int inflate_block(struct loose *loose, size_t len, struct err *err)
{
	z_stream *inflater = &loose->inflater;
	int result = Z_OK;

	inflater->next_in = loose->from;
	inflater->avail_in = (unsigned)len;
	do {
		inflater->next_out = loose->to;
		inflater->avail_out = BLOCK;
		result = inflate(inflater, Z_NO_FLUSH);
		if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
			return verify_loose_fail_damaged(loose, "cannot be inflated",
							 err);
		hash_add(&loose->hash, loose->to, BLOCK - inflater->avail_out);
	} while (result == Z_OK && (inflater->avail_in > 0 || inflater->avail_out == 0));
	if (result == Z_STREAM_END && inflater->avail_in > 0)
		return verify_loose_fail_damaged(loose, "has more behind its end", err);
	return result == Z_STREAM_END;
}

static int read_stream(struct loose *loose, int fd, struct err *err)
{
	int ended = 0;
	ssize_t got;

	while ((got = read(fd, loose->from, BLOCK)) > 0) {
		if (may_go_on(loose->work, err) != 0)
			return -1;
		if (ended)
			return verify_loose_fail_damaged(loose, "has more behind its end",
							 err);
		ended = inflate_block(loose, (size_t)got, err);
		if (ended < 0)
			return -1;
	}
	if (got < 0 && errno == EIO) /* the disk itself says that it is lost */
		return verify_loose_fail_damaged(
			loose, "cannot be read: input/output error", err);
	if (got < 0)
		return err_errno(err, "cannot read %s", loose->path);
	return ended ? 0 : verify_loose_fail_damaged(loose, "ends too early", err);
}

static int check_object(struct loose *loose, const struct oid *oid, struct err *err)
{
	unsigned char digest[HASH_MAX_SIZE];
	AUTO_CLOSE int fd = openat(loose->repo->fd, loose->path,
				   O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int result;

	if (fd < 0 && errno == ENOENT)
		return 0; /* packed, or pruned, since it was listed */
	if (fd < 0)
		return err_errno(err, "cannot open %s", loose->path);
	if (inflateReset(&loose->inflater) != Z_OK)
		return err_set(err, ERR_INTERNAL, "zlib cannot begin anew");
	result = read_stream(loose, fd, err);
	hash_end(&loose->hash, digest);
	if (result != 0)
		return -1;
	if (memcmp(digest, oid->bytes, oid->len) != 0)
		return verify_loose_fail_damaged(
			loose, "is another object than its name says", err);
	return 0;
}

/* Other files, as those that are just being written, are nobody's objects. */
static bool is_object(const struct loose *loose, const char *folder, const char *name,
		      struct oid *oid)
{
	char text[OID_MAX_TEXT];

	if (strlen(folder) != 2 || strlen(name) != 2 * loose->repo->oid_len - 2)
		return false;
	snprintf(text, sizeof(text), "%s%s", folder, name);
	return oid_parse(text, loose->repo->oid_len, oid);
}

static int verify_loose_check_folder(struct loose *loose, const char *folder,
				     struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/%s", loose->objects, folder);
	AUTO_CLOSEDIR DIR *dir = dir_list(loose->repo->fd, path);
	const struct dirent *entry;
	struct oid oid;

	if (!dir && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (!dir)
		return err_errno(err, "cannot list %s", path);
	while (errno = 0, (entry = readdir(dir)) != NULL) {
		if (!is_object(loose, folder, entry->d_name, &oid))
			continue;
		if (may_go_on(loose->work, err) != 0)
			return -1;
		snprintf(loose->path, sizeof(loose->path), "%s/%.*s", path,
			 2 * OID_MAX_SIZE, entry->d_name);
		if (check_object(loose, &oid, err) != 0)
			return -1;
	}
	return errno == 0 ? 0 : err_errno(err, "cannot list %s", path);
}

/* ERR_CORRUPT: one is not; the text names it. ERR_CANCELED, ERR_TIMEOUT, ERR_LOST: as
 * `work` says. Objects may be added and removed meanwhile. */
static int verify_loose(const struct git_work *work, const struct repo *repo,
			const char *objects, struct err *err)
{
	struct loose *loose = xcalloc(1, sizeof(*loose));
	char folder[3];
	int result = 0;

	loose->work = work;
	loose->repo = repo;
	loose->objects = objects;
	if (inflateInit(&loose->inflater) != Z_OK) {
		free(loose);
		return err_set(err, ERR_INTERNAL, "zlib cannot inflate");
	}
	hash_init(&loose->hash, repo->oid_len == 20 ? HASH_SHA1 : HASH_SHA256);
	for (unsigned i = 0; i < 256 && result == 0; i++) {
		snprintf(folder, sizeof(folder), "%02x", i);
		result = verify_loose_check_folder(loose, folder, err);
	}
	hash_clear(&loose->hash);
	inflateEnd(&loose->inflater);
	free(loose);
	return result;
}

/*
 * Each of these files ends with the digest of all that is before it. Two of them say
 * besides which packs or commits there are: git itself looks whether that is true.
 */

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

/* What the system said of such a file. */
static int verify_derived_fail(const char *name, struct err *err)
{
	err_errno(err, "cannot read %s", name);
	return err_is_of_data(err) ? 0 : -1;
}

/* Adds all but the last `tail` bytes; those are left in *end. 1: done; 0: it cannot be
 * read whole. */
static int verify_derived_hash_content(int fd, const char *name, off_t size, size_t tail,
				       struct hash *hash, unsigned char *end,
				       const struct stop *stop, struct err *err)
{
	char buffer[65536];
	off_t at = 0, until = size - (off_t)tail;
	ssize_t got = 1;

	while (at < until) {
		size_t want = sizeof(buffer);
		if ((off_t)want > until - at)
			want = (size_t)(until - at);
		if (stop && stop_is_requested(stop))
			return err_set(err, ERR_CANCELED, "the reading was stopped");
		got = pread(fd, buffer, want, at);
		if (got <= 0)
			return got < 0 ? verify_derived_fail(name, err) : 0;
		hash_add(hash, buffer, (size_t)got);
		at += got;
	}
	got = pread(fd, end, tail, until);
	return got < 0 ? verify_derived_fail(name, err) : got == (ssize_t)tail;
}

int verify_ends_with_digest(int dir, const char *name, size_t oid_len,
			    const struct stop *stop, struct err *err)
{
	unsigned char end[HASH_MAX_SIZE], digest[HASH_MAX_SIZE];
	AUTO_HASH struct hash hash = { 0 };
	AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		return verify_derived_fail(name, err);
	if (!S_ISREG(st.st_mode) || st.st_size <= (off_t)oid_len)
		return 0;
	hash_init(&hash, oid_len == 32 ? HASH_SHA256 : HASH_SHA1);
	int result = verify_derived_hash_content(fd, name, st.st_size, oid_len, &hash,
						 end, stop, err);
	if (result <= 0)
		return result;
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

	if (!list)
		return dir_is_absent(errno) ? 0
					    : err_errno(err, "cannot list %s", folder);
	while (errno = 0, (entry = readdir(list)) != NULL) {
		if (!is_derived(entry->d_name) || is_chain(dirfd(list), entry->d_name))
			continue;
		int sound = verify_ends_with_digest(dirfd(list), entry->d_name,
						    repo->oid_len, NULL, err);
		if (sound < 0 ||
		    (sound == 0 && verify_derived_discard_file(dirfd(list), folder,
							       entry->d_name, err) != 0))
			return -1;
	}
	return errno == 0 ? 0 : err_errno(err, "cannot list %s", folder);
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

/* Whether it leads to where objects may be; -1: that is not known now. */
static int leads_somewhere(int objects, const char *line, struct err *err)
{
	struct stat st;

	if (!line[0] || line[0] == '#' || line[0] == '"')
		return 1;
	if (fstatat(objects, line, &st, 0) == 0)
		return S_ISDIR(st.st_mode);
	if (errno == ENOENT || errno == ENOTDIR)
		return 0;
	return err_errno(err, "cannot look at %s, of objects/info/alternates", line);
}

/* Git complains of one that leads nowhere, and goes without. What was only there is
 * missing then, and found to be so. */
static int check_alternates(const struct repo *repo, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_CLOSE int objects = dir_open(repo->fd, "objects", err);
	int leads = 1;

	if (objects < 0)
		return -1;
	if (file_read(objects, "info/alternates", ALTERNATES_LIMIT, &text, err) != 0)
		return err->class == ERR_MISSING ? 0 : -1;
	for (char *rest = text.data, *line; leads > 0 && (line = strsep(&rest, "\n"));)
		leads = leads_somewhere(objects, line, err);
	return leads != 0 ? (leads < 0 ? -1 : 0)
			  : verify_derived_discard_file(objects, "objects",
							"info/alternates", err);
}

/* Not what ended the work from outside, or kept git from it. */
static bool is_verdict(const struct err *err)
{
	return err->sys_errno == 0 && err->class != ERR_CANCELED &&
	       err->class != ERR_LOST && err->class != ERR_TIMEOUT &&
	       err->class != ERR_DISK;
}

static int verify_derived_run_git(const struct git_work *work, const struct repo *repo,
				  const char *folder, const char *command,
				  struct err *err)
{
	const char *const args[] = { command, "verify", NULL };

	if (git_run(&(struct git_call){ .work = work,
					.repository = repo->path,
					.reach = git_reach_of(repo),
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
	if (file_is_there(repo->fd, PACKS "/" MULTI_PACK_INDEX) &&
	    verify_derived_run_git(work, repo, PACKS, MULTI_PACK_INDEX, err) != 0)
		return -1;
	if (!file_is_there(repo->fd, INFO "/" COMMIT_GRAPH) &&
	    !file_is_there(repo->fd, INFO "/" COMMIT_GRAPH "s"))
		return 0;
	return verify_derived_run_git(work, repo, INFO, COMMIT_GRAPH, err);
}

static void value_text(const struct ref *ref, struct str *out)
{
	if (!ref)
		str_add(out, "absent");
	else if (ref->target)
		str_add(out, ref->target);
	else
		oid_add_text(&ref->oid, out);
}

static int verify_repository_report_diff(const struct ref_snapshot *found,
					 const struct ref_snapshot *expected,
					 const struct ref_diff *diff, struct err *err)
{
	AUTO_STR struct str is = STR_INIT;
	AUTO_STR struct str should = STR_INIT;
	const char *name = "HEAD";

	if (diff->changes.count > 0) {
		name = diff->changes.items[0].name;
		value_text(diff->changes.items[0].before, &is);
		value_text(diff->changes.items[0].after, &should);
	} else {
		str_add(&is, found->head_target ? found->head_target : "detached");
		str_add(&should,
			expected->head_target ? expected->head_target : "detached");
	}
	err_set(err, ERR_CORRUPT,
		"the copy differs from its source in %zu refs: %s is %s and should be %s",
		diff->changes.count + diff->head_changed, name, is.data, should.data);
	return err_remedy(
		err,
		"it is copied again at the next try; nothing else may write to copies");
}

int verify_repository(const struct repo *copy, const struct ref_snapshot *expected,
		      struct checksum *sum, struct err *err)
{
	AUTO_SNAPSHOT struct ref_snapshot found = REF_SNAPSHOT_INIT;
	AUTO_DIFF struct ref_diff diff = { 0 };

	if (ref_snapshot_read(copy->fd, copy->oid_len, &found, err) != 0)
		return -1;
	ref_diff_compute(&found, expected, &diff);
	if (!ref_diff_is_empty(&diff))
		return verify_repository_report_diff(&found, expected, &diff, err);
	checksum_of(&found, sum);
	return 0;
}

/* Packs for one process. */
#define BATCH 50
/* How often packs may have been replaced by others while they were read. */
#define TRIES 10

/* One is read alone, and not again for the sake of others that were replaced. */
#define LARGE ((off_t)1 << 20)

struct pack_reading {
	const struct git_work *work;
	const struct repo *repo;
	const char *objects;
	struct map read; /* indexes whose packs are sound */
	struct map lost; /* indexes that were met without their packs */
	const char *batch[BATCH];
	size_t count;      /* in the batch */
	bool has_vanished; /* one of those that were listed last */
};

/* A pack counts from when it has an index: git writes that last and removes it first. */
static int list_indexes(const struct repo *repo, const char *objects, text_list *names,
			struct err *err)
{
	struct dirent *entry;
	AUTO_FREE char *folder = xasprintf("%s/pack", objects);
	AUTO_CLOSEDIR DIR *dir = dir_list(repo->fd, folder);

	if (!dir)
		return err_errno(err, "cannot list %s", folder);
	while (errno = 0, (entry = readdir(dir)) != NULL)
		if (text_starts_with(entry->d_name, "pack-") &&
		    text_ends_with(entry->d_name, ".idx"))
			vec_add(names, xasprintf("%s/%s", folder, entry->d_name));
	return errno == 0 ? 0 : err_errno(err, "cannot list %s", folder);
}

static char *verify_objects_pack_of(const char *index)
{
	return xasprintf("%.*s.pack", (int)(strlen(index) - strlen(".idx")), index);
}

/* In the repository itself git would read each object a second time, to see whether the
 * one that is there already is the same: it is shown a place without objects. */
static const char *verify_objects_away_from(const struct repo *repo)
{
	return faccessat(repo->fd, INFO, X_OK, 0) == 0 ? INFO : NULL;
}

/* Git asks for as much memory as a damaged pack says that an object takes, and then only
 * says that there was not enough. */
static void verify_objects_blame_pack(const struct pack_reading *reading, struct err *err)
{
	const struct git_work *work = reading->work;
	const struct repo *repo = reading->repo;

	for (size_t i = 0; i < reading->count; i++) {
		AUTO_FREE char *pack = verify_objects_pack_of(reading->batch[i]);
		if (verify_ends_with_digest(repo->fd, pack, repo->oid_len, work->stop,
					    ERR_IGNORED) != 0)
			continue;
		if (may_go_on(work, err) == 0) {
			err_set(err, ERR_CORRUPT, "%s does not end in its digest", pack);
			err_remedy(err, FSCK);
		}
		return;
	}
}

static int verify_objects_run(const struct pack_reading *reading, struct err *err)
{
	const char *args[BATCH + 3] = { "verify-pack", "--" };

	memcpy(args + 2, reading->batch, reading->count * sizeof(args[0]));
	if (git_run(&(struct git_call){ .work = reading->work,
					.repository = reading->repo->path,
					.reach = git_reach_of(reading->repo),
					.object_directory =
						verify_objects_away_from(reading->repo),
					.args = args },
		    err) == 0)
		return 0;
	/* "early EOF", of a pack that was cut; or its disk says that it is lost */
	if (err->class == ERR_NETWORK ||
	    (err->class == ERR_DISK && err->sys_errno == EIO)) {
		err->class = ERR_CORRUPT;
		err_remedy(err, FSCK);
	}
	if (err->sys_errno == ENOMEM)
		verify_objects_blame_pack(reading, err);
	return -1;
}

/* An index without its pack may be about to go, too. */
static bool is_lost(struct pack_reading *reading, const char *index, const char *pack,
		    struct err *err)
{
	if (!map_put(&reading->lost, index, reading))
		return false;
	err_set(err, ERR_CORRUPT, "%s is missing, its index is not", pack);
	err_remedy(err, FSCK);
	return true;
}

/* 1: some of the batch are no longer there, and were taken out of it. */
static int drop_vanished(struct pack_reading *reading, struct err *err)
{
	const int dir = reading->repo->fd;
	size_t left = 0;

	for (size_t i = 0; i < reading->count; i++) {
		const char *index = reading->batch[i];
		AUTO_FREE char *pack = verify_objects_pack_of(index);
		bool has_pack = faccessat(dir, pack, F_OK, 0) == 0;
		bool has_index = faccessat(dir, index, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
		if (has_pack && has_index)
			reading->batch[left++] = index;
		else if (has_index && is_lost(reading, index, pack, err))
			return -1;
	}
	if (left == reading->count)
		return 0;
	reading->count = left;
	reading->has_vanished = true;
	return 1;
}

/* Empties the batch. What git says is of those that vanished, if some did. */
static int verify_objects_check_batch(struct pack_reading *reading, struct err *err)
{
	struct err end;

	while (reading->count > 0 && verify_objects_run(reading, err) != 0) {
		if (may_go_on(reading->work, &end) != 0) {
			*err = end; /* git's own word may be of what vanished */
			return -1;
		}
		if (drop_vanished(reading, err) <= 0)
			return -1;
	}
	for (size_t i = 0; i < reading->count; i++)
		map_put(&reading->read, reading->batch[i], reading);
	reading->count = 0;
	return 0;
}

static bool is_large(const struct repo *repo, const char *index)
{
	AUTO_FREE char *pack = verify_objects_pack_of(index);
	struct stat st;

	return fstatat(repo->fd, pack, &st, 0) == 0 && st.st_size >= LARGE;
}

static int verify_objects_check_alone(struct pack_reading *reading, const char *index,
				      struct err *err)
{
	reading->batch[0] = index;
	reading->count = 1;
	return verify_objects_check_batch(reading, err);
}

/* Of what is listed now, what was not read before. */
static int verify_listed(struct pack_reading *reading, struct err *err)
{
	AUTO_TEXT_LIST text_list names = { 0 };
	int result = list_indexes(reading->repo, reading->objects, &names, err);

	reading->has_vanished = false;
	for (size_t i = 0; result == 0 && i < names.count; i++)
		if (!map_get(&reading->read, names.items[i]) &&
		    is_large(reading->repo, names.items[i]))
			result = verify_objects_check_alone(reading, names.items[i], err);
	for (size_t i = 0; result == 0 && i < names.count; i++) {
		if (!map_get(&reading->read, names.items[i]))
			reading->batch[reading->count++] = names.items[i];
		if (reading->count == BATCH)
			result = verify_objects_check_batch(reading, err);
	}
	return result == 0 ? verify_objects_check_batch(reading, err) : -1;
}

static int verify_until_all_are_there(struct pack_reading *reading, struct err *err)
{
	for (int tries = 0; tries < TRIES; tries++) {
		if (verify_listed(reading, err) != 0)
			return -1;
		if (!reading->has_vanished)
			return 0;
	}
	return err_set(err, ERR_CONFLICT, "packs are replaced faster than they are read");
}

static int verify_packs_of(const struct git_work *work, const struct repo *repo,
			   const char *objects, struct err *err)
{
	struct pack_reading reading = { .work = work, .repo = repo, .objects = objects };
	int result = verify_until_all_are_there(&reading, err);

	map_clear(&reading.read);
	map_clear(&reading.lost);
	return result;
}

int verify_packs(const struct git_work *work, const struct repo *repo, struct err *err)
{
	return verify_packs_of(work, repo, OBJECTS, err);
}

int verify_borrowed(const struct git_work *work, const struct repo *repo,
		    const char *objects, struct err *err)
{
	AUTO_FREE char *packs = xasprintf("%s/pack", objects);

	if (file_is_there(repo->fd, packs) &&
	    verify_packs_of(work, repo, objects, err) != 0)
		return err_prefix(err, "packs of %s", objects);
	if (verify_loose(work, repo, objects, err) != 0)
		return err_prefix(err, "loose objects of %s", objects);
	return 0;
}

/* Named by the ref where that can be told. */
static int verify_reached(const struct git_work *work, const struct repo *repo,
			  const struct ref_snapshot *refs, struct err *err)
{
	oid_list tips = { 0 };
	int complete = 1;

	if (objects_check_tips(work, repo, refs, err) != 0)
		return -1;
	oid_list_add_tips(&tips, refs);
	if (tips.count > 0)
		complete = objects_are_complete(work, repo, &tips, err);
	vec_clear(&tips);
	return complete > 0 ? 0 : -1;
}

int verify_objects(const struct git_work *work, const struct repo *repo,
		   const struct ref_snapshot *refs, struct err *err)
{
	if (verify_packs(work, repo, err) != 0)
		return err_prefix(err, "packs");
	if (verify_loose(work, repo, OBJECTS, err) != 0)
		return err_prefix(err, "loose objects");
	if (verify_reached(work, repo, refs, err) != 0)
		return err_prefix(err, "objects");
	return 0;
}
