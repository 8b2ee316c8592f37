#include "test.h"

#include <jwt.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "net/nonces.h"
#include "wire/wire_token.h"

static int ahead_s; /* how far the clock is set forward by which nonces are kept */

/* Stands before the C library's. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (syscall(SYS_clock_gettime, clock, now) != 0)
		return -1;
	if (clock == CLOCK_BOOTTIME)
		now->tv_sec += ahead_s;
	return 0;
}

#define SECRET "0123456789abcdef0123456789abcdef"

static const struct signed_request get_events = {
	.method = "GET",
	.target = "/api/v1/events?after=1",
	.body = "",
};

static struct site_key make_key(const char *site, const char *secret)
{
	struct site_key key = { .secret = STR_INIT };

	snprintf(key.site, sizeof(key.site), "%s", site);
	str_add(&key.secret, secret);
	return key;
}

static enum token_verdict check(const char *token, const struct signed_request *request)
{
	AUTO_SITE_KEY struct site_key key = make_key("paris", SECRET);
	struct nonces *nonces = nonces_new();
	enum token_verdict verdict =
		nonces_check_request(nonces, &key, token, request, &err);

	nonces_free(nonces);
	return verdict;
}

struct forged {
	jwt_alg_t alg;
	const char *secret;
	int64_t iat, exp; /* from now */
	const char *jti, *req, *body, *git;
};

/* What an honest site would sign; cases change a member. */
static const struct forged honest = {
	.alg = JWT_ALG_HS256,
	.secret = SECRET,
	.iat = 0,
	.exp = 60,
	.jti = "00112233445566778899aabbccddeeff",
	.req = "GET /api/v1/events?after=1",
	.body = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
};

static char *forge(struct forged from)
{
	int64_t now = clock_wall_ms() / 1000;
	jwt_t *jwt;

	assert_int_equal(jwt_new(&jwt), 0);
	if (from.secret)
		assert_int_equal(jwt_set_alg(jwt, from.alg,
					     (const unsigned char *)from.secret,
					     (int)strlen(from.secret)),
				 0);
	jwt_add_grant(jwt, "iss", "paris");
	jwt_add_grant_int(jwt, "iat", now + from.iat);
	jwt_add_grant_int(jwt, "exp", now + from.exp);
	if (from.jti)
		jwt_add_grant(jwt, "jti", from.jti);
	if (from.req)
		jwt_add_grant(jwt, "req", from.req);
	if (from.body)
		jwt_add_grant(jwt, "body", from.body);
	if (from.git)
		jwt_add_grant(jwt, "git", from.git);
	char *token = jwt_encode_str(jwt);
	jwt_free(jwt);
	return token;
}

TEST(a_signed_request_is_accepted_once)
{
	AUTO_SITE_KEY struct site_key key = make_key("paris", SECRET);
	struct nonces *nonces = nonces_new();
	AUTO_FREE char *token = wire_token_for_request(&key, &get_events, &err);
	char site[SITE_NAME_SIZE];

	assert_non_null(token);
	assert_true(wire_token_issuer(token, site));
	assert_string_equal(site, "paris");
	assert_int_equal(nonces_check_request(nonces, &key, token, &get_events, &err),
			 TOKEN_GOOD);
	assert_int_equal(nonces_check_request(nonces, &key, token, &get_events, &err),
			 TOKEN_REPLAYED);
	assert_int_equal(err.class, ERR_AUTH);
	assert_string_not_equal(err.remedy, "");
	nonces_free(nonces);
}

TEST(a_token_is_good_for_its_own_request_only)
{
	static const struct signed_request others[] = {
		{ "POST", "/api/v1/events?after=1", "", 0 },
		{ "GET", "/api/v1/events?after=2", "", 0 },
		{ "GET", "/api/v1/events?after=1", "x", 1 },
	};
	AUTO_SITE_KEY struct site_key key = make_key("paris", SECRET);
	AUTO_FREE char *token = wire_token_for_request(&key, &get_events, &err);

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_int_equal(check(token, &others[i]), TOKEN_WRONG_REQUEST);
	assert_int_equal(check(token, &get_events), TOKEN_GOOD);
}

