/*
 * git writes, and we remove. Left to itself, `git repack -d` removes packs right after it
 * gave the new one its name: after a power cut the removal may be on disk, and the name
 * not. So git is asked for the new pack only, and then
 *
 *	1. each new pack is read: it and its index end in their own digests, and belong
 *	   together; the directory is synced;
 *	2. each pack that was to be folded is looked for in it, object by object, and in
 *	   those that are not folded: what these have, git leaves out;
 *	3. the multi-pack-index is written over those that stay, so that readers have one
 *at any moment that names no pack that is gone; the directory is synced;
 *	4. those that were found to be in what stays go, each index first; readers that
 *have them open go on, others look at the directory again, as git does by itself.
 *
 * A crash leaves more than is needed at any step, and never less: the next maintenance
 * folds what is there twice. git then often makes the very pack again that is there, and
 * gives it the same name: it is known by its inodes. What git did not fold, for whatever
 *reason, stays.
 */
#include <fcntl.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "base/proc_stream.h"
#include "git/fence.h"
#include "git/pack_list.h"
#include "upkeep/maintenance_parts.h"
#include "upkeep/stale.h"
#include "verify/verify_objects.h"

#define PACKS "objects/pack"
#define ASK_EVERY_MS 200

struct maintenance_run {
	const struct maintenance_request *request;
	struct maintenance_result *result;
	pack_list before;
	bool is_ending;        /* what has begun is brought to its end */
	text_list temporaries; /* paths of those that were there before */
};

static bool maintenance_must_end(const struct maintenance_run *run)
{
	const struct stop *stop = run->request->job->work.stop;

	if (run->is_ending)
		return false;
	return (stop && stop_is_requested(stop)) ||
	       (run->request->must_end && run->request->must_end(run->request->arg));
}

static int maintenance_go_on(const struct maintenance_run *run, struct err *err)
{
	const struct job *job = run->request->job;
	uint64_t fence = 0;

	if (maintenance_must_end(run))
		return err_set(err, ERR_CANCELED, "another job waits");
	if (lease_check(job->lease, err) != 0)
		return -1;
	if (fence_read(run->request->repo->fd, &fence, err) == 0 && fence <= job->fence)
		return 0;
	return err_set(err, ERR_LOST, "a later holder of the lease is at work");
}

/* Ends it with all its children when something else is to be done. */
static int maintenance_git(const struct maintenance_run *run, const char *const *args,
			   const struct str *input, struct err *err)
{
	const struct git_call call = { .work = &run->request->job->work,
				       .repository = run->request->repo->path,
				       .repository_fd = run->request->repo->fd,
				       .args = args,
				       .input = input,
				       .yields = true };
	struct git_stream *stream = NULL;
	char unwanted[4096];
	ssize_t got = PROC_STREAM_NOTHING;

	if (maintenance_go_on(run, err) != 0 ||
	    git_stream_open(&call, -1, &stream, err) != 0)
		return -1;
	while ((got > 0 || got == PROC_STREAM_NOTHING) && !maintenance_must_end(run))
		got = proc_stream_read_until(git_stream_proc(stream), unwanted,
					     sizeof(unwanted),
					     clock_boot_ms() + ASK_EVERY_MS);
	return git_stream_close(stream, err);
}

static int maintenance_sync(const struct maintenance_run *run, const char *folder,
			    struct err *err)
{
	const int dir = run->request->repo->fd;

	if (faccessat(dir, folder, F_OK, 0) != 0)
		return 0;
	return dir_sync(dir, folder, err);
}

static int maintenance_graph(const struct maintenance_run *run, struct err *err)
{
	static const char *const args[] = { "commit-graph",  "write",
					    "--reachable",   "--split",
					    "--no-progress", NULL };

	if (maintenance_git(run, args, NULL, err) != 0)
		return err_prefix(err, "commit-graph");
	failpoint("maintenance.graphed");
	run->result->has_graphed = true;
	if (maintenance_sync(run, "objects/info/commit-graphs", err) != 0)
		return -1;
	return maintenance_sync(run, "objects/info", err);
}

