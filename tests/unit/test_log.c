#include "test.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/json.h"
#include "base/log.h"

static int real_stderr;

static void capture_begin(void)
{
	int fd = openat(root_fd, "log", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	real_stderr = dup(STDERR_FILENO);
	dup2(fd, STDERR_FILENO);
	close(fd);
}

/* What was logged since; borrowed until the next call. */
static struct str *capture_whole(void)
{
	static struct str text = STR_INIT;

	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	str_reset(&text);
	assert_ok(file_read(root_fd, "log", 1 << 20, &text, &err));
	return &text;
}

/* The same, without the time at its start. */
static const char *capture_end(void)
{
	struct str *text = capture_whole();

	if (text->len == 0)
		return "";
	assert_true(text_starts_with(text->data, "ts=20"));
	assert_int_equal(text->data[text->len - 1], '\n');
	str_truncate(text, text->len - 1);
	return strchr(text->data, ' ') + 1;
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

/* The one line as JSON; its time is there, and left out. The caller owns it. */
static json_t *capture_json(void)
{
	const struct str *text = capture_whole();
	json_t *object;

	assert_int_equal(text->data[text->len - 1], '\n');
	assert_ptr_equal(strchr(text->data, '\n'), text->data + text->len - 1);
	object = json_parse_object(text->data, text->len, text->len, &err);
	assert_non_null(object);
	assert_true(
		text_starts_with(json_string_value(json_object_get(object, "ts")), "20"));
	json_object_del(object, "ts");
	return object;
}

TEST(a_line_of_json_has_the_same_fields_with_their_types)
{
	const struct err why = { .class = ERR_NETWORK, .text = "cut off" };
	struct log_context before = log_set_context(
		(struct log_context){ .peer = "london", .site = "paris" });

	log_set_format(LOG_FORMAT_JSON);
	capture_begin();
	log_warn("sync.failed", LOG_NUMBER("extra", -3), LOG_ERR(&why),
		 LOG_NUMBER("dur_ms", INT64_MAX), LOG_TEXT("peer", "rome"),
		 LOG_TEXT("code", "second"),
		 LOG_TEXT("odd", "say \"hi\" to a\\b\n\x01\x7f gr\xc3\xbc\xc3\x9f "
				 "bad\xff c1\302\233"),
		 LOG_TEXT("url", "https://u:CANARY@h/p"));
	json_auto_t *object = capture_json();
	AUTO_STR struct str text = STR_INIT;
	json_render(object, &text);
	assert_string_equal(
		text.data,
		"{\"level\":\"warn\",\"ev\":\"sync.failed\",\"site\":\"paris\","
		"\"dur_ms\":9223372036854775807,\"err\":\"cut off\","
		"\"code\":\"network\",\"extra\":-3,\"peer\":\"rome\","
		"\"odd\":\"say \\\"hi\\\" to a\\\\b\\n\\u0001\x7f "
		"gr\xc3\xbc\xc3\x9f bad\\\\xff c1\\\\xc2\\\\x9b\","
		"\"url\":\"https://***@h/p\"}");
	log_set_context(before);
	log_set_format(LOG_FORMAT_TEXT);
}

TEST(lines_for_the_journal_begin_with_their_priority)
{
	struct stat st;
	char stream[64];

	capture_begin();
	assert_int_equal(fstat(STDERR_FILENO, &st), 0);
	snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)st.st_dev,
		 (uintmax_t)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	log_set_format(LOG_FORMAT_TEXT);
	log_info("a");
	log_warn("b");
	log_error("c");
	log_set_format(LOG_FORMAT_JSON);
	log_info("d");
	/* Of another stream, that a shell has put there. */
	setenv("JOURNAL_STREAM", "1:2", 1);
	log_set_format(LOG_FORMAT_TEXT);
	log_info("e");
	unsetenv("JOURNAL_STREAM");
	const char *text = capture_whole()->data;
	static const char *const begins[] = { "<6>ts=", "<4>ts=", "<3>ts=", "<6>{",
					      "ts=" };
	for (size_t i = 0; i < ARRAY_SIZE(begins); i++) {
		assert_true(text_starts_with(text, begins[i]));
		text = strchr(text, '\n') + 1;
	}
	assert_string_equal(text, "");
}

static int listen_as_journal(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, path, strlen(path) + 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

TEST(the_journal_gets_fields_and_the_rest_goes_on_without_it)
{
	static const char expected[] =
		"MESSAGE=sync.failed site=paris dur_ms=7 err=\"one\\ntwo\"\n"
		"PRIORITY=4\nSYSLOG_IDENTIFIER=refrelay\nREFRELAY_EV=sync.failed\n"
		"REFRELAY_SITE=paris\nREFRELAY_DUR_MS=7\nREFRELAY_ERR\n"
		"\7\0\0\0\0\0\0\0one\ntwo\n";
	AUTO_FREE char *path = xasprintf("%s/journal", root);
	struct log_context before =
		log_set_context((struct log_context){ .site = "paris" });
	char entry[1024];

	log_set_journal(path);
	log_set_format(LOG_FORMAT_JOURNALD);
	capture_begin();
	log_info("early"); /* nobody listens yet */
	assert_string_equal(capture_end(), "level=info ev=early site=paris");
	AUTO_CLOSE int fd = listen_as_journal(path);
	capture_begin();
	log_warn("sync.failed", LOG_TEXT("err", "one\ntwo"), LOG_NUMBER("dur_ms", 7));
	assert_string_equal(capture_end(), "");
	ssize_t len = recv(fd, entry, sizeof(entry), MSG_DONTWAIT);
	assert_int_equal(len, sizeof(expected) - 1);
	assert_memory_equal(entry, expected, sizeof(expected) - 1);
	/* More than it takes at once is a line, too. */
	AUTO_FREE char *large = xcalloc(1, 1 << 20);
	memset(large, 'x', (1 << 20) - 1);
	capture_begin();
	errno = ENOTEMPTY;
	log_info("large", LOG_TEXT("text", large));
	assert_int_equal(errno, ENOTEMPTY);
	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	struct stat st;
	assert_int_equal(fstatat(root_fd, "log", &st, 0), 0);
	assert_true(st.st_size > 1 << 20);
	log_set_context(before);
	log_set_format(LOG_FORMAT_TEXT);
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
		CASE(a_line_of_json_has_the_same_fields_with_their_types),
		CASE(lines_for_the_journal_begin_with_their_priority),
		CASE(the_journal_gets_fields_and_the_rest_goes_on_without_it),
		CASE(levels_below_the_threshold_are_not_written),
		CASE(logging_keeps_errno),
		CASE(secrets_are_masked_and_the_rest_of_the_line_stays),
		CASE(secrets_are_masked_in_every_text_of_a_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