TEST(what_honest_sites_would_not_sign_is_refused)
{
	struct {
		struct forged token;
		enum token_verdict verdict;
	} table[] = {
		{ honest, TOKEN_GOOD },
		{ honest, TOKEN_BAD_SIGNATURE }, /* another secret */
		{ honest, TOKEN_BAD_SIGNATURE }, /* alg none */
		{ honest, TOKEN_BAD_SIGNATURE }, /* HS512 */
		{ honest, TOKEN_CLOCK_SKEW },    /* ahead */
		{ honest, TOKEN_GOOD },          /* ahead a little */
		{ honest, TOKEN_CLOCK_SKEW },    /* behind */
		{ honest, TOKEN_WRONG_REQUEST }, /* good for longer than nonces are kept
						  */
		{ honest, TOKEN_WRONG_REQUEST }, /* no nonce */
		{ honest, TOKEN_WRONG_REQUEST }, /* no digest */
		{ honest, TOKEN_WRONG_REQUEST }, /* a git child's token */
	};
	struct forged git = { .alg = JWT_ALG_HS256,
			      .secret = SECRET,
			      .exp = 60,
			      .git = "git-upload-pack x" };

	table[1].token.secret = "another secret of the right length";
	table[2].token.secret = NULL;
	table[3].token.alg = JWT_ALG_HS512;
	table[4].token.iat = 20, table[4].token.exp = 80;
	table[5].token.iat = 3, table[5].token.exp = 63;
	table[6].token.iat = -61, table[6].token.exp = -1;
	table[7].token.exp = 90;
	table[8].token.jti = NULL;
	table[9].token.body = NULL;
	table[10].token = git;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		AUTO_FREE char *token = forge(table[i].token);
		enum token_verdict verdict = check(token, &get_events);

		if (verdict != table[i].verdict)
			fail_msg("case %zu: %s", i, token_verdict_code(verdict));
	}
}

TEST(a_clock_that_is_off_is_told_only_to_who_knows_the_secret)
{
	struct forged late = honest;

	late.iat = -300, late.exp = -240;
	AUTO_FREE char *known = forge(late);
	late.secret = "another secret of the right length";
	AUTO_FREE char *unknown = forge(late);

	assert_int_equal(check(known, &get_events), TOKEN_CLOCK_SKEW);
	assert_non_null(strstr(err.text, "300 s behind"));
	assert_int_equal(check(unknown, &get_events), TOKEN_BAD_SIGNATURE);
	assert_null(strstr(err.text, "300"));
}

TEST(a_token_of_another_site_is_refused_though_the_secret_is_the_same)
{
	AUTO_SITE_KEY struct site_key rome = make_key("rome", SECRET);
	AUTO_FREE char *token = wire_token_for_request(&rome, &get_events, &err);

	assert_int_equal(check(token, &get_events), TOKEN_WRONG_REQUEST);
}

TEST(a_git_childs_token_is_for_one_repository_and_service)
{
	AUTO_SITE_KEY struct site_key key = make_key("paris", SECRET);
	AUTO_FREE char *token =
		wire_token_for_git(&key, "git-upload-pack", "group/tool", 10800, &err);
	AUTO_FREE char *over =
		wire_token_for_git(&key, "git-upload-pack", "group/tool", 0, &err);
	AUTO_FREE char *request = wire_token_for_request(&key, &get_events, &err);

	assert_int_equal(
		wire_token_check_git(&key, token, "git-upload-pack", "group/tool", &err),
		TOKEN_GOOD);
	assert_int_equal(
		wire_token_check_git(&key, token, "git-receive-pack", "group/tool", &err),
		TOKEN_WRONG_REQUEST);
	assert_int_equal(
		wire_token_check_git(&key, token, "git-upload-pack", "group/to", &err),
		TOKEN_WRONG_REQUEST);
	assert_int_equal(
		wire_token_check_git(&key, over, "git-upload-pack", "group/tool", &err),
		TOKEN_CLOCK_SKEW);
	assert_int_equal(wire_token_check_git(&key, request, "git-upload-pack",
					      "group/tool", &err),
			 TOKEN_WRONG_REQUEST);
}

TEST(garbage_is_no_token)
{
	static const char *const table[] = {
		"",         "x",   "..",         "a.b.c", "e30.e30.e30",
		"eyJ.eyJ.", ". .", "\xff.\xff.", "e30.",  "eyJhbGciOiJub25lIn0.e30.",
	};
	char site[SITE_NAME_SIZE];
	char *huge = xmalloc(100001);

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		assert_false(wire_token_issuer(table[i], site));
		assert_int_equal(check(table[i], &get_events), TOKEN_BAD_SIGNATURE);
	}
	memset(huge, 'a', 100000);
	huge[100000] = '\0';
	assert_false(wire_token_issuer(huge, site));
	assert_int_equal(check(huge, &get_events), TOKEN_BAD_SIGNATURE);
	free(huge);
}

TEST(a_changed_token_is_refused)
{
	AUTO_FREE char *token = forge(honest);
	char *body = strchr(token, '.') + 1;

	body[4] = body[4] == 'A' ? 'B' : 'A';
	assert_int_equal(check(token, &get_events), TOKEN_BAD_SIGNATURE);
}

