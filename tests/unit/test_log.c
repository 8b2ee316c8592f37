#include "test.h"

#include "base/log.h"

static int real_stderr;

static void capture_begin(void)
{
	int fd = openat(root_fd, "log", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	real_stderr = dup(STDERR_FILENO);
	dup2(fd, STDERR_FILENO);
	close(fd);
}

/* What was logged since, without the time at its start. */
static const char *capture_end(void)
{
	static struct str text = STR_INIT;

	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	str_reset(&text);
	assert_ok(file_read(root_fd, "log", 1 << 20, &text, &err));
	if (text.len == 0)
		return "";
	assert_true(text_starts_with(text.data, "ts=20"));
	assert_int_equal(text.data[text.len - 1], '\n');
	str_truncate(&text, text.len - 1);
	return strchr(text.data, ' ') + 1;
}

TEST(fields_come_in_the_documented_order)
{
	const struct err why = { .class = ERR_NETWORK, .text = "cut off" };
	struct log_context before =
		log_set_context((struct log_context){ .peer = "london",
						      .ref = "refs/heads/x",
						      .site = "paris",
						      .repo = "a/b" });

	capture_begin();
	log_warn("sync.failed", LOG_NUMBER("extra", -3), LOG_ERR(&why),
		 LOG_NUMBER("bytes", 5), LOG_TEXT("more", "x"), LOG_NUMBER("dur_ms", 7));
	assert_string_equal(capture_end(),
			    "level=warn ev=sync.failed site=paris repo=a/b "
			    "ref=refs/heads/x peer=london dur_ms=7 bytes=5 "
			    "err=\"cut off\" code=network extra=-3 more=x");
	log_set_context(before);
	capture_begin();
	log_info("plain");
	assert_string_equal(capture_end(), "level=info ev=plain");
}

TEST(texts_that_need_it_are_quoted)
{
	capture_begin();
	log_info("q", LOG_TEXT("a", ""), LOG_TEXT("b", "x=y"),
		 LOG_TEXT("c", "say \"hi\""), LOG_TEXT("d", "one\ntwo\r\x01"),
		 LOG_TEXT("e", "back\\slash"), LOG_TEXT("f", "gr\xc3\xbc\xc3\x9f"),
		 LOG_TEXT("g", (const char *)NULL));
	assert_string_equal(capture_end(),
			    "level=info ev=q a=\"\" b=\"x=y\" c=\"say \\\"hi\\\"\" "
			    "d=\"one\\ntwo\\x0d\\x01\" e=\"back\\\\slash\" "
			    "f=gr\xc3\xbc\xc3\x9f g=\"\"");
}

TEST(bytes_that_are_no_text_are_escaped)
{
	capture_begin();
	log_info("q", LOG_TEXT("a", "bad\xff.git"), LOG_TEXT("b", "\x1b[2Jx"),
		 LOG_TEXT("c", "\302\2331m"), LOG_TEXT("d", "cut\xe2\x82"),
		 LOG_TEXT("e", "\xc3\xbc"));
	assert_string_equal(capture_end(),
			    "level=info ev=q a=\"bad\\xff.git\" b=\"\\x1b[2Jx\" "
			    "c=\"\\xc2\\x9b1m\" d=\"cut\\xe2\\x82\" e=\xc3\xbc");
}

TEST(levels_below_the_threshold_are_not_written)
{
	capture_begin();
	log_debug("quiet");
	log_set_level(LOG_LEVEL_ERROR);
	log_warn("quiet");
	log_set_level(LOG_LEVEL_NONE);
	log_error("quiet");
	log_set_level(LOG_LEVEL_INFO);
	assert_string_equal(capture_end(), "");
}

TEST(logging_keeps_errno)
{
	capture_begin();
	close(STDERR_FILENO);
	errno = ENOTEMPTY;
	log_info("x");
	assert_int_equal(errno, ENOTEMPTY);
	capture_end();
}

TEST(secrets_are_masked_and_the_rest_of_the_line_stays)
{
	static const struct {
		const char *text, *masked;
	} table[] = {
		{ "https://u:CANARY@h/p end", "https://***@h/p end" },
		{ "https://CANARY@h", "https://***@h" },
		{ "at https://u:CAN;A,R&Y'(!)@h/x, end", "at https://***@h/x, end" },
		{ "https://u:CAN@ARY@h/x end", "https://***@h/x end" },
		{ "https://u:CAN/ARY@h/x end", "https://***@h/x end" },
		{ "https://u:12CANARY/x@h/x end", "https://***@h/x end" },
		{ "https://h:8443/a@b end", "https://h:8443/a@b end" },
		{ "https://h/a@b end", "https://h/a@b end" },
		{ "https://h: no answer, ask a@b", "https://h: no answer, ask a@b" },
		{ "https://[::1]:80/a@b", "https://[::1]:80/a@b" },
		{ "'https://h' and mail@x", "'https://h' and mail@x" },
		{ "ssh://git@h/x and redis://:CANARY@r end",
		  "ssh://***@h/x and redis://***@r end" },
		{ "Authorization: Bearer CANARY end", "Authorization:*** end" },
		{ "authorization: token CANARY end", "authorization:*** end" },
		{ "Authorization:  Basic  CANARY== end", "Authorization:*** end" },
		{ "Authorization: CANARY end of it", "Authorization:*** end of it" },
		{ "-H 'Authorization: Bearer CANARY' end", "-H 'Authorization:***' end" },
		{ "Authorization: \"Bearer CANARY\" end", "Authorization:***\" end" },
		{ "Proxy-Authorization: Basic CANARY\r\nHost: x",
		  "Proxy-Authorization:***\r\nHost: x" },
		{ "PRIVATE-TOKEN: CANARY end", "PRIVATE-TOKEN:*** end" },
		{ "private-token:CANARY end", "private-token:*** end" },
		{ "X-Gitlab-Token: CANARY end", "X-Gitlab-Token:*** end" },
		{ "Job-Token: CANARY, end", "Job-Token:***, end" },
		{ "Cookie: a=CANARY; b=CANARY; end", "Cookie:***; end" },
		{ "Set-Cookie: s=CANARY; Path=/ end", "Set-Cookie:*** end" },
		{ "h?private_token=CANARY&x=1 end", "h?private_token=***&x=1 end" },
		{ "h?access_token=CANARY end", "h?access_token=*** end" },
		{ "password='CAN ARY' end", "password=***' end" },
		{ "password=\"CAN\\\"ARY\" end", "password=***\" end" },
		{ "GET 'h?token=' failed and so on",
		  "GET 'h?token=*** failed and so on" },
		{ "client_secret=CANARY end", "client_secret=*** end" },
		{ "{\"token\":\"CANARY\",\"x\":1}", "{\"token\":***\",\"x\":1}" },
		{ "{\"password\": \"CAN ARY\"}", "{\"password\":***\"}" },
		{ "with ghp_CANARY end", "with *** end" },
		{ "with glpat-CANARY_x-1. End", "with ***. End" },
		{ "git@h:glpat-CANARY/path end", "git@h:***/path end" },
		{ "github_pat_CANARY@h end", "***@h end" },
		{ "jwt eyJCANARY.eyJCANARY.s-_1, end", "jwt ***, end" },
		{ "the keyJournal is no jwt", "the keyJournal is no jwt" },
		{ "Authorization:", "Authorization:***" },
		{ "token=", "token=***" },
		{ "://", "://" },
		{ "a plain line: of words, a@b", "a plain line: of words, a@b" },
		{ "", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		AUTO_STR struct str out = STR_INIT;
		log_redact(table[i].text, &out);
		assert_string_equal(out.data, table[i].masked);
		assert_null(strstr(out.data, "CANARY"));
	}
}

TEST(secrets_are_masked_in_every_text_of_a_line)
{
	const struct err why = { .class = ERR_AUTH,
				 .text = "https://u:CANARY@h refused, end" };
	struct log_context before =
		log_set_context((struct log_context){ .peer = "https://u:CANARY@h/x" });

	capture_begin();
	log_error("x", LOG_ERR(&why), LOG_TEXT("head", "PRIVATE-TOKEN: CANARY"));
	const char *line = capture_end();
	log_set_context(before);
	assert_null(strstr(line, "CANARY"));
	assert_string_equal(line, "level=error ev=x peer=https://***@h/x "
				  "err=\"https://***@h refused, end\" code=auth "
				  "head=PRIVATE-TOKEN:***");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(fields_come_in_the_documented_order),
		CASE(texts_that_need_it_are_quoted),
		CASE(bytes_that_are_no_text_are_escaped),
		CASE(levels_below_the_threshold_are_not_written),
		CASE(logging_keeps_errno),
		CASE(secrets_are_masked_and_the_rest_of_the_line_stays),
		CASE(secrets_are_masked_in_every_text_of_a_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
