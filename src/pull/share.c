#include "pull/share.h"

#include <fcntl.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/thread.h"
#include "git/pack_list.h"
#include "git/pack_prove.h"
#include "git/packs.h"
#include "git/sound_files.h"
#include "pull/copy_record.h"
#include "replicable/name.h"
#include "verify/verify_objects.h"

#define FOLDER "objects/pack"

/* ------------------------------------------------------------------ who waits */

#define CHAIN_MOST 64
#define AWAIT_MOST_MS ((int64_t)3600 * 1000)

struct await {
	char *lender;
	int64_t since; /* boot ms */
};

static pthread_mutex_t await_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct map awaited; /* name -> struct await, owned; guarded by await_mutex */

static bool await_leads_to_locked(const char *from, const char *name)
{
	for (size_t i = 0; i < CHAIN_MOST; i++) {
		const struct await *next = map_get(&awaited, from);
		if (strcmp(from, name) == 0)
			return true;
		if (!next)
			return false;
		from = next->lender;
	}
	return true;
}

static void await_forget_locked(const char *name)
{
	struct await *await = map_remove(&awaited, name);

	if (await)
		free(await->lender);
	free(await);
}

/* One that has waited for an hour is kept: forgotten, it would begin to wait anew. */
bool share_await(const char *name, const char *lender)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&await_mutex);
	struct await *await = map_get(&awaited, name);
	const int64_t now = clock_boot_ms();

	if (!lender || await_leads_to_locked(lender, name)) {
		await_forget_locked(name);
		return false;
	}
	if (await && now - await->since > AWAIT_MOST_MS)
		return false;
	if (!await) {
		await = xcalloc(1, sizeof(*await));
		await->since = now;
		map_put(&awaited, name, await);
	}
	free(await->lender);
	await->lender = xstrdup(lender);
	return true;
}

char *share_awaited(const char *name)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&await_mutex);
	const struct await *await = map_get(&awaited, name);

	return await ? xstrdup(await->lender) : NULL;
}

/* ------------------------------------------------------------------ links */

/* Smaller ones are fetched: each pack makes a repository a little slower. */
#define PACK_LEAST PACKS_WORTH_COPYING

struct shared_pack {
	char *name;         /* owned */
	const char *lender; /* borrowed */
};

struct sharing {
	const struct share_request *request;
	int folder; /* the new copy's */
	VEC(struct shared_pack) packs;
	uint64_t bytes;
};

static struct stat sharing_stat(int folder, const char *pack, const char *end)
{
	AUTO_FREE char *file = xasprintf("%s.%s", pack, end);
	struct stat st = { 0 };

	if (fstatat(folder, file, &st, AT_SYMLINK_NOFOLLOW) != 0)
		st = (struct stat){ 0 };
	return st;
}

static void sharing_remove(const struct sharing *sharing, const char *pack)
{
	AUTO_FREE char *keep = xasprintf("%s.keep", pack);

	pack_list_remove(sharing->request->copy, pack, ERR_IGNORED);
	unlinkat(sharing->folder, keep, 0);
}

/* Where the file was known to be sound it stays so: only the link is new. */
static int sharing_link(const struct sharing *sharing, int from, const char *pack,
			const char *end, bool is_known)
{
	AUTO_FREE char *file = xasprintf("%s.%s", pack, end);
	struct stat before = sharing_stat(from, pack, end);

	if (linkat(from, file, sharing->folder, file, 0) != 0)
		return -1;
	struct stat now = sharing_stat(sharing->folder, pack, end);
	if ((is_known || sound_file_is(&before)) && now.st_ino == before.st_ino &&
	    now.st_size == before.st_size &&
	    clock_same_time(&now.st_mtim, &before.st_mtim))
		sound_file_note(&now);
	return 0;
}

