#include "sync_test.h"

#include "git/checksum.h"
#include "git/fence.h"
#include "pull/copy_record.h"

#include "listing_faults.h"

static int sync_as(bool is_suspect, bool is_rebuild)
{
	return sync_by((struct sync_request){ .is_suspect = is_suspect,
					      .is_rebuild = is_rebuild });
}

/* The checksum that was proved, from the copy's own refs. */
static void assert_sum(void)
{
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;
	AUTO_CLOSE int fd = openat(root_fd, "here/a.git", O_RDONLY | O_DIRECTORY);
	struct checksum sum;

	assert_ok(ref_snapshot_read(fd, 20, &refs, &err));
	checksum_of(&refs, &sum);
	assert_true(checksum_equal(&sum, &result.sum));
}

TEST(the_checksum_is_proved_also_when_nothing_had_to_change)
{
	assert_ok(sync_as(false, false));
	assert_int_equal(result.outcome, SYNC_CREATED);
	assert_sum();
	usleep(30000); /* stamps are old enough after that */
	assert_ok(sync_as(true, false));
	assert_int_equal(result.outcome, SYNC_UNCHANGED);
	assert_sum();
	assert_ok(sync_as(false, false)); /* by the record alone */
	assert_int_equal(result.outcome, SYNC_UNCHANGED);
	assert_sum();
}

/* Rewrites the record as if the copy had been proved as it looks now. */
static void record_as_it_is(void)
{
	AUTO_CLOSE int fd = openat(root_fd, "here/a.git", O_RDONLY | O_DIRECTORY);
	AUTO_FREE char *url = source_url(source, "a", &err);
	struct fingerprint there_now, here_now;

	usleep(30000);
	assert_ok(source_look(source, "a", &there_now, &err));
	assert_ok(fingerprint_take(fd, FINGERPRINT_COPY, &here_now, &err));
	assert_ok(
		copy_record_write(fd,
				  &(struct copy_proof){ .source = url,
							.sum = &result.sum,
							.source_fingerprint = &there_now,
							.copy_fingerprint = &here_now },
				  &err));
}

TEST(a_suspect_copy_is_looked_through_in_spite_of_its_record)
{
	assert_ok(sync_as(false, false));
	must("rm -f here/a.git/objects/pack/*");
	record_as_it_is();
	assert_ok(sync_as(false, false));
	assert_int_equal(result.outcome, SYNC_UNCHANGED); /* that is what a record is */
	assert_ok(sync_as(true, false));
	assert_int_equal(result.outcome, SYNC_UPDATED);
	assert_equal_and_whole();
}

TEST(a_rebuilt_copy_is_new_and_the_old_one_is_in_the_trash)
{
	assert_ok(sync_as(false, false));
	must("echo mark >here/a.git/mark");
	assert_ok(sync_as(false, true));
	assert_int_equal(result.outcome, SYNC_CREATED);
	assert_sum();
	assert_equal_and_whole();
	must("test ! -e here/a.git/mark");
	must("grep -q mark here/.refrelay/trash/*a.git/mark");
	must("test -z \"$(ls here/.refrelay/staging)\"");
}

/* Whatever is broken in it: HEAD, its config, the fence itself. */
TEST(a_copy_that_cannot_be_opened_is_rebuilt)
{
	assert_ok(sync_as(false, false));
	must("rm here/a.git/HEAD && echo '[' >here/a.git/config && "
	     "echo x >here/a.git/refrelay/fence");
	assert_fails(sync_as(false, false), ERR_CORRUPT);
	assert_int_equal(count_trash(), 0);
	assert_ok(sync_as(false, true));
	assert_equal_and_whole();
	assert_int_equal(count_trash(), 1);
}

TEST(what_is_not_there_is_simply_made_by_a_rebuild)
{
	assert_ok(sync_as(false, true));
	assert_int_equal(result.outcome, SYNC_CREATED);
	assert_equal_and_whole();
	assert_int_equal(count_trash(), 0);
}

/* A later lease holder has been at the copy: ours may not replace what it did. */
TEST(a_rebuild_gives_way_to_a_higher_fence)
{
	assert_ok(sync_as(false, false));
	must("echo 9000000000000000000 >here/a.git/refrelay/fence && "
	     "echo mark >here/a.git/mark");
	struct sync_request request = {
		.source = source, .root = here, .name = "a", .is_rebuild = true
	};
	assert_fails(job_run(&(struct job_request){ .leases = leases,
						    .kind = KIND_REPOSITORY,
						    .name = "a",
						    .operation = "sync",
						    .run = work,
						    .arg = &request },
			     &err),
		     ERR_LOST);
	must("test -e here/a.git/mark");
	assert_int_equal(count_trash(), 0);
}

