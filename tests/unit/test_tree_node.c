#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/log.h"
#include "lease/lease_settings.h"
#include "upkeep/tree_node.h"

static char tree[96];

/* The leases that a configuration of these lines makes, at such a site. */
static json_t *leases_of(const char *lines, const char *site, const char *repositories)
{
	struct conf *conf = NULL;
	struct lease_settings settings = { 0 };
	AUTO_FREE char *text = xasprintf("[lease]\n%s", lines);

	assert_ok(conf_load_text("test", text, strlen(text), &conf, &err));
	assert_ok(lease_settings_read(conf, &settings, &err));
	json_t *leases = lease_settings_json(
		&settings,
		&(struct lease_place){ .site = site, .repositories = repositories });
	lease_settings_clear(&settings);
	conf_free(conf);
	return leases;
}

static json_t *record_of(const char *data, const char *lines, const char *site,
			 const char *repositories)
{
	return json_pack("{s:s, s:s, s:o}", "data", data, "host", "h", "leases",
			 leases_of(lines, site, repositories));
}

#define REDIS "backend = redis\nurl = redis://a\n"

static const struct {
	const char *own, *other, *own_site, *other_site, *own_tree, *other_tree;
	const char *says; /* NULL: they go along */
} rows[] = {
	{ REDIS, REDIS, "s", "s", "/t", "/t", NULL },
	{ REDIS, REDIS, "s", "s", "/t", "/mnt/t", NULL }, /* by ids, not by paths */
	{ REDIS "ttl = 60\n", REDIS "ttl = 1m\n", "s", "s", "/t", "/t", NULL },
	{ REDIS "wait = 5s\n", REDIS, "s", "s", "/t", "/t", NULL },
	{ REDIS "prefix = p\n", REDIS "prefix = p\n", "s", "z", "/t", "/t", NULL },
	{ REDIS, "backend = postgresql\nurl = postgresql://a\n", "s", "s", "/t", "/t",
	  "lease.backend is \"postgresql\" there and \"redis\" here" },
	{ REDIS, "backend = directory\npath = /l\n", "s", "s", "/t", "/t",
	  "lease.backend is \"directory\" there and \"redis\" here" },
	{ REDIS, "", "s", "s", "/t", "/t", "lease.backend is \"local\" there" },
	{ "", REDIS, "s", "s", "/t", "/t", "lease.backend is \"local\" here" },
	{ "", "", "s", "s", "/t", "/t", "lease.backend is \"local\" at both" },
	{ REDIS, REDIS, "s", "z", "/t", "/t",
	  "lease.prefix is \"refrelay:z:\" there and \"refrelay:s:\" here" },
	{ REDIS, REDIS "prefix = p:\n", "s", "s", "/t", "/t",
	  "lease.prefix is \"p:\" there and \"refrelay:s:\" here" },
	{ REDIS, REDIS "keyFormat = k:${id}\n", "s", "s", "/t", "/t",
	  "lease.keyFormat is \"k:${id}\" there and \"\" here" },
	{ REDIS "ttl = 20s\n", REDIS, "s", "s", "/t", "/t",
	  "lease.ttl is \"30 s\" there and \"20 s\" here" },
	{ REDIS "format = redlock\n", REDIS, "s", "s", "/t", "/t",
	  "lease.format is \"refrelay\" there and \"redlock\" here" },
	{ REDIS "compatibility = docora\nttl = 30s\n", REDIS, "s", "s", "/t", "/t",
	  "lease.compatibility is \"none\" there and \"docora\" here" },
	{ REDIS "keyFormat = k:${path}\n", REDIS "keyFormat = k:${path}\n", "s", "s",
	  "/t", "/mnt/t", "lease is \"k:/mnt/t/name.git\" there" },
	{ REDIS "prefix = p\nkeyFormat = ${site}:${id}\n",
	  REDIS "prefix = p\nkeyFormat = ${site}:${id}\n", "s", "z", "/t", "/t",
	  "lease is \"z:1\" there and \"s:1\" here" },
};

