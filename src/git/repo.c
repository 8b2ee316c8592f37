#include "git/repo.h"

#include <sys/sysmacros.h>

#include "base/conf.h"
#include "base/file.h"
#include "base/str.h"
#include "git/cuts.h"

#define CONFIG_LIMIT ((size_t)16 << 20)

static bool repo_is_directory(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

/* *fault: errno, if that cannot be told now. */
static bool repo_has_part(int dir, const char *name, int follow, int *fault)
{
	struct stat st;

	if (fstatat(dir, name, &st, follow) == 0)
		return follow == AT_SYMLINK_NOFOLLOW || S_ISDIR(st.st_mode);
	if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
		*fault = errno;
	return false;
}

static enum repo_look repo_look(int dir, int *fault)
{
	int parts = repo_has_part(dir, "objects", 0, fault) +
		    repo_has_part(dir, "refs", 0, fault) +
		    repo_has_part(dir, "HEAD", AT_SYMLINK_NOFOLLOW, fault);

	return parts == 3 ? REPO_BARE : parts == 2 ? REPO_DAMAGED : REPO_NOTHING;
}

enum repo_look repo_look_at(int dir)
{
	int fault;

	return repo_look(dir, &fault);
}

enum repo_look repo_look_into(int dir, struct err *err)
{
	int fault = 0;
	enum repo_look look = repo_look(dir, &fault);

	if (look != REPO_NOTHING || fault == 0)
		return look;
	errno = fault;
	err_errno(err, "cannot look for HEAD, refs and objects");
	return REPO_UNKNOWN;
}

int repo_stands_at(int dir, struct err *err)
{
	enum repo_look look = repo_look_into(dir, err);

	return look == REPO_UNKNOWN ? -1 : look != REPO_NOTHING;
}

static int unsupported(const struct conf_entry *entry, struct err *err)
{
	err_set(err, ERR_CONFIG,
		"the repository's format is not supported: extensions.%s = %s",
		entry->key, entry->value ? entry->value : "true");
	err_because(err, REASON_FORMAT);
	return err_remedy(err, "convert it to the files format (a fresh git clone "
			       "--mirror does), or move it out of the tree");
}

/* Git's names for what changes how a repository must be read. */
static int read_extension(const struct conf_entry *entry, struct repo *repo,
			  struct err *err)
{
	const char *value = entry->value ? entry->value : "";

	if (strcasecmp(entry->key, "objectformat") == 0) {
		if (strcasecmp(value, "sha256") == 0)
			repo->oid_len = 32;
		else if (strcasecmp(value, "sha1") != 0)
			return unsupported(entry, err);
	} else if (strcasecmp(entry->key, "refstorage") == 0) {
		if (strcasecmp(value, "files") != 0)
			return unsupported(entry, err);
	} else if (strcasecmp(entry->key, "noop") != 0 &&
		   strcasecmp(entry->key, "partialclone") != 0 &&
		   strcasecmp(entry->key, "preciousobjects") != 0 &&
		   strcasecmp(entry->key, "worktreeconfig") != 0) {
		return unsupported(entry, err);
	}
	return 0;
}

static bool repo_is_of_format(const struct conf_entry *entry, const char *section,
			      const char *key)
{
	return strcasecmp(entry->section, section) == 0 && !entry->subsection &&
	       strcasecmp(entry->key, key) == 0;
}

/* Git obeys the extension in whatever version of the format. */
static bool is_promisor(const struct conf_entry *entry)
{
	bool value = true;

	if (repo_is_of_format(entry, "extensions", "partialClone"))
		return true;
	return strcasecmp(entry->section, "remote") == 0 && entry->subsection &&
	       strcasecmp(entry->key, "promisor") == 0 &&
	       (conf_read_bool(entry, &value, ERR_IGNORED) != 0 || value);
}

static bool is_include(const struct conf_entry *entry)
{
	return strcasecmp(entry->section, "include") == 0 ||
	       strcasecmp(entry->section, "includeIf") == 0;
}

/* Git takes a URL, or a path, for the name of a remote if one has it: it fetches from
 * that one's URL, and runs its uploadpack. */
static bool is_remote_with_name_of_place(const struct conf_entry *entry)
{
	return strcasecmp(entry->section, "remote") == 0 && entry->subsection &&
	       (strchr(entry->subsection, ':') || entry->subsection[0] == '/');
}

/* An include may bring anything. */
static bool rewrites_urls(const struct conf_entry *entry)
{
	return strcasecmp(entry->key, "insteadOf") == 0 || is_include(entry) ||
	       repo_is_of_format(entry, "fetch", "bundleURI") ||
	       is_remote_with_name_of_place(entry);
}

/* As git reads it: the last one that says something of HEAD counts. */
static void read_hidden(const struct conf_entry *entry, struct repo *repo)
{
	const char *name = entry->value ? entry->value : "";
	bool is_shown = name[0] == '!';
	size_t len;

	if (entry->subsection || strcasecmp(entry->key, "hideRefs") != 0 ||
	    (strcasecmp(entry->section, "transfer") != 0 &&
	     strcasecmp(entry->section, "uploadpack") != 0))
		return;
	name += is_shown;
	name += name[0] == '^';
	len = strlen(name);
	while (len > 0 && name[len - 1] == '/')
		len--;
	if (len == strlen("HEAD") && memcmp(name, "HEAD", len) == 0)
		repo->hides_head = !is_shown;
}

/* As with git, the last one counts. What is neither true nor false is git's to refuse. */
static void read_closed(const struct conf_entry *entry, struct repo *repo)
{
	bool is_open = true;

	if (entry->subsection || strcasecmp(entry->section, "http") != 0 ||
	    strcasecmp(entry->key, "uploadpack") != 0)
		return;
	if (!entry->value || conf_read_bool(entry, &is_open, ERR_IGNORED) == 0)
		repo->is_closed = !is_open;
}

static int repo_read_format(const struct conf *conf, struct repo *repo, struct err *err)
{
	const struct conf_list *all = conf_entries(conf);
	uint64_t version = 0;

	for (size_t i = 0; i < all->count; i++) {
		repo->is_partial |= is_promisor(all->items[i]);
		repo->has_work_tree |=
			repo_is_of_format(all->items[i], "core", "worktree");
		repo->rewrites_urls |= rewrites_urls(all->items[i]);
		repo->has_includes |= is_include(all->items[i]);
		read_hidden(all->items[i], repo);
		read_closed(all->items[i], repo);
	}
	if (conf_read_uint(conf_get(conf, "core", NULL, "repositoryformatversion"), 0, 1,
			   &version, err) != 0) {
		err_because(err, REASON_FORMAT);
		return err_remedy(err, "this repository was made by a newer git; "
				       "convert it, or move it out of the tree");
	}
	for (size_t i = 0; version > 0 && i < all->count; i++)
		if (strcasecmp(all->items[i]->section, "extensions") == 0 &&
		    read_extension(all->items[i], repo, err) != 0)
			return -1;
	return 0;
}

/* Git reads the format from this one file, without what it includes. */
static int read_config(struct repo *repo, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_CONF struct conf *conf = NULL;

	if (file_read(repo->fd, "config", CONFIG_LIMIT, &text, err) != 0)
		return err->class == ERR_MISSING ? 0 : -1;
	if (conf_load_text("config", text.data, text.len, &conf, err) != 0)
		return err_remedy(err, "mend the repository's file config");
	return repo_read_format(conf, repo, err);
}

static int check_look(struct repo *repo, struct err *err)
{
	int fault = 0;
	enum repo_look look = repo_look(repo->fd, &fault);

	if (look != REPO_BARE && fault != 0) {
		errno = fault;
		return err_errno(err, "cannot look at HEAD, objects and refs");
	}
	switch (look) {
	case REPO_BARE:
		if (faccessat(repo->fd, "objects", R_OK | X_OK, AT_EACCESS) == 0)
			return 0;
		return err_errno(err, "cannot read directory objects");
	case REPO_DAMAGED:
		if (file_is_there(repo->fd, "HEAD"))
			break;
		err_set(err, ERR_CORRUPT, "it has no HEAD");
		return err_remedy(err, "write it again: git symbolic-ref HEAD "
				       "refs/heads/main");
	case REPO_NOTHING:
	case REPO_UNKNOWN:
		break;
	}
	err_set(err, ERR_CORRUPT, "it is not a complete bare repository");
	return err_remedy(err, "it needs HEAD, objects/ and refs/: restore them, or move "
			       "the directory away");
}

int repo_open(int dir, const char *path, struct repo *repo, struct err *err)
{
	*repo = (struct repo){ .fd = dir_open(dir, path, err), .oid_len = 20 };
	if (repo->fd < 0)
		return -1;
	repo->path = xstrdup(path);
	if (check_look(repo, err) != 0 || read_config(repo, err) != 0) {
		repo_close(repo);
		return -1;
	}
	repo->has_includes |= file_is_there(repo->fd, "config.worktree");
	repo->is_shallow = file_is_filled(repo->fd, CUTS_FILE);
	repo->is_cut = cuts_are_ours(repo->fd);
	repo->has_alternates = file_is_filled(repo->fd, "objects/info/alternates");
	return 0;
}

/* Nobody waits for what has its end at once. */
static bool is_null_device(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3);
}

