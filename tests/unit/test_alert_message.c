#include "test.h"

#include "alert/message.h"
#include "base/json.h"
#include "net/mail.h"

/* A text that its struct would own. */
#define T(text) ((char[]){ text })

#define SINCE 1795252443120

static struct alert alert = { .name = T("oncall"), .settle_ms = 1000, .repeat_ms = 1000 };

static struct alert_entry entries[] = {
	{ .kind = ALERT_DISK,
	  .subject = T("/srv"),
	  .text = T("only 1.0 MB of 1.0 GB free at /srv"),
	  .remedy = T("free some space"),
	  .since = SINCE,
	  .is_due = true },
	{ .kind = ALERT_LAG,
	  .subject = T("paris"),
	  .text = T("paris is 3 min behind"),
	  .remedy = T("see refrelay status"),
	  .since = SINCE,
	  .gone_at = SINCE + 180000,
	  .told_at = SINCE,
	  .is_due = true,
	  .is_over = true },
	{ .kind = ALERT_HELD, .subject = T("x"), .text = T("not due"), .remedy = T("") },
};
static const struct alert_state known = { .entries = { .items = entries,
						       .count = ARRAY_SIZE(entries) } };

static struct alert_message of(const struct alert_state *what)
{
	return (struct alert_message){ .alert = "oncall",
				       .site = "paris",
				       .role = "secondary",
				       .at = SINCE + 300000,
				       .is_test = !what,
				       .state = what,
				       .settings = &alert };
}

TEST(all_that_is_due_is_one_message)
{
	const struct alert_message message = of(&known);
	AUTO_STR struct str text = STR_INIT;

	alert_message_text(&message, &text);
	assert_string_equal(text.data, "refrelay paris: disk; over: lag\n"
				       "disk: only 1.0 MB of 1.0 GB free at /srv (since "
				       "2026-11-21T09:14:03.120Z, for 5 min)\n"
				       "  hint: free some space\n"
				       "over: lag: paris is 3 min behind (since "
				       "2026-11-21T09:14:03.120Z, for 3 min)\n");
}

TEST(programs_get_it_as_json)
{
	const struct alert_message message = of(&known);
	AUTO_STR struct str text = STR_INIT;

	alert_message_json(&message, ALERT_JSON, &text);
	json_auto_t *document = json_parse_object(text.data, text.len, 1 << 20, &err);
	assert_non_null(document);
	const json_t *troubles = json_object_get(document, "troubles");
	assert_int_equal(json_array_size(troubles), 2);
	const json_t *first = json_array_get(troubles, 0);
	assert_string_equal(json_string_value(json_object_get(first, "event")), "begins");
	assert_string_equal(json_string_value(json_object_get(first, "kind")), "disk");
	assert_true(json_is_null(json_object_get(first, "ended_at")));
	const json_t *second = json_array_get(troubles, 1);
	assert_string_equal(json_string_value(json_object_get(second, "event")), "over");
	assert_string_equal(json_string_value(json_object_get(second, "ended_at")),
			    "2026-11-21T09:17:03.120Z");
	assert_true(json_is_false(json_object_get(document, "test")));
	assert_true(json_is_string(json_object_get(document, "text")));
}

/* Slack and Mattermost want no other member. */
TEST(a_chat_gets_the_text_alone)
{
	const struct alert_message message = of(NULL);
	AUTO_STR struct str text = STR_INIT;

	alert_message_json(&message, ALERT_SLACK, &text);
	assert_string_equal(text.data,
			    "{\"text\":\"refrelay paris: test message\\nThis is a test "
			    "of the alert oncall. Nothing is wrong.\\n\"}\n");
}

TEST(no_name_calls_people_or_leads_them_elsewhere)
{
	struct alert_entry hostile = entries[0];
	const struct alert_state one = { .entries = { .items = &hostile, .count = 1 } };
	const struct alert_message message = of(&one);
	AUTO_STR struct str text = STR_INIT;

	hostile.text = T("<!channel> @all <https://evil/|x> & co");
	alert_message_json(&message, ALERT_SLACK, &text);
	assert_non_null(strstr(text.data, "&lt;!channel&gt; @\xe2\x80\x8b"
					  "all &lt;https://evil/|x&gt; &amp; co"));
	assert_null(strchr(text.data, '<'));
}

