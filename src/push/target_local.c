/*
 * A new repository is made beside its place and gets its name when it is whole and on
 * disk. The temporary name follows from the URI, whose lease the caller holds: what a
 * crash left there is nobody's.
 */
#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/thread.h"
#include "git/repo.h"
#include "push/target_kinds.h"
#include "replicable/name.h"
#include "upkeep/trash.h"

/*
 * What the template's fixed part names is the administrator's: links there are followed.
 * Below it none is, so that nothing outside can be deleted, and the trash is on the same
 * file system unless another is mounted below.
 *
 * Where a file system is not mounted, the fixed part is an empty directory or missing. A
 * repository made there would count as pushed, and be hidden by the mount. So the fixed
 * parts below which something was pushed are noted, and only others are taken for new.
 */

#define NAME "${name}"
#define PUSHED_BELOW "pushed-below" /* in site.data: a fixed part a line */

enum { PUSHED_BELOW_MAX = 16 << 20 };

struct place {
	char *base;       /* owned; the template's fixed part */
	const char *path; /* owned by `whole`; below the base, without slash at the end */
	const char *name; /* its last part */
	char *whole;      /* owned */
	int root;         /* base, open */
	int parent;       /* of the repository, open */
};

#define AUTO_PLACE __attribute__((cleanup(place_clear)))

static void place_clear(struct place *place)
{
	if (place->root >= 0)
		close(place->root);
	if (place->parent >= 0)
		close(place->parent);
	free(place->base);
	free(place->whole);
}

/* The path in a URL's template is encoded, so its parts are counted, not compared. */
static size_t count_fixed_parts(const char *template)
{
	const char *name = strstr(template, NAME);
	size_t count = 0;

	if (text_starts_with(template, "file://"))
		template = strchrnul(template + strlen("file://"), '/');
	for (const char *at = template; *at && (!name || at < name); at++)
		if (*at == '/' && at[1] && at[1] != '/')
			count++;
	return count - (count > 0); /* less the last one, which varies */
}

/* Where the part number `count` ends in the path. */
static size_t end_of_part(const char *path, size_t count)
{
	size_t at = 0;

	for (; count > 0; count--) {
		at += strspn(path + at, "/");
		at += strcspn(path + at, "/");
	}
	return at;
}

static void local_delete_split_path(const struct destination *destination,
				    struct place *place)
{
	size_t parts = count_fixed_parts(destination->url->template);
	size_t len = strlen(destination->path), end;

	place->whole = xstrdup(destination->path);
	while (len > 0 && place->whole[len - 1] == '/')
		place->whole[--len] = '\0';
	end = end_of_part(place->whole, parts);
	place->base = end > 0 ? xstrndup(place->whole, end) : xstrdup("/");
	place->path = place->whole + end + strspn(place->whole + end, "/");
	place->name = strrchr(place->whole, '/');
	place->name = place->name ? place->name + 1 : place->whole;
}

/* By that the tree is away, not a repository deleted. */
static int open_base(struct place *place, struct err *err)
{
	place->root = dir_open(AT_FDCWD, place->base, err);
	if (place->root >= 0)
		return 0;
	if (err->class != ERR_MISSING)
		return -1;
	err->class = ERR_DISK;
	return err_remedy(err, "mount it, or correct url or adminUrl of the remote");
}

static int local_delete_fail_missing(const struct place *place, struct err *err)
{
	if (errno == ENOENT)
		return err_set(err, ERR_MISSING, "there is no repository at %.300s",
			       place->whole);
	if (errno != ELOOP && errno != ENOTDIR)
		return err_errno(err, "cannot open %.300s", place->whole);
	err_set(err, ERR_CONFIG,
		"%.300s is, or lies behind, a symbolic link or a file: it stays",
		place->whole);
	err_because(err, REASON_NO_WAY);
	return err_remedy(err, "delete it yourself");
}

