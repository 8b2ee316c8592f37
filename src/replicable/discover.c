#include "replicable/discover.h"

#include <stdalign.h>

#include "base/file.h"
#include "git/repo.h"
#include "replicable/name.h"

#define DEPTH_LIMIT 64

struct walk {
	struct discovery *discovery;
	struct str path; /* of the present directory, with a slash; "" at the root */
	int depth;
	dev_t device; /* of the present directory */
};

static int discover_walk_directory(struct walk *walk, int fd, struct err *err);

enum weight { HARMLESS, ONE_LEFT_OUT, HIDES_NAMES };

static void discover_add_finding(struct walk *walk, const struct err *err,
				 enum weight weight)
{
	struct discover_finding finding = {
		.path = xstrdup(walk->path.len ? walk->path.data : "."),
		.err = *err,
		.hides_names = weight == HIDES_NAMES,
		.is_harmless = weight == HARMLESS,
	};

	vec_add(&walk->discovery->findings, finding);
}

/* The path is a repository's. */
static void add_repository(struct walk *walk, enum repo_look look)
{
	struct discovered one = { .name = name_of_path(walk->path.data),
				  .path = xstrdup(walk->path.data),
				  .is_damaged = look == REPO_DAMAGED };
	struct err err;

	if (name_judge(one.name, &err) == 0) {
		vec_add(&walk->discovery->found, one);
		return;
	}
	discover_add_finding(walk, &err, ONE_LEFT_OUT);
	free(one.name);
	free(one.path);
}

static dev_t note_device(struct walk *walk, int fd)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return walk->device;
	if (st.st_dev != walk->device)
		vec_add(&walk->discovery->mounts, xstrdup(walk->path.data));
	return st.st_dev;
}

static int look_below(struct walk *walk, int fd, struct err *err)
{
	dev_t above = walk->device;
	int result;

	if (walk->depth >= DEPTH_LIMIT) {
		close(fd);
		return err_set(err, ERR_CONFIG, "directories nest more than %d deep",
			       DEPTH_LIMIT);
	}
	walk->device = note_device(walk, fd);
	str_add_char(&walk->path, '/');
	walk->depth++;
	result = discover_walk_directory(walk, fd, err);
	walk->depth--;
	walk->device = above;
	return result;
}

/* Takes fd. */
static void discover_visit_directory(struct walk *walk, int fd)
{
	struct err err;
	size_t len = walk->path.len;

	enum repo_look look = repo_look_into(fd, &err);
	if (look != REPO_NOTHING) {
		if (look == REPO_UNKNOWN)
			discover_add_finding(walk, &err, HIDES_NAMES);
		else
			add_repository(walk, look);
		close(fd);
		return;
	}
	if (look_below(walk, fd, &err) != 0) {
		str_truncate(&walk->path, len);
		discover_add_finding(walk, &err, HIDES_NAMES);
	}
}

static void note_work_tree(struct walk *walk)
{
	struct err err;

	err_set(&err, ERR_CONFIG, "a work tree's repository, not a bare one; skipped");
	err_remedy(&err, "keep a bare clone of it in the tree");
	discover_add_finding(walk, &err, HARMLESS);
}

static void note_link(struct walk *walk)
{
	struct err err;

	err_set(&err, ERR_CONFIG, "a symbolic link to a directory; not followed");
	err_remedy(&err, "move the repository itself into the tree");
	discover_add_finding(walk, &err, HARMLESS);
}

static void discover_visit_entry(struct walk *walk, int dir, const char *name)
{
	struct stat st;
	struct err err;
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && strcmp(name, ".git") == 0) {
		close(fd);
		note_work_tree(walk);
	} else if (fd >= 0) {
		discover_visit_directory(walk, fd);
	} else if (errno == ELOOP || errno == ENOTDIR) {
		if (fstatat(dir, name, &st, 0) == 0 && S_ISDIR(st.st_mode) &&
		    !name_is_checkout(dir, name))
			note_link(walk);
	} else if (errno != ENOENT) {
		err_errno(&err, "cannot open directory");
		discover_add_finding(walk, &err, HIDES_NAMES);
	}
}

/* In the root: nothing that a person put there. Only root may look into lost+found. */
static bool is_furniture(const char *name)
{
	return strcmp(name, OWN_FOLDER) == 0 || strcmp(name, "lost+found") == 0;
}

/* What another site's push makes or deletes here has this name only meanwhile. */
static bool discover_is_passing(const char *name)
{
	return text_starts_with(name, PASSING_PREFIX);
}

/* Takes fd. */
static int discover_walk_directory(struct walk *walk, int fd, struct err *err)
{
	struct dirent *entry;
	size_t len = walk->path.len;
	AUTO_CLOSEDIR DIR *dir = fdopendir(fd);

	if (!dir) {
		close(fd);
		return err_errno(err, "cannot list directory");
	}
	while (errno = 0, (entry = readdir(dir)) != NULL) {
		const char *name = entry->d_name;
		if (name_is_dots(name) || discover_is_passing(name) ||
		    (len == 0 && is_furniture(name)))
			continue;
		if (entry->d_type == DT_REG)
			continue;
		str_add(&walk->path, name);
		discover_visit_entry(walk, dirfd(dir), name);
		str_truncate(&walk->path, len);
	}
	return errno == 0 ? 0 : err_errno(err, "cannot list directory");
}

