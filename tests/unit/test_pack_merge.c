#include "pack_faults.h"

#include "git/pack_merge.h"

/* In copy.git; p packs the objects whose names it reads, and prints the pack's name. */
#define COPY                                                                             \
	"cd copy.git && p() { git -C ../w pack-objects -q --window=0 \"$@\" "            \
	"\"$PWD/objects/pack/pack\"; }; set -e; "

/* A copy of w, each of whose objects is in a pack of its own. */
static int make_packs(void **state)
{
	memset(steps, 0, sizeof(steps));
	if (make_work(state) != 0)
		return -1;
	must(WORK "for i in 1 2 3; do echo $i >d/g; c; done; git tag -am t t");
	must("git init -q --bare -b main copy.git && " COPY
	     "git -C ../w cat-file --batch-all-objects --batch-check='%%(objectname)' "
	     ">../all; "
	     "while read -r oid; do echo $oid | p >/dev/null; done <../all; "
	     "git update-ref refs/heads/main $(git -C ../w rev-parse main); "
	     "git update-ref refs/tags/t $(git -C ../w rev-parse t)");
	return 0;
}

#define PACKS_CASE(name)                                                                 \
	cmocka_unit_test_setup_teardown(name, make_packs, test_remove_root)

static size_t objects_count(void)
{
	AUTO_FREE char *text = output_of("wc -l <all");

	return strtoul(text, NULL, 10);
}

static size_t packs_count(void)
{
	AUTO_FREE char *text =
		output_of("find copy.git/objects/pack -name '*.pack' | wc -l");

	return strtoul(text, NULL, 10);
}

static int merge(void)
{
	AUTO_REPO struct repo repo = REPO_INIT;

	open_at("copy.git", &repo);
	return pack_merge(&repo, &err);
}

/* Nothing is lost, and each index is what git would have made of its pack. */
static void assert_whole(void)
{
	must(COPY "git cat-file --batch-all-objects --batch-check='%%(objectname)' | "
		  "cmp - ../all; "
		  "git fsck --strict --full >../fsck 2>&1; "
		  "for pack in objects/pack/*.pack; do git index-pack -o ../x.idx $pack "
		  ">../name; cmp ../x.idx ${pack%%pack}idx; rm -f ../x.idx; "
		  "[ $(stat -c %%a $pack ${pack%%pack}idx | sort -u) = 444 ]; done; "
		  "[ -z \"$(find . -name 'tmp_*')\" ]");
}

TEST(small_packs_become_one_and_nothing_is_lost)
{
	size_t count = objects_count();
	AUTO_REPO struct repo repo = REPO_INIT;

	assert_int_equal(packs_count(), count);
	open_at("copy.git", &repo);
	assert_int_equal(pack_merge_count(&repo), count);
	assert_int_equal(merge(), count);
	assert_int_equal(packs_count(), 1);
	assert_whole();
	assert_int_equal(merge(), 0);
	assert_int_equal(packs_count(), 1);
}

TEST(what_several_packs_have_is_there_once)
{
	must(COPY "{ head -n 3 ../all | p; sed -n 2,6p ../all | p; } >/dev/null");
	assert_int_equal(merge(), objects_count() + 2);
	assert_int_equal(packs_count(), 1);
	assert_whole();
	must(COPY "[ $(git show-index <$(echo objects/pack/*.idx) | wc -l) = %zu ]",
	     objects_count());
}

/* The pack that has all has the name that the new one gets. */
TEST(the_one_that_has_all_stays)
{
	assert_int_equal(merge(), objects_count());
	must(COPY "head -n 1 ../all | p >/dev/null");
	assert_int_equal(packs_count(), 2);
	assert_int_equal(merge(), 2);
	assert_int_equal(packs_count(), 1);
	assert_whole();
}

