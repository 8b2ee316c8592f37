#include "git/objects.h"

#include <fcntl.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/str.h"
#include "git/packs.h"
#include "git/sound_files.h"

/* Git writes objects/info/packs anew for readers that only know files. */
static bool object_files_is_passing(const char *name)
{
	return name[0] == '.' || text_starts_with(name, "tmp_") ||
	       strcmp(name, "packs") == 0;
}

static int take_folder(int dir, const char *folder, object_files *files, struct err *err)
{
	struct dirent *entry;
	struct object_file file;
	AUTO_CLOSEDIR DIR *list = dir_list(dir, folder);

	if (!list)
		return errno == ENOENT ? 0 : err_errno(err, "cannot list %s", folder);
	while (errno = 0, (entry = readdir(list)) != NULL) {
		if (object_files_is_passing(entry->d_name) ||
		    fstatat(dirfd(list), entry->d_name, &file.stat,
			    AT_SYMLINK_NOFOLLOW) != 0 ||
		    !S_ISREG(file.stat.st_mode))
			continue;
		file.path = xasprintf("%s/%s", folder, entry->d_name);
		vec_add(files, file);
	}
	return errno == 0 ? 0 : err_errno(err, "cannot list %s", folder);
}

int object_files_take(int dir, object_files *files, struct err *err)
{
	*files = (object_files){ 0 };
	if (take_folder(dir, "objects/pack", files, err) != 0)
		return -1;
	return take_folder(dir, "objects/info", files, err);
}

void object_files_clear(object_files *files)
{
	vec_clear_members(files, path);
}

/* Nobody can set ctime back. A new link changes it: what was read since is the same. */
static bool object_files_is_same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_mode == b->st_mode &&
	       a->st_size == b->st_size && clock_same_time(&a->st_mtim, &b->st_mtim) &&
	       (clock_same_time(&a->st_ctim, &b->st_ctim) || sound_file_is(b));
}

const char *object_files_changed(const object_files *files, int dir, bool may_be_gone)
{
	struct stat now;

	for (size_t i = 0; i < files->count; i++) {
		const struct object_file *file = &files->items[i];
		if (fstatat(dir, file->path, &now, AT_SYMLINK_NOFOLLOW) != 0) {
			if (!may_be_gone || errno != ENOENT)
				return file->path;
		} else if (!object_files_is_same(&file->stat, &now)) {
			return file->path;
		}
	}
	return NULL;
}

void oid_list_add_tips(oid_list *list, const struct ref_snapshot *snapshot)
{
	for (size_t i = 0; i < snapshot->refs.count; i++)
		if (!snapshot->refs.items[i].target)
			vec_add(list, snapshot->refs.items[i].oid);
	if (!snapshot->head_target)
		vec_add(list, snapshot->head_oid);
	oid_list_tidy(list);
}

/* More tips than this tell the other side nothing new. */
#define TIPS_LIMIT 200

typedef VEC(const char *) arguments;

/* Git takes no ref that would need a cut of the history of its own, and ends well; some
 * of the objects have come by then. */
static int objects_refuse_shallow(const struct proc_result *ended, struct err *err)
{
	if (!strstr(ended->tail, "shallow roots are not allowed to be updated"))
		return 0;
	err_set(err, ERR_CONFIG,
		"the source is shallow: its history is cut short, so it cannot be copied "
		"completely");
	err_because(err, REASON_AT_PEER);
	return err_remedy(err, "have it completed there (git fetch --unshallow); a "
			       "mirror may have a depth instead");
}

/* Git takes a URL without a slash, as host:r.git, for the name of a file there. */
static int objects_check_nick(const struct repo *repo, const char *url, struct err *err)
{
	static const char *const folders[] = { "remotes", "branches" };

	for (size_t i = 0; !strchr(url, '/') && i < ARRAY_SIZE(folders); i++) {
		AUTO_FREE char *file = xasprintf("%s/%s", folders[i], url);
		if (!file_is_there(repo->fd, file))
			continue;
		err_set(err, ERR_CONFIG,
			"the copy has a file %s: git would fetch from elsewhere", file);
		return err_remedy(err, "remove that file");
	}
	return 0;
}

