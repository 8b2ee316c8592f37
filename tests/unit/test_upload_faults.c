/*
 * What git dies of while it answers a reader: whose fault it is. See test_upload_pack.c,
 * too.
 */
#include "upload_pack_test.h"

static size_t number_at(const struct str *file, const char *at)
{
	size_t number = 0;

	for (int i = 0; i < 8; i++)
		number = number << 8 | (unsigned char)at[i];
	assert_true(number < file->len);
	return number;
}

/* The parents of all commits are none that it has. */
static void damage_commit_graph(void)
{
	enum { TREE = 20, RECORD = 36 };
	static const char path_of_it[] = "r.git/objects/info/commit-graph";
	AUTO_STR struct str graph = STR_INIT;

	must("git -C r.git commit-graph write --reachable && chmod u+w %s", path_of_it);
	assert_ok(file_read(root_fd, path_of_it, 1 << 20, &graph, &err));
	const char *entry = memmem(graph.data, graph.len, "CDAT", 4);
	size_t end = number_at(&graph, entry + 4 + 8 + 4);
	for (size_t at = number_at(&graph, entry + 4); at < end; at += RECORD)
		memcpy(graph.data + at + TREE, "\0\0\xff\xff", 4);
	write_file(path_of_it, graph.data, graph.len);
}

TEST(a_damaged_commit_graph_is_no_fault_of_the_request)
{
	char text[OID_MAX_TEXT];
	AUTO_FREE char *line = xasprintf("want %s", oid_text(&commits[9], text));
	bool is_bad = true;

	fill();
	damage_commit_graph();
	request.is_bad = &is_bad;
	command("command=fetch", line);
	assert_fails(upload_pack_open(&request, &pack, &err), ERR_CORRUPT);
	assert_non_null(strstr(err.text, "invalid parent position"));
	assert_false(is_bad);
	close_body();
}

/* As the kernel does it when memory runs out. If the client's history is cut short, git
 * says another word of the same program. */
TEST(that_what_makes_the_pack_was_killed_is_no_damage)
{
	static const char *const depths[] = { "", "deepen 1" };

	fill();
	must("mkdir bin && printf '#!/bin/sh\n"
	     "case \"$*\" in *pack-objects*) cat >/dev/null; kill -KILL $$;; esac\n"
	     "GIT_EXEC_PATH=%s/bin exec /usr/bin/git \"$@\"\n' >bin/git && "
	     "chmod +x bin/git",
	     root);
	AUTO_FREE char *before = xstrdup(getenv("PATH"));
	AUTO_FREE char *shimmed = xasprintf("%s/bin:%s", root, before);
	setenv("PATH", shimmed, 1);
	assert_ok(git_setup(root, &err));
	request.holds_back = true;
	for (size_t i = 0; i < ARRAY_SIZE(depths); i++) {
		want(&commits[9], depths[i], true);
		assert_fails(upload_pack_open(&request, &pack, &err), ERR_INTERNAL);
		assert_int_equal(err.sys_errno, ENOMEM);
		close_body();
	}
	setenv("PATH", before, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_damaged_commit_graph_is_no_fault_of_the_request),
		CASE(that_what_makes_the_pack_was_killed_is_no_damage),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