/* git would fill the disk, and then fail. */
static int maintenance_check_room(const struct maintenance_run *run, struct err *err)
{
	const uint64_t room = run->request->plan.room;
	struct statvfs fs;

	if (fstatvfs(run->request->repo->fd, &fs) != 0)
		return err_errno(err, "cannot tell how much room is left");
	if ((uint64_t)fs.f_bavail * fs.f_frsize >= room)
		return 0;
	err_set(err, ERR_DISK, "folding packs needs %" PRIu64 " MiB of free disk",
		room >> 20);
	return err_remedy(err, "free some room on the disk of the repositories; it is "
			       "tried again by itself");
}

static int maintenance_prove_file(const struct maintenance_run *run, int folder,
				  const char *pack, const char *end, struct err *err)
{
	const struct repo *repo = run->request->repo;
	const struct stop *stop = run->is_ending ? NULL : run->request->job->work.stop;
	AUTO_FREE char *name = xasprintf("%s.%s", pack, end);

	int sound = verify_ends_with_digest(folder, name, repo->oid_len, stop, err);
	if (sound > 0)
		return 0;
	if (sound < 0 || maintenance_go_on(run, err) != 0)
		return -1;
	return err_set(err, ERR_CORRUPT, PACKS "/%s cannot be read as git wrote it",
		       name);
}

/* Bytes as they come from the disk, or its cache. */
static int maintenance_prove(const struct maintenance_run *run, const char *pack,
			     struct err *err)
{
	const struct repo *repo = run->request->repo;
	AUTO_CLOSE int folder = dir_open(repo->fd, PACKS, err);

	if (folder < 0 || maintenance_prove_file(run, folder, pack, "pack", err) != 0 ||
	    maintenance_prove_file(run, folder, pack, "idx", err) != 0)
		return -1;
	return pack_list_check_index(repo, pack, err);
}

static bool maintenance_is_new(const struct maintenance_run *run,
			       const struct pack_item *pack)
{
	const struct pack_item *before = pack_list_find(&run->before, pack->name);

	return !before || before->inode != pack->inode ||
	       before->index_inode != pack->index_inode;
}

/* Those of `all` that git has written since; borrowed from it. */
static void maintenance_find_new(const struct maintenance_run *run, const pack_list *all,
				 pack_list *fresh)
{
	*fresh = (pack_list){ 0 };
	for (size_t i = 0; i < all->count; i++)
		if (maintenance_is_new(run, &all->items[i]))
			vec_add(fresh, all->items[i]);
}

static int maintenance_repack(const struct maintenance_run *run, struct err *err)
{
	static const char *const args[] = { "-c",
					    "pack.threads=1",
					    "-c",
					    "pack.windowMemory=256m",
					    "-c",
					    "repack.packKeptObjects=false",
					    "-c",
					    "pack.packSizeLimit=0",
					    "repack",
					    "--quiet",
					    "-n",
					    "--geometric=2",
					    "--no-write-bitmap-index",
					    NULL };

	if (maintenance_check_room(run, err) != 0)
		return -1;
	if (maintenance_git(run, args, NULL, err) != 0)
		return err_prefix(err, "folding packs");
	failpoint("maintenance.folded");
	return 0;
}

/* When the folded are gone: what git has written, and what it left alone, as it does with
 * those that are kept, and with all but the smallest. It leaves objects of these out of
 * what it writes. Borrowed. */
static void maintenance_find_staying(const struct maintenance_run *run,
				     const pack_list *fresh, pack_list *staying)
{
	size_t left = pack_list_count_folds(&run->before);

	*staying = (pack_list){ 0 };
	for (size_t i = 0; i < fresh->count; i++)
		vec_add(staying, fresh->items[i]);
	for (size_t i = 0; i < run->before.count; i++) {
		const struct pack_item *pack = &run->before.items[i];
		bool is_folded = !pack->is_kept && left > 0;
		left -= is_folded;
		if (!is_folded && !pack_list_find(fresh, pack->name))
			vec_add(staying, *pack);
	}
}

/* What came since the last maintenance that ended well: of one that did not there may be
 * packs that nobody has read. */