static int repo_check_file(int dir, const char *folder, const char *name, struct err *err)
{
	struct stat st;

	if (fstatat(dir, name, &st, 0) != 0 || S_ISREG(st.st_mode) ||
	    S_ISDIR(st.st_mode) || is_null_device(&st))
		return 0;
	err_set(err, ERR_CONFIG, "%s/%s is not a regular file", folder, name);
	return err_remedy(err, "remove it: git would wait for it");
}

/* What git opens. Nothing else that stands there is ever read. */
static const struct needed {
	const char *folder;
	const char *const *names; /* NULL: packs */
} needed[] = {
	{ ".", (const char *const[]){ "HEAD", "config", "config.worktree", "packed-refs",
				      "shallow", "commondir", "index", NULL } },
	{ "info",
	  (const char *const[]){ "grafts", "attributes", "exclude", "refs", NULL } },
	{ "objects/info",
	  (const char *const[]){ "alternates", "commit-graph", "packs", NULL } },
	{ "objects/pack", NULL },
};

/* Git opens a pack by its index, of whatever name, and what belongs to it. */
static bool is_of_pack(const char *name)
{
	static const char *const ends[] = { ".idx", ".pack", ".rev", ".bitmap",
					    ".mtimes" };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (text_ends_with(name, ends[i]))
			return true;
	return text_starts_with(name, "multi-pack-index");
}

