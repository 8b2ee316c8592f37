/*
 * Git works in a repository of our own that has no objects, with those of the clone: so
 * nothing of the clone's configuration counts, in which a filter could name a program,
 * and no attribute of the tree does either. What is in the files is what is in the blobs,
 * byte for byte; only so it can be proved that they are right.
 *
 * The proof: an index is read from the commit anew, without what git remembers of files.
 * To refresh it git has to read each file and compare it. The index that comes of this
 * tells later, by stat(), whether somebody has changed a file.
 *
 * Whoever holds the lease is alone: what is half made is of somebody who died, or who was
 * overtaken, and then his children are dead. One who was paused may wake up and switch
 * the link at most between his last look at the lease and the rename; the next job
 * compares the link with the commit again.
 */
#include "upkeep/checkout.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "base/seen_time.h"
#include "base/str.h"
#include "replicable/name.h"
#include "upkeep/trash.h"

#define CLOCK OWN_FOLDER "/" TRASH_CLOCK
#define GIT "git"
#define CHANGED_MOST 2 /* so often a tree of one commit is made anew */
#define USED_AGAIN_MS ((int64_t)300 * 1000) /* a lock is looked at again */
#define OUTPUT_MOST 4096
#define SIZES_MOST ((size_t)8 << 20) /* of a million files, 8 bytes each */
#define BLOCK 4096
#define MARK_MOST 64

struct checkout {
	const struct checkout_call *call;
	int root, folder; /* -1: it is not there */
	char *below;      /* the folder, below the root */
	char *link;       /* likewise */
};

#define AUTO_CHECKOUT __attribute__((cleanup(checkout_clear)))

static void checkout_clear(struct checkout *one)
{
	if (one->root >= 0)
		close(one->root);
	if (one->folder >= 0)
		close(one->folder);
	free(one->below);
	free(one->link);
}

char *checkout_path(const char *root, const char *name)
{
	return xasprintf("%s/%s" CHECKOUT_SUFFIX, root, name);
}

static char *checkout_folder(const char *name)
{
	return xasprintf(CHECKOUT_FOLDER "/%s.git", name);
}

static int checkout_init(const struct checkout_call *call, struct checkout *one,
			 struct err *err)
{
	*one = (struct checkout){ .call = call,
				  .root = dir_open(AT_FDCWD, call->root, err),
				  .folder = -1,
				  .below = checkout_folder(call->name),
				  .link = xasprintf("%s" CHECKOUT_SUFFIX, call->name) };
	if (one->root < 0)
		return -1;
	one->folder = path_open_beneath(one->root, one->below, O_RDONLY | O_DIRECTORY);
	if (one->folder >= 0 || errno == ENOENT)
		return 0;
	return err_errno(err, "cannot open %s", one->below);
}

bool checkout_is_any(const char *root, const char *name)
{
	AUTO_FREE char *below = checkout_folder(name);
	AUTO_FREE char *folder = xasprintf("%s/%s", root, below);
	AUTO_FREE char *link = checkout_path(root, name);

	return access(folder, F_OK) == 0 || name_is_checkout(AT_FDCWD, link);
}

/* "<fence>-<commit>" */
static bool checkout_is_version(const char *name)
{
	size_t digits = strspn(name, "0123456789");
	size_t hex =
		name[digits] == '-' ? strspn(name + digits + 1, "0123456789abcdef") : 0;

	return digits > 0 && hex >= 40 && name[digits + 1 + hex] == '\0';
}

/* Which one the link leads to; NULL: none, or it is no link of ours. The caller frees. */
static char *checkout_read_link(const struct checkout *one)
{
	AUTO_FREE char *before = xasprintf("%s/", one->below);
	char target[PATH_MAX], *version, *end;
	ssize_t len = readlinkat(one->root, one->link, target, sizeof(target) - 1);

	if (len < 0)
		return NULL;
	target[len] = '\0';
	version = strstr(target, before);
	if (!version)
		return NULL;
	version += strlen(before);
	end = strchr(version, '/');
	if (!end || strcmp(end, "/tree") != 0)
		return NULL;
	*end = '\0';
	return checkout_is_version(version) ? xstrdup(version) : NULL;
}

/*
 * Git's part.
 */

