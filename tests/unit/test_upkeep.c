#include "test.h"

#include <sys/stat.h>

#include "base/clock.h"
#include "git/fence.h"
#include "git/repo.h"
#include "job/job.h"
#include "lease/lease.h"
#include "replicable/name.h"
#include "store/store.h"
#include "upkeep/trash.h"

static const struct git_work work = { .guard_fd = -1 };
static struct repo repo;

static void open_repository(void)
{
	AUTO_FREE char *path = xasprintf("%s/r.git", root);

	assert_ok(git_setup(root, &err));
	assert_ok(repo_make(root_fd, "r.git", 20, &err));
	assert_ok(repo_open(AT_FDCWD, path, &repo, &err));
	assert_ok(dir_make(repo.fd, "refrelay/state/pending", &err));
}

static void touch(const char *path, int64_t age_s)
{
	const struct timespec old[2] = { { time(NULL) - age_s, 0 },
					 { time(NULL) - age_s, 0 } };
	AUTO_CLOSE int fd = openat(repo.fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

	assert_true(fd >= 0);
	assert_int_equal(futimens(fd, old), 0);
}

static bool exists(int dir, const char *path)
{
	return faccessat(dir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

TEST(after_a_crash_every_temporary_file_goes_and_nothing_else)
{
	static const char *const gone[] = {
		"objects/pack/tmp_pack_XXaaaa",
		"objects/pack/tmp_idx_XXaaaa",
		"objects/pack/.tmp-12-pack-1234",
		"objects/tmp_obj_abc",
		"HEAD.tmp-0123456789abcdef",
		"refrelay/fence.tmp-0123456789abcdef",
		"refrelay/state/key.tmp-0123456789abcdef",
	};
	static const char *const kept[] = { "objects/pack/pack-1.pack", "refrelay/fence",
					    "refrelay/state/key", "x.tmp-short",
					    "description" };

	open_repository();
	for (size_t i = 0; i < ARRAY_SIZE(gone); i++)
		touch(gone[i], 0);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		touch(kept[i], 0);
	assert_ok(tidy_left_overs(&repo, TIDY_AFTER_CRASH, &err));
	for (size_t i = 0; i < ARRAY_SIZE(gone); i++)
		if (exists(repo.fd, gone[i]))
			fail_msg("%s is still there", gone[i]);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		assert_true(exists(repo.fd, kept[i]));
	repo_close(&repo);
}

/* A git child whose lease was lost is dead, and its half pack is nobody's. */
TEST(where_nobody_else_works_gits_temporary_files_go_at_any_age)
{
	open_repository();
	touch("objects/pack/tmp_pack_young", 0);
	touch("refrelay/fence.tmp-0123456789abcdef", 0);
	touch("objects/pack/pack-1.pack", 0);
	assert_ok(tidy_left_overs(&repo, TIDY_ALONE, &err));
	assert_false(exists(repo.fd, "objects/pack/tmp_pack_young"));
	assert_true(exists(repo.fd, "refrelay/fence.tmp-0123456789abcdef"));
	assert_true(exists(repo.fd, "objects/pack/pack-1.pack"));
	repo_close(&repo);
}

TEST(without_a_crash_only_old_temporary_files_go)
{
	open_repository();
	touch("objects/pack/tmp_pack_young", 3600);
	touch("objects/pack/tmp_pack_old", 90000);
	assert_ok(tidy_left_overs(&repo, TIDY_AFTER_SUCCESS, &err));
	assert_true(exists(repo.fd, "objects/pack/tmp_pack_young"));
	assert_false(exists(repo.fd, "objects/pack/tmp_pack_old"));
	repo_close(&repo);
}

static void git(const char *const *args, const char *input, struct str *output)
{
	AUTO_STR struct str text = STR_INIT;

	str_add(&text, input);
	assert_ok(git_run(&(struct git_call){ .work = &work,
					      .repository = repo.path,
					      .args = args,
					      .input = &text,
					      .output = output,
					      .output_limit = 65536 },
			  &err));
}

/* One object, in a pack of its own, that nothing refers to. */
static void make_pack(int i)
{
	static const char *const hash[] = { "hash-object", "-w", "--stdin", NULL };
	static const char *const pack[] = { "pack-objects", "-q", "objects/pack/pack",
					    NULL };
	static const char *const prune[] = { "prune-packed", "-q", NULL };
	AUTO_STR struct str oid = STR_INIT;
	AUTO_STR struct str name = STR_INIT;
	char text[32];

	snprintf(text, sizeof(text), "object %d\n", i);
	git(hash, text, &oid);
	git(pack, oid.data, &name);
	git(prune, "", NULL);
}

static size_t count_packs(void)
{
	size_t count = 0;
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *dir =
		fdopendir(openat(repo.fd, "objects/pack", O_RDONLY | O_CLOEXEC));

	while ((entry = readdir(dir)) != NULL)
		count += text_ends_with(entry->d_name, ".pack");
	return count;
}

static size_t count_objects(void)
{
	static const char *const all[] = { "cat-file", "--batch-check",
					   "--batch-all-objects", NULL };
	AUTO_STR struct str list = STR_INIT;
	size_t count = 0;

	git(all, "", &list);
	for (size_t i = 0; i < list.len; i++)
		count += list.data[i] == '\n';
	return count;
}

/* Ours is not less than what a repository's own configuration wants, nor another. */
TEST(git_flushes_whatever_the_repositorys_config_says)
{
	static const char *const settings[][3] = {
		{ "core.fsync", "none", "objects,derived-metadata,reference\n" },
		{ "core.fsyncMethod", "writeout-only", "fsync\n" },
	};

	open_repository();
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		const char *const set[] = { "config", settings[i][0], settings[i][1],
					    NULL };
		const char *const get[] = { "config", "--get", settings[i][0], NULL };
		AUTO_STR struct str value = STR_INIT;
		git(set, "", NULL);
		git(get, "", &value);
		assert_string_equal(value.data, settings[i][2]);
	}
	repo_close(&repo);
}

TEST(many_packs_are_folded_and_no_object_is_dropped)
{
	open_repository();
	for (int i = 0; i < TIDY_PACK_LIMIT; i++)
		make_pack(i);
	assert_ok(tidy_packs(&work, &repo, TIDY_PACK_LIMIT, &err));
	assert_int_equal(count_packs(), TIDY_PACK_LIMIT); /* not many yet */
	make_pack(TIDY_PACK_LIMIT);
	assert_ok(tidy_packs(&work, &repo, TIDY_PACK_LIMIT, &err));
	assert_in_range(count_packs(), 1, 3);
	assert_int_equal(count_objects(), TIDY_PACK_LIMIT + 1);
	repo_close(&repo);
}

TEST(packs_beside_alternates_are_folded_without_copying_the_others)
{
	open_repository();
	assert_ok(repo_make(root_fd, "other.git", 20, &err));
	AUTO_FREE char *line = xasprintf("%s/other.git/objects\n", root);
	assert_ok(file_replace(repo.fd, "objects/info/alternates", line, strlen(line),
			       FILE_NO_SYNC, &err));
	repo.has_alternates = true;
	for (int i = 0; i <= TIDY_PACK_LIMIT; i++)
		make_pack(i);
	assert_ok(tidy_packs(&work, &repo, TIDY_PACK_LIMIT, &err));
	assert_in_range(count_packs(), 1, 3);
	assert_int_equal(count_objects(), TIDY_PACK_LIMIT + 1);
	repo_close(&repo);
}

static struct store *store;
static struct lease_manager *leases;

static void open_leases(void)
{
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);
	AUTO_FREE char *directory = xasprintf("%s/leases", root);

	assert_ok(store_open(url, &store, &err));
	assert_ok(lease_manager_open_local(
		store, &(struct lease_options){ .directory = directory }, &leases, &err));
}

static void close_leases(void)
{
	lease_manager_close(leases);
	store_close(store);
}

static int put(struct job *job, void *arg, struct err *e)
{
	AUTO_FREE char *to = NULL;

	return trash_put(job, root, arg, &to, e);
}

static int remove_repository(const char *name, char *path)
{
	return job_run(&(struct job_request){ .leases = leases,
					      .kind = KIND_REPOSITORY,
					      .name = name,
					      .operation = "remove",
					      .run = put,
					      .arg = path },
		       &err);
}

static size_t count_trash(void)
{
	size_t count = 0;
	struct dirent *entry;
	int fd = openat(root_fd, ".refrelay/trash", O_RDONLY | O_CLOEXEC);
	AUTO_CLOSEDIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	while (dir && (entry = readdir(dir)) != NULL)
		count += entry->d_name[0] != '.';
	return count;
}

TEST(a_deleted_copy_waits_in_the_trash_with_its_fence_raised)
{
	char path[] = "group/sub/r.git";
	uint64_t fence;
	struct dirent *entry;

	assert_ok(git_setup(root, &err));
	open_leases();
	assert_ok(dir_make(root_fd, "group/sub", &err));
	assert_ok(repo_make(root_fd, path, 20, &err));
	assert_ok(remove_repository("group/sub/r", path));
	assert_false(exists(root_fd, "group")); /* empty folders went with it */
	assert_int_equal(count_trash(), 1);
	AUTO_CLOSEDIR DIR *dir =
		fdopendir(openat(root_fd, ".refrelay/trash", O_RDONLY | O_CLOEXEC));
	while ((entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		assert_non_null(strstr(entry->d_name, "group%2Fsub%2Fr.git"));
		AUTO_CLOSE int copy =
			openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);
		assert_ok(fence_read(copy, &fence, &err));
		assert_true(fence > 0);
	}
	assert_fails(remove_repository("group/sub/r", path), ERR_MISSING);
	close_leases();
}

TEST(a_folder_of_copies_is_no_copy)
{
	char path[] = "g.git", damaged[] = "damaged.git";

	assert_ok(git_setup(root, &err));
	open_leases();
	assert_ok(dir_make(root_fd, path, &err));
	assert_ok(repo_make(root_fd, "g.git/h.git", 20, &err));
	assert_fails(remove_repository("g", path), ERR_MISSING);
	assert_true(exists(root_fd, "g.git/h.git/HEAD"));
	assert_false(exists(root_fd, "g.git/refrelay"));

	assert_ok(dir_make(root_fd, "damaged.git/refs", &err));
	assert_ok(remove_repository("damaged", damaged));
	assert_false(exists(root_fd, damaged));
	close_leases();
}

TEST(the_trash_is_emptied_by_age)
{
	AUTO_FREE char *young =
		xasprintf(".refrelay/trash/%" PRId64 ".1.a", clock_wall_ms() - 1000);
	AUTO_FREE char *old = xasprintf(".refrelay/trash/%" PRId64 ".1.b",
					clock_wall_ms() - TRASH_KEEP_MS - 1000);

	assert_ok(dir_make(root_fd, young, &err));
	assert_ok(dir_make(root_fd, old, &err));
	assert_ok(dir_make(root_fd, ".refrelay/trash/somebody's", &err));
	trash_expire(root);
	assert_true(exists(root_fd, young));
	assert_false(exists(root_fd, old));
	assert_true(exists(root_fd, ".refrelay/trash/somebody's"));
}

TEST(only_staging_whose_builder_is_gone_is_cleared)
{
	uint64_t id = replicable_id(KIND_REPOSITORY, "busy");
	AUTO_FREE char *busy = xasprintf(".refrelay/staging/%" PRIu64 ".7", id);
	struct lease *lease;
	char key[LEASE_KEY_SIZE];

	open_leases();
	lease_key_for(leases, KIND_REPOSITORY, id, NULL, key);
	assert_ok(lease_acquire(
		leases, &(struct lease_request){ .key = key, .operation = "sync" },
		&lease, &err));
	assert_ok(dir_make(root_fd, busy, &err));
	assert_ok(dir_make(root_fd, ".refrelay/staging/42.7/objects", &err));
	staging_clear(leases, root);
	assert_true(exists(root_fd, busy));
	assert_false(exists(root_fd, ".refrelay/staging/42.7"));
	lease_release(lease);
	close_leases();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(after_a_crash_every_temporary_file_goes_and_nothing_else),
		CASE(where_nobody_else_works_gits_temporary_files_go_at_any_age),
		CASE(without_a_crash_only_old_temporary_files_go),
		CASE(git_flushes_whatever_the_repositorys_config_says),
		CASE(many_packs_are_folded_and_no_object_is_dropped),
		CASE(packs_beside_alternates_are_folded_without_copying_the_others),
		CASE(a_deleted_copy_waits_in_the_trash_with_its_fence_raised),
		CASE(a_folder_of_copies_is_no_copy),
		CASE(the_trash_is_emptied_by_age),
		CASE(only_staging_whose_builder_is_gone_is_cleared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