static int local_delete_open_part(int dir, const char *name)
{
	return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int local_delete_refuse_path(const struct place *place, struct err *err)
{
	err_set(err, ERR_CONFIG, "\"%.300s\" can be no repository's path", place->whole);
	return err_remedy(err, "correct url or adminUrl of the remote");
}

/* Follows the path part by part; *repo is what stands at its end. */
static int local_delete_walk_path(struct place *place, int *repo, struct err *err)
{
	AUTO_FREE char *copy = xstrdup(place->path);
	char *rest = copy, *part;
	int dir = openat(place->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	while (dir >= 0 && (part = strsep(&rest, "/")) != NULL) {
		if (*part == '\0')
			continue;
		if (place->parent >= 0)
			close(place->parent);
		place->parent = dir;
		if (name_is_dots(part) || strcmp(part, OWN_FOLDER) == 0)
			return local_delete_refuse_path(place, err);
		dir = local_delete_open_part(dir, part);
	}
	if (dir < 0)
		return local_delete_fail_missing(place, err);
	*repo = dir;
	return 0;
}

/* Folders in which git and its friends may have a repository's parts of any name. */
static bool is_known_folder(const char *name)
{
	static const char *const known[] = { "objects", "refs", "logs", "lfs",
					     "modules" };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(name, known[i]) == 0)
			return true;
	return false;
}

static bool holds_repository(int dir, bool is_top);

static bool entry_holds_repository(int dir, const struct dirent *entry, bool is_top)
{
	AUTO_CLOSE int below = -1;

	if (name_is_dots(entry->d_name) || (is_top && is_known_folder(entry->d_name)) ||
	    (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN))
		return false;
	below = local_delete_open_part(dir, entry->d_name);
	if (below < 0)
		return errno != ENOTDIR && errno != ELOOP && errno != ENOENT;
	return repo_look_at(below) != REPO_NOTHING || holds_repository(below, false);
}

/* What cannot be read may be one. */
static bool holds_repository(int dir, bool is_top)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *list = dir_list(dir, ".");

	while (list && (errno = 0, (entry = readdir(list)) != NULL))
		if (entry_holds_repository(dir, entry, is_top))
			return true;
	return !list || errno != 0;
}

static int check_repository(const struct place *place, int repo, struct err *err)
{
	enum repo_look look = repo_look_at(repo);

	if (look == REPO_NOTHING)
		return err_set(err, ERR_MISSING, "%.300s is not a repository, and stays",
			       place->whole);
	if (look == REPO_DAMAGED) {
		err_set(err, ERR_CORRUPT,
			"%.300s is not a complete repository, and stays", place->whole);
		return err_remedy(err, "delete it yourself if nothing in it is needed");
	}
	if (!holds_repository(repo, true))
		return 0;
	err_set(err, ERR_CONFIG, "the repository at %.300s has others inside: it stays",
		place->whole);
	err_because(err, REASON_NO_WAY);
	return err_remedy(err, "move them out, or delete it yourself");
}

static int local_delete_move_to_trash(const struct place *place, struct err *err)
{
	const struct job nobody = { .fence = 0 };
	AUTO_FREE char *to = trash_make_place(&nobody, place->root, place->path, err);

	if (!to)
		return -1;
	if (renameat(place->parent, place->name, place->root, to) != 0) {
		if (errno != EXDEV)
			return err_errno(err, "cannot move %.300s to the trash",
					 place->whole);
		err_set(err, ERR_CONFIG, "%.300s is on another file system than %.100s",
			place->whole, place->base);
		err_because(err, REASON_NO_WAY);
		return err_remedy(err, "delete it yourself");
	}
	failpoint("target.moved");
	if (dir_sync(place->root, OWN_FOLDER "/trash", err) != 0 ||
	    dir_sync(place->parent, ".", err) != 0)
		return -1;
	log_info("trash.put", LOG_TEXT("path", place->path), LOG_TEXT("to", to));
	return 0;
}

static int check_path(const struct destination *destination, struct err *err)
{
	if (destination->path && destination->path[0] == '/' &&
	    destination->path[1] != '\0')
		return 0;
	err_set(err, ERR_CONFIG, "\"%.300s\" is not the absolute path of a repository",
		destination->path ? destination->path : "");
	return err_remedy(err, "correct url or adminUrl of the remote");
}

/* 1; 0: it is not; -1. */
static int is_pushed_below(const char *list, const char *base, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	char *rest = NULL;

	if (file_read(AT_FDCWD, list, PUSHED_BELOW_MAX, &text, err) != 0)
		return err->class == ERR_MISSING ? 0 : -1;
	for (char *line = strtok_r(text.data, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest))
		if (strcmp(line, base) == 0)
			return 1;
	return 0;
}

/* Whether the last line lacks its end: an editor, or a full disk, left it so. */
static bool is_cut(int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);
	char last;

	return size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

