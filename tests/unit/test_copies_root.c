#include "test.h"

#include <sched.h>
#include <sys/mount.h>

#include "base/log.h"
#include "replicable/name.h"
#include "replicable/registry.h"
#include "upkeep/copies_root.h"

#include "registry_write.h"

static struct store *store;
static char tree[96];

static int set_up(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);

	log_set_level(LOG_LEVEL_NONE);
	snprintf(tree, sizeof(tree), "%s/srv", root);
	assert_ok(store_open(url, &store, &err));
	return 0;
}

static int tear_down(void **state)
{
	store_close(store);
	return test_remove_root(state);
}

static void make(const char *path)
{
	assert_ok(dir_make(root_fd, path, &err));
}

static void replace_tree(void)
{
	assert_int_equal(renameat(root_fd, "srv", root_fd, "away"), 0);
	make("srv");
}

static void move_of(const char *kind, const char *name, enum registry_event event)
{
	const struct registry_move change = { .id = replicable_id(kind, name),
					      .event = event,
					      .generation = 1,
					      .timeline = "0123456789abcdef",
					      .timeout_ms = 60000 };

	assert_ok(registry_move(store, &change, &err));
}

static void move(const char *name, enum registry_event event)
{
	move_of(KIND_REPOSITORY, name, event);
}

static void add_synced_of(const char *kind, const char *name)
{
	assert_ok(registry_add(store, kind, &name, 1, &err));
	move_of(kind, name, REGISTRY_BEGUN);
	move_of(kind, name, REGISTRY_BROUGHT);
}

static void add_synced(const char *name)
{
	add_synced_of(KIND_REPOSITORY, name);
}

static struct registry_row row_of(const char *name)
{
	struct registry_row row;

	assert_ok(registry_get(store, KIND_REPOSITORY, name, &row, &err));
	return row;
}

static void ask(const char *name, unsigned wishes)
{
	const struct registry_move change = { .id = replicable_id(KIND_REPOSITORY, name),
					      .event = REGISTRY_ASKED,
					      .wishes = wishes };

	assert_ok(registry_move(store, &change, &err));
}

static int open_copies(void)
{
	return copies_root_open(store, KIND_REPOSITORY, tree, &err);
}

TEST(the_first_start_makes_the_tree_and_the_next_finds_it)
{
	assert_ok(copies_root_check(store, KIND_REPOSITORY, tree, &err));
	assert_ok(open_copies());
	assert_ok(copies_root_check(store, KIND_REPOSITORY, tree, &err));
	add_synced("a");
	make("srv/a.git");
	assert_ok(open_copies());
	AUTO_REGISTRY_ROW struct registry_row row = row_of("a");
	assert_int_equal(row.state, REGISTRY_SYNCED);
}

TEST(an_empty_tree_is_refused_while_copies_should_be_there)
{
	assert_ok(open_copies());
	add_synced("a");
	assert_fails(open_copies(), ERR_DISK);
	assert_non_null(strstr(err.text, "is empty, but 1 copy should be there"));
	assert_non_null(strstr(err.remedy, "resync --all"));
	make("srv/.refrelay"); /* and what mkfs makes */
	make("srv/lost+found");
	assert_fails(copies_root_judge(store, KIND_REPOSITORY, tree, &err), ERR_DISK);
	ask("a", REGISTRY_WISHES_RESYNC);
	assert_ok(copies_root_judge(store, KIND_REPOSITORY, tree, &err));
	assert_ok(open_copies());
}

/* What the program wants by itself is no word of a person. */
TEST(an_empty_tree_is_refused_also_when_all_rows_are_doubted)
{
	assert_ok(open_copies());
	add_synced("a");
	add_synced("b");
	add_synced("c");
	move("a", REGISTRY_DOUBTED);
	move("b", REGISTRY_BEGUN);
	move("b", REGISTRY_DOUBTED); /* for later */
	ask("c", REGISTRY_WISH_RECHECK);
	assert_fails(open_copies(), ERR_DISK);
	assert_non_null(strstr(err.text, "but 3 copies should be there"));
	ask("a", REGISTRY_WISHES_RESYNC);
	ask("b", REGISTRY_WISHES_RESYNC); /* for later, too */
	assert_fails(open_copies(), ERR_DISK);
	ask("c", REGISTRY_WISHES_RESYNC);
	assert_ok(open_copies());
}

