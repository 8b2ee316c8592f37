#include "pull/source.h"

#include <sys/statvfs.h>

#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "base/thread.h"
#include "base/vec.h"
#include "git/cut_fetch.h"
#include "git/git_child.h"
#include "git/packs.h"
#include "git/refs.h"
#include "git/small_pack.h"
#include "pull/bring_packs.h"

/* How long a request for a pack may rest without a byte. Before the primary sends the
 * first one it may have to look through a large repository; from then on it says each
 * second that it lives. What is slow, but moves, is bounded by sync.timeout alone. */
#define STALL_MS (10 * 60 * 1000)

bool source_was_outrun(const struct source_view *view, const struct err *err)
{
	return !view->is_local && err->reason == REASON_NOT_OUR_REF;
}

/* Git ends for many reasons. A child on this machine that hangs up looks like a broken
 * network. */
bool source_lacked_objects(const struct source_view *view, const struct err *err)
{
	if (source_was_outrun(view, err) || err->reason == REASON_AT_PEER)
		return false;
	return err->class == ERR_CORRUPT ||
	       (err->class == ERR_INTERNAL && err->sys_errno == 0) ||
	       (err->class == ERR_NETWORK && view->is_local);
}

int source_refuse_shallow(struct err *err)
{
	err_set(err, ERR_CONFIG,
		"the upstream is shallow: its history is cut short, so it cannot be "
		"mirrored whole");
	err_because(err, REASON_AT_PEER);
	return err_remedy(err, "have it completed there (git fetch --unshallow), or set "
			       "a depth for the mirror");
}

/*
 * What a stranger sends may be made to fill the disk, or the memory when it is unpacked:
 * git gets no more of either than leaves others something. (A pack is one file; so is
 * what git writes until it is whole.)
 */

/* Of what is free. */
#define SHARE_OF_DISK(bytes) ((bytes) / 10 * 9)
#define SHARE_OF_MEMORY(bytes) ((bytes) / 4 * 3)

static uint64_t source_free_bytes(const struct repo *copy)
{
	struct statvfs room;

	return fstatvfs(copy->fd, &room) == 0 ? (uint64_t)room.f_bavail * room.f_frsize
					      : 0;
}

/* First goes what a node that was killed has left. */
static void source_bound(const struct source_want *want, struct git_remote *remote)
{
	packs_remove_passing(want->copy->fd);
	uint64_t room = SHARE_OF_DISK(source_free_bytes(want->copy));

	remote->memory_most = SHARE_OF_MEMORY(process_memory_limit());
	remote->pack_most = want->view->pack_most;
	if (room > 0 && (remote->pack_most == 0 || room < remote->pack_most))
		remote->pack_most = room;
}

static struct git_remote source_remote(const struct source_want *want)
{
	const struct source_view *view = want->view;
	struct git_remote remote = { .url = view->url,
				     .header = view->header,
				     .ca_file = view->ca_file,
				     .ssh_command = view->ssh_command,
				     .stall_ms = STALL_MS,
				     .is_site = !view->is_foreign && !view->is_local };

	if (view->is_foreign)
		source_bound(want, &remote);
	return remote;
}

static int source_refuse_size(const struct source_want *want, struct err *err)
{
	const uint64_t most = want->view->pack_most;

	if (err->class == ERR_INTERNAL) {
		err_set(err, ERR_CONFIG,
			"what the upstream sends takes more memory than a fetch may have "
			"(three quarters of this machine's)");
		err_remedy(err, "see what is in it; a machine with more memory may have "
				"it");
		err->sys_errno = ENOMEM; /* a damaged copy may be the reason, too */
	} else if (most > 0 && most <= SHARE_OF_DISK(source_free_bytes(want->copy))) {
		err_set(err, ERR_CONFIG,
			"the upstream sends a pack of more than %" PRIu64
			" bytes, which maxSize allows",
			most);
		err_remedy(err, "if it may be so large, raise maxSize in its section");
	} else {
		err_set(err, ERR_DISK,
			"the upstream sends a pack that takes more than nine tenths of "
			"what is free on the disk of site.repositories");
		err_remedy(err, "see whether it may be so large: then make room");
	}
	return err_because(err, REASON_TOO_LARGE);
}

