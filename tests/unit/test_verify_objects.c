#include "git_test.h"

#include <dlfcn.h>

#include "git/git_child.h"
#include "verify/verify_objects.h"

static const struct git_work work = { .guard_fd = -1 };

/* A repository with all objects of its own in one pack. */
static void make_packed(void)
{
	assert_ok(git_setup(root, &err));
	must("git clone -q --bare %s p.git && cd p.git && git repack -qad && "
	     "chmod -R u+w objects",
	     store_path);
}

static int verify(const char *name)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;
	AUTO_FREE char *path = xasprintf("%s/%s", root, name);

	assert_ok(repo_open(AT_FDCWD, path, &repo, &err));
	assert_ok(ref_snapshot_read(repo.fd, 20, &refs, &err));
	return verify_objects(&work, &repo, &refs, &err);
}

TEST(a_whole_repository_is_whole)
{
	make_packed();
	assert_ok(verify("p.git"));
	must("git init -q --bare empty.git");
	assert_ok(verify("empty.git"));
}

TEST(many_packs_are_verified_in_batches)
{
	make_packed();
	must("cd p.git/objects/pack && p=$(ls *.pack) && for i in $(seq 60); do "
	     "ln $p pack-z$i.pack && ln ${p%%.pack}.idx pack-z$i.idx || exit 1; done");
	assert_ok(verify("p.git"));
	must("cd p.git/objects/pack && cp pack-z9.pack x && truncate -s -9 x && "
	     "mv x pack-z9.pack"); /* the last of all, in order of names */
	assert_fails(verify("p.git"), ERR_CORRUPT);
}

TEST(a_flipped_byte_in_a_pack_is_found)
{
	static const char *const seeks[] = { "9", "40", "400", "$(($size - 5))" };

	for (size_t i = 0; i < ARRAY_SIZE(seeks); i++) {
		make_packed();
		must("cd p.git && p=$(ls objects/pack/*.pack) && size=$(stat -c %%s $p) "
		     "&& "
		     "byte=$(od -An -tu1 -j %s -N 1 $p) && "
		     "printf \"\\\\$(printf %%o $((byte ^ 1)))\" | "
		     "dd of=$p bs=1 seek=%s conv=notrunc 2>/dev/null",
		     seeks[i], seeks[i]);
		assert_fails(verify("p.git"), ERR_CORRUPT);
		must("rm -rf p.git");
	}
}

/* Git says of it that it has not enough memory. */
TEST(an_object_that_is_said_to_be_huge_is_found)
{
	make_packed();
	must("cd p.git && printf '\\237\\377\\377\\377\\377\\377\\001' | "
	     "dd of=$(ls objects/pack/*.pack) bs=1 seek=12 conv=notrunc 2>/dev/null");
	assert_fails(verify("p.git"), ERR_CORRUPT);
	assert_non_null(strstr(err.text, "digest"));
}

/* From now on another git, which for that command does `deed`. */
static int verify_with(const char *command, const char *deed)
{
	AUTO_FREE char *before = xstrdup(getenv("PATH"));
	AUTO_FREE char *path = xasprintf("%s/bin:%s", root, before);

	must("mkdir -p bin && cat >bin/git <<'E'\n#!/bin/sh\nPATH=${PATH#*:}\n"
	     "case \" $* \" in *' %s '*) %s ;; esac\nexec git \"$@\"\nE\nchmod +x "
	     "bin/git",
	     command, deed);
	setenv("PATH", path, 1);
	assert_ok(git_setup(root, &err));
	int done = verify("p.git");
	setenv("PATH", before, 1);
	assert_ok(git_setup(root, &err));
	return done;
}

/* That git could not do its work says nothing of what it was to read. */
TEST(what_ends_git_from_outside_is_no_damage)
{
	static const struct {
		const char *deed;
		int code;
	} cases[] = {
		{ "kill -KILL $$", ENOMEM },
		{ "echo 'error: x is corrupt' >&2; kill -TERM $$", EINTR },
		{ "echo 'error: index-pack died of signal 9' >&2; exit 1", ENOMEM },
		{ "echo 'fatal: Out of memory, malloc failed (tried to allocate 9 "
		  "bytes)' >&2; exit 128",
		  ENOMEM },
		{ "echo 'fatal: unable to create thread: Resource temporarily "
		  "unavailable' >&2; exit 128",
		  EAGAIN },
	};
	static const char *const commands[] = { "verify-pack", "rev-list" };

	make_packed();
	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
		assert_int_equal(verify_with(commands[i % 2], cases[i / 2].deed), -1);
		assert_int_equal(err.class, ERR_INTERNAL);
		assert_int_equal(err.sys_errno, cases[i / 2].code);
	}
	assert_int_equal(verify_with("verify-pack", "kill -SEGV $$"), -1);
	assert_int_equal(err.sys_errno, 0);
}

