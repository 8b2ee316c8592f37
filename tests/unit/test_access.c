#include "test.h"

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/metrics.h"
#include "web/access.h"

#define OPERATOR "op-0123456789abcdef"
#define CI "ci-0123456789abcdef"
#define TEAM "team-0123456789abcdef"
#define BOT "bot-0123456789abcdef"
#define OLD "old-0123456789abcdef"
/* alice:myPassword, alice:guess, anybody:CI */
#define ALICE "Basic YWxpY2U6bXlQYXNzd29yZA=="
#define GUESS "Basic YWxpY2U6Z3Vlc3M="
#define BASIC_CI "Basic YW55Ym9keTpjaS0wMTIzNDU2Nzg5YWJjZGVm"
#define BASIC "Basic Z2l0Om9wLTAxMjM0NTY3ODlhYmNkZWY=" /* git:OPERATOR */

static struct access *access_now;

static void write_secret(const char *name, const char *text, mode_t mode)
{
	assert_ok(file_replace(root_fd, name, text, strlen(text), FILE_NO_SYNC, &err));
	assert_int_equal(fchmodat(root_fd, name, mode, 0), 0);
}

static bool is_primary = true;

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
	return access_read(conf, is_primary, access, &err);
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

/* Where tokens and users are let in, too. */
static void let_more_in(const char *more)
{
	AUTO_FREE char *text =
		xasprintf("[http]\n operatorTokenFile = @/operator\n"
			  " passwordFile = @/users\n"
			  " anonymousRepository = public/*\n"
			  "[token \"ci\"]\n file = @/ci\n"
			  "[token \"team\"]\n file = @/team\n rights = push\n"
			  " repository = group/*\n repository = ^extra/[a-z]+\n"
			  "[token \"bot\"]\n file = @/bot\n rights = operate\n"
			  "[token \"old\"]\n file = @/old\n rights = operate\n"
			  " expires = 2020-01-01\n"
			  "[secondary \"paris\"]\n secretFile = @/paris\n%s",
			  more);
	struct access *with;

	write_secret("ci", CI, 0600);
	write_secret("team", TEAM, 0600);
	write_secret("bot", BOT, 0600);
	write_secret("old", OLD, 0600);
	write_secret("users",
		     "alice:$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC"
		     "\n",
		     0644);
	assert_ok(read_access(text, &with));
	access_replace(access_now, with);
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
	assert_true(answer.status == 401 || answer.status == 403 || answer.status == 409);
	assert_int_equal(answer.status == 403,
			 strcmp(answer.code, "FORBIDDEN") == 0 ||
				 strcmp(answer.code, "NO_PUSHES") == 0 ||
				 strcmp(answer.code, "OPERATOR_ONLY") == 0);
	assert_string_equal(answer.user, "");
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
					? wire_token_for_request(&key, signed_one, &err)
					: wire_token_for_git(&key, "git-upload-pack",
							     "group/tool", 60, &err);
	assert_non_null(token);
	return xasprintf("Bearer %s", token);
}