/* What it has left is large, and in the way of all others. */
static int source_fail_fetch(const struct source_want *want, struct err *err)
{
	if (!want->view->is_foreign)
		return -1;
	packs_remove_passing(want->copy->fd);
	if (err->class == ERR_TIMEOUT)
		return err_because(err, REASON_TOO_SLOW);
	if (err->class == ERR_AUTH)
		return err_because(err, REASON_REFUSED);
	return err->reason == REASON_TOO_LARGE ? source_refuse_size(want, err) : -1;
}

static void source_count_bytes(const struct source_want *want, uint64_t before)
{
	uint64_t after = packs_size(want->copy->fd);

	if (want->work->bytes && after > before)
		atomic_fetch_add(want->work->bytes, after - before);
	if (want->arrived && after > before)
		*want->arrived += after - before;
}

int source_fetch_cut(const struct source_cut_want *cut, oid_list *cuts, struct err *err)
{
	const struct source_want *want = cut->want;
	const struct git_remote remote = source_remote(want);
	uint64_t before = packs_size(want->copy->fd);
	int result = cut_fetch(&(struct cut_fetch){ .work = want->work,
						    .repo = want->copy,
						    .from = &remote,
						    .wanted = want->oids,
						    .have = cut->have,
						    .depth = cut->depth,
						    .scratch = cut->scratch },
			       cuts, err);

	source_count_bytes(want, before);
	return result == 0 ? 0 : source_fail_fetch(want, err);
}

int source_fetch(const struct source_want *want, const oid_list *have, struct err *err)
{
	const struct git_remote remote = source_remote(want);
	uint64_t before = packs_size(want->copy->fd);
	int result = want->is_anew ? objects_fetch_anew(want->work, want->copy, &remote,
							want->oids, err)
				   : objects_fetch(want->work, want->copy, &remote,
						   want->oids, have, err);

	source_count_bytes(want, before);
	return result == 0 ? 0 : source_fail_fetch(want, err);
}

/*
 * Directories of this machine: of bare repositories, or of blobs.
 */

struct source_directory {
	struct source source;
	const char *root; /* of repositories */
	const struct discovery *discovery;
	int blobs; /* the directory of blobs; -1: none */
};

static const struct source_directory *source_directory_of(struct source *source)
{
	return (const struct source_directory *)source;
}

static char *source_directory_url(struct source *source, const char *name,
				  struct err *err)
{
	const struct source_directory *directory = source_directory_of(source);
	const struct discovered *one = discovery_find(directory->discovery, name);

	if (one)
		return xasprintf("%s/%s", directory->root, one->path);
	err_set(err, ERR_MISSING, "no repository %s at the source", name);
	return NULL;
}

static int source_directory_look(struct source *source, const char *name,
				 struct fingerprint *fingerprint, struct err *err)
{
	const struct discovered *one =
		discovery_find(source_directory_of(source)->discovery, name);
	AUTO_FREE char *path = source_directory_url(source, name, err);
	AUTO_CLOSE int fd = path ? dir_open(AT_FDCWD, path, err) : -1;

	if (fd < 0)
		return -1;
	if (one->is_damaged)
		return err_set(err, ERR_CORRUPT, "it is not a complete bare repository");
	return fingerprint_take(fd, FINGERPRINT_REFS, fingerprint, err);
}

static int source_directory_read(struct source *source, const char *name,
				 struct source_view *view, struct err *err)
{
	AUTO_FREE char *path = source_directory_url(source, name, err);
	struct ref_reading reading;

	if (!path || ref_reading_take(AT_FDCWD, path, &reading, err) != 0)
		return -1;
	*view = (struct source_view){
		.refs = reading.refs,
		.oid_len = reading.oid_len,
		.fingerprint = reading.fingerprint,
		.url = TAKE(path),
		.is_local = true,
		.has_packs = !reading.has_alternates,
		.description = reading.description,
		.settings = reading.settings,
	};
	return 0;
}

