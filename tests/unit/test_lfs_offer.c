/*
 * What upstreams answer to a batch, right and wrong.
 */
#include "test.h"

#include "base/json.h"
#include "mirror/lfs_offer.h"

#define A "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393"
#define B "b5bb9d8014a0f9b1d61e21e796d78dccdf1352f23cd32812f4850b878ae4944c"
#define NOW INT64_C(1750000000000) /* 2025-06-15T15:06:40Z */

static const struct lfs_row rows[] = { { A, 12 }, { B, 3 } };

static int read_offers(const char *text, lfs_offers *offers)
{
	return lfs_offers_read(text, strlen(text), rows, ARRAY_SIZE(rows), NOW, offers,
			       &err);
}

static const char *url_of(const char *upstream)
{
	static char *url;

	free(url);
	url = lfs_offer_make_url(upstream);
	return url;
}

TEST(the_server_is_where_git_lfs_looks_for_it)
{
	assert_string_equal(url_of("https://x.org/a/b"),
			    "https://x.org/a/b.git/info/lfs/objects/batch");
	assert_string_equal(url_of("https://x.org/a/b.git"),
			    "https://x.org/a/b.git/info/lfs/objects/batch");
	assert_string_equal(url_of("https://x.org/a/b.git//"),
			    "https://x.org/a/b.git/info/lfs/objects/batch");
	assert_string_equal(url_of("https://x.org/a/b/"),
			    "https://x.org/a/b.git/info/lfs/objects/batch");
}

TEST(a_question_names_objects_and_sizes)
{
	AUTO_FREE char *question = lfs_offer_make_question(rows, 2);

	assert_string_equal(question,
			    "{\"operation\":\"download\",\"transfers\":[\"basic\"],"
			    "\"hash_algo\":\"sha256\",\"objects\":[{\"oid\":\"" A
			    "\",\"size\":12},{\"oid\":\"" B "\",\"size\":3}]}");
}

/* In another order than asked, with one that nobody asked for. */
TEST(an_answer_is_matched_with_what_was_asked)
{
	AUTO_LFS_OFFERS lfs_offers offers;

	assert_ok(read_offers(
		"{\"transfer\":\"basic\",\"objects\":[{\"oid\":\"zz\",\"size\":1},"
		"{\"oid\":\"" B "\",\"size\":3,\"error\":{\"code\":410,"
		"\"message\":\"gone\"}},"
		"{\"oid\":\"" A "\",\"size\":12,\"authenticated\":true,\"actions\":"
		"{\"download\":{\"href\":\"https://cdn.x.org/a?s=1\",\"expires_in\":60,"
		"\"header\":{\"Authorization\":\"Bearer t\",\"Host\":\"evil\","
		"\"content-length\":\"7\",\"Proxy-Authorization\":\"p\",\"X\":5}}}}]}",
		&offers));
	assert_int_equal(offers.count, 2);
	assert_string_equal(offers.items[0].href, "https://cdn.x.org/a?s=1");
	assert_int_equal(offers.items[0].code, 0);
	assert_int_equal(offers.items[0].row.size, 12);
	assert_true(offers.items[0].is_authenticated);
	assert_int_equal(offers.items[0].lasts_ms, 60000);
	assert_int_equal(offers.items[0].headers.count, 1);
	assert_string_equal(offers.items[0].headers.items[0].name, "Authorization");
	assert_string_equal(offers.items[0].headers.items[0].value, "Bearer t");
	assert_null(offers.items[1].href);
	assert_int_equal(offers.items[1].code, 410);
	assert_string_equal(offers.items[1].message, "gone");
}

static int64_t lasting(const char *members)
{
	AUTO_LFS_OFFERS lfs_offers offers;
	AUTO_FREE char *text = xasprintf("{\"objects\":[{\"oid\":\"" A
					 "\",\"actions\":{\"download\":{\"href\":"
					 "\"http://x/a\"%s}}}]}",
					 members);

	assert_ok(read_offers(text, &offers));
	assert_non_null(offers.items[0].href);
	return offers.items[0].lasts_ms;
}

TEST(an_offer_may_end)
{
	assert_int_equal(lasting(""), 0);
	assert_int_equal(lasting(",\"expires_in\":0"), 0);
	assert_int_equal(lasting(",\"expires_in\":-5"), 1);
	assert_int_equal(lasting(",\"expires_in\":\"7\""), 0);
	assert_int_equal(lasting(",\"expires_in\":9000000000000000000"), 0);
	assert_int_equal(lasting(",\"expires_at\":\"2025-06-15T15:06:50Z\""), 10000);
	assert_int_equal(lasting(",\"expires_at\":\"2025-06-15T15:06:50.5+00:00\""),
			 10000);
	assert_int_equal(lasting(",\"expires_at\":\"2025-06-15T08:06:50-07:00\""), 10000);
	assert_int_equal(lasting(",\"expires_at\":\"2024-01-01T00:00:00Z\""), 1);
	assert_int_equal(lasting(",\"expires_at\":\"0001-01-01T00:00:00Z\""), 0);
	assert_int_equal(lasting(",\"expires_at\":\"soon\""), 0);
}

