#include "test.h"

#include "base/conf.h"
#include "serve/settings.h"

static struct serve_settings settings;

static int read_text(const char *text)
{
	AUTO_CONF struct conf *conf = NULL;

	assert_ok(conf_load_text("t.conf", text, strlen(text), &conf, &err));
	return serve_settings_read(conf, "/srv/data", &settings, &err);
}

TEST(what_is_not_said_has_the_documented_value)
{
	assert_ok(read_text(""));
	assert_string_equal(settings.directory, "/srv/data/cache");
	assert_int_equal(settings.disk_cache.size, UINT64_C(1) << 30);
	assert_int_equal(settings.disk_cache.max_age_ms, (int64_t)24 * 3600 * 1000);
	assert_int_equal(settings.memory, 64 << 20);
	assert_int_equal(settings.packs.running, 16);
	assert_int_equal(settings.packs.waiting, 64);
	assert_int_equal(settings.packs.wait_ms, 30 * 1000);
	assert_int_equal(settings.packs.each, 12);
	assert_int_equal(settings.pushes.each, 12);
	assert_int_equal(settings.least_rate, 16 << 10);
	assert_true(settings.fills.running >= 4);
	assert_int_equal(settings.timeout_ms, 3 * 3600 * 1000);
	assert_int_equal(settings.fresh_for_ms, 60 * 1000);
	serve_settings_clear(&settings);
}

TEST(each_key_is_read_in_its_own_unit)
{
	assert_ok(read_text("[serve]\ncache = /mnt/cache\ncacheSize = 10m\n"
			    "cacheMaxAge = 2\ncacheMemory = 0\nuploadPacks = 3\n"
			    "uploadPackQueue = 0\nuploadPackWait = 5\ntimeout = 1h\n"
			    "freshFor = 2\nuploadPacksPerClient = 2\n"
			    "receivePacks = 2\nleastRate = 1k\n"));
	assert_string_equal(settings.directory, "/mnt/cache");
	assert_int_equal(settings.disk_cache.size, 10 << 20);
	assert_int_equal(settings.disk_cache.max_age_ms, (int64_t)2 * 24 * 3600 * 1000);
	assert_int_equal(settings.memory, 0);
	assert_int_equal(settings.packs.running, 3);
	assert_int_equal(settings.packs.waiting, 0);
	assert_int_equal(settings.packs.wait_ms, 5 * 1000);
	assert_int_equal(settings.packs.each, 2);
	assert_int_equal(settings.pushes.each, 1);
	assert_int_equal(settings.least_rate, 1 << 10);
	assert_int_equal(settings.timeout_ms, 3600 * 1000);
	assert_int_equal(settings.fresh_for_ms, 2000);
	serve_settings_clear(&settings);
}

TEST(values_that_make_no_sense_are_refused_with_their_line)
{
	static const char *const lines[] = {
		"cache = relative/path", "cache",
		"cacheSize = much",      "cacheSize = -1",
		"cacheMaxAge = 0",       "cacheMaxAge = 10ms",
		"cacheMemory = 1x",      "uploadPacks = 0",
		"uploadPacks = 4097",    "uploadPackQueue = 65537",
		"uploadPackWait = 0",    "timeout = 0",
		"freshFor = 1",          "freshFor = 1999ms",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		AUTO_FREE char *text = xasprintf("[serve]\n%s\n", lines[i]);
		assert_fails(read_text(text), ERR_CONFIG);
		assert_non_null(strstr(err.text, "t.conf:2"));
		serve_settings_clear(&settings);
	}
}

static int check(const char *cache, const char *repositories)
{
	AUTO_FREE char *text = xasprintf("[serve]\ncache = %s%s\n", root, cache);
	AUTO_FREE char *path = xasprintf("%s%s", root, repositories);
	int result;

	assert_ok(read_text(text));
	result = serve_settings_check(&settings, path, &err);
	serve_settings_clear(&settings);
	return result;
}

TEST(a_cache_among_repositories_is_refused)
{
	AUTO_FREE char *link = xasprintf("%s/link", root);

	assert_int_equal(mkdirat(root_fd, "git", 0777), 0);
	assert_int_equal(symlink("git", link), 0);
	assert_ok(check("/cache", "/git"));
	assert_ok(check("/git-cache", "/git"));
	assert_fails(check("/git", "/git"), ERR_CONFIG);
	assert_fails(check("/git/deep/cache", "/git"), ERR_CONFIG);
	assert_fails(check("/cache", "/cache/git"), ERR_CONFIG);
	assert_fails(check("/link/cache", "/git"), ERR_CONFIG);
	assert_non_null(strstr(err.text, "serve.cache"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_said_has_the_documented_value),
		cmocka_unit_test(each_key_is_read_in_its_own_unit),
		cmocka_unit_test(values_that_make_no_sense_are_refused_with_their_line),
		CASE(a_cache_among_repositories_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