/* What they hold of the tips, and near them, is told to the other side; if that promises
 * too much, git says so, and all is fetched. */
int source_fetch_rest(const struct source_want *want, struct err *err)
{
	oid_list have = { 0 };
	int result;

	packs_list_newest(want->copy, &have);
	result = objects_present(want->work, want->copy, want->oids, &have, err);
	if (result == 0)
		result = source_fetch(want, &have, err);
	vec_clear(&have);
	if (result == 0 || !source_lacked_objects(want->view, err))
		return result;
	return source_fetch(want, NULL, err);
}

/* 1: there are none that are worth it. */
static int source_copy_packs(const struct source_want *want, struct err *err)
{
	AUTO_CLOSE int source = -1;
	int complete;

	if (!want->is_new || want->is_anew || !want->view->has_packs)
		return 1;
	source = dir_open(AT_FDCWD, want->view->url, err);
	if (source < 0)
		return -1;
	if (packs_size(source) < PACKS_WORTH_COPYING)
		return 1;
	if (packs_copy(want->work, source, want->copy, err) != 0)
		return -1;
	complete = objects_are_complete(want->work, want->copy, want->oids, err);
	if (complete != 0)
		return complete < 0 ? -1 : 0;
	return source_fetch_rest(want, err);
}

/* Git names the object that is missing, a person wants to know which ref names it. */
static void source_name_culprit(const struct source_want *want, struct err *err)
{
	struct err why;
	AUTO_REPO struct repo source = REPO_INIT;

	if (repo_open(AT_FDCWD, want->view->url, &source, &why) == 0 &&
	    objects_check_tips(want->work, &source, &want->view->refs, &why) != 0 &&
	    why.class == ERR_CORRUPT)
		*err = why;
}

static int source_directory_bring(struct source *source, const struct source_want *want,
				  struct err *err)
{
	int result = source_copy_packs(want, err);

	(void)source;
	if (result > 0)
		result = source_fetch(want, NULL, err);
	if (result != 0 && err->class == ERR_CORRUPT)
		source_name_culprit(want, err);
	return result;
}

/* Size, time of change and inode, mixed: whatever of them changes, it is another. */
void source_file_timeline(const struct blob_fingerprint *fingerprint,
			  char timeline[TIMELINE_SIZE])
{
	const uint64_t parts[] = { (uint64_t)fingerprint->mtime_ns, fingerprint->size,
				   fingerprint->inode };
	uint64_t mixed = 0;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		mixed = (mixed ^ parts[i]) * UINT64_C(0x9e3779b97f4a7c15);
		mixed ^= mixed >> 32;
	}
	snprintf(timeline, TIMELINE_SIZE, "%016" PRIx64, mixed);
}

#define BLOCK ((size_t)256 << 10)

/* A file of blobs that is being read. */
struct source_file {
	int fd;
	struct blob_fingerprint before;
	struct blob_head head;
};

static int source_file_open(struct source *source, const char *id,
			    struct source_file *file, struct err *err)
{
	struct stat st;

	*file = (struct source_file){ .fd = -1 };
	if (blob_open(source_directory_of(source)->blobs, id, &file->fd, &st, err) != 0)
		return -1;
	blob_fingerprint_of(&st, &file->before);
	file->head = (struct blob_head){ .generation = SOURCE_FILE_GENERATION,
					 .size = file->before.size };
	source_file_timeline(&file->before, file->head.timeline);
	return 0;
}

static void source_file_close(struct source_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
}

/* What was read is one state of the file. */
static int source_file_check(const struct source_file *file, struct err *err)
{
	struct blob_fingerprint now;
	struct stat st;

	if (fstat(file->fd, &st) != 0)
		return err_errno(err, "cannot look at it");
	blob_fingerprint_of(&st, &now);
	if (blob_fingerprint_same(&file->before, &now))
		return 0;
	err_set(err, ERR_CONFLICT, "it changed while it was copied");
	return err_remedy(err, "repeat");
}