/* The index last: until then it is no pack for Git. */
static bool sharing_take_pack(struct sharing *sharing, int from, const char *lender,
			      const char *pack, bool is_known)
{
	AUTO_FREE char *keep = xasprintf("%s.keep", pack);
	AUTO_FREE char *text = xasprintf("refrelay: shared with %s\n", lender);

	return sharing_link(sharing, from, pack, "pack", is_known) == 0 &&
	       file_replace(sharing->folder, keep, text, strlen(text), FILE_SYNC,
			    ERR_IGNORED) == 0 &&
	       sharing_link(sharing, from, pack, "idx", is_known) == 0;
}

static bool sharing_has(const struct sharing *sharing, const char *pack)
{
	for (size_t i = 0; i < sharing->packs.count; i++)
		if (strcmp(sharing->packs.items[i].name, pack) == 0)
			return true;
	return false;
}

static int sharing_take_packs(struct sharing *sharing, const char *name,
			      const struct repo *lender, const pack_list *packs,
			      bool is_known, struct err *err)
{
	AUTO_CLOSE int from = dir_open(lender->fd, FOLDER, ERR_IGNORED);

	for (size_t i = 0; from >= 0 && i < packs->count; i++) {
		const struct pack_item *pack = &packs->items[i];
		if (git_work_check(sharing->request->work, err) != 0)
			return -1;
		if (pack->bytes < PACK_LEAST || sharing_has(sharing, pack->name))
			continue;
		if (!sharing_take_pack(sharing, from, name, pack->name, is_known)) {
			log_debug("share.not_linked", LOG_TEXT("from", name),
				  LOG_TEXT("pack", pack->name));
			sharing_remove(sharing, pack->name);
			continue;
		}
		vec_add(&sharing->packs,
			((struct shared_pack){ xstrdup(pack->name), name }));
		sharing->bytes += pack->bytes;
	}
	return 0;
}

/* Of a copy that was proved once. Whatever it is now, each object is read here. */
static int sharing_take_lender(struct sharing *sharing, const char *name, struct err *err)
{
	AUTO_FREE char *path = name_to_copy(sharing->request->root, name);
	AUTO_RECORD struct copy_record record = { 0 };
	AUTO_REPO struct repo lender = REPO_INIT;
	AUTO_PACK_LIST pack_list packs = { 0 };

	if (repo_open(AT_FDCWD, path, &lender, ERR_IGNORED) != 0)
		return 0;
	copy_record_read(lender.fd, &record);
	if (lender.oid_len != sharing->request->copy->oid_len || lender.is_partial ||
	    lender.is_shallow || lender.has_alternates || !record.is_there ||
	    !record.timeline[0] || pack_list_read(&lender, &packs, ERR_IGNORED) != 0) {
		log_debug("share.not_linked", LOG_TEXT("from", name));
		return 0;
	}
	bool is_known = copy_record_look(&record, lender.fd) == COPY_STAMPS_SAME;
	return sharing_take_packs(sharing, name, &lender, &packs, is_known, err);
}

static void sharing_clear(struct sharing *sharing)
{
	vec_clear_members(&sharing->packs, name);
}

static void sharing_forget(const struct sharing *sharing, const char *pack)
{
	struct stat bytes = sharing_stat(sharing->folder, pack, "pack");
	struct stat index = sharing_stat(sharing->folder, pack, "idx");

	sound_file_forget(&bytes);
	sound_file_forget(&index);
}

/* Nothing of it may stay: it is not proved. */
static int sharing_discard(struct sharing *sharing, struct err *err)
{
	for (size_t i = 0; i < sharing->packs.count; i++) {
		const char *pack = sharing->packs.items[i].name;
		sharing_remove(sharing, pack);
		if (sharing_stat(sharing->folder, pack, "pack").st_ino != 0)
			return err_set(err, ERR_DISK, "cannot remove %s again", pack);
	}
	sharing_clear(sharing);
	return 0;
}

/* ------------------------------------------------------------------ the proof */