TEST(leases_that_are_not_the_same_are_refused_by_name)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		json_auto_t *own =
			record_of("/a", rows[i].own, rows[i].own_site, rows[i].own_tree);
		json_auto_t *other = record_of("/b", rows[i].other, rows[i].other_site,
					       rows[i].other_tree);
		if (!rows[i].says) {
			assert_int_equal(tree_node_judge(own, other, &err), 0);
			continue;
		}
		assert_fails(tree_node_judge(own, other, &err), ERR_CONFIG);
		if (!strstr(err.text, rows[i].says))
			fail_msg("%s", err.text);
		assert_non_null(strstr(err.text, "the node of /a on h"));
		assert_non_null(strstr(err.text, "the node of /b on h"));
		assert_true(err.remedy[0] != '\0');
	}
}

TEST(another_text_for_the_place_is_a_doubt)
{
	json_auto_t *own = record_of("/a", REDIS, "s", "/t");
	json_auto_t *other =
		record_of("/b", "backend = redis\nurl = redis://b\n", "s", "/t");

	assert_int_equal(tree_node_judge(own, other, &err), 1);
	assert_non_null(strstr(err.text, "written otherwise at the node of /b on h"));
}

TEST(a_record_tells_no_url)
{
	json_auto_t *leases = leases_of("backend = redis\nurl = redis://secret-host\n"
					"passwordFile = /p/secret-file\n",
					"s", "/t");
	AUTO_STR struct str text = STR_INIT;

	json_render(leases, &text);
	assert_null(strstr(text.data, "secret"));
}

/*
 * Nodes on a tree.
 */

static int set_up(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	log_set_level(LOG_LEVEL_NONE);
	snprintf(tree, sizeof(tree), "%s/srv", root);
	assert_ok(dir_make(root_fd, "srv", &err));
	assert_ok(dir_make(root_fd, "a", &err));
	assert_ok(dir_make(root_fd, "b", &err));
	return 0;
}

static int enter(const char *data, const char *lines, struct tree_node **node)
{
	AUTO_FREE char *path = xasprintf("%s/%s", root, data);
	json_auto_t *leases = leases_of(lines, "s", tree);

	return tree_node_enter(
		&(struct tree_node_self){
			.root = tree, .site = "s", .data = path, .leases = leases },
		node, &err);
}

static int look(const char *data, const char *lines)
{
	AUTO_FREE char *path = xasprintf("%s/%s", root, data);
	json_auto_t *leases = leases_of(lines, "s", tree);

	return tree_node_check(
		&(struct tree_node_self){
			.root = tree, .site = "s", .data = path, .leases = leases },
		NULL, NULL, &err);
}

static size_t count_records(void)
{
	AUTO_CLOSEDIR DIR *dir = dir_list(root_fd, "srv/.refrelay/nodes");
	size_t count = 0;
	struct dirent *entry;

	while (dir && (entry = readdir(dir)) != NULL)
		count += entry->d_name[0] != '.';
	return count;
}

TEST(a_node_is_told_of_as_long_as_it_runs)
{
	struct tree_node *a = NULL, *b = NULL;

	assert_ok(look("b", REDIS)); /* nothing is there */
	assert_ok(enter("a", REDIS, &a));
	assert_int_equal(count_records(), 1);
	assert_fails(look("b", REDIS "ttl = 20s\n"), ERR_CONFIG);
	assert_fails(look("b", ""), ERR_CONFIG);
	assert_fails(enter("b", REDIS "ttl = 20s\n", &b), ERR_CONFIG);
	assert_non_null(strstr(err.text, "/a on "));
	assert_int_equal(count_records(), 1);
	assert_ok(enter("b", REDIS, &b));
	assert_int_equal(count_records(), 2);
	tree_node_leave(a);
	assert_int_equal(count_records(), 1);
	assert_fails(enter("a", "", &a), ERR_CONFIG);
	tree_node_leave(b);
	assert_int_equal(count_records(), 0);
	assert_ok(enter("a", "", &a));
	tree_node_leave(a);
}