TEST(an_operator_may_do_everything)
{
	for (int right = WEB_ANYBODY; right <= WEB_GIT; right++) {
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
	for (int right = WEB_SITE; right <= WEB_GIT; right++)
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

	assert_string_equal(ask_with(WEB_GIT, NULL), "NO_CREDENTIALS");
	assert_ok(read_access("[http]\n anonymousRead\n", &open));
	access_replace(access_now, open);
	assert_null(ask_with(WEB_GIT, NULL));
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

/* Also one that was a primary: who follows is decided elsewhere now. */
TEST(nobody_follows_a_site_that_is_no_primary)
{
	AUTO_FREE char *bearer = bearer_of("paris", "secret-of-paris-1234", &request);
	struct access *now;

	is_primary = false;
	int result = read_access("[secondary \"paris\"]\n secretFile = @/paris\n"
				 "[secondary \"x\"]\n secretFile = @/none\n",
				 &now);
	is_primary = true;
	assert_ok(result);
	access_replace(access_now, now);
	assert_string_equal(ask_with(WEB_READER, bearer), "WRONG_ROLE");
	assert_non_null(strstr(err.remedy, "primary.url"));
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
	struct access_question question = { .needs = WEB_GIT,
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
		{ "[http]\n anonymousRepository = ^(\n", "http.anonymousRepository" },
		{ "[http]\n passwordFile = @/none\n", "http.passwordFile" },
		{ "[http]\n passwordFile = @/open\n", "http.passwordFile" },
		{ "[secondary \"x\"]\n secretFile = @/none\n", "secondary.x.secretFile" },
		{ "[secondary \"x\"]\n secretFile = @/short\n",
		  "secondary.x.secretFile" },
		{ "[secondary \"x\"]\n secretFile = @/open\n", "secondary.x.secretFile" },
		{ "[secondary \"x\"]\n enabled = true\n", "secondary.x.secretFile" },
	};
	struct access *never;

	write_secret("open", OPERATOR, 0606);
	write_secret("short", "123456789012345\n", 0600);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_fails(read_access(cases[i].text, &never), ERR_CONFIG);
		if (!strstr(err.text, cases[i].key) || strstr(err.text, OPERATOR))
			fail_msg("%s: %s", cases[i].text, err.text);
	}
}

static const char *ask_git(const char *authorization, const char *service,
			   const char *repository)
{
	return ask((struct access_question){ .needs = WEB_GIT,
					     .authorization = authorization,
					     .git_service = service,
					     .git_repository = repository });
}

/* Codes, in the order of reading and pushing group/tool and other, and of WEB_READER,
 * WEB_SITE, WEB_OPERATOR; NULL: let in. */
TEST(each_right_opens_what_it_says_and_no_more)
{
	static const char no[] = "FORBIDDEN";
	static const struct {
		const char *shown, *read, *push, *read_other, *push_other, *reader, *site,
			*operator;
	} cases[] = {
		{ "Bearer " OPERATOR, NULL, NULL, NULL, NULL, NULL, NULL, NULL },
		{ "Bearer " BOT, NULL, NULL, NULL, NULL, NULL, NULL, NULL },
		{ "Bearer " CI, NULL, no, NULL, no, NULL, no, no },
		{ BASIC_CI, NULL, no, NULL, no, NULL, no, no },
		{ "Bearer " TEAM, NULL, NULL, no, no, no, no, no },
		{ ALICE, NULL, NULL, NULL, NULL, NULL, no, no },
	};

	let_more_in("");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *shown = cases[i].shown;
		const char *expected[] = { cases[i].read, cases[i].push,
					   cases[i].read_other, cases[i].push_other,
					   cases[i].reader, cases[i].site,
					   cases[i].operator};
		const char *got[] = { ask_git(shown, "git-upload-pack", "group/tool"),
				      ask_git(shown, "git-receive-pack", "group/tool"),
				      ask_git(shown, "git-upload-pack", "other"),
				      ask_git(shown, "git-receive-pack", "other"),
				      ask_with(WEB_READER, shown),
				      ask_with(WEB_SITE, shown),
				      ask_with(WEB_OPERATOR, shown) };
		for (size_t k = 0; k < ARRAY_SIZE(got); k++)
			if (!got[k] != !expected[k] ||
			    (got[k] && strcmp(got[k], expected[k]) != 0))
				fail_msg("%s, %zu: %s", shown, k, got[k] ? got[k] : "in");
	}
}

TEST(patterns_take_names_and_nothing_that_only_looks_like_one)
{
	static const struct {
		const char *name;
		bool is_open, is_of_team;
	} cases[] = {
		{ "public/x", true, false },          { "public", false, false },
		{ "public/../secret", false, false }, { "public/", false, false },
		{ "public//x", false, false },        { "public/./x", false, false },
		{ "Public/x", false, false },         { "x/public/x", false, false },
		{ "public/x\n", false, false },       { "", false, false },
		{ "group/tool", false, true },        { "group/../x", false, false },
		{ "extra/abc", false, true },         { "extra/abc/d", false, false },
		{ "groups", false, false },           { NULL, false, false },
	};

	let_more_in("");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *name = cases[i].name;
		bool is_open = !ask_git(NULL, "git-upload-pack", name);
		bool is_of_team = !ask_git("Bearer " TEAM, "git-receive-pack", name);
		if (is_open != cases[i].is_open || is_of_team != cases[i].is_of_team)
			fail_msg("%s: %d %d", name ? name : "none", is_open, is_of_team);
	}
}

TEST(nobody_pushes_without_a_name)
{
	let_more_in("[http]\n anonymousRead = true\n");
	assert_null(ask_git(NULL, "git-upload-pack", "group/tool"));
	assert_string_equal(ask_git(NULL, "git-receive-pack", "group/tool"),
			    "NO_CREDENTIALS");
	assert_string_equal(ask_git(NULL, "git-receive-pack", "public/x"),
			    "NO_CREDENTIALS");
	assert_string_equal(ask_git(NULL, "git-archive", "public/x"), "NO_CREDENTIALS");
	assert_string_equal(ask_git(NULL, NULL, "public/x"), "NO_CREDENTIALS");
}