static int sharing_has_digest(const struct sharing *sharing, const char *pack,
			      const char *end, struct err *err)
{
	const struct share_request *request = sharing->request;
	AUTO_FREE char *file = xasprintf("%s.%s", pack, end);
	struct stat st = sharing_stat(sharing->folder, pack, end);
	int result = verify_ends_with_digest(
		sharing->folder, file, request->copy->oid_len, request->work->stop, err);

	if (result > 0)
		sound_file_note(&st);
	return result;
}

/* Every object of it, and what is around them. 1: of some Git has to say. */
static int sharing_prove_pack(const struct sharing *sharing, const char *pack,
			      struct err *err)
{
	const struct share_request *request = sharing->request;
	int result = pack_prove(request->work, request->copy, pack, err);

	if (result < 0 || pack_list_check_index(request->copy, pack, err) != 0 ||
	    git_work_check(request->work, err) != 0)
		return -1;
	int sound = sharing_has_digest(sharing, pack, "pack", err);
	if (sound > 0)
		sound = sharing_has_digest(sharing, pack, "idx", err);
	if (sound > 0)
		return result;
	if (sound < 0 || git_work_check(request->work, err) != 0)
		return -1;
	return err_set(err, ERR_CORRUPT, "%s does not end in its digest", pack);
}

static bool sharing_is_unreadable(const struct err *err)
{
	return err->class == ERR_DISK &&
	       (err->sys_errno == EIO || err->sys_errno == ESTALE);
}

static bool sharing_must_end(const struct err *err)
{
	return err->class == ERR_CANCELED || err->class == ERR_LOST ||
	       err->class == ERR_TIMEOUT ||
	       (err->class == ERR_DISK && !sharing_is_unreadable(err));
}

/* Only what was read of a pack speaks against the one that lent it. */
static int sharing_doubt(const struct sharing *sharing, const struct shared_pack *pack,
			 struct err *err)
{
	const struct share_request *request = sharing->request;
	struct err end;

	sharing_forget(sharing, pack->name);
	if (git_work_check(request->work, &end) != 0)
		*err = end;
	else if (err->class == ERR_CORRUPT || sharing_is_unreadable(err))
		request->doubt(request->arg, pack->lender, err);
	return -1;
}

static int sharing_prove(const struct sharing *sharing, struct err *err)
{
	const struct share_request *request = sharing->request;
	bool is_for_git = false;

	failpoint("share.linked");
	if (dir_sync(sharing->folder, ".", err) != 0)
		return -1;
	for (size_t i = 0; i < sharing->packs.count; i++) {
		const struct shared_pack *pack = &sharing->packs.items[i];
		int result = sharing_prove_pack(sharing, pack->name, err);
		is_for_git |= result > 0;
		if (result < 0)
			return sharing_doubt(sharing, pack, err);
	}
	return is_for_git ? verify_packs(request->work, request->copy, err) : 0;
}

static int sharing_take_all(struct sharing *sharing, struct err *err)
{
	const text_list *lenders = sharing->request->lenders;

	for (size_t i = 0; i < lenders->count; i++)
		if (sharing_take_lender(sharing, lenders->items[i], err) != 0)
			return -1;
	return 0;
}

int share_packs(const struct share_request *request, struct err *err)
{
	struct sharing sharing = { .request = request };
	AUTO_CLOSE int folder = dir_open(request->copy->fd, FOLDER, err);
	struct err why;
	int result;

	if (folder < 0)
		return -1;
	sharing.folder = folder;
	if (sharing_take_all(&sharing, &why) == 0 &&
	    (sharing.packs.count == 0 || sharing_prove(&sharing, &why) == 0)) {
		result = sharing.packs.count > 0;
	} else if (sharing_must_end(&why)) {
		*err = why;
		result = -1;
	} else {
		log_warn("share.refused", LOG_ERR(&why));
		result = sharing_discard(&sharing, err);
	}
	if (result > 0)
		log_info("sync.shared", LOG_NUMBER("packs", sharing.packs.count),
			 LOG_NUMBER("bytes", sharing.bytes));
	sharing_clear(&sharing);
	return result;
}
