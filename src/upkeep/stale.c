#include "upkeep/stale.h"

#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/temporary.h"
#include "git/lock_file.h"
#include "git/reflog.h"

#define LOCK_S (15 * 60)
#define REF_LOCK_S 3600
#define LONG_S (7 * 24 * 3600)
#define KEEP_MOST 4096

struct stale_look {
	const struct repo *repo;
	int64_t now;
	bool removes;
	size_t found;
};

bool stale_is_any_of_git(int folder, const char *name)
{
	(void)folder;
	return text_starts_with(name, "tmp_") || text_starts_with(name, ".tmp-");
}

static bool stale_is_quarantine(int folder, const char *name)
{
	(void)folder;
	return text_starts_with(name, "tmp_objdir");
}

static bool stale_is_git_temporary(int folder, const char *name)
{
	return stale_is_any_of_git(folder, name) && !stale_is_quarantine(folder, name);
}

bool stale_is_own_temporary(int folder, const char *name)
{
	(void)folder;
	return temporary_is_name(name);
}

/* Those that a person made say something else, or nothing. */
static bool stale_is_keep_of_transfer(int folder, const char *name)
{
	AUTO_STR struct str text = STR_INIT;

	return text_starts_with(name, "pack-") && text_ends_with(name, ".keep") &&
	       file_read(folder, name, KEEP_MOST, &text, ERR_IGNORED) == 0 &&
	       (text_starts_with(text.data, "fetch-pack ") ||
		text_starts_with(text.data, "receive-pack "));
}

static bool stale_is_half_pack(int folder, const char *name)
{
	static const char *const ends[] = { ".pack", ".rev", ".bitmap", ".mtimes" };

	for (size_t i = 0; text_starts_with(name, "pack-") && i < ARRAY_SIZE(ends); i++) {
		if (!text_ends_with(name, ends[i]))
			continue;
		AUTO_FREE char *index = xasprintf(
			"%.*s.idx", (int)(strlen(name) - strlen(ends[i])), name);
		return faccessat(folder, index, F_OK, AT_SYMLINK_NOFOLLOW) != 0 &&
		       errno == ENOENT;
	}
	return false;
}

static const struct stale_rule stale_rules[] = {
	{ "objects/pack", STALE_TEMPORARY_S, stale_is_git_temporary },
	{ "objects/pack", STALE_TEMPORARY_S, stale_is_half_pack },
	{ "objects/pack", LONG_S, stale_is_keep_of_transfer },
	{ "objects", STALE_TEMPORARY_S, stale_is_git_temporary },
	{ "objects", LONG_S, stale_is_quarantine },
	{ "objects/info", STALE_TEMPORARY_S, stale_is_git_temporary },
	{ "objects/info/commit-graphs", STALE_TEMPORARY_S, stale_is_git_temporary },
	{ ".", STALE_TEMPORARY_S, stale_is_own_temporary },
	{ "refrelay", STALE_TEMPORARY_S, stale_is_own_temporary },
	{ "refrelay/state", STALE_TEMPORARY_S, stale_is_own_temporary },
};

/* What is copied to its place may bring its times along, but not its ctime. Of a
 * temporary file the last byte counts: a chmod of all files makes none young again. */
static bool stale_is_old(const struct stale_look *look, const struct stale_rule *rule,
			 int folder, const char *name)
{
	struct stat st;

	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return false;
	if (rule->is == stale_is_half_pack && look->now - st.st_ctime <= rule->age_s)
		return false;
	return look->now - st.st_mtime > rule->age_s;
}

static int stale_walk(struct stale_look *look, const struct stale_rule *rule,
		      struct err *err)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *folder = dir_list(look->repo->fd, rule->folder);

	if (!folder)
		return errno == ENOENT ? 0
				       : err_errno(err, "cannot list %s", rule->folder);
	while (errno = 0, (entry = readdir(folder)) != NULL) {
		if (!rule->is(dirfd(folder), entry->d_name) ||
		    !stale_is_old(look, rule, dirfd(folder), entry->d_name))
			continue;
		if (look->removes && tree_remove(dirfd(folder), entry->d_name, err) != 0)
			return -1;
		look->found++;
	}
	return errno == 0 ? 0 : err_errno(err, "cannot list %s", rule->folder);
}

