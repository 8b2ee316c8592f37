#include "blob_job_test.h"
#include "git_test.h"

#include <sched.h>
#include <sys/mount.h>

#include "pull/blob_copy_watch.h"
#include "pull/blob_work.h"
#include "pull/glance.h"
#include "upkeep/copies_root.h"

#define HOUR_MS ((int64_t)3600 * 1000)

static struct blob_copy_watch *watch;

static int set_up(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	open_all();
	pull.options.scan_interval_ms = HOUR_MS;
	return 0;
}

static void unmount_all(void)
{
	AUTO_FREE char *keep = xasprintf("%s/keep", root);
	AUTO_FREE char *point = xasprintf("%s/files/sub", root);

	umount2(point, MNT_DETACH);
	umount2(keep, MNT_DETACH);
}

static int tear_down(void **state)
{
	blob_copy_watch_stop(watch);
	blob_copy_watch_free(watch);
	watch = NULL;
	close_all();
	unmount_all();
	return test_remove_root(state);
}

static void bring(const char *type, const char *id)
{
	put_text(id, id);
	tell(type, id);
	assert_true(run_job(type));
	assert_int_equal(state_of(type, id), REGISTRY_SYNCED);
}

static bool is_doubted(const char *type, const char *id)
{
	AUTO_REGISTRY_ROW struct registry_row row = row_of(type, id);

	return row.state == REGISTRY_PENDING && (row.wishes & REGISTRY_WISH_RECHECK);
}

/* Where scans are an hour apart, nothing but the watch brings it within this wait. */
static void wait_for_doubt(const char *type, const char *id)
{
	wait_until(is_doubted(type, id));
}

/* What was done before this returns is looked at: another file's doubt comes after it. */
static void wait_for_looks(void)
{
	must("echo stranger >files/last");
	wait_for_doubt("files", "last");
}

static void start_watch(size_t directories)
{
	bring("files", "last");
	watch = blob_copy_watch_start(&pull, directories);
	wait_for_looks();
	assert_true(run_job("files"));
}

TEST(whatever_is_done_to_a_file_is_seen_at_once)
{
	static const char *const ways[] = {
		"echo stranger >files/a/way",
		"printf X | dd of=files/a/way bs=1 conv=notrunc,nocreat status=none",
		"rm files/a/way",
		"mv files/a/way files/a/other",
		"python3 -c 'import os; os.truncate(\"files/a/way\", 1)'",
		"python3 -c 'import os; s = os.stat(\"files/a/way\")\n"
		"f = os.open(\"files/a/way\", os.O_RDWR); os.pwrite(f, b\"X\", 0)\n"
		"os.utime(f, ns=(s.st_atime_ns, s.st_mtime_ns))'",
		"rm files/a/way && ln -s other files/a/way",
		"rm files/a/way && mkdir files/a/way",
		"mv files/a aside",
		"rm -r files/a && echo file >files/a",
	};

	bring("files", "a/way");
	bring("files", "b/c");
	start_watch(0);
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		must("%s", ways[i]);
		wait_for_doubt("files", "a/way");
		must("rm -rf files/a aside");
		/* from then on it waits, as it is doubted so often */
		doubts_clear(&pull);
		ask_for("files", "a/way",
			(struct registry_move){ .wishes = REGISTRY_WISH_RECHECK });
		assert_true(run_job("files"));
		assert_true(is_here("files", "a/way"));
		assert_true(is_proved("files", "a/way"));
	}
	assert_int_equal(state_of("files", "b/c"), REGISTRY_SYNCED);
}

TEST(a_directory_that_is_moved_aside_takes_all_below_along)
{
	char id[32];

	for (int i = 0; i < 40; i++) {
		snprintf(id, sizeof(id), "top/%d/%d/file", i % 4, i);
		bring("files", id);
	}
	bring("files", "top-most");
	start_watch(0);
	must("mv files/top aside");
	for (int i = 0; i < 40; i++) {
		snprintf(id, sizeof(id), "top/%d/%d/file", i % 4, i);
		wait_for_doubt("files", id);
	}
	assert_int_equal(state_of("files", "top-most"), REGISTRY_SYNCED);
}

static char object_id[BLOB_DIGEST_SIZE + 2];

static void bring_object(const char *text)
{
	char digest[BLOB_DIGEST_SIZE];

	digest_of(text, strlen(text), digest);
	blob_lfs_id(digest, object_id);
	put_text(object_id, text);
	tell("lfs", object_id);
	assert_true(run_job("lfs"));
	assert_true(is_proved("lfs", object_id));
}

TEST(objects_of_lfs_are_watched_too)
{
	bring_object("an object");
	start_watch(0);
	AUTO_FREE char *command = xasprintf("chmod u+w lfs/%s && echo stranger >lfs/%s",
					    object_id, object_id);
	must("%s", command);
	wait_for_doubt("lfs", object_id);
}

TEST(what_we_bring_ourselves_is_not_doubted_and_is_watched_from_then_on)
{
	char id[32];

	start_watch(0);
	for (int i = 0; i < 60; i++) {
		snprintf(id, sizeof(id), "new/%d/%d", i % 7, i);
		bring("files", id);
		bring("files", "new/again");
	}
	wait_for_looks();
	assert_int_equal(pull.doubts.count, 1);
	for (int i = 0; i < 60; i++) {
		snprintf(id, sizeof(id), "new/%d/%d", i % 7, i);
		assert_true(is_proved("files", id));
	}
	must("rm files/new/6/6");
	wait_for_doubt("files", "new/6/6");
	must("echo stranger >files/new/again");
	wait_for_doubt("files", "new/again");
}

