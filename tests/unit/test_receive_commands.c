#include "test.h"

#include "git/pkt_line.h"
#include "serve/receive_git.h"

#define ZERO "0000000000000000000000000000000000000000"
#define ONE "1111111111111111111111111111111111111111"

static struct receive_commands commands;
static struct str body;

static int setup(void **state)
{
	(void)state;
	commands = (struct receive_commands){ .oid_len = 20 };
	body = (struct str)STR_INIT;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	receive_commands_clear(&commands);
	str_clear(&body);
	return 0;
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void line(const char *text)
{
	pkt_add(&body, text, strlen(text));
}

static size_t take(void)
{
	return receive_commands_take(&commands, body.data, body.len);
}

TEST(commands_end_before_their_flush)
{
	line("shallow " ONE);
	line(ZERO " " ONE " refs/heads/main");
	line(ONE " " ZERO " refs/heads/old\n");
	size_t len = body.len;
	pkt_add_flush(&body);
	str_add(&body, "PACK");
	assert_int_equal(take(), len);
	assert_int_equal(commands.step, RECEIVE_WHOLE);
	assert_int_equal(commands.count, 2);
	assert_true(commands.needs_pack);
	assert_int_equal(take(), 0);
}

TEST(deletions_alone_need_no_pack)
{
	line(ONE " " ZERO " refs/heads/old");
	pkt_add_flush(&body);
	take();
	assert_int_equal(commands.step, RECEIVE_WHOLE);
	assert_false(commands.needs_pack);
}

/* Of a push that wants it, as git reads that, and of no other. */
TEST(side_band_is_a_word_behind_the_nul)
{
	static const struct {
		const char *text;
		bool has;
	} cases[] = {
		{ ZERO " " ONE " refs/heads/a%report-status side-band-64k", true },
		{ ZERO " " ONE " refs/heads/a%side-band-64k quiet\n", true },
		{ "push-cert%report-status side-band-64k\n", true },
		{ ZERO " " ONE " refs/heads/a%x=side-band-64k side-band", false },
		{ ZERO " " ONE " refs/heads/side-band-64k", false },
		{ ZERO " " ONE " refs/heads/a%quiet%side-band-64k", false },
		{ "shallow " ONE "%side-band-64k", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_FREE char *text = xstrdup(cases[i].text);
		size_t len = strlen(text);
		for (size_t at = 0; at < len; at++)
			text[at] = text[at] == '%' ? '\0' : text[at];
		pkt_add(&body, text, len);
		take();
		assert_int_equal(commands.has_side_band, cases[i].has);
		teardown(NULL);
		setup(NULL);
	}
}

TEST(any_piece_may_come_by_itself)
{
	size_t from = 0;

	line(ZERO " " ONE " refs/heads/main");
	line(ZERO " " ONE " refs/heads/two");
	pkt_add_flush(&body);
	for (size_t len = 1; len <= body.len; len++) {
		assert_int_equal(commands.step, RECEIVE_MORE);
		from += receive_commands_take(&commands, body.data + from, len - from);
	}
	assert_int_equal(commands.step, RECEIVE_WHOLE);
	assert_int_equal(commands.count, 2);
	assert_int_equal(from, body.len - 4);
}

/* Whatever else is in it. */
TEST(the_commands_of_a_certificate_are_read)
{
	size_t from = 0;

	pkt_add(&body, "push-cert\0report-status atomic\n", 32);
	line("certificate version 0.1\n");
	line("pusher " ONE " 1700000000 +0000\n");
	line("\n");
	line(ONE " " ZERO " refs/heads/old\n");
	line(ZERO " " ONE " refs/heads/new\n");
	line("-----BEGIN PGP SIGNATURE-----\n");
	line("\n");
	line("iQEzBAABCAAdFiEE" ONE ONE "\n");
	line("push-cert-end\n");
	pkt_add_flush(&body);
	for (size_t len = 1; len <= body.len; len++)
		from += receive_commands_take(&commands, body.data + from, len - from);
	assert_int_equal(from, body.len - 4);
	assert_int_equal(commands.step, RECEIVE_SIGNED);
	assert_int_equal(commands.count, 2);
	assert_int_equal(commands.deletions, 1);
	assert_non_null(map_get(&commands.deleted, "refs/heads/old"));
	assert_int_equal(commands.deleted.count, 1);
}

/* As one that a stranger fills. */
TEST(of_very_many_deletions_not_all_names_are_kept)
{
	AUTO_FREE char *name = xcalloc(1, 60001);

	memset(name, 'x', 60000);
	for (int i = 0; i < 200; i++) {
		AUTO_FREE char *text =
			xasprintf(ONE " " ZERO " refs/heads/%d/%s", i, name);
		line(text);
	}
	pkt_add_flush(&body);
	take();
	assert_int_equal(commands.step, RECEIVE_WHOLE);
	assert_int_equal(commands.deletions, 200);
	assert_in_range(commands.deleted.count, 100, 150);
}

/* Short ones take more memory than their bytes. */
TEST(of_very_many_short_names_not_all_are_kept)
{
	for (int i = 0; i < 100010; i++) {
		AUTO_FREE char *text = xasprintf(ONE " " ZERO " refs/%x", i);
		line(text);
	}
	pkt_add_flush(&body);
	take();
	assert_int_equal(commands.deletions, 100010);
	assert_int_equal(commands.deleted.count, 100000);
}

TEST(what_is_not_understood_is_strange)
{
	static const char *const lines[] = {
		"push-cert",
		"",
		"x",
		ONE " " ONE,
		ONE " " ONE " ",
		"ERR no",
		ONE "  " ONE " refs/heads/main",
		ONE ONE " refs/heads/main",
		"g" ZERO " " ONE " refs/heads/main",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		setup(NULL);
		line(ZERO " " ONE " refs/heads/main");
		size_t len = body.len;
		line(lines[i]);
		assert_int_equal(take(), len);
		assert_int_equal(commands.step, RECEIVE_STRANGE);
		teardown(NULL);
	}
	setup(NULL);
	str_add(&body, "0001");
	take();
	assert_int_equal(commands.step, RECEIVE_STRANGE);
}

TEST(what_can_be_no_packet_is_strange_at_the_length_of_one)
{
	for (size_t i = 0; i < PKT_LINE_MAX - 1; i++)
		str_add_char(&body, 'z');
	take();
	assert_int_equal(commands.step, RECEIVE_MORE);
	str_add_char(&body, 'z');
	assert_int_equal(take(), 0);
	assert_int_equal(commands.step, RECEIVE_STRANGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(commands_end_before_their_flush),
		CASE(deletions_alone_need_no_pack),
		CASE(side_band_is_a_word_behind_the_nul),
		CASE(any_piece_may_come_by_itself),
		CASE(the_commands_of_a_certificate_are_read),
		CASE(of_very_many_deletions_not_all_names_are_kept),
		CASE(of_very_many_short_names_not_all_are_kept),
		CASE(what_is_not_understood_is_strange),
		CASE(what_can_be_no_packet_is_strange_at_the_length_of_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