/* A rebuild that cannot read its source leaves the old copy where it is. */
TEST(a_rebuild_that_fails_changes_nothing)
{
	assert_ok(sync_as(false, false));
	must("echo mark >here/a.git/mark && rm -r there/a.git/objects/??");
	assert_int_equal(sync_as(false, true), -1);
	must("test -e here/a.git/mark");
	assert_int_equal(count_trash(), 0);
	must("test -z \"$(ls here/.refrelay/staging)\"");
}

static const char *const ruins[] = {
	"rm HEAD",
	": >HEAD",
	"rm -r objects",
	"rm -r ./* && mkdir x",
	"rm -r refs && mkfifo refs",
	"mv objects/pack o && ln -s /nonexistent objects/pack",
	"rm config",
	"git config core.worktree /nonexistent",
	"git config extensions.partialClone origin",
	"git config remote.origin.promisor true",
	"chmod u+w objects/pack/*.pack && truncate -s 50 objects/pack/*.pack",
};

TEST(a_copy_that_is_damaged_is_made_anew_in_the_same_job)
{
	for (size_t i = 0; i < ARRAY_SIZE(ruins); i++) {
		must("rm -rf here/a.git");
		assert_ok(mend());
		assert_int_equal(result.outcome, SYNC_CREATED);
		must("git -C there/a.git update-ref refs/heads/n%zu main && "
		     "cd here/a.git && %s",
		     i, ruins[i]);
		assert_ok(mend());
		assert_true(result.was_rebuilt);
		assert_equal_and_whole();
		assert_int_equal(count_trash(), i + 1);
	}
}

TEST(what_stands_in_the_place_of_a_copy_goes_to_the_trash)
{
	static const char *const others[] = { "touch here/a.git", "mkfifo here/a.git",
					      "ln -s /nonexistent here/a.git" };

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		must("rm -rf here/a.git && %s", others[i]);
		assert_ok(mend());
		assert_equal_and_whole();
		assert_int_equal(count_trash(), i + 1);
	}
}

TEST(a_repository_of_another_hash_is_for_a_person)
{
	must("git init -q --bare --object-format=sha256 here/a.git");
	assert_fails(mend(), ERR_CONFLICT);
	assert_int_equal(count_trash(), 0);
}

/* A disk that goes on failing must not have everything brought again and again. */
TEST(a_copy_is_not_made_anew_before_it_may_be)
{
	assert_ok(mend());
	must("rm here/a.git/HEAD && git -C there/a.git update-ref refs/heads/new main");
	assert_fails(sync_by((struct sync_request){ .mends = true }), ERR_CORRUPT);
	assert_int_equal(count_trash(), 0);
	must("test -e here/a.git/objects");
}

/* The fault is not the copy's: it stays as it is. */
TEST(a_source_that_is_damaged_costs_no_copy)
{
	assert_ok(mend());
	must("echo mark >here/a.git/mark && cd there/a.git && git update-ref "
	     "refs/heads/new $(git commit-tree -m new main^{tree}) && "
	     "rm -r objects/$(git rev-parse new | cut -c 1-2) && "
	     "git config transfer.hideRefs refs/tags");
	assert_int_equal(mend(), -1);
	must("test -e here/a.git/mark && git -C here/a.git config transfer.hideRefs "
	     ">/dev/null");
	assert_int_equal(count_trash(), 0);
}

/* Somebody pushed to the copy, and then its disk lost something. */
TEST(a_damaged_copy_with_commits_of_its_own_is_held)
{
	assert_ok(mend());
	must("cd here/a.git && git update-ref refs/heads/mine "
	     "$(git commit-tree -m mine main^{tree}) && rm config && "
	     "git -C ../../there/a.git update-ref refs/heads/new main");
	assert_ok(mend());
	assert_int_equal(result.outcome, SYNC_HELD);
	assert_non_null(strstr(result.held_reason, "commits that the source lacks"));
	free(result.held_reason);
	must("git -C here/a.git rev-parse -q --verify mine >/dev/null");
	assert_ok(sync_by((struct sync_request){
		.mends = true, .may_rebuild = true, .is_forced = true }));
	assert_equal_and_whole();
	assert_int_equal(count_trash(), 1);
}

static int sync_here(bool is_forced)
{
	return sync_by((struct sync_request){
		.mends = true, .may_rebuild = true, .is_forced = is_forced });
}

static void assert_held(const char *reason)
{
	assert_int_equal(result.outcome, SYNC_HELD);
	assert_non_null(strstr(result.held_reason, reason));
	free(TAKE(result.held_reason));
}

static void add_stranger(const char *branch)
{
	must("cd here/a.git && git update-ref refs/heads/%s "
	     "$(git commit-tree -m %s main^{tree})",
	     branch, branch);
}