static const char *packs_deed; /* before packs are read */

/* In the place of the program's; git itself could not write to what it reads. */
int git_run(const struct git_call *call, struct err *why)
{
	int (*real)(const struct git_call *, struct err *);

	*(void **)&real = dlsym(RTLD_NEXT, "git_run");
	if (packs_deed && strcmp(call->args[0], "verify-pack") == 0) {
		for (size_t i = 2; call->args[i]; i++)
			must("echo %s >>reads", call->args[i]);
		must("cd p.git && %s", packs_deed);
	}
	return real(call, why);
}

static int verify_during(const char *deed)
{
	packs_deed = deed;
	int done = verify("p.git");
	packs_deed = NULL;
	return done;
}

/* As on a server that folds small packs after each push: each time that git reads, those
 * that were listed are gone. */
TEST(a_large_pack_is_read_once_while_small_ones_are_folded)
{
	make_packed();
	must("cd p.git && head -c 2000000 /dev/urandom >../x && "
	     "git update-ref refs/tags/x $(git hash-object -w ../x) && git repack -qad "
	     "&& "
	     "touch $(ls objects/pack/*.pack | sed s/pack$/keep/) && "
	     "git update-ref refs/tags/y $(echo y | git hash-object -w --stdin) && "
	     "git repack -qd && seq 5 >../left");
	assert_ok(verify_during("if [ -s ../left ]; then sed -i 1d ../left && git "
				"update-ref refs/tags/$$ "
				"$(echo $$ | git hash-object -w --stdin) && "
				"git repack -qad; fi"));
	must("[ ! -s left ] && cd p.git/objects/pack && "
	     "p=$(basename $(find . -name '*.pack' -size +1000k) .pack) && "
	     "[ $(grep -c $p ../../../reads) -eq 1 ]");
}

TEST(an_index_without_a_pack_that_is_about_to_go_is_no_damage)
{
	make_packed();
	must("cd p.git/objects/pack && p=$(ls *.pack) && "
	     "cp ${p%%.pack}.idx pack-z.idx && cp $p pack-z.pack");
	assert_ok(verify_during("p=objects/pack/pack-z; [ -e $p.pack ] || rm -f $p.idx; "
				"rm -f $p.pack"));
}

TEST(packs_that_are_replaced_for_ever_are_no_damage)
{
	make_packed();
	assert_fails(verify_during("cd objects/pack && p=$(ls *.pack) && "
				   "mv $p pack-$$.pack && "
				   "mv ${p%.pack}.idx pack-$$.idx"),
		     ERR_CONFLICT);
}

TEST(a_pack_on_a_sector_that_cannot_be_read_is_lost)
{
	make_packed();
	assert_int_equal(verify_with("verify-pack",
				     "echo 'fatal: cannot pread pack file: "
				     "Input/output error' >&2; exit 128"),
			 -1);
	assert_int_equal(err.class, ERR_CORRUPT);
	assert_non_null(strstr(err.remedy, "git fsck"));
	assert_int_equal(verify_with("verify-pack",
				     "echo 'fatal: write error: No space left on "
				     "device' >&2; exit 128"),
			 -1);
	assert_int_equal(err.class, ERR_DISK);
}

TEST(a_pack_that_was_cut_is_found)
{
	make_packed();
	must("cd p.git && truncate -s -100 objects/pack/*.pack");
	assert_fails(verify("p.git"), ERR_CORRUPT);
}

TEST(a_damaged_index_is_found)
{
	make_packed();
	must("cd p.git && truncate -s 500 objects/pack/*.idx");
	assert_fails(verify("p.git"), ERR_CORRUPT);
}

TEST(a_deleted_pack_is_missed)
{
	make_packed();
	must("cd p.git && rm objects/pack/*.pack");
	assert_fails(verify("p.git"), ERR_CORRUPT);
	must("cd p.git && rm objects/pack/*.idx");
	assert_fails(verify("p.git"), ERR_CORRUPT);
	assert_non_null(strstr(err.text, "refs/"));
}

/* Its tip is there, but not all of what it reaches. */
TEST(a_missing_object_within_the_history_is_missed)
{
	char text[OID_MAX_TEXT];

	make_packed();
	must("cd p.git && mkdir ../o && git unpack-objects -q <objects/pack/*.pack; "
	     "mv objects/pack/* ../o && git unpack-objects -q <$(ls ../o/*.pack)");
	assert_ok(verify("p.git"));
	oid_text(&commits[20], text);
	must("rm p.git/objects/%.2s/%s", text, text + 2);
	assert_fails(verify("p.git"), ERR_CORRUPT);
}

