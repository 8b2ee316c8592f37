#include "test.h"

#include "base/thread.h"
#include "blob/walk.h"

struct seen {
	struct str files, findings, directories; /* a line each; "!": hides names */
	const char *remove_at, *remove;          /* at this id, this one is removed */
	struct stop *stop_at_first;
};

static struct seen seen;
static struct blob_kind kind;
static char type[] = "uploads";

static int see_file(void *arg, const char *id, const struct blob_fingerprint *fingerprint,
		    struct err *why)
{
	(void)arg;
	(void)why;
	str_addf(&seen.files, "%s %" PRIu64 "\n", id, fingerprint->size);
	if (seen.remove_at && strcmp(id, seen.remove_at) == 0)
		tree_remove(root_fd, seen.remove, ERR_IGNORED);
	if (seen.stop_at_first)
		stop_request(seen.stop_at_first);
	return strcmp(id, "refuse") == 0 ? err_set(why, ERR_BUSY, "refused") : 0;
}

static void see_finding(void *arg, const struct blob_finding *finding)
{
	(void)arg;
	str_addf(&seen.findings, "%s%s\n", finding->path,
		 finding->hides_names ? "!" : "");
	assert_true(finding->why->text[0] != '\0');
}

static void see_directory(void *arg, const char *path)
{
	(void)arg;
	str_addf(&seen.directories, "%s/\n", path);
}

static const struct blob_visitor visitor = { .file = see_file,
					     .finding = see_finding,
					     .directory = see_directory };

static int setup(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	kind = (struct blob_kind){ .type = type, .path = root };
	seen = (struct seen){ .files = STR_INIT,
			      .findings = STR_INIT,
			      .directories = STR_INIT };
	return 0;
}

static int teardown(void **state)
{
	str_clear(&seen.files);
	str_clear(&seen.findings);
	str_clear(&seen.directories);
	return test_remove_root(state);
}

#define WALK(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void put(const char *path)
{
	assert_ok(dir_make_parents(root_fd, path, &err));
	assert_ok(file_replace(root_fd, path, "x", 1, FILE_NO_SYNC, &err));
}

TEST(files_come_in_the_byte_order_of_their_ids)
{
	static const char *const ids[] = { "b",  "a/x",      "a.b",    "a-b",
					   "a0", "a/y/z",    "a/y.z",  "a/y0",
					   "B",  "\xc3\xa4", "a/x0/q", "a/x0.q" };

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		put(ids[i]);
	assert_ok(blob_walk(&kind, &visitor, NULL, &err));
	assert_string_equal(seen.files.data,
			    "B 1\na-b 1\na.b 1\na/x 1\na/x0.q 1\na/x0/q 1\na/y.z 1\n"
			    "a/y/z 1\na/y0 1\na0 1\nb 1\n\xc3\xa4 1\n");
	assert_string_equal(seen.directories.data, "/\na/\na/x0/\na/y/\n");
	assert_string_equal(seen.findings.data, "");
}

TEST(what_is_no_blob_is_a_finding_and_our_own_things_are_not_even_that)
{
	put(".refrelay/incoming/x");
	put("a/.refrelay-incoming/x");
	put("lost+found/x");
	put("good");
	put("new\nline");
	put("bad\nfolder/x");
	put("latin\xfc");
	mkfifoat(root_fd, "pipe", 0644);
	assert_int_equal(symlinkat("good", root_fd, "link"), 0);
	assert_int_equal(symlinkat("/etc", root_fd, "a/etc"), 0);
	assert_ok(blob_walk(&kind, &visitor, NULL, &err));
	assert_string_equal(seen.files.data, "good 1\n");
	assert_non_null(strstr(seen.findings.data, "pipe\n"));
	assert_non_null(strstr(seen.findings.data, "link\n"));
	assert_non_null(strstr(seen.findings.data, "a/etc\n"));
	assert_non_null(strstr(seen.findings.data, "new\nline\n"));
	assert_non_null(strstr(seen.findings.data, "bad\nfolder\n"));
	assert_non_null(strstr(seen.findings.data, "latin\xfc\n"));
	assert_null(strstr(seen.findings.data, "!"));
	assert_null(strstr(seen.findings.data, "refrelay"));
}

TEST(only_digests_are_ids_where_objects_of_lfs_are)
{
#define REST "23456789abcdef0123456789abcdef0123456789abcdef0123456789abcd"
	kind.layout = BLOB_LFS;
	put("aa/bb/" REST);
	put("tmp/objects");
	assert_ok(blob_walk(&kind, &visitor, NULL, &err));
	assert_string_equal(seen.files.data, "aa/bb/" REST " 1\n");
	assert_string_equal(seen.findings.data, "tmp/objects\n");
}