static void read_only(const char *text)
{
	struct access *with;

	assert_ok(read_access(text, &with));
	access_replace(access_now, with);
}

/* What is configured, and what is said to a push without a credential. */
TEST(where_no_credential_could_push_none_is_asked_for)
{
	static const struct {
		const char *text, *code;
	} cases[] = {
		{ "[http]\n anonymousRead\n", "NO_PUSHES" },
		{ "[secondary \"paris\"]\n secretFile = @/paris\n", "NO_PUSHES" },
		{ "[token \"ci\"]\n file = @/ci\n", "NO_PUSHES" },
		{ "[token \"old\"]\n file = @/old\n rights = push\n expires = "
		  "2020-01-01\n",
		  "NO_PUSHES" },
		{ "[token \"team\"]\n file = @/team\n rights = push\n"
		  " repository = group/*\n",
		  "NO_CREDENTIALS" },
		{ "[token \"bot\"]\n file = @/bot\n rights = operate\n",
		  "NO_CREDENTIALS" },
		{ "[http]\n operatorTokenFile = @/operator\n", "NO_CREDENTIALS" },
		/* Who is added to it later counts without a reload. */
		{ "[http]\n passwordFile = @/empty\n", "NO_CREDENTIALS" },
	};

	let_more_in("");
	write_secret("empty", "# nobody\n", 0600);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		read_only(cases[i].text);
		const char *code = ask_git(NULL, "git-receive-pack", "none/at-all");
		if (!code || strcmp(code, cases[i].code) != 0)
			fail_msg("%s: %s", cases[i].text, code ? code : "let in");
	}
}

TEST(where_nobody_pushes_all_else_is_answered_as_elsewhere)
{
	read_only("[http]\n anonymousRepository = public/*\n");
	assert_string_equal(ask_git("Bearer wrong", "git-receive-pack", "public/x"),
			    "BAD_CREDENTIALS");
	assert_string_equal(ask_git(NULL, "git-upload-pack", "private/x"),
			    "NO_CREDENTIALS");
	assert_string_equal(ask_with(WEB_OPERATOR, NULL), "NO_CREDENTIALS");
	/* Its primary has credentials that are not known here. */
	assert_string_equal(
		ask((struct access_question){ .needs = WEB_GIT,
					      .git_service = "git-receive-pack",
					      .git_repository = "public/x",
					      .is_forwarded_push = true }),
		"NO_CREDENTIALS");
}

TEST(what_is_open_to_everybody_is_open_to_each_good_credential)
{
	let_more_in("");
	assert_null(ask_git("Bearer " TEAM, "git-upload-pack", "public/x"));
	assert_string_equal(ask_git("Bearer " TEAM, "git-receive-pack", "public/x"),
			    "FORBIDDEN");
	assert_string_equal(ask_git("Bearer " OLD, "git-upload-pack", "public/x"),
			    "TOKEN_EXPIRED");
	assert_string_equal(ask_git(GUESS, "git-upload-pack", "public/x"),
			    "BAD_CREDENTIALS");
	assert_string_equal(ask_with(WEB_OPERATOR, "Bearer " OLD), "TOKEN_EXPIRED");
}

TEST(a_site_never_pushes)
{
	struct site_key key = { .site = "paris", .secret = STR_INIT };

	str_add(&key.secret, "secret-of-paris-1234");
	AUTO_FREE char *token =
		wire_token_for_git(&key, "git-receive-pack", "group/tool", 60, &err);
	AUTO_FREE char *bearer = xasprintf("Bearer %s", token);
	assert_string_equal(ask_git(bearer, "git-receive-pack", "group/tool"),
			    "FORBIDDEN");
	site_key_clear(&key);
}

TEST(a_push_that_the_primary_judges_takes_any_credential_but_not_none)
{
	struct access_question question = { .needs = WEB_GIT,
					    .git_service = "git-receive-pack",
					    .git_repository = "group/tool",
					    .authorization = "Bearer of the primary",
					    .is_forwarded_push = true };
	struct access_answer answer;

	access_decide(access_now, &question, &answer, &err);
	assert_int_equal(answer.status, 0);
	assert_string_equal(answer.user, "");
	assert_string_equal(answer.site, "");
	question.authorization = NULL;
	assert_string_equal(ask(question), "NO_CREDENTIALS");
	/* A read is never let in so. */
	question.authorization = "Bearer of the primary";
	question.git_service = "git-upload-pack";
	assert_string_equal(ask(question), "BAD_CREDENTIALS");
	question.git_service = "git-receive-pack";
	question.needs = WEB_OPERATOR;
	assert_string_equal(ask(question), "BAD_CREDENTIALS");
}