static int source_file_give_part(const struct source_file *file,
				 const struct blob_part *part,
				 const struct blob_part_sink *sink, struct err *err)
{
	AUTO_FREE char *block = xmalloc(BLOCK);
	uint64_t at = part->offset, left = part->length;
	ssize_t count = 1;

	if (file->head.size == 0 && sink->take(sink->arg, &file->head, "", 0, err) != 0)
		return -1;
	while (left > 0 && count > 0) {
		count = pread(file->fd, block, left < BLOCK ? (size_t)left : BLOCK,
			      (off_t)at);
		if (count < 0)
			return err_errno(err, "cannot read it");
		if (count > 0 &&
		    sink->take(sink->arg, &file->head, block, (size_t)count, err) != 0)
			return -1;
		at += (uint64_t)count;
		left -= (uint64_t)count;
	}
	return source_file_check(file, err);
}

static bool source_file_is_version(const struct source_file *file, const char *version)
{
	AUTO_FREE char *own =
		xasprintf("%s-%" PRIu64, file->head.timeline, file->head.generation);

	return !version || strcmp(version, own) == 0;
}

static int source_directory_read_blob(struct source *source, const struct blob_part *part,
				      int64_t most_ms, const struct blob_part_sink *sink,
				      struct err *err)
{
	struct source_file file;
	int result = source_file_open(source, part->id, &file, err);

	(void)most_ms;
	file.head.offset = part->offset;
	if (result == 0 && !source_file_is_version(&file, part->version))
		result = err_set(err, ERR_CONFLICT, "it is another version by now");
	if (result == 0)
		result = source_file_give_part(&file, part, sink, err);
	source_file_close(&file);
	return result;
}

/* All of a small one is read before any of it is given. 1: it is large. */
static int source_file_take(struct source *source, const char *id, char *bytes,
			    struct source_file *file, struct err *err)
{
	uint64_t have = 0;
	ssize_t count = 1;

	if (source_file_open(source, id, file, err) != 0)
		return -1;
	if (file->before.size > BLOB_SMALL_MOST)
		return 1;
	while (have < file->before.size && count > 0) {
		count = pread(file->fd, bytes + have, file->before.size - have,
			      (off_t)have);
		have += count > 0 ? (uint64_t)count : 0;
	}
	return count < 0 ? err_errno(err, "cannot read it")
			 : source_file_check(file, err);
}

static int source_file_give(struct source *source, const char *id, char *bytes,
			    const struct source_blobs_sink *sink, struct err *err)
{
	const struct wire_frame_sink *frames = &sink->frames;
	struct source_file file;
	struct err why;
	int taken = source_file_take(source, id, bytes, &file, &why);
	struct wire_frame frame = { .name = id,
				    .size = file.before.size,
				    .generation = SOURCE_FILE_GENERATION };

	source_file_close(&file);
	if (taken != 0)
		return sink->refuse(frames->arg, id, taken < 0 ? &why : NULL, err);
	source_file_timeline(&file.before, frame.timeline);
	if (frames->begin(frames->arg, &frame, err) != 0 ||
	    frames->bytes(frames->arg, bytes, frame.size, err) != 0)
		return -1;
	return frames->end(frames->arg, err);
}

static int source_directory_read_blobs(struct source *source,
				       const struct blob_many *many, int64_t most_ms,
				       const struct source_blobs_sink *sink,
				       struct err *err)
{
	AUTO_FREE char *bytes = xmalloc(BLOB_SMALL_MOST);
	int result = 0;

	(void)most_ms;
	for (size_t i = 0; i < many->count && result == 0; i++)
		result = source_file_give(source, many->ids[i], bytes, sink, err);
	return result;
}

static void source_directory_free(struct source *source)
{
	free(source);
}

static const struct source_ops directory_ops = {
	.url = source_directory_url,
	.look = source_directory_look,
	.read = source_directory_read,
	.bring = source_directory_bring,
	.free = source_directory_free,
};

static const struct source_ops files_ops = {
	.read_blob = source_directory_read_blob,
	.read_blobs = source_directory_read_blobs,
	.free = source_directory_free,
};

static struct source *source_directory_new(struct source_directory directory)
{
	struct source_directory *one = xmalloc(sizeof(*one));