static int maintenance_prove_staying(const struct maintenance_run *run,
				     const pack_list *staying, struct err *err)
{
	struct maintenance_last last;

	maintenance_read_last(run->request->repo->fd, &last);
	for (size_t i = 0; i < staying->count; i++) {
		const struct pack_item *pack = &staying->items[i];
		if (!maintenance_is_new(run, pack) &&
		    pack->changed_ns <= last.at * 1000000)
			continue;
		if (maintenance_must_end(run))
			return maintenance_go_on(run, err);
		if (maintenance_prove(run, pack->name, err) != 0)
			return -1;
	}
	return 0;
}

/* All that do not stay; two that have the same objects do not both go for the sake of
 * each other. */
static int maintenance_find_folded(const struct maintenance_run *run,
				   const pack_list *staying, text_list *folded,
				   struct err *err)
{
	for (size_t i = 0; i < run->before.count; i++) {
		const struct pack_item *pack = &run->before.items[i];
		char lacks[65] = "";
		if (pack_list_find(staying, pack->name))
			continue;
		int covered = pack_list_covers(run->request->repo, staying, pack->name,
					       lacks, err);
		if (covered < 0 || maintenance_must_end(run))
			return covered < 0 ? -1 : maintenance_go_on(run, err);
		if (covered == 0)
			return err_set(err, ERR_CORRUPT,
				       "git left object %s of " PACKS "/%s.pack out of "
				       "the new pack",
				       lacks, pack->name);
		vec_add(folded, xstrdup(pack->name));
	}
	return 0;
}

static int maintenance_write_index(const struct maintenance_run *run,
				   const struct str *packs, bool has_bitmap,
				   struct err *err)
{
	const char *const args[] = { "multi-pack-index",
				     "write",
				     "--stdin-packs",
				     "--no-progress",
				     has_bitmap ? "--bitmap" : NULL,
				     NULL };

	return maintenance_git(run, args, packs, err);
}

/* Without a bitmap if git cannot make one, as when objects of refs are loose. */
static int maintenance_index(const struct maintenance_run *run, const pack_list *all,
			     const text_list *without, struct err *err)
{
	AUTO_STR struct str packs = STR_INIT;
	bool has_bitmap = run->request->plan.has_bitmap;

	for (size_t i = 0; i < all->count; i++)
		if (!text_list_has(without, all->items[i].name))
			str_addf(&packs, "%s.idx\n", all->items[i].name);
	int done = maintenance_write_index(run, &packs, has_bitmap, err);
	if (done != 0 && has_bitmap && err->class == ERR_INTERNAL)
		done = maintenance_write_index(run, &packs, false, err);
	if (done != 0)
		return err_prefix(err, "multi-pack-index");
	run->result->has_indexed = true;
	failpoint("maintenance.indexed");
	return maintenance_sync(run, PACKS, err);
}

static int maintenance_drop(const struct maintenance_run *run, const text_list *folded,
			    struct err *err)
{
	static const char *const prune[] = { "prune-packed", "--quiet", NULL };

	for (size_t i = 0; i < folded->count; i++) {
		if (maintenance_go_on(run, err) != 0 ||
		    pack_list_remove(run->request->repo, folded->items[i], err) != 0)
			return -1;
		failpoint("maintenance.dropping");
	}
	if (run->result->has_folded && maintenance_git(run, prune, NULL, err) != 0)
		return err_prefix(err, "loose objects");
	return maintenance_sync(run, PACKS, err);
}

/* Readers that know only files are told of packs in one. */
static int maintenance_tell_files(const struct maintenance_run *run, struct err *err)
{
	static const char *const args[] = { "update-server-info", NULL };

	if (faccessat(run->request->repo->fd, "objects/info/packs", F_OK, 0) != 0)
		return 0;
	return maintenance_git(run, args, NULL, err);
}

/* git writes no pack if all that was to be folded is in those it leaves alone. */
static int maintenance_fold(const struct maintenance_run *run, const pack_list *all,
			    text_list *folded, struct err *err)
{
	pack_list fresh = { 0 }, staying = { 0 };
	int done;

	maintenance_find_new(run, all, &fresh);
	maintenance_find_staying(run, &fresh, &staying);
	done = maintenance_prove_staying(run, &staying, err);
	if (done == 0)
		done = maintenance_sync(run, PACKS, err);
	if (done == 0)
		done = maintenance_find_folded(run, &staying, folded, err);
	run->result->has_folded = done == 0;
	vec_clear(&fresh);
	vec_clear(&staying);
	return done;
}

