/*
 * Where repositories stand: the root, names below it, and what holds at a secondary.
 */
#include <limits.h>

#include "base/file.h"
#include "base/str.h"
#include "change/notice_parts.h"
#include "change/origin_root.h"
#include "replicable/name.h"
#include "replicable/registry.h"

static int notice_root_open_directory(const char *root, struct err *err)
{
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	err_errno(err, "site.repositories (%s) cannot be read", root);
	err->class = ERR_DISK;
	return err_remedy(err, "is its file system mounted? Nothing is taken for deleted "
			       "meanwhile");
}

int notice_open_root(const struct notice *notice, struct err *err)
{
	const struct notice_options *options = &notice->options;

	if (options->check_copies &&
	    options->check_copies(options->store, options->root, err) != 0)
		return -1;
	return notice_root_open_directory(options->root, err);
}

static struct origin_root notice_root(const struct notice *notice, int root)
{
	const struct notice_options *options = &notice->options;

	return (struct origin_root){ options->store, KIND_REPOSITORY, options->root,
				     root };
}

int notice_check_root(struct notice *notice, int root, struct err *err)
{
	const struct origin_root known = notice_root(notice, root);

	return origin_root_check(&known, err);
}

int notice_check_mounts(struct notice *notice, int root, const char *path,
			struct err *err)
{
	const struct origin_root whole = notice_root(notice, root);
	json_auto_t *known = NULL;

	if (origin_root_mounts(&whole, &known, err) != 0)
		return -1;
	const char *away = mounts_find_away(known, root, path);
	return away ? mounts_say_away(away, err) : 0;
}

int notice_judge_root(struct store *store, const char *path, struct err *err)
{
	AUTO_CLOSE int fd = notice_root_open_directory(path, err);
	const struct origin_root root = { store, KIND_REPOSITORY, path, fd };
	int is_empty = fd < 0 ? -1 : discover_is_empty(path, err);

	return is_empty > 0 ? origin_root_check_known(&root, err) : is_empty;
}

/*
 * At a secondary the tree is what pull makes of it. Deletions are decided by its primary
 * and carried out under the brake; what is missing otherwise (a rebuilt copy between two
 * renames, an older disk) is brought again. And a copy of which something is still to be
 * brought may be older than what was seen before: it is compared when it has come.
 */
struct notice_asking {
	const char *name;
	int found; /* 0: there is no row */
	enum registry_state state;
};

static int notice_copies_ask_work(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	struct notice_asking *asking = arg;

	asking->found = registry_get_in(tx, KIND_REPOSITORY, asking->name, &row, err);
	asking->state = row.state;
	return asking->found < 0 ? -1 : 0;
}

static int notice_copies_ask(struct notice *notice, struct notice_asking *asking,
			     struct err *err)
{
	return store_read(notice->options.store, notice_copies_ask_work, asking, err);
}

int notice_may_look(struct notice *notice, const char *name, bool *may, struct err *err)
{
	struct notice_asking asking = { .name = name };

	*may = true;
	if (!notice->options.check_copies)
		return 0;
	if (notice_copies_ask(notice, &asking, err) != 0)
		return -1;
	*may = !asking.found || asking.state == REGISTRY_SYNCED;
	return 0;
}

int notice_check_dropped(struct notice *notice, const char *name, struct err *err)
{
	struct notice_asking asking = { .name = name };

	if (!notice->options.check_copies)
		return 0;
	if (notice_copies_ask(notice, &asking, err) != 0)
		return -1;
	if (!asking.found)
		return 0;
	err_set(err, ERR_CONFLICT, "the copy of %s is not there, but it is wanted", name);
	return err_remedy(err,
			  "brought again by itself; else: refrelay repository "
			  "resync %s",
			  name);
}

/* What follows root and a slash in path, or NULL. */
static const char *notice_strip_root(const char *root, const char *path)
{
	size_t len = strlen(root);

	while (len > 0 && root[len - 1] == '/')
		len--;
	if (strncmp(path, root, len) != 0 || path[len] != '/')
		return NULL;
	return path + len + strspn(path + len, "/");
}

/* With links followed, as git names a repository to its hooks; one that is gone is found
 * by its text alone. */
static char *notice_path_below(const char *root, const char *path)
{
	AUTO_FREE char *real_root = realpath(root, NULL);
	AUTO_FREE char *real_path = realpath(path, NULL);
	const char *found = NULL;

	if (real_root && real_path)
		found = notice_strip_root(real_root, real_path);
	if (!found && !real_path)
		found = notice_strip_root(root, path);
	if (!found && !real_path && real_root)
		found = notice_strip_root(real_root, path);
	return found ? xstrdup(found) : NULL;
}

char *notice_name_below(const char *root, const char *path_or_name, struct err *err)
{
	AUTO_FREE char *path = path_or_name[0] == '/'
				       ? notice_path_below(root, path_or_name)
				       : xstrdup(path_or_name);

	if (!path) {
		err_set(err, ERR_CONFIG, "%s is not below site.repositories (%s)",
			path_or_name, root);
		err_remedy(err, "name a repository that is");
		return NULL;
	}
	for (size_t len = strlen(path); len > 0 && path[len - 1] == '/'; len--)
		path[len - 1] = '\0';
	AUTO_FREE char *name = name_of_path(path);
	return name_check(name, err) == 0 ? TAKE(name) : NULL;
}

char *notice_name_of(struct notice *notice, const char *path_or_name, struct err *err)
{
	return notice_name_below(notice->options.root, path_or_name, err);
}
