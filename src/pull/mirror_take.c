/*
 * In <root>/.refrelay/adopt/<id>:
 *	tree/	what stood at NAME, moved here by one rename
 *	git/	the bare repository that becomes NAME.git
 *	kept	the tree may have something that is in no commit
 *
 *	1. NAME becomes tree/: whoever still works there fails, instead of changing what
 *	   is looked at; `kept` is there before, since nobody has looked yet;
 *	2. git/ is made anew, with all that it needs but objects; `kept` goes if all of
 *	   the tree is in commits; all that is on disk;
 *	3. tree/.git/objects becomes git/objects;
 *	4. git/ becomes NAME.git;
 *	5. tree/ goes to the trash or, if `kept`, to .refrelay/kept, where nothing removes
 *	   it.
 *
 * Each step is one rename, or is done again as a whole: what there is says how far it
 * came. Where objects are still in tree/, git/ is worth nothing. If somebody else has
 * made NAME.git meanwhile, what has the objects is kept, too. A node that was suspended
 * may go on at any step beside its successor: what has objects is never removed.
 *
 * What the other program has fetched is the upstream's own: the refs below
 * refs/remotes/origin, what their reflogs name, and the commits where a shallow history
 * ends. Where all local refs are among those or before them, the refs count as refrelay's
 * (copy_intent_write): the sync follows whatever the upstream did since. Otherwise local
 * refs stay as they are, and the sync holds the mirror until a person has decided, if the
 * upstream lacks their commits; so it does if the clone was fetched from another URL. Of
 * annotated tags git does not say whose they are: the tree is kept, with its refs.
 */
#include "pull/mirror_take.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "git/checksum.h"
#include "git/cuts.h"
#include "git/fence.h"
#include "git/refs.h"
#include "git/repo.h"
#include "pull/clone_secrets.h"
#include "pull/copy_record.h"
#include "pull/mend.h"
#include "pull/mirror_fit.h"
#include "pull/sync_repository.h"
#include "replicable/name.h"
#include "upkeep/trash.h"

#define PLACE OWN_FOLDER "/adopt"
#define KEPT_FOLDER OWN_FOLDER "/kept"
#define TREE "tree"
#define GIT "git"
#define KEPT "kept"
#define DOT_GIT TREE "/.git"
#define OBJECTS "objects"
#define LINKED DOT_GIT "/objects.new"
#define ORIGIN "refs/remotes/origin/"
#define HEADS "refs/heads/"
#define STASHES "logs/refs/stash"
#define LOG_MOST ((size_t)1 << 20)
#define DEPTH_MOST 64
#define FILE_MOST ((size_t)256 << 20)

struct taking {
	struct job *job;
	const struct mirror_take *take;
	int root;       /* open */
	int place;      /* <root>/.refrelay/adopt/<id>, open; -1: not yet */
	int dot_git;    /* tree/.git, likewise: nobody can exchange it */
	char *below;    /* the place's path below the root; owned */
	char *absolute; /* likewise */
	char *lender;   /* what has the objects, absolute; NULL: NAME.git; owned */
	struct mirror_fit clone; /* what dot_git has */
	bool is_own;             /* it has commits that the upstream does not have */
	bool is_unsure;  /* it has tags that may be a person's, or stashes that no ref
			    names */
	bool is_foreign; /* its upstream may be another than the mirror's */
};

static char *mirror_take_below(const struct mirror_take *take)
{
	return xasprintf(PLACE "/%" PRIu64, replicable_id(KIND_REPOSITORY, take->name));
}

static void mirror_take_refuse(const struct mirror_take *take, const struct err *why)
{
	log_warn("mirror.not_taken_over", LOG_TEXT("name", take->name),
		 LOG_TEXT("path", take->name), LOG_ERR(why),
		 LOG_TEXT("remedy", why->remedy));
}

/* 1: it stays where it is, as the log says. -1: that is not for good. */
static int mirror_take_decide(const struct mirror_take *take, const struct err *why)
{
	if (!mirror_fit_is_final(why))
		return -1;
	mirror_take_refuse(take, why);
	return 1;
}

/* 0: the clone is fit. 1: there is none, or it stays where it is. */
static int mirror_take_check_fit(const struct mirror_take *take, int root,
				 struct err *err)
{
	int result = mirror_fit_check(root, take->name, err);

	if (result == 0 && take->unread) {
		*err = *take->unread;
		result = -1;
	}
	return result < 0 ? mirror_take_decide(take, err) : result;
}

