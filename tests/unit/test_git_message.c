/*
 * What stock git and ssh said when something failed, recorded by
 * tests/messages/record.py: each version has its own words, and each of them must be
 * understood. Gerrit's, which cannot be recorded, are as its source has them.
 */
#include "git_test.h"

#include <dirent.h>

#include "git/git_child.h"
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
			 { "site", SPEAKER_SITE },
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

TEST(a_damaged_commit_graph_is_damage)
{
	static const char *const said[] = {
		"fatal: invalid parent position 65535\n",
		"fatal: invalid commit position. commit-graph is likely corrupt\n",
		"fatal: commit-graph requires overflow generation data but has none\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(said); i++) {
		classify("child", said[i]);
		assert_int_equal(err.class, ERR_CORRUPT);
		assert_non_null(strstr(err.remedy, "commit-graph write"));
	}
}

TEST(what_git_says_of_a_working_tree_has_a_class)
{
	classify("child", "error: invalid path '.git/hooks/post-checkout'\n");
	assert_int_equal(err.class, ERR_CORRUPT);
	assert_non_null(strstr(err.remedy, "mirror.checkout"));
	classify("child", "error: unable to write file a/b\n");
	assert_int_equal(err.class, ERR_DISK);
	classify("child", "fatal: Unable to write new index file\n");
	assert_int_equal(err.class, ERR_DISK);
	classify("child", "fatal: unable to write file a/b: Input/output error\n");
	assert_non_null(strstr(err.remedy, "kernel log"));
	assert_true(err_is_of_data(&err));
}