static const char git_config[] = "[core]\n"
				 "\trepositoryformatversion = %d\n"
				 "\tbare = false\n"
				 "\tfileMode = true\n"
				 "\tsymlinks = true\n"
				 "\tignoreCase = false\n"
				 "\tprotectNTFS = true\n"
				 "\tprotectHFS = true\n"
				 "\tautocrlf = false\n"
				 "\tattributesFile = /dev/null\n"
				 "\texcludesFile = /dev/null\n"
				 "\tsparseCheckout = false\n"
				 "\tsplitIndex = false\n"
				 "\tuntrackedCache = false\n"
				 "%s";
static const char git_sha256[] = "[extensions]\n\tobjectFormat = sha256\n";
/* Those stand above what the tree says. */
static const char git_attributes[] =
	"* -text !crlf !eol !ident !filter !working-tree-encoding\n";

static int checkout_write(const struct checkout *one, const char *path, const char *text,
			  struct err *err)
{
	return file_replace(one->folder, path, text, strlen(text), FILE_NO_SYNC, err);
}

/* Anew each time: what is there counts, whoever had his hands in it. */
static int checkout_make_git(const struct checkout *one, const struct oid *commit,
			     struct err *err)
{
	const bool is_long = commit->len == 32;
	AUTO_STR struct str config = STR_INIT;

	str_addf(&config, git_config, is_long ? 1 : 0, is_long ? git_sha256 : "");
	if (tree_remove(one->folder, GIT, err) != 0 ||
	    dir_make(one->folder, GIT "/refs", err) != 0 ||
	    dir_make(one->folder, GIT "/info", err) != 0 ||
	    checkout_write(one, GIT "/HEAD", "ref: refs/heads/none\n", err) != 0 ||
	    checkout_write(one, GIT "/config", config.data, err) != 0)
		return -1;
	return checkout_write(one, GIT "/info/attributes", git_attributes, err);
}

struct checkout_git {
	const char *version, *index;
	const char *const *args;
	struct str *output;  /* may be NULL */
	size_t output_limit; /* 0: OUTPUT_MOST */
	int exit_code;       /* -1: it was killed */
};

static int checkout_run_git(const struct checkout *one, struct checkout_git *git,
			    struct err *err)
{
	const char *root = one->call->root;
	AUTO_FREE char *objects = xasprintf("%s/%s.git/objects", root, one->call->name);
	AUTO_FREE char *repository = xasprintf("%s/%s/" GIT, root, one->below);
	AUTO_FREE char *tree =
		xasprintf("GIT_WORK_TREE=%s/%s/%s/tree", root, one->below, git->version);
	AUTO_FREE char *index = xasprintf("GIT_INDEX_FILE=%s/%s/%s/%s", root, one->below,
					  git->version, git->index);
	const char *const variables[] = { tree, index, NULL };
	struct proc_result ended = { 0 };
	int result =
		git_run(&(struct git_call){ .work = &one->call->job->work,
					    .repository = repository,
					    .args = git->args,
					    .output = git->output,
					    .output_limit = git->output_limit > 0
								    ? git->output_limit
								    : OUTPUT_MOST,
					    .variables = variables,
					    .object_directory = objects,
					    .ended = &ended },
			err);

	git->exit_code = ended.exit_code;
	return result;
}

/* 0: git has found that something is not as it was; -1: it could not look, or not write
 * down what it saw. Its fatal end may be either. */
static int checkout_judge(const struct checkout_git *git, const struct err *err)
{
	bool is_found =
		git->exit_code == 1 ||
		(git->exit_code > 1 && err->class != ERR_CONFIG && err_is_of_data(err));

	return is_found ? 0 : -1;
}

/* 1: the files are as the index says; 0: they are not. */
static int checkout_refresh(const struct checkout *one, const char *version,
			    const char *index, struct err *err)
{
	static const char *const args[] = { "update-index", "--refresh", NULL };
	AUTO_FREE char *lock = xasprintf("%s/%s.lock", version, index);
	struct checkout_git git = { .version = version, .index = index, .args = args };

	unlinkat(one->folder, lock, 0);
	if (checkout_run_git(one, &git, err) == 0)
		return 1;
	return checkout_judge(&git, err);
}

/* 1: there are no files but those; 0: there are. By directories, so that one counts that
 * has only a .git, or nothing. What git passes over for good, a .git in a directory of
 * its own and what is in a submodule's, may be there. What does not fit into the output
 * is more than none. */
static int checkout_is_alone(const struct checkout *one, const char *version,
			     struct err *err)
{
	static const char *const args[] = { "ls-files", "--others", "--directory", "-z",
					    NULL };
	AUTO_STR struct str output = STR_INIT;
	struct checkout_git git = {
		.version = version, .index = "index", .args = args, .output = &output
	};