/* The primary may be away for long between the word of a person and the sync. */
TEST(what_a_stranger_adds_to_what_was_held_is_held_in_spite_of_force)
{
	assert_ok(mend());
	add_stranger("one");
	assert_ok(sync_here(false));
	assert_held("refs/heads/one");
	add_stranger("two");
	assert_ok(sync_here(true));
	assert_held("commits that the source lacks");
	must("git -C here/a.git rev-parse -q --verify two >/dev/null");
	assert_ok(sync_here(true)); /* nobody has read that yet */
	assert_held("commits that the source lacks");
	assert_ok(sync_here(false));
	assert_held("commits that the source lacks");
	assert_ok(sync_here(true)); /* of both */
	assert_int_equal(result.outcome, SYNC_UPDATED);
	assert_equal_and_whole();
	must("! test -e here/a.git/refrelay/held");
	add_stranger("three"); /* nobody was asked of it */
	assert_ok(sync_here(true));
	assert_equal_and_whole();
}

/* As does a run that a person waits for. */
TEST(a_single_run_that_is_forced_holds_nothing)
{
	assert_ok(mend());
	add_stranger("one");
	assert_ok(sync_here(false));
	assert_held("refs/heads/one");
	add_stranger("two");
	assert_ok(sync_by((struct sync_request){ .is_forced = true }));
	assert_equal_and_whole();
}

static void tag_there(int count)
{
	must("cd there/a.git && for i in $(seq %d); do git update-ref refs/tags/t$i "
	     "main; "
	     "done",
	     count);
}

static void untag_there(int first, int last)
{
	must("cd there/a.git && for i in $(seq %d %d); do git tag -d t$i; done "
	     ">/dev/null",
	     first, last);
}

TEST(more_deletions_than_were_held_are_held_in_spite_of_force)
{
	tag_there(60);
	assert_ok(mend());
	untag_there(1, 30);
	assert_ok(sync_here(false));
	assert_held("30 of ");
	untag_there(31, 40);
	assert_ok(sync_here(true));
	assert_held("40 of ");
	tag_there(15); /* fewer than were held at first */
	assert_ok(sync_here(true));
	assert_int_equal(result.outcome, SYNC_UPDATED);
	assert_equal_and_whole();
}

TEST(another_share_of_refs_may_be_deleted_at_once)
{
	tag_there(60);
	assert_ok(mend());
	untag_there(1, 30);
	assert_ok(sync_by((struct sync_request){ .delete_share = 0.4 }));
	assert_held("30 of ");
	assert_ok(sync_by((struct sync_request){ .delete_share = 0.6 }));
	assert_int_equal(result.outcome, SYNC_UPDATED);
	assert_equal_and_whole();
}

/* First as that of a copy of a site, which tells no fingerprint of its own. */
static enum copy_stamps look_at_record(bool is_first)
{
	AUTO_CLOSE int fd = openat(root_fd, "here/a.git", O_RDONLY | O_DIRECTORY);
	AUTO_RECORD struct copy_record record = { 0 };

	copy_record_read(fd, &record);
	if (is_first) {
		record.source_fingerprint[0] = '\0';
		copy_record_renew(fd, &record);
	}
	return copy_record_look(&record, fd);
}

TEST(a_held_copy_hides_what_its_source_hides_and_is_as_its_record_says)
{
	tag_there(60);
	assert_ok(mend());
	assert_int_equal(look_at_record(true), COPY_STAMPS_SAME);
	untag_there(1, 30);
	for (int i = 40; i < 42; i++) {
		must("git -C there/a.git config transfer.hideRefs refs/tags/t%d", i);
		assert_ok(sync_here(false));
		assert_held("30 of ");
		must("git -C here/a.git config --get-all transfer.hideRefs >.hidden && "
		     "test \"$(cat .hidden)\" = \"$(seq -f refs/tags/t%%g 40 %d)\"",
		     i);
		assert_int_equal(look_at_record(false), COPY_STAMPS_SAME);
	}
	assert_ok(sync_here(true));
	assert_equal_and_whole();
	must("test $(git -C here/a.git config --get-all transfer.hideRefs) = "
	     "refs/tags/t41");
}

/* Nobody can tell what was held: a person is asked again. */
TEST(a_damaged_note_of_what_was_held_permits_nothing)
{
	assert_ok(mend());
	add_stranger("one");
	assert_ok(sync_here(false));
	assert_held("refs/heads/one");
	must("echo >here/a.git/refrelay/held");
	assert_ok(sync_here(true));
	assert_held("refs/heads/one");
	assert_ok(sync_here(false));
	assert_held("refs/heads/one");
	assert_ok(sync_here(true));
	assert_equal_and_whole();
}

