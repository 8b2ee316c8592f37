/*
 * What the tests of pushes without git share: whether one was, and random histories, by
 * fast-import.
 */
#ifndef UNIT_PUSH_HISTORY_TEST_H
#define UNIT_PUSH_HISTORY_TEST_H

#include "push_test.h"

enum { BRANCHES = 5 };

static inline void assert_by_git(bool is_by_git)
{
	if (result.used_git != is_by_git)
		fail_msg("it was pushed %s git", is_by_git ? "without" : "by");
}

static inline void assert_sound(void)
{
	must("git -C dst.git fsck --full --strict >/dev/null 2>err || "
	     "{ cat err; false; }");
}

static inline unsigned roll(unsigned below)
{
	static unsigned state = 20240521;

	state = state * 1103515245u + 12345u;
	return (state >> 16) % below;
}

static inline void add_file(struct str *script)
{
	static const char *const modes[] = { "100644", "100755", "120000" };
	AUTO_FREE char *text = xasprintf("%u", roll(1000000));

	if (roll(12) == 0) {
		str_addf(script, "M 160000 %040u sub%u\n", 1 + roll(1000), roll(3));
		return;
	}
	if (roll(8) == 0) {
		str_addf(script, "D d%u\n", roll(3));
		return;
	}
	str_addf(script, "M %s inline d%u/e%u/f%u\ndata %zu\n%s\n", modes[roll(3)],
		 roll(3), roll(3), roll(9), strlen(text), text);
}

/* Of each branch: whether it is there, and whether this script has made a commit on it,
 * after which fast-import knows it by its name alone. */
struct branches {
	bool is_there[BRANCHES], is_touched[BRANCHES];
};

static inline void name_commit(struct str *script, const char *what,
			       const struct branches *branches, unsigned branch)
{
	str_addf(script, "%s refs/heads/b%u%s\n", what, branch,
		 branches->is_touched[branch] ? "" : "^0");
}

static inline void add_commit(struct str *script, struct branches *branches, int round)
{
	unsigned branch = roll(BRANCHES), other = roll(BRANCHES);
	bool was_there = branches->is_there[branch];

	str_addf(script, "commit refs/heads/b%u\ncommitter A <a@b> %d +0000\ndata 2\nc\n",
		 branch, 1700000000 + round);
	if (was_there && !branches->is_touched[branch])
		name_commit(script, "from", branches, branch);
	else if (!was_there && branches->is_there[other] && roll(4) > 0)
		name_commit(script, "from", branches, other);
	if (was_there && branches->is_there[other] && other != branch && roll(3) == 0)
		name_commit(script, "merge", branches, other);
	branches->is_there[branch] = branches->is_touched[branch] = true;
	for (unsigned i = 0; i < 1 + roll(4); i++)
		add_file(script);
	str_add_char(script, '\n');
	if (roll(5) > 0)
		return;
	str_addf(script, "tag v%d-%u\n", round, roll(100000));
	name_commit(script, "from", branches, branch);
	str_add(script, "tagger A <a@b> 1700000000 +0000\ndata 2\nt\n\n");
}

static inline void change_at_random(struct branches *branches, int round)
{
	AUTO_STR struct str script = STR_INIT;

	memset(branches->is_touched, 0, sizeof(branches->is_touched));
	for (unsigned i = 0; i < 1 + roll(3); i++)
		add_commit(&script, branches, round);
	assert_ok(file_replace(root_fd, "script", script.data, script.len, FILE_NO_SYNC,
			       &err));
	must("git -C r.git -c fastimport.unpackLimit=%d fast-import --quiet --force "
	     "<script",
	     round % 3 == 0 ? 0 : 100);
	if (round % 7 == 6) /* some branch goes back */
		must("cd r.git && git update-ref refs/heads/b%u $(git rev-list "
		     "--max-parents=0 --all | head -n 1)",
		     roll(BRANCHES));
	for (unsigned i = 0; i < BRANCHES; i++)
		branches->is_there[i] |=
			round % 7 == 6 && run("git -C r.git rev-parse -q --verify b%u "
					      ">dump 2>&1",
					      i) == 0;
	if (round % 10 == 9)
		must("git -C r.git repack -qad && git -C dst.git gc -q");
}

/* Git's way and ours bring the same, and nothing that we take for small is git's. */
static inline void push_random_histories(int rounds)
{
	struct branches branches = { 0 };
	int without = 0;

	must("rm r.git/objects/info/alternates && git init -q --bare by-git.git");
	set_spec("refs/*", "refs/*", true);
	for (int round = 0; round < rounds; round++) {
		change_at_random(&branches, round);
		assert_ok(push(TASK_ALL_REFS));
		without += !result.used_git;
		must("git -C r.git for-each-ref >a && git -C dst.git for-each-ref >b && "
		     "cmp a b");
		if (round % 10 == 9)
			assert_sound();
	}
	must("git -C r.git push -q --mirror %s/by-git.git && "
	     "git -C by-git.git rev-list --objects --all | sort >a && "
	     "git -C dst.git rev-list --objects --all | sort >b && cmp a b",
	     root);
	assert_sound();
	assert_int_equal(without, rounds);
}

#endif
