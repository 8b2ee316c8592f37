#include "git_test.h"

#include "git/git_child.h"
#include "verify/verify_objects.h"

static const struct git_work work = { .guard_fd = -1 };

/* A repository with one of each. */
static void make_derived(void)
{
	assert_ok(git_setup(root, &err));
	must("rm -rf d.git && git clone -q --bare %s d.git && cd d.git && "
	     "git -c pack.writeReverseIndex=true repack -qadb && "
	     "git multi-pack-index write && git commit-graph write --reachable && "
	     "chmod -R u+w objects",
	     store_path);
}

static int verify(void)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	AUTO_FREE char *path = xasprintf("%s/d.git", root);

	assert_ok(repo_open(AT_FDCWD, path, &repo, &err));
	return verify_derived(&work, &repo, &err);
}

static const char *const files[] = { "objects/pack/multi-pack-index",
				     "objects/pack/*.bitmap", "objects/pack/*.rev",
				     "objects/info/commit-graph" };

TEST(what_is_sound_stays)
{
	make_derived();
	assert_ok(verify());
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		must("cd d.git && test -s %s", files[i]);
}

TEST(what_is_damaged_goes_and_git_works_on)
{
	static const char *const ways[] = {
		"truncate -s 0 $f",
		"truncate -s 30 $f",
		"printf XXXX | dd of=$f bs=1 seek=20 conv=notrunc 2>/dev/null",
		"rm $f && mkdir -p $f/x",
		"ln -sf /nonexistent $f",
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		for (size_t way = 0; way < ARRAY_SIZE(ways); way++) {
			make_derived();
			must("cd d.git && f=$(echo %s) && %s", files[i], ways[way]);
			assert_ok(verify());
			must("cd d.git && f=$(echo %s) && test ! -e $f && test ! -L $f",
			     files[i]);
			must("git -C d.git fsck --full >/dev/null 2>&1 && "
			     "ls d.git/objects/pack/*.pack >/dev/null");
		}
}

/* Each of them is whole by itself. */
TEST(what_is_of_another_repository_goes)
{
	static const char *const paths[] = { "objects/pack/multi-pack-index",
					     "objects/info/commit-graph" };

	make_derived();
	must("git init -q --bare o.git && cd o.git && "
	     "c=$(git commit-tree -m other $(git mktree </dev/null)) && "
	     "git update-ref refs/heads/main $c && git repack -qad && "
	     "git multi-pack-index write && git commit-graph write --reachable");
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		must("cp -f o.git/%s d.git/%s", paths[i], paths[i]);
		assert_ok(verify());
		must("test ! -e d.git/%s", paths[i]);
	}
}

TEST(alternates_that_lead_nowhere_go)
{
	make_derived();
	must("echo '# nothing' >d.git/objects/info/alternates");
	assert_ok(verify());
	must("test -e d.git/objects/info/alternates && "
	     "echo /nonexistent >d.git/objects/info/alternates");
	assert_ok(verify());
	must("test ! -e d.git/objects/info/alternates");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_is_sound_stays),
		CASE(what_is_damaged_goes_and_git_works_on),
		CASE(what_is_of_another_repository_goes),
		CASE(alternates_that_lead_nowhere_go),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