/* Git walks on by what the graph says of it, without that commit. */
TEST(a_missing_commit_that_a_graph_names_is_missed)
{
	char text[OID_MAX_TEXT];

	make_packed();
	must("cd p.git && git commit-graph write --reachable && mkdir ../o && "
	     "mv objects/pack/* ../o && git unpack-objects -q <$(ls ../o/*.pack)");
	assert_ok(verify("p.git"));
	oid_text(&commits[20], text);
	must("rm p.git/objects/%.2s/%s", text, text + 2);
	must("git -C p.git rev-list --objects --all >/dev/null");
	assert_fails(verify("p.git"), ERR_CORRUPT);
}

/* To $f, the file of a blob; $other is that of another. */
static int verify_damaged_blob(const char *damage)
{
	make_packed();
	must("cd p.git && for i in 1 2; do o=$(echo $i | git hash-object -w --stdin) && "
	     "git update-ref refs/blobs/$i $o && "
	     "echo $o | sed 's,^..,objects/&/,' >../blob-$i; done");
	assert_ok(verify("p.git"));
	must("cd p.git && f=$(cat ../blob-1) && other=$(cat ../blob-2) && chmod u+w $f "
	     "&& %s",
	     damage);
	int result = verify("p.git");
	must("rm -rf p.git");
	return result;
}

/* No walk over the history reads one, and Git believes its name. */
TEST(a_damaged_loose_blob_is_found)
{
	static const char *const damages[] = {
		": >$f",
		"truncate -s -1 $f",
		"printf x >>$f",
		"printf xxxx | dd of=$f bs=1 seek=5 conv=notrunc 2>/dev/null",
		"cp $other $f",
	};

	for (size_t i = 0; i < ARRAY_SIZE(damages); i++) {
		assert_fails(verify_damaged_blob(damages[i]), ERR_CORRUPT);
		assert_non_null(strstr(err.text, "objects/"));
		assert_true(err.remedy[0]);
	}
}

TEST(a_loose_object_of_many_blocks_is_read_to_its_end)
{
	make_packed();
	must("cd p.git && head -c 300000 /dev/urandom >../big && "
	     "git -c core.looseCompression=0 hash-object -w ../big >../big-oid && "
	     "git update-ref refs/big $(cat ../big-oid)");
	assert_ok(verify("p.git"));
	must("cd p.git && f=objects/$(sed 's,^..,&/,' ../big-oid) && chmod u+w $f && "
	     "printf xxxx | dd of=$f bs=1 seek=250000 conv=notrunc 2>/dev/null");
	assert_fails(verify("p.git"), ERR_CORRUPT);
}

/* Files that are just being written, and whatever else stands there. */
TEST(other_files_are_no_loose_objects)
{
	make_packed();
	must("cd p.git/objects && mkdir -p aa bb zz && : >aa/tmp_obj_xyz && "
	     "mkfifo zz/pipe && : >bb/short && : >info/x");
	assert_ok(verify("p.git"));
}

TEST(a_verification_stops_when_it_is_asked_to)
{
	struct stop stop;
	AUTO_REPO struct repo repo = REPO_INIT;
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;
	const struct git_work stopped = { .guard_fd = -1, .stop = &stop };
	AUTO_FREE char *path = xasprintf("%s/p.git", root);

	make_packed();
	stop_init(&stop);
	stop_request(&stop);
	assert_ok(repo_open(AT_FDCWD, path, &repo, &err));
	assert_ok(ref_snapshot_read(repo.fd, 20, &refs, &err));
	assert_fails(verify_objects(&stopped, &repo, &refs, &err), ERR_CANCELED);
	stop_clear(&stop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_whole_repository_is_whole),
		CASE(many_packs_are_verified_in_batches),
		CASE(a_flipped_byte_in_a_pack_is_found),
		CASE(an_object_that_is_said_to_be_huge_is_found),
		CASE(what_ends_git_from_outside_is_no_damage),
		CASE(a_large_pack_is_read_once_while_small_ones_are_folded),
		CASE(an_index_without_a_pack_that_is_about_to_go_is_no_damage),
		CASE(packs_that_are_replaced_for_ever_are_no_damage),
		CASE(a_pack_on_a_sector_that_cannot_be_read_is_lost),
		CASE(a_pack_that_was_cut_is_found),
		CASE(a_damaged_index_is_found),
		CASE(a_deleted_pack_is_missed),
		CASE(a_missing_object_within_the_history_is_missed),
		CASE(a_missing_commit_that_a_graph_names_is_missed),
		CASE(a_damaged_loose_blob_is_found),
		CASE(a_loose_object_of_many_blocks_is_read_to_its_end),
		CASE(other_files_are_no_loose_objects),
		CASE(a_verification_stops_when_it_is_asked_to),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