/* By name; of NAME and NAME.git the latter, which is the usual form, comes first. */
static int discover_compare_names(const void *a, const void *b)
{
	const struct discovered *left = a, *right = b;
	int order = strcmp(left->name, right->name);

	return order ? order : -strcmp(left->path, right->path);
}

static void discover_drop_doubles(struct discovery *discovery)
{
	size_t kept = 0;

	vec_sort(&discovery->found, discover_compare_names);
	for (size_t i = 0; i < discovery->found.count; i++) {
		struct discovered one = discovery->found.items[i];
		if (kept == 0 ||
		    strcmp(discovery->found.items[kept - 1].name, one.name) != 0) {
			discovery->found.items[kept++] = one;
			continue;
		}
		struct discover_finding finding = { .path = one.path };
		err_set(&finding.err, ERR_CONFIG,
			"%s.git stands beside it and has the "
			"same name; skipped",
			one.name);
		err_remedy(&finding.err, "rename one of the two");
		vec_add(&discovery->findings, finding);
		free(one.name);
	}
	discovery->found.count = kept;
}

/* SOURCE may hold `a` and, in a directory `a.git`, `b`: the copy of the latter would lie
 * inside the copy of the former. */
static bool discover_is_inside_copy(const struct discovery *discovery, const char *name)
{
	for (const char *slash = strchr(name, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		AUTO_FREE char *above = xstrndup(name, (size_t)(slash - name));
		size_t len = strlen(above);
		if (!text_ends_with(above, ".git"))
			continue;
		above[len - 4] = '\0';
		if (discovery_find(discovery, above))
			return true;
	}
	return false;
}

static void leave_out_nested(struct discovery *discovery, struct discovered *one)
{
	struct discover_finding finding = { .path = TAKE(one->path) };

	err_set(&finding.err, ERR_CONFIG,
		"its copy would lie inside the copy of another repository; skipped");
	err_remedy(&finding.err, "rename one of the two");
	vec_add(&discovery->findings, finding);
	free(TAKE(one->name));
}

static void drop_nested(struct discovery *discovery)
{
	size_t kept = 0, count = discovery->found.count;
	AUTO_FREE bool *is_nested = xcalloc(count, sizeof(*is_nested));

	for (size_t i = 0; i < count; i++)
		is_nested[i] = discover_is_inside_copy(discovery,
						       discovery->found.items[i].name);
	for (size_t i = 0; i < count; i++) {
		if (is_nested[i])
			leave_out_nested(discovery, &discovery->found.items[i]);
		else
			discovery->found.items[kept++] = discovery->found.items[i];
	}
	discovery->found.count = kept;
}

int discover(const char *root, struct discovery *discovery, struct err *err)
{
	struct walk walk = { .discovery = discovery, .path = STR_INIT };
	int fd = dir_open(AT_FDCWD, root, err);
	struct stat st;
	int result;

	*discovery = (struct discovery){ 0 };
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0)
		walk.device = st.st_dev;
	result = discover_walk_directory(&walk, fd, err);
	str_clear(&walk.path);
	discover_drop_doubles(discovery);
	drop_nested(discovery);
	return result == 0 ? 0 : err_prefix(err, "%s", root);
}

/* A few entries at a time: readdir() has the kernel sort and copy a thousand. */
int discover_is_empty(const char *root, struct err *err)
{
	AUTO_CLOSE int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	alignas(struct dirent64) char entries[4096];
	ssize_t len;

	if (fd < 0)
		return errno == ENOENT ? 1 : err_errno(err, "cannot list %s", root);
	while ((len = getdents64(fd, entries, sizeof(entries))) > 0) {
		for (ssize_t at = 0; at < len;) {
			const struct dirent64 *entry = (const void *)&entries[at];
			if (!name_is_dots(entry->d_name) && !is_furniture(entry->d_name))
				return 0;
			at += entry->d_reclen;
		}
	}
	return len == 0 ? 1 : err_errno(err, "cannot list %s", root);
}

void discovery_clear(struct discovery *discovery)
{
	for (size_t i = 0; i < discovery->found.count; i++) {
		free(discovery->found.items[i].name);
		free(discovery->found.items[i].path);
	}
	for (size_t i = 0; i < discovery->findings.count; i++)
		free(discovery->findings.items[i].path);
	text_list_clear(&discovery->mounts);
	vec_clear(&discovery->found);
	vec_clear(&discovery->findings);
}

bool discovery_is_complete(const struct discovery *discovery)
{
	for (size_t i = 0; i < discovery->findings.count; i++)
		if (discovery->findings.items[i].hides_names)
			return false;
	return true;
}

const struct discovered *discovery_find(const struct discovery *discovery,
					const char *name)
{
	for (size_t low = 0, high = discovery->found.count; low < high;) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(name, discovery->found.items[middle].name);
		if (order == 0)
			return &discovery->found.items[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}