	if (checkout_run_git(one, &git, err) == 0)
		return output.len == 0;
	return err->class == ERR_CORRUPT ? 0 : checkout_judge(&git, err);
}

/*
 * Versions.
 */

static bool checkout_has(const struct checkout *one, const char *version,
			 const char *part)
{
	AUTO_FREE char *path = xasprintf("%s/%s", version, part);

	return faccessat(one->folder, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Whether the link, followed as readers do, ends at that tree. */
static bool checkout_leads_to(const struct checkout *one, const char *version)
{
	AUTO_FREE char *tree = xasprintf("%s/tree", version);
	struct stat here, there;

	return fstatat(one->folder, tree, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISDIR(there.st_mode) && fstatat(one->root, one->link, &here, 0) == 0 &&
	       here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

/* How many others of the same commit stay. */
static size_t checkout_count_former(const struct checkout *one, const char *version)
{
	AUTO_CLOSEDIR DIR *dir = dir_list(one->folder, ".");
	const char *commit = strchr(version, '-');
	struct dirent *entry;
	size_t count = 0;

	while (dir && (entry = readdir(dir)) != NULL)
		count += checkout_is_version(entry->d_name) &&
			 strcmp(entry->d_name, version) != 0 &&
			 strcmp(strchr(entry->d_name, '-'), commit) == 0 &&
			 checkout_has(one, entry->d_name, "index");
	return count;
}

/* Who writes into each tree would have one made at each job, until the disk is full. 0:
 * another one is made. */
static int checkout_say_changed(const struct checkout *one, const char *version,
				struct err *err)
{
	AUTO_FREE char *path =
		xasprintf("%s/%s/%s/tree", one->call->root, one->below, version);

	if (checkout_count_former(one, version) < CHANGED_MOST) {
		log_warn("checkout.changed", LOG_TEXT("name", one->call->name),
			 LOG_TEXT("path", path),
			 LOG_TEXT("remedy", "it is made anew; let nobody write to it"));
		return 0;
	}
	err_set(err, ERR_CONFLICT, "somebody writes into each working tree; %s stays so",
		path);
	return err_remedy(err,
			  "let readers write elsewhere; another tree is made for the "
			  "next commit, or an hour after the former ones");
}

/* 1: the link leads to a tree that is as the commit is. */
static int checkout_is_good(const struct checkout *one, const struct oid *commit,
			    struct err *err)
{
	AUTO_FREE char *version = checkout_read_link(one);
	char text[OID_MAX_TEXT];
	int result;

	if (!version || strcmp(strchr(version, '-') + 1, oid_text(commit, text)) != 0 ||
	    !checkout_has(one, version, "index") || !checkout_leads_to(one, version))
		return 0;
	result = checkout_refresh(one, version, "index", err);
	if (result > 0)
		result = checkout_is_alone(one, version, err);
	return result == 0 ? checkout_say_changed(one, version, err) : result;
}

/* What files of that sizes, a line each, take on the disk, roughly. */
static uint64_t checkout_sum(const char *sizes)
{
	uint64_t sum = 0;

	for (; *sizes; sizes = strchrnul(sizes, '\n') + 1) {
		sum += BLOCK + strtoull(sizes, NULL, 10); /* "-" of a submodule is 0 */
		if (!strchr(sizes, '\n'))
			break;
	}
	return sum;
}

/* Some KB of trees in each other can stand for more files than any disk has room for. */
static int checkout_check_size(const struct checkout *one, const char *version,
			       const char *commit, struct err *err)
{
	const char *const args[] = { "ls-tree",     "-r",
				     "--full-tree", "--format=%(objectsize:padded)",
				     commit,        NULL };
	AUTO_STR struct str sizes = STR_INIT;
	struct checkout_git git = { .version = version,
				    .index = "made",
				    .args = args,
				    .output = &sizes,
				    .output_limit = SIZES_MOST };
	struct statvfs disk;

	if (checkout_run_git(one, &git, err) != 0) {
		if (err->class != ERR_CORRUPT || git.exit_code >= 0)
			return -1;
		err_set(err, ERR_CONFIG, "the commit %s has too many files", commit);
		return err_remedy(err, "set mirror.checkout = false");
	}
	if (fstatvfs(one->folder, &disk) != 0)
		return err_errno(err, "cannot see how much room there is");
	uint64_t wanted = checkout_sum(sizes.len > 0 ? sizes.data : "");
	uint64_t room = disk.f_bavail * disk.f_frsize;
	if (wanted <= room / 2)
		return 0;
	err_set(err, ERR_DISK,
		"the working tree takes %" PRIu64 " MB, and of %" PRIu64
		" MB that are free it may have half",
		wanted >> 20, room >> 20);
	return err_remedy(err, "make room, or set mirror.checkout = false");
}

static int checkout_write_tree(const struct checkout *one, const char *version,
			       const char *commit, struct err *err)
{
	const char *const args[] = { "read-tree", "-m", "-u", commit, NULL };
	struct checkout_git git = { .version = version, .index = "made", .args = args };
	AUTO_FREE char *tree = xasprintf("%s/tree", version);
	AUTO_FREE char *index = xasprintf("%s/made", version);

	if (tree_remove(one->folder, version, err) != 0 ||
	    dir_make(one->folder, tree, err) != 0 ||
	    checkout_check_size(one, version, commit, err) != 0)
		return -1;
	if (checkout_run_git(one, &git, err) != 0)
		return err->class != ERR_INTERNAL
			       ? -1
			       : err_remedy(err, "a path may be too long for this file "
						 "system: have it changed at the "
						 "upstream, or set mirror.checkout = "
						 "false");
	failpoint("checkout.written");
	if (unlinkat(one->folder, index, 0) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove %s", index);
	return syncfs(one->folder) == 0
		       ? 0
		       : err_errno(err, "cannot bring the working tree to disk");
}

/* Whoever finds `index` there finds a whole tree. */
static int checkout_accept(const struct checkout *one, const char *version,
			   struct err *err)
{
	AUTO_FREE char *proof = xasprintf("%s/proof", version);
	AUTO_FREE char *index = xasprintf("%s/index", version);

	failpoint("checkout.proved");
	if (file_flush(one->folder, proof, err) != 0)
		return -1;
	if (renameat(one->folder, proof, one->folder, index) != 0)
		return err_errno(err, "cannot rename %s", proof);
	return dir_sync(one->folder, version, err) != 0 ? -1
							: dir_sync(one->folder, ".", err);
}

static int checkout_prove(const struct checkout *one, const char *version,
			  const char *commit, struct err *err)
{
	const char *const args[] = { "read-tree", commit, NULL };
	struct checkout_git git = { .version = version, .index = "proof", .args = args };
	int is_right = checkout_run_git(one, &git, err);

	if (is_right == 0)
		is_right = checkout_refresh(one, version, "proof", err);
	if (is_right < 0)
		return -1;
	if (is_right > 0)
		return checkout_accept(one, version, err);
	err_set(err, ERR_CORRUPT,
		"the working tree that was made is not as the commit %s", commit);
	return err_remedy(err, "it is made again; if this comes back, see whether names "
			       "differ in case only, and whether this machine's disk "
			       "fails");
}

/* "../.refrelay/...", so that the tree of repositories can be moved, or seen at another
 * place; whole, where a folder above the link is a link itself. The caller frees. */
static char *checkout_make_target(const struct checkout *one, const char *version)
{
	AUTO_FREE char *parent = xstrdup(one->link);
	AUTO_STR struct str target = STR_INIT;
	char *slash = strrchr(parent, '/');
	AUTO_CLOSE int fd = -1;

	if (slash)
		*slash = '\0';
	if (slash)
		fd = path_open_beneath(one->root, parent, O_RDONLY | O_DIRECTORY);
	if (slash && fd < 0)
		str_addf(&target, "%s/", one->call->root);
	else
		for (const char *at = one->link; (at = strchr(at, '/')) != NULL; at++)
			str_add(&target, "../");
	str_addf(&target, "%s/%s/tree", one->below, version);
	return str_take(&target);
}

/* Nothing but a link of ours is ever replaced, or removed. */
static int checkout_check_place(const struct checkout *one, struct err *err)
{
	struct stat st;

	if (fstatat(one->root, one->link, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? 0
				       : err_errno(err, "cannot look at %s", one->link);
	if (S_ISLNK(st.st_mode) && name_is_checkout(one->root, one->link))
		return 0;
	err_set(err, ERR_CONFIG, "%s/%s is in the way of the working tree",
		one->call->root, one->link);
	return err_remedy(err, "move it away, or give the mirror another name");
}

static int checkout_rename_link(const struct checkout *one, const char *temporary,
				struct err *err)
{
	if (lease_check(one->call->job->lease, err) != 0)
		return -1;
	return renameat(one->root, temporary, one->root, one->link) == 0
		       ? 0
		       : err_errno(err, "cannot switch %s", one->link);
}

/* It is followed as readers do it. */
static int checkout_check_link(const struct checkout *one, const char *version,
			       struct err *err)
{
	AUTO_FREE char *now = checkout_read_link(one);

	return now && strcmp(now, version) == 0 && checkout_leads_to(one, version)
		       ? 0
		       : err_set(err, ERR_CONFLICT, "%s was changed by another",
				 one->link);
}

static int checkout_set_link(const struct checkout *one, const char *version,
			     struct err *err)
{
	const char *slash = strrchr(one->link, '/');
	AUTO_FREE char *target = checkout_make_target(one, version);
	AUTO_FREE char *temporary =
		xasprintf("%.*s" PASSING_PREFIX "checkout-%" PRIx64,
			  slash ? (int)(slash + 1 - one->link) : 0, one->link,
			  replicable_id(KIND_REPOSITORY, one->call->name));

	if (checkout_check_place(one, err) != 0)
		return -1;
	unlinkat(one->root, temporary, 0);
	if (symlinkat(target, one->root, temporary) != 0)
		return err_errno(err, "cannot make the link %s", temporary);
	failpoint("checkout.linked");
	if (checkout_rename_link(one, temporary, err) != 0) {
		unlinkat(one->root, temporary, 0);
		return -1;
	}
	failpoint("checkout.switched");
	return file_sync_parent(one->root, one->link, err) != 0
		       ? -1
		       : checkout_check_link(one, version, err);
}

/* What was made for nothing may be as large as what stands. */
static int checkout_make(const struct checkout *one, const struct oid *commit,
			 struct err *err)
{
	char text[OID_MAX_TEXT];
	AUTO_FREE char *version = xasprintf("%" PRIu64 "-%s", one->call->job->fence,
					    oid_text(commit, text));

	if (checkout_check_place(one, err) != 0)
		return -1;
	if (checkout_write_tree(one, version, text, err) == 0 &&
	    checkout_prove(one, version, text, err) == 0 &&
	    checkout_set_link(one, version, err) == 0)
		return 0;
	AUTO_FREE char *now = checkout_read_link(one);
	if (!now || strcmp(now, version) != 0)
		tree_remove(one->folder, version, ERR_IGNORED);
	return -1;
}

int checkout_switch(const struct checkout_call *call, const struct oid *commit,
		    bool *is_new, struct err *err)
{
	AUTO_CHECKOUT struct checkout one;
	int result;

	*is_new = false;
	if (checkout_init(call, &one, err) != 0)
		return -1;
	if (one.folder < 0 && dir_make(one.root, one.below, err) != 0)
		return -1;
	if (one.folder < 0)
		one.folder = dir_open(one.root, one.below, err);
	if (one.folder < 0 || checkout_make_git(&one, commit, err) != 0)
		return -1;
	result = checkout_is_good(&one, commit, err);
	if (result != 0)
		return result > 0 ? 0 : -1;
	*is_new = true;
	return checkout_make(&one, commit, err);
}

/*
 * What was replaced.
 */

/* Since when; -1: it cannot be told, so it counts from now on. */
static int64_t checkout_read_mark(const struct checkout *one, const char *version)
{
	AUTO_FREE char *path = xasprintf("%s/replaced", version);
	AUTO_STR struct str text = STR_INIT;

	if (file_read(one->folder, path, MARK_MOST, &text, ERR_IGNORED) != 0 ||
	    text.len == 0)
		return -1;
	return strtoll(text.data, NULL, 10);
}

static int checkout_write_mark(const struct checkout *one, const char *version,
			       int64_t now, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/replaced", version);
	AUTO_FREE char *text = xasprintf("%" PRId64 "\n", now);

	return file_replace(one->folder, path, text, strlen(text), FILE_SYNC, err);
}

/* Of one that is in use again, after somebody had taken its link away. */
static void checkout_remove_mark(const struct checkout *one, const char *version)
{
	AUTO_FREE char *path = xasprintf("%s/replaced", version);

	unlinkat(one->folder, path, 0);
}

/* The lock, if nobody uses the tree; -1: somebody does. Where the file system knows no
 * locks of directories there is none to be respected, and a descriptor alone. */
static int checkout_lock_tree(const struct checkout *one, const char *version)
{
	AUTO_FREE char *path = xasprintf("%s/tree", version);
	AUTO_CLOSE int tree = openat(one->folder, path,
				     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (tree < 0)
		return openat(one->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (flock(tree, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
		return -1;
	return TAKE_FD(tree);
}

/* In *next_ms when it can go; 0: it has gone. */
static int checkout_expire_one(const struct checkout *one, const char *version,
			       int64_t now, int64_t *next_ms, struct err *err)
{
	const bool is_whole = checkout_has(one, version, "index");
	int64_t since = is_whole ? checkout_read_mark(one, version) : 0;
	AUTO_CLOSE int lock = -1;

	*next_ms = since < 0 ? CHECKOUT_KEEP_MS : since + CHECKOUT_KEEP_MS - now;
	if (since < 0)
		return checkout_write_mark(one, version, now, err);
	if (is_whole && *next_ms > 0)
		return 0;
	*next_ms = USED_AGAIN_MS;
	if (is_whole && (lock = checkout_lock_tree(one, version)) < 0)
		return 0;
	if (lease_check(one->call->job->lease, err) != 0 ||
	    tree_remove(one->folder, version, err) != 0)
		return -1;
	*next_ms = 0;
	log_info("checkout.removed", LOG_TEXT("name", one->call->name),
		 LOG_TEXT("version", version));
	return 0;
}

static int checkout_expire_all(const struct checkout *one, int64_t *next_ms,
			       struct err *err)
{
	AUTO_CLOSEDIR DIR *dir = dir_list(one->folder, ".");
	AUTO_FREE char *now = checkout_read_link(one);
	const int64_t at = seen_time_keep(one->root, CLOCK, 0);
	struct dirent *entry;

	if (!dir)
		return err_errno(err, "cannot list %s", one->below);
	while (errno = 0, (entry = readdir(dir)) != NULL) {
		const char *name = entry->d_name;
		int64_t its_ms = 0;
		if (!checkout_is_version(name))
			continue;
		if (now && strcmp(name, now) == 0) {
			checkout_remove_mark(one, name);
			continue;
		}
		if (checkout_expire_one(one, name, at, &its_ms, err) != 0)
			return -1;
		if (its_ms > 0 && (*next_ms == 0 || its_ms < *next_ms))
			*next_ms = its_ms;
	}
	return errno == 0 ? 0 : err_errno(err, "cannot list %s", one->below);
}

int checkout_expire(const struct checkout_call *call, int64_t *next_ms, struct err *err)
{
	AUTO_CHECKOUT struct checkout one;

	*next_ms = 0;
	if (checkout_init(call, &one, err) != 0)
		return -1;
	if (one.folder < 0)
		return 0;
	if (checkout_expire_all(&one, next_ms, err) != 0)
		return -1;
	AUTO_FREE char *now = checkout_read_link(&one);
	if (now || *next_ms > 0)
		return 0;
	if (tree_remove(one.root, one.below, err) != 0)
		return -1;
	dir_remove_above(one.root, one.below, CHECKOUT_FOLDER);
	return 0;
}

static int checkout_remove_link(const struct checkout *one, struct err *err)
{
	if (!name_is_checkout(one->root, one->link))
		return 0;
	if (lease_check(one->call->job->lease, err) != 0)
		return -1;
	if (unlinkat(one->root, one->link, 0) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove %s", one->link);
	failpoint("checkout.unlinked");
	return file_sync_parent(one->root, one->link, err);
}

int checkout_drop(const struct checkout_call *call, struct err *err)
{
	AUTO_CHECKOUT struct checkout one;

	if (checkout_init(call, &one, err) != 0)
		return -1;
	return checkout_remove_link(&one, err);
}

int checkout_trash(const struct checkout_call *call, struct err *err)
{
	AUTO_CHECKOUT struct checkout one;

	if (checkout_init(call, &one, err) != 0 || checkout_remove_link(&one, err) != 0)
		return -1;
	if (one.folder < 0)
		return 0;
	AUTO_FREE char *to = trash_make_place(call->job, one.root, one.below, err);
	if (!to || lease_check(call->job->lease, err) != 0)
		return -1;
	if (renameat(one.root, one.below, one.root, to) != 0)
		return err_errno(err, "cannot move %s to the trash", one.below);
	dir_remove_above(one.root, one.below, CHECKOUT_FOLDER);
	return dir_sync(one.root, OWN_FOLDER "/trash", err);
}