static struct access_answer answer_to(const char *authorization, bool is_quick)
{
	struct access_question question = { .needs = WEB_GIT,
					    .request = &request,
					    .git_service = "git-upload-pack",
					    .git_repository = "group/tool",
					    .authorization = authorization,
					    .is_quick = is_quick };
	struct access_answer answer;

	access_decide(access_now, &question, &answer, &err);
	return answer;
}

TEST(the_answer_says_who_it_is)
{
	let_more_in("");
	assert_string_equal(answer_to(ALICE, false).user, "alice");
	assert_string_equal(answer_to(BASIC_CI, false).user, "token ci");
	assert_string_equal(answer_to(BASIC, false).user, "operator");
	assert_string_equal(answer_to("Bearer " BOT, false).user, "token bot");
}

TEST(a_quick_answer_computes_no_password)
{
	let_more_in("");
	assert_int_equal(answer_to(ALICE, true).status, ACCESS_LATER);
	assert_null(answer_to(ALICE, true).code);
	assert_int_equal(answer_to(GUESS, true).status, ACCESS_LATER);
	assert_int_equal(answer_to(BASIC_CI, true).status, 0);
	assert_int_equal(answer_to("Bearer wrong", true).status, 401);
	assert_int_equal(answer_to(ALICE, false).status, 0);
	assert_int_equal(answer_to(GUESS, false).status, 401);
	assert_int_equal(answer_to(ALICE, true).status, 0);
	assert_string_equal(answer_to(ALICE, true).user, "alice");
	assert_int_equal(answer_to(GUESS, true).status, 401);
}

TEST(a_password_is_no_token_and_a_users_name_opens_nothing)
{
	let_more_in("");
	assert_string_equal(ask_with(WEB_GIT, "Bearer myPassword"), "BAD_CREDENTIALS");
	assert_string_equal(ask_with(WEB_GIT, "Bearer alice:myPassword"),
			    "BAD_CREDENTIALS");
	/* alice, alice:, and the password cut by a NUL */
	assert_string_equal(ask_with(WEB_GIT, "Basic YWxpY2U="), "BAD_CREDENTIALS");
	assert_string_equal(ask_with(WEB_GIT, "Basic YWxpY2U6"), "BAD_CREDENTIALS");
	assert_string_equal(ask_with(WEB_GIT, "Basic YWxpY2U6bXlQYXNzd29yZAB4"),
			    "BAD_CREDENTIALS");
}

TEST(refusals_are_counted_by_reason)
{
	AUTO_STR struct str all = STR_INIT;

	const struct access_answer webhook = { .status = 401, .code = "ELSEWHERE" };

	ask_with(WEB_OPERATOR, "Bearer wrong");
	access_log_refused(access_now, &webhook, &err);
	metrics_render_as(METRICS_PROMETHEUS, &all);
	assert_non_null(strstr(all.data,
			       "refrelay_http_refused_total{class=\"BAD_CREDENTIALS\"}"));
	assert_non_null(
		strstr(all.data, "refrelay_http_refused_total{class=\"ELSEWHERE\"} 1\n"));
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
		ASKED(nobody_follows_a_site_that_is_no_primary),
		ASKED(a_site_is_no_operator),
		ASKED(each_kind_of_wrong_token_has_its_code),
		ASKED(a_git_childs_token_is_for_one_repository_and_service),
		ASKED(new_secrets_count_at_once_and_old_tokens_stay_used),
		ASKED(a_bad_secret_names_its_key),
		ASKED(each_right_opens_what_it_says_and_no_more),
		ASKED(patterns_take_names_and_nothing_that_only_looks_like_one),
		ASKED(nobody_pushes_without_a_name),
		ASKED(where_no_credential_could_push_none_is_asked_for),
		ASKED(where_nobody_pushes_all_else_is_answered_as_elsewhere),
		ASKED(what_is_open_to_everybody_is_open_to_each_good_credential),
		ASKED(a_site_never_pushes),
		ASKED(a_push_that_the_primary_judges_takes_any_credential_but_not_none),
		ASKED(the_answer_says_who_it_is),
		ASKED(a_quick_answer_computes_no_password),
		ASKED(a_password_is_no_token_and_a_users_name_opens_nothing),
		ASKED(refusals_are_counted_by_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