/* From now on another git, which does `deed` for that command in those directories. */
static void replace_git(const char *command, const char *where, const char *deed)
{
	AUTO_FREE char *path = xasprintf("%s/bin:%s", root, getenv("PATH"));

	must("mkdir -p bin && cat >bin/git <<'E'\n#!/bin/sh\nPATH=${PATH#*:}\n"
	     "case \" $* \" in *' %s '*) case $PWD in %s) %s ;; esac ;; esac\n"
	     "exec git \"$@\"\nE\nchmod +x bin/git",
	     command, where, deed);
	setenv("PATH", path, 1);
	assert_ok(git_setup(root, &err));
}

static void restore_git(void)
{
	setenv("PATH", strchr(getenv("PATH"), ':') + 1, 1);
	assert_ok(git_setup(root, &err));
}

/* The old copy, or the new one when it is whole. */
#define OLD "*/here/a.git"
#define NEW "*/staging/*) [ -e refrelay/copy ] && case x in x"
#define NO_ROOM "echo 'fatal: write error: No space left on device' >&2; exit 128"

/* Whether commits would be lost cannot be asked now: that is no. */
TEST(a_damaged_copy_stays_while_nobody_knows_what_only_it_has)
{
	static const struct {
		const char *where, *deed;
		enum err_class class;
	} cases[] = {
		{ OLD, NO_ROOM, ERR_DISK },
		{ OLD, "kill -KILL $$", ERR_INTERNAL },
		{ NEW, NO_ROOM " ;; esac", ERR_DISK },
		{ NEW, "echo 'fatal: object file is corrupt' >&2; exit 128 ;; esac",
		  ERR_CORRUPT },
	};

	assert_ok(mend());
	must("cd here/a.git && git update-ref refs/heads/mine "
	     "$(git commit-tree -m mine main^{tree}) && rm config");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		replace_git("cat-file", cases[i].where, cases[i].deed);
		int done = mend();
		restore_git();
		assert_int_equal(done, -1);
		assert_int_equal(err.class, cases[i].class);
		must("git -C here/a.git rev-parse -q --verify mine >/dev/null");
		assert_int_equal(count_trash(), 0);
		must("test -z \"$(ls here/.refrelay/staging)\"");
	}
	assert_ok(mend());
	assert_int_equal(result.outcome, SYNC_HELD);
	free(result.held_reason);
}

/* What it cannot show any more is not lost by its replacement. */
TEST(a_copy_too_damaged_to_be_asked_is_replaced)
{
	assert_ok(mend());
	must("cd here/a.git && git update-ref refs/heads/mine "
	     "$(git commit-tree -m mine main^{tree}) && rm config");
	replace_git("cat-file", OLD,
		    "echo 'fatal: packed object is corrupt' >&2; exit 128");
	int done = mend();
	restore_git();
	assert_int_equal(done, 0);
	assert_true(result.was_rebuilt);
	assert_int_equal(count_trash(), 1);
}

/* As when this machine runs out of memory: that is nothing to mend. */
TEST(a_copy_is_not_made_anew_because_git_was_killed)
{
	static const char *const commands[] = { "fetch", "rev-list", "verify-pack" };

	assert_ok(mend());
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		must("cd there/a.git && git update-ref refs/heads/n%zu "
		     "$(git commit-tree -m %zu main^{tree})",
		     i, i);
		replace_git(commands[i], OLD, "kill -KILL $$");
		int done = sync_by((struct sync_request){
			.mends = true, .may_rebuild = true, .is_suspect = true });
		restore_git();
		assert_int_equal(done, -1);
		assert_int_equal(err.class, ERR_INTERNAL);
		assert_int_equal(err.sys_errno, ENOMEM);
		assert_null(strstr(err.remedy, "move the copy away"));
		assert_int_equal(count_trash(), 0);
	}
	assert_ok(mend());
	assert_false(result.was_rebuilt);
	assert_equal_and_whole();
}

/* A damaged pack may say that an object is huge. */
TEST(a_copy_for_which_git_lacks_memory_is_read_and_made_anew_if_it_is_damaged)
{
	assert_ok(mend());
	must("cd there/a.git && git update-ref refs/heads/new "
	     "$(git commit-tree -m new main^{tree})");
	must("chmod u+w here/a.git/objects/pack/*.pack && "
	     "printf XXXX | dd of=$(ls here/a.git/objects/pack/*.pack) bs=1 seek=40 "
	     "conv=notrunc 2>.dd");
	replace_git("fetch", OLD,
		    "echo 'error: Out of memory, malloc failed (tried to allocate "
		    "69905858745111 bytes)' >&2; exit 128");
	int done = mend();
	restore_git();
	assert_int_equal(done, 0);
	assert_true(result.was_rebuilt);
	assert_equal_and_whole();
}

