#include "test.h"

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/metrics.h"
#include "web/access.h"

#define OPERATOR "op-0123456789abcdef"
#define BASIC "Basic Z2l0Om9wLTAxMjM0NTY3ODlhYmNkZWY=" /* git:OPERATOR */

static struct access *access_now;

static void write_secret(const char *name, const char *text, mode_t mode)
{
	assert_ok(file_replace(root_fd, name, text, strlen(text), FILE_NO_SYNC, &err));
	assert_int_equal(fchmodat(root_fd, name, mode, 0), 0);
}

/* Reads a configuration in which every @ stands for the test's directory. */
static int read_access(const char *text, struct access **access)
{
	AUTO_STR struct str filled = STR_INIT;
	AUTO_CONF struct conf *conf = NULL;

	for (; *text; text++) {
		if (*text == '@')
			str_add(&filled, root);
		else
			str_add_char(&filled, *text);
	}
	assert_ok(conf_load_text("test.conf", filled.data, filled.len, &conf, &err));
	return access_read(conf, access, &err);
}

static int setup(void **state)
{
	if (test_make_root(state))
		return -1;
	log_set_level(LOG_LEVEL_NONE);
	write_secret("operator", OPERATOR "\n", 0600);
	write_secret("paris", "secret-of-paris-1234", 0600);
	write_secret("rome", "secret-of-rome-12345", 0640);
	assert_ok(read_access("[http]\n operatorTokenFile = @/operator\n"
			      "[secondary \"paris\"]\n secretFile = @/paris\n"
			      "[secondary \"rome\"]\n secretFile = @/rome\n"
			      " enabled = false\n",
			      &access_now));
	return 0;
}

static int teardown(void **state)
{
	access_free(access_now);
	return test_remove_root(state);
}

static const struct signed_request request = { "GET", "/api/v1/events?after=1", NULL, 0 };

/* The code of the refusal, or NULL. */
static const char *ask(struct access_question question)
{
	struct access_answer answer;

	question.request = &request;
	err = (struct err){ 0 };
	access_decide(access_now, &question, &answer, &err);
	assert_true((answer.status == 0) == (answer.code == NULL));
	if (answer.status == 0)
		return NULL;
	assert_true(answer.status == 401 || answer.status == 403);
	assert_int_equal(err.class, ERR_AUTH);
	assert_true(*err.text);
	return answer.code;
}

static const char *ask_with(enum web_right needs, const char *authorization)
{
	return ask((struct access_question){ .needs = needs,
					     .authorization = authorization,
					     .git_service = "git-upload-pack",
					     .git_repository = "group/tool" });
}

/* "Bearer " and a token of that site; the caller frees. */
static char *bearer_of(const char *site, const char *secret,
		       const struct signed_request *signed_one)
{
	AUTO_SITE_KEY struct site_key key = { .secret = STR_INIT };

	snprintf(key.site, sizeof(key.site), "%s", site);
	str_add(&key.secret, secret);
	AUTO_FREE char *token = signed_one
					? site_token_for_request(&key, signed_one, &err)
					: site_token_for_git(&key, "git-upload-pack",
							     "group/tool", 60, &err);
	assert_non_null(token);
	return xasprintf("Bearer %s", token);
}

TEST(an_operator_may_do_everything)
{
	for (int right = WEB_ANYBODY; right <= WEB_GIT_READER; right++) {
		assert_null(ask_with((enum web_right)right, "Bearer " OPERATOR));
		assert_null(ask_with((enum web_right)right, "bearer   " OPERATOR));
		assert_null(ask_with((enum web_right)right, BASIC));
	}
}

TEST(a_wrong_credential_is_refused_even_where_none_is_needed)
{
	static const char *const wrong[] = { "Bearer op-0123456789abcdeF",
					     "Bearer op-0123456789abcde",
					     "Bearer " OPERATOR "x",
					     "Bearer ",
					     "Bearer",
					     OPERATOR,
					     "Basic " OPERATOR,
					     "Basic b3AtMDEyMzQ1Njc4OWFiY2RlZg==",
					     "Basic ====",
					     "Digest " OPERATOR,
					     "" };

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		const char *code =
			ask((struct access_question){ .needs = WEB_READER,
						      .authorization = wrong[i],
						      .is_loopback = true });
		if (!code || strcmp(code, "BAD_CREDENTIALS") != 0)
			fail_msg("\"%s\": %s", wrong[i], code ? code : "let in");
	}
}

