/*
 * A fetch in one request: what is asked, and answers as servers give them, and broken in
 * each way.
 */
#include "test.h"

#include "git/fetch_small.h"
#include "git/pkt_line.h"

static struct str answer = STR_INIT, pack = STR_INIT;

static void begin(void)
{
	str_reset(&answer);
	str_reset(&pack);
	err = (struct err){ 0 };
}

static void band(char number, const char *bytes)
{
	AUTO_STR struct str line = STR_INIT;

	str_add_char(&line, number);
	str_add(&line, bytes);
	pkt_add(&answer, line.data, line.len);
}

static int read_answer(void)
{
	return fetch_small_read(answer.data, answer.len, &pack, &err);
}

static void assert_none(void)
{
	assert_int_equal(read_answer(), -1);
	assert_int_equal(err.class, ERR_CORRUPT);
	assert_true(err.text[0]);
}

static struct oid oid_of(unsigned char byte)
{
	struct oid oid = { .len = 20 };

	memset(oid.bytes, byte, oid.len);
	return oid;
}

TEST(what_is_asked)
{
	AUTO_STR struct str body = STR_INIT;
	oid_list wanted = { 0 }, have = { 0 };

	vec_add(&wanted, oid_of(0x11));
	vec_add(&wanted, oid_of(0x22));
	vec_add(&have, oid_of(0x33));
	fetch_small_ask(&wanted, &have, &body);
	assert_string_equal(body.data,
			    "0056want 1111111111111111111111111111111111111111"
			    " side-band-64k ofs-delta no-progress\n"
			    "0032want 2222222222222222222222222222222222222222\n"
			    "0000"
			    "0032have 3333333333333333333333333333333333333333\n"
			    "0009done\n");
	vec_clear(&wanted);
	vec_clear(&have);
}

TEST(a_pack_in_bands)
{
	static const char *const heads[] = {
		"NAK\n", "NAK", "ACK 3333333333333333333333333333333333333333\n"
	};

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		begin();
		pkt_add(&answer, heads[i], strlen(heads[i]));
		band(2, "Counting objects\r");
		band(1, "PA");
		band(1, ""); /* it lives */
		band(2, "");
		band(1, "CK");
		pkt_add_flush(&answer);
		assert_int_equal(read_answer(), 0);
		assert_string_equal(pack.data, "PACK");
	}
}

TEST(what_is_no_pack)
{
	static const char *const lines[] = {
		"ERR upload-pack: not our ref 11\n",
		"shallow 3333333333333333333333333333333333333333\n",
		"PACK",
		"",
		"NA",
		"ACK"
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		begin();
		pkt_add(&answer, lines[i], strlen(lines[i]));
		band(1, "PACK");
		pkt_add_flush(&answer);
		assert_none();
	}
	begin();
	assert_none();
	pkt_addf(&answer, "NAK\n");
	assert_none();
	pkt_add_flush(&answer);
	assert_none();
	begin();
	str_add(&answer, "HTTP is well, but");
	assert_none();
}

TEST(what_breaks_off)
{
	begin();
	pkt_addf(&answer, "NAK\n");
	band(1, "PA");
	band(3, "fatal: no memory");
	pkt_add_flush(&answer);
	assert_none();

	begin();
	pkt_addf(&answer, "NAK\n");
	band(1, "PACK");
	const size_t whole = answer.len;
	assert_none(); /* no flush */
	pkt_add_flush(&answer);
	for (size_t len = 0; len < answer.len; len++) {
		str_reset(&pack);
		assert_int_equal(fetch_small_read(answer.data, len, &pack, &err), -1);
	}
	str_truncate(&answer, whole);
	pkt_add_flush(&answer);
	str_add(&answer, "0000");
	str_reset(&pack);
	assert_none(); /* something follows */

	begin();
	band(1, "PA");
	pkt_addf(&answer, "NAK\n");
	pkt_add_flush(&answer);
	assert_none();
}

static int clear_all(void **state)
{
	(void)state;
	str_clear(&answer);
	str_clear(&pack);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_is_asked),
		CASE(a_pack_in_bands),
		CASE(what_is_no_pack),
		CASE(what_breaks_off),
	};

	return cmocka_run_group_tests(tests, NULL, clear_all);
}
