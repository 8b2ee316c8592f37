#include "git_test.h"

#include <stdarg.h>
#include <sys/syscall.h>

#include "git/git_child.h"
#include "verify/verify_objects.h"

#include "listing_faults.h"

static const char *refused; /* a part of names that cannot be opened or looked at now */
static int refusal;         /* errno */

static bool is_refused(const char *path)
{
	if (!refused || !strstr(path, refused))
		return false;
	errno = refusal;
	return true;
}

/* The library's, as the next. */
int openat(int dir, const char *path, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	mode_t mode = (flags & O_CREAT) ? va_arg(args, mode_t) : 0;
	va_end(args);
	return is_refused(path) ? -1 : (int)syscall(SYS_openat, dir, path, flags, mode);
}

int fstatat(int dir, const char *restrict path, struct stat *restrict st, int flags)
{
	return is_refused(path) ? -1 : (int)syscall(SYS_newfstatat, dir, path, st, flags);
}

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

/* That says nothing of the files. */
TEST(what_git_could_not_look_at_stays)
{
	static const char *const deeds[] = {
		"kill -KILL $$",
		"echo 'fatal: mmap failed: Cannot allocate memory' >&2; exit 128",
		"echo 'fatal: x: Too many open files' >&2; exit 128",
	};
	static const char *const commands[] = { "multi-pack-index", "commit-graph" };
	AUTO_FREE char *before = xstrdup(getenv("PATH"));
	AUTO_FREE char *path = xasprintf("%s/bin:%s", root, before);

	make_derived();
	setenv("PATH", path, 1);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(deeds); i++) {
		must("PATH=${PATH#*:}; mkdir -p bin && cat >bin/git <<'E'\n#!/bin/sh\n"
		     "PATH=${PATH#*:}\n[ $1 = %s ] && { %s; }\nexec git \"$@\"\nE\n"
		     "chmod +x bin/git",
		     commands[i % 2], deeds[i / 2]);
		assert_ok(git_setup(root, &err));
		assert_int_equal(verify(), -1);
		assert_int_equal(err.class, ERR_INTERNAL);
	}
	setenv("PATH", before, 1);
	assert_ok(git_setup(root, &err));
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		must("cd d.git && test -s %s", files[i]);
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

static void refuse(const char *part, int code)
{
	refused = part;
	refusal = code;
}

TEST(what_a_machine_cannot_read_now_stays)
{
	static const char *const names[] = { "multi-pack-index", ".bitmap", ".rev",
					     "commit-graph" };

	make_derived();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		refuse(names[i], EMFILE);
		assert_fails(verify(), ERR_INTERNAL);
		assert_int_equal(err.sys_errno, EMFILE);
		must("cd d.git && test -s %s", files[i]);
	}
	refuse("HEAD", EIO); /* that is a word of its disk */
	assert_int_equal(verify_ends_with_digest(root_fd, "d.git/HEAD", 20, NULL, &err),
			 0);
	refuse("HEAD", EMFILE);
	assert_int_equal(verify_ends_with_digest(root_fd, "d.git/HEAD", 20, NULL, &err),
			 -1);
	refuse(NULL, 0);
}

/* Else it would be made anew for nothing. */
TEST(a_folder_that_cannot_be_listed_now_is_not_empty)
{
	make_derived();
	must("cd d.git && truncate -s 30 objects/pack/*.rev");
	unlisted = "/objects/pack";
	assert_fails(verify(), ERR_DISK);
	unlisted = NULL;
	refuse("objects/pack", ESTALE);
	assert_fails(verify(), ERR_DISK);
	refuse(NULL, 0);
	must("cd d.git && test -s objects/pack/*.rev");
	assert_ok(verify());
	must("cd d.git && ! test -e objects/pack/*.rev");
}

TEST(a_repository_that_cannot_be_looked_at_now_is_not_damaged)
{
	static const char *const parts[] = { "HEAD", "objects", "refs" };
	static const int codes[] = { ESTALE, ENOTCONN, ENOMEM };
	AUTO_REPO struct repo repo = REPO_INIT;

	make_derived();
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		for (size_t j = 0; j < ARRAY_SIZE(codes); j++) {
			refuse(parts[i], codes[j]);
			assert_int_equal(repo_open(root_fd, "d.git", &repo, &err), -1);
			assert_int_equal(err.sys_errno, codes[j]);
			assert_false(err_is_of_data(&err));
		}
	refuse("refs", ENOENT);
	assert_fails(repo_open(root_fd, "d.git", &repo, &err), ERR_CORRUPT);
	refuse(NULL, 0);
	assert_ok(repo_open(root_fd, "d.git", &repo, &err));
}

/* Objects may be borrowed from a file system that does not answer now. */
TEST(alternates_that_cannot_be_read_or_followed_now_stay)
{
	static const int codes[] = { EMFILE, EIO, EACCES, ESTALE };

	make_derived();
	must("mkdir -p lender/objects && "
	     "echo %s/lender/objects >d.git/objects/info/alternates",
	     root);
	assert_ok(verify());
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		refuse("info/alternates", codes[i]);
		assert_int_equal(verify(), -1);
		refuse("lender", codes[i]);
		assert_int_equal(verify(), -1);
		assert_non_null(strstr(err.text, "/lender/objects"));
		must("test -s d.git/objects/info/alternates");
	}
	refuse(NULL, 0);
	assert_ok(verify());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_is_sound_stays),
		CASE(what_is_damaged_goes_and_git_works_on),
		CASE(what_is_of_another_repository_goes),
		CASE(what_git_could_not_look_at_stays),
		CASE(alternates_that_lead_nowhere_go),
		CASE(what_a_machine_cannot_read_now_stays),
		CASE(a_folder_that_cannot_be_listed_now_is_not_empty),
		CASE(a_repository_that_cannot_be_looked_at_now_is_not_damaged),
		CASE(alternates_that_cannot_be_read_or_followed_now_stay),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
