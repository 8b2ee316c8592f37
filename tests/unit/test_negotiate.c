#include "test.h"

#include "web/answer.h"

TEST(gzip_is_sent_to_those_who_take_it)
{
	static const struct {
		const char *header;
		bool takes;
	} cases[] = {
		{ NULL, false },
		{ "", false },
		{ "deflate, gzip, br, zstd", true }, /* git */
		{ "gzip", true },
		{ "x-gzip", true },
		{ "GZip;q=0.5", true },
		{ "br ,gzip ; q=1", true },
		{ "*", true },
		{ "br;q=1, *;q=0.1", true },
		{ "identity", false },
		{ "gzip;q=0", false },
		{ "gzip; q=0.000", false },
		{ "*, gzip;q=0", false },
		{ "gzip;q=0, *", false },
		{ "*;q=0", false },
		{ "gzipped, agzip", false },
		{ ";q=1,,; , gzip", true },
		{ ",;=", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (negotiate_gzip(cases[i].header) != cases[i].takes)
			fail_msg("%s", cases[i].header ? cases[i].header : "(none)");
}

TEST(a_tag_is_found_in_a_list_of_tags)
{
	static const struct {
		const char *header;
		bool matches;
	} cases[] = {
		{ NULL, false },
		{ "", false },
		{ "\"abc\"", true },
		{ "W/\"abc\"", true },
		{ "  \"x\" ,\"abc\"", true },
		{ "\"x,y\", W/\"abc\" ", true },
		{ "*", true },
		{ " * ", true },
		{ "*, \"x\"", false },
		{ "\"abcd\"", false },
		{ "\"ab\"", false },
		{ "\"abc-gz\"", false },
		{ "abc", false },
		{ "\"abc", false },
		{ "\"x\" \"abc\"", false },
		{ "w/\"abc\"", false },
		{ "W/", false },
		{ ",,,", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (negotiate_matches(cases[i].header, "\"abc\"") != cases[i].matches)
			fail_msg("%s", cases[i].header ? cases[i].header : "(none)");
	assert_false(negotiate_matches("*", ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gzip_is_sent_to_those_who_take_it),
		cmocka_unit_test(a_tag_is_found_in_a_list_of_tags),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
