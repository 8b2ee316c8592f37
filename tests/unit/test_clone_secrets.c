/*
 * Credentials in what other programs left in a clone.
 */
#include "test.h"

#include "pull/clone_secrets.h"

#define TOKEN "ghp_AbCdEf0123456789"
#define BASIC                                                                            \
	"eC1hY2Nlc3MtdG9rZW46Z2hwX0FiQ2RFZjAxMjM0NTY3ODk=" /* x-access-token:TOKEN */

static struct seen {
	unsigned all, of_token;
} seen;

static void note_secret(void *arg, enum clone_secret form, const char *text, size_t len)
{
	struct str token = STR_INIT;

	(void)arg;
	str_add(&token, TOKEN);
	seen.all++;
	seen.of_token += clone_secrets_are(form, text, len, &token);
	str_clear(&token);
}

/* What is left of a config. Valid until the next call. */
static const char *left_of(const char *text)
{
	static const struct clone_secrets_sink sink = { .found = note_secret };
	static struct str clean = STR_INIT;

	seen = (struct seen){ 0 };
	str_reset(&clean);
	const bool is_any = clone_secrets_strip_config(text, &sink, &clean);
	assert_int_equal(is_any, seen.all > 0);
	return clean.data;
}

static void assert_gone(const char *text, const char *left)
{
	assert_string_equal(left_of(text), left);
	assert_int_equal(seen.all, 1);
	assert_int_equal(seen.of_token, 1);
}

TEST(what_has_none_stays_as_it_is)
{
	static const char *const texts[] = {
		"",
		"[core]\n\tbare = true\n",
		"[core]\n\tbare = true", /* no line feed */
		"\n; https://example.com/ \\\n[a]\n\tb = \"x\\\"]\\n\"\n",
		"[remote \"origin\"]\r\n\turl = https://example.com/a@b\r\n",
		"[url \"https://example.com/\"]\n\tinsteadOf = x:\n",
		"[http]\n\tsslVerify = true\n\textraHeaders = 1\n",
		"[credentials]\n\thelper = x\n",
		"[a]\n\tb = c\\\n\tpassword = continued\n",
		"://x@y",
		"s://x@y",
		"[",
		"[credential",
		"[\"",
		"\\",
		"[a]\\",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_string_equal(left_of(texts[i]), texts[i]);
}

TEST(a_url_loses_its_userinfo)
{
	assert_gone("[remote \"o\"]\n\turl = https://x:" TOKEN "@h/a\n\tfetch = +a:b\n",
		    "[remote \"o\"]\n\turl = https://h/a\n\tfetch = +a:b\n");
	assert_gone("[remote \"o\"]\n\turl = HTTP://" TOKEN "@h/a\n",
		    "[remote \"o\"]\n\turl = HTTP://h/a\n");
	assert_gone("https://x:ghp%5FAbCdEf0123456789@h", "https://h");
	assert_gone("# was: https://" TOKEN "@h/\n", "# was: https://h/\n");
	assert_string_equal(left_of("url = https://a@b:" TOKEN "@h/\n"),
			    "url = https://h/\n");
	assert_string_equal(left_of("url = ssh://git@h/a\n"), "url = ssh://git@h/a\n");
}

TEST(a_header_goes_with_its_continuation)
{
	assert_gone(
		"[http]\n\tsslVerify = true\n\textraheader = AUTHORIZATION: basic " BASIC
		"\n\tproxy = p\n",
		"[http]\n\tsslVerify = true\n\tproxy = p\n");
	assert_gone("[http \"https://h/]\"]\n\tExtraHeader=\"PRIVATE-TOKEN: \\\n" TOKEN
		    "\"\n\tproxy = p\n",
		    "[http \"https://h/]\"]\n\tproxy = p\n");
	assert_gone("[http] extraHeader = X: " TOKEN "\n[a]\n", "[http]\n[a]\n");
	assert_gone("[http.https://h/]\r\n\textraHeader = Authorization: Bearer " TOKEN
		    "\r\n[a]\r\n",
		    "[http.https://h/]\r\n[a]\r\n");
}

TEST(sections_made_for_a_secret_go)
{
	left_of("[a]\n\tb = c\n[credential \"https://h\"]\n\tusername = x\n"
		"\thelper = \"!f() { echo password=" TOKEN "; }; f\"\n[d]\n\te = f\n");
	assert_string_equal(left_of("[a]\n[credential]\n\thelper = store\n\n[d]\n"),
			    "[a]\n[d]\n");
	assert_string_equal(left_of("[url \"https://" TOKEN
				    "@h/\"]\n\tinsteadOf = https://h/\n[d]\n"),
			    "[d]\n");
	assert_int_equal(seen.of_token, 1);
	assert_string_equal(left_of("[gitlab]\n\ttoken = " TOKEN "\n\thost = h\n"),
			    "[gitlab]\n\thost = h\n");
	assert_int_equal(seen.of_token, 1);
}

TEST(another_secret_is_not_taken_for_it)
{
	left_of("[http]\n\textraHeader = X: other\n[remote \"o\"]\n"
		"\turl = https://" TOKEN
		"x@h/\n\turl = https://:@h/\n\turl = https://@h/\n");
	assert_int_equal(seen.all, 4);
	assert_int_equal(seen.of_token, 0);
	assert_false(
		clone_secrets_are(CLONE_SECRET_TEXT, "abc", 3, &(struct str)STR_INIT));
	assert_false(clone_secrets_are(CLONE_SECRET_URL, "", 0, &(struct str)STR_INIT));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_has_none_stays_as_it_is),
		CASE(a_url_loses_its_userinfo),
		CASE(a_header_goes_with_its_continuation),
		CASE(sections_made_for_a_secret_go),
		CASE(another_secret_is_not_taken_for_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
