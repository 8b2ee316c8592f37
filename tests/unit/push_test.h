/*
 * What the tests of transfers share: r.git (git_test.h) is pushed to root/dst.git, or
 * wherever `destination` says, by a remote that each test changes as it likes.
 */
#ifndef UNIT_PUSH_TEST_H
#define UNIT_PUSH_TEST_H

#include "git_test.h"

#include "push/transfer.h"
#include "push/view.h"

#define PUSH_CASE(name) cmocka_unit_test_setup_teardown(name, make_push, clear_push)

static struct push_settings settings;
static struct push_remote remote;
static struct push_url url;
static struct destination destination;
static struct transfer_request request;
static struct transfer_result result;
static struct git_work work;
static text_list names;
static char repository[96], directory[96];
static char remote_name[] = "r", spec_text[] = "refs/*", git_name[] = "git";

static inline void set_spec(const char *src, const char *dst, bool force)
{
	for (size_t i = 0; i < remote.specs.count; i++) {
		free(remote.specs.items[i].src);
		free(remote.specs.items[i].dst);
	}
	remote.specs.count = 0;
	vec_add(&remote.specs, ((struct push_spec){ xstrdup(src), xstrdup(dst), force }));
}

static inline void set_url(enum url_kind kind, const char *git_url)
{
	free(destination.git_url);
	destination.git_url = xstrdup(git_url);
	destination.kind = kind;
}

static inline int make_push(void **state)
{
	AUTO_FREE char *path = NULL;

	if (make_repo(state) != 0)
		return -1;
	assert_ok(git_setup(root, &err));
	remote = (struct push_remote){ .name = remote_name, .git_path = git_name };
	url = (struct push_url){ 0 };
	destination = (struct destination){ .remote = &remote, .url = &url };
	set_spec(spec_text, spec_text, false);
	path = xasprintf("%s/dst.git", root);
	set_url(URL_LOCAL, path);
	destination.path = TAKE(path);
	work = (struct git_work){ .guard_fd = -1 };
	snprintf(repository, sizeof(repository), "%s/r.git", root);
	snprintf(directory, sizeof(directory), "%s/tmp", root);
	request = (struct transfer_request){ .settings = &settings,
					     .destination = &destination,
					     .repository = repository,
					     .directory = directory,
					     .work = &work,
					     .refs = &names,
					     .delete_brake = 0.5 };
	must("git init -q --bare dst.git && cp r.git/objects/info/alternates "
	     "dst.git/objects/info/");
	return 0;
}

static inline void assert_no_view_left(void)
{
	AUTO_FREE char *left = output_of("ls tmp 2>/dev/null || true");

	assert_string_equal(left, "");
}

static inline void clear_names(void)
{
	for (size_t i = 0; i < names.count; i++)
		free(names.items[i]);
	vec_clear(&names);
}

static inline int clear_push(void **state)
{
	transfer_result_clear(&result);
	clear_names();
	set_spec("", "", false);
	free(remote.specs.items[0].src);
	free(remote.specs.items[0].dst);
	vec_clear(&remote.specs);
	free(TAKE(destination.git_url));
	free(TAKE(destination.path));
	return test_remove_root(state);
}

/* The source has exactly these. */
static inline void set_refs(const char *line)
{
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;
	AUTO_STR struct str text = STR_INIT;

	must("rm -rf r.git/refs/heads r.git/refs/tags && mkdir r.git/refs/heads");
	refs_of(line, &refs);
	ref_write_packed(&refs, &text);
	assert_ok(file_replace(repo_fd, "packed-refs", text.data, text.len, FILE_NO_SYNC,
			       &err));
}

/* The destination has exactly these. */
static inline void assert_arrived(const char *line)
{
	AUTO_SNAPSHOT struct ref_snapshot wanted = REF_SNAPSHOT_INIT;
	AUTO_SNAPSHOT struct ref_snapshot found = REF_SNAPSHOT_INIT;
	AUTO_CLOSE int dir = openat(root_fd, "dst.git", O_RDONLY | O_DIRECTORY);

	refs_of(line, &wanted);
	assert_ok(ref_snapshot_read(dir, 20, &found, &err));
	fill_peels(&found);
	free(TAKE(found.head_target));
	found.head_target = xstrdup(wanted.head_target);
	assert_snapshots_equal(&found, &wanted);
}

/* Refs in one line, or TASK_ALL_REFS. */
static inline int push(const char *line)
{
	AUTO_FREE char *text = xstrdup(line);
	char *rest = text, *word;
	int status;

	clear_names();
	while ((word = strsep(&rest, " ")) != NULL)
		vec_add(&names, xstrdup(word));
	transfer_result_clear(&result);
	err = (struct err){ 0 };
	status = transfer_run(&request, &result, &err);
	assert_no_view_left();
	return status;
}

static inline const struct ref_result *result_of(const char *ref)
{
	static const struct ref_result
		none; /* the compiler does not know that fail ends */

	for (size_t i = 0; i < result.refs.count; i++)
		if (strcmp(result.refs.items[i].ref, ref) == 0)
			return &result.refs.items[i];
	fail_msg("no result for %s", ref);
	return &none;
}

static inline void assert_status(const char *ref, enum ref_status status)
{
	const struct ref_result *found = result_of(ref);

	if (found->status != status)
		fail_msg("%s: %s: %s", ref, ref_status_name(found->status),
			 found->text ? found->text : "");
}

/* The destination's hook of that name. */
static inline void set_hook(const char *name, const char *script)
{
	must("mkdir -p dst.git/hooks && printf '#!/bin/sh\\n%%s\\n' '%s' "
	     ">dst.git/hooks/%s && chmod +x dst.git/hooks/%s",
	     script, name, name);
}

/* The source's objects are lent to git; the destination must get its own. */
static inline void add_own_commit(void)
{
	must("cd r.git && git update-ref refs/heads/own "
	     "$(echo own | git commit-tree main^{tree} -p main)");
}

static inline void assert_own_commit_arrived(void)
{
	must("o=$(git -C r.git rev-parse own) && git -C dst.git cat-file -e $o && "
	     "git -C dst.git fsck --connectivity-only >/dev/null 2>&1");
}

#endif
