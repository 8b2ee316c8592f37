#include "test.h"

#include "base/str.h"
#include "serve/receive_git.h"

#define OIDS                                                                             \
	"0000000000000000000000000000000000000000 "                                      \
	"1111111111111111111111111111111111111111 "

static void add_packet(struct str *out, const char *text)
{
	str_addf(out, "%04zx%s", strlen(text) + 4, text);
}

/* "refs/a/a/...": so many slashes. */
static char *deep(size_t slashes)
{
	struct str name = STR_INIT;

	str_add(&name, "refs");
	for (size_t i = 0; i < slashes; i++)
		str_add(&name, "/a");
	return str_take(&name);
}

static void add_command(struct str *out, size_t slashes)
{
	AUTO_FREE char *name = deep(slashes);
	AUTO_FREE char *line = xasprintf(OIDS "%s", name);

	add_packet(out, line);
}

/* Whether it is taken, at once and byte by byte, which must be the same. */
static bool is_taken(const struct str *body)
{
	struct receive_depth whole = { .left = 0 }, bytewise = { .left = 0 };
	bool is_good = receive_depth_take(&whole, body->data, body->len);
	bool is_good_bytewise = true;

	for (size_t i = 0; i < body->len && is_good_bytewise; i++)
		is_good_bytewise = receive_depth_take(&bytewise, body->data + i, 1);
	assert_int_equal(is_good, is_good_bytewise);
	return is_good;
}

TEST(a_ref_may_be_as_deep_as_refs_are_read_and_no_deeper)
{
	AUTO_STR struct str body = STR_INIT;

	for (int i = 0; i < 10; i++)
		add_command(&body, RECEIVE_SLASHES_MAX);
	assert_true(is_taken(&body));
	add_command(&body, RECEIVE_SLASHES_MAX + 1);
	assert_false(is_taken(&body));
}

TEST(what_follows_the_commands_is_not_looked_at)
{
	static const char *const ends[] = { "0000", "0001", "0003", "000z", "zzzz" };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		AUTO_STR struct str body = STR_INIT;
		add_command(&body, 2);
		str_add(&body, ends[i]);
		add_command(&body, 1000);
		assert_true(is_taken(&body));
	}
}

static void add_packet_with_nul(struct str *out, const char *before, const char *after)
{
	str_addf(out, "%04zx%s", strlen(before) + 1 + strlen(after) + 4, before);
	str_add_bytes(out, "", 1);
	str_add(out, after);
}

/* Of a packet of a certificate git takes what is before a NUL: no line ends there. */
TEST(a_nul_ends_what_git_takes_of_a_packet_of_a_certificate)
{
	AUTO_STR struct str body = STR_INIT;
	AUTO_FREE char *half = deep(RECEIVE_SLASHES_MAX / 2 + 1);

	add_packet_with_nul(&body, "push-cert", "report-status");
	add_packet(&body, OIDS);
	add_packet_with_nul(&body, half, "\n");
	assert_true(is_taken(&body));
	add_packet(&body, half);
	assert_false(is_taken(&body));
}

TEST(a_line_of_a_certificate_may_be_in_many_packets)
{
	AUTO_STR struct str body = STR_INIT;
	AUTO_FREE char *half = deep(RECEIVE_SLASHES_MAX / 2 + 1);

	add_packet(&body, "push-cert");
	add_packet(&body, "pushee https://example.com/a/b\n");
	add_packet(&body, OIDS);
	add_packet(&body, half);
	assert_true(is_taken(&body));
	str_add(&body, "0004");
	add_packet(&body, "push-cert-end");
	add_packet(&body, half);
	assert_false(is_taken(&body));
}

TEST(after_a_certificate_packets_are_commands_again)
{
	AUTO_STR struct str body = STR_INIT;

	add_packet(&body, "push-cert");
	add_packet(&body, "push-cert-end\n");
	add_command(&body, RECEIVE_SLASHES_MAX - 1);
	add_command(&body, RECEIVE_SLASHES_MAX - 1);
	assert_true(is_taken(&body));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_ref_may_be_as_deep_as_refs_are_read_and_no_deeper),
		cmocka_unit_test(what_follows_the_commands_is_not_looked_at),
		cmocka_unit_test(a_nul_ends_what_git_takes_of_a_packet_of_a_certificate),
		cmocka_unit_test(a_line_of_a_certificate_may_be_in_many_packets),
		cmocka_unit_test(after_a_certificate_packets_are_commands_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
