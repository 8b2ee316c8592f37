#include "git_test.h"

#include "git/pack_prove.h"
#include "git/packs.h"

static const struct git_work work = { .guard_fd = -1 };

static int set_up(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	return run("git init -q --bare --initial-branch=main r.git");
}

#define PROVE_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, test_remove_root)

/* Of the only pack, in the repository's folder of packs; the caller frees. */
static char *name_of_pack(void)
{
	char *name = output_of("cd r.git/objects/pack && ls *.pack");

	name[strlen(name) - strlen(".pack\n")] = '\0';
	return name;
}

static int prove(const char *pack)
{
	AUTO_FREE char *path = xasprintf("%s/r.git", root);
	AUTO_REPO struct repo repo = REPO_INIT;

	assert_ok(repo_open(AT_FDCWD, path, &repo, &err));
	return pack_prove(&work, &repo, pack, &err);
}

/* Versions of some files, commits and a tag, in one pack with chains of deltas. */
static void make_history(unsigned commits_wanted, const char *repack)
{
	must("git init -q -b main w && cd w && "
	     "seq 500 >f && : >empty && git add . && git commit -qm 0 && "
	     "for i in $(seq %u); do echo $i >>f; seq $i >g$((i %% 7)); git add .; "
	     "git commit -qm $i; done && git tag -am t v1 && git push -q ../r.git main "
	     "v1",
	     commits_wanted);
	must("git -C r.git %s && chmod u+w r.git/objects/pack/*", repack);
}

TEST(each_object_of_a_pack_is_proved)
{
	make_history(30, "repack -adqf --depth=50");
	AUTO_FREE char *pack = name_of_pack();

	assert_ok(prove(pack));
}

TEST(deltas_may_name_their_bases_and_offsets_be_wide)
{
	make_history(30, "-c repack.usedeltabaseoffset=false repack -adqf --depth=50");
	AUTO_FREE char *pack = name_of_pack();

	assert_ok(prove(pack));
	must("cd r.git/objects/pack && "
	     "git index-pack --index-version=2,0x40 -o x.idx %s.pack >/dev/null && "
	     "mv -f x.idx %s.idx",
	     pack, pack);
	assert_ok(prove(pack));
}

TEST(so_is_a_pack_of_sha256)
{
	must("rm -rf r.git");
	assert_int_equal(setenv("GIT_DEFAULT_HASH", "sha256", 1), 0);
	must("git init -q --bare r.git");
	make_history(10, "repack -adqf --depth=50");
	assert_int_equal(unsetenv("GIT_DEFAULT_HASH"), 0);
	AUTO_FREE char *pack = name_of_pack();

	assert_ok(prove(pack));
}

/* Whole objects enough for several threads, and chains of deltas. */
TEST(threads_share_a_large_pack)
{
	must("seq 5000 | awk '{ print \"blob\\ndata \" length($1) \"\\n\" $1 }' | "
	     "git -C r.git fast-import --quiet && git -C r.git repack -adqk");
	AUTO_FREE char *pack = name_of_pack();

	assert_ok(prove(pack));
}

/* All but the digests at the end, which are not looked at here. An offset that leads into
 * the middle of an entry may find a size there that is too large to be proved here: then
 * Git judges the pack, and refuses it. */
static void assert_each_byte_counts(const char *pack, const char *end, size_t tail)
{
	AUTO_FREE char *path = xasprintf("%s/r.git/objects/pack/%s.%s", root, pack, end);
	AUTO_CLOSE int fd = open(path, O_RDWR | O_CLOEXEC);
	AUTO_STR struct str bytes = STR_INIT;

	assert_true(fd >= 0);
	assert_ok(file_read(AT_FDCWD, path, 1 << 20, &bytes, &err));
	for (size_t i = 0; i < bytes.len - tail; i++) {
		char other = bytes.data[i] ^ 1;
		assert_int_equal(pwrite(fd, &other, 1, (off_t)i), 1);
		err.class = ERR_NONE;
		int result = prove(pack);
		if (result == 1)
			must("! git -C r.git verify-pack objects/pack/%s.idx 2>/dev/null",
			     pack);
		else if (result != -1 || err.class != ERR_CORRUPT)
			fail_msg("byte %zu of %s is not looked at: %d, %s", i, end,
				 result, err.text);
		assert_int_equal(pwrite(fd, &bytes.data[i], 1, (off_t)i), 1);
	}
	assert_ok(prove(pack));
}

TEST(each_byte_of_a_pack_and_its_index_counts)
{
	make_history(3, "repack -adqf");
	AUTO_FREE char *pack = name_of_pack();

	assert_each_byte_counts(pack, "pack", 20);
	assert_each_byte_counts(pack, "idx", 40);
}

/* CRC and offset of two objects change places: each is whole, and none its name's. */
TEST(an_object_that_is_another_is_found)
{
	make_history(3, "repack -adqf");
	AUTO_FREE char *pack = name_of_pack();
	AUTO_FREE char *path = xasprintf("%s/r.git/objects/pack/%s.idx", root, pack);
	AUTO_STR struct str bytes = STR_INIT;
	const size_t names = 8 + 256 * 4;

	assert_ok(file_read(AT_FDCWD, path, 1 << 20, &bytes, &err));
	size_t count = (unsigned char)bytes.data[names - 1];
	for (size_t table = 0; table < 2; table++) {
		char *first = bytes.data + names + count * 20 + table * count * 4;
		char kept[4];
		memcpy(kept, first, 4);
		memcpy(first, first + 4, 4);
		memcpy(first + 4, kept, 4);
	}
	assert_ok(file_replace(AT_FDCWD, path, bytes.data, bytes.len, 0, &err));
	assert_fails(prove(pack), ERR_CORRUPT);
	assert_non_null(strstr(err.text, "is another than its name says"));
}

TEST(a_pack_that_was_cut_is_refused)
{
	make_history(3, "repack -adqf");
	AUTO_FREE char *pack = name_of_pack();

	must("truncate -s -40 r.git/objects/pack/%s.pack", pack);
	assert_fails(prove(pack), ERR_CORRUPT);
	must("truncate -s 10 r.git/objects/pack/%s.pack", pack);
	assert_fails(prove(pack), ERR_CORRUPT);
}

TEST(what_is_large_is_for_git)
{
	must("head -c 70000000 /dev/zero >zero && cd r.git && "
	     "git hash-object -w ../zero | git pack-objects -q objects/pack/pack "
	     ">/dev/null");
	AUTO_FREE char *pack = name_of_pack();

	assert_int_equal(prove(pack), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROVE_CASE(each_object_of_a_pack_is_proved),
		PROVE_CASE(deltas_may_name_their_bases_and_offsets_be_wide),
		PROVE_CASE(so_is_a_pack_of_sha256),
		PROVE_CASE(threads_share_a_large_pack),
		PROVE_CASE(each_byte_of_a_pack_and_its_index_counts),
		PROVE_CASE(an_object_that_is_another_is_found),
		PROVE_CASE(a_pack_that_was_cut_is_refused),
		PROVE_CASE(what_is_large_is_for_git),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
