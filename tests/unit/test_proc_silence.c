/*
 * A child that says nothing for too long.
 */
#include "test.h"

#include "base/clock.h"
#include "base/proc.h"

static int run(const char *script, int64_t silence_ms, struct str *output)
{
	const char *const argv[] = { "sh", "-c", script, NULL };
	const struct proc_request request = {
		.argv = argv,
		.silence_ms = silence_ms,
		.grace_ms = 200,
		.output = output,
		.output_limit = 65536,
	};

	return proc_run(&request, NULL, &err);
}

/* A machine that has much else to do starts a child late: it is silent until then. So a
 * test gives it twice the time once more, up to this. */
#define MOST_MS 12000

TEST(a_silent_child_is_killed_with_all_that_it_started)
{
	AUTO_STR struct str output = STR_INIT;
	AUTO_FREE char *script = xasprintf(
		"echo $$ >%s/pid; setsid sleep 300 & echo started >&2; wait", root);
	int64_t silence_ms = 300, start_at;

	for (;; silence_ms *= 2) {
		start_at = clock_boot_ms();
		assert_fails(run(script, silence_ms, &output), ERR_TIMEOUT);
		if (silence_ms > MOST_MS / 2 || strstr(err.text, ": started"))
			break;
	}
	assert_in_range(clock_boot_ms() - start_at, silence_ms, 60000);
	AUTO_FREE char *expected =
		xasprintf("sh: nothing was heard of it for %g s: started",
			  (double)silence_ms / 1000);
	assert_string_equal(err.text, expected);
}

/* Each speaks in time only together with the other. */
TEST(each_byte_on_stdout_or_stderr_is_a_sign_of_life)
{
	AUTO_STR struct str output = STR_INIT;
	int64_t silence_ms = 350;
	int result = -1;

	for (; result != 0 && silence_ms <= MOST_MS; silence_ms *= 2) {
		double pause = (double)silence_ms * 4 / 7 / 1000;
		AUTO_FREE char *script =
			xasprintf("for i in 1 2 3; do sleep %.1f; echo x; "
				  "sleep %.1f; echo y >&2; done",
				  pause, pause);
		str_reset(&output);
		result = run(script, silence_ms, &output);
	}
	assert_ok(result);
	assert_string_equal(output.data, "x\nx\nx\n");
}

TEST(a_child_that_obeys_in_the_end_was_silent_all_the_same)
{
	AUTO_STR struct str output = STR_INIT;

	assert_fails(run("trap 'exit 7' TERM; sleep 300 & wait", 200, &output),
		     ERR_TIMEOUT);
}

TEST(without_a_limit_silence_is_fine)
{
	AUTO_STR struct str output = STR_INIT;

	assert_ok(run("sleep 0.3", 0, &output));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_silent_child_is_killed_with_all_that_it_started),
		CASE(each_byte_on_stdout_or_stderr_is_a_sign_of_life),
		CASE(a_child_that_obeys_in_the_end_was_silent_all_the_same),
		CASE(without_a_limit_silence_is_fine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
