#include "sync_test.h"

#include <dlfcn.h>

#include "mirror/upstream.h"

/* As a primary does. */
static const struct source_ops *plain_ops;
static const char *told_timeline;
static const char *told_log = ""; /* of an earlier version */
static uint64_t told_generation = 1;
static bool is_other_address;
static const char *upstream_name; /* of a link, there; the source is an upstream */
static int builds, good_builds = INT_MAX; /* from nothing */
static struct err build_failure;          /* of those that are too many */
static bool is_full_when_built;           /* the disk: no file can be replaced */

int file_replace(int dir, const char *path, const void *data, size_t len,
		 enum file_sync sync, struct err *error)
{
	int (*real)(int, const char *, const void *, size_t, enum file_sync,
		    struct err *);
	struct stat st;

	if (is_full_when_built && strcmp(path, "refrelay/compared") == 0 &&
	    fstatat(root_fd, "here/.refrelay/staging", &st, 0) == 0 && st.st_nlink > 2)
		return err_set(error, ERR_DISK, "no space left");
	*(void **)&real = dlsym(RTLD_NEXT, "file_replace");
	return real(dir, path, data, len, sync, error);
}

/* What is built from nothing has no packs but those that came: they go if one breaks. */
static int bring_or_break(struct source *from, const struct source_want *want,
			  struct err *e)
{
	builds += want->is_new;
	if (!want->is_new || builds <= good_builds)
		return plain_ops->bring(from, want, e);
	must("rm -f %s/objects/pack/*", want->copy->path);
	*e = build_failure;
	return -1;
}

static int read_with_timeline(struct source *from, const char *name,
			      struct source_view *view, struct err *e)
{
	int done = plain_ops->read(from, name, view, e);

	snprintf(view->timeline, sizeof(view->timeline), "%s", told_timeline);
	snprintf(view->log, sizeof(view->log), "%s", told_log);
	view->generation = told_generation;
	if (is_other_address) {
		free(view->url);
		view->url = xasprintf("%s/./there/a.git", root);
	}
	if (upstream_name) {
		free(view->url);
		view->url = xasprintf("%s/there/%s", root, upstream_name);
		view->is_foreign = true;
	}
	return done;
}

static void break_builds(int after, enum err_class class)
{
	good_builds = after;
	err_set(&build_failure, class, "the build broke");
}

static int mend_row_with(const char *timeline, const char *checksum, bool is_forced)
{
	struct source_ops telling = *source->ops;
	int done;

	plain_ops = source->ops;
	told_timeline = timeline;
	telling.read = read_with_timeline;
	telling.bring = bring_or_break;
	builds = 0;
	source->ops = &telling;
	done = sync_by((struct sync_request){ .mends = true,
					      .may_rebuild = true,
					      .checksum = checksum,
					      .is_forced = is_forced });
	source->ops = plain_ops;
	good_builds = INT_MAX;
	return done;
}

static int mend_with(const char *timeline, bool is_forced)
{
	return mend_row_with(timeline, NULL, is_forced);
}

#define ONE "1111111111111111"
#define OTHER "2222222222222222"

/* 30 tags are more than may vanish without a person's word. */
static void make_copy_of_one(int tags_most)
{
	for (int i = 0; i < tags_most; i++)
		must("git -C there/a.git update-ref refs/tags/v%d main", i);
	assert_ok(mend_with(ONE, false));
	must("git -C there/a.git rev-parse main >old");
}

static void replace_there(bool is_empty)
{
	must("rm -rf there/a.git && git init -q --bare there/a.git");
	if (!is_empty)
		must("cd there/a.git && git update-ref refs/heads/main "
		     "$(git commit-tree -m other $(git mktree </dev/null))");
}

static void assert_replaced(void)
{
	assert_int_equal(result.outcome, SYNC_CREATED);
	assert_equal_and_whole();
	assert_int_equal(count_trash(), 1);
	must("! git -C here/a.git cat-file -e $(cat old) 2>/dev/null && "
	     "git -C here/.refrelay/trash/*a.git cat-file -e $(cat old)");
}

TEST(the_copy_of_a_repository_that_another_replaced_goes_to_the_trash)
{
	make_copy_of_one(30);
	replace_there(false);
	assert_ok(mend_with(OTHER, false));
	assert_replaced();
	must("! git -C here/.refrelay/trash/*a.git cat-file -e "
	     "$(git -C there/a.git rev-parse main) 2>/dev/null");
	assert_ok(mend_with(OTHER, false));
	assert_int_equal(count_trash(), 1);
}

