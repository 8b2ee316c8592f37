#include "test.h"

#include "git/lfs_pointer.h"

#define OID "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393"
#define VERSION "version https://git-lfs.github.com/spec/v1\n"

static bool parses(const char *text)
{
	struct lfs_pointer pointer;

	return lfs_pointer_parse(text, strlen(text), &pointer);
}

static void a_pointer_says_oid_and_size(void **state)
{
	static const char text[] = VERSION "oid sha256:" OID "\nsize 12345\n";
	struct lfs_pointer pointer;

	(void)state;
	assert_true(lfs_pointer_parse(text, strlen(text), &pointer));
	assert_string_equal(pointer.oid, OID);
	assert_int_equal(pointer.size, 12345);
}

static void what_git_lfs_reads_is_read(void **state)
{
	static const char *const texts[] = {
		VERSION "oid sha256:" OID "\nsize 1",
		VERSION "oid sha256:" OID "\nsize 0\n\n",
		"version https://hawser.github.com/spec/v1\noid sha256:" OID "\nsize 1\n",
		"version http://git-media.io/v/2\noid sha256:" OID "\nsize 1\n",
		"version https://git-lfs.github.com/spec/v1\r\noid sha256:" OID
		"\r\nsize 1\r\n",
		VERSION "ext-0-foo sha256:" OID "\next-1-bar sha256:" OID
			"\noid sha256:" OID "\nsize 1\n",
		VERSION "oid sha256:" OID "\nsize 9223372036854775807\n",
		" \t\n" VERSION "oid sha256:" OID "\nsize 1 \n\n \n",
		VERSION "\r\n\noid sha256:" OID "\n\nsize 1\n",
		"ext-0-foo sha256:" OID "\n" VERSION "oid sha256:" OID "\nsize 1\n",
		VERSION "oid sha256:" OID "\next-0-a-b! sha256:" OID "\nsize 1\n",
		VERSION "ext-0-foo none\next-0-foo sha256:" OID "\noid sha256:" OID
			"\nsize 1\n",
		VERSION "oid sha256:" OID "\nsize +1\n",
		VERSION "oid sha256:" OID "\nsize -0\n",
		VERSION "oid sha256:" OID "\nsize 00000000000000000000000000000001\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (!parses(texts[i]))
			fail_msg("not read: %s", texts[i]);
}

static void what_is_no_pointer_is_none(void **state)
{
	static const char *const texts[] = {
		"",
		"\n",
		"version ",
		VERSION,
		VERSION "oid sha256:" OID,
		VERSION "oid sha256:" OID "\n",
		VERSION "oid sha256:" OID "\nsize\n",
		VERSION "oid sha256:" OID "\nsize \n",
		VERSION "oid sha256:" OID "\nsize -1\n",
		VERSION "oid sha256:" OID "\nsize 1x\n",
		VERSION "oid sha256:" OID "\nsize 9223372036854775808\n",
		VERSION "oid sha256:" OID "\nsize 99999999999999999999999999\n",
		VERSION "oid sha256:" OID "0\nsize 1\n",
		VERSION "oid sha256:" OID "\nsize 1\nmore\n",
		VERSION "oid sha1:" OID "\nsize 1\n",
		VERSION "oid " OID "\nsize 1\n",
		VERSION "size 1\noid sha256:" OID "\n",
		"oid sha256:" OID "\nsize 1\n",
		"version https://git-lfs.github.com/spec/v2\noid sha256:" OID
		"\nsize 1\n",
		VERSION "oid sha256:"
			"4D7A214614AB2935C943F9E0FF69D22EADBB8F32B1258DAAA5E2CA24D17E2393"
			"\nsize 1\n",
		VERSION " \noid sha256:" OID "\nsize 1\n",
		VERSION "oid  sha256:" OID "\nsize 1\n",
		VERSION "oid sha256:" OID "\nsize  1\n",
		VERSION "oid sha256:" OID "\nsize +\n",
		VERSION "oid sha256:" OID "\r\r\nsize 1\n",
		VERSION "oid sha256:" OID "\noid sha256:" OID "\nsize 1\n",
		VERSION "oid sha256:" OID "\nsize 1\next-0-foo sha256:" OID "\n",
		VERSION "ext-0-foo sha256:" OID "\next-0-bar sha256:" OID
			"\noid sha256:" OID "\nsize 1\n",
		VERSION "ext-10-foo sha256:" OID "\noid sha256:" OID "\nsize 1\n",
		VERSION "ext-0- sha256:" OID "\noid sha256:" OID "\nsize 1\n",
		VERSION "ext-0-!a sha256:" OID "\noid sha256:" OID "\nsize 1\n",
		VERSION "ext-x-foo sha256:" OID "\noid sha256:" OID "\nsize 1\n",
		VERSION "ext-0-foo sha1:" OID "\noid sha256:" OID "\nsize 1\n",
		VERSION "ext-0-foo\noid sha256:" OID "\nsize 1\n",
		"\xef\xbb\xbf" VERSION "oid sha256:" OID "\nsize 1\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (parses(texts[i]))
			fail_msg("read: %s", texts[i]);
}

static void a_nul_ends_nothing(void **state)
{
	static const char text[] = VERSION "oid sha256:" OID "\nsize 1\0\n";
	struct lfs_pointer pointer;

	(void)state;
	assert_false(lfs_pointer_parse(text, sizeof(text) - 1, &pointer));
}

static void no_more_than_the_given_bytes_are_read(void **state)
{
	static const char text[] = VERSION "oid sha256:" OID "\nsize 12345\n";
	struct lfs_pointer pointer;

	(void)state;
	for (size_t len = 0; len + 6 < strlen(text); len++) {
		char *copy = xmalloc(len ? len : 1);
		memcpy(copy, text, len);
		assert_false(lfs_pointer_parse(copy, len, &pointer));
		free(copy);
	}
}

static void what_is_too_long_is_no_pointer(void **state)
{
	AUTO_STR struct str text = STR_INIT;

	(void)state;
	str_add(&text, VERSION "oid sha256:" OID "\nsize 1\n");
	while (text.len < LFS_POINTER_LIMIT - 1)
		str_add_char(&text, '\n');
	assert_true(parses(text.data));
	str_add_char(&text, '\n');
	assert_false(parses(text.data));
}

static void an_oid_is_64_lower_case_digits(void **state)
{
	(void)state;
	assert_true(lfs_oid_is_valid(OID));
	assert_false(lfs_oid_is_valid(OID "0"));
	assert_false(lfs_oid_is_valid(&OID[1]));
	assert_false(lfs_oid_is_valid(""));
	assert_false(lfs_oid_is_valid("../../../etc/passwd"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pointer_says_oid_and_size),
		cmocka_unit_test(what_git_lfs_reads_is_read),
		cmocka_unit_test(what_is_no_pointer_is_none),
		cmocka_unit_test(a_nul_ends_nothing),
		cmocka_unit_test(no_more_than_the_given_bytes_are_read),
		cmocka_unit_test(what_is_too_long_is_no_pointer),
		cmocka_unit_test(an_oid_is_64_lower_case_digits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