static int check_packs(const struct repo *repo, const char *folder, struct err *err)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *list = dir_list(repo->fd, folder);

	while (list && (entry = readdir(list)) != NULL)
		if (entry->d_type != DT_REG && is_of_pack(entry->d_name) &&
		    repo_check_file(dirfd(list), folder, entry->d_name, err) != 0)
			return -1;
	return 0;
}

static int check_needed(const struct repo *repo, const struct needed *one,
			struct err *err)
{
	if (!one->names)
		return check_packs(repo, one->folder, err);
	AUTO_CLOSE int folder = openat(repo->fd, one->folder, O_PATH | O_CLOEXEC);
	for (size_t i = 0; folder >= 0 && one->names[i]; i++)
		if (repo_check_file(folder, one->folder, one->names[i], err) != 0)
			return -1;
	return 0;
}

/* Git is lost in directories that link to themselves by way of others. */
static int refuse_maze(const char *name, struct err *err)
{
	err_set(err, ERR_CONFIG, "below refs, %s is reached by links or too deep", name);
	return err_remedy(err, "put plain directories there");
}

static bool repo_is_link(int dir, const struct dirent *entry)
{
	struct stat st;

	return entry->d_type != DT_DIR &&
	       fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISLNK(st.st_mode);
}

static int check_refs(int parent, const char *name, unsigned depth, struct err *err);

/* So no more than one link is on the way to any. */
static int repo_check_entry(int dir, const char *folder, const struct dirent *entry,
			    unsigned depth, struct err *err)
{
	if (entry->d_name[0] == '.' || entry->d_type == DT_REG)
		return 0;
	if (repo_check_file(dir, folder, entry->d_name, err) != 0)
		return -1;
	if (!repo_is_directory(dir, entry->d_name))
		return 0;
	if (repo_is_link(dir, entry))
		depth += REFS_DEPTH / 2 + 1;
	return check_refs(dir, entry->d_name, depth + 1, err);
}

/* What git reads for each list of refs; it follows links. */
static int check_refs(int parent, const char *name, unsigned depth, struct err *err)
{
	struct dirent *entry;
	int result = 0;
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSEDIR DIR *list = fd < 0 ? NULL : fdopendir(fd);

	if (!list && fd >= 0)
		close(fd);
	if (depth > REFS_DEPTH)
		return refuse_maze(name, err);
	while (list && result == 0 && (entry = readdir(list)) != NULL)
		result = repo_check_entry(fd, name, entry, depth, err);
	return result;
}