/* Git fails with it, and needs it not. */
TEST(a_damaged_file_that_git_can_do_without_costs_no_new_copy)
{
	assert_ok(mend());
	must("echo nonsense >here/a.git/objects/pack/multi-pack-index && "
	     "git -C there/a.git update-ref refs/heads/new main");
	assert_ok(mend());
	assert_false(result.was_rebuilt);
	assert_equal_and_whole();
	must("test ! -e here/a.git/objects/pack/multi-pack-index");
}

/* As a torn record, or somebody else's copy. Whoever is stopped while it is read has not
 * recorded anything: at the failpoint what is about to be recorded is the new one. */
TEST(a_copy_without_a_record_is_read_before_it_has_one)
{
	must("cd there/a.git && git update-ref refs/tags/text "
	     "$(echo sample text | git hash-object -w --stdin)");
	assert_ok(mend());
	must("cd here/a.git && rm refrelay/copy && git repack -adfq && "
	     "chmod u+w objects/pack/*.pack && printf XXXX | "
	     "dd of=$(ls objects/pack/*.pack) bs=1 conv=notrunc status=none seek=$("
	     "git verify-pack -v objects/pack/*.idx | "
	     "awk '$2 == \"blob\" && NF == 5 { print $4 + $5 - 4; exit }') && "
	     "git rev-list --objects --quiet --all");
	passed = "sync.verified";
	then = "test ! -e here/a.git/refrelay/copy && ls here/.refrelay/staging/*/HEAD "
	       ">/dev/null";
	assert_ok(mend());
	assert_null(passed);
	assert_true(result.was_rebuilt);
	assert_equal_and_whole();
	must("git -C here/a.git fsck --full 2>/dev/null");
}

TEST(a_lock_that_a_stranger_left_in_a_copy_goes)
{
	assert_ok(mend());
	must("touch -d '1 minute ago' here/a.git/refs/heads/main.lock "
	     "here/a.git/packed-refs.lock here/a.git/HEAD.lock && "
	     "cd there/a.git && git update-ref refs/heads/main "
	     "$(git commit-tree -m new -p main main^{tree})");
	assert_ok(mend());
	assert_false(result.was_rebuilt);
	assert_equal_and_whole();
}

static void assert_stamps(enum copy_stamps expected, bool is_sound)
{
	AUTO_RECORD struct copy_record record = { 0 };
	AUTO_REPO struct repo copy = REPO_INIT;

	assert_ok(repo_open(root_fd, "here/a.git", &copy, &err));
	copy_record_read(copy.fd, &record);
	assert_int_equal(copy_record_look(&record, copy.fd), expected);
	assert_int_equal(
		copy_content_is_sound(&copy, record.files_changed_ns, NULL, &err),
		is_sound);
}

static bool is_latest(void)
{
	AUTO_RECORD struct copy_record record = { 0 };
	AUTO_CLOSE int fd = openat(root_fd, "here/a.git", O_RDONLY | O_DIRECTORY);

	copy_record_read(fd, &record);
	return copy_record_is_latest(&record, fd);
}

TEST(a_folder_that_cannot_be_listed_is_not_sound)
{
	AUTO_REPO struct repo copy = REPO_INIT;

	assert_ok(mend());
	assert_ok(repo_open(root_fd, "here/a.git", &copy, &err));
	assert_int_equal(copy_content_is_sound(&copy, 0, NULL, &err), 1);
	unlisted = "/objects/pack";
	assert_int_equal(copy_content_is_sound(&copy, 0, NULL, &err), 0);
	unlisted_errno = ESTALE;
	assert_int_equal(copy_content_is_sound(&copy, 0, NULL, &err), -1);
	unlisted = NULL;
	must("mv here/a.git/objects/info here/a.git/objects/was");
	assert_int_equal(copy_content_is_sound(&copy, 0, NULL, &err), 1);
}

TEST(a_record_is_the_latest_until_somebody_begins_to_work_there)
{
	AUTO_CLOSE int fd = -1;
	uint64_t fence;

	assert_ok(mend());
	assert_true(is_latest());
	fd = openat(root_fd, "here/a.git", O_RDONLY | O_DIRECTORY);
	assert_ok(fence_read(fd, &fence, &err));
	assert_ok(fence_raise(fd, fence + 1, &err));
	assert_false(is_latest());
	record_as_it_is(); /* by one who has no lease */
	assert_false(is_latest());
	must("rm here/a.git/refrelay/copy");
	assert_false(is_latest());
}