TEST(deltas_are_left_alone)
{
	must(WORK "seq 1 2000 >d/long; c; seq 2 2001 >d/long; c");
	must(COPY
	     "{ git -C ../w rev-parse main:d/long; git -C ../w rev-parse main~:d/long; "
	     "} >../two; p --window=10 --depth=10 <../two >../deltas; "
	     "git -C ../w cat-file --batch-all-objects "
	     "--batch-check='%%(objectname)' >../now; "
	     "grep -vxFf ../two ../now | grep -vxFf ../all | while read -r oid; do "
	     "echo $oid | p >/dev/null; done; mv ../now ../all; "
	     "git verify-pack -v objects/pack/pack-$(cat ../deltas).idx | "
	     "grep -q 'chain length = 1'");
	assert_int_equal(merge(), objects_count() - 2);
	assert_int_equal(packs_count(), 2);
	must(COPY "[ -e objects/pack/pack-$(cat ../deltas).pack ]");
	assert_whole();
}

TEST(what_is_damaged_or_has_more_beside_it_is_left_alone)
{
	size_t count = objects_count();

	must(COPY "flip() { byte=$(od -An -tu1 -j $2 -N 1 $1); "
		  "printf \\\\$(printf %%03o $((255 - byte))) |"
		  " dd of=$1 bs=1 seek=$2 conv=notrunc status=none; }; "
		  "set -- objects/pack/*.pack; touch ${1%%pack}keep ${2%%pack}rev "
		  "${3%%pack}promisor; chmod u+w $4 ${5%%pack}idx ${6%%pack}idx; "
		  "flip $4 14; flip ${5%%pack}idx 1060; flip ${6%%pack}idx 1040; "
		  "ls -l $1 $2 $3 $4 $5 $6 >../before");
	assert_int_equal(merge(), count - 6);
	assert_int_equal(packs_count(), 7);
	must(COPY "cut -d/ -f3 ../before | while read -r name; do "
		  "[ -e objects/pack/$name ]; done");
}

TEST(what_an_index_of_several_packs_may_name_is_left_alone)
{
	size_t count = objects_count();

	must(COPY "git multi-pack-index write");
	assert_int_equal(merge(), 0);
	assert_int_equal(packs_count(), count);
	must(COPY "touch -d '+1 hour' $(ls objects/pack/*.pack | head -n 3)");
	assert_int_equal(merge(), 3);
	assert_int_equal(packs_count(), count - 2);
}

/* What came is no pack without its index, or is one whole: then it may stay. */
TEST(a_failure_leaves_all_that_was)
{
	size_t count = objects_count();

	must("ls copy.git/objects/pack | sort >before");

	for (int which = 0; which < STEPS; which++)
		for (int at = 1; at <= 2; at++) {
			failures = 0;
			steps[which] = at;
			assert_int_equal(merge(), -1);
			steps[which] = 0;
			assert_int_equal(failures, 1);
			must("ls copy.git/objects/pack | sort >after");
			must("comm -23 before after >lost && [ ! -s lost ]");
			must("cd copy.git/objects/pack && "
			     "comm -13 ../../../before ../../../after | xargs rm -f --");
			assert_whole();
		}
	assert_int_equal(merge(), count);
	assert_whole();
}

TEST(sha256_is_left_alone)
{
	must("git init -q --bare --object-format=sha256 other.git");
	AUTO_REPO struct repo repo = REPO_INIT;
	open_at("other.git", &repo);
	assert_int_equal(pack_merge(&repo, &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PACKS_CASE(small_packs_become_one_and_nothing_is_lost),
		PACKS_CASE(what_several_packs_have_is_there_once),
		PACKS_CASE(the_one_that_has_all_stays),
		PACKS_CASE(deltas_are_left_alone),
		PACKS_CASE(what_is_damaged_or_has_more_beside_it_is_left_alone),
		PACKS_CASE(what_an_index_of_several_packs_may_name_is_left_alone),
		PACKS_CASE(a_failure_leaves_all_that_was),
		PACKS_CASE(sha256_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
