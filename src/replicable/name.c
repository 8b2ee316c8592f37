#include "replicable/name.h"

#include <fcntl.h>
#include <limits.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/str.h"
#include "git/fence.h"
#include "git/repo.h"
#include "git/ssh_command.h"
#include "replicable/kind_names.h"
#include "replicable/locate.h"
#include "replicable/take_away.h"

/*
 * From one kind to the next by the index over all names: a table has few kinds, and very
 * many rows of each.
 */

void kind_names_clear(kind_names *kinds)
{
	vec_clear_owned(kinds);
}

int kind_names_read(struct store_tx *tx, const char *next_sql, kind_names *kinds,
		    struct err *err)
{
	const size_t before = kinds->count;
	int found;

	do {
		const char *after =
			kinds->count > before ? kinds->items[kinds->count - 1] : "";
		found = query_one(tx, query_add_text, kinds, err, next_sql,
				  QUERY_TEXT(after));
	} while (found > 0);
	return found;
}

/*
 * The same rules as in discover.c, or a scan would find what a hook's hint cannot, and
 * the other way round: no symbolic links, nothing inside a repository, nothing whose
 * copy would lie inside another's copy, NAME.git before NAME.
 */

/* 1: *fd is open; 0: no directory of that name. */
static int locate_open_part(int parent, const char *part, int *fd, struct err *err)
{
	*fd = openat(parent, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*fd >= 0)
		return 1;
	if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
		return 0;
	return err_errno(err, "cannot open directory %s", part);
}

static int locate_is_repository(int parent, const char *part, struct err *err)
{
	AUTO_CLOSE int fd = -1;
	int found = locate_open_part(parent, part, &fd, err);

	return found > 0 ? repo_stands_at(fd, err) : found;
}

/* A copy of `a` would be a.git, and hold what lies in the folder a.git here. */
static int locate_is_inside_copy(int parent, const char *part, struct err *err)
{
	char other[NAME_MAX + 1];
	size_t len = strlen(part);

	if (len <= 4 || !text_ends_with(part, ".git"))
		return 0;
	memcpy(other, part, len - 4);
	other[len - 4] = '\0';
	return locate_is_repository(parent, other, err);
}

/* Goes down into a folder: *fd is replaced. 0: no repository can stand there. */
static int locate_enter_folder(int *fd, const char *part, struct err *err)
{
	int below = -1;
	int hidden = locate_is_inside_copy(*fd, part, err);
	int found = hidden == 0 ? locate_open_part(*fd, part, &below, err) : -hidden;

	if (hidden > 0)
		return 0;
	if (found <= 0)
		return found;
	close(*fd);
	*fd = below;
	found = repo_stands_at(below, err);
	return found < 0 ? -1 : !found;
}

static int look_for(int parent, const char *last, const char *name, char **path,
		    struct err *err)
{
	char usual[NAME_MAX + 1];
	int found;

	snprintf(usual, sizeof(usual), "%s.git", last);
	found = locate_is_repository(parent, usual, err);
	if (found > 0)
		*path = xasprintf("%s.git", name);
	if (found != 0)
		return found;
	found = locate_is_repository(parent, last, err);
	if (found > 0)
		*path = xstrdup(name);
	return found;
}

int locate_repository(int root, const char *name, char **path, struct err *err)
{
	AUTO_CLOSE int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const char *part = name, *slash;
	char text[NAME_MAX + 1];

	*path = NULL;
	if (fd < 0)
		return err_errno(err, "cannot open the directory of repositories");
	for (; (slash = strchr(part, '/')) != NULL; part = slash + 1) {
		snprintf(text, sizeof(text), "%.*s", (int)(slash - part), part);
		int found = locate_enter_folder(&fd, text, err);
		if (found <= 0)
			return found;
	}
	return look_for(fd, part, name, path, err);
}

/* The job of such a lease names the repository. 1: it was raised, or is already. */
static int take_away_raise_fence(const struct lease_manager *leases,
				 const struct take_away *what,
				 const struct lease_holder *holder, struct err *err)
{
	char key[LEASE_KEY_SIZE], id[LEASE_JOB_SIZE];
	const char *name = lease_job_split(holder->job, id);
	AUTO_FREE char *below = name_to_path(name);
	AUTO_FREE char *path = xasprintf("%s/%s", what->repositories, below);
	AUTO_CLOSE int copy = -1;

	lease_key_for(leases, KIND_REPOSITORY, replicable_id(KIND_REPOSITORY, name), name,
		      key);
	if (strcmp(key, what->key) != 0)
		return 0;
	copy = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (copy < 0 || fence_raise(copy, what->fence + LEASE_FENCES, err) == 0)
		return 1;
	return err->class == ERR_LOST ? 1 : -1; /* the next holder was quicker */
}

