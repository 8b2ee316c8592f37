#include "test.h"

#include "alert/settings.h"

static struct alerts alerts;

static int read_text(const char *text)
{
	AUTO_CONF struct conf *conf = NULL;

	alerts_clear(&alerts);
	assert_ok(conf_load_text("t.conf", text, strlen(text), &conf, &err));
	return alerts_read(conf, &alerts, &err);
}

static const struct alert *read_one(const char *lines)
{
	AUTO_FREE char *text = xasprintf("[alert \"oncall\"]\n%s\n", lines);

	assert_ok(read_text(text));
	assert_int_equal(alerts.list.count, 1);
	return alerts.list.items[0];
}

static void refuse(const char *lines, const char *why)
{
	AUTO_FREE char *text = xasprintf("[alert \"oncall\"]\n%s\n", lines);

	assert_fails(read_text(text), ERR_CONFIG);
	if (!strstr(err.text, why))
		fail_msg("%s: %s", lines, err.text);
	assert_true(err.remedy[0]);
}

static int forget(void **state)
{
	(void)state;
	alerts_clear(&alerts);
	return 0;
}

#define SETTINGS(name) cmocka_unit_test_teardown(name, forget)

TEST(without_a_section_there_are_none)
{
	assert_ok(read_text("[site]\nname = x\n"));
	assert_int_equal(alerts.list.count, 0);
}

TEST(a_url_alone_tells_of_all_kinds_with_usual_bounds)
{
	const struct alert *one = read_one("url = https://chat.example.com/hook/SECRET");
	AUTO_STR struct str target = STR_INIT;

	assert_int_equal(one->kinds, (1u << ALERT_KINDS) - 1);
	assert_int_equal(one->lag_ms, 600000);
	assert_int_equal(one->repeat_ms, 86400000);
	assert_true(one->disk_share > 0.04 && one->disk_share < 0.06);
	assert_int_equal(one->disk_bytes, 0);
	assert_string_equal(alert_way(one), "url");
	alert_target(one, &target);
	assert_string_equal(target.data, "https://chat.example.com");
}

TEST(kinds_and_bounds_are_its_own)
{
	const struct alert *one =
		read_one("command = /usr/bin/page -x\nkind = disk\nkind = Lag\n"
			 "disk = 10g\nlag = 90\nexpiry = 7\nrepeat = 0");

	assert_int_equal(one->kinds, 1u << ALERT_DISK | 1u << ALERT_LAG);
	assert_true(one->disk_share == 0);
	assert_int_equal(one->disk_bytes, (uint64_t)10 << 30);
	assert_int_equal(one->lag_ms, 90000);
	assert_int_equal(one->expiry_ms, (int64_t)7 * 86400000);
	assert_int_equal(one->repeat_ms, 0);
}

TEST(several_alerts_keep_their_order_and_names)
{
	assert_ok(read_text("[alert \"b\"]\nmail = a@example.com\nmail = b@example.com\n"
			    "[alert \"a\"]\nheartbeat = https://hc.example.com/x\n"));
	assert_int_equal(alerts.list.count, 2);
	assert_string_equal(alerts.list.items[0]->name, "b");
	assert_int_equal(alerts.list.items[0]->mail.count, 2);
	assert_string_equal(alert_way(alerts.list.items[1]), "none");
	assert_ptr_equal(alerts_find(&alerts, "a"), alerts.list.items[1]);
	assert_null(alerts_find(&alerts, "c"));
}

TEST(what_makes_no_sense_is_refused_by_name)
{
	refuse("lag = 5m", "sends no messages");
	refuse("url = https://a/\ncommand = /bin/true", "more than one way");
	refuse("url = ftp://a/", "t.conf:2: alert.oncall.url: ");
	refuse("url = https://user:pw@a/", "alert.oncall.url: ");
	refuse("heartbeat = nowhere", "alert.oncall.heartbeat: ");
	refuse("command = page me", "alert.oncall.command: ");
	refuse("mail = nobody", "\"nobody\" is not a mail address");
	refuse("mail = a@b\nfrom = x\\n@y", "alert.oncall.from: ");
	refuse("mail = a@b\nsmtp = mail.example.com", "alert.oncall.smtp: ");
	refuse("mail = a@b\nsmtp = smtp://u:p@h", "set userName and passwordFile");
	refuse("mail = a@b\nuserName = u", "need each other");
	refuse("command = /bin/true\nsecretFile = /s", "only with url");
	refuse("url = https://a/\nfrom = a@b", "only with mail");
	refuse("url = https://a/\nheartbeatInterval = 5m", "only with heartbeat");
	refuse("url = https://a/\ndisk = 10", "\"10\" is less than a megabyte");
	refuse("url = https://a/\ndisk = 1023k", "alert.oncall.disk: ");
	assert_fails(read_text("[alert \"oncall\"]\nurl = https://a/\nkind = rain\n"),
		     ERR_CONFIG);
	assert_fails(read_text("[alert \"oncall\"]\nurl = https://a/\nsettle = 0\n"),
		     ERR_CONFIG);
}

TEST(one_that_has_no_keys_is_not_left_out_in_silence)
{
	static const struct setting_table *const tables[] = { &alert_settings_table,
							      NULL };
	static const char text[] = "[alert \"oncall\"]\n#url = https://a/\n";
	AUTO_CONF struct conf *conf = NULL;

	assert_ok(conf_load_text("test", text, strlen(text), &conf, &err));
	assert_fails(settings_check(tables, conf, &err), ERR_CONFIG);
	assert_non_null(strstr(err.text, "[alert \"oncall\"] has no keys"));
}

TEST(names_of_kinds_can_be_read_back)
{
	for (int kind = 0; kind < ALERT_KINDS; kind++)
		assert_int_equal(
			alert_kind_of_name(alert_kind_name((enum alert_kind)kind)), kind);
	assert_int_equal(alert_kind_of_name("rain"), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SETTINGS(without_a_section_there_are_none),
		SETTINGS(a_url_alone_tells_of_all_kinds_with_usual_bounds),
		SETTINGS(kinds_and_bounds_are_its_own),
		SETTINGS(several_alerts_keep_their_order_and_names),
		SETTINGS(what_makes_no_sense_is_refused_by_name),
		SETTINGS(one_that_has_no_keys_is_not_left_out_in_silence),
		SETTINGS(names_of_kinds_can_be_read_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