TEST(an_empty_repository_replaces_one_of_few_refs)
{
	make_copy_of_one(1);
	replace_there(true);
	assert_ok(mend_with(OTHER, false));
	assert_replaced();
	must("cd there/a.git && git update-ref refs/heads/main "
	     "$(git commit-tree -m other $(git mktree </dev/null))");
	assert_ok(mend_with("3333333333333333", false));
	assert_int_equal(result.outcome, SYNC_UPDATED); /* the empty copy had nothing */
	assert_int_equal(count_trash(), 1);
}

TEST(an_empty_repository_replaces_one_of_many_refs_by_force)
{
	make_copy_of_one(30);
	replace_there(true);
	assert_ok(mend_with(OTHER, false));
	assert_int_equal(result.outcome, SYNC_HELD);
	free(result.held_reason);
	must("git -C here/a.git rev-parse -q --verify v29 >/dev/null");
	assert_ok(mend_with(OTHER, true));
	assert_replaced();
}

TEST(a_copy_whose_refs_are_gone_does_not_lend_its_objects_to_another)
{
	make_copy_of_one(0);
	must("cd there/a.git && git for-each-ref --format='delete %%(refname)' | "
	     "git update-ref --stdin");
	assert_ok(mend_with(ONE, false));
	replace_there(false);
	assert_ok(mend_with(OTHER, false));
	assert_replaced();
}

/* Each repository has another timeline then. */
TEST(a_database_that_was_restored_costs_no_copy)
{
	make_copy_of_one(0);
	must("cd there/a.git && git for-each-ref --format='delete %%(refname)' "
	     "refs/tags | git update-ref --stdin && "
	     "git update-ref refs/heads/main $(git commit-tree -m next -p main "
	     "main^{tree})");
	assert_ok(mend_with(OTHER, false));
	assert_int_equal(result.outcome, SYNC_UPDATED);
	assert_equal_and_whole();
	assert_int_equal(count_trash(), 0);
}

TEST(a_history_that_was_pushed_anew_is_no_other_repository)
{
	make_copy_of_one(0);
	replace_there(false);
	assert_ok(mend_with(ONE, false));
	assert_int_equal(result.outcome, SYNC_UPDATED);
	assert_int_equal(count_trash(), 0);
}

TEST(what_another_primary_never_had_is_held)
{
	make_copy_of_one(0);
	replace_there(false);
	is_other_address = true;
	assert_ok(mend_with(OTHER, false));
	is_other_address = false;
	assert_int_equal(result.outcome, SYNC_HELD);
	free(result.held_reason);
	assert_int_equal(count_trash(), 0);
}

static void drop_a_commit(void)
{
	must("cd there/a.git && git update-ref refs/heads/late "
	     "$(git commit-tree -m late main^{tree})");
	told_generation = 2;
	assert_ok(mend_with(ONE, false));
	told_generation = 1;
	must("git -C there/a.git update-ref -d refs/heads/late");
}

/* To a snapshot: it begins another timeline as soon as it knows. */
TEST(what_a_repository_that_went_back_lacks_is_held)
{
	drop_a_commit();
	assert_ok(mend_with(ONE, false));
	assert_int_equal(result.outcome, SYNC_HELD);
	free(result.held_reason);
	must("git -C here/a.git rev-parse -q --verify late >/dev/null");
}

TEST(what_one_that_did_not_drops_is_dropped)
{
	drop_a_commit();
	told_generation = 3;
	assert_ok(mend_with(ONE, false));
	told_generation = 1;
	assert_int_equal(result.outcome, SYNC_UPDATED);
	assert_equal_and_whole();
}

/* As after an upgrade of both sites. */
static int mend_with_log(const char *timeline)
{
	told_log = "4444444444444444";
	int done = mend_with(timeline, false);
	told_log = "";
	return done;
}

TEST(a_copy_of_an_earlier_version_is_held_at_a_restored_primary)
{
	drop_a_commit();
	assert_ok(mend_with_log(OTHER));
	assert_int_equal(result.outcome, SYNC_HELD);
	free(result.held_reason);
	must("git -C here/a.git rev-parse -q --verify late >/dev/null");
}

TEST(a_copy_of_an_earlier_version_follows_what_its_repository_drops)
{
	drop_a_commit();
	told_generation = 3;
	assert_ok(mend_with_log(ONE));
	told_generation = 1;
	assert_int_equal(result.outcome, SYNC_UPDATED);
	assert_equal_and_whole();
}

/* It is for a person. */
TEST(what_others_wrote_to_a_copy_is_not_replaced)
{
	make_copy_of_one(0);
	must("cd here/a.git && git update-ref refs/heads/mine "
	     "$(git commit-tree -m mine main^{tree})");
	replace_there(false);
	assert_ok(mend_with(OTHER, false));
	assert_int_equal(result.outcome, SYNC_HELD);
	free(result.held_reason);
	assert_int_equal(count_trash(), 0);
}