/* Ends and clears the arguments. */
static int run_fetch(struct git_call call, const struct repo *repo, arguments *args,
		     const oid_list *wanted, struct err *err)
{
	AUTO_STR struct str input = STR_INIT;
	struct proc_result ended;
	int result;

	vec_add(args, "--");
	vec_add(args, call.remote->url);
	vec_add(args, NULL);
	oid_list_add_lines(wanted, "", &input);
	call.repository = repo->path;
	call.args = args->items;
	call.input = &input;
	call.ended = &ended;
	result = objects_check_nick(repo, call.remote->url, err);
	if (result == 0)
		result = git_run(&call, err);
	vec_clear(args);
	failpoint("objects.fetched");
	if (result == 0)
		result = objects_refuse_shallow(&ended, err);
	return result == 0 ? dir_sync(repo->fd, "objects/pack", err) : -1;
}

/* What the copy's own config asks for beside what is wanted is refused: tags above all,
 * which git would make, or remove, before anybody has looked at them. */
static void add_fetch(arguments *args)
{
	static const char *const options[] = { "fetch",
					       "--quiet",
					       "--no-auto-maintenance",
					       "--no-write-fetch-head",
					       "--no-write-commit-graph",
					       "--no-tags",
					       "--no-prune",
					       "--no-prune-tags",
					       "--no-recurse-submodules",
					       "--refmap=",
					       "--stdin" };

	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		vec_add(args, options[i]);
}

int objects_fetch(const struct git_work *work, const struct repo *repo,
		  const struct git_remote *from, const oid_list *wanted,
		  const oid_list *have, struct err *err)
{
	char tips[TIPS_LIMIT][24 + OID_MAX_TEXT], text[OID_MAX_TEXT];
	arguments args = { 0 };

	add_fetch(&args);
	for (size_t i = 0; have && i < have->count && i < TIPS_LIMIT; i++) {
		snprintf(tips[i], sizeof(tips[i]), "--negotiation-tip=%s",
			 oid_text(&have->items[i], text));
		vec_add(&args, tips[i]);
	}
	return run_fetch((struct git_call){ .work = work, .remote = from }, repo, &args,
			 wanted, err);
}

int objects_fetch_anew(const struct git_work *work, const struct repo *repo,
		       const struct git_remote *from, const oid_list *wanted,
		       struct err *err)
{
	arguments args = { 0 };

	add_fetch(&args);
	vec_add(&args, "--refetch");
	return run_fetch((struct git_call){ .work = work, .remote = from }, repo, &args,
			 wanted, err);
}

/* Runs git in the repository, which it only reads, with the cuts that it is to have;
 * `call` has the rest. */
static int objects_run(const struct git_work *work, const struct repo *repo,
		       struct git_call call, struct err *err)
{
	AUTO_FREE char *cuts =
		repo->shallow_file ? xasprintf("GIT_SHALLOW_FILE=%s", repo->shallow_file)
				   : NULL;
	const char *const variables[] = { cuts, NULL };

	call.work = work;
	call.repository = repo->path;
	call.variables = variables;
	call.reach = git_reach_of(repo);
	return git_run(&call, err);
}

/* Asks `git cat-file` one question a line; the answers come in the same order. */
static int objects_ask(const struct git_work *work, const struct repo *repo,
		       const struct str *questions, struct str *answers, struct err *err)
{
	static const char *const args[] = { "cat-file",
					    "--batch-check=%(objectname) %(objecttype)",
					    NULL };

	return git_run(&(struct git_call){ .work = work,
					   .repository = repo->path,
					   .args = args,
					   .reach = git_reach_of(repo),
					   .input = questions,
					   .output = answers,
					   .output_limit = (size_t)1 << 30 },
		       err);
}

static bool line_ends_with(const char *line, size_t len, const char *suffix)
{
	size_t tail = strlen(suffix);

	return len >= tail && memcmp(line + len - tail, suffix, tail) == 0;
}

int objects_present(const struct git_work *work, const struct repo *repo,
		    const oid_list *asked, oid_list *present, struct err *err)
{
	AUTO_STR struct str questions = STR_INIT;
	AUTO_STR struct str answers = STR_INIT;
	const char *line;

	oid_list_add_lines(asked, "", &questions);
	if (objects_ask(work, repo, &questions, &answers, err) != 0)
		return -1;
	line = answers.data;
	for (size_t i = 0; i < asked->count; i++) {
		size_t len = strcspn(line, "\n");
		if (!line_ends_with(line, len, " missing"))
			vec_add(present, asked->items[i]);
		line += len + (line[len] == '\n');
	}
	return 0;
}

/* By a commit-graph git would take a commit's parents and tree, and not look whether the
 * commit itself is there. */
