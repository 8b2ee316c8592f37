#include "upkeep/tidy.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "git/lock_file.h"

/* A git that is at work touches its temporary file all the time. */
#define FOREIGN_AGE_S 86400

struct sweep {
	const struct repo *repo;
	enum tidy_after after;
	size_t removed;
};

/* What to do with a name; NULL-terminated folders are walked one level. */
typedef bool (*is_left_over)(const char *name);

static bool tidy_is_old(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       clock_wall_ms() / 1000 - (int64_t)st.st_mtime > FOREIGN_AGE_S;
}

/* Git's: objects being received or written. */
static bool is_git_temporary(const char *name)
{
	return text_starts_with(name, "tmp_") || text_starts_with(name, ".tmp-");
}

/* Ours: "<file>.tmp-<16 digits>" of file_replace. */
static bool is_own_temporary(const char *name)
{
	const char *mark = strstr(name, ".tmp-");

	return mark && strlen(mark) == 5 + 16 &&
	       strspn(mark + 5, "0123456789abcdef") == 16;
}

static int sweep_folder(struct sweep *sweep, const char *folder, is_left_over is,
			struct err *err)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *dir = dir_list(sweep->repo->fd, folder);

	if (!dir)
		return errno == ENOENT ? 0 : err_errno(err, "cannot list %s", folder);
	while (errno = 0, (entry = readdir(dir)) != NULL) {
		if (!is(entry->d_name))
			continue;
		if (sweep->after == TIDY_AFTER_SUCCESS &&
		    !tidy_is_old(dirfd(dir), entry->d_name))
			continue;
		if (tree_remove(dirfd(dir), entry->d_name, err) != 0)
			return -1;
		sweep->removed++;
	}
	return errno == 0 ? 0 : err_errno(err, "cannot list %s", folder);
}

static bool is_owner_name(const char *name)
{
	return strlen(name) == 32 && strspn(name, "0123456789abcdef") == 32;
}

/* Owner files of locks whose owner died between making and removing them; what is not
 * marked there was not marked in time. */
static void bury_owners(struct sweep *sweep)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *dir = dir_list(sweep->repo->fd, "refrelay");

	while (dir && (entry = readdir(dir)) != NULL) {
		AUTO_CLOSE int owner = -1;
		if (!is_owner_name(entry->d_name))
			continue;
		enum lock_owner_state state =
			lock_owner_probe(dirfd(dir), entry->d_name, &owner);
		if ((state == LOCK_OWNER_DEAD || state == LOCK_OWNER_FOREIGN) &&
		    unlinkat(dirfd(dir), entry->d_name, 0) == 0)
			sweep->removed++;
	}
}

/* Loose objects' folders have two digits. */
static int sweep_loose(struct sweep *sweep, struct err *err)
{
	char folder[16];

	for (unsigned i = 0; i < 256; i++) {
		snprintf(folder, sizeof(folder), "objects/%02x", i);
		if (sweep_folder(sweep, folder, is_git_temporary, err) != 0)
			return -1;
	}
	return 0;
}

int tidy_left_overs(const struct repo *repo, enum tidy_after after, struct err *err)
{
	struct sweep sweep = { .repo = repo, .after = after };
	static const char *const own[] = { ".", "refrelay", "refrelay/state" };

	if (sweep_folder(&sweep, "objects/pack", is_git_temporary, err) != 0)
		return -1;
	if (after == TIDY_AFTER_CRASH) {
		if (sweep_folder(&sweep, "objects", is_git_temporary, err) != 0 ||
		    sweep_loose(&sweep, err) != 0)
			return -1;
		for (size_t i = 0; i < ARRAY_SIZE(own); i++)
			if (sweep_folder(&sweep, own[i], is_own_temporary, err) != 0)
				return -1;
		bury_owners(&sweep);
		sweep.removed += lock_file_bury_dead(repo->fd);
	}
	if (sweep.removed > 0)
		log_info("tidy.left_overs", LOG_NUMBER("removed", sweep.removed));
	return 0;
}

static size_t count_packs(const struct repo *repo)
{
	size_t count = 0;
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *dir = dir_list(repo->fd, "objects/pack");

	while (dir && (entry = readdir(dir)) != NULL)
		count += text_ends_with(entry->d_name, ".pack");
	return count;
}

int tidy_packs(const struct git_work *work, const struct repo *repo, struct err *err)
{
	static const char *const geometric[] = { "repack", "--quiet", "-d",
						 "--geometric=2", NULL };
	/* git before 2.41 mishandles the former where alternates are. */
	static const char *const all[] = { "repack", "--quiet", "-a", "-d",
					   "-k",     "-l",      NULL };
	size_t before = count_packs(repo);

	if (before <= TIDY_PACK_LIMIT)
		return 0;
	if (git_run(&(struct git_call){ .work = work,
					.repository = repo->path,
					.args = repo->has_alternates ? all : geometric },
		    err) != 0)
		return err_prefix(err, "folding packs");
	log_info("tidy.packs", LOG_NUMBER("before", before),
		 LOG_NUMBER("after", count_packs(repo)));
	return 0;
}