/* The history is that of the copy, but no ref is. */
static void move_all_refs(void)
{
	must("cd there/a.git && git for-each-ref --format='delete %%(refname)' "
	     "refs/tags | git update-ref --stdin && "
	     "git update-ref refs/heads/main $(git commit-tree -m next -p main "
	     "main^{tree})");
}

/* It may lose no pack. */
TEST(after_the_comparison_the_old_copy_is_no_new_one)
{
	make_copy_of_one(0);
	move_all_refs();
	break_builds(1, ERR_NETWORK);
	assert_ok(mend_with(OTHER, false));
	assert_int_equal(builds, 1);
	assert_int_equal(result.outcome, SYNC_UPDATED);
	assert_equal_and_whole();
}

/* A row that is held keeps the old timeline. */
TEST(while_a_copy_is_held_it_is_compared_once)
{
	make_copy_of_one(30);
	move_all_refs();
	for (int i = 0; i < 3; i++) {
		assert_ok(mend_with(OTHER, false));
		assert_int_equal(result.outcome, SYNC_HELD);
		free(result.held_reason);
		assert_int_equal(builds, i == 0);
	}
	assert_ok(mend_with("3333333333333333", false));
	assert_int_equal(builds, 1);
	free(result.held_reason);
}

/* A few objects may be brought all the same. */
TEST(what_there_is_no_room_to_compare_is_updated)
{
	make_copy_of_one(0);
	move_all_refs();
	break_builds(0, ERR_DISK);
	assert_ok(mend_with(OTHER, false));
	assert_int_equal(result.outcome, SYNC_UPDATED);
	assert_equal_and_whole();
	assert_int_equal(count_trash(), 0);
}

/* By then there may be room; until then each attempt would fill the disk again. */
TEST(a_held_copy_that_there_is_no_room_to_compare_is_compared_after_a_day)
{
	make_copy_of_one(30);
	move_all_refs();
	for (int i = 0; i < 3; i++) {
		break_builds(0, ERR_DISK);
		assert_ok(mend_with(OTHER, false));
		assert_int_equal(result.outcome, SYNC_HELD);
		free(result.held_reason);
		assert_int_equal(builds, i != 1);
		if (i == 1)
			must("touch -d '25 hours ago' here/a.git/refrelay/compared");
	}
	replace_there(false);
	must("touch -d '25 hours ago' here/a.git/refrelay/compared");
	assert_ok(mend_with(OTHER, false));
	assert_replaced();
}

/* As on a disk that was full only by what was built. */
TEST(what_was_built_is_gone_before_the_answer_is_noted)
{
	make_copy_of_one(30);
	move_all_refs();
	is_full_when_built = true;
	for (int i = 0; i < 2; i++) {
		assert_ok(mend_with(OTHER, false));
		assert_int_equal(result.outcome, SYNC_HELD);
		free(result.held_reason);
		assert_int_equal(builds, i == 0);
	}
	is_full_when_built = false;
}

TEST(what_cannot_be_compared_for_now_is_compared_later)
{
	make_copy_of_one(0);
	replace_there(false);
	break_builds(0, ERR_NETWORK);
	assert_fails(mend_with(OTHER, false), ERR_NETWORK);
	must("test $(git -C here/a.git rev-parse main) = $(cat old)");
	assert_ok(mend_with(OTHER, false));
	assert_replaced();
}

TEST(what_others_write_while_it_is_compared_is_not_replaced)
{
	make_copy_of_one(0);
	replace_there(false);
	passed = "sync.verified"; /* of the new one */
	then = "cd here/a.git && git update-ref refs/heads/mine "
	       "$(git commit-tree -m mine main^{tree})";
	assert_ok(mend_with(OTHER, false));
	assert_int_equal(result.outcome, SYNC_HELD);
	free(result.held_reason);
	assert_int_equal(count_trash(), 0);
}

static char proved[CHECKSUM_TEXT_SIZE];

/* The upstream's URL does not end in the mirror's name. */
static void make_mirror(const char *timeline)
{
	must("ln -s a.git there/up.git && ln -s a.git there/other.git");
	upstream_name = "up.git";
	assert_ok(mend_with(timeline, false));
	upstream_name = NULL;
	checksum_format(&result.sum, proved);
}

static void assert_kept(void)
{
	assert_true(result.outcome == SYNC_UNCHANGED || result.outcome == SYNC_UPDATED);
	assert_int_equal(builds, 0);
	assert_equal_and_whole();
	assert_int_equal(count_trash(), 0);
}

