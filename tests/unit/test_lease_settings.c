/*
 * [lease]: what goes together, and what keys follow from it.
 */
#include "test.h"

#include "base/clock.h"
#include "lease/lease_settings.h"
#include "lease/manager.h"
#include "store/store.h"

static struct lease_settings settings;
static struct store *store;
static struct lease_manager *manager;

static int read_text(const char *text)
{
	AUTO_FREE char *all = xasprintf("[lease]\n%s\n", text);
	struct conf *conf = NULL;
	int result;

	lease_settings_clear(&settings);
	assert_ok(conf_load_text("conf", all, strlen(all), &conf, &err));
	result = lease_settings_read(conf, &settings, &err);
	conf_free(conf);
	return result;
}

static void open_with(const char *text)
{
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);
	AUTO_FREE char *directory = xasprintf("%s/leases", root);
	const struct lease_place place = { .directory = directory,
					   .site = "paris",
					   .repositories = "/srv/git" };
	struct lease_place with_store = place;

	assert_ok(read_text(text));
	assert_ok(store_open(url, &store, &err));
	with_store.store = store;
	assert_ok(lease_manager_open(&settings, &with_store, &manager, &err));
}

static void close_all(void)
{
	lease_manager_close(TAKE(manager));
	store_close(TAKE(store));
	lease_settings_clear(&settings);
}

static const char *key_of(const char *kind, uint64_t id, const char *name)
{
	static char key[LEASE_KEY_SIZE];

	return lease_key_for(manager, kind, id, name, key) ? key : NULL;
}

TEST(nothing_said_is_the_local_backend_with_the_seeds_keys)
{
	char key[LEASE_KEY_SIZE];

	open_with("");
	assert_int_equal(settings.ttl_ms, 30000);
	assert_int_equal(lease_manager_wait_ms(manager), 60000);
	assert_string_equal(key_of("repository", 7, "a"),
			    "geo_sync_ssf_service:repository:7");
	lease_key_of_site(manager, "site:log-cursor", key);
	assert_string_equal(key, "site:log-cursor");
	assert_ok(lease_key_of_person(manager, "backup", key, &err));
	assert_string_equal(key, "refrelay:paris:backup");
	close_all();
}

TEST(a_format_is_filled_in_and_blobs_keep_the_default_without_an_id)
{
	open_with("keyFormat = x:${site}:${kind}:${name}:${path}\nprefix = p:");
	assert_string_equal(key_of("repository", 7, "a/b"),
			    "x:paris:repository:a/b:/srv/git/a/b.git");
	assert_string_equal(key_of("lfs", 7, "a/b"), "geo_sync_ssf_service:lfs:7");
	assert_null(key_of("repository", 7, NULL));
	close_all();
	open_with("keyFormat = geo_sync_ssf_service:${kind}:${id}\nprefix = p:");
	assert_string_equal(key_of("repository", 7, "a"),
			    "geo_sync_ssf_service:repository:7");
	assert_string_equal(key_of("lfs", 7, "a/b"), "geo_sync_ssf_service:lfs:7");
	close_all();
	open_with("keyFormat = ${kind}-${id}");
	assert_string_equal(key_of("lfs", 7, "a/b"), "lfs-7");
	assert_string_equal(key_of("repository", 8, NULL), "repository-8");
	close_all();
}

TEST(long_names_have_keys_that_differ)
{
	char one[1001] = "", other[1001] = "";
	AUTO_FREE char *key = NULL;

	memset(one, 'x', 1000);
	memset(other, 'x', 1000);
	other[999] = 'y';
	open_with("keyFormat = r:${name}");
	key = xstrdup(key_of("repository", 1, one));
	assert_true(text_starts_with(key, "r:sha256:"));
	assert_string_not_equal(key, key_of("repository", 2, other));
	close_all();
}

TEST(a_format_in_which_two_could_share_a_key_is_refused)
{
	static const char *const wrong[] = {
		"keyFormat = lock",         "keyFormat = ${site}:${kind}",
		"keyFormat = ${id}${name}", "keyFormat = ${nam}",
		"keyFormat = ${name",       "keyFormat = $name:${id}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		assert_fails(read_text(wrong[i]), ERR_CONFIG);
		assert_non_null(strstr(err.text, "lease.keyFormat"));
	}
}