/* Git would read, and tell its readers parts of, whatever it leads to. */
static int check_packed_refs(const struct repo *repo, struct err *err)
{
	struct stat st;

	if (fstatat(repo->fd, "packed-refs", &st, AT_SYMLINK_NOFOLLOW) != 0 ||
	    !S_ISLNK(st.st_mode))
		return 0;
	err_set(err, ERR_CONFIG, "packed-refs is a symbolic link");
	err_because(err, REASON_FORMAT);
	return err_remedy(err, "put the file itself in its place");
}

int repo_check_refs(const struct repo *repo, struct err *err)
{
	return check_refs(repo->fd, "refs", 0, err);
}

int repo_check_files(const struct repo *repo, struct err *err)
{
	return repo_check_files_beside_refs(repo, err) == 0 ? repo_check_refs(repo, err)
							    : -1;
}

int repo_check_files_beside_refs(const struct repo *repo, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (check_needed(repo, &needed[i], err) != 0)
			return -1;
	if (check_packed_refs(repo, err) != 0)
		return -1;
	if (!file_is_filled(repo->fd, "info/grafts"))
		return 0;
	err_set(err, ERR_CONFIG, "it has info/grafts, which change what its history is");
	return err_remedy(err, "convert them: git replace --convert-graft-file");
}

const char *const repo_diversions[] = {
	CUTS_FILE,
	"info/grafts",
	"commondir",
	"gitdir",
	"config.worktree",
	"objects/info/alternates",
	"objects/info/http-alternates",
	NULL,
};

bool repo_is_diverted_by(int dir, const char *name)
{
	return file_is_there(dir, name) &&
	       (strcmp(name, CUTS_FILE) != 0 || !cuts_are_ours(dir));
}

int repo_check_diversions(int dir, struct err *err)
{
	for (const char *const *name = repo_diversions; *name; name++) {
		if (!repo_is_diverted_by(dir, *name))
			continue;
		err_set(err, ERR_CORRUPT,
			"it has a file %s: git would give readers something else", *name);
		return err_remedy(err, "it is removed automatically; if it recurs, find "
				       "out what else writes to the copies");
	}
	return 0;
}

void repo_close(struct repo *repo)
{
	int saved = errno;

	if (repo->fd >= 0)
		close(repo->fd);
	free(repo->path);
	*repo = (struct repo)REPO_INIT;
	errno = saved;
}

/* Nobody but refrelay writes a copy, and it does the housekeeping itself. */
static const char sha1_config[] = "[core]\n"
				  "\trepositoryformatversion = 0\n"
				  "\tfilemode = true\n"
				  "\tbare = true\n"
				  "[gc]\n"
				  "\tauto = 0\n"
				  "[maintenance]\n"
				  "\tauto = false\n";
static const char sha256_config[] = "[core]\n"
				    "\trepositoryformatversion = 1\n"
				    "\tfilemode = true\n"
				    "\tbare = true\n"
				    "[extensions]\n"
				    "\tobjectformat = sha256\n"
				    "[gc]\n"
				    "\tauto = 0\n"
				    "[maintenance]\n"
				    "\tauto = false\n";

static int repo_write_file(int dir, const char *name, const char *text, struct err *err)
{
	AUTO_CLOSE int fd =
		openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd < 0)
		return err_errno(err, "cannot create %s", name);
	return file_write_all(fd, text, strlen(text), name, err);
}

static int repo_fill_new(int dir, size_t oid_len, struct err *err)
{
	static const char *const folders[] = { "objects", "objects/info", "objects/pack",
					       "refs",    "refs/heads",   "refs/tags" };

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (mkdirat(dir, folders[i], 0777) != 0)
			return err_errno(err, "cannot make directory %s", folders[i]);
	if (repo_write_file(dir, "config", oid_len == 32 ? sha256_config : sha1_config,
			    err) != 0)
		return -1;
	return repo_write_file(dir, "HEAD", "ref: refs/heads/main\n", err);
}

int repo_make(int dir, const char *path, size_t oid_len, struct err *err)
{
	AUTO_CLOSE int fd = -1;

	if (mkdirat(dir, path, 0777) != 0)
		return err_errno(err, "cannot make directory %s", path);
	fd = dir_open(dir, path, err);
	return fd < 0 ? -1 : repo_fill_new(fd, oid_len, err);
}