/* What a node that was killed leaves: as that one wrote it. */
static void leave_record(const char *lines, const char *boot_id, int64_t age_s)
{
	const char *path = "srv/.refrelay/nodes/0123456789abcdef0123456789abcdef";
	json_auto_t *record = record_of("/gone", lines, "s", tree);
	const struct timespec at = { .tv_sec = time(NULL) - age_s };
	AUTO_STR struct str text = STR_INIT;

	json_put_text(record, "boot_id", boot_id);
	json_render(record, &text);
	assert_ok(dir_make(root_fd, "srv/.refrelay/nodes", &err));
	assert_ok(file_replace(root_fd, path, text.data, text.len, FILE_NO_SYNC, &err));
	assert_int_equal(utimensat(root_fd, path, (struct timespec[]){ at, at }, 0), 0);
}

#define OTHER_BOOT "00000000-0000-0000-0000-000000000000"

/* As if it had been stopped for that long. */
static void make_records_older(void)
{
	AUTO_CLOSEDIR DIR *dir = dir_list(root_fd, "srv/.refrelay/nodes");
	const struct timespec at = { .tv_sec = time(NULL) - 600 };
	struct dirent *entry;

	while (dir && (entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.')
			assert_int_equal(utimensat(dirfd(dir), entry->d_name,
						   (struct timespec[]){ at, at }, 0),
					 0);
}

TEST(a_node_of_this_boot_that_is_silent_may_go_on)
{
	struct tree_node *node = NULL;

	assert_ok(enter("a", "", &node));
	make_records_older();
	assert_fails(look("b", REDIS), ERR_CONFIG);
	tree_node_leave(node);
	assert_ok(look("b", REDIS));
}

TEST(a_node_of_this_boot_that_died_does_not_count)
{
	struct tree_node *node = NULL;

	leave_record("", clock_boot_id(), 0);
	assert_ok(enter("a", REDIS, &node));
	tree_node_leave(node);
}

TEST(a_node_elsewhere_counts_for_a_minute)
{
	struct tree_node *node = NULL;

	leave_record("", OTHER_BOOT, TREE_NODE_SILENT_S - 30);
	assert_fails(enter("a", REDIS, &node), ERR_CONFIG);
	assert_fails(look("a", REDIS), ERR_CONFIG);
	leave_record("", OTHER_BOOT, TREE_NODE_SILENT_S + 5);
	assert_ok(look("a", REDIS));
	assert_ok(enter("a", REDIS, &node));
	tree_node_leave(node);
	assert_int_equal(count_records(), 1);
	leave_record("", OTHER_BOOT, 86400 + 60); /* by then nobody asks for it */
	assert_ok(enter("a", REDIS, &node));
	assert_int_equal(count_records(), 1);
	tree_node_leave(node);
}

TEST(the_node_of_the_same_data_directory_is_no_other)
{
	struct tree_node *former = NULL, *node = NULL;

	assert_ok(enter("a", "", &former)); /* as if it hung, and node.lock were lost */
	assert_ok(enter("a", REDIS, &node));
	assert_int_equal(count_records(), 1);
	tree_node_leave(former); /* the record is not its own any more */
	assert_int_equal(count_records(), 1);
	tree_node_leave(node);
	assert_int_equal(count_records(), 0);
}

TEST(what_is_no_record_counts_for_nothing)
{
	const char *path = "srv/.refrelay/nodes/0123456789abcdef0123456789abcdef";
	struct tree_node *node = NULL;

	assert_ok(dir_make(root_fd, "srv/.refrelay/nodes", &err));
	assert_ok(file_replace(root_fd, path, "{", 1, FILE_NO_SYNC, &err));
	assert_ok(enter("a", REDIS, &node));
	tree_node_leave(node);
	assert_int_equal(unlinkat(root_fd, path, 0), 0);
	assert_int_equal(mkfifoat(root_fd, path, 0600), 0);
	assert_ok(enter("a", REDIS, &node));
	tree_node_leave(node);
}

TEST(a_tree_that_cannot_be_written_stops_no_node)
{
	struct tree_node *node = NULL;

	assert_ok(file_replace(root_fd, "srv/.refrelay", "", 0, FILE_NO_SYNC, &err));
	assert_ok(enter("a", REDIS, &node));
	tree_node_leave(node);
}

/*
 * Where leases are kept, by leases in directories.
 */

struct placed {
	char *lines; /* owned, as all */
	struct lease_manager *manager;
	struct tree_node *node;
};

static int enter_placed(const char *data, const char *directory, struct placed *placed)
{
	AUTO_FREE char *path = xasprintf("%s/%s", root, data);
	struct lease_settings settings = { 0 };
	struct conf *conf = NULL;

	placed->lines = xasprintf("[lease]\nbackend = directory\npath = %s/%s\n", root,
				  directory);
	assert_ok(conf_load_text("test", placed->lines, strlen(placed->lines), &conf,
				 &err));
	assert_ok(lease_settings_read(conf, &settings, &err));
	const struct lease_place place = { .site = "s", .repositories = tree };
	assert_ok(lease_manager_open(&settings, &place, &placed->manager, &err));
	json_auto_t *leases = lease_settings_json(&settings, &place);
	lease_settings_clear(&settings);
	conf_free(conf);
	return tree_node_enter(&(struct tree_node_self){ .root = tree,
							 .site = "s",
							 .data = path,
							 .leases = leases,
							 .manager = placed->manager },
			       &placed->node, &err);
}

static void leave_placed(struct placed *placed)
{
	tree_node_leave(placed->node);
	lease_manager_close(placed->manager);
	free(placed->lines);
	*placed = (struct placed){ 0 };
}

TEST(leases_that_are_kept_elsewhere_are_refused_and_another_way_to_the_same_is_not)
{
	struct placed a = { 0 }, b = { 0 };

	assert_ok(enter_placed("a", "leases", &a));
	assert_fails(enter_placed("b", "others", &b), ERR_CONFIG);
	assert_non_null(strstr(err.text, "its leases are kept elsewhere"));
	assert_non_null(strstr(err.text, "/a on "));
	leave_placed(&b);
	assert_int_equal(symlinkat("leases", root_fd, "same"), 0);
	assert_ok(enter_placed("b", "same", &b));
	leave_placed(&b);
	leave_placed(&a);
	assert_ok(enter_placed("b", "others", &b));
	leave_placed(&b);
}

TEST(the_same_path_that_is_not_mounted_is_another_place)
{
	struct placed a = { 0 }, b = { 0 };

	assert_ok(enter_placed("a", "leases", &a));
	assert_int_equal(renameat(root_fd, "leases", root_fd, "away"), 0);
	assert_fails(enter_placed("b", "leases", &b), ERR_CONFIG);
	assert_non_null(strstr(err.text, "its leases are kept elsewhere"));
	assert_non_null(strstr(err.remedy, "mounted at each"));
	leave_placed(&b);
	assert_int_equal(renameat(root_fd, "leases", root_fd, "bare"), 0);
	assert_int_equal(renameat(root_fd, "away", root_fd, "leases"), 0);
	assert_ok(enter_placed("b", "leases", &b));
	leave_placed(&b);
	leave_placed(&a);
}

#define NODE_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, test_remove_root)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leases_that_are_not_the_same_are_refused_by_name),
		cmocka_unit_test(another_text_for_the_place_is_a_doubt),
		cmocka_unit_test(a_record_tells_no_url),
		NODE_CASE(a_node_is_told_of_as_long_as_it_runs),
		NODE_CASE(a_node_of_this_boot_that_is_silent_may_go_on),
		NODE_CASE(a_node_of_this_boot_that_died_does_not_count),
		NODE_CASE(a_node_elsewhere_counts_for_a_minute),
		NODE_CASE(the_node_of_the_same_data_directory_is_no_other),
		NODE_CASE(what_is_no_record_counts_for_nothing),
		NODE_CASE(a_tree_that_cannot_be_written_stops_no_node),
		NODE_CASE(
			leases_that_are_kept_elsewhere_are_refused_and_another_way_to_the_same_is_not),
		NODE_CASE(the_same_path_that_is_not_mounted_is_another_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
