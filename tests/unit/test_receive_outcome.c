#include "test.h"

#include "git/pkt_line.h"
#include "serve/receive_pack.h"

static struct receive_outcome_reader reader;
static struct str report, sent;

static int setup(void **state)
{
	(void)state;
	reader = (struct receive_outcome_reader)RECEIVE_OUTCOME_READER_INIT;
	report = sent = (struct str)STR_INIT;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	receive_outcome_clear(&reader);
	str_clear(&report);
	str_clear(&sent);
	return 0;
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void line(const char *text)
{
	pkt_add(&report, text, strlen(text));
}

/* Two are taken and one is not. */
static void make_report(void)
{
	line("unpack ok\n");
	line("ok refs/heads/main\n");
	line("option refname refs/heads/ng \n");
	line("ng refs/heads/never hook declined\n");
	line("ok refs/heads/ng never\n");
	pkt_add_flush(&report);
}

static void in_band(char band, const char *data, size_t len)
{
	size_t begin = pkt_begin(&sent);

	str_add_char(&sent, band);
	str_add_bytes(&sent, data, len);
	pkt_end(&sent, begin);
}

static void read_in_pieces(size_t piece)
{
	receive_outcome_clear(&reader);
	reader = (struct receive_outcome_reader)RECEIVE_OUTCOME_READER_INIT;
	for (size_t at = 0; at < sent.len; at += piece)
		receive_outcome_read(&reader, sent.data + at,
				     sent.len - at < piece ? sent.len - at : piece);
}

static void assert_two_and_one(void)
{
	assert_true(reader.is_over && reader.outcome.is_known);
	assert_int_equal(reader.outcome.taken, 2);
	assert_int_equal(reader.outcome.refused, 1);
}

TEST(a_report_is_read_with_side_band_and_without_in_any_pieces)
{
	make_report();
	str_add_bytes(&sent, report.data, report.len);
	for (size_t piece = 1; piece <= sent.len; piece++) {
		read_in_pieces(piece);
		assert_two_and_one();
	}
	for (size_t cut = 1; cut < report.len; cut += 5) {
		str_reset(&sent);
		in_band(2, "words of a hook, ok ng\n", 23);
		in_band(1, report.data, cut);
		in_band(2, "more", 4);
		in_band(1, "", 0);
		in_band(1, report.data + cut, report.len - cut);
		pkt_add_flush(&sent);
		read_in_pieces(cut);
		assert_two_and_one();
	}
}

TEST(what_is_behind_the_report_counts_for_nothing)
{
	make_report();
	in_band(1, report.data, report.len);
	in_band(1, "0017ok refs/heads/other\n", 23);
	in_band(2, "said by post-receive", 20);
	read_in_pieces(sent.len);
	assert_two_and_one();
}

TEST(a_report_that_is_cut_or_none_is_not_known)
{
	make_report();
	in_band(1, report.data, report.len - 1);
	read_in_pieces(sent.len);
	assert_false(reader.is_over);
	assert_false(reader.outcome.is_known);
	str_reset(&sent);
	in_band(1, "zzzz", 4);
	read_in_pieces(1);
	assert_false(reader.outcome.is_known);
	for (int i = 0; i < PKT_LINE_MAX; i++)
		str_add_char(&sent, 'z');
	read_in_pieces(sent.len);
	assert_true(reader.is_over);
	assert_false(reader.outcome.is_known);
	assert_int_equal(reader.packets.len, sent.len - 9);
	str_reset(&sent);
	pkt_add_flush(&sent);
	read_in_pieces(1);
	assert_true(reader.is_over);
	assert_int_equal(reader.outcome.taken + reader.outcome.refused, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_report_is_read_with_side_band_and_without_in_any_pieces),
		CASE(what_is_behind_the_report_counts_for_nothing),
		CASE(a_report_that_is_cut_or_none_is_not_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
