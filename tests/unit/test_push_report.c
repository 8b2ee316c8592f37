#include "test.h"

#include "git/git_message.h"
#include "push/push.h"

static char *said;

static bool next(const char *text, struct push_line *line)
{
	static char *at;

	free(TAKE(said));
	at = said = xstrdup(text);
	return push_report_next(&at, line);
}

TEST(lines_that_are_none_are_passed_over)
{
	static char text[] = "To /dst.git\n"
			     "\n"
			     "x\tnot:one\t[new]\n"
			     "*\trefs/heads/a:refs/heads/b\t[new branch]\n"
			     "!\tcut short\n"
			     "-\t:refs/heads/c\t[deleted]\n"
			     "!\t(delete):refs/heads/d\t[rejected] (stale info)\n"
			     "Done\n";
	char *at = text;
	struct push_line line;

	assert_true(push_report_next(&at, &line));
	assert_int_equal(line.flag, '*');
	assert_string_equal(line.dst, "refs/heads/b");
	assert_string_equal(line.summary, "[new branch]");
	assert_string_equal(line.reason, "");
	assert_true(push_report_next(&at, &line));
	assert_string_equal(line.dst, "refs/heads/c");
	assert_true(push_report_next(&at, &line));
	assert_string_equal(line.dst, "refs/heads/d");
	assert_string_equal(line.reason, "stale info");
	assert_false(push_report_next(&at, &line));
}