/* The code tells a caller that the repository is not to blame, or that its disk is. */
TEST(what_git_lacked_has_a_code)
{
	static const struct {
		const char *said;
		enum err_class class;
		int code;
	} cases[] = {
		{ "fatal: mmap failed: Cannot allocate memory\n", ERR_INTERNAL, ENOMEM },
		{ "error: index-pack died of signal 9\nfatal: early EOF\n", ERR_INTERNAL,
		  ENOMEM },
		{ "error: pack-objects died of signal 9\n", ERR_INTERNAL, ENOMEM },
		{ "error: cannot fork() for index-pack: Resource temporarily "
		  "unavailable\n",
		  ERR_INTERNAL, EAGAIN },
		{ "error: unable to open x: Too many open files\n"
		  "fatal: bad object HEAD\n",
		  ERR_INTERNAL, EAGAIN },
		{ "error: unpack-objects died of signal 9\n", ERR_INTERNAL, ENOMEM },
		{ "error: pack-objects died of signal 9\n"
		  "fatal: git upload-pack: aborting due to possible corruption\n",
		  ERR_INTERNAL, ENOMEM },
		{ "error: --shallow-file died of signal 9\n"
		  "fatal: git upload-pack: aborting due to possible corruption\n",
		  ERR_INTERNAL, ENOMEM },
		{ "error: index-pack died of signal 11\n", ERR_INTERNAL, 0 },
		{ "error: pack-objects died of signal 7\n", ERR_INTERNAL, 0 },
		{ "fatal: loose object 12 is corrupt\n", ERR_CORRUPT, 0 },
		{ "fatal: unable to read x: Input/output error\n", ERR_DISK, EIO },
		{ "fatal: write error: No space left on device\n", ERR_DISK, 0 },
		{ "fatal: read error on input: Stale file handle\n", ERR_DISK, ESTALE },
		{ "error: cannot open packfile objects/pack/pack-1.pack: Stale file "
		  "handle\nerror: failed to traverse parents of commit 12\n",
		  ERR_DISK, ESTALE },
		{ "fatal: failed to read object 12: Transport endpoint is not "
		  "connected\nfatal: bad object HEAD\n",
		  ERR_DISK, ESTALE },
		{ "fatal: unable to read tree 12: No locks available\n", ERR_DISK,
		  ESTALE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		classify("child", cases[i].said);
		assert_int_equal(err.class, cases[i].class);
		assert_int_equal(err.sys_errno, cases[i].code);
	}
	classify("pack", "fatal: failed to read object 12: Stale file handle\n");
	assert_int_equal(err.class, ERR_DISK);
}

/* The destination's git may be who lacks it. */
TEST(what_git_lacked_in_a_push_is_not_said_to_be_lacking_here)
{
	static const char said[] = "remote: fatal: cannot fork: too many open files";

	err_set(&err, ERR_INTERNAL, "git exited with code 128");
	git_message_find(SPEAKER_GIT, said, &err);
	assert_int_equal(err.sys_errno, EAGAIN);
	push_report_failure(said, &err);
	assert_int_equal(err.sys_errno, 0);
	errno = EAGAIN;
	err_errno(&err, "cannot start git");
	push_report_failure("", &err);
	assert_int_equal(err.sys_errno, EAGAIN);
}

/* What stands for a shell there quotes the line that it does not run. */
TEST(an_account_without_a_shell_is_a_matter_of_configuration)
{
	static const char *const said[] = {
		"fatal: unrecognized command 'if test -d /p/objects; fi'\n",
		("Invalid command: 'if test -d /p/objects; fi'\n  You appear to be using "
		 "ssh to clone a git:// URL.\n"),
		"Forgejo: Unknown git command\n",
		"remote: \nremote: ERROR: Disallowed command\nremote: \n",
		"> GitLab: Unknown command: if test -d /p/objects\n",
		"FATAL: unknown git/gitolite command: 'info x'\n",
		"FATAL: suspicious characters loitering about 'if test -d /p; fi'\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(said); i++) {
		classify("command", said[i]);
		assert_int_equal(err.class, ERR_CONFIG);
		classify("ssh", said[i]); /* ended with 255 */
		assert_int_equal(err.class, ERR_CONFIG);
		assert_non_null(strstr(err.remedy, "adminUrl"));
	}
}

TEST(what_the_source_or_the_way_to_it_refuses_is_none_of_the_copy)
{
	static const char *const said[] = {
		"fatal: unable to access 'https://x/': The requested URL returned error: "
		"404\n",
		"fatal: repository 'https://x/a.git/' not found\n",
		"fatal: unable to access 'https://x/': server certificate verification "
		"failed\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(said); i++) {
		classify("child", said[i]);
		assert_int_equal(err.reason, REASON_AT_PEER);
	}
}

TEST(a_configuration_that_git_may_not_read_says_nothing_of_the_repository)
{
	classify("child",
		 "warning: unable to access '/d/gitconfig': Permission denied\n"
		 "fatal: unknown error occurred while reading the configuration files\n");
	assert_int_equal(err.class, ERR_DISK);
	classify("child", "fatal: unable to access 'config': Permission denied\n");
	assert_int_equal(err.class, ERR_CONFIG);
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

static bool is_blamed(const char *said)
{
	err_set(&err, ERR_CORRUPT, "git exited with code 128");
	return git_message_blames_client(said, &err);
}

/* With the client's own words in it, which could be those of damage. */
TEST(what_upload_pack_says_of_its_client_is_told_from_damage)
{
	assert_true(is_blamed("fatal: unknown capability 'is corrupt'\n"));
	assert_int_equal(err.class, ERR_CONFIG);
	assert_string_equal(err.text, "git: unknown capability 'is corrupt'");
	assert_true(git_message_may_be_version(&err));
	assert_true(is_blamed("fatal: unknown ref refs/x\n"));
	assert_false(git_message_may_be_version(&err));
	assert_true(is_blamed("fatal: unexpected line: '\nfatal: bad object\n'\n"));
	assert_true(is_blamed("warning: x\nfatal: Invalid deepen: deepen x\n"));
	assert_false(is_blamed("error: bad object fatal: unknown capability 'x'\n"));
	assert_false(is_blamed("fatal: bad object 1111\nunknown capability 'x'\n"));
	assert_false(is_blamed("fatal: unknown ref\n"));
	assert_int_equal(err.class, ERR_CORRUPT);
}

#define MARK "fatal: remote error: refrelay says "

/* Git at a secondary, whose primary cannot read its repository. */
TEST(what_another_site_reports_keeps_its_class)
{
	static const enum err_class classes[] = { ERR_CORRUPT, ERR_CONFIG, ERR_DISK,
						  ERR_INTERNAL };

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
		AUTO_STR struct str said = STR_INIT;
		struct err there;
		str_add(&said, "warning: slow\nfatal: remote error: ");
		err_set(&there, classes[i], "it is broken");
		err_remedy(&there, "mend it");
		git_reported_render(&there, &said);
		str_add(&said, "\nerror: exit 128\n");
		classify("site", said.data);
		assert_int_equal(err.class, classes[i]);
		assert_int_equal(err.reason, REASON_AT_PEER);
		assert_string_equal(err.text, "the other site says: it is broken");
		assert_string_equal(err.remedy, "there: mend it");
	}
	classify("site", "fatal: bad object 12\n");
	assert_int_equal(err.class, ERR_CORRUPT);
}

/* Nor has it a say in what becomes of our own work. */
TEST(no_site_reports_other_classes)
{
	for (int class = ERR_NONE; class <= ERR_INTERNAL; class ++) {
		AUTO_FREE char *said = xasprintf(MARK "%s: x\n", err_class_name(class));
		if (git_reported_may_be(class))
			continue;
		classify("site", said);
		assert_int_equal(err.class, ERR_INTERNAL);
		assert_int_equal(err.reason, REASON_NONE);
	}
}

TEST(a_stranger_reports_nothing)
{
	static const char *const said[] = {
		"error: invalid path 'remote error: refrelay says config: x'\n",
		"error: invalid path 'fatal: remote error: refrelay says config: x'\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(said); i++) {
		classify("site", said[i]);
		assert_int_equal(err.class, ERR_CORRUPT);
	}
	classify("child", MARK "config: x\n");
	assert_int_equal(err.class, ERR_INTERNAL);
	assert_int_equal(err.reason, REASON_NONE);
}

static void run_git(const struct git_remote *remote)
{
	static const char *const args[] = {
		"-c", "alias.x=!echo '" MARK "disk: full' >&2; exit 128;", "x", NULL
	};
	const struct git_work work = { .guard_fd = -1 };

	assert_int_not_equal(git_run(&(struct git_call){ .work = &work,
							 .repository = root,
							 .args = args,
							 .remote = remote },
				     &err),
			     0);
}

TEST(only_the_remote_of_a_site_is_one)
{
	const struct git_remote upstream = { .url = "/u" };
	const struct git_remote site = { .url = "/s", .is_site = true };

	assert_ok(git_setup(root, &err));
	run_git(&site);
	assert_int_equal(err.class, ERR_DISK);
	run_git(&upstream);
	assert_int_equal(err.class, ERR_INTERNAL);
	run_git(NULL);
	assert_int_equal(err.class, ERR_INTERNAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_git_2_39_and_ssh_say_is_understood),
		cmocka_unit_test(what_git_2_47_says_is_understood),
		cmocka_unit_test(what_gerrit_says_is_understood),
		cmocka_unit_test(a_gerrit_is_known_by_its_name),
		cmocka_unit_test(an_object_that_is_not_offered_any_more_has_a_reason),
		cmocka_unit_test(a_damaged_commit_graph_is_damage),
		cmocka_unit_test(what_git_says_of_a_working_tree_has_a_class),
		cmocka_unit_test(what_git_lacked_has_a_code),
		cmocka_unit_test(
			what_git_lacked_in_a_push_is_not_said_to_be_lacking_here),
		cmocka_unit_test(an_account_without_a_shell_is_a_matter_of_configuration),
		cmocka_unit_test(
			what_the_source_or_the_way_to_it_refuses_is_none_of_the_copy),
		cmocka_unit_test(
			a_configuration_that_git_may_not_read_says_nothing_of_the_repository),
		cmocka_unit_test(an_object_that_upload_pack_refuses_is_read),
		cmocka_unit_test(what_upload_pack_says_of_its_client_is_told_from_damage),
		cmocka_unit_test(what_another_site_reports_keeps_its_class),
		cmocka_unit_test(no_site_reports_other_classes),
		cmocka_unit_test(a_stranger_reports_nothing),
		CASE(only_the_remote_of_a_site_is_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