TEST(of_very_many_the_rest_is_counted)
{
	AUTO_FREE struct alert_entry *many =
		xcalloc(ALERT_MESSAGE_MOST + 7, sizeof(*many));
	const struct alert_state all = { .entries = { .items = many,
						      .count = ALERT_MESSAGE_MOST + 7 } };
	const struct alert_message message = of(&all);
	AUTO_STR struct str text = STR_INIT, json = STR_INIT;

	for (size_t i = 0; i < all.entries.count; i++)
		many[i] = entries[0];
	alert_message_text(&message, &text);
	assert_non_null(strstr(text.data, "\nand 7 more: see refrelay alert list\n"));
	alert_message_json(&message, ALERT_JSON, &json);
	assert_non_null(strstr(json.data, "\"more\":7,"));
}

TEST(a_mail_is_plain_ascii_in_short_lines)
{
	static const char *const to[] = { "a@example.com", "b@example.com" };
	AUTO_STR struct str mail = STR_INIT, text = STR_INIT;

	for (int i = 0; i < 50; i++)
		str_add(&text, "\xc3\xa4 = .");
	str_add(&text, "\n.\nend \n");
	mail_render(&(struct mail_request){ .from = "refrelay@paris",
					    .to = to,
					    .to_count = 2,
					    .subject = ("a\r\nBcc: x@y \xc3\xa4"),
					    .text = text.data },
		    SINCE, &mail);
	assert_non_null(strstr(mail.data, "Date: Sat, 21 Nov 2026 09:14:03 +0000\r\n"));
	assert_non_null(strstr(mail.data, "To: a@example.com,\r\n b@example.com\r\n"));
	assert_non_null(strstr(mail.data, "Subject: a??Bcc: x@y ??\r\n"));
	assert_non_null(strstr(mail.data, "=C3=A4 =3D ."));
	assert_non_null(strstr(mail.data, "\r\n.\r\nend=20\r\n"));
	for (const char *line = mail.data, *stop; (stop = strchr(line, '\n')) != NULL;
	     line = stop + 1) {
		assert_true(stop > line && stop[-1] == '\r');
		assert_true(stop - line <= 78);
	}
	for (size_t i = 0; i < mail.len; i++)
		assert_true((unsigned char)mail.data[i] < 0x80);
}

TEST(mail_addresses_and_servers_are_judged)
{
	assert_true(mail_is_address("on-call+x@example.com"));
	assert_false(mail_is_address("nobody"));
	assert_false(mail_is_address("@example.com"));
	assert_false(mail_is_address("a@"));
	assert_false(mail_is_address("a b@example.com"));
	assert_false(mail_is_address("a@b\r\nRCPT TO:<c@d>"));
	assert_false(mail_is_address("<a@b>"));
	assert_false(mail_is_address("-x@y"));
	assert_null(mail_check_server("smtp://127.0.0.1:2525"));
	assert_null(mail_check_server("smtps://[::1]:465"));
	assert_non_null(mail_check_server("smtps://"));
	assert_non_null(mail_check_server("https://mail"));
	assert_non_null(mail_check_server("smtp://u:p@mail"));
	assert_non_null(mail_check_server("smtp://mail/x\r\ny"));
}

/* Mails, and a password, go in the clear there. */
TEST(only_loopback_is_near)
{
	static const char *const near[] = {
		"smtp://127.0.0.1",     "smtp://127.0.0.1:2525", "smtp://127.1.2.3:25",
		"smtp://localhost",     "smtp://localhost:2525", "smtp://[::1]",
		"smtp://[0:0::1]:2525", "smtps://127.0.0.1:465",
	};
	static const char *const far[] = {
		"smtp://127.relay.example.com",
		"smtp://127.0.0.1.example.com:25",
		"smtp://127.0.0.1x",
		"smtp://128.0.0.1",
		"smtp://1270.0.0.1",
		"smtp://localhost.example.com",
		"smtp://localhostess",
		"smtp://[::2]",
		"smtp://[::1",
		"smtp://[::1]x",
		"smtp://::1",
		"smtp://",
		"https://127.0.0.1",
		"smtp://mail.a-name-that-is-longer-than-any-address.example.com:25",
	};

	for (size_t i = 0; i < ARRAY_SIZE(near); i++)
		if (!mail_is_near(near[i]))
			fail_msg("%s is far", near[i]);
	for (size_t i = 0; i < ARRAY_SIZE(far); i++)
		if (mail_is_near(far[i]))
			fail_msg("%s is near", far[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_is_due_is_one_message),
		cmocka_unit_test(programs_get_it_as_json),
		cmocka_unit_test(a_chat_gets_the_text_alone),
		cmocka_unit_test(no_name_calls_people_or_leads_them_elsewhere),
		cmocka_unit_test(of_very_many_the_rest_is_counted),
		cmocka_unit_test(a_mail_is_plain_ascii_in_short_lines),
		cmocka_unit_test(mail_addresses_and_servers_are_judged),
		cmocka_unit_test(only_loopback_is_near),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
