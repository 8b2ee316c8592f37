#include "git_test.h"

#include <sched.h>
#include <sys/mount.h>

#include "base/metrics.h"
#include "base/thread.h"
#include "generation_test.h"
#include "serve/disk_cache.h"

#define REST "112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define NAME_1 "11" REST
#define NAME_2 "22" REST
#define PATH_1 "cache/11/" REST
#define PATH_2 "cache/22/" REST
#define TEMPORARY "cache/11/tmp-0123456789abcdef"

static const struct disk_cache_limits limits = { .size = 1 << 20,
						 .max_age_ms = 86400000 };
static struct disk_cache *disk_cache;
static char directory[96];

static int setup(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	log_set_level(LOG_LEVEL_NONE);
	snprintf(directory, sizeof(directory), "%s/cache", root);
	disk_cache = disk_cache_open(directory, &limits);
	return 0;
}

static int teardown(void **state)
{
	disk_cache_close(disk_cache);
	return test_remove_root(state);
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void put(const char *name, unsigned branches)
{
	struct generation *generation = generation_with(name, branches);

	disk_cache_write(disk_cache, generation);
	generation_unref(generation);
}

static bool has(const char *name)
{
	struct generation *generation = disk_cache_read(disk_cache, name);
	bool is_there = generation != NULL;

	if (generation)
		assert_string_equal(generation_name(generation), name);
	generation_unref(generation);
	return is_there;
}

static bool is_file(const char *path)
{
	struct stat st;

	return fstatat(root_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void put_file(const char *path, const void *data, size_t len)
{
	AUTO_CLOSE int fd =
		openat(root_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_ok(file_write_all(fd, data, len, path, &err));
}

static void get_file(const char *path, struct str *out)
{
	assert_ok(file_read(root_fd, path, 1 << 20, out, &err));
}

/* How long ago it was modified: negative: in the future. */
static void set_age(const char *path, int64_t seconds)
{
	const struct timespec times[2] = { { time(NULL) - seconds, 0 },
					   { time(NULL) - seconds, 0 } };

	assert_int_equal(utimensat(root_fd, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

static int64_t age_of(const char *path)
{
	struct stat st;

	assert_int_equal(fstatat(root_fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	return time(NULL) - st.st_mtime;
}

/* The value of a metric's line that begins so. */
static double metric(const char *series)
{
	AUTO_STR struct str all = STR_INIT;
	AUTO_FREE char *line = xasprintf("\n%s ", series);

	metrics_render_as(METRICS_PROMETHEUS, &all);
	const char *at = strstr(all.data, line);
	assert_non_null(at);
	return strtod(at + strlen(line), NULL);
}

#define REMOVED(class) metric("refrelay_refs_disk_removed_total{class=\"" class "\"}")
#define ERRORS metric("refrelay_refs_disk_errors_total")
#define BYTES metric("refrelay_refs_disk_bytes")

TEST(what_was_written_is_read_also_after_a_restart)
{
	struct generation *generation = generation_with(NAME_1, 1000);

	assert_false(has(NAME_1));
	generation_compress(generation);
	disk_cache_write(disk_cache, generation);
	disk_cache_close(disk_cache);
	disk_cache = disk_cache_open(directory, &limits);
	struct generation *again = disk_cache_read(disk_cache, NAME_1);
	assert_non_null(again);
	for (int protocol = 0; protocol <= 2; protocol++) {
		struct generation_body one =
			generation_info_refs(generation, protocol, true);
		struct generation_body two = generation_info_refs(again, protocol, true);
		assert_int_equal(one.is_gzip, two.is_gzip);
		assert_int_equal(one.len, two.len);
		assert_memory_equal(one.data, two.data, one.len);
	}
	assert_false(has(NAME_2));
	generation_unref(again);
	generation_unref(generation);
}

TEST(a_file_that_was_cut_anywhere_is_removed_and_never_answered)
{
	AUTO_STR struct str whole = STR_INIT;
	double broken = REMOVED("broken");

	put(NAME_1, 1);
	get_file(PATH_1, &whole);
	for (size_t len = 0; len < whole.len; len++) {
		put_file(PATH_1, whole.data, len);
		assert_false(has(NAME_1));
		assert_false(is_file(PATH_1));
	}
	assert_true(REMOVED("broken") == broken + (double)whole.len);
	put_file(PATH_1, whole.data, whole.len);
	assert_true(has(NAME_1));
}

TEST(a_byte_that_was_flipped_anywhere_is_noticed)
{
	AUTO_STR struct str whole = STR_INIT;

	put(NAME_1, 1);
	get_file(PATH_1, &whole);
	for (size_t at = 0; at < whole.len; at++) {
		whole.data[at] = (char)(whole.data[at] ^ (1 << at % 8));
		put_file(PATH_1, whole.data, whole.len);
		assert_false(has(NAME_1));
		assert_false(is_file(PATH_1));
		whole.data[at] = (char)(whole.data[at] ^ (1 << at % 8));
	}
}

/* Puts 8 bytes into the header's lengths. */
static void set_length(struct str *file, size_t part, uint64_t len)
{
	for (size_t i = 0; i < 8; i++)
		file->data[DISK_CACHE_FILE_LENGTHS_AT + 8 * part + i] =
			(char)(len >> (8 * i));
}

TEST(lengths_are_not_believed)
{
	static const uint64_t wrong[] = { UINT64_C(1) << 60, UINT64_MAX,
					  UINT64_C(1) << 63, 1 << 20 };
	AUTO_STR struct str whole = STR_INIT;

	put(NAME_1, 1);
	get_file(PATH_1, &whole);
	for (size_t i = 0; i < ARRAY_SIZE(wrong) * 4; i++) {
		AUTO_STR struct str file = STR_INIT;
		str_add_bytes(&file, whole.data, whole.len);
		set_length(&file, i % 4, wrong[i / 4]);
		put_file(PATH_1, file.data, file.len);
		assert_false(has(NAME_1));
	}
	for (size_t i = 0; i < 4; i++) /* the sum runs over */
		set_length(&whole, i, UINT64_C(1) << 62);
	put_file(PATH_1, whole.data, whole.len);
	assert_false(has(NAME_1));
}

TEST(garbage_and_a_file_as_large_as_a_disk_are_removed)
{
	put(NAME_1, 1);
	put_file(PATH_1, "garbage", 7);
	assert_false(has(NAME_1));
	assert_false(is_file(PATH_1));
	put(NAME_1, 1);
	must("truncate -s 1T %s", PATH_1);
	assert_false(has(NAME_1));
	assert_false(is_file(PATH_1));
}

TEST(a_file_under_anothers_name_is_not_believed)
{
	put(NAME_1, 1);
	must("mkdir -p cache/22 && cp %s %s", PATH_1, PATH_2);
	assert_false(has(NAME_2));
	assert_true(has(NAME_1));
}

/* The digest is right, but no generation comes of it: another version's, or a bug. */
TEST(a_whole_file_with_senseless_parts_is_removed)
{
	struct generation_parts parts = parts_with(NAME_1, 1);

	put(NAME_1, 1);
	str_add(&parts.capabilities, "0000");
	AUTO_CLOSE int fd = openat(root_fd, PATH_1, O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
	assert_ok(disk_cache_file_write(fd, &parts, &err));
	generation_parts_clear(&parts);
	assert_false(has(NAME_1));
	assert_false(is_file(PATH_1));
}

TEST(nothing_is_reached_through_a_link_and_odd_files_are_passed_over)
{
	put(NAME_1, 1);
	must("mv %s real && ln -s %s/real %s", PATH_1, root, PATH_1);
	assert_false(has(NAME_1));
	must("rm %s && mkfifo %s", PATH_1, PATH_1);
	assert_false(has(NAME_1));
	must("rm %s && mkdir %s", PATH_1, PATH_1);
	assert_false(has(NAME_1));
	assert_true(is_file(PATH_1));
	must("rmdir %s && mv real %s && mv cache/11 elsewhere && ln -s %s/elsewhere "
	     "cache/11",
	     PATH_1, PATH_1, root);
	double errors = ERRORS;
	assert_false(has(NAME_1));
	put(NAME_1, 2);
	assert_true(ERRORS == errors + 2);
	must("test $(ls elsewhere | wc -l) = 1");
	must("touch -d @1000000 elsewhere/*");
	disk_cache_sweep(disk_cache, NULL);
	must("test $(ls elsewhere | wc -l) = 1");
}

TEST(a_link_or_pipe_in_the_place_of_a_file_is_replaced)
{
	must("mkdir cache/11 && echo precious >precious && ln -s %s/precious %s", root,
	     PATH_1);
	put(NAME_1, 1);
	assert_true(has(NAME_1));
	must("grep -q precious precious");
}

/* Lines in the log while a thing is done. */
static unsigned lines_logged(void (*work)(void))
{
	AUTO_STR struct str log = STR_INIT;
	unsigned lines = 0;
	int saved = dup(2);
	AUTO_CLOSE int fd =
		openat(root_fd, "log", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(saved >= 0 && dup2(fd, 2) == 2);
	log_set_level(LOG_LEVEL_WARN);
	work();
	log_set_level(LOG_LEVEL_NONE);
	assert_int_equal(dup2(saved, 2), 2);
	close(saved);
	get_file("log", &log);
	for (const char *at = log.data; (at = strchr(at, '\n')) != NULL; at++)
		lines++;
	return lines;
}

static void try_thrice(void)
{
	for (int i = 0; i < 3; i++) {
		put(NAME_1, 1);
		assert_false(has(NAME_1));
		disk_cache_sweep(disk_cache, NULL);
	}
}

TEST(a_file_where_the_directory_was_costs_one_warning_until_it_is_gone)
{
	double errors = ERRORS;

	put(NAME_1, 1);
	must("rm -r cache && echo not mine >cache");
	assert_int_equal(lines_logged(try_thrice), 1);
	assert_true(ERRORS == errors + 9);
	must("rm cache");
	put(NAME_1, 1);
	assert_true(has(NAME_1));
}

TEST(a_directory_that_is_gone_is_made_again)
{
	double errors = ERRORS;

	put(NAME_1, 1);
	must("rm -r cache");
	assert_false(has(NAME_1));
	put(NAME_1, 1);
	assert_true(has(NAME_1));
	must("test $(stat -c %%a cache) = 700 && test $(stat -c %%a cache/11) = 700 && "
	     "test $(stat -c %%a %s) = 600",
	     PATH_1);
	assert_true(ERRORS == errors);
}

TEST(what_others_may_write_to_is_not_used_and_a_groups_directory_keeps_its_mode)
{
	must("chmod 777 cache");
	put(NAME_1, 1);
	assert_false(is_file(PATH_1));
	must("chmod 2770 cache");
	put(NAME_1, 1);
	assert_true(has(NAME_1));
	must("test $(stat -c %%a cache/11) = 2770 && test $(stat -c %%a %s) = 660",
	     PATH_1);
}

/* Puts a small disk at the cache's directory, in a namespace of this process. */
static void mount_small_disk(void)
{
	if (unshare(CLONE_NEWNS) != 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("tmpfs", directory, "tmpfs", 0, "size=64k,mode=700") != 0)
		skip();
}

static size_t left_in_cache(void)
{
	AUTO_FREE char *count = output_of("find cache -type f | wc -l");

	return strtoul(count, NULL, 10);
}

TEST(a_full_or_read_only_disk_keeps_nothing_and_works_when_that_is_over)
{
	mount_small_disk();
	double errors = ERRORS;
	put(NAME_1, 2000);
	assert_true(ERRORS == errors + 1);
	assert_int_equal(left_in_cache(), 0);
	put(NAME_1, 1);
	assert_true(has(NAME_1));
	assert_int_equal(mount(NULL, directory, NULL, MS_REMOUNT | MS_RDONLY, "size=64k"),
			 0);
	assert_true(has(NAME_1));
	put(NAME_2, 1);
	disk_cache_sweep(disk_cache, NULL);
	assert_true(ERRORS == errors + 3);
	assert_int_equal(mount(NULL, directory, NULL, MS_REMOUNT, "size=1m"), 0);
	put(NAME_2, 2000);
	assert_true(has(NAME_2));
	assert_true(ERRORS == errors + 3);
	assert_int_equal(umount2(directory, MNT_DETACH), 0);
}

TEST(what_was_not_used_for_long_is_swept_and_what_is_read_counts_as_used)
{
	put(NAME_1, 1);
	put(NAME_2, 1);
	set_age(PATH_1, 86400 + 60);
	set_age(PATH_2, 86400 - 60);
	double aged = REMOVED("age");
	disk_cache_sweep(disk_cache, NULL);
	assert_false(is_file(PATH_1));
	assert_true(is_file(PATH_2));
	assert_true(REMOVED("age") == aged + 1);
	assert_true(has(NAME_2));
	assert_in_range(age_of(PATH_2), 0, 60);
	set_age(PATH_2, 3000);
	assert_true(has(NAME_2)); /* not yet an hour: reading costs no write */
	assert_in_range(age_of(PATH_2), 2990, 3060);
}

TEST(a_time_in_the_future_is_put_right)
{
	put(NAME_1, 1);
	set_age(PATH_1, -400 * 86400);
	disk_cache_sweep(disk_cache, NULL);
	assert_in_range(age_of(PATH_1), 0, 60);
	set_age(PATH_1, -400 * 86400);
	assert_true(has(NAME_1));
	assert_in_range(age_of(PATH_1), 0, 60);
}

TEST(what_dead_writers_left_is_swept_and_what_is_not_ours_stays)
{
	must("mkdir cache/11 cache/zz && echo x >%s && cp %s cache/tmp-0123456789abcdef "
	     "&& cp %s cache/tmp-fedcba9876543210 && echo x >cache/tmp-notes && "
	     "echo x >cache/11/README && echo x >cache/zz/file && "
	     "touch -d @1000000 cache/tmp-notes cache/11/README cache/zz/file",
	     TEMPORARY, TEMPORARY, TEMPORARY);
	set_age(TEMPORARY, 11 * 60);
	set_age("cache/tmp-0123456789abcdef", 11 * 60);
	set_age("cache/tmp-fedcba9876543210", 9 * 60);
	disk_cache_sweep(disk_cache, NULL);
	assert_false(is_file(TEMPORARY));
	assert_false(is_file("cache/tmp-0123456789abcdef"));
	assert_int_equal(left_in_cache(), 4);
}

/* 20 files of 12 KiB, the first used longest ago. */
static void put_many(void)
{
	for (unsigned i = 0; i < 20; i++) {
		AUTO_FREE char *name = xasprintf("%02x%s", i, REST);
		AUTO_FREE char *path = xasprintf("cache/%02x/%s", i, REST);
		put(name, 200);
		set_age(path, 3600 - 60 * (int64_t)i);
	}
}

TEST(above_the_size_the_least_recently_used_go_and_nothing_is_added)
{
	put_many();
	double used = BYTES, by_size = REMOVED("size");
	disk_cache_set_limits(disk_cache,
			      &(struct disk_cache_limits){ .size = (uint64_t)(used / 2),
							   .max_age_ms = 86400000 });
	put("ff" REST, 1);
	assert_false(has("ff" REST));
	disk_cache_sweep(disk_cache, NULL);
	assert_true(BYTES <= used / 2);
	assert_true(BYTES >= used / 4);
	size_t left = left_in_cache();
	assert_true(REMOVED("size") == by_size + 20 - (double)left);
	for (unsigned i = 0; i < 20; i++) {
		AUTO_FREE char *name = xasprintf("%02x%s", i, REST);
		assert_int_equal(has(name), i >= 20 - left);
	}
	put("ff" REST, 1);
	assert_true(has("ff" REST));
}

TEST(size_0_keeps_nothing)
{
	put(NAME_1, 1);
	disk_cache_set_limits(disk_cache,
			      &(struct disk_cache_limits){ .max_age_ms = 86400000 });
	assert_false(has(NAME_1));
	put(NAME_2, 1);
	assert_false(is_file(PATH_2));
	disk_cache_sweep(disk_cache, NULL);
	assert_int_equal(left_in_cache(), 0);
}

TEST(a_sweep_that_is_stopped_ends_at_once)
{
	struct stop stop;
	double errors = ERRORS;

	put(NAME_1, 1);
	set_age(PATH_1, 10 * 86400);
	stop_init(&stop);
	stop_request(&stop);
	disk_cache_sweep(disk_cache, &stop);
	stop_clear(&stop);
	assert_true(is_file(PATH_1));
	assert_true(ERRORS == errors);
}

TEST(clear_removes_what_is_ours_and_nothing_else)
{
	put_many();
	must("echo x >%s && echo x >cache/11/README && echo x >cache/mine", TEMPORARY);
	assert_int_equal(disk_cache_clear(directory, &err), 21);
	assert_int_equal(err.class, ERR_NONE);
	assert_int_equal(left_in_cache(), 2);
	must("rm -r cache");
	assert_int_equal(disk_cache_clear(directory, &err), 0);
	assert_int_equal(err.class, ERR_NONE);
	must("echo x >cache");
	assert_int_equal(disk_cache_clear(directory, &err), 0);
	assert_int_not_equal(err.class, ERR_NONE);
	must("rm cache");
}

TEST(each_thing_that_matters_changes_the_name)
{
	char path[] = "/srv/git/a.git", other[] = "/srv/git/b.git";
	const struct look look = { .path = path, .inode = 7, .key = "k" };
	struct look looks[] = { look, look, look, look, look, look };
	char names[ARRAY_SIZE(looks)][GENERATION_NAME_SIZE];

	looks[1].path = other;
	looks[2].inode = 8;
	looks[3].key[0] = 'l';
	looks[4].fingerprint.digest[31] = 1;
	looks[5].fingerprint.is_shared = true;
	for (size_t i = 0; i < ARRAY_SIZE(looks); i++) {
		disk_cache_name(&looks[i], names[i]);
		assert_int_equal(strlen(names[i]), 64);
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(names[i], names[j]);
	}
	disk_cache_name(&look, names[1]);
	assert_string_equal(names[0], names[1]);
}

enum { HAMMERED = 40, HAMMER_MS = 400 };

/* Writes, reads and sweeps few names in a small space; wrong: an answer is not what was
 * written under its name. */
static int hammer(const char *where)
{
	const struct disk_cache_limits small = { .size = 300000, .max_age_ms = 86400000 };
	struct disk_cache *mine = disk_cache_open(where, &small);
	int64_t end = clock_boot_ms() + HAMMER_MS;
	unsigned wrong = 0, hits = 0;

	for (unsigned i = (unsigned)getpid(); clock_boot_ms() < end || hits == 0; i++) {
		unsigned number = i * 7 % HAMMERED;
		AUTO_FREE char *name = xasprintf("%02x%s", number % 8, REST);
		name[63] = (char)('a' + number / 8);
		struct generation *found = disk_cache_read(mine, name);
		hits += found != NULL;
		wrong += found && (strcmp(generation_name(found), name) != 0 ||
				   ref_list_count(generation_refs(found)) < number);
		generation_unref(found);
		struct generation *written = generation_with(name, number * 10);
		if (i % 3 == 0)
			disk_cache_write(mine, written);
		generation_unref(written);
		if (i % 16 == 0)
			disk_cache_sweep(mine, NULL);
	}
	disk_cache_close(mine);
	return wrong == 0 && hits > 0 ? 0 : 1;
}

TEST(two_processes_write_read_and_sweep_at_once_without_harm)
{
	char mode[] = "hammer";
	char *argv[] = { self, mode, directory, NULL };
	double errors = ERRORS, broken = REMOVED("broken");
	pid_t pids[] = { start(self, argv), start(self, argv) };

	assert_int_equal(hammer(directory), 0);
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
		assert_int_equal(wait_end(pids[i]), 0);
	assert_true(ERRORS == errors);
	assert_true(REMOVED("broken") == broken);
	must("test $(find cache -name 'tmp-*' | wc -l) = 0");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(what_was_written_is_read_also_after_a_restart),
		CASE(a_file_that_was_cut_anywhere_is_removed_and_never_answered),
		CASE(a_byte_that_was_flipped_anywhere_is_noticed),
		CASE(lengths_are_not_believed),
		CASE(garbage_and_a_file_as_large_as_a_disk_are_removed),
		CASE(a_file_under_anothers_name_is_not_believed),
		CASE(a_whole_file_with_senseless_parts_is_removed),
		CASE(nothing_is_reached_through_a_link_and_odd_files_are_passed_over),
		CASE(a_link_or_pipe_in_the_place_of_a_file_is_replaced),
		CASE(a_file_where_the_directory_was_costs_one_warning_until_it_is_gone),
		CASE(a_directory_that_is_gone_is_made_again),
		CASE(what_others_may_write_to_is_not_used_and_a_groups_directory_keeps_its_mode),
		CASE(what_was_not_used_for_long_is_swept_and_what_is_read_counts_as_used),
		CASE(a_time_in_the_future_is_put_right),
		CASE(what_dead_writers_left_is_swept_and_what_is_not_ours_stays),
		CASE(above_the_size_the_least_recently_used_go_and_nothing_is_added),
		CASE(size_0_keeps_nothing),
		CASE(a_sweep_that_is_stopped_ends_at_once),
		CASE(clear_removes_what_is_ours_and_nothing_else),
		CASE(each_thing_that_matters_changes_the_name),
		CASE(two_processes_write_read_and_sweep_at_once_without_harm),
		CASE(a_full_or_read_only_disk_keeps_nothing_and_works_when_that_is_over),
	};

	if (argc == 3 && strcmp(argv[1], "hammer") == 0) {
		die_with_parent();
		log_set_level(LOG_LEVEL_NONE);
		return hammer(argv[2]);
	}
	snprintf(self, sizeof(self), "%s", argv[0]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
