/*
 * What the tests of new objects and small packs share: a repository with a working tree
 * at root/w, whose commits are each a second younger than the one before, and lists of
 * objects by what git calls them.
 */
#ifndef UNIT_OBJECTS_TEST_H
#define UNIT_OBJECTS_TEST_H

#include "git_test.h"

#include "git/new_objects.h"
#include "git/object_store.h"

#define MOST 1000
#define MOST_BYTES ((uint64_t)1 << 20)

#define WORK_CASE(name) cmocka_unit_test_setup_teardown(name, make_work, test_remove_root)

/* In w: c commits all that is there. chain COUNT [FILE [TIME [STEP]]] adds so many
 * commits by one process; each changes FILE, if one is given, and is STEP seconds
 * younger. */
#define WORK                                                                             \
	"cd w && c() { t=$((1700000000 + $(git rev-list --all --count))); git add -A "   \
	"&& "                                                                            \
	"GIT_COMMITTER_DATE=\"${1:-$t} +0000\" git commit -q --allow-empty -m \"c$t\"; " \
	"}; "                                                                            \
	"chain() { t=$((1700000000 + $(git rev-list --all --count))); seq $1 | "         \
	"awk -v b=$(git symbolic-ref HEAD) -v f=$2 -v t=${3:-$t} -v s=${4:-1} '{ "       \
	"printf \"commit %%s\\ncommitter c <c@c> %%d +0000\\ndata 1\\nc\\n\", b, "       \
	"t + s * ($1 - 1); if ($1 == 1) printf \"from %%s^0\\n\", b; if (f) "            \
	"printf \"M 100644 inline %%s\\ndata %%d\\n%%s\\n\", f, length($1) + 1, $1; "    \
	"print \"\" }' | git fast-import --quiet && git reset -q --hard; }; "            \
	"set -e; "

static inline int make_work(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	must("git init -q -b main w && mkdir w/d && echo one >w/f && echo two >w/d/g "
	     "&& " WORK "c");
	return 0;
}

static inline void open_at(const char *path, struct repo *repo)
{
	assert_ok(repo_open(root_fd, path, repo, &err));
}

/* Of the names that git in `path` has for them, in shell words. */
static inline oid_list objects_of(const char *path, const char *names)
{
	oid_list list = { 0 };
	AUTO_FREE char *text =
		*names ? output_of("git -C %s rev-parse %s", path, names) : xstrdup("");
	const char *at = text;

	while (*at)
		vec_add(&list, next_oid(&at));
	return list;
}

static inline int list_in(const char *path, const oid_list *tips, const oid_list *known,
			  size_t most, oid_list *list)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	AUTO_OBJECT_STORE struct object_store *store = NULL;

	open_at(path, &repo);
	assert_ok(object_store_open(&repo, &store, &err));
	return new_objects_list(&(struct new_objects_request){ .store = store,
							       .tips = tips,
							       .known = known,
							       .most = most,
							       .most_bytes = MOST_BYTES },
				list, &err);
}

/* The walk in w; the caller clears the list. */
static inline int list_new(const char *tips, const char *known, size_t most,
			   oid_list *list)
{
	oid_list tip_list = objects_of("w", tips), known_list = objects_of("w", known);
	int result = list_in("w/.git", &tip_list, &known_list, most, list);

	vec_clear(&tip_list);
	vec_clear(&known_list);
	return result;
}

static inline void write_list(const char *name, const oid_list *list)
{
	AUTO_STR struct str text = STR_INIT;

	for (size_t i = 0; i < list->count; i++) {
		oid_add_text(&list->items[i], &text);
		str_add_char(&text, '\n');
	}
	assert_ok(file_replace(root_fd, name, text.data, text.len, FILE_NO_SYNC, &err));
}

#endif
