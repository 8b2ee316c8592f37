#include "test.h"

#include "base/conf.h"
#include "pull/pull.h"

static struct pull_settings settings;

static int read_text(const char *text)
{
	AUTO_CONF struct conf *conf = NULL;

	assert_ok(conf_load_text("t.conf", text, strlen(text), &conf, &err));
	return pull_settings_read(conf, &settings, &err);
}

TEST(what_is_not_said_has_the_documented_value)
{
	assert_ok(read_text(""));
	assert_int_equal(settings.repository_capacity, 10);
	assert_int_equal(settings.verification_capacity, 2);
	assert_int_equal(settings.consistency_interval_ms, 60 * 1000);
	assert_int_equal(settings.timeout_ms, 3 * 3600 * 1000);
	assert_int_equal(settings.reverify_ms, (int64_t)7 * 24 * 3600 * 1000);
	assert_true(settings.delete_brake > 0.0499 && settings.delete_brake < 0.0501);
}

TEST(each_key_is_read_in_its_own_unit)
{
	assert_ok(read_text("[sync]\nrepositoryCapacity = 3\nverificationCapacity = 0\n"
			    "consistencyInterval = 90\ntimeout = 5m\n"
			    "reverifyInterval = 2\ndeleteBrake = 50%\n"));
	assert_int_equal(settings.repository_capacity, 3);
	assert_int_equal(settings.verification_capacity, 0);
	assert_int_equal(settings.consistency_interval_ms, 90 * 1000);
	assert_int_equal(settings.timeout_ms, 5 * 60 * 1000);
	assert_int_equal(settings.reverify_ms, (int64_t)2 * 24 * 3600 * 1000);
	assert_true(settings.delete_brake > 0.499 && settings.delete_brake < 0.501);
}

TEST(values_that_make_no_sense_are_refused_with_their_line)
{
	static const char *const lines[] = {
		"repositoryCapacity = -1",   "repositoryCapacity = 257",
		"verificationCapacity = x",  "consistencyInterval = 0",
		"consistencyInterval = 5ms", "timeout = 0",
		"reverifyInterval = 0",      "deleteBrake = 101%",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		AUTO_FREE char *text = xasprintf("[sync]\n%s\n", lines[i]);
		assert_fails(read_text(text), ERR_CONFIG);
		assert_non_null(strstr(err.text, "t.conf:2"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_said_has_the_documented_value),
		cmocka_unit_test(each_key_is_read_in_its_own_unit),
		cmocka_unit_test(values_that_make_no_sense_are_refused_with_their_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