	*one = directory;
	return &one->source;
}

struct source *source_new_directory(const char *root, const struct discovery *discovery)
{
	return source_directory_new((struct source_directory){
		.source.ops = &directory_ops, .root = root, .discovery = discovery });
}

struct source *source_new_files(int root)
{
	return source_directory_new(
		(struct source_directory){ .source.ops = &files_ops, .blobs = root });
}

/*
 * A primary. Each request takes a line that rests, or opens one: so there are as many
 * connections as threads that ask at once, and each is kept.
 */

/* Of what a delta's pack unpacks to: it may be anybody's. */
#define SOURCE_DELTA_UNPACKED ((uint64_t)64 << 20)
#define SOURCE_DELTA_OBJECTS 2000
#define SHARES_OF_MEMORY 64

struct source_primary {
	struct source source;
	struct primary *primary;
	atomic_int_fast64_t valid_ms;
	const struct stop *stop;
	pthread_mutex_t mutex;
	VEC(struct primary_line *) resting; /* guarded by mutex; owned */
};

static struct source_primary *source_primary_of(struct source *source)
{
	return (struct source_primary *)source;
}

static void source_primary_free(struct source *source)
{
	struct source_primary *primary = source_primary_of(source);

	for (size_t i = 0; i < primary->resting.count; i++)
		primary_line_close(primary->resting.items[i]);
	vec_clear(&primary->resting);
	pthread_mutex_destroy(&primary->mutex);
	free(primary);
}

struct source_use {
	struct source_primary *primary;
	struct primary_line *line; /* NULL: not open */
};
#define AUTO_USE __attribute__((cleanup(source_primary_rest_line)))

/* Its requests take at most most_ms each. */
static int source_primary_take_line(struct source *source, int64_t most_ms,
				    struct source_use *use, struct err *err)
{
	struct source_primary *primary = use->primary = source_primary_of(source);

	lock(&primary->mutex);
	use->line = primary->resting.count > 0
			    ? primary->resting.items[--primary->resting.count]
			    : NULL;
	unlock(&primary->mutex);
	if (!use->line &&
	    primary_line_open(primary->primary, primary->stop, &use->line, err) != 0)
		return -1;
	primary_line_limit(use->line, most_ms);
	return 0;
}

static void source_primary_rest_line(struct source_use *use)
{
	if (!use->line)
		return;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&use->primary->mutex);

	vec_add(&use->primary->resting, TAKE(use->line));
}

static char *source_primary_url(struct source *source, const char *name, struct err *err)
{
	(void)err;
	return primary_url(source_primary_of(source)->primary, name);
}

/* What a tag finally names its own object tells (objects_peel): no checksum covers what
 * the primary says of it, and git believes what is in packed-refs. */
static void source_primary_forget_peels(struct ref_snapshot *refs)
{
	for (size_t i = 0; i < refs->refs.count; i++) {
		struct ref *ref = &refs->refs.items[i];
		if (ref->peel == REF_PEEL_TAG ||
		    text_starts_with(ref->name, "refs/tags/"))
			ref->peel = REF_PEEL_UNKNOWN;
	}
}

static void source_primary_fill_view(struct wire_refs *refs, struct source_view *view)
{
	source_primary_forget_peels(&refs->refs);
	view->refs = refs->refs;
	view->oid_len = refs->oid_len;
	view->description = refs->description;
	view->settings = refs->settings;
	memcpy(view->timeline, refs->timeline, sizeof(view->timeline));
	memcpy(view->log, refs->log, sizeof(view->log));
	view->generation = refs->generation;
	view->changed_at = refs->changed_at;
	view->pushed_settled = refs->pushed_settled;
	view->pushed_announced = refs->pushed_announced;
	view->pack_bytes = refs->pack_bytes;
	view->lenders = refs->lenders;
}

/* And what a git child needs, should one be needed. */
static int source_primary_complete_view(struct source_primary *primary, const char *name,
					struct wire_refs *refs, struct source_view *view,
					struct err *err)
{
	source_primary_fill_view(refs, view);
	view->ca_file = primary_ca_file(primary->primary);
	if (primary_git(primary->primary, name, primary->valid_ms / 1000, &view->url,
			&view->header, err) == 0)
		return 0;
	source_view_clear(view);
	return -1;
}

