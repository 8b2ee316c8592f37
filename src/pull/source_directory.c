/*
 * Reading refs takes several system calls, and pushes go on meanwhile. A picture counts
 * only if the stat fingerprint after it equals the one before.
 */
#include "base/file.h"
#include "git/repo.h"
#include "pull/source.h"

#define TRIES 10
#define DESCRIPTION_LIMIT ((size_t)1 << 20)

void source_open_directory(const char *root, const struct discovery *discovery,
			   struct source *source)
{
	*source = (struct source){ .root = root, .discovery = discovery };
}

char *source_url(const struct source *source, const char *name, struct err *err)
{
	const struct discovered *one = discovery_find(source->discovery, name);

	if (one)
		return xasprintf("%s/%s", source->root, one->path);
	err_set(err, ERR_MISSING, "the source has no repository %s", name);
	return NULL;
}

int source_look(const struct source *source, const char *name, struct fingerprint *print,
		struct err *err)
{
	const struct discovered *one = discovery_find(source->discovery, name);
	AUTO_FREE char *path = source_url(source, name, err);
	AUTO_CLOSE int fd = path ? dir_open(AT_FDCWD, path, err) : -1;

	if (fd < 0)
		return -1;
	if (one->is_damaged)
		return err_set(err, ERR_CORRUPT, "it is no whole bare repository");
	return fingerprint_take(fd, FINGERPRINT_REFS, print, err);
}

static int check_whole(const struct repo *repo, struct err *err)
{
	if (repo->is_shallow) {
		err_set(err, ERR_CONFIG,
			"the repository is shallow: its history is cut "
			"short, so it cannot be copied whole");
		return err_remedy(err, "complete it with git fetch --unshallow, or leave "
				       "it out");
	}
	if (repo->is_partial) {
		err_set(err, ERR_CONFIG,
			"the repository is a partial clone: it lacks "
			"objects on purpose, so it cannot be copied "
			"whole");
		return err_remedy(err, "complete it with git fetch --refetch --no-filter "
				       "and unset its promisor remote, or leave it out");
	}
	return 0;
}

/* What is no plain file of a sane size is no description. */
static int read_description(const struct repo *repo, struct source_view *view,
			    struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	free(view->description);
	view->description = NULL;
	if (file_read(repo->fd, "description", DESCRIPTION_LIMIT, &text, err) != 0)
		return err->class == ERR_DISK ? -1 : 0;
	view->description = str_take(&text);
	return 0;
}

/* 1: it changed while it was read. */
static int read_once(const struct repo *repo, struct source_view *view, struct err *err)
{
	struct fingerprint after;
	int result;

	ref_snapshot_clear(&view->refs);
	if (fingerprint_take(repo->fd, FINGERPRINT_REFS, &view->print, err) != 0)
		return -1;
	result = ref_snapshot_read(repo->fd, repo->oid_len, &view->refs, err);
	if (result == 0)
		result = read_description(repo, view, err);
	struct err ignored;
	if (fingerprint_take(repo->fd, FINGERPRINT_REFS, &after, &ignored) == 0 &&
	    !fingerprint_equal(&view->print, &after))
		return 1; /* an error may come of that, too */
	return result;
}

static int read_quietly(const struct repo *repo, struct source_view *view,
			struct err *err)
{
	int result = 1;

	for (int tries = 0; tries < TRIES && result > 0; tries++) {
		if (tries > 0)
			usleep(1000U << tries);
		result = read_once(repo, view, err);
	}
	if (result > 0) {
		err_set(err, ERR_CONFLICT, "it changes faster than it can be read");
		return err_remedy(err, "tried again by itself");
	}
	return result;
}

int source_read(const struct source *source, const char *name, struct source_view *view,
		struct err *err)
{
	AUTO_FREE char *path = source_url(source, name, err);
	AUTO_REPO struct repo repo = REPO_INIT;

	*view = (struct source_view){ 0 };
	if (!path || repo_open(AT_FDCWD, path, &repo, err) != 0 ||
	    check_whole(&repo, err) != 0 || repo_check_files(&repo, err) != 0 ||
	    read_quietly(&repo, view, err) != 0)
		return -1;
	view->oid_len = repo.oid_len;
	view->is_local = true;
	view->has_packs = !repo.has_alternates;
	view->url = TAKE(path);
	return 0;
}

void source_view_clear(struct source_view *view)
{
	ref_snapshot_clear(&view->refs);
	free(view->url);
	free(view->description);
	*view = (struct source_view){ 0 };
}