static struct nonces *nonces_of_root(void)
{
	struct nonces *nonces = nonces_new();

	nonces_keep(nonces, root);
	return nonces;
}

/* As after a restart, or after a kill. */
TEST(what_a_process_before_accepted_is_not_good_again)
{
	int64_t kept = nonces_keep_ms;
	struct nonces *nonces = nonces_of_root();

	assert_int_equal(nonces_take(nonces, "paris", "1"), NONCE_NEW);
	nonces_keep_ms = 0; /* the next begins another file */
	assert_int_equal(nonces_take(nonces, "paris", "2"), NONCE_NEW);
	nonces_keep_ms = kept;
	assert_int_equal(nonces_take(nonces, "paris", "3"), NONCE_NEW);
	nonces_free(nonces);
	nonces = nonces_of_root();
	assert_int_equal(nonces_take(nonces, "paris", "1"), NONCE_USED);
	assert_int_equal(nonces_take(nonces, "paris", "2"), NONCE_USED);
	assert_int_equal(nonces_take(nonces, "paris", "3"), NONCE_USED);
	assert_int_equal(nonces_take(nonces, "rome", "1"), NONCE_NEW);
	nonces_free(nonces);
}

/* What it was. */
static rlim_t limit_files(rlim_t bytes)
{
	struct rlimit limit;
	rlim_t old;

	signal(SIGXFSZ, SIG_IGN);
	assert_return_code(getrlimit(RLIMIT_FSIZE, &limit), errno);
	old = limit.rlim_cur;
	limit.rlim_cur = bytes;
	assert_return_code(setrlimit(RLIMIT_FSIZE, &limit), errno);
	return old;
}

/* As on a disk that was full for a while. */
TEST(nonces_are_written_down_again_when_that_is_possible)
{
	int64_t kept = nonces_keep_ms;
	struct nonces *nonces = nonces_of_root();

	rlim_t old = limit_files(0);
	assert_int_equal(nonces_take(nonces, "paris", "1"), NONCE_NEW);
	nonces_keep_ms = 0;
	assert_int_equal(nonces_take(nonces, "paris", "2"), NONCE_NEW);
	limit_files(old);
	assert_int_equal(nonces_take(nonces, "paris", "3"), NONCE_NEW);
	nonces_keep_ms = kept;
	nonces_free(nonces);
	nonces = nonces_of_root();
	assert_int_equal(nonces_take(nonces, "paris", "3"), NONCE_USED);
	assert_int_equal(nonces_take(nonces, "paris", "1"), NONCE_NEW);
	nonces_free(nonces);
}

/* As when its file system was away, or the process had no descriptors left. */
TEST(nonces_are_written_down_when_their_directory_can_be_opened)
{
	AUTO_FREE char *directory = xasprintf("%s/data", root);
	int64_t kept = nonces_keep_ms;
	struct nonces *nonces = nonces_new();

	nonces_keep(nonces, directory);
	assert_int_equal(nonces_take(nonces, "paris", "1"), NONCE_NEW);
	assert_return_code(mkdir(directory, 0700), errno);
	nonces_keep_ms = 0; /* the next begins another file */
	assert_int_equal(nonces_take(nonces, "paris", "2"), NONCE_NEW);
	nonces_keep_ms = kept;
	nonces_free(nonces);
	nonces = nonces_new();
	nonces_keep(nonces, directory);
	assert_int_equal(nonces_take(nonces, "paris", "2"), NONCE_USED);
	nonces_free(nonces);
}

TEST(a_line_that_was_cut_takes_no_other_with_it)
{
	struct nonces *nonces;

	assert_ok(file_replace(root_fd, "nonces", "1 paris\n2 par", 13, FILE_NO_SYNC,
			       &err));
	nonces = nonces_of_root();
	assert_int_equal(nonces_take(nonces, "paris", "3"), NONCE_NEW);
	nonces_free(nonces);
	nonces = nonces_of_root();
	assert_int_equal(nonces_take(nonces, "paris", "1"), NONCE_USED);
	assert_int_equal(nonces_take(nonces, "paris", "3"), NONCE_USED);
	nonces_free(nonces);
}

TEST(a_site_has_so_many_and_takes_none_from_others)
{
	uint64_t each = nonces_each;
	struct nonces *nonces = nonces_new();

	nonces_each = 2;
	assert_int_equal(nonces_take(nonces, "paris", "1"), NONCE_NEW);
	assert_int_equal(nonces_take(nonces, "paris", "2"), NONCE_NEW);
	assert_int_equal(nonces_take(nonces, "paris", "2"), NONCE_USED);
	assert_int_equal(nonces_take(nonces, "paris", "3"), NONCE_TOO_MANY);
	assert_int_equal(nonces_take(nonces, "rome", "3"), NONCE_NEW);
	nonces_each = each;
	nonces_free(nonces);
}