TEST(what_misses_another_or_has_no_meaning_is_refused)
{
	static const char *const wrong[] = {
		"backend = redis",  "backend = directory",
		"url = redis://h",  "backend = redis\nurl = redis://me:word@h",
		"format = redlock", "backend = etcd",
		"ttl = 10ms",
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_fails(read_text(wrong[i]), ERR_CONFIG);
}

TEST(docora_holds_for_two_minutes_unless_told_otherwise)
{
	assert_ok(read_text("compatibility = docora"));
	assert_int_equal(settings.ttl_ms, 120000);
	assert_ok(read_text("compatibility = docora\nttl = 90s"));
	assert_int_equal(settings.ttl_ms, 90000);
}

/* On each backend: at 2 s, 0.4 s more or less, a minute has 25 to 38 tries. */
TEST(docora_polls_as_its_seed_says_whatever_the_format)
{
	AUTO_FREE char *directory = xasprintf(
		"compatibility = docora\nbackend = directory\npath = %s/shared", root);
	const char *const each[] = {
		"compatibility = docora",
		directory,
		"compatibility = docora\nbackend = redis\nurl = unix:///no-such",
		"compatibility = docora\nbackend = redis\nurl = unix:///no-such\n"
		"format = redlock",
	};

	for (size_t i = 0; i < ARRAY_SIZE(each); i++) {
		open_with(each[i]);
		assert_int_equal(manager->ways.poll_ms, 2000);
		assert_int_equal(manager->ways.poll_jitter_ms, 400);
		assert_true(manager->ways.is_fixed);
		assert_int_equal(lease_manager_wait_ms(manager), 60000);
		close_all();
	}
	open_with("");
	assert_int_equal(manager->ways.poll_ms, 0);
	close_all();
}

TEST(what_is_never_renewed_is_lost_with_the_setting_named)
{
	struct lease *lease;

	open_with("compatibility = docora\nttl = 1s");
	assert_ok(lease_acquire(
		manager, &(struct lease_request){ .key = "k", .operation = "sync" },
		&lease, &err));
	int64_t until = clock_boot_ms() + 5000;
	while (lease_check(lease, &err) == 0 && clock_boot_ms() < until)
		usleep(5000);
	assert_int_equal(err.class, ERR_LOST);
	assert_int_equal(err.reason, REASON_LOCK_LOST);
	assert_non_null(strstr(err.remedy, "lease.ttl"));
	lease_release(lease);
	close_all();
}

TEST(servers_stand_in_one_url)
{
	assert_fails(read_text("backend = redis\nurl = redis://a\nurl = redis://b"),
		     ERR_CONFIG);
	assert_non_null(strstr(err.text, "twice"));
	assert_non_null(strstr(err.remedy, "blanks"));
	assert_ok(read_text("backend = redis\nurl = redis://a redis://b redis://c"));
	lease_settings_clear(&settings);
}

TEST(what_a_backend_has_no_use_for_is_found)
{
	static const struct {
		const char *text, *key;
	} table[] = {
		{ "path = /a", "path" },
		{ "backend = directory\npath = /a", NULL },
		{ "backend = directory\npath = /a\npasswordFile = /b", "passwordFile" },
		{ "userFile = /b", "userFile" },
		{ "caFile = /b", "caFile" },
		{ "backend = redis\nurl = redis://a\nuserFile = /b\ncaFile = /c", NULL },
		{ "backend = redis\nurl = redis://a\npath = /b", "path" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		assert_ok(read_text(table[i].text));
		const char *key = lease_settings_unused(&settings);
		assert_string_equal(key ? key : "", table[i].key ? table[i].key : "");
	}
	lease_settings_clear(&settings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(nothing_said_is_the_local_backend_with_the_seeds_keys),
		CASE(a_format_is_filled_in_and_blobs_keep_the_default_without_an_id),
		CASE(long_names_have_keys_that_differ),
		CASE(a_format_in_which_two_could_share_a_key_is_refused),
		CASE(what_misses_another_or_has_no_meaning_is_refused),
		CASE(docora_holds_for_two_minutes_unless_told_otherwise),
		CASE(docora_polls_as_its_seed_says_whatever_the_format),
		CASE(servers_stand_in_one_url),
		CASE(what_a_backend_has_no_use_for_is_found),
		CASE(what_is_never_renewed_is_lost_with_the_setting_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
