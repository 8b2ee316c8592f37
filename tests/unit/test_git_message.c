/*
 * What stock git and ssh said when something failed, recorded by
 * tests/messages/record.py: each version has its own words, and each of them must be
 * understood. Gerrit's, which cannot be recorded, are as its source has them.
 */
#include "git_test.h"

#include <dirent.h>

#include "git/git_message.h"
#include "push/push.h"

#define TEXT_MOST 65536

/* As the callers do it, after a child that failed. */
static void classify(const char *reader, const char *said)
{
	static const struct {
		const char *reader;
		enum git_speaker speaker;
	} speakers[] = { { "child", SPEAKER_GIT },
			 { "ssh", SPEAKER_SSH },
			 { "command", SPEAKER_COMMAND },
			 { "gerrit", SPEAKER_GERRIT } };

	err_set(&err, ERR_INTERNAL, "git exited with code 128");
	for (size_t i = 0; i < ARRAY_SIZE(speakers); i++)
		if (strcmp(reader, speakers[i].reader) == 0)
			git_message_find(speakers[i].speaker, said, &err);
	if (strcmp(reader, "push") == 0) {
		git_message_find(SPEAKER_GIT, said, &err);
		push_report_failure(said, &err);
	}
	if (strcmp(reader, "pack") == 0 && push_report_is_local(said, &err))
		assert_int_equal(err.reason, REASON_LOCAL_REPOSITORY);
}

static const char *way_of(enum push_verdict verdict, const struct ref_result *result)
{
	if (verdict != PUSH_SETTLED)
		return verdict == PUSH_STALE ? "stale" : "force";
	if (result->is_lock)
		return result->is_transient ? "locked" : "locked for good";
	return result->is_transient ? "again" : "final";
}

/* `said`: git's porcelain, "--", its stderr. */
static void check_ref(const char *name, char *said, const char *status, const char *way)
{
	struct ref_result result = { .status = REF_NOT_ATTEMPTED };
	char *tail = strstr(said, "\n--\n");
	struct push_line line;

	assert_non_null(tail);
	tail[1] = '\0';
	tail += strlen("\n--\n");
	assert_true(push_report_next(&said, &line));
	enum push_verdict verdict = push_report_judge(&line, tail, &result);
	if (strcmp(ref_status_name(result.status), status) != 0 ||
	    strcmp(way_of(verdict, &result), way) != 0)
		fail_msg("%s: %s %s, not %s %s: %s", name, ref_status_name(result.status),
			 way_of(verdict, &result), status, way, line.reason);
	assert_false(push_report_next(&said, &line));
	free(result.text);
}

static void check_class(const char *name, const char *said, const char *reader,
			const char *class)
{
	classify(reader, said);
	if (strcmp(err_class_name(err.class), class) != 0)
		fail_msg("%s: %s, not %s: %s", name, err_class_name(err.class), class,
			 err.text);
	if (!err.remedy[0] && strcmp(reader, "gerrit") != 0 && err.class != ERR_CONFLICT)
		fail_msg("%s: no remedy", name);
}

/* A head as record.py explains it, "\n", then what was said. */
static void check_message(int dir, const char *name)
{
	AUTO_STR struct str text = STR_INIT;
	char reader[16], word[32], way[16] = "";
	char *said;

	assert_ok(file_read(dir, name, TEXT_MOST, &text, &err));
	said = strchr(text.data, '\n');
	assert_non_null(said);
	*said++ = '\0';
	assert_true(sscanf(text.data, "%15s %31s %15s", reader, word, way) >= 2);
	if (strcmp(reader, "ref") == 0)
		check_ref(name, said, word, way);
	else
		check_class(name, said, reader, word);
}

static void check_folder(const char *folder, int least)
{
	AUTO_FREE char *path = xasprintf("%s/messages/%s", getenv("TESTS"), folder);
	AUTO_CLOSEDIR DIR *dir = opendir(path);
	struct dirent *entry;
	int count = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		check_message(dirfd(dir), entry->d_name);
		count++;
	}
	assert_true(count >= least);
}

TEST(what_git_2_39_and_ssh_say_is_understood)
{
	check_folder("git-2.39", 65);
}

TEST(what_git_2_47_says_is_understood)
{
	check_folder("git-2.47", 45);
}

TEST(what_gerrit_says_is_understood)
{
	check_folder("gerrit", 8);
}

TEST(a_gerrit_is_known_by_its_name)
{
	assert_true(git_message_is_gerrit("fatal: Gerrit Code Review: if: not found\n"));
	assert_false(git_message_is_gerrit("sh: 1: gerrit: not found\n"));
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

TEST(what_git_says_of_a_working_tree_has_a_class)
{
	classify("child", "error: invalid path '.git/hooks/post-checkout'\n");
	assert_int_equal(err.class, ERR_CORRUPT);
	assert_non_null(strstr(err.remedy, "mirror.checkout"));
	classify("child", "error: unable to write file a/b\n");
	assert_int_equal(err.class, ERR_DISK);
	classify("child", "fatal: unable to write file a/b: Input/output error\n");
	assert_non_null(strstr(err.remedy, "kernel log"));
}

TEST(an_object_that_upload_pack_refuses_is_read)
{
	static const char digits[] = "7e4a43a97cd5f9f8a5a1ddc4bb36a7d0c0f3f3b1";
	AUTO_FREE char *said = xasprintf("0049ERR upload-pack: not our ref %s\n", digits);
	AUTO_FREE char *cut = xstrndup(said, strlen(said) - 3);
	AUTO_FREE char *later = xasprintf("0008NAK\n%s", said);
	char text[OID_MAX_TEXT];
	struct oid oid;

	assert_true(git_message_refused_object(said, 20, &oid));
	assert_string_equal(oid_text(&oid, text), digits);
	assert_false(git_message_refused_object(said, 32, &oid));
	assert_false(git_message_refused_object(cut, 20, &oid));
	assert_false(git_message_refused_object(later, 20, &oid));
	assert_false(git_message_refused_object("", 20, &oid));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_git_2_39_and_ssh_say_is_understood),
		cmocka_unit_test(what_git_2_47_says_is_understood),
		cmocka_unit_test(what_gerrit_says_is_understood),
		cmocka_unit_test(a_gerrit_is_known_by_its_name),
		cmocka_unit_test(an_object_that_is_not_offered_any_more_has_a_reason),
		cmocka_unit_test(what_git_says_of_a_working_tree_has_a_class),
		cmocka_unit_test(an_object_that_upload_pack_refuses_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