int objects_are_complete(const struct git_work *work, const struct repo *repo,
			 const oid_list *asked, struct err *err)
{
	static const char *const args[] = { "-c",       "core.commitGraph=false",
					    "rev-list", "--objects",
					    "--quiet",  "--stdin",
					    NULL };
	AUTO_STR struct str input = STR_INIT;

	oid_list_add_lines(asked, "", &input);
	if (objects_run(work, repo, (struct git_call){ .args = args, .input = &input },
			err) == 0)
		return 1;
	return err->class == ERR_CORRUPT ||
			       (err->class == ERR_INTERNAL && err->sys_errno == 0)
		       ? 0
		       : -1;
}

static int objects_fail_not_there(const struct ref *ref, struct err *err)
{
	char text[OID_MAX_TEXT];

	err_set(err, ERR_CORRUPT, "%s names %s, an object that is not there", ref->name,
		oid_text(&ref->oid, text));
	return err_remedy(err, "restore the object, or delete that ref");
}

typedef VEC(struct ref *) ref_list;

/* One line of answer for each ref: "<oid> <type>" or "<question> missing". */
static int read_types(const ref_list *refs, const struct str *answers, ref_list *tags,
		      struct err *err)
{
	const char *line = answers->data;

	for (size_t i = 0; i < refs->count; i++) {
		struct ref *ref = refs->items[i];
		size_t len = strcspn(line, "\n");
		const char *type = line + 2 * (size_t)ref->oid.len;
		if (len <= 2 * (size_t)ref->oid.len + 1 ||
		    strncmp(type, " missing", 8) == 0)
			return objects_fail_not_there(ref, err);
		if (strncmp(type, " tag\n", 5) == 0)
			vec_add(tags, ref);
		else
			ref->peel = REF_PEEL_SELF;
		line += len + (line[len] == '\n');
	}
	return 0;
}

static int objects_read_peeled(const ref_list *tags, const struct str *answers,
			       struct err *err)
{
	const char *line = answers->data;

	for (size_t i = 0; i < tags->count; i++) {
		struct ref *ref = tags->items[i];
		size_t len = strcspn(line, "\n");
		if (len <= 2 * (size_t)ref->oid.len + 1 ||
		    line[2 * (size_t)ref->oid.len] != ' ' || /* "<oid>^{} missing" */
		    !oid_parse(line, ref->oid.len, &ref->peeled))
			return objects_fail_not_there(ref, err);
		ref->peel = REF_PEEL_TAG;
		line += len + (line[len] == '\n');
	}
	return 0;
}

static void add_questions(const ref_list *refs, const char *suffix, struct str *out)
{
	for (size_t i = 0; i < refs->count; i++) {
		oid_add_text(&refs->items[i]->oid, out);
		str_add(out, suffix);
		str_add_char(out, '\n');
	}
}

static int peel_tags(const struct git_work *work, const struct repo *repo,
		     const ref_list *tags, struct err *err)
{
	AUTO_STR struct str questions = STR_INIT;
	AUTO_STR struct str answers = STR_INIT;

	if (tags->count == 0)
		return 0;
	add_questions(tags, "^{}", &questions);
	if (objects_ask(work, repo, &questions, &answers, err) != 0)
		return -1;
	return objects_read_peeled(tags, &answers, err);
}

static int peel_refs(const struct git_work *work, const struct repo *repo,
		     const ref_list *refs, struct err *err)
{
	AUTO_STR struct str questions = STR_INIT;
	AUTO_STR struct str answers = STR_INIT;
	ref_list tags = { 0 };
	int result = -1;

	if (refs->count == 0)
		return 0;
	add_questions(refs, "", &questions);
	if (objects_ask(work, repo, &questions, &answers, err) == 0 &&
	    read_types(refs, &answers, &tags, err) == 0)
		result = peel_tags(work, repo, &tags, err);
	vec_clear(&tags);
	return result;
}

/* After a push of some branches their commits stand in the pack that has just come. */
#define LOOKS_LIMIT 16

/* Takes those out which are no tags. */
static void look_at_few(const struct repo *repo, ref_list *unknown)
{
	size_t kept = 0;

	if (unknown->count > LOOKS_LIMIT)
		return;
	for (size_t i = 0; i < unknown->count; i++) {
		struct ref *ref = unknown->items[i];
		enum object_kind kind = pack_kind_of(repo->fd, &ref->oid);
		if (kind == OBJECT_NONE || kind == OBJECT_TAG)
			unknown->items[kept++] = ref;
		else
			ref->peel = REF_PEEL_SELF;
	}
	unknown->count = kept;
}

int objects_peel(const struct git_work *work, const struct repo *repo,
		 struct ref_snapshot *snapshot, struct err *err)
{
	ref_list unknown = { 0 };
	int result;