/* 1: something has that name. */
static int mirror_take_find(int root, const char *path, struct err *err)
{
	struct stat st;

	if (fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 1;
	return errno == ENOENT || errno == ENOTDIR
		       ? 0
		       : err_errno(err, "cannot look at %s", path);
}

int mirror_take_is_needed(const struct mirror_take *take, struct err *err)
{
	AUTO_CLOSE int root = dir_open(AT_FDCWD, take->root, err);
	AUTO_FREE char *begun = mirror_take_below(take);
	AUTO_FREE char *bare = name_to_path(take->name);
	int found = root < 0 ? -1 : mirror_take_find(root, begun, err);

	if (found != 0)
		return found;
	found = mirror_take_find(root, bare, err);
	if (found != 0)
		return found > 0 ? 0 : -1;
	found = mirror_take_check_fit(take, root, err);
	return found < 0 ? -1 : found == 0;
}

/*
 * Step 1.
 */

/* Git has it for a moment, or has died with it. */
static int mirror_take_check_locks(const struct taking *taking, struct err *err)
{
	static const char *const names[] = { "index.lock", "HEAD.lock", "config.lock",
					     "packed-refs.lock", "shallow.lock" };
	const struct mirror_take *take = taking->take;
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO_FREE char *path = xasprintf("%s/.git/%s", take->name, names[i]);
		if (fstatat(taking->root, path, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
		    time(NULL) - st.st_mtime > MIRROR_TAKE_LOCK_AGE_S)
			continue;
		err_set(err, ERR_CONFLICT, "%s: somebody is working in this clone", path);
		return err_remedy(err, "stop the program that does; if none runs there, "
				       "remove this file");
	}
	return 0;
}

/* 1: it stays where it is. */
static int mirror_take_rename(const struct taking *taking, struct err *err)
{
	AUTO_FREE char *tree = xasprintf("%s/" TREE, taking->below);

	if (renameat(taking->root, taking->take->name, taking->root, tree) == 0)
		return 0;
	const bool is_for_good =
		errno == EACCES || errno == EPERM || errno == EXDEV || errno == EBUSY;
	err_errno(err, "cannot move %s", taking->take->name);
	if (!is_for_good)
		return -1;
	mirror_take_refuse(taking->take, err);
	return 1;
}

/* 1: it stays where it is. */
static int mirror_take_move(const struct taking *taking, struct err *err)
{
	AUTO_FREE char *kept = xasprintf("%s/" KEPT, taking->below);
	int result = mirror_take_check_fit(taking->take, taking->root, err);

	if (result == 0 &&
	    mirror_fit_check_tree(taking->root, taking->take->name, err) != 0)
		result = mirror_take_decide(taking->take, err);
	if (result != 0)
		return result;
	if (mirror_take_check_locks(taking, err) != 0 ||
	    dir_make(taking->root, taking->below, err) != 0 ||
	    lease_check(taking->job->lease, err) != 0 ||
	    file_replace(taking->root, kept, "", 0, FILE_SYNC, err) != 0)
		return -1;
	failpoint("adopt.begins");
	result = mirror_take_rename(taking, err);
	if (result != 0)
		return result;
	failpoint("adopt.moved");
	return dir_sync(taking->root, taking->below, err) == 0 &&
			       dir_sync(taking->root, PLACE, err) == 0
		       ? 0
		       : -1;
}

/*
 * Step 2: what is the upstream's.
 */

/* "<old> <new> who when<TAB>what" */
static void mirror_take_add_log(const char *text, size_t oid_len, oid_list *known)
{
	const size_t digits = 2 * oid_len;
	struct oid oid;

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
		for (size_t i = 0; i < 2; i++) {
			const char *at = text + i * (digits + 1);
			if (strnlen(text, 2 * digits + 1) > 2 * digits &&
			    oid_parse(at, oid_len, &oid) && !oid_is_null(&oid))
				vec_add(known, oid);
		}
}

static void mirror_take_add_logs(const struct taking *taking, int parent,
				 const char *name, unsigned depth, oid_list *known)
{
	AUTO_CLOSEDIR DIR *dir = depth < DEPTH_MOST ? dir_list(parent, name) : NULL;
	struct dirent *entry;

	while (dir && (entry = readdir(dir)) != NULL) {
		AUTO_STR struct str text = STR_INIT;
		if (name_is_dots(entry->d_name))
			continue;
		if (dir_entry_is_directory(dirfd(dir), entry))
			mirror_take_add_logs(taking, dirfd(dir), entry->d_name, depth + 1,
					     known);
		else if (file_read(dirfd(dir), entry->d_name, FILE_MOST, &text,
				   ERR_IGNORED) == 0)
			mirror_take_add_log(text.data, taking->clone.repo.oid_len, known);
	}
}

static void mirror_take_find_known(const struct taking *taking, oid_list *known)
{
	for (size_t i = 0; i < taking->clone.refs.refs.count; i++) {
		const struct ref *ref = &taking->clone.refs.refs.items[i];
		if (!ref->target && text_starts_with(ref->name, ORIGIN))
			vec_add(known, ref->oid);
	}
	vec_add_all(known, taking->clone.cuts.items, taking->clone.cuts.count);
	mirror_take_add_logs(taking, taking->dot_git, "logs/" ORIGIN, 0, known);
	oid_list_tidy(known);
}

static void mirror_take_find_local(const struct taking *taking, const oid_list *known,
				   oid_list *local)
{
	for (size_t i = 0; i < taking->clone.refs.refs.count; i++) {
		const struct ref *ref = &taking->clone.refs.refs.items[i];
		if (!ref->target && !text_starts_with(ref->name, ORIGIN) &&
		    !oid_list_has(known, &ref->oid))
			vec_add(local, ref->oid);
	}
	if (!taking->clone.refs.head_target &&
	    !oid_list_has(known, &taking->clone.refs.head_oid))
		vec_add(local, taking->clone.refs.head_oid);
	oid_list_tidy(local);
}

/* With git/ for its configuration, and the tree's objects. */
static int mirror_take_run_git(const struct taking *taking, const char *const *args,
			       const struct str *input, struct str *output,
			       struct err *err)
{
	AUTO_FREE char *repository = xasprintf("%s/" GIT, taking->absolute);
	AUTO_FREE char *objects = xasprintf("%s/" DOT_GIT "/" OBJECTS, taking->absolute);
	AUTO_FREE char *tree = xasprintf("GIT_WORK_TREE=%s/" TREE, taking->absolute);
	AUTO_FREE char *index =
		xasprintf("GIT_INDEX_FILE=%s/" DOT_GIT "/index", taking->absolute);
	const char *const variables[] = { tree, index, NULL };

	return git_run(&(struct git_call){ .work = &taking->job->work,
					   .repository = repository,
					   .args = args,
					   .input = input,
					   .output = output,
					   .output_limit = FILE_MOST,
					   .variables = variables,
					   .object_directory = objects },
		       err);
}

/* Whether some is no commit, or is missing: git records of no tag where it came from. */
static bool mirror_take_has_tags(const struct taking *taking, const oid_list *local)
{
	static const char *const args[] = { "cat-file", "--batch-check=%(objecttype)",
					    NULL };
	AUTO_STR struct str input = STR_INIT, output = STR_INIT;
	const char *at;

	oid_list_add_lines(local, "", &input);
	if (local->count > 0 &&
	    mirror_take_run_git(taking, args, &input, &output, ERR_IGNORED) != 0)
		return true;
	for (at = output.data; at && text_starts_with(at, "commit\n");)
		at += strlen("commit\n");
	return at && *at;
}

/* All but the latest are named by its log alone. */
static bool mirror_take_has_older_stashes(const struct taking *taking)
{
	AUTO_STR struct str log = STR_INIT;
	const char *end;

	if (!file_is_there(taking->dot_git, STASHES))
		return false;
	if (file_read(taking->dot_git, STASHES, LOG_MOST, &log, ERR_IGNORED) != 0)
		return true;
	end = strchr(log.data, '\n');
	return end && end[1];
}

/* What cannot be told counts as a person's. */
static void mirror_take_judge_refs(struct taking *taking)
{
	static const char *const args[] = { "rev-list", "--max-count=1",
					    "--ignore-missing", "--stdin", NULL };
	AUTO_STR struct str input = STR_INIT, output = STR_INIT;
	oid_list known = { 0 }, local = { 0 };

	mirror_take_find_known(taking, &known);
	mirror_take_find_local(taking, &known, &local);
	oid_list_add_lines(&local, "", &input);
	oid_list_add_lines(&known, "^", &input);
	taking->is_own =
		local.count > 0 &&
		(mirror_take_run_git(taking, args, &input, &output, ERR_IGNORED) != 0 ||
		 output.len > 0);
	taking->is_unsure = mirror_take_has_tags(taking, &local) ||
			    mirror_take_has_older_stashes(taking);
	vec_clear(&known);
	vec_clear(&local);
}

/* Without what does not make another upstream of it; of scheme and host, whose case does
 * not matter either, in small letters. */
static void mirror_take_normalize_url(const char *url, struct str *out)
{
	const char *host;

	clone_secrets_strip_urls(url, NULL, out);
	while (out->len > 0 && strchr("/\n", out->data[out->len - 1]))
		str_truncate(out, out->len - 1);
	if (text_ends_with(out->data, ".git"))
		str_truncate(out, out->len - strlen(".git"));
	host = strstr(out->data, "://");
	if (!host)
		return;
	host += strlen("://");
	for (char *at = out->data; at < host + strcspn(host, "/"); at++)
		*at = (char)tolower((unsigned char)*at);
}

static void mirror_take_judge_url(struct taking *taking)
{
	AUTO_FREE char *config = xasprintf("%s/" DOT_GIT "/config", taking->absolute);
	const char *const args[] = {
		"config", "--file", config, "--get", "remote.origin.url", NULL
	};
	AUTO_STR struct str output = STR_INIT, own = STR_INIT, wanted = STR_INIT;
	int result = mirror_take_run_git(taking, args, NULL, &output, ERR_IGNORED);

	mirror_take_normalize_url(output.data, &own);
	mirror_take_normalize_url(taking->take->url, &wanted);
	taking->is_foreign = result != 0 || strcmp(own.data, wanted.data) != 0;
}

/* Whether anything is there, or cannot be read. */
static bool mirror_take_is_filled(const struct taking *taking, const char *path)
{
	AUTO_FREE char *below = xasprintf(TREE "/%s", path);

	return !dir_is_empty(taking->place, below) && errno != ENOENT;
}

/* "H <mode> <oid> <stage>\t<path>": git does not look at what a person has told it not to
 * (small letters, S), nor at all of a submodule. */
static bool mirror_take_is_hidden(const struct taking *taking, const char *record)
{
	const char *path = strchr(record, '\t');

	if (!path || islower((unsigned char)record[0]) || record[0] == 'S')
		return true;
	return text_starts_with(record + 1, " 160000 ") &&
	       mirror_take_is_filled(taking, path + 1);
}

/* Whether there may be work of a person that git's lists of changes leave out. */
static bool mirror_take_hides_changes(const struct taking *taking)
{
	static const char *const args[] = { "ls-files", "-v", "--stage", "-z", NULL };
	AUTO_STR struct str output = STR_INIT;

	if (file_is_there(taking->dot_git, "modules") ||
	    file_is_there(taking->dot_git, "lfs/objects") ||
	    mirror_take_run_git(taking, args, NULL, &output, ERR_IGNORED) != 0)
		return true;
	for (size_t at = 0; at < output.len; at += strlen(output.data + at) + 1)
		if (mirror_take_is_hidden(taking, output.data + at))
			return true;
	return false;
}

/* Whether a file is in no commit, or not as there; what does not fit into the output is
 * more than nothing. */
static bool mirror_take_has_changes(const struct taking *taking)
{
	static const char *const files[] = { "ls-files", "--modified", "--deleted",
					     "--others", "-z",         NULL };
	AUTO_STR struct str head = STR_INIT, output = STR_INIT;
	const bool has_index = file_is_there(taking->dot_git, "index");
	struct oid oid;

	if (mirror_take_hides_changes(taking) ||
	    mirror_take_run_git(taking, files, NULL, &output, ERR_IGNORED) != 0 ||
	    output.len > 0 ||
	    (has_index && !ref_snapshot_head(&taking->clone.refs, &oid)))
		return true;
	if (!has_index)
		return false;
	oid_add_text(&oid, &head);
	const char *const staged[] = { "diff-index", "--cached", "--name-only",
				       "-z",         head.data,  NULL };
	return mirror_take_run_git(taking, staged, NULL, &output, ERR_IGNORED) != 0 ||
	       output.len > 0;
}

/*
 * Step 2: git/.
 */

static void mirror_take_add_ref(struct ref_snapshot *to, const struct ref *ref,
				const char *name)
{
	struct ref mapped = *ref;

	mapped.name = ref_snapshot_keep(to, name, strlen(name));
	mapped.is_loose = false;
	vec_add(&to->refs, mapped);
}

static bool mirror_take_has_origin(const struct taking *taking)
{
	for (size_t i = 0; i < taking->clone.refs.refs.count; i++)
		if (text_starts_with(taking->clone.refs.refs.items[i].name, ORIGIN))
			return true;
	return false;
}

/* What the upstream calls refs/heads/main is refs/remotes/origin/main here. */
static void mirror_take_map(const struct taking *taking, struct ref_snapshot *to)
{
	const bool is_mapped = !taking->is_own && mirror_take_has_origin(taking);

	for (size_t i = 0; i < taking->clone.refs.refs.count; i++) {
		const struct ref *ref = &taking->clone.refs.refs.items[i];
		if (ref->target)
			continue;
		if (is_mapped && text_starts_with(ref->name, ORIGIN)) {
			AUTO_FREE char *name =
				xasprintf(HEADS "%s", ref->name + strlen(ORIGIN));
			mirror_take_add_ref(to, ref, name);
		} else if (!text_starts_with(ref->name, ORIGIN) &&
			   (!is_mapped || text_starts_with(ref->name, "refs/tags/"))) {
			mirror_take_add_ref(to, ref, ref->name);
		}
	}
	vec_sort(&to->refs, ref_compare_names);
}

/* NULL: as it is in a new repository. The caller frees. */
static char *mirror_take_head(const struct taking *taking)
{
	const struct ref *head = ref_snapshot_find(&taking->clone.refs, ORIGIN "HEAD");

	if (!taking->is_own && head && head->target &&
	    text_starts_with(head->target, ORIGIN) && ref_name_is_valid(head->target))
		return xasprintf("ref: " HEADS "%s\n", head->target + strlen(ORIGIN));
	if (taking->clone.refs.head_target &&
	    text_starts_with(taking->clone.refs.head_target, HEADS))
		return xasprintf("ref: %s\n", taking->clone.refs.head_target);
	return NULL;
}

/* A commit that only HEAD names. */
static void mirror_take_save_head(const struct taking *taking, struct ref_snapshot *to)
{
	const struct ref head = { .oid = taking->clone.refs.head_oid };

	if (taking->is_own && !taking->clone.refs.head_target)
		mirror_take_add_ref(to, &head, HEADS "head-of-the-working-tree");
}

static int mirror_take_write_refs(const struct taking *taking, int git, struct err *err)
{
	AUTO_SNAPSHOT struct ref_snapshot to = REF_SNAPSHOT_INIT;
	AUTO_STR struct str text = STR_INIT;
	AUTO_FREE char *head = mirror_take_head(taking);

	mirror_take_save_head(taking, &to);
	mirror_take_map(taking, &to);
	ref_write_packed(&to, &text);
	if (file_replace(git, "packed-refs", text.data, text.len, FILE_SYNC, err) != 0)
		return -1;
	return head ? file_replace(git, "HEAD", head, strlen(head), FILE_SYNC, err) : 0;
}

static int mirror_take_write_cuts(const struct taking *taking, int git, struct err *err)
{
	return taking->clone.cuts.count > 0 ? cuts_end(git, &taking->clone.cuts, err) : 0;
}

static int mirror_take_write_intent(const struct taking *taking, int git, struct err *err)
{
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;
	struct checksum sum;

	if (taking->is_own || taking->is_foreign)
		return 0;
	if (ref_snapshot_read(git, taking->clone.repo.oid_len, &refs, err) != 0)
		return -1;
	checksum_of_refs(&refs, &sum);
	return copy_intent_write(git, &sum, 1, err);
}

/* Whether the tree is kept: on disk before anything of what says so goes. */
static int mirror_take_judge_tree(const struct taking *taking, struct err *err)
{
	if (taking->is_unsure || mirror_take_has_changes(taking))
		return file_replace(taking->place, KEPT, "", 0, FILE_SYNC, err);
	if (unlinkat(taking->place, KEPT, 0) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove %s/" KEPT, taking->below);
	return 0;
}

/* A node that held the lease before does not remove what its successor has moved here. */
static int mirror_take_fail_lost(const struct taking *taking, struct err *err)
{
	if (errno != ENOTEMPTY && errno != EEXIST)
		return err_errno(err, "cannot remove %s/" GIT, taking->below);
	return err_set(err, ERR_LOST,
		       "%s/" GIT " has objects: a later lease holder is at work",
		       taking->below);
}

/* ERR_LOST: it has some. */
static int mirror_take_remove_objects(const struct taking *taking, struct err *err)
{
	static const char *const folders[] = { GIT "/" OBJECTS "/pack",
					       GIT "/" OBJECTS "/info", GIT "/" OBJECTS };

	if (lease_check(taking->job->lease, err) != 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (unlinkat(taking->place, folders[i], AT_REMOVEDIR) != 0 &&
		    errno != ENOENT)
			return mirror_take_fail_lost(taking, err);
	return 0;
}

/* All but objects, which may come at any moment. */
static int mirror_take_remove_git(const struct taking *taking, struct err *err)
{
	if (mirror_take_remove_objects(taking, err) != 0)
		return -1;
	AUTO_CLOSEDIR DIR *dir = dir_list(taking->place, GIT);
	struct dirent *entry;
	if (!dir)
		return errno == ENOENT
			       ? 0
			       : err_errno(err, "cannot list %s/" GIT, taking->below);
	while ((entry = readdir(dir)) != NULL)
		if (!name_is_dots(entry->d_name) && strcmp(entry->d_name, OBJECTS) != 0 &&
		    tree_remove(dirfd(dir), entry->d_name, err) != 0)
			return -1;
	return unlinkat(taking->place, GIT, AT_REMOVEDIR) == 0 || errno == ENOENT
		       ? 0
		       : mirror_take_fail_lost(taking, err);
}

/* Looks again: until it was moved, others could change it. */
static int mirror_take_open(struct taking *taking, struct err *err)
{
	taking->dot_git =
		path_open_beneath(taking->place, DOT_GIT, O_RDONLY | O_DIRECTORY);
	if (taking->dot_git < 0)
		return err_errno(err, "cannot open .git");
	return mirror_fit_read(taking->root, taking->dot_git, &taking->clone, err);
}

static int mirror_take_build(struct taking *taking, struct err *err)
{
	if (mirror_take_open(taking, err) != 0 ||
	    mirror_take_remove_git(taking, err) != 0 ||
	    repo_make(taking->place, GIT, taking->clone.repo.oid_len, err) != 0)
		return -1;
	AUTO_CLOSE int git = dir_open(taking->place, GIT, err);
	if (git < 0 || mirror_take_write_cuts(taking, git, err) != 0)
		return -1;
	mirror_take_judge_refs(taking);
	mirror_take_judge_url(taking);
	if (mirror_take_write_refs(taking, git, err) != 0 ||
	    fence_raise(git, taking->job->fence, err) != 0 ||
	    mirror_take_write_intent(taking, git, err) != 0 ||
	    mirror_take_judge_tree(taking, err) != 0 || sync_make_durable(git, err) != 0)
		return -1;
	failpoint("adopt.built");
	return lease_check(taking->job->lease, err);
}

/*
 * Steps 3 to 5.
 */

static int mirror_take_check_moved(const struct taking *taking, struct err *err)
{
	AUTO_CLOSE int git = dir_open(taking->place, GIT, err);

	if (git >= 0 && mirror_fit_check_objects(taking->root, git, err) == 0)
		return 0;
	if (renameat(taking->place, GIT "/" OBJECTS, taking->dot_git, OBJECTS) != 0)
		return err_errno(err, "cannot move objects back");
	return -1;
}

static int mirror_take_move_objects(const struct taking *taking, struct err *err)
{
	if (mirror_take_remove_objects(taking, err) != 0)
		return -1;
	failpoint("adopt.emptied");
	if (renameat(taking->dot_git, OBJECTS, taking->place, GIT "/" OBJECTS) != 0)
		return err_errno(err, "cannot move its objects");
	failpoint("adopt.objects");
	if (mirror_take_check_moved(taking, err) != 0)
		return -1;
	/* In this order: one that is in neither after a power cut is lost. */
	if (dir_sync(taking->place, GIT, err) != 0)
		return -1;
	return fsync(taking->dot_git) == 0 ? 0 : err_errno(err, "cannot sync .git");
}

/* The fence is that of the step's own lease, which may be a later one. */
static int mirror_take_place(const struct taking *taking, struct err *err)
{
	AUTO_FREE char *staging = xasprintf("%s/" GIT, taking->absolute);
	AUTO_FREE char *below = name_to_path(taking->take->name);
	AUTO_CLOSE int git = dir_open(taking->place, GIT, err);

	if (git < 0 || fence_raise(git, taking->job->fence, err) != 0 ||
	    place_new(&(struct placing){ .job = taking->job,
					 .root = taking->take->root,
					 .staging = staging,
					 .below = below },
		      err) != 0)
		return -1;
	failpoint("adopt.placed");
	log_info("mirror.taken_over", LOG_TEXT("name", taking->take->name));
	return 0;
}

static int mirror_take_link_below(int from, int to, struct err *err)
{
	AUTO_CLOSEDIR DIR *list = dir_list(from, ".");
	struct dirent *entry;

	if (!list)
		return err_errno(err, "cannot list " OBJECTS);
	while (errno = 0, (entry = readdir(list)) != NULL) {
		const char *name = entry->d_name;
		if (name_is_dots(name))
			continue;
		if (!dir_entry_is_directory(from, entry)) {
			if (linkat(from, name, to, name, 0) != 0)
				return err_errno(err, "cannot link " OBJECTS "/%s", name);
			continue;
		}
		if (dir_make(to, name, err) != 0)
			return -1;
		AUTO_CLOSE int below = dir_open(from, name, err);
		AUTO_CLOSE int made = below < 0 ? -1 : dir_open(to, name, err);
		if (made < 0 || mirror_take_link_below(below, made, err) != 0)
			return -1;
	}
	return errno == 0 ? 0 : err_errno(err, "cannot list " OBJECTS);
}

static int mirror_take_link_objects(const struct taking *taking, const char *lender,
				    struct err *err)
{
	AUTO_FREE char *objects = xasprintf("%s/" OBJECTS, lender);
	AUTO_CLOSE int from = dir_open(AT_FDCWD, objects, err);

	if (from < 0 || tree_remove(taking->place, LINKED, err) != 0 ||
	    dir_make(taking->place, LINKED, err) != 0)
		return -1;
	AUTO_CLOSE int to = dir_open(taking->place, LINKED, err);
	if (to < 0 || mirror_take_link_below(from, to, err) != 0)
		return -1;
	return renameat(taking->place, LINKED, taking->place, DOT_GIT "/" OBJECTS) == 0
		       ? 0
		       : err_errno(err, "cannot rename " LINKED);
}

static int mirror_take_borrow_objects(const struct taking *taking, const char *lender,
				      struct err *err)
{
	static const char path[] = DOT_GIT "/" OBJECTS "/info/alternates";
	AUTO_FREE char *line = xasprintf("%s/" OBJECTS "\n", lender);

	if (dir_make(taking->place, DOT_GIT "/" OBJECTS, err) != 0 ||
	    dir_make(taking->place, DOT_GIT "/" OBJECTS "/info", err) != 0 ||
	    dir_make(taking->place, DOT_GIT "/" OBJECTS "/pack", err) != 0)
		return -1;
	if (file_replace(taking->place, path, line, strlen(line), FILE_SYNC, err) != 0)
		return -1;
	return file_sync_parents(taking->place, path, err);
}

/* So that git shows a person what the changes are. What is staged, stashed or tagged is
 * in no ref of the mirror, so its objects must outlive the mirror's clone, too. Files of
 * another user may not be linked: then they are borrowed. */
static void mirror_take_lend_objects(const struct taking *taking)
{
	AUTO_FREE char *copy = name_to_copy(taking->take->root, taking->take->name);
	const char *lender = taking->lender ? taking->lender : copy;
	struct err err;

	if (file_is_there(taking->place, DOT_GIT "/" OBJECTS) ||
	    mirror_take_link_objects(taking, lender, &err) == 0)
		return;
	log_warn("upkeep.failed", LOG_ERR(&err));
	tree_remove(taking->place, LINKED, ERR_IGNORED);
	if (mirror_take_borrow_objects(taking, lender, &err) != 0)
		log_warn("upkeep.failed", LOG_ERR(&err));
}

/* The caller frees; NULL: *err. */
static char *mirror_take_make_kept(const struct taking *taking, const char *trash,
				   const char *end, struct err *err)
{
	return dir_make(taking->root, KEPT_FOLDER, err) == 0
		       ? xasprintf(KEPT_FOLDER "%s%s", strrchr(trash, '/'), end)
		       : NULL;
}

/* Told before it is done: a crash in between cannot lose it. */
static void mirror_take_tell(const struct taking *taking, const char *kept,
			     const char *trash)
{
	if (kept)
		log_warn("mirror.work_tree_kept", LOG_TEXT("name", taking->take->name),
			 LOG_TEXT("path", kept),
			 LOG_TEXT("remedy",
				  "it may have files, commits or tags that are "
				  "not in the mirror: save them, and remove it"));
	else
		log_info("trash.put", LOG_TEXT("path", taking->take->name),
			 LOG_TEXT("to", trash));
}

/* For good: where the file system has no journal, a power cut could else leave it in
 * neither folder. */
static int mirror_take_move_out(const struct taking *taking, const char *what,
				const char *to, struct err *err)
{
	if (renameat(taking->place, what, taking->root, to) != 0)
		return err_errno(err, "cannot move %s", what);
	return file_sync_parent(taking->root, to, err);
}

/* Objects that are still in the tree are nowhere else. */
static int mirror_take_put_away(const struct taking *taking, const char *trash,
				struct err *err)
{
	const bool is_kept = file_is_there(taking->place, KEPT) ||
			     file_is_there(taking->place, DOT_GIT "/" OBJECTS);
	AUTO_FREE char *kept =
		is_kept ? mirror_take_make_kept(taking, trash, "", err) : NULL;

	if (is_kept && !kept)
		return -1;
	if (is_kept)
		mirror_take_lend_objects(taking);
	if (lease_check(taking->job->lease, err) != 0)
		return -1;
	mirror_take_tell(taking, kept, trash);
	failpoint("adopt.told");
	if (mirror_take_move_out(taking, TREE, is_kept ? kept : trash, err) != 0)
		return -1;
	failpoint("adopt.put_away");
	return 0;
}

/* Somebody else has made NAME.git, and git/ has the clone's only objects. */
static int mirror_take_keep_git(struct taking *taking, const char *trash, struct err *err)
{
	AUTO_FREE char *kept = mirror_take_make_kept(taking, trash, ".git", err);

	if (!kept || lease_check(taking->job->lease, err) != 0)
		return -1;
	log_warn("mirror.objects_kept", LOG_TEXT("name", taking->take->name),
		 LOG_TEXT("path", kept),
		 LOG_TEXT("remedy", "somebody has made the mirror's clone while another "
				    "was taken over, whose objects are here: save what "
				    "is only there, and remove it"));
	if (mirror_take_move_out(taking, GIT, kept, err) != 0)
		return -1;
	free(taking->lender);
	taking->lender = xasprintf("%s/%s", taking->take->root, kept);
	return 0;
}

static int mirror_take_finish(struct taking *taking, bool has_place, struct err *err)
{
	AUTO_FREE char *trash =
		trash_make_place(taking->job, taking->root, taking->take->name, err);

	if (!trash)
		return -1;
	if (has_place && file_is_there(taking->place, GIT "/" OBJECTS) &&
	    !file_is_there(taking->place, DOT_GIT "/" OBJECTS) &&
	    mirror_take_keep_git(taking, trash, err) != 0)
		return -1;
	return file_is_there(taking->place, TREE)
		       ? mirror_take_put_away(taking, trash, err)
		       : 0;
}

/* The place, but for what may have objects: of files there are `kept`, and what
 * file_replace left of it in a crash. */
static int mirror_take_clear_place(const struct taking *taking, struct err *err)
{
	struct dirent *entry;

	if (mirror_take_remove_git(taking, err) != 0)
		return -1;
	AUTO_CLOSEDIR DIR *dir = dir_list(taking->place, ".");
	while (dir && (entry = readdir(dir)) != NULL)
		if (text_starts_with(entry->d_name, KEPT))
			unlinkat(taking->place, entry->d_name, 0);
	if (unlinkat(taking->root, taking->below, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	return err_errno(err, "cannot remove the directory");
}

static int mirror_take_go_on(struct taking *taking, struct err *err)
{
	AUTO_FREE char *bare = name_to_path(taking->take->name);
	const bool has_place = file_is_there(taking->root, bare);

	if (!has_place && file_is_there(taking->place, DOT_GIT "/" OBJECTS) &&
	    (mirror_take_build(taking, err) != 0 ||
	     mirror_take_move_objects(taking, err) != 0))
		return -1;
	if (!has_place && file_is_there(taking->place, GIT "/" OBJECTS) &&
	    mirror_take_place(taking, err) != 0)
		return -1;
	return mirror_take_finish(taking, has_place, err) == 0
		       ? mirror_take_clear_place(taking, err)
		       : -1;
}

static int mirror_take_run(struct taking *taking, struct err *err)
{
	AUTO_FREE char *tree = xasprintf("%s/" TREE, taking->below);
	AUTO_FREE char *git = xasprintf("%s/" GIT, taking->below);
	AUTO_FREE char *bare = name_to_path(taking->take->name);

	if (!file_is_there(taking->root, tree) && !file_is_there(taking->root, git) &&
	    !file_is_there(taking->root, bare) && mirror_take_move(taking, err) < 0)
		return -1;
	if (!file_is_there(taking->root, taking->below))
		return 0;
	taking->place = dir_open(taking->root, taking->below, err);
	if (taking->place >= 0 && mirror_take_go_on(taking, err) == 0)
		return 0;
	return err_prefix(err, "%s, which was %s", taking->below, taking->take->name);
}

int mirror_take_over(struct job *job, const struct mirror_take *take, struct err *err)
{
	struct taking taking = { .job = job,
				 .take = take,
				 .root = -1,
				 .place = -1,
				 .dot_git = -1,
				 .clone = MIRROR_FIT_INIT };
	int result = -1;

	taking.root = dir_open(AT_FDCWD, take->root, err);
	taking.below = mirror_take_below(take);
	taking.absolute = xasprintf("%s/%s", take->root, taking.below);
	if (taking.root >= 0)
		result = mirror_take_run(&taking, err);
	mirror_fit_clear(&taking.clone);
	if (taking.dot_git >= 0)
		close(taking.dot_git);
	if (taking.place >= 0)
		close(taking.place);
	if (taking.root >= 0)
		close(taking.root);
	free(taking.below);
	free(taking.absolute);
	free(taking.lender);
	return result;
}
