#include "test.h"

#include "pull/kinds.h"

#define HEX62 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcd"
#define REST "23456789abcdef0123456789abcdef0123456789abcdef0123456789abcd"
#define DIGEST "aabb" REST

static const struct blob_kind plain = { .type = (char[]){ "uploads" } };
static const struct blob_kind lfs = { .type = (char[]){ "lfs" }, .layout = BLOB_LFS };

static int read_text(const char *text, struct kinds_here *here)
{
	AUTO_CONF struct conf *conf = NULL;

	assert_ok(conf_load_text("test", text, strlen(text), &conf, &err));
	return kinds_read(conf, here, &err);
}

TEST(kinds_are_read_from_their_sections_in_the_order_of_their_types)
{
	AUTO_KINDS struct kinds_here here;
	const struct blob_kinds *kinds = &here.blobs;

	assert_ok(read_text("[blob \"uploads\"]\npath = /srv/uploads\n"
			    "[blob \"lfs\"]\npath = /srv/lfs\nlayout = lfs\n"
			    "[blob \"0-a_b\"]\npath = /nowhere/yet\n",
			    &here));
	assert_int_equal(kinds->items.count, 3);
	assert_string_equal(kinds->items.items[0].type, "0-a_b");
	assert_string_equal(kinds->items.items[1].type, "lfs");
	assert_int_equal(kinds->items.items[1].layout, BLOB_LFS);
	assert_string_equal(blob_kinds_find(kinds, "uploads")->path, "/srv/uploads");
	assert_int_equal(blob_kinds_find(kinds, "uploads")->layout, BLOB_PLAIN);
	assert_null(blob_kinds_find(kinds, "repository"));
}

TEST(sections_that_make_no_sense_are_refused_and_say_which_key_it_is)
{
	static const struct {
		const char *text, *says;
	} table[] = {
		{ "[blob \"repository\"]\npath = /a", "test:2" },
		{ "[blob \"site\"]\npath = /a", "type" },
		{ "[blob \"Uploads\"]\npath = /a", "type" },
		{ "[blob \"-a\"]\npath = /a", "type" },
		{ "[blob \"a/b\"]\npath = /a", "type" },
		{ "[blob \"abcdefghijklmnopqrstuvwxyz0123456\"]\npath = /a", "type" },
		{ "[blob \"a\"]\nlayout = plain", "blob.a.path" },
		{ "[blob \"a\"]\npath = a", "blob.a.path" },
		{ "[blob \"a\"]\npath", "blob.a.path" },
		{ "[blob \"a\"]\npath = /a\nlayout = git", "blob.a.layout" },
		{ "[blob \"a\"]\npath = /a\n[blob \"b\"]\npath = /a", "blob.b.path" },
		{ "[blob \"a\"]\npath = /a/b\n[blob \"b\"]\npath = /a", "blob.b.path" },
		{ "[blob \"a\"]\npath = /a\n[site]\ndata = /a/data", "site.data" },
		{ "[blob \"a\"]\npath = /g/a\n[site]\nrepositories = /g",
		  "site.repositories" },
		{ "[blob \"a\"]\npath = /a\nlayout = lfs\n"
		  "[blob \"b\"]\npath = /b\nlayout = lfs",
		  "layout" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		AUTO_KINDS struct kinds_here here;
		if (read_text(table[i].text, &here) == 0)
			fail_msg("taken: %s", table[i].text);
		assert_int_equal(err.class, ERR_CONFIG);
		if (!strstr(err.text, table[i].says))
			fail_msg("no \"%s\" in: %s", table[i].says, err.text);
	}
}

TEST(a_path_that_leads_into_another_by_a_link_is_refused)
{
	AUTO_KINDS struct kinds_here here;
	AUTO_FREE char *text = xasprintf("[site]\nrepositories = %s/real\n"
					 "[blob \"a\"]\npath = %s/link/a\n",
					 root, root);

	mkdirat(root_fd, "real", 0755);
	assert_int_equal(symlinkat("real", root_fd, "link"), 0);
	assert_fails(read_text(text, &here), ERR_CONFIG);
}

TEST(ids_are_checked_at_the_door)
{
	static const struct {
		const char *id;
		bool good;
	} table[] = {
		{ "a", true },
		{ "a b/gr\xc3\xbc\xc3\x9f\\.txt", true },
		{ ".git/x", true },
		{ "a/.hidden", true },
		{ "%2e%2e/'\"*?", true },
		{ "", false },
		{ "/a", false },
		{ "a/", false },
		{ "a//b", false },
		{ "a/../b", false },
		{ "..", false },
		{ "a/.", false },
		{ "new\nline", false },
		{ "latin\xfc", false },
		{ ".refrelay/incoming/x", false },
		{ "a/.refrelay-incoming", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if ((blob_id_check(&plain, table[i].id, &err) == 0) != table[i].good)
			fail_msg("\"%s\"", table[i].id);
}

TEST(an_id_of_lfs_names_its_digest_and_nothing_else_is_one)
{
	static const char *const bad[] = {
		"aa/bb/" HEX62, "aa/bb/" REST "0",    "aa/bb/aacc" REST,    "aabb" REST,
		"AA/bb/" REST,  "aa/bb/x" HEX62,      "aa/bb/c/" HEX62,     "aa/b/b" REST,
		"tmp/x",        "aa/bb/" REST "/../", "incomplete/" DIGEST,
	};
	char digest[BLOB_DIGEST_SIZE], id[BLOB_DIGEST_SIZE + 2];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_fails(blob_id_check(&lfs, bad[i], &err), ERR_CONFIG);
		assert_false(blob_id_digest(&lfs, bad[i], digest));
	}
	assert_ok(blob_id_check(&lfs, "aa/bb/" REST, &err));
	assert_true(blob_id_digest(&lfs, "aa/bb/" REST, digest));
	assert_string_equal(digest, DIGEST);
	assert_ok(blob_id_check(&lfs, "aa/bb/" DIGEST, &err));
	assert_true(blob_id_digest(&lfs, "aa/bb/" DIGEST, digest));
	assert_string_equal(digest, DIGEST);
	blob_lfs_id(digest, id);
	assert_string_equal(id, "aa/bb/" REST);
	assert_false(blob_id_digest(&plain, "aa/bb/" REST, digest));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			kinds_are_read_from_their_sections_in_the_order_of_their_types),
		cmocka_unit_test(
			sections_that_make_no_sense_are_refused_and_say_which_key_it_is),
		CASE(a_path_that_leads_into_another_by_a_link_is_refused),
		cmocka_unit_test(ids_are_checked_at_the_door),
		cmocka_unit_test(an_id_of_lfs_names_its_digest_and_nothing_else_is_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