int lease_take_away(struct lease_manager *leases, const struct take_away *what,
		    struct err *err)
{
	struct lease_holder holder;

	if (lease_inspect(leases, what->key, &holder, err) != 0 ||
	    lease_force_release(leases, what->key, what->fence, what->actor, what->reason,
				err) != 0)
		return -1;
	int raised = take_away_raise_fence(leases, what, &holder, err);
	if (raised < 0)
		return err_prefix(err, "the lease is released, but its holder may "
				       "publish once more");
	return raised;
}

static int name_refuse(const char *why, struct err *err)
{
	err_set(err, ERR_CONFIG, "not a repository's name: %s", why);
	return err_remedy(err, "rename it");
}

static bool has_git_part(const char *name)
{
	for (const char *part = name; part; part = strchr(part, '/')) {
		part += *part == '/';
		if (strcspn(part, "/") == 4 && memcmp(part, ".git", 4) == 0)
			return true;
	}
	return false;
}

static bool name_is_own(const char *name)
{
	size_t len = strlen(OWN_FOLDER);

	return strncmp(name, OWN_FOLDER, len) == 0 &&
	       (name[len] == '\0' || name[len] == '/');
}

int name_judge(const char *name, struct err *err)
{
	const char *fault = path_fault(name);

	if (fault)
		return name_refuse(fault, err);
	if (name_is_own(name)) {
		name_refuse(OWN_FOLDER " is refrelay's own folder", err);
		return err_remedy(err, "what it holds is not served: to have a copy from "
				       "the trash, move it to a place outside first");
	}
	return has_git_part(name) ? name_refuse("a part of it is \".git\"", err) : 0;
}

int name_check(const char *name, struct err *err)
{
	return name_judge(name, err) == 0 ? 0 : err_prefix(err, "%s", name);
}

char *name_of_path(const char *path)
{
	size_t len = strlen(path);

	if (len > 4 && text_ends_with(path, ".git") && path[len - 5] != '/')
		len -= 4;
	return xstrndup(path, len);
}

char *name_of_objects(const char *root, const char *objects)
{
	const size_t len = strlen(root);
	AUTO_FREE char *below = NULL;

	if (!path_is_below(objects, root) || objects[len] != '/' ||
	    strlen(objects) <= len + 1 + strlen("/objects") ||
	    !text_ends_with(objects, "/objects"))
		return NULL;
	below = xstrndup(objects + len + 1,
			 strlen(objects) - len - 1 - strlen("/objects"));
	AUTO_FREE char *name = name_of_path(below);
	return name_judge(name, ERR_IGNORED) == 0 ? TAKE(name) : NULL;
}

char *name_to_path(const char *name)
{
	return xasprintf("%s.git", name);
}

char *name_to_copy(const char *root, const char *name)
{
	return xasprintf("%s/%s.git", root, name);
}

char *name_to_operand(const char *name)
{
	AUTO_STR struct str text = STR_INIT;

	if (name[0] == '-')
		str_add(&text, "-- ");
	ssh_command_quote(name, &text);
	return str_take(&text);
}

int name_remedy(struct err *err, const char *command, const char *name)
{
	AUTO_FREE char *operand = name_to_operand(name);
	bool fits = strlen(command) + 1 + strlen(operand) < sizeof(err->remedy);

	return err_remedy(err, "%s %s", command, fits ? operand : "NAME");
}

uint64_t replicable_id(const char *kind, const char *name)
{
	unsigned char digest[32];
	uint64_t id = 0;
	AUTO_HASH struct hash hash;

	hash_init(&hash, HASH_SHA256);
	hash_add(&hash, kind, strlen(kind));
	hash_add(&hash, ":", 1);
	hash_add(&hash, name, strlen(name));
	hash_end(&hash, digest);
	for (size_t i = 0; i < 8; i++)
		id = id << 8 | digest[i];
	id >>= 2;
	return id ? id : 1;
}

int64_t replicable_counted_size(uint64_t size)
{
	const int64_t most = INT64_C(1) << 50;

	return size < (uint64_t)most ? (int64_t)size : most;
}

bool name_is_checkout(int dir, const char *entry)
{
	char target[PATH_MAX];
	ssize_t len = readlinkat(dir, entry, target, sizeof(target) - 1);

	if (len < 0)
		return false;
	target[len] = '\0';
	return strstr(target, "/" CHECKOUT_FOLDER "/") != NULL ||
	       text_starts_with(target, CHECKOUT_FOLDER "/");
}

void name_search_pattern(const char *text, struct str *pattern)
{
	str_add_char(pattern, '%');
	for (; *text; text++) {
		if (strchr("%_\\", *text))
			str_add_char(pattern, '\\');
		str_add_char(pattern, *text);
	}
	str_add_char(pattern, '%');
}