TEST(a_record_tells_what_was_written_in_place)
{
	static const char *const changes[] = {
		"chmod u+w objects/pack/*.idx && printf X >>$(ls objects/pack/*.idx)",
		"touch objects/info/commit-graph", "chmod 700 refs", "rm packed-refs",
		"echo >>config"
	};

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		AUTO_RECORD struct copy_record record = { 0 };
		must("rm -rf here/a.git");
		assert_ok(mend());
		assert_stamps(COPY_STAMPS_SAME, true);
		usleep(20000);
		must("cd here/a.git && touch objects/pack/tmp_pack_x && "
		     "rm objects/pack/tmp_pack_x");
		assert_stamps(COPY_STAMPS_SAME, true); /* a leftover that went */
		must("cd here/a.git && cp -al objects/pack links");
		assert_stamps(COPY_STAMPS_LATER, true); /* a backup */
		must("cd here/a.git && %s", changes[i]);
		AUTO_CLOSE int fd = openat(root_fd, "here/a.git", O_RDONLY | O_DIRECTORY);
		copy_record_read(fd, &record);
		assert_int_equal(copy_record_look(&record, fd), COPY_STAMPS_OTHER);
		assert_ok(mend());
		assert_equal_and_whole();
		assert_stamps(COPY_STAMPS_SAME, true);
	}
}

/* As a local clone of a copy that is maintained links it, lists that end in no digest
 * with the rest. */
TEST(links_to_what_maintenance_wrote_change_nothing)
{
	assert_ok(mend());
	must("cd here/a.git && git repack -qad && "
	     "git commit-graph write --reachable --split && git update-server-info && "
	     "mkdir -p objects/pack/multi-pack-index.d && "
	     "cp objects/info/commit-graphs/commit-graph-chain "
	     "objects/pack/multi-pack-index.d/multi-pack-index-chain");
	assert_ok(mend());
	usleep(20000);
	must("cd here/a.git && cp -al objects links");
	assert_stamps(COPY_STAMPS_LATER, true);
}

/* Where the source has nothing new a record that has settled is proof enough for a sync
 * that nobody asked to look closer. */
TEST(what_was_written_with_the_times_put_back_is_not_sound)
{
	static const char *const ends[] = { "pack", "idx" };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		must("rm -rf here/a.git");
		assert_ok(mend());
		usleep(20000);
		must("cd here/a.git/objects/pack && f=$(ls *.%s) && touch -r $f ../../z "
		     "&& chmod u+w $f && printf 'XYZ' | dd of=$f bs=1 seek=100 "
		     "conv=notrunc status=none && chmod u-w $f && touch -r ../../z $f",
		     ends[i]);
		must("git -C there/a.git update-ref refs/heads/news-%zu main", i);
		assert_stamps(COPY_STAMPS_LATER, false);
		assert_ok(mend());
		assert_equal_and_whole();
		assert_stamps(COPY_STAMPS_SAME, true);
	}
}

TEST(what_diverts_git_goes_from_a_copy)
{
	static const char *const ways[] = {
		"git rev-parse main >shallow",
		"echo ../../there/a.git >commondir",
		"mkdir -p info && git rev-parse main >info/grafts",
		"realpath ../../there/a.git/objects >objects/info/alternates",
		"echo http://localhost/ >objects/info/http-alternates",
		"echo '[core]' >config.worktree",
		"echo ../x >gitdir",
		"mkdir gitdir && touch gitdir/x",
	};
	assert_ok(mend());
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		must("cd here/a.git && %s", ways[i]);
		AUTO_CLOSE int fd = openat(root_fd, "here/a.git", O_RDONLY | O_DIRECTORY);
		assert_fails(repo_check_diversions(fd, &err), ERR_CORRUPT);
		assert_ok(mend());
		assert_false(result.was_rebuilt);
		assert_ok(repo_check_diversions(fd, &err));
		assert_equal_and_whole();
	}
}

TEST(a_copy_whose_config_sends_git_elsewhere_is_made_anew)
{
	static const char *const keys[] = { "remote./srv/git/a.git.uploadpack",
					    "remote.https://host/a.git.url",
					    "fetch.bundleURI" };

	assert_ok(mend());
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		must("git -C here/a.git config %s x", keys[i]);
		assert_ok(mend());
		assert_true(result.was_rebuilt);
		must("! git -C here/a.git config %s", keys[i]);
		assert_equal_and_whole();
	}
}