TEST(without_an_operators_token_nobody_is_an_operator)
{
	static const char *const tries[] = { "Bearer ", "Bearer x", "Basic Og==" };
	struct access *none;

	assert_ok(read_access("[http]\n anonymousRead = false\n", &none));
	access_replace(access_now, none);
	for (size_t i = 0; i < ARRAY_SIZE(tries); i++)
		assert_string_equal(ask_with(WEB_OPERATOR, tries[i]), "BAD_CREDENTIALS");
}

TEST(loopback_may_read_the_api_only_when_it_is_nobody_elses_mouth)
{
	struct access_question question = { .needs = WEB_READER, .is_loopback = true };
	struct access *behind;

	assert_null(ask(question));
	question.is_forwarded = true;
	assert_string_equal(ask(question), "NO_CREDENTIALS");
	question.is_forwarded = question.is_loopback = false;
	assert_string_equal(ask(question), "NO_CREDENTIALS");
	for (int right = WEB_SITE; right <= WEB_GIT_READER; right++)
		assert_string_equal(
			ask((struct access_question){ .needs = (enum web_right)right,
						      .is_loopback = true }),
			"NO_CREDENTIALS");
	assert_ok(read_access("[http]\n url = https://git.example.com/\n", &behind));
	access_replace(access_now, behind);
	question.is_loopback = true;
	assert_string_equal(ask(question), "NO_CREDENTIALS");
}

TEST(anonymous_reading_is_of_git_alone)
{
	struct access *open;

	assert_string_equal(ask_with(WEB_GIT_READER, NULL), "NO_CREDENTIALS");
	assert_ok(read_access("[http]\n anonymousRead\n", &open));
	access_replace(access_now, open);
	assert_null(ask_with(WEB_GIT_READER, NULL));
	assert_string_equal(ask_with(WEB_READER, NULL), "NO_CREDENTIALS");
	assert_string_equal(ask_with(WEB_SITE, NULL), "NO_CREDENTIALS");
}

TEST(a_site_may_ask_once_with_a_token)
{
	AUTO_FREE char *first = bearer_of("paris", "secret-of-paris-1234", &request);
	AUTO_FREE char *second = bearer_of("paris", "secret-of-paris-1234", &request);
	struct access_question question = { .needs = WEB_SITE,
					    .request = &request,
					    .authorization = first };
	struct access_answer answer;

	access_decide(access_now, &question, &answer, &err);
	assert_int_equal(answer.status, 0);
	assert_string_equal(answer.site, "paris");
	assert_string_equal(ask_with(WEB_SITE, first), "REPLAYED");
	assert_null(ask_with(WEB_READER, second));
}

TEST(a_site_is_no_operator)
{
	AUTO_FREE char *bearer = bearer_of("paris", "secret-of-paris-1234", &request);

	assert_string_equal(ask_with(WEB_OPERATOR, bearer), "OPERATOR_ONLY");
}

TEST(each_kind_of_wrong_token_has_its_code)
{
	static const struct signed_request other = { "GET", "/api/v1/events?after=2",
						     NULL, 0 };
	AUTO_FREE char *stranger = bearer_of("oslo", "secret-of-paris-1234", &request);
	AUTO_FREE char *disabled = bearer_of("rome", "secret-of-rome-12345", &request);
	AUTO_FREE char *forged = bearer_of("paris", "secret-of-paris-0000", &request);
	AUTO_FREE char *moved = bearer_of("paris", "secret-of-paris-1234", &other);
	AUTO_FREE char *git = bearer_of("paris", "secret-of-paris-1234", NULL);

	assert_string_equal(ask_with(WEB_SITE, stranger), "UNKNOWN_SITE");
	assert_string_equal(ask_with(WEB_SITE, disabled), "UNKNOWN_SITE");
	assert_string_equal(ask_with(WEB_SITE, forged), "BAD_SIGNATURE");
	assert_string_equal(ask_with(WEB_SITE, moved), "WRONG_REQUEST");
	assert_string_equal(ask_with(WEB_SITE, git), "WRONG_REQUEST");
}