static int source_primary_read(struct source *source, const char *name,
			       struct source_view *view, struct err *err)
{
	struct source_primary *primary = source_primary_of(source);
	AUTO_USE struct source_use use = { 0 };
	struct wire_refs refs;

	/* A job has no longer. */
	if (source_primary_take_line(source, primary->valid_ms, &use, err) != 0 ||
	    primary_refs(use.line, name, &refs, err) != 0)
		return -1;
	return source_primary_complete_view(primary, name, &refs, view, err);
}

static int source_primary_read_since(struct source *source, const char *name,
				     struct source_have *have, struct source_view *view,
				     struct err *err)
{
	struct source_primary *primary = source_primary_of(source);
	const struct primary_delta delta = { .name = name,
					     .timeline = have->timeline,
					     .generation = have->generation,
					     .limit = SOURCE_DELTA_BYTES,
					     .base = { .refs = &have->refs,
						       .sum = &have->sum,
						       .oid_len = have->oid_len } };
	AUTO_USE struct source_use use = { 0 };
	struct wire_refs refs;

	if (source_primary_take_line(source, primary->valid_ms, &use, err) != 0)
		return -1;
	int result = primary_delta(use.line, &delta, &refs, &view->pack, err);
	return result == 0 ? source_primary_complete_view(primary, name, &refs, view, err)
			   : result;
}

/* A stranger's takes less where there is little: several come at a time. */
static uint64_t unpacked_most(const struct source_want *want)
{
	const uint64_t share =
		want->view->is_foreign ? process_memory_limit() / SHARES_OF_MEMORY : 0;

	return share > 0 && share < SOURCE_DELTA_UNPACKED ? share : SOURCE_DELTA_UNPACKED;
}

bool source_take_pack(const struct source_want *want, const struct str *pack)
{
	struct err err;
	int taken = small_pack_take(
		&(struct small_pack_request){ .copy = want->copy,
					      .work = want->work,
					      .pack = pack->data,
					      .len = pack->len,
					      .tips = want->oids,
					      .known = want->known,
					      .most = SOURCE_DELTA_OBJECTS,
					      .most_bytes = unpacked_most(want),
					      .refs = want->refs },
		&err);

	if (taken < 0)
		log_warn("sync.delta_refused", LOG_ERR(&err));
	if (want->is_by_pack)
		*want->is_by_pack = taken > 0;
	if (want->arrived && taken > 0)
		*want->arrived += pack->len;
	return taken > 0;
}

/* Whether the pack that came with the refs has brought all. What a delta brings is not
 * enough for a copy that is made anew. */
static bool source_primary_takes_pack(const struct source_want *want)
{
	return want->view->pack.len > 0 && want->known && !want->is_anew &&
	       !(want->is_new && want->view->is_delta) &&
	       source_take_pack(want, &want->view->pack);
}

static int source_primary_bring(struct source *source, const struct source_want *want,
				struct err *err)
{
	AUTO_USE struct source_use use = { 0 };
	int result;

	if (source_primary_takes_pack(want))
		return 0;
	if (want->is_new && want->view->lent_ns > 0) {
		result = objects_are_complete(want->work, want->copy, want->oids, err);
		return result == 0 ? source_fetch_rest(want, err) : result < 0 ? -1 : 0;
	}
	if (!bring_packs_is_worth_it(want))
		return source_fetch(want, NULL, err);
	if (source_primary_take_line(source, source_primary_of(source)->valid_ms, &use,
				     err) != 0)
		return -1;
	result = bring_packs(use.line, want, err);
	source_primary_rest_line(&use); /* git may take long */
	return result > 0 ? source_fetch(want, NULL, err) : result;
}

static int source_primary_read_blob(struct source *source, const struct blob_part *part,
				    int64_t most_ms, const struct blob_part_sink *sink,
				    struct err *err)
{
	AUTO_USE struct source_use use = { 0 };