/* A living owner's stays however old it is, and so does what cannot be told. */
static bool stale_has_owner(int dir, const char *path)
{
	AUTO_CLOSE int owner = -1;

	switch (lock_owner_probe(dir, path, &owner)) {
	case LOCK_OWNER_ALIVE:
	case LOCK_OWNER_UNKNOWN:
		return true;
	default:
		return false;
	}
}

static int stale_take_lock(struct stale_look *look, const char *path, struct err *err)
{
	const int dir = look->repo->fd;
	struct stat st;

	if (fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode) ||
	    look->now - st.st_mtime <= LOCK_S || stale_has_owner(dir, path))
		return 0;
	if (look->removes && unlinkat(dir, path, 0) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove %s", path);
	look->found++;
	return 0;
}

static int stale_take_locks(struct stale_look *look, struct err *err)
{
	static const char *const paths[] = {
		"config.lock",
		"shallow.lock",
		"objects/info/commit-graph.lock",
		"objects/info/commit-graphs/commit-graph-chain.lock",
		"objects/pack/multi-pack-index.lock",
		"objects/maintenance.lock",
	};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		if (stale_take_lock(look, paths[i], err) != 0)
			return -1;
	if (faccessat(look->repo->fd, "packed-refs.lock", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	return stale_take_lock(look, "packed-refs.new", err);
}

/* Of branches that were rewritten upstream long ago. */
static int stale_take_reflogs(struct stale_look *look, struct err *err)
{
	return reflog_tidy(look->repo->fd, NULL, look->now,
			   look->removes ? REFLOG_REMOVE : REFLOG_COUNT, &look->found,
			   err);
}

static int stale_take_loose(struct stale_look *look, const struct stale_rule *rule,
			    struct err *err)
{
	char folder[16];
	const struct stale_rule one = { folder, rule->age_s, rule->is };

	for (unsigned i = 0; i < 256; i++) {
		snprintf(folder, sizeof(folder), "objects/%02x", i);
		if (stale_walk(look, &one, err) != 0)
			return -1;
	}
	return 0;
}

static int stale_take_rules(struct stale_look *look, const struct stale_rule *rules,
			    size_t count, struct err *err)
{
	for (size_t i = 0; i < count; i++)
		if ((rules[i].folder ? stale_walk(look, &rules[i], err)
				     : stale_take_loose(look, &rules[i], err)) != 0)
			return -1;
	return 0;
}

static int stale_take_all(struct stale_look *look, struct err *err)
{
	if (stale_take_rules(look, stale_rules, ARRAY_SIZE(stale_rules), err) != 0)
		return -1;
	return stale_take_locks(look, err) == 0 ? stale_take_reflogs(look, err) : -1;
}

size_t stale_count(const struct repo *repo, int64_t now)
{
	struct stale_look look = { .repo = repo, .now = now };

	stale_take_all(&look, ERR_IGNORED);
	return look.found;
}

int stale_remove(const struct repo *repo, int64_t now, size_t *removed, struct err *err)
{
	static const struct stale_rule loose = { NULL, STALE_TEMPORARY_S,
						 stale_is_git_temporary };
	struct stale_look look = { .repo = repo, .now = now, .removes = true };
	int result;

	look.found += lock_file_bury_dead(repo->fd);
	look.found += lock_file_bury_strangers(repo->fd, REF_LOCK_S);
	result = stale_take_all(&look, err);
	if (result == 0)
		result = stale_take_loose(&look, &loose, err);
	*removed += look.found;
	return result;
}

int stale_sweep(const struct repo *repo, const struct stale_rule *rules, size_t count,
		size_t *removed, struct err *err)
{
	struct stale_look look = { .repo = repo,
				   .now = clock_wall_ms() / 1000,
				   .removes = true };
	int result = stale_take_rules(&look, rules, count, err);

	*removed += look.found;
	return result;
}