/* The first directory takes the only watch. */
TEST(what_cannot_be_watched_is_scanned)
{
	bring("files", "a/b");
	bring_object("an object");
	pull.options.scan_interval_ms = 100;
	start_watch(1);
	must("echo stranger >files/a/b");
	wait_for_doubt("files", "a/b");
	AUTO_FREE char *command = xasprintf("rm lfs/%s", object_id);
	must("%s", command);
	wait_for_doubt("lfs", object_id);
}

TEST(what_was_done_while_nobody_watched_is_found_at_the_start)
{
	bring("files", "a/b");
	must("echo stranger >files/a/b");
	watch = blob_copy_watch_start(&pull, 0);
	wait_for_doubt("files", "a/b");
}

TEST(a_kind_whose_directory_is_away_counts_as_not_looked_at)
{
	bring("files", "a/b");
	bring_object("an object");
	pull.options.scan_interval_ms = 50;
	must("mv files away && rm -r lfs/??");
	watch = blob_copy_watch_start(&pull, 0);
	wait_for_doubt("lfs", object_id);
	assert_false(blob_copy_watch_has_looked(watch));
	must("mv away files");
	wait_until(blob_copy_watch_has_looked(watch));
}

/* Its turn comes before that of objects. */
TEST(a_kind_whose_directory_is_away_is_not_doubted)
{
	bring("files", "a/b");
	bring_object("an object");
	pull.options.scan_interval_ms = 50;
	start_watch(0);
	must("mv files away");
	must("rm -r lfs/??");
	wait_for_doubt("lfs", object_id);
	must("mv away files");
	wait_for_looks();
	assert_int_equal(state_of("files", "a/b"), REGISTRY_SYNCED);
	must("rm files/a/b");
	wait_for_doubt("files", "a/b");
}

static int mount_it(void)
{
	AUTO_FREE char *from = xasprintf("%s/keep", root);
	AUTO_FREE char *to = xasprintf("%s/files/sub", root);

	return mount(from, to, NULL, MS_BIND, NULL);
}

static void unmount_it(void)
{
	AUTO_FREE char *point = xasprintf("%s/files/sub", root);

	wait_until(umount(point) == 0); /* a scan may be in it */
}

/* In a name space of its own, which ends with this process. The file system stays, with
 * its watches. */
static void bring_to_mount(const char *id)
{
	AUTO_FREE char *keep = xasprintf("%s/keep", root);

	must("mkdir keep files/sub");
	if (unshare(CLONE_NEWNS) != 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", keep, "tmpfs", 0, NULL) != 0 || mount_it() != 0)
		skip();
	bring("files", id);
	assert_ok(copies_root_keep_mounts(pull.options.store, "files",
					  kind_named("files").path, &err));
}

TEST(what_is_on_a_file_system_that_is_away_is_left_out)
{
	struct kind kind = kind_named("files");
	const struct glance_request request = { .store = pull.options.store,
						.kind = &kind };
	struct glance_result result;

	bring_to_mount("sub/x");
	bring("files", "here");
	unmount_it();
	assert_ok(glance_all(&request, &result, &err));
	assert_int_equal(result.looked, 1);
	assert_int_equal(result.doubted, 0);
	assert_int_equal(result.away.class, ERR_DISK);
	assert_int_equal(mount_it(), 0);
	assert_ok(glance_all(&request, &result, &err));
	assert_int_equal(result.looked, 2);
	assert_int_equal(result.away.class, ERR_NONE);
}

TEST(what_was_left_out_is_looked_at_when_its_file_system_is_back)
{
	bring_to_mount("sub/x");
	pull.options.scan_interval_ms = 50;
	start_watch(0);
	unmount_it();
	must("echo stranger >keep/x");
	wait_for_looks();
	assert_false(is_doubted("files", "sub/x"));
	assert_int_equal(mount_it(), 0);
	wait_for_doubt("files", "sub/x");
}

/* A row says when it was written, not when its file was looked at last. */
TEST(what_is_done_before_the_row_is_written_is_doubted_by_who_writes_it)
{
	struct blob_fingerprint fingerprint = { 0 };

	bring("files", "a/b");
	AUTO_CLOSE int files = openat(root_fd, "files", O_RDONLY | O_DIRECTORY);
	blob_look_again(&pull, kind_named("files").blobs, files, "a/b", &fingerprint);
	assert_true(is_doubted("files", "a/b"));
}

#define WATCH_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WATCH_CASE(whatever_is_done_to_a_file_is_seen_at_once),
		WATCH_CASE(a_directory_that_is_moved_aside_takes_all_below_along),
		WATCH_CASE(objects_of_lfs_are_watched_too),
		WATCH_CASE(
			what_we_bring_ourselves_is_not_doubted_and_is_watched_from_then_on),
		WATCH_CASE(what_cannot_be_watched_is_scanned),
		WATCH_CASE(what_was_done_while_nobody_watched_is_found_at_the_start),
		WATCH_CASE(a_kind_whose_directory_is_away_counts_as_not_looked_at),
		WATCH_CASE(a_kind_whose_directory_is_away_is_not_doubted),
		WATCH_CASE(what_is_on_a_file_system_that_is_away_is_left_out),
		WATCH_CASE(what_was_left_out_is_looked_at_when_its_file_system_is_back),
		WATCH_CASE(
			what_is_done_before_the_row_is_written_is_doubted_by_who_writes_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
