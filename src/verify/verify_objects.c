#include "verify/verify_objects.h"

#include "base/file.h"
#include "git/objects.h"
#include "verify/verify_loose.h"

#define FOLDER "objects/pack"
/* Packs for one process. */
#define BATCH 50
/* How often packs may have been replaced by others while they were read. */
#define TRIES 3

typedef VEC(char *) name_list;
#define AUTO_NAMES __attribute__((cleanup(verify_objects_clear_names)))

static void verify_objects_clear_names(name_list *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->items[i]);
	vec_clear(names);
}

/* A pack counts from when it has an index: git writes that last and removes it first. */
static int list_indexes(const struct repo *repo, name_list *names, struct err *err)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *dir = dir_list(repo->fd, FOLDER);

	if (!dir)
		return err_errno(err, "cannot list " FOLDER);
	while (errno = 0, (entry = readdir(dir)) != NULL)
		if (text_starts_with(entry->d_name, "pack-") &&
		    text_ends_with(entry->d_name, ".idx"))
			vec_add(names, xasprintf(FOLDER "/%s", entry->d_name));
	return errno == 0 ? 0 : err_errno(err, "cannot list " FOLDER);
}

static bool has_vanished(const struct repo *repo, char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		AUTO_FREE char *pack = xasprintf(
			"%.*s.pack", (int)(strlen(names[i]) - strlen(".idx")), names[i]);
		if (faccessat(repo->fd, names[i], F_OK, AT_SYMLINK_NOFOLLOW) != 0 ||
		    faccessat(repo->fd, pack, F_OK, 0) != 0)
			return true;
	}
	return false;
}

/* 1: some are no longer there, and *err is what git said of that. */
static int verify_objects_check_batch(const struct git_work *work,
				      const struct repo *repo, char *const *names,
				      size_t count, struct err *err)
{
	const char *args[BATCH + 3] = { "verify-pack", "--" };

	for (size_t i = 0; i < count; i++)
		args[i + 2] = names[i];
	if (git_run(&(struct git_call){ .work = work,
					.repository = repo->path,
					.args = args },
		    err) == 0)
		return 0;
	if (err->class == ERR_NETWORK) { /* "early EOF", of a pack that was cut */
		err->class = ERR_CORRUPT;
		err_remedy(err,
			   "run git fsck in that repository and restore what it names");
	}
	return has_vanished(repo, names, count) ? 1 : -1;
}

static int verify_listed(const struct git_work *work, const struct repo *repo,
			 struct err *err)
{
	AUTO_NAMES name_list names = { 0 };
	int result = list_indexes(repo, &names, err);

	for (size_t i = 0; result == 0 && i < names.count; i += BATCH) {
		size_t left = names.count - i;
		result = verify_objects_check_batch(work, repo, names.items + i,
						    left < BATCH ? left : BATCH, err);
	}
	return result;
}

/* An index whose pack stays away for three listings lost it. */
static int verify_packs(const struct git_work *work, const struct repo *repo,
			struct err *err)
{
	int result = 1;

	for (int tries = 0; result > 0 && tries < TRIES; tries++)
		result = verify_listed(work, repo, err);
	return result == 0 ? 0 : -1;
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
	if (verify_loose(work, repo, err) != 0)
		return err_prefix(err, "loose objects");
	if (verify_reached(work, repo, refs, err) != 0)
		return err_prefix(err, "objects");
	return 0;
}
