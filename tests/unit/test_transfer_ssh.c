/*
 * Pushing by ssh: a script stands for it, and for what others do at both ends meanwhile.
 */
#include "push_test.h"

/* Stands for ssh: runs the command here, then once what root/then says. */
static void use_ssh(void)
{
	AUTO_FREE char *to = xasprintf("ssh://host%s/dst.git", root);
	AUTO_FREE char *path = xasprintf("%s/bin:%s", root, getenv("PATH"));
	AUTO_FREE char *before = xstrdup(getenv("PATH"));

	must("mkdir bin && cat >bin/ssh <<'END'\n"
	     "#!/bin/sh\n"
	     "echo \"$@\" >>%s/asked\n"
	     "echo \"$SSH_AUTH_SOCK\" >>%s/agent\n"
	     "for command; do :; done\n"
	     "sh -c \"$command\"\n"
	     "status=$?\n"
	     "test ! -e %s/then || . %s/then\n"
	     "exit $status\n"
	     "END\nchmod +x bin/ssh",
	     root, root, root, root);
	setenv("PATH", path, 1);
	assert_ok(git_setup(root, &err));
	setenv("PATH", before, 1);
	set_url(URL_SSH, to);
}

TEST(by_ssh_it_is_the_same)
{
	char receive[] = "/usr/bin/git-receive-pack";
	char upload[] = "/usr/bin/git-upload-pack";

	use_ssh();
	remote.receive_pack = receive;
	remote.upload_pack = upload;
	setenv("SSH_AUTH_SOCK", "/agent", 1);
	set_refs("refs/heads/main=3");
	add_own_commit();
	assert_ok(push(TASK_ALL_REFS));
	assert_own_commit_arrived();
	must("grep -q /agent agent");
	must("grep -q \"host /usr/bin/git-upload-pack '%s/dst.git'\" asked && "
	     "grep -q \"host /usr/bin/git-receive-pack '%s/dst.git'\" asked",
	     root, root);
}

TEST(what_moves_between_look_and_push_is_looked_at_again)
{
	set_spec("refs/*", "refs/*", true);
	set_refs("refs/heads/main=9");
	assert_ok(push("refs/heads/main"));
	use_ssh();
	must("echo 'case $command in *upload*) rm %s/then; git -C %s/dst.git update-ref "
	     "refs/heads/main main~2;; esac' >then",
	     root, root);
	set_refs("refs/heads/main=3");
	assert_ok(push("refs/heads/main"));
	assert_arrived("refs/heads/main=3");
	assert_int_equal(result.pushes, 3);
}

TEST(what_could_not_be_looked_at_is_not_refused_for_good)
{
	set_spec("refs/*", "refs/*", true);
	set_refs("refs/heads/main=9");
	assert_ok(push("refs/heads/main"));
	use_ssh();
	char upload[] = "exit 255; ";
	remote.upload_pack = upload;
	set_refs("refs/heads/main=3 refs/heads/x=3");
	assert_fails(push("refs/heads/main refs/heads/x"), ERR_NETWORK);
	assert_status("refs/heads/x", REF_OK);
	assert_status("refs/heads/main", REF_NOT_ATTEMPTED);
	assert_true(result_of("refs/heads/main")->is_transient);
}

TEST(what_moves_all_the_time_is_left_for_later)
{
	set_spec("refs/*", "refs/*", true);
	set_refs("refs/heads/main=40");
	assert_ok(push("refs/heads/main"));
	use_ssh();
	must("echo 'case $command in *upload*) git -C %s/dst.git update-ref "
	     "refs/heads/main main~1;; esac' >then",
	     root);
	set_refs("refs/heads/main=3");
	assert_ok(push("refs/heads/main"));
	assert_arrived("refs/heads/main=36");
	assert_status("refs/heads/main", REF_REJECTED_REMOTE_CHANGED);
	assert_true(result_of("refs/heads/main")->is_transient);
}

/* It was seen before the local refs were read, so the newer value is pushed at last. */
TEST(a_newer_push_by_another_node_is_not_undone)
{
	set_spec("refs/*", "refs/*", true);
	set_refs("refs/heads/main=9");
	assert_ok(push("refs/heads/main"));
	use_ssh();
	must("echo 'case $command in *upload*) rm %s/then; git -C %s/r.git update-ref "
	     "refs/heads/main main~2 && git -C %s/dst.git update-ref refs/heads/main "
	     "main~6;; esac' >then",
	     root, root, root);
	set_refs("refs/heads/main=5");
	assert_ok(push("refs/heads/main"));
	assert_arrived("refs/heads/main=3");
	assert_status("refs/heads/main", REF_UP_TO_DATE);
}

TEST(a_value_that_is_not_shown_is_not_replaced)
{
	set_spec("refs/*", "refs/*", true);
	set_refs("refs/hidden/x=9");
	assert_ok(push("refs/hidden/x"));
	must("git -C dst.git config uploadpack.hideRefs refs/hidden");
	set_refs("refs/hidden/x=3");
	assert_ok(push("refs/hidden/x"));
	assert_status("refs/hidden/x", REF_REJECTED_NONFASTFORWARD);
	assert_non_null(strstr(result_of("refs/hidden/x")->text, "does not show"));
	assert_arrived("refs/hidden/x=9");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PUSH_CASE(by_ssh_it_is_the_same),
		PUSH_CASE(what_moves_between_look_and_push_is_looked_at_again),
		PUSH_CASE(what_could_not_be_looked_at_is_not_refused_for_good),
		PUSH_CASE(what_moves_all_the_time_is_left_for_later),
		PUSH_CASE(a_newer_push_by_another_node_is_not_undone),
		PUSH_CASE(a_value_that_is_not_shown_is_not_replaced),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