TEST(a_directory_that_cannot_be_read_hides_names)
{
	put("closed/x");
	put("open");
	chmod(root, 0755);
	assert_int_equal(fchmodat(root_fd, "closed", 0, 0), 0);
	if (faccessat(root_fd, "closed", R_OK, 0) == 0 && seteuid(65534) != 0)
		skip();
	int result = blob_walk(&kind, &visitor, NULL, &err);
	if (geteuid() != getuid())
		assert_int_equal(seteuid(getuid()), 0);
	assert_int_equal(fchmodat(root_fd, "closed", 0755, 0), 0);
	assert_ok(result);
	assert_string_equal(seen.files.data, "open 1\n");
	assert_string_equal(seen.findings.data, "closed!\n");
}

TEST(what_vanishes_during_the_walk_is_not_seen_and_harms_nothing)
{
	put("a");
	put("b");
	put("c/x");
	put("d");
	seen.remove_at = "a";
	seen.remove = "b";
	assert_ok(blob_walk(&kind, &visitor, NULL, &err));
	assert_string_equal(seen.files.data, "a 1\nc/x 1\nd 1\n");
	str_reset(&seen.files);
	seen.remove_at = "a";
	seen.remove = "c";
	assert_ok(blob_walk(&kind, &visitor, NULL, &err));
	assert_string_equal(seen.files.data, "a 1\nd 1\n");
	assert_string_equal(seen.findings.data, "");
}

TEST(a_visitor_that_fails_or_a_stop_ends_the_walk)
{
	struct stop stop;

	put("a");
	put("refuse");
	put("z");
	assert_fails(blob_walk(&kind, &visitor, NULL, &err), ERR_BUSY);
	assert_string_equal(seen.files.data, "a 1\nrefuse 1\n");
	str_reset(&seen.files);
	stop_init(&stop);
	seen.stop_at_first = &stop;
	assert_fails(blob_walk(&kind, &visitor, &stop, &err), ERR_CANCELED);
	assert_string_equal(seen.files.data, "a 1\n");
	stop_clear(&stop);
}

/* Deeper than an id can be, in a process that may open few files. */
TEST(depth_costs_no_descriptors_and_is_told_where_no_id_can_be)
{
	AUTO_STR struct str path = STR_INIT;

	for (int i = 0; i < 520; i++)
		str_addf(&path, "%sd", i ? "/" : "");
	assert_ok(dir_make(root_fd, path.data, &err));
	str_truncate(&path, 1021);
	str_add(&path, "/f");
	put(path.data);
	assert_ok(blob_walk(&kind, &visitor, NULL, &err));
	assert_int_equal(seen.files.len, strlen(path.data) + 3);
	assert_int_equal(strlen(seen.findings.data), 1025 + 1);
}

TEST(one_directory_is_read_with_what_is_below_it)
{
	put("a/b/c");
	put("a/x");
	put("y");
	assert_int_equal(symlinkat("a", root_fd, "link"), 0);
	assert_ok(blob_walk_below(&kind, "a", &visitor, NULL, &err));
	assert_string_equal(seen.files.data, "a/b/c 1\na/x 1\n");
	assert_fails(blob_walk_below(&kind, "gone", &visitor, NULL, &err), ERR_MISSING);
	assert_fails(blob_walk_below(&kind, "y", &visitor, NULL, &err), ERR_MISSING);
	assert_fails(blob_walk_below(&kind, "link", &visitor, NULL, &err), ERR_MISSING);
}

TEST(a_root_that_is_away_is_no_empty_one)
{
	char away[] = "/nowhere/at/all";

	kind.path = away;
	assert_fails(blob_walk(&kind, &visitor, NULL, &err), ERR_DISK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WALK(files_come_in_the_byte_order_of_their_ids),
		WALK(what_is_no_blob_is_a_finding_and_our_own_things_are_not_even_that),
		WALK(only_digests_are_ids_where_objects_of_lfs_are),
		WALK(a_directory_that_cannot_be_read_hides_names),
		WALK(what_vanishes_during_the_walk_is_not_seen_and_harms_nothing),
		WALK(a_visitor_that_fails_or_a_stop_ends_the_walk),
		WALK(depth_costs_no_descriptors_and_is_told_where_no_id_can_be),
		WALK(one_directory_is_read_with_what_is_below_it),
		WALK(a_root_that_is_away_is_no_empty_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
