#include "test.h"

#include "base/conf.h"
#include "web/tokens.h"

#define CI "ci-0123456789abcdef"
#define BOT "bot-0123456789abcdef"

static struct tokens tokens;

static void write_token(const char *name, const char *text, mode_t mode)
{
	assert_ok(file_replace(root_fd, name, text, strlen(text), FILE_NO_SYNC, &err));
	assert_int_equal(fchmodat(root_fd, name, mode, 0), 0);
}

/* Reads a configuration in which every @ stands for the test's directory. */
static int read_tokens(const char *text)
{
	AUTO_STR struct str filled = STR_INIT;
	AUTO_CONF struct conf *conf = NULL;
	const struct conf_entry *operator;

	for (; *text; text++) {
		if (*text == '@')
			str_add(&filled, root);
		else
			str_add_char(&filled, *text);
	}
	assert_ok(conf_load_text("test.conf", filled.data, filled.len, &conf, &err));
	tokens_clear(&tokens);
	operator= conf_get(conf, "http", NULL, "operatorTokenFile");
	if (operator&& tokens_read_operator(&tokens, operator, & err))
		return -1;
	return tokens_read(conf, &tokens, &err);
}

static int setup(void **state)
{
	if (test_make_root(state))
		return -1;
	write_token("ci", CI "\n", 0600);
	write_token("same", CI, 0640);
	write_token("bot", BOT "\r\n \n", 0600);
	write_token("open", BOT, 0604);
	write_token("short", "123456789012345\n", 0600);
	return 0;
}

static int teardown(void **state)
{
	tokens_clear(&tokens);
	return test_remove_root(state);
}

TEST(a_token_is_found_by_its_whole_text)
{
	assert_ok(read_tokens("[http]\n operatorTokenFile = @/bot\n"
			      "[token \"ci\"]\n file = @/ci\n rights = push\n"
			      " repository = team/*\n repository = tool\n"));
	assert_string_equal(tokens_find(&tokens, CI)->name, "token ci");
	assert_int_equal(tokens_find(&tokens, CI)->rights, RIGHTS_PUSH);
	assert_int_equal(tokens_find(&tokens, CI)->repositories.count, 2);
	assert_string_equal(tokens_find(&tokens, BOT)->name, "operator");
	assert_int_equal(tokens_find(&tokens, BOT)->rights, RIGHTS_OPERATE);
	assert_null(tokens_find(&tokens, ""));
	assert_null(tokens_find(&tokens, CI "\n"));
	assert_null(tokens_find(&tokens, "ci-0123456789abcde"));
}

TEST(who_says_nothing_of_rights_may_read)
{
	assert_ok(read_tokens("[token \"ci\"]\n file = @/ci\n"));
	assert_int_equal(tokens_find(&tokens, CI)->rights, RIGHTS_READ);
	assert_true(tokens_find(&tokens, CI)->expires_ms == INT64_MAX);
}

TEST(a_token_ends_when_its_day_or_second_begins)
{
	assert_ok(read_tokens("[token \"ci\"]\n file = @/ci\n expires = 2027-01-01\n"
			      "[token \"bot\"]\n file = @/bot\n"
			      " expires = 2027-01-01T12:30:00Z\n"));
	assert_int_equal(tokens_find(&tokens, CI)->expires_ms, 1798761600000);
	assert_int_equal(tokens_find(&tokens, BOT)->expires_ms, 1798806600000);
}

TEST(what_makes_no_sense_names_its_key)
{
	static const struct {
		const char *text, *key;
	} cases[] = {
		{ "[token \"x\"]\n file = @/open\n", "token.x.file" },
		{ "[token \"x\"]\n file = @/short\n", "token.x.file" },
		{ "[token \"x\"]\n file = @/none\n", "token.x.file" },
		{ "[token \"x\"]\n rights = read\n", "token.x.file" },
		{ "[token \"x\"]\n file = @/ci\n rights = all\n", "token.x.rights" },
		{ "[token \"x\"]\n file = @/ci\n rights\n", "token.x.rights" },
		{ "[token \"x\"]\n file = @/ci\n repository = ^[\n",
		  "token.x.repository" },
		{ "[token \"x\"]\n file = @/ci\n repository\n", "token.x.repository" },
		{ "[token \"x\"]\n file = @/ci\n rights = operate\n repository = a\n",
		  "token.x.rights" },
		{ "[token \"x\"]\n file = @/ci\n expires = 2027-02-30\n",
		  "token.x.expires" },
		{ "[token \"x\"]\n file = @/ci\n expires = tomorrow\n",
		  "token.x.expires" },
		{ "[token \"x\"]\n file = @/ci\n expires = 2027-01-01T12:00:00\n",
		  "token.x.expires" },
		{ "[token \"x\"]\n file = @/ci\n expires =\n", "token.x.expires" },
		{ "[token \"\"]\n file = @/ci\n", "name" },
		{ "[token \"x\"]\n file = @/ci\n[token \"y\"]\n file = @/same\n",
		  "token y" },
		{ "[http]\n operatorTokenFile = @/ci\n[token \"y\"]\n file = @/same\n",
		  "token y" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_fails(read_tokens(cases[i].text), ERR_CONFIG);
		if (!strstr(err.text, cases[i].key) || strstr(err.text, CI))
			fail_msg("%s: %s", cases[i].text, err.text);
	}
}

#define TOKEN_CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TOKEN_CASE(a_token_is_found_by_its_whole_text),
		TOKEN_CASE(who_says_nothing_of_rights_may_read),
		TOKEN_CASE(a_token_ends_when_its_day_or_second_begins),
		TOKEN_CASE(what_makes_no_sense_names_its_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