TEST(the_word_of_a_person_counts_until_the_copy_is_here)
{
	assert_ok(open_copies());
	add_synced("a");
	ask("a", REGISTRY_WISHES_RESYNC);
	move("a", REGISTRY_BEGUN);
	move("a", REGISTRY_DEFERRED);
	assert_ok(open_copies());
	move("a", REGISTRY_BEGUN);
	move("a", REGISTRY_BROUGHT);
	assert_fails(open_copies(), ERR_DISK);
}

/* However the row fares: what counts is that its copy was here. */
TEST(an_empty_tree_is_refused_also_when_no_row_is_synced)
{
	const struct err failure = { .class = ERR_DISK };
	struct registry_move change = { .id = replicable_id(KIND_REPOSITORY, "a"),
					.event = REGISTRY_ERRED,
					.err = &failure };

	assert_ok(open_copies());
	add_synced("a");
	move("a", REGISTRY_BEGUN);
	assert_ok(registry_move(store, &change, &err));
	assert_fails(open_copies(), ERR_DISK);
	move("a", REGISTRY_GONE);
	assert_ok(open_copies());
}

TEST(a_tree_that_is_away_is_not_made_again)
{
	assert_ok(open_copies());
	add_synced("a");
	assert_int_equal(renameat(root_fd, "srv", root_fd, "away"), 0);
	assert_fails(copies_root_check(store, KIND_REPOSITORY, tree, &err), ERR_DISK);
	assert_non_null(strstr(err.text, "is not there"));
	assert_fails(open_copies(), ERR_DISK);
	assert_int_equal(access(tree, F_OK), -1);
}

TEST(another_tree_makes_everything_suspect)
{
	assert_ok(open_copies());
	add_synced("a");
	add_synced("gone");
	move("gone", REGISTRY_GONE);
	replace_tree();
	make("srv/a.git");
	assert_fails(copies_root_check(store, KIND_REPOSITORY, tree, &err), ERR_DISK);
	assert_non_null(strstr(err.text, "is not the directory that it was"));
	assert_ok(open_copies());
	assert_ok(copies_root_check(store, KIND_REPOSITORY, tree, &err));
	AUTO_REGISTRY_ROW struct registry_row row = row_of("a");
	assert_int_equal(row.state, REGISTRY_PENDING);
	assert_int_equal(row.wishes, REGISTRY_WISH_RECHECK);
	AUTO_REGISTRY_ROW struct registry_row gone = row_of("gone");
	assert_true(gone.is_gone);
}

TEST(more_rows_than_a_page_become_suspect)
{
	struct registry_counts counts;
	const char *name;

	assert_ok(open_copies());
	for (int i = 0; i < 501; i++) {
		AUTO_FREE char *made = xasprintf("r%d", i);
		name = made;
		assert_ok(registry_add(store, KIND_REPOSITORY, &name, 1, &err));
	}
	add_synced("z");
	replace_tree();
	make("srv/z.git");
	assert_ok(open_copies());
	assert_ok(registry_counts(store, KIND_REPOSITORY, &counts, &err));
	assert_int_equal(counts.states[REGISTRY_PENDING], 502);
}

/* In a name space of its own, which ends with this process. */
static char *mount_in_tree(const char *name)
{
	char *point = xasprintf("%s/%s", tree, name);

	assert_ok(dir_make(AT_FDCWD, point, &err));
	if (unshare(CLONE_NEWNS) != 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", point, "tmpfs", 0, NULL) != 0) {
		free(point);
		skip();
	}
	return point;
}

static int check_blob(const char *id)
{
	return copies_root_check_copy(store, "files", tree, id, &err);
}

static void keep_mounts(void)
{
	assert_ok(copies_root_keep_mounts(store, "files", tree, &err));
}

TEST(what_is_mounted_below_the_tree_is_missed_until_its_folder_goes)
{
	assert_ok(copies_root_open(store, "files", tree, &err));
	AUTO_FREE char *point = mount_in_tree("a b\\c");
	AUTO_FREE char *inside = xasprintf("%s/x", point);

	assert_ok(check_blob("a b\\c/x"));
	add_synced_of("files", "a b\\c/x");
	keep_mounts();
	assert_ok(copies_root_judge(store, "files", tree, &err));
	assert_int_equal(umount(point), 0);
	keep_mounts();
	assert_fails(check_blob("a b\\c/x"), ERR_DISK);
	assert_non_null(strstr(err.text, "folder a b\\c is not mounted"));
	assert_fails(check_blob("a b\\c/d/x"), ERR_DISK);
	assert_fails(copies_root_judge(store, "files", tree, &err), ERR_DISK);
	assert_ok(check_blob("a b/x"));
	assert_int_equal(mount("none", point, "tmpfs", 0, NULL), 0);
	assert_ok(check_blob("a b\\c/x"));
	assert_int_equal(umount(point), 0);
	assert_int_equal(rmdir(point), 0);
	assert_ok(check_blob("a b\\c/x"));
	keep_mounts();
	assert_ok(dir_make(AT_FDCWD, point, &err));
	assert_ok(check_blob("a b\\c/x"));
	assert_ok(file_replace(AT_FDCWD, inside, "x", 1, FILE_NO_SYNC, &err));
	assert_ok(check_blob("a b\\c/x"));
}