	return source_primary_take_line(source, most_ms, &use, err) != 0
		       ? -1
		       : primary_blob_read(use.line, part, sink, err);
}

static int source_primary_read_blobs(struct source *source, const struct blob_many *many,
				     int64_t most_ms,
				     const struct source_blobs_sink *sink,
				     struct err *err)
{
	AUTO_USE struct source_use use = { 0 };

	return source_primary_take_line(source, most_ms, &use, err) != 0
		       ? -1
		       : primary_blob_read_many(use.line, many, &sink->frames, err);
}

static int source_primary_doubt(struct source *source, const char *type, const char *name,
				int64_t most_ms, struct err *err)
{
	AUTO_USE struct source_use use = { 0 };

	return source_primary_take_line(source, most_ms, &use, err) != 0
		       ? -1
		       : primary_reverify(use.line, type, name, err);
}

static const struct source_ops primary_ops = {
	.url = source_primary_url,
	.read = source_primary_read,
	.read_since = source_primary_read_since,
	.bring = source_primary_bring,
	.read_blob = source_primary_read_blob,
	.read_blobs = source_primary_read_blobs,
	.doubt = source_primary_doubt,
	.free = source_primary_free,
	.tells_checksums = true,
};

struct source *source_new_primary(struct primary *primary, int64_t valid_ms,
				  const struct stop *stop)
{
	struct source_primary *one = xcalloc(1, sizeof(*one));

	one->source.ops = &primary_ops;
	one->primary = primary;
	atomic_init(&one->valid_ms, valid_ms);
	one->stop = stop;
	mutex_init(&one->mutex);
	return &one->source;
}

void source_set_valid(struct source *source, int64_t valid_ms)
{
	if (source && source->ops == &primary_ops)
		atomic_store(&source_primary_of(source)->valid_ms, valid_ms);
}

/*
 * Either.
 */

void source_free(struct source *source)
{
	if (source)
		source->ops->free(source);
}

char *source_url(struct source *source, const char *name, struct err *err)
{
	return source->ops->url(source, name, err);
}

int source_look(struct source *source, const char *name, struct fingerprint *fingerprint,
		struct err *err)
{
	if (!source->ops->look)
		return err_set(err, ERR_CONFLICT, "the source tells no fingerprints");
	return source->ops->look(source, name, fingerprint, err);
}

int source_read(struct source *source, const char *name, struct source_view *view,
		struct err *err)
{
	*view = (struct source_view){ 0 };
	return source->ops->read(source, name, view, err);
}

int source_read_since(struct source *source, const char *name, struct source_have *have,
		      struct source_view *view, struct err *err)
{
	int result = 1;

	*view = (struct source_view){ .pack = STR_INIT };
	if (source->ops->read_since)
		result = source->ops->read_since(source, name, have, view, err);
	ref_snapshot_clear(&have->refs);
	if (result != 0)
		source_view_clear(view);
	return result;
}

int source_bring(struct source *source, const struct source_want *want, struct err *err)
{
	return source->ops->bring(source, want, err);
}

int source_read_blob(struct source *source, const struct blob_part *part, int64_t most_ms,
		     const struct blob_part_sink *sink, struct err *err)
{
	return source->ops->read_blob(source, part, most_ms, sink, err);
}

int source_read_blobs(struct source *source, const struct blob_many *many,
		      int64_t most_ms, const struct source_blobs_sink *sink,
		      struct err *err)
{
	return source->ops->read_blobs(source, many, most_ms, sink, err);
}

int source_doubt(struct source *source, const char *type, const char *name,
		 int64_t most_ms, struct err *err)
{
	if (!source->ops->doubt)
		return 0; /* it is read anew each time */
	return source->ops->doubt(source, type, name, most_ms, err);
}

void source_view_clear(struct source_view *view)
{
	ref_snapshot_clear(&view->refs);
	free(view->url);
	text_wipe(view->header); /* it holds a token */
	free(view->ssh_command);
	free(view->description);
	free(view->settings);
	text_list_clear(&view->lenders);
	str_clear(&view->pack);
	*view = (struct source_view){ 0 };
}