TEST(nonces_are_forgotten_but_not_early)
{
	struct nonces *nonces;
	int64_t kept = nonces_keep_ms;

	nonces_keep_ms = 60000;
	nonces = nonces_new();
	assert_int_equal(nonces_take(nonces, "paris", "1"), NONCE_NEW);
	assert_int_equal(nonces_take(nonces, "rome", "1"), NONCE_NEW);
	assert_int_equal(nonces_take(nonces, "paris", "1"), NONCE_USED);
	for (int i = 0; i < 1000; i++) {
		char text[16];
		snprintf(text, sizeof(text), "n%d", i);
		assert_int_equal(nonces_take(nonces, "paris", text), NONCE_NEW);
	}
	ahead_s += 61;
	assert_int_equal(nonces_take(nonces, "paris", "2"), NONCE_NEW);
	assert_int_equal(nonces_take(nonces, "paris", "1"), NONCE_USED);
	ahead_s += 61;
	assert_int_equal(nonces_take(nonces, "paris", "2"), NONCE_USED);
	assert_int_equal(nonces_count(nonces), 1);
	ahead_s += 121;
	assert_int_equal(nonces_count(nonces), 0);
	nonces_free(nonces);
	nonces_keep_ms = kept;
}

TEST(a_nonce_is_kept_for_as_long_as_its_token_can_be_good)
{
	assert_true(nonces_keep_ms > (WIRE_TOKEN_VALID_S + 5) * 1000);
}

static void write_secret(const char *text, mode_t mode, char path[128])
{
	snprintf(path, 128, "%s/secret", root);
	assert_ok(file_replace(AT_FDCWD, path, text, strlen(text), FILE_NO_SYNC, &err));
	assert_int_equal(chmod(path, mode), 0);
}

TEST(a_secret_is_read_without_white_space_at_its_end)
{
	AUTO_SITE_KEY struct site_key key;
	char path[128];

	write_secret(SECRET " \r\n\n", 0640, path);
	assert_ok(site_key_read("paris", path, &key, &err));
	assert_string_equal(key.secret.data, SECRET);
	assert_string_equal(key.site, "paris");
}

TEST(a_secret_that_is_short_or_public_is_refused)
{
	AUTO_SITE_KEY struct site_key key;
	char path[128];

	write_secret("123456789012345\n", 0600, path);
	assert_fails(site_key_read("paris", path, &key, &err), ERR_CONFIG);
	write_secret("                                  ", 0600, path);
	assert_fails(site_key_read("paris", path, &key, &err), ERR_CONFIG);
	write_secret(SECRET, 0644, path);
	assert_fails(site_key_read("paris", path, &key, &err), ERR_CONFIG);
	assert_int_equal(key.secret.len, 0);
	assert_null(strstr(err.text, SECRET));
	assert_fails(site_key_read("paris", "/nowhere/secret", &key, &err), ERR_CONFIG);
	assert_non_null(strstr(err.remedy, "/nowhere/secret"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_signed_request_is_accepted_once),
		cmocka_unit_test(a_token_is_good_for_its_own_request_only),
		cmocka_unit_test(what_honest_sites_would_not_sign_is_refused),
		cmocka_unit_test(
			a_clock_that_is_off_is_told_only_to_who_knows_the_secret),
		cmocka_unit_test(
			a_token_of_another_site_is_refused_though_the_secret_is_the_same),
		cmocka_unit_test(a_git_childs_token_is_for_one_repository_and_service),
		cmocka_unit_test(garbage_is_no_token),
		cmocka_unit_test(a_changed_token_is_refused),
		cmocka_unit_test(nonces_are_forgotten_but_not_early),
		cmocka_unit_test_setup_teardown(
			what_a_process_before_accepted_is_not_good_again, test_make_root,
			test_remove_root),
		cmocka_unit_test_setup_teardown(
			nonces_are_written_down_again_when_that_is_possible,
			test_make_root, test_remove_root),
		cmocka_unit_test_setup_teardown(
			nonces_are_written_down_when_their_directory_can_be_opened,
			test_make_root, test_remove_root),
		cmocka_unit_test_setup_teardown(
			a_line_that_was_cut_takes_no_other_with_it, test_make_root,
			test_remove_root),
		cmocka_unit_test(a_site_has_so_many_and_takes_none_from_others),
		cmocka_unit_test(a_nonce_is_kept_for_as_long_as_its_token_can_be_good),
		CASE(a_secret_is_read_without_white_space_at_its_end),
		CASE(a_secret_that_is_short_or_public_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