TEST(what_is_mounted_below_the_tree_is_known_also_after_the_tree_was_away)
{
	assert_ok(copies_root_open(store, "files", tree, &err));
	AUTO_FREE char *point = mount_in_tree("sub");

	keep_mounts();
	assert_int_equal(umount(point), 0);
	assert_int_equal(mount("none", tree, "tmpfs", 0, NULL), 0);
	assert_fails(copies_root_keep_mounts(store, "files", tree, &err), ERR_DISK);
	assert_int_equal(umount(tree), 0);
	assert_fails(check_blob("sub/x"), ERR_DISK);
}

static int check_place(const char *name)
{
	return copies_root_check_place(store, KIND_REPOSITORY, tree, name, &err);
}

static void take_another_history(const char *name)
{
	const struct registry_move change = { .id = replicable_id(KIND_REPOSITORY, name),
					      .event = REGISTRY_ASKED,
					      .generation = 1,
					      .timeline = "fedcba9876543210" };

	assert_ok(registry_move(store, &change, &err));
	AUTO_REGISTRY_ROW struct registry_row row = row_of(name);
	assert_int_equal(row.generation, 0);
}

/* A disk for backups there is no matter of the copies. */
TEST(what_is_mounted_below_the_tree_counts_while_there_are_copies_on_it)
{
	const char *never = "sub/never";

	assert_ok(open_copies());
	AUTO_FREE char *point = mount_in_tree("sub");
	add_synced("sub-x");
	add_synced("sub.d/x");
	add_synced("sub0");
	assert_ok(registry_add(store, KIND_REPOSITORY, &never, 1, &err));
	assert_ok(copies_root_keep_mounts(store, KIND_REPOSITORY, tree, &err));
	assert_int_equal(umount(point), 0);
	assert_ok(check_place(never));
	assert_ok(copies_root_judge(store, KIND_REPOSITORY, tree, &err));
	/* of the time when this site was the primary */
	assert_ok(store_run(store, &err,
			    "INSERT INTO origin (id, kind, name, path, timeline,"
			    " generation, changed_at, verification_state) VALUES"
			    " (1, 'repository', 'sub/o', 'sub/o.git', '00', 1, 1, 0)"));
	assert_fails(check_place(never), ERR_DISK);
	assert_ok(store_run(store, &err, "DELETE FROM origin"));
	assert_ok(check_place(never));
	add_synced("sub/x");
	assert_fails(check_place(never), ERR_DISK);
	assert_non_null(strstr(err.text, "folder sub is not mounted"));
	assert_fails(check_place("sub/x"), ERR_DISK);
	assert_ok(check_place("sub-x"));
	assert_fails(copies_root_judge(store, KIND_REPOSITORY, tree, &err), ERR_DISK);
	take_another_history("sub/x");
	assert_fails(check_place("sub/x"), ERR_DISK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			the_first_start_makes_the_tree_and_the_next_finds_it, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			an_empty_tree_is_refused_while_copies_should_be_there, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			an_empty_tree_is_refused_also_when_no_row_is_synced, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			an_empty_tree_is_refused_also_when_all_rows_are_doubted, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			the_word_of_a_person_counts_until_the_copy_is_here, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(a_tree_that_is_away_is_not_made_again,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(another_tree_makes_everything_suspect,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			what_is_mounted_below_the_tree_is_missed_until_its_folder_goes,
			set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			what_is_mounted_below_the_tree_is_known_also_after_the_tree_was_away,
			set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			what_is_mounted_below_the_tree_counts_while_there_are_copies_on_it,
			set_up, tear_down),
		cmocka_unit_test_setup_teardown(more_rows_than_a_page_become_suspect,
						set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