/* Else it would count as what was left there, and stay. */
TEST(what_misleads_git_does_not_get_into_a_record)
{
	static const char *const ways[] = {
		"echo ../../there/a.git >here/a.git/commondir",
		"ln -s nothing here/a.git/refs/heads/odd",
	};

	assert_ok(mend());
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		must("git -C there/a.git update-ref refs/heads/new%zu main~1", i);
		passed = "sync.fetched";
		then = ways[i];
		assert_ok(mend());
		assert_null(passed);
		assert_false(result.was_rebuilt);
		must("test ! -e here/a.git/commondir && "
		     "test -z \"$(find here/a.git/refs -name odd)\"");
		assert_equal_and_whole();
	}
}

/* What is behind a link is not the copy's to remove. */
TEST(what_diverts_git_by_a_link_stays_where_it_is)
{
	assert_ok(mend());
	must("mkdir other && touch other/grafts && rm -rf here/a.git/info && "
	     "ln -s \"$PWD/other\" here/a.git/info");
	assert_ok(mend());
	assert_true(result.was_rebuilt);
	assert_equal_and_whole();
	must("test -e other/grafts");
}

#define FLIP                                                                             \
	"p=$(ls here/a.git/objects/pack/*.pack | head -n 1) && chmod u+w $p && "         \
	"printf 'not what git wrote' | dd of=$p bs=1 seek=200 conv=notrunc 2>/dev/null"

/* Git reads little of them while it fetches. */
TEST(what_a_stranger_does_to_old_packs_during_a_sync_is_not_ours)
{
	static const char *const deeds[] = { FLIP, "rm here/a.git/objects/pack/*" };

	for (size_t i = 0; i < ARRAY_SIZE(deeds); i++) {
		must("rm -rf here/a.git");
		assert_ok(mend());
		must("git -C there/a.git update-ref refs/heads/new%zu main~1", i);
		passed = "sync.fetched";
		then = deeds[i];
		assert_ok(mend());
		/* what is only missing is brought again */
		assert_int_equal(result.was_rebuilt, i == 0);
		assert_equal_and_whole();
		must("git -C here/a.git fsck >/dev/null 2>&1");
	}
	must("git -C there/a.git update-ref refs/heads/last main~1");
	passed = "sync.fetched";
	then = "touch here/a.git/objects/pack/*.pack";
	assert_ok(mend());
	assert_false(result.was_rebuilt);
	assert_stamps(COPY_STAMPS_SAME, true);
}

/* What is missing here is not missing at the source. */
TEST(a_copy_that_vanishes_during_its_sync_is_made_anew)
{
	assert_ok(sync_as(false, false));
	must("git -C there/a.git update-ref refs/heads/new main");
	passed = "sync.verified";
	then = "rm -r here/a.git";
	assert_fails(sync_as(false, false), ERR_CONFLICT);
	assert_ok(sync_as(false, false));
	assert_int_equal(result.outcome, SYNC_CREATED);
	assert_equal_and_whole();
}

/* As refrelay leaves a mirror of that depth. */
static void make_cut_source(const char *path, int depth)
{
	must("rm -rf %s && git clone -q --bare --no-single-branch --depth %d file://%s "
	     "%s",
	     path, depth, store_path, path);
	must("test -s %s/shallow && mkdir -p %s/refrelay && "
	     "echo settled >%s/refrelay/cuts",
	     path, path, path);
}

static void assert_cut_as(const char *path)
{
	must("sort %s/shallow >.there && sort here/a.git/shallow >.here && "
	     "cmp .there .here",
	     path);
	assert_equal_and_whole();
}

TEST(a_history_that_is_cut_at_the_source_is_cut_in_the_copy)
{
	make_cut_source("there/a.git", 2);
	assert_ok(sync_as(false, false));
	assert_int_equal(result.outcome, SYNC_CREATED);
	assert_cut_as("there/a.git");
	make_cut_source("there/a.git", 4);
	assert_ok(sync_as(false, false));
	assert_int_equal(result.outcome, SYNC_UPDATED);
	assert_cut_as("there/a.git");
	assert_ok(sync_as(true, false));
	assert_int_equal(result.outcome, SYNC_UNCHANGED);
	must("cd there/a.git && rm -r refrelay");
	assert_fails(sync_as(true, false), ERR_CONFIG);
	must("git -C there/a.git fetch -q --unshallow file://%s refs/heads/main",
	     store_path);
	assert_ok(sync_as(false, false));
	must("test ! -e here/a.git/shallow && test ! -e here/a.git/refrelay/cuts");
	assert_equal_and_whole();
}

/* What it was told is there is looked for before a ref names it. */
TEST(less_than_the_cuts_promise_is_not_published)
{
	make_cut_source("there/a.git", 5);
	make_cut_source("less.git", 2);
	passed = "sync.read";
	then = "rm -rf there/a.git && cp -r less.git there/a.git";
	assert_fails(sync_as(false, false), ERR_CORRUPT);
	must("test ! -e here/a.git");
	assert_ok(sync_as(false, false));
	assert_cut_as("less.git");
}