TEST(a_git_childs_token_is_for_one_repository_and_service)
{
	AUTO_FREE char *git = bearer_of("paris", "secret-of-paris-1234", NULL);
	AUTO_FREE char *api = bearer_of("paris", "secret-of-paris-1234", &request);
	struct access_question question = { .needs = WEB_GIT_READER,
					    .authorization = git,
					    .git_service = "git-upload-pack",
					    .git_repository = "group/tool" };

	assert_null(ask(question));
	assert_null(ask(question)); /* a fetch is several requests */
	question.git_repository = "group/tools";
	assert_string_equal(ask(question), "WRONG_REQUEST");
	question.git_repository = "group/tool";
	question.git_service = "git-receive-pack";
	assert_string_equal(ask(question), "WRONG_REQUEST");
	question.git_service = "git-upload-pack";
	question.authorization = api;
	assert_string_equal(ask(question), "WRONG_REQUEST");
}

TEST(new_secrets_count_at_once_and_old_tokens_stay_used)
{
	AUTO_FREE char *used = bearer_of("paris", "secret-of-paris-1234", &request);
	AUTO_FREE char *fresh = bearer_of("paris", "secret-of-paris-5678", &request);
	struct access *same, *other;

	assert_null(ask_with(WEB_SITE, used));
	assert_ok(read_access("[secondary \"paris\"]\n secretFile = @/paris\n", &same));
	access_replace(access_now, same);
	assert_string_equal(ask_with(WEB_SITE, used), "REPLAYED");
	assert_string_equal(ask_with(WEB_SITE, fresh), "BAD_SIGNATURE");
	assert_string_equal(ask_with(WEB_OPERATOR, "Bearer " OPERATOR),
			    "BAD_CREDENTIALS");
	write_secret("paris", "secret-of-paris-5678", 0600);
	assert_ok(read_access("[secondary \"paris\"]\n secretFile = @/paris\n", &other));
	access_replace(access_now, other);
	assert_null(ask_with(WEB_SITE, fresh));
}

TEST(a_bad_secret_names_its_key)
{
	static const struct {
		const char *text, *key;
	} cases[] = {
		{ "[http]\n operatorTokenFile = @/open\n", "http.operatorTokenFile" },
		{ "[http]\n operatorTokenFile = @/short\n", "http.operatorTokenFile" },
		{ "[http]\n operatorTokenFile = @/none\n", "http.operatorTokenFile" },
		{ "[http]\n anonymousRead = maybe\n", "http.anonymousRead" },
		{ "[secondary \"x\"]\n secretFile = @/none\n", "secondary.x.secretFile" },
		{ "[secondary \"x\"]\n secretFile = @/short\n",
		  "secondary.x.secretFile" },
		{ "[secondary \"x\"]\n secretFile = @/open\n", "secondary.x.secretFile" },
		{ "[secondary \"x\"]\n enabled = true\n", "secondary.x.secretFile" },
	};
	struct access *never;

	write_secret("open", OPERATOR, 0604);
	write_secret("short", "123456789012345\n", 0600);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_fails(read_access(cases[i].text, &never), ERR_CONFIG);
		if (!strstr(err.text, cases[i].key) || strstr(err.text, OPERATOR))
			fail_msg("%s: %s", cases[i].text, err.text);
	}
}

TEST(the_sites_are_those_that_may_follow)
{
	site_names names = { 0 };

	access_sites(access_now, &names);
	assert_int_equal(names.count, 1);
	assert_string_equal(names.items[0], "paris");
	free(names.items[0]);
	vec_clear(&names);
}

TEST(refusals_are_counted_by_reason)
{
	AUTO_STR struct str all = STR_INIT;

	ask_with(WEB_OPERATOR, "Bearer wrong");
	metrics_render(&all);
	assert_non_null(strstr(all.data,
			       "refrelay_http_refused_total{class=\"BAD_CREDENTIALS\"}"));
	assert_null(strstr(all.data, "Bearer"));
}

#define ASKED(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ASKED(an_operator_may_do_everything),
		ASKED(a_wrong_credential_is_refused_even_where_none_is_needed),
		ASKED(without_an_operators_token_nobody_is_an_operator),
		ASKED(loopback_may_read_the_api_only_when_it_is_nobody_elses_mouth),
		ASKED(anonymous_reading_is_of_git_alone),
		ASKED(a_site_may_ask_once_with_a_token),
		ASKED(a_site_is_no_operator),
		ASKED(each_kind_of_wrong_token_has_its_code),
		ASKED(a_git_childs_token_is_for_one_repository_and_service),
		ASKED(new_secrets_count_at_once_and_old_tokens_stay_used),
		ASKED(a_bad_secret_names_its_key),
		ASKED(the_sites_are_those_that_may_follow),
		ASKED(refusals_are_counted_by_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
