#include "test.h"

TEST(a_string_grows_and_stays_terminated)
{
	AUTO_STR struct str text = STR_INIT;

	for (int i = 0; i < 1000; i++)
		str_addf(&text, "%d,", i);
	assert_int_equal(text.len, 10 * 2 + 90 * 3 + 900 * 4);
	assert_int_equal(text.data[text.len], '\0');
	str_cut(&text, 4, text.len - 4);
	assert_string_equal(text.data, "0,1,999,");
	str_cut(&text, 0, 0);
	str_cut(&text, 4, text.len);
	assert_string_equal(text.data, "0,1,");
	str_cut(&text, 0, 2);
	assert_string_equal(text.data, "1,");
	str_truncate(&text, 0);
	str_cut(&text, 0, 0);
	str_add(&text, "0,1,99");
	str_truncate(&text, 4);
	assert_string_equal(text.data, "0,1,");
	AUTO_FREE char *taken = str_take(&text);
	assert_string_equal(taken, "0,1,");
	assert_string_equal(text.data, "");
}

TEST(only_well_formed_utf8_passes)
{
	static const struct {
		const char *text;
		bool good;
	} table[] = {
		{ "", true },
		{ "plain", true },
		{ "gr\xc3\xbc\xc3\x9f", true },
		{ "\xf0\x9f\x98\x80", true },
		{ "\xc0\x80", false },
		{ "\xe0\x80\x80", false },
		{ "\xed\xa0\x80", false },
		{ "\xf4\x90\x80\x80", false },
		{ "cut\xc3", false },
		{ "\x80", false },
		{ "latin \xfc", false },
		{ "\xf5\x80\x80\x80", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		assert_int_equal(text_is_utf8(table[i].text, strlen(table[i].text)),
				 table[i].good);
}

TEST(numbers_must_be_whole_and_fit)
{
	uint64_t value = 7;

	assert_true(text_to_uint64("18446744073709551615", &value));
	assert_true(value == UINT64_MAX);
	assert_false(text_to_uint64("18446744073709551616", &value));
	assert_false(text_to_uint64("", &value));
	assert_false(text_to_uint64("-1", &value));
	assert_false(text_to_uint64("1 ", &value));
}

TEST(hexadecimal_goes_both_ways)
{
	AUTO_STR struct str text = STR_INIT;
	unsigned char bytes[3];

	str_add_hex(&text, "\x00\xab\xff", 3);
	assert_string_equal(text.data, "00abff");
	assert_true(text_from_hex("00ABff", bytes, 3));
	assert_memory_equal(bytes, "\x00\xab\xff", 3);
	assert_false(text_from_hex("00abf", bytes, 3));
	assert_false(text_from_hex("zz", bytes, 1));
}

TEST(the_distance_of_words_counts_what_must_change)
{
	char longest[66];

	memset(longest, 'x', 65);
	longest[65] = '\0';
	assert_int_equal(text_distance("", ""), 0);
	assert_int_equal(text_distance("Status", "sTATUS"), 0);
	assert_int_equal(text_distance("stats", "status"), 1);
	assert_int_equal(text_distance("status", "stauts"), 1);
	assert_int_equal(text_distance("replicate", "repository"), 6);
	assert_int_equal(text_distance("", "abc"), 3);
	assert_true(text_distance(longest, "x") == SIZE_MAX);
	assert_int_equal(text_distance(longest + 1, "x"), 63);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_string_grows_and_stays_terminated),
		CASE(only_well_formed_utf8_passes),
		CASE(numbers_must_be_whole_and_fit),
		CASE(hexadecimal_goes_both_ways),
		cmocka_unit_test(the_distance_of_words_counts_what_must_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