TEST(what_the_source_lacks_is_missing)
{
	must("rm -r there/a.git");
	assert_fails(sync_as(false, false), ERR_MISSING);
}

TEST(a_copy_never_stands_inside_another)
{
	struct sync_request request = { .source = source, .root = here, .name = "a" };

	must("git init -q --bare here/b.git && mkdir there/b.git && "
	     "mv there/a.git there/b.git/a.git");
	discovery_clear(&there);
	AUTO_FREE char *path = xasprintf("%s/there", root);
	assert_ok(discover(path, &there, &err));
	request.name = "b.git/a";
	assert_fails(job_run(&(struct job_request){ .leases = leases,
						    .kind = KIND_REPOSITORY,
						    .name = "b.git/a",
						    .operation = "sync",
						    .run = work,
						    .arg = &request },
			     &err),
		     ERR_CONFIG);
	assert_non_null(strstr(err.text, "inside the repository b.git"));
	must("test ! -e here/b.git/a.git");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SYNC_CASE(the_checksum_is_proved_also_when_nothing_had_to_change),
		SYNC_CASE(a_suspect_copy_is_looked_through_in_spite_of_its_record),
		SYNC_CASE(a_rebuilt_copy_is_new_and_the_old_one_is_in_the_trash),
		SYNC_CASE(a_copy_that_cannot_be_opened_is_rebuilt),
		SYNC_CASE(what_is_not_there_is_simply_made_by_a_rebuild),
		SYNC_CASE(a_rebuild_gives_way_to_a_higher_fence),
		SYNC_CASE(a_rebuild_that_fails_changes_nothing),
		SYNC_CASE(a_copy_that_is_damaged_is_made_anew_in_the_same_job),
		SYNC_CASE(what_stands_in_the_place_of_a_copy_goes_to_the_trash),
		SYNC_CASE(a_repository_of_another_hash_is_for_a_person),
		SYNC_CASE(a_copy_is_not_made_anew_before_it_may_be),
		SYNC_CASE(a_source_that_is_damaged_costs_no_copy),
		SYNC_CASE(a_damaged_copy_with_commits_of_its_own_is_held),
		SYNC_CASE(
			what_a_stranger_adds_to_what_was_held_is_held_in_spite_of_force),
		SYNC_CASE(a_single_run_that_is_forced_holds_nothing),
		SYNC_CASE(more_deletions_than_were_held_are_held_in_spite_of_force),
		SYNC_CASE(another_share_of_refs_may_be_deleted_at_once),
		SYNC_CASE(
			a_held_copy_hides_what_its_source_hides_and_is_as_its_record_says),
		SYNC_CASE(a_damaged_note_of_what_was_held_permits_nothing),
		SYNC_CASE(a_damaged_copy_stays_while_nobody_knows_what_only_it_has),
		SYNC_CASE(a_copy_too_damaged_to_be_asked_is_replaced),
		SYNC_CASE(a_copy_is_not_made_anew_because_git_was_killed),
		SYNC_CASE(
			a_copy_for_which_git_lacks_memory_is_read_and_made_anew_if_it_is_damaged),
		SYNC_CASE(a_damaged_file_that_git_can_do_without_costs_no_new_copy),
		SYNC_CASE(a_copy_without_a_record_is_read_before_it_has_one),
		SYNC_CASE(a_lock_that_a_stranger_left_in_a_copy_goes),
		SYNC_CASE(a_folder_that_cannot_be_listed_is_not_sound),
		SYNC_CASE(a_record_is_the_latest_until_somebody_begins_to_work_there),
		SYNC_CASE(a_record_tells_what_was_written_in_place),
		SYNC_CASE(what_was_written_with_the_times_put_back_is_not_sound),
		SYNC_CASE(links_to_what_maintenance_wrote_change_nothing),
		SYNC_CASE(what_diverts_git_goes_from_a_copy),
		SYNC_CASE(a_copy_whose_config_sends_git_elsewhere_is_made_anew),
		SYNC_CASE(what_misleads_git_does_not_get_into_a_record),
		SYNC_CASE(what_diverts_git_by_a_link_stays_where_it_is),
		SYNC_CASE(what_a_stranger_does_to_old_packs_during_a_sync_is_not_ours),
		SYNC_CASE(a_copy_that_vanishes_during_its_sync_is_made_anew),
		SYNC_CASE(a_history_that_is_cut_at_the_source_is_cut_in_the_copy),
		SYNC_CASE(less_than_the_cuts_promise_is_not_published),
		SYNC_CASE(what_the_source_lacks_is_missing),
		SYNC_CASE(a_copy_never_stands_inside_another),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