TEST(a_mirror_of_a_former_primary_is_no_copy_of_another_name)
{
	make_mirror(ONE);
	assert_ok(mend_with(OTHER, false));
	assert_kept();
}

/* Nor does it end in a digest. */
static void make_former_mirror(const char *timeline)
{
	make_mirror(timeline);
	must("cd here/a.git/refrelay && sed -n 's/,\"foreign\":true//; s/ *$//; /}$/p' "
	     "copy "
	     ">old && grep -q timeline old && ! grep foreign old && mv old copy");
}

static void assert_former_mirror_is_known(const char *scheme)
{
	AUTO_FREE char *url = xasprintf("%s%s/there/up.git", scheme, root);
	const struct mirror mirror = { .url = url };
	char timeline[UPSTREAM_TIMELINE_SIZE];

	upstream_timeline(&mirror, timeline);
	make_former_mirror(timeline);
	assert_ok(mend_with(OTHER, false));
	assert_kept();
}

TEST(the_record_of_a_mirror_by_an_earlier_version_is_known)
{
	assert_former_mirror_is_known("");
}

TEST(the_record_of_a_mirror_of_a_file_url_by_an_earlier_version_is_known)
{
	assert_former_mirror_is_known("file://");
}

/* A timeline of a depth that is not known. */
TEST(the_record_of_a_cut_mirror_by_an_earlier_version_is_known)
{
	make_former_mirror(ONE);
	must("echo settled >here/a.git/refrelay/cuts");
	assert_ok(mend_with(OTHER, false));
	assert_kept();
}

TEST(an_upstream_whose_url_changes_keeps_its_mirror)
{
	make_mirror(ONE);
	upstream_name = "other.git";
	assert_ok(mend_row_with(OTHER, proved, false));
	upstream_name = NULL;
	assert_kept();
}

TEST(a_mirror_that_was_moved_to_the_name_of_another_is_made_anew)
{
	make_mirror(ONE);
	upstream_name = "other.git";
	proved[0] ^= 1; /* of what this name had */
	assert_ok(mend_row_with(OTHER, proved, false));
	upstream_name = NULL;
	assert_int_equal(result.outcome, SYNC_CREATED);
	assert_int_equal(count_trash(), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SYNC_CASE(
			the_copy_of_a_repository_that_another_replaced_goes_to_the_trash),
		SYNC_CASE(an_empty_repository_replaces_one_of_few_refs),
		SYNC_CASE(an_empty_repository_replaces_one_of_many_refs_by_force),
		SYNC_CASE(
			a_copy_whose_refs_are_gone_does_not_lend_its_objects_to_another),
		SYNC_CASE(a_database_that_was_restored_costs_no_copy),
		SYNC_CASE(a_history_that_was_pushed_anew_is_no_other_repository),
		SYNC_CASE(what_another_primary_never_had_is_held),
		SYNC_CASE(what_a_repository_that_went_back_lacks_is_held),
		SYNC_CASE(what_one_that_did_not_drops_is_dropped),
		SYNC_CASE(a_copy_of_an_earlier_version_is_held_at_a_restored_primary),
		SYNC_CASE(a_copy_of_an_earlier_version_follows_what_its_repository_drops),
		SYNC_CASE(what_others_wrote_to_a_copy_is_not_replaced),
		SYNC_CASE(after_the_comparison_the_old_copy_is_no_new_one),
		SYNC_CASE(while_a_copy_is_held_it_is_compared_once),
		SYNC_CASE(what_there_is_no_room_to_compare_is_updated),
		SYNC_CASE(
			a_held_copy_that_there_is_no_room_to_compare_is_compared_after_a_day),
		SYNC_CASE(what_was_built_is_gone_before_the_answer_is_noted),
		SYNC_CASE(what_cannot_be_compared_for_now_is_compared_later),
		SYNC_CASE(what_others_write_while_it_is_compared_is_not_replaced),
		SYNC_CASE(a_mirror_of_a_former_primary_is_no_copy_of_another_name),
		SYNC_CASE(the_record_of_a_mirror_by_an_earlier_version_is_known),
		SYNC_CASE(
			the_record_of_a_mirror_of_a_file_url_by_an_earlier_version_is_known),
		SYNC_CASE(the_record_of_a_cut_mirror_by_an_earlier_version_is_known),
		SYNC_CASE(an_upstream_whose_url_changes_keeps_its_mirror),
		SYNC_CASE(a_mirror_that_was_moved_to_the_name_of_another_is_made_anew),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