static int add_pushed_below(const char *list, const char *base, struct err *err)
{
	AUTO_CLOSE int fd =
		open(list, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_errno(err, "cannot open %s", list);
	AUTO_FREE char *line = xasprintf("%s%s\n", is_cut(fd) ? "\n" : "", base);
	return file_write_all(fd, line, strlen(line), list, err);
}

/* Once, by any number of threads. */
static int note_pushed_below(const char *list, const char *base, struct err *err)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&mutex);
	int found = is_pushed_below(list, base, err);

	return found == 0 ? add_pushed_below(list, base, err) : found;
}

static char *pushed_below(const struct target_call *call)
{
	return xasprintf("%s/" PUSHED_BELOW, call->data);
}

void target_note_pushed(const struct target_call *call)
{
	AUTO_PLACE struct place place = { .root = -1, .parent = -1 };
	AUTO_FREE char *list = NULL;
	struct err err;

	if (!call->data || call->destination->kind != URL_LOCAL ||
	    check_path(call->destination, ERR_IGNORED) != 0)
		return;
	local_delete_split_path(call->destination, &place);
	if (strchr(place.base, '\n'))
		return;
	list = pushed_below(call);
	if (note_pushed_below(list, place.base, &err) < 0)
		log_warn("push.not_noted", LOG_ERR(&err), LOG_TEXT("path", place.base));
}

/* Whether its file system is there, or nothing is known of one. */
static int check_base(const struct target_call *call, struct err *err)
{
	AUTO_PLACE struct place place = { .root = -1, .parent = -1 };
	AUTO_FREE char *list = NULL;
	int found;

	if (!call->data)
		return 0;
	local_delete_split_path(call->destination, &place);
	place.root = open(place.base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (place.root < 0 && errno != ENOENT)
		return err_errno(err, "cannot open %.300s", place.base);
	if (place.root >= 0 && !dir_is_empty(place.root, "."))
		return 0;
	list = pushed_below(call);
	found = is_pushed_below(list, place.base, err);
	if (found <= 0)
		return found;
	err_set(err, ERR_DISK, "%.150s is %s, but repositories were pushed below it",
		place.base, place.root < 0 ? "missing" : "empty");
	return err_remedy(err,
			  "mount its file system. To start over, remove its line "
			  "from %s",
			  list);
}

static int target_local_destroy(const struct target_call *call, struct err *err)
{
	AUTO_PLACE struct place place = { .root = -1, .parent = -1 };
	AUTO_CLOSE int repo = -1;

	if (check_path(call->destination, err) != 0)
		return -1;
	local_delete_split_path(call->destination, &place);
	if (place.path[0] == '\0')
		return local_delete_refuse_path(&place, err);
	if (check_base(call, err) != 0 || open_base(&place, err) != 0 ||
	    local_delete_walk_path(&place, &repo, err) != 0 ||
	    check_repository(&place, repo, err) != 0 ||
	    local_delete_move_to_trash(&place, err) != 0)
		return -1;
	dir_remove_above(place.root, place.path, NULL);
	trash_expire(place.base);
	return 0;
}

static int git(const struct target_call *call, const char *path, const char *const *args,
	       struct err *err)
{
	struct git_call git_call = {
		.work = call->work,
		.repository = path,
		.args = args,
	};

	if (git_run(&git_call, err) != 0)
		return err_prefix(err, "%.300s", path);
	return 0;
}

static int write_head(const struct target_call *call, const char *path, const char *head,
		      struct err *err)
{
	return git(call, path, (const char *[]){ "symbolic-ref", "HEAD", head, NULL },
		   err);
}

static int target_local_fill_repository(const struct target_call *call, const char *path,
					const char *head, size_t oid_len, struct err *err)
{
	bool stores = call->destination->remote->stores_ref_log;
	const char *const init[] = { "init",
				     "--quiet",
				     "--bare",
				     "--template=",
				     oid_len == 32 ? "--object-format=sha256"
						   : "--object-format=sha1",
				     NULL };
	const char *const config[] = { "config", "core.logAllRefUpdates",
				       stores ? "true" : "false", NULL };

	if (git(call, path, init, err) != 0 || git(call, path, config, err) != 0)
		return -1;
	return head ? write_head(call, path, head, err) : 0;
}

static int sync_file(int dir, const char *name, struct err *err)
{
	AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fsync(fd) != 0)
		return err_errno(err, "cannot sync %s of a new repository", name);
	return 0;
}

