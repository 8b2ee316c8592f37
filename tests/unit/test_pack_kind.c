#include "git_test.h"

#include "git/packs.h"

static enum object_kind kind_of(const char *name)
{
	struct oid oid;
	AUTO_FREE char *text = output_of("git -C r.git rev-parse '%s'", name);

	assert_true(oid_parse(text, 20, &oid));
	return pack_kind_of(repo_fd, &oid);
}

/* A repository of its own in which every object stands in one pack, most as deltas. */
static void pack_all(const char *options)
{
	must("rm r.git/objects/info/alternates && git clone -q r.git w 2>/dev/null; "
	     "cd w && git checkout -q -b main && seq 3000 >f && git add f && "
	     "git commit -qm 1 && for i in 1 2 3 4 5; do echo $i >>f; "
	     "git commit -qam $i; done && git tag -am t v1 && "
	     "git push -q ../r.git main v1");
	must("cd r.git && git repack -q -a -d -f --depth=50 && "
	     "ls objects/pack/*.idx >/dev/null && { %s; }",
	     options);
}

TEST(the_kind_of_each_object_in_a_pack_is_told)
{
	pack_all("true");
	assert_int_equal(kind_of("main"), OBJECT_COMMIT);
	assert_int_equal(kind_of("main~3"), OBJECT_COMMIT);
	assert_int_equal(kind_of("main^{tree}"), OBJECT_TREE);
	for (int i = 0; i < 6; i++) {
		AUTO_FREE char *name = xasprintf("main~%d:f", i);
		assert_int_equal(kind_of(name), OBJECT_BLOB);
	}
	assert_int_equal(kind_of("v1"), OBJECT_TAG);
	assert_int_equal(pack_kind_of(repo_fd, &commits[0]), OBJECT_NONE);
}

/* As in packs that a fetch completed: bases by name, wide offsets. */
TEST(other_forms_of_packs_are_read_too)
{
	pack_all("git -c repack.usedeltabaseoffset=false repack -q -a -d -f --depth=50");
	for (int i = 0; i < 6; i++) {
		AUTO_FREE char *name = xasprintf("main~%d:f", i);
		assert_int_equal(kind_of(name), OBJECT_BLOB);
	}
	must("cd r.git/objects/pack && p=$(ls *.pack) && chmod u+w * && "
	     "git index-pack --index-version=2,0x40 -o x.idx $p >/dev/null && "
	     "mv -f x.idx ${p%%pack}idx");
	assert_int_equal(kind_of("main"), OBJECT_COMMIT);
	assert_int_equal(kind_of("main~3:f"), OBJECT_BLOB);
}

TEST(a_damaged_index_or_pack_tells_nothing)
{
	struct oid oid;

	pack_all("true");
	AUTO_FREE char *text = output_of("git -C r.git rev-parse main");
	assert_true(oid_parse(text, 20, &oid));
	must("cd r.git/objects/pack && chmod u+w * && truncate -s 40 *.pack");
	pack_kind_of(repo_fd, &oid); /* whatever is still there */
	must("cd r.git/objects/pack && truncate -s 2 *.pack");
	assert_int_equal(pack_kind_of(repo_fd, &oid), OBJECT_NONE);
	must("cd r.git/objects/pack && truncate -s 1100 *.idx");
	assert_int_equal(pack_kind_of(repo_fd, &oid), OBJECT_NONE);
	must("cd r.git/objects/pack && for i in *.idx; do : >$i; done");
	assert_int_equal(pack_kind_of(repo_fd, &oid), OBJECT_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GIT_CASE(the_kind_of_each_object_in_a_pack_is_told),
		GIT_CASE(other_forms_of_packs_are_read_too),
		GIT_CASE(a_damaged_index_or_pack_tells_nothing),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