	for (size_t i = 0; i < snapshot->refs.count; i++) {
		struct ref *ref = &snapshot->refs.items[i];
		if (!ref->target && ref->peel == REF_PEEL_UNKNOWN)
			vec_add(&unknown, ref);
	}
	look_at_few(repo, &unknown);
	result = peel_refs(work, repo, &unknown, err);
	vec_clear(&unknown);
	return result;
}

int objects_check_tips(const struct git_work *work, const struct repo *repo,
		       const struct ref_snapshot *snapshot, struct err *err)
{
	struct ref_snapshot copy = { 0 };
	struct ref head = { .name = "HEAD", .oid = snapshot->head_oid };
	int result;

	for (size_t i = 0; i < snapshot->refs.count; i++) {
		struct ref ref = snapshot->refs.items[i];
		ref.peel = REF_PEEL_UNKNOWN;
		vec_add(&copy.refs, ref);
	}
	if (!snapshot->head_target)
		vec_add(&copy.refs, head);
	result = objects_peel(work, repo, &copy, err);
	vec_clear(&copy.refs);
	return result;
}

static int objects_list_commits(const struct git_work *work, const struct repo *repo,
				const oid_list *from, const char *which,
				oid_list *commits, struct err *err)
{
	const char *const args[] = { "rev-list", "--stdin", which, NULL };
	AUTO_STR struct str input = STR_INIT;
	AUTO_STR struct str output = STR_INIT;
	struct oid oid;

	if (from->count == 0)
		return 0;
	oid_list_add_lines(from, "", &input);
	if (objects_run(work, repo,
			(struct git_call){ .args = args,
					   .input = &input,
					   .output = &output,
					   .output_limit = (size_t)4 << 30 },
			err) != 0)
		return -1;
	for (const char *line = output.data; *line;) {
		if (oid_parse(line, repo->oid_len, &oid))
			vec_add(commits, oid);
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	oid_list_tidy(commits);
	return 0;
}

int objects_list_roots(const struct git_work *work, const struct repo *repo,
		       const oid_list *tips, oid_list *roots, struct err *err)
{
	return objects_list_commits(work, repo, tips, "--max-parents=0", roots, err);
}

/* Whether a tip is none of the commits that `known` reaches. */
static int objects_find_stranger(const struct git_work *work, const struct repo *repo,
				 const oid_list *tips, const oid_list *known,
				 struct oid *example, struct err *err)
{
	oid_list commits = { 0 }, reached = { 0 };
	int found = -1;

	if (objects_list_commits(work, repo, tips, "--no-walk", &commits, err) == 0 &&
	    objects_list_commits(work, repo, known, NULL, &reached, err) == 0) {
		found = 0;
		for (size_t i = 0; i < commits.count && found == 0; i++) {
			*example = commits.items[i];
			found = reached.count == 0 ||
				!bsearch(example, reached.items, reached.count,
					 sizeof(*example), oid_compare);
		}
	}
	vec_clear(&commits);
	vec_clear(&reached);
	return found;
}

/* Git's walk goes by the commits' dates: where clocks went back, an ancestor may pass
 * for a stranger. So its no is final, but its yes is looked into, at a higher price. */
int objects_has_more(const struct git_work *work, const struct repo *repo,
		     const oid_list *tips, const oid_list *known, struct oid *example,
		     struct err *err)
{
	static const char *const args[] = { "rev-list", "--max-count=1", "--stdin",
					    NULL };
	AUTO_STR struct str input = STR_INIT;
	AUTO_STR struct str output = STR_INIT;

	oid_list_add_lines(tips, "", &input);
	oid_list_add_lines(known, "^", &input);
	if (objects_run(work, repo,
			(struct git_call){ .args = args,
					   .input = &input,
					   .output = &output,
					   .output_limit = 4096 },
			err) != 0)
		return -1;
	if (!oid_parse(output.data, repo->oid_len, example))
		return 0;
	return objects_find_stranger(work, repo, tips, known, example, err);
}

int objects_descends(const struct git_work *work, const struct repo *repo,
		     const struct oid *tip, const struct oid *old, struct err *err)
{
	char below[OID_MAX_TEXT], above[OID_MAX_TEXT];
	const char *const args[] = { "merge-base", "--is-ancestor", oid_text(old, below),
				     oid_text(tip, above), NULL };
	struct proc_result ended = { .exit_code = -1 };

	if (objects_run(work, repo, (struct git_call){ .args = args, .ended = &ended },
			err) == 0)
		return 1;
	return ended.exit_code == 1 ? 0 : -1;
}
