/* From a primary behind somebody who refuses, by the real client; waits take no time. */
#include "git_test.h"
#include "site_client_test.h"

#include <dlfcn.h>

#include "pull/bring_packs.h"
#include "pull/primary.h"
#include "pull/source.h"

#define NAME "pack-0123456789012345678901234567890123456789"
#define SIZE 3000000
#define LIST                                                                             \
	"HTTP/1.1 200 OK\r\nContent-Length: 115\r\n\r\n{\"packs\":[{\"name\":\"" NAME    \
	"\",\"bytes\":3000000,\"index_bytes\":1072,\"objects\":1}]}"
#define BAD_GATEWAY "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"
#define NOT_FOUND "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
/* As of a sector that cannot be read. */
#define ONLY_HEAD(first)                                                                 \
	"HTTP/1.1 206 Partial Content\r\nContent-Length: 3000000\r\nETag: \"1\"\r\n"     \
	"Content-Range: bytes " first "-2999999/3000000\r\n\r\n"
#define RESET                                                                            \
	{                                                                                \
		"", CLOSE                                                                \
	}

static int64_t ahead_ms;
static struct stop stop;
static struct git_work work;
static struct repo copy;

int64_t clock_boot_ms(void)
{
	int64_t (*real)(void);

	*(void **)&real = dlsym(RTLD_NEXT, "clock_boot_ms");
	return real() + ahead_ms;
}

bool stop_wait(const struct stop *stopped, int64_t ms)
{
	ahead_ms += ms;
	return stop_is_requested(stopped);
}

static int set_up(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	must("git init -q --bare copy.git");
	assert_ok(git_setup(root, &err));
	copy = (struct repo)REPO_INIT;
	assert_ok(repo_open(root_fd, "copy.git", &copy, &err));
	stop_init(&stop);
	work = git_work_for(&stop, 0);
	return 0;
}

static int tear_down(void **state)
{
	stop_clear(&stop);
	repo_close(&copy);
	return test_remove_root(state);
}

#define ANSWERS_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static int bring(const struct step *script, size_t steps)
{
	const struct source_view view = { .oid_len = 20, .pack_bytes = SIZE };
	const oid_list wanted = { 0 };
	const struct source_want want = { .work = &work,
					  .name = "big",
					  .copy = &copy,
					  .view = &view,
					  .oids = &wanted,
					  .is_new = true };
	struct primary *primary;
	struct primary_line *line;

	start_server(script, steps);
	AUTO_FREE char *url = xasprintf("http://127.0.0.1:%d", server.port);
	assert_ok(primary_open(url, NULL, &primary, &err));
	assert_ok(primary_line_open(primary, &stop, &line, &err));
	const int result = bring_packs(line, &want, &err);
	primary_line_close(line);
	primary_close(primary);
	stop_server();
	must("[ -z \"$(find copy.git/objects/pack -type f)\" ]");
	return result;
}

/* Git is to bring it, after so long a wait. */
static void assert_is_left_to_git(const struct step *script, size_t steps, int64_t ms)
{
	const int64_t began = ahead_ms;

	assert_int_equal(bring(script, steps), 1);
	assert_int_equal(ahead_ms - began, ms);
	assert_int_equal(server.served, steps);
}

#define LEFT_TO_GIT(ms, ...)                                                             \
	do {                                                                             \
		const struct step script_[] = { __VA_ARGS__ };                           \
		assert_is_left_to_git(script_, ARRAY_SIZE(script_), ms);                 \
	} while (0)

TEST(a_refusal_without_a_body_is_an_answer)
{
	LEFT_TO_GIT(0, { BAD_GATEWAY, KEEP });
	LEFT_TO_GIT(0, { NOT_FOUND, KEEP });
	LEFT_TO_GIT(0, { LIST, KEEP }, { BAD_GATEWAY, KEEP });
	LEFT_TO_GIT(0, { LIST, KEEP }, { NOT_FOUND, KEEP });
}

TEST(a_file_that_cannot_be_read_is_left_to_git)
{
	LEFT_TO_GIT(0, { LIST, KEEP }, { ONLY_HEAD("0"), CLOSE });
}

TEST(one_that_cannot_be_read_further_on_is_left_to_git_later)
{
	struct step script[17] = { { LIST, KEEP },
				   { ONLY_HEAD("0") "some bytes", CLOSE } };

	for (size_t i = 2; i < ARRAY_SIZE(script); i++)
		script[i] = (struct step){ ONLY_HEAD("10"), CLOSE };
	assert_is_left_to_git(script, ARRAY_SIZE(script), 191000);
}

/* libcurl asks again by itself where a kept connection ended. */
TEST(requests_that_are_ended_by_somebody_are_left_to_git)
{
	LEFT_TO_GIT(0, RESET);
	LEFT_TO_GIT(7000, { LIST, KEEP }, RESET, RESET, RESET, RESET, RESET);
}

/* What refuses all connections is away; three minutes are over then. */
TEST(a_primary_that_went_away_is_not_asked_by_git)
{
	struct step script[18] = { { LIST, KEEP },
				   { ONLY_HEAD("0") "some bytes", CLOSE } };

	for (size_t i = 2; i < ARRAY_SIZE(script); i++)
		script[i] = (struct step)RESET;
	assert_fails(bring(script, ARRAY_SIZE(script)), ERR_NETWORK);
	assert_true(ahead_ms >= 180000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ANSWERS_CASE(a_refusal_without_a_body_is_an_answer),
		ANSWERS_CASE(a_file_that_cannot_be_read_is_left_to_git),
		ANSWERS_CASE(one_that_cannot_be_read_further_on_is_left_to_git_later),
		ANSWERS_CASE(requests_that_are_ended_by_somebody_are_left_to_git),
		ANSWERS_CASE(a_primary_that_went_away_is_not_asked_by_git),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
