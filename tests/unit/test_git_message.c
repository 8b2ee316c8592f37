/*
 * What stock git said when it failed, recorded by tests/messages/record.py: each version
 * has its own words, and each of them must be understood.
 */
#include "git_test.h"

#include <dirent.h>

#include "git/git_message.h"
#include "push/push_report.h"

#define TEXT_MOST 65536

static void classify(const char *reader, const char *said)
{
	err_set(&err, ERR_INTERNAL, "git exited with code 128");
	git_message_find(SPEAKER_GIT, said, &err); /* as git_run() */
	if (strcmp(reader, "push") == 0)
		push_report_failure(said, &err);
}

/* "READER CLASS\n", then what was said. */
static void check_message(int dir, const char *version, const char *name)
{
	AUTO_STR struct str text = STR_INIT;
	char reader[16], class[16];
	char *said;

	assert_ok(file_read(dir, name, TEXT_MOST, &text, &err));
	said = strchr(text.data, '\n');
	assert_non_null(said);
	assert_int_equal(sscanf(text.data, "%15s %15s\n", reader, class), 2);
	classify(reader, said + 1);
	if (strcmp(err_class_name(err.class), class) != 0)
		fail_msg("%s, %s: %s, not %s: %s", version, name,
			 err_class_name(err.class), class, err.text);
	if (!err.remedy[0] && err.class != ERR_CONFLICT)
		fail_msg("%s, %s: no remedy", version, name);
}

static void check_version(const char *version)
{
	AUTO_FREE char *path = xasprintf("%s/messages/%s", getenv("TESTS"), version);
	AUTO_CLOSEDIR DIR *dir = opendir(path);
	struct dirent *entry;
	int count = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		check_message(dirfd(dir), version, entry->d_name);
		count++;
	}
	assert_true(count >= 25);
}

TEST(what_git_2_39_says_is_understood)
{
	check_version("git-2.39");
}

TEST(what_git_2_47_says_is_understood)
{
	check_version("git-2.47");
}

/* Not that it was said counts for a caller, but what it means. */
TEST(an_object_that_is_not_offered_any_more_has_a_reason)
{
	static const char *const said[] = {
		"fatal: remote error: upload-pack: not our ref 7e4a43\n",
		"error: Server does not allow request for unadvertised object 11\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(said); i++) {
		classify("child", said[i]);
		assert_int_equal(err.reason, REASON_NOT_OUR_REF);
	}
	classify("child", "fatal: loose object 12 is corrupt\n");
	assert_int_equal(err.reason, REASON_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_git_2_39_says_is_understood),
		cmocka_unit_test(what_git_2_47_says_is_understood),
		cmocka_unit_test(an_object_that_is_not_offered_any_more_has_a_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