static int target_local_sync_all(const char *path, struct err *err)
{
	AUTO_CLOSE int dir = dir_open(AT_FDCWD, path, err);

	if (dir < 0 || sync_file(dir, "HEAD", err) != 0 ||
	    sync_file(dir, "config", err) != 0 || dir_sync(dir, "objects", err) != 0 ||
	    dir_sync(dir, "refs", err) != 0)
		return -1;
	return dir_sync(dir, ".", err);
}

static int target_local_fail_in_the_way(const char *path, struct err *err)
{
	err_set(err, ERR_CONFIG, "%.300s exists, but is not a repository", path);
	return err_remedy(err, "move it away, or correct the URL");
}

/* rename() takes the place of an empty directory, too. Whoever was faster made what we
 * wanted, or it is in the way. */
static int put_in_place(const char *made, const char *path, const char *parent,
			struct err *err)
{
	struct repo repo;

	if (rename(made, path) == 0)
		return dir_sync(AT_FDCWD, parent, err);
	if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR)
		return err_errno(err, "cannot make repository %.300s", path);
	if (repo_open(AT_FDCWD, path, &repo, ERR_IGNORED) != 0)
		return target_local_fail_in_the_way(path, err);
	repo_close(&repo);
	return 0;
}

static int target_local_make_repository(const struct target_call *call, const char *path,
					const char *head, size_t oid_len, struct err *err)
{
	const char *slash = strrchr(path, '/');
	AUTO_FREE char *parent =
		xstrndup(path, slash == path ? 1 : (size_t)(slash - path));
	AUTO_FREE char *made = xasprintf("%s/" PASSING_PREFIX "new-%s", parent,
					 call->destination->uri_key);
	int result = -1;

	if (dir_make(AT_FDCWD, parent, err) != 0 ||
	    tree_remove(AT_FDCWD, made, err) != 0 || dir_make(AT_FDCWD, made, err) != 0)
		return -1;
	if (target_local_fill_repository(call, made, head, oid_len, err) == 0 &&
	    target_local_sync_all(made, err) == 0)
		result = put_in_place(made, path, parent, err);
	tree_remove(AT_FDCWD, made, ERR_IGNORED);
	return result;
}

/* 1: it may be made there; 0: one is there. */
static int may_make(const char *path, struct err *err)
{
	AUTO_CLOSE int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0 && errno == ENOENT)
		return 1;
	if (dir < 0 && errno == ENOTDIR)
		return target_local_fail_in_the_way(path, err);
	if (dir < 0)
		return err_errno(err, "cannot look at %.300s", path);
	if (repo_look_at(dir) == REPO_BARE)
		return 0;
	return dir_is_empty(dir, ".") ? 1 : target_local_fail_in_the_way(path, err);
}

static char *target_local_copy_path(const struct destination *destination)
{
	size_t len = strlen(destination->path);

	while (len > 1 && destination->path[len - 1] == '/')
		len--;
	return xstrndup(destination->path, len);
}

static int target_local_create(const struct target_call *call, const char *head,
			       size_t oid_len, struct err *err)
{
	AUTO_FREE char *path = NULL;
	int may;

	if (check_path(call->destination, err) != 0)
		return -1;
	path = target_local_copy_path(call->destination);
	may = may_make(path, err);
	if (may <= 0)
		return may;
	if (check_base(call, err) != 0 ||
	    target_local_make_repository(call, path, head, oid_len, err) != 0)
		return -1;
	target_note_pushed(call);
	return 0;
}

/* Git flushes neither. A link, which it makes where it is told to, is all in its name. */
static int sync_head(int dir, struct err *err)
{
	if (file_flush(dir, "HEAD", err) != 0 && err->sys_errno != ELOOP)
		return -1;
	return dir_sync(dir, ".", err);
}

static int target_local_set_head(const struct target_call *call, const char *head,
				 struct err *err)
{
	const char *path = call->destination->path;
	AUTO_CLOSE int dir = -1;

	if (check_path(call->destination, err) != 0)
		return -1;
	dir = dir_open(AT_FDCWD, path, err);
	if (dir < 0)
		return -1;
	if (repo_look_at(dir) != REPO_BARE)
		return err_set(err, ERR_MISSING, "there is no repository at %.300s",
			       path);
	return write_head(call, path, head, err) == 0 ? sync_head(dir, err) : -1;
}

const struct target_kind target_local = { target_local_create, target_local_set_head,
					  target_local_destroy };