TEST(each_line_has_its_meaning)
{
	static const struct {
		const char *flag, *summary;
		enum push_verdict verdict;
		enum ref_status status;
		bool is_transient, is_lock;
	} lines[] = {
		{ " ", "12..34", PUSH_SETTLED, REF_OK, false, false },
		{ "+", "12...34 (forced update)", PUSH_SETTLED, REF_OK, false, false },
		{ "=", "[up to date]", PUSH_SETTLED, REF_UP_TO_DATE, false, false },
		{ "!", "[rejected] (fetch first)", PUSH_NEEDS_FORCE,
		  REF_REJECTED_NONFASTFORWARD, false, false },
		{ "!", "[rejected] (already exists)", PUSH_NEEDS_FORCE,
		  REF_REJECTED_NONFASTFORWARD, false, false },
		{ "!", "[rejected] (stale info)", PUSH_STALE, REF_OK, false, false },
		{ "!", "[remote rejected] (non-fast-forward)", PUSH_SETTLED,
		  REF_REJECTED_NONFASTFORWARD, false, false },
		{ "!", "[remote rejected] (failed to update ref)", PUSH_SETTLED,
		  REF_REJECTED_OTHER_REASON, true, true },
		{ "!", "[remote rejected] (cannot lock ref 'x' (x.lock))", PUSH_SETTLED,
		  REF_REJECTED_OTHER_REASON, true, true },
		{ "!", "[remote rejected] (unpacker error)", PUSH_SETTLED,
		  REF_REJECTED_OTHER_REASON, true, false },
		{ "!", "[remote failure] (remote failed to report status)", PUSH_SETTLED,
		  REF_REJECTED_OTHER_REASON, true, false },
		{ "!", "[remote rejected] (pre-receive hook declined)", PUSH_SETTLED,
		  REF_REJECTED_OTHER_REASON, false, false },
		{ "!", "[remote rejected] (deletion prohibited)", PUSH_SETTLED,
		  REF_REJECTED_NODELETE, false, false },
		{ "!", "[remote rejected] (missing necessary objects)", PUSH_SETTLED,
		  REF_REJECTED_OTHER_REASON, false, false },
		{ "!", "[remote rejected] (refusing to update checked out branch: x)",
		  PUSH_SETTLED, REF_REJECTED_OTHER_REASON, false, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		AUTO_FREE char *text =
			xasprintf("%s\ta:b\t%s\n", lines[i].flag, lines[i].summary);
		struct ref_result result = { 0 };
		struct push_line line;
		assert_true(next(text, &line));
		bool same = push_report_judge(&line, "", &result) == lines[i].verdict &&
			    result.status == lines[i].status &&
			    result.is_transient == lines[i].is_transient &&
			    result.is_lock == lines[i].is_lock;
		free(result.text);
		if (!same)
			fail_msg("%s", lines[i].summary);
	}
	free(TAKE(said));
}

TEST(words_of_the_other_side_are_kept_without_its_progress)
{
	struct ref_result result = { 0 };
	struct push_line line;

	assert_true(next("!\ta:b\t[remote rejected] (declined)\n", &line));
	push_report_judge(
		&line,
		"Writing objects: 100% (3/3), done.\n"
		"remote: Resolving deltas:  50% (1/2)\rremote: Resolving deltas: "
		"100% (2/2), done.        \n"
		"remote: no pushes on Fridays        \nremote: ask\033[1m Eve\n"
		"error: failed to push some refs\n",
		&result);
	assert_string_equal(result.text, "declined: no pushes on Fridays | ask [1m Eve");
	free(result.text);
	free(TAKE(said));
}

TEST(a_reason_is_short_and_harmless_whatever_was_sent)
{
	AUTO_FREE char *text =
		xasprintf("!\ta:b\t[remote rejected] (no\033[1m \xff%0*d)\n", 50000, 1);
	struct ref_result result = { 0 };
	struct push_line line;

	assert_true(next(text, &line));
	push_report_judge(&line, "", &result);
	assert_true(text_starts_with(result.text, "no [1m \xef\xbf\xbd"
						  "000"));
	assert_true(strlen(result.text) < 400);
	free(result.text);
	free(TAKE(said));
	assert_int_equal(git_message_sent("Writing objects: 100% (1/1), 1e300 GiB | "),
			 0);
}

TEST(what_was_sent_is_read_from_the_progress)
{
	assert_int_equal(git_message_sent("Writing objects: 100% (3/3), 186 bytes | 1 "
					  "KiB/s, done."),
			 186);
	assert_int_equal(git_message_sent("Writing objects: 100% (1/1), 5 bytes\rWriting "
					  "objects: 100% (1/1), 1.50 MiB | 3 MiB/s"),
			 1572864);
	assert_int_equal(git_message_sent("Writing objects:  33% (1/3)"), 0);
}

TEST(a_whole_failure_has_the_class_of_what_was_said)
{
	static const struct {
		const char *tail;
		enum err_class class;
	} tails[] = {
		{ "git@h: Permission denied (publickey).\nfatal: Could not read from "
		  "remote repository.\n",
		  ERR_AUTH },
		{ "Host key verification failed.\nfatal: Could not read from remote "
		  "repository.\n",
		  ERR_CONFIG },
		{ "ssh: connect to host h port 22: Connection timed out\n", ERR_TIMEOUT },
		{ "ssh: connect to host h port 22: Connection refused\n", ERR_NETWORK },
		{ "ssh: Could not resolve hostname h: Name or service not known\n",
		  ERR_NETWORK },
		{ "ssh: connect to host h port 22: No route to host\n", ERR_NETWORK },
		{ "fatal: unable to look up h (port 9418) (Name or service not known)\n",
		  ERR_NETWORK },
		{ "fatal: remote error: access denied or repository not exported: /x\n",
		  ERR_MISSING },
		{ "ERROR: Repository not found.\nfatal: Could not read from remote "
		  "repository.\n",
		  ERR_MISSING },
		{ "fatal: '/x' does not appear to be a git repository\n", ERR_MISSING },
		{ "fatal: project new/two not found\nfatal: Could not read from remote "
		  "repository.\n",
		  ERR_MISSING },
		{ "fatal: '/new/two.git': not a Gerrit project\n", ERR_MISSING },
		{ "fatal: project new/two not founded\nfatal: Could not read from "
		  "remote repository.\n",
		  ERR_CONFIG },
		{ "fatal: remote error: service not enabled: /x\n", ERR_CONFIG },
		{ "bash: line 1: git-receive-pack: command not found\n", ERR_CONFIG },
		{ "remote: error: unable to write file: No space left on device\n",
		  ERR_DISK },
		{ "fatal: detected dubious ownership in repository at '/x'\nTo add an "
		  "exception\nfatal: Could not read from remote repository.\n",
		  ERR_CONFIG },
		{ "gatekeeper: go away\nfatal: Could not read from remote repository.\n",
		  ERR_NETWORK },
	};

	for (size_t i = 0; i < ARRAY_SIZE(tails); i++) {
		err_set(&err, ERR_INTERNAL, "git exited with code 128");
		push_report_failure(tails[i].tail, &err);
		if (err.class != tails[i].class || !*err.remedy)
			fail_msg("%s: %s", err_class_name(err.class), tails[i].tail);
		assert_false(push_report_is_local(tails[i].tail, &err));
	}
	err_set(&err, ERR_LOST, "git had to end");
	push_report_failure("Permission denied (publickey)", &err);
	assert_int_equal(err.class, ERR_LOST);
}

TEST(a_remedy_names_what_is_to_be_set)
{
	static const struct {
		const char *tail, *names;
	} tails[] = {
		{ "fatal: Authentication failed for 'http://h/p.git/'\n",
		  "secure.config" },
		{ "fatal: could not read Username for 'http://h': No such device\n",
		  "secure.config" },
		{ "ssh: Could not resolve hostname h: Name or service not known\n",
		  "replication.sshConfig" },
		{ "ssh: connect to host h port 22: Connection timed out\n", "host of" },
		{ "git: nothing was heard of it for 2 s\n", "timeout of the remote" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(tails); i++) {
		bool is_silent = strstr(tails[i].tail, "nothing was heard") != NULL;
		err_set(&err, is_silent ? ERR_TIMEOUT : ERR_INTERNAL, "%s",
			is_silent ? tails[i].tail : "git exited with code 128");
		if (is_silent)
			err_because(&err, REASON_SILENT);
		push_report_failure(tails[i].tail, &err);
		if (!strstr(err.remedy, tails[i].names))
			fail_msg("%s: %s", tails[i].tail, err.remedy);
	}
}

TEST(a_reason_that_is_in_no_list_is_told)
{
	err_set(&err, ERR_INTERNAL, "git exited with code 128");
	push_report_failure(
		"fatal: invalid gitfile format: /x.git\nfatal: Could not read "
		"from remote repository.\n\nPlease make sure you have the "
		"correct access rights\nand the repository exists.\n",
		&err);
	assert_int_equal(err.class, ERR_CONFIG);
	assert_string_equal(err.text, "git: invalid gitfile format: /x.git");
	err_set(&err, ERR_INTERNAL, "git exited with code 128");
	push_report_failure("gatekeeper: go away\nfatal: Could not read from remote "
			    "repository.\n",
			    &err);
	assert_int_equal(err.class, ERR_NETWORK);
	assert_string_equal(err.text, "git: gatekeeper: go away");
}

TEST(a_full_disk_there_is_told_from_a_broken_repository_here)
{
	assert_int_equal(push_report_unpacking("error: remote unpack failed: unable to "
					       "create temporary object directory\n",
					       &err),
			 -1);
	assert_int_equal(err.class, ERR_DISK);
	assert_int_equal(
		push_report_unpacking("error: remote unpack failed: index-pack failed\n",
				      &err),
		0);
	assert_true(push_report_is_local("fatal: bad object 11\nerror: remote unpack "
					 "failed: eof before pack header\n",
					 &err));
	assert_true(text_starts_with(err.text, "local repository"));
	assert_false(push_report_is_local("remote: fatal: bad object 11\n", &err));
}

TEST(whoever_refuses_a_pack_for_its_content_will_do_so_again)
{
	struct push_line line;

	assert_true(
		git_message_is_unwanted("remote: error: object 11: missingEmail\n"
					"remote: fatal: fsck error in packed object\n"));
	assert_true(git_message_is_unwanted(
		"remote: fatal: pack exceeds maximum allowed size (1.00 KiB)\n"));
	assert_false(git_message_is_unwanted("remote: fatal: early EOF\n"));
	assert_true(next("!\ta:b\t[remote rejected] (unpacker error)\n", &line));
	assert_true(push_report_is_together(&line));
	assert_true(
		next("!\ta:b\t[remote rejected] (pre-receive hook declined)\n", &line));
	assert_true(push_report_is_together(&line));
	assert_true(next("!\ta:b\t[remote rejected] (hook declined)\n", &line));
	assert_false(push_report_is_together(&line));
	free(TAKE(said));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_that_are_none_are_passed_over),
		cmocka_unit_test(each_line_has_its_meaning),
		cmocka_unit_test(a_reason_is_short_and_harmless_whatever_was_sent),
		cmocka_unit_test(words_of_the_other_side_are_kept_without_its_progress),
		cmocka_unit_test(what_was_sent_is_read_from_the_progress),
		cmocka_unit_test(a_whole_failure_has_the_class_of_what_was_said),
		cmocka_unit_test(a_remedy_names_what_is_to_be_set),
		cmocka_unit_test(a_reason_that_is_in_no_list_is_told),
		cmocka_unit_test(a_full_disk_there_is_told_from_a_broken_repository_here),
		cmocka_unit_test(whoever_refuses_a_pack_for_its_content_will_do_so_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