static int maintenance_packs(const struct maintenance_run *run, struct err *err)
{
	const struct maintenance_plan *plan = &run->request->plan;
	AUTO_PACK_LIST pack_list all = { 0 };
	AUTO_TEXT_LIST text_list folded = { 0 };

	if (plan->folds && maintenance_repack(run, err) != 0)
		return -1;
	if (pack_list_read(run->request->repo, &all, err) != 0 ||
	    (plan->folds && maintenance_fold(run, &all, &folded, err) != 0) ||
	    maintenance_index(run, &all, &folded, err) != 0 ||
	    maintenance_drop(run, &folded, err) != 0)
		return -1;
	return maintenance_tell_files(run, err);
}

static bool maintenance_is_temporary(const char *name)
{
	return text_starts_with(name, "tmp_") || text_starts_with(name, ".tmp-") ||
	       text_ends_with(name, ".lock");
}

/* Their paths. */
static void maintenance_list_temporaries(const struct repo *repo, text_list *paths)
{
	static const char *const folders[] = { PACKS, "objects/info",
					       "objects/info/commit-graphs" };
	struct dirent *entry;

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		AUTO_CLOSEDIR DIR *folder = dir_list(repo->fd, folders[i]);
		while (folder && (entry = readdir(folder)) != NULL)
			if (maintenance_is_temporary(entry->d_name))
				vec_add(paths,
					xasprintf("%s/%s", folders[i], entry->d_name));
	}
}

/* Our children are dead, and had the lease. What came meanwhile is theirs: half a pack
 * may be as large as a whole one. */
static void maintenance_clear_temporaries(const struct maintenance_run *run)
{
	const struct repo *repo = run->request->repo;
	AUTO_TEXT_LIST text_list now = { 0 };

	if (lease_check(run->request->job->lease, ERR_IGNORED) != 0)
		return;
	maintenance_list_temporaries(repo, &now);
	for (size_t i = 0; i < now.count; i++)
		if (!text_list_has(&run->temporaries, now.items[i]))
			unlinkat(repo->fd, now.items[i], 0);
}

static int maintenance_steps(const struct maintenance_run *run, struct err *err)
{
	const struct maintenance_plan *plan = &run->request->plan;

	if (plan->sweeps && stale_remove(run->request->repo, clock_wall_ms() / 1000,
					 &run->result->removed, err) != 0)
		return -1;
	if (plan->graphs && maintenance_graph(run, err) != 0)
		return -1;
	return plan->indexes ? maintenance_packs(run, err) : 0;
}

/* On any way out: who compares the files must know which of them are git's. */
static int maintenance_find_renewed(struct maintenance_run *run, struct err *err)
{
	AUTO_PACK_LIST pack_list now = { 0 };

	run->is_ending = true;
	if (pack_list_read(run->request->repo, &now, err) != 0)
		return -1;
	for (size_t i = 0; i < now.count; i++) {
		const struct pack_item *pack = &now.items[i];
		if (!pack_list_find(&run->before, pack->name) ||
		    !maintenance_is_new(run, pack))
			continue;
		if (maintenance_prove(run, pack->name, err) != 0)
			return -1;
		vec_add(&run->result->renewed, xstrdup(pack->name));
	}
	run->result->packs_after = now.count;
	return 0;
}

void maintenance_result_clear(struct maintenance_result *result)
{
	text_list_clear(&result->renewed);
}

int maintenance_run(const struct maintenance_request *request,
		    struct maintenance_result *result, struct err *err)
{
	struct maintenance_run run = { .request = request, .result = result };
	int64_t started = clock_boot_ms();
	int done = -1;

	*result = (struct maintenance_result){ 0 };
	maintenance_list_temporaries(request->repo, &run.temporaries);
	if (pack_list_read(request->repo, &run.before, err) == 0) {
		result->packs_before = run.before.count;
		done = maintenance_steps(&run, err);
		struct err why;
		if (maintenance_find_renewed(&run, &why) != 0) {
			*err = why;
			done = -1;
		}
	}
	if (done != 0)
		maintenance_clear_temporaries(&run);
	else
		done = maintenance_write_last(request, result, clock_boot_ms() - started,
					      err);
	pack_list_clear(&run.before);
	text_list_clear(&run.temporaries);
	return done;
}