TEST(what_is_not_offered_rightly_is_refused_alone)
{
	static const struct {
		const char *object;
		int code;
	} cases[] = {
		{ "7", 500 },
		{ "{\"oid\":\"" A "\"}", 404 },
		{ "{\"oid\":\"" A "\",\"actions\":{}}", 404 },
		{ "{\"oid\":\"" A "\",\"actions\":[]}", 404 },
		{ "{\"oid\":\"" A "\",\"actions\":{\"download\":{\"href\":7}}}", 404 },
		{ "{\"oid\":\"" A "\",\"actions\":{\"download\":"
		  "{\"href\":\"file:///etc/passwd\"}}}",
		  422 },
		{ "{\"oid\":\"" A "\",\"actions\":{\"download\":"
		  "{\"href\":\"https://u:p@x/a\"}}}",
		  422 },
		{ "{\"oid\":\"" A "\",\"actions\":{\"download\":{\"href\":\"/a\"}}}",
		  422 },
		{ "{\"oid\":\"" A "\",\"error\":{}}", 500 },
		{ "{\"oid\":\"" A "\",\"error\":7}", 500 },
		{ "{\"oid\":\"" A "\",\"error\":{\"code\":-1,\"message\":7}}", 500 },
		{ "{\"oid\":\"" A
		  "\",\"error\":{\"code\":404,\"message\":\"no\\nsuch\"}}",
		  404 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_LFS_OFFERS lfs_offers offers;
		AUTO_FREE char *text = xasprintf("{\"objects\":[%s]}", cases[i].object);
		assert_ok(read_offers(text, &offers));
		assert_int_equal(offers.count, 2);
		assert_null(offers.items[0].href);
		assert_int_equal(offers.items[0].code, cases[i].code);
		assert_non_null(offers.items[0].message);
		assert_null(strchr(offers.items[0].message, '\n'));
		assert_int_equal(offers.items[1].code, 500);
	}
}

TEST(what_is_no_answer_is_refused_whole)
{
	static const char *const texts[] = {
		"",
		"[]",
		"{}",
		"<html>",
		"{\"objects\":{}}",
		"{\"objects\":[],\"transfer\":\"tus\"}",
		"{\"objects\":[],\"hash_algo\":\"md5\"}",
		"{\"objects\":[]} {}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		AUTO_LFS_OFFERS lfs_offers offers;
		assert_fails(read_offers(texts[i], &offers), ERR_CORRUPT);
		assert_int_equal(offers.count, 0);
	}
}

TEST(an_answer_with_too_much_is_refused)
{
	AUTO_LFS_OFFERS lfs_offers offers;
	AUTO_STR struct str text = STR_INIT;

	str_add(&text, "{\"objects\":[0");
	for (int i = 0; i < 200 * LFS_OFFER_BATCH; i++)
		str_add(&text, ",0");
	str_add(&text, "]}");
	assert_fails(read_offers(text.data, &offers), ERR_CORRUPT);
}

TEST(a_place_is_scheme_host_and_port)
{
	assert_true(lfs_offer_is_same_place("https://x.org/a", "https://X.org/b?c=d"));
	assert_false(lfs_offer_is_same_place("https://x.org/a", "http://x.org/a"));
	assert_false(lfs_offer_is_same_place("https://x.org/", "https://x.org.evil/"));
	assert_false(lfs_offer_is_same_place("https://x.org/", "https://x.org:8443/"));
	assert_false(lfs_offer_is_same_place("https://x.org/", "https://x.org@evil/"));
	assert_false(lfs_offer_is_same_place("https://x.org/", "/a"));
}

TEST(https_is_not_left)
{
	assert_true(lfs_offer_is_downgrade("https://x/", "http://x/"));
	assert_true(lfs_offer_is_downgrade("HTTPS://x/", "http://x/"));
	assert_false(lfs_offer_is_downgrade("https://x/", "https://y/"));
	assert_false(lfs_offer_is_downgrade("http://x/", "http://y/"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_server_is_where_git_lfs_looks_for_it),
		CASE(a_question_names_objects_and_sizes),
		CASE(an_answer_is_matched_with_what_was_asked),
		CASE(an_offer_may_end),
		CASE(what_is_not_offered_rightly_is_refused_alone),
		CASE(what_is_no_answer_is_refused_whole),
		CASE(an_answer_with_too_much_is_refused),
		CASE(a_place_is_scheme_host_and_port),
		CASE(https_is_not_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
