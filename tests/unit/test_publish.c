#include "publish_test.h"

#define BASE "refs/heads/main=1 refs/heads/b=2 refs/tags/v=t1"

static bool has_loose_files(void)
{
	AUTO_FREE char *files = output_of("find r.git/refs -type f");

	return *files != '\0';
}

TEST(refs_are_created_moved_forced_and_deleted)
{
	assert_publishes(BASE);
	assert_publishes("refs/heads/main=5 refs/heads/b=2 refs/tags/v=t1");
	assert_publishes("refs/heads/main=3 refs/heads/b=2 refs/tags/v=t2");
	assert_publishes(
		"refs/heads/main=3 refs/tags/v=t2 refs/tags/w=t5 refs/notes/x=7");
	assert_publishes("");
	assert_publishes(BASE);
	assert_false(has_loose_files());
}

TEST(publishing_what_is_there_writes_nothing)
{
	struct stat before, after;

	assert_publishes(BASE);
	assert_int_equal(fstatat(repo_fd, "packed-refs", &before, 0), 0);
	assert_publishes(BASE);
	assert_int_equal(fstatat(repo_fd, "packed-refs", &after, 0), 0);
	assert_int_equal(before.st_ino, after.st_ino);
}

TEST(head_moves_to_every_kind)
{
	assert_publishes("HEAD=>refs/heads/main refs/heads/main=1 refs/heads/b=1");
	assert_publishes("HEAD=>refs/heads/b refs/heads/main=1 refs/heads/b=1");
	assert_publishes("HEAD=>refs/heads/none refs/heads/main=1 refs/heads/b=1");
	assert_publishes("HEAD=2 refs/heads/main=1 refs/heads/b=1");
	assert_publishes("HEAD=3 refs/heads/main=1 refs/heads/b=1");
	assert_publishes("HEAD=>refs/heads/trunk refs/heads/trunk=1 refs/heads/b=1");
	assert_publishes("HEAD=>refs/heads/main refs/heads/main=4");
}

TEST(a_head_that_is_a_symbolic_link_is_replaced)
{
	assert_publishes("refs/heads/main=1 refs/heads/b=2");
	must("cd r.git && rm HEAD && ln -s refs/heads/main HEAD");
	assert_publishes("HEAD=>refs/heads/b refs/heads/main=1 refs/heads/b=2");
	must("test ! -L r.git/HEAD");
}

TEST(symbolic_refs_come_move_and_go)
{
	assert_publishes("refs/heads/main=1 refs/heads/s=>refs/heads/main");
	assert_publishes("refs/heads/main=2 refs/heads/b=3 refs/heads/s=>refs/heads/b");
	assert_publishes("refs/heads/main=2 refs/heads/s=>refs/heads/main");
	assert_publishes("refs/heads/main=2 refs/remotes/origin/HEAD=>refs/heads/main");
	assert_publishes("refs/heads/main=2");
	assert_false(has_loose_files());
}

TEST(plain_refs_become_symbolic_and_back)
{
	assert_publishes("refs/heads/main=1 refs/heads/s=2");
	assert_publishes("refs/heads/main=1 refs/heads/s=>refs/heads/main");
	assert_publishes("refs/heads/main=1 refs/heads/s=3");
	assert_publishes("HEAD=>refs/heads/s refs/heads/s=>refs/heads/x refs/heads/x=1");
	assert_publishes("HEAD=>refs/heads/s refs/heads/s=4");
}

TEST(a_file_becomes_a_directory_and_back)
{
	assert_publishes("refs/heads/main=1 refs/heads/a=2");
	assert_publishes("refs/heads/main=1 refs/heads/a/b=2 refs/heads/a/c/d=3");
	assert_publishes("refs/heads/main=1 refs/heads/a=3 refs/heads/a-x=4");
	assert_publishes("HEAD=>refs/heads/a/b refs/heads/a/b=2");
	assert_publishes("HEAD=>refs/heads/a refs/heads/a=2");
}

TEST(a_loose_file_becomes_a_directory_and_back)
{
	assert_publishes("refs/heads/main=1");
	set_loose("heads/a=2");
	assert_publishes("refs/heads/main=1 refs/heads/a/b=2 refs/heads/a/c/d=3");
	set_loose("heads/a/b=4 heads/a/c/d=5 heads/a/c/e=6");
	assert_publishes("refs/heads/main=1 refs/heads/a=3");
	set_loose("heads/x/y=4");
	must("mkdir -p r.git/refs/heads/a/empty/below r.git/refs/heads/z 2>/dev/null; :");
	assert_publishes("refs/heads/main=1 refs/heads/x=3 refs/heads/z=1");
}

TEST(symbolic_refs_become_directories_and_back)
{
	assert_publishes("refs/heads/main=1 refs/heads/a=>refs/heads/main");
	assert_publishes("refs/heads/main=1 refs/heads/a/b=2");
	assert_publishes("refs/heads/main=1 refs/heads/a=>refs/heads/main");
	assert_publishes("refs/heads/main=1 refs/heads/a/b=>refs/heads/main");
	assert_publishes("refs/heads/main=1 refs/heads/a=>refs/heads/main");
	assert_publishes("refs/heads/main=1 refs/heads/a/b/c=>refs/heads/main");
	assert_publishes("refs/heads/main=1 refs/heads/a=5");
	assert_publishes("refs/heads/main=1 refs/heads/a/b=>refs/heads/main");
	assert_publishes("refs/heads/main=1 refs/heads/a=6 refs/heads/c=1");
}

TEST(loose_refs_are_folded_even_if_nothing_changes)
{
	assert_publishes("refs/heads/main=1 refs/heads/b=2");
	set_loose("heads/b=3 heads/deep/er/c=4 tags/v=t2 tags/w=t5");
	assert_publishes("refs/heads/main=1 refs/heads/b=3 refs/heads/deep/er/c=4 "
			 "refs/tags/v=t2 refs/tags/w=t5");
	assert_false(has_loose_files());
	assert_false(exists("refs/heads/deep"));
}

TEST(loose_refs_are_folded_on_the_way_to_others)
{
	set_loose("heads/main=1 heads/b=3 tags/v=t2");
	must("cd r.git && tr a-f A-F <refs/heads/b >x && mv x refs/heads/b");
	assert_publishes("refs/heads/main=7 refs/heads/b=3 refs/tags/x=t3");
	assert_false(has_loose_files());
}

/* A file of that name, or its lock, cannot be; packed-refs has it all the same. */
TEST(names_that_are_too_long_for_a_file_are_packed)
{
	static const int lengths[] = { 250, 251, 255, 300 };
	char long_name[301];

	assert_publishes("refs/heads/main=1");
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		memset(long_name, 'l', sizeof(long_name));
		long_name[lengths[i]] = '\0';
		AUTO_FREE char *in = xasprintf("refs/heads/main=%zu refs/heads/%s=2",
					       i + 2, long_name);
		AUTO_FREE char *moved =
			xasprintf("refs/heads/main=1 refs/heads/%s=3", long_name);
		AUTO_FREE char *below =
			xasprintf("refs/heads/main=1 refs/heads/%s/x=3", long_name);
		assert_publishes(in);
		assert_publishes(moved);
		assert_publishes(below);
		assert_publishes("refs/heads/main=1");
	}
	assert_false(has_loose_files());
}

TEST(tags_keep_their_peeled_values)
{
	assert_publishes("refs/heads/main=1 refs/tags/a=t0 refs/tags/b=t1 refs/tags/c=t2 "
			 "refs/tags/d=t3 refs/tags/e=t4 refs/tags/f=t5 refs/tags/g=9 "
			 "refs/other/t=t5");
	must("grep -q 'fully-peeled' r.git/packed-refs");
	must("cd r.git && cp packed-refs ../x && git pack-refs --all && "
	     "cmp packed-refs ../x");
}

/* Made by another program; what is not known is not claimed. */
TEST(a_packed_refs_without_peels_can_be_published_over)
{
	AUTO_SNAPSHOT struct ref_snapshot from = REF_SNAPSHOT_INIT;
	AUTO_SNAPSHOT struct ref_snapshot to = REF_SNAPSHOT_INIT;
	const char *line = "HEAD=>refs/heads/b refs/heads/b=3 refs/tags/v=t1";

	assert_publishes(BASE " refs/tags/gone=t2 refs/tags/moved=t3");
	must("cd r.git && grep -v '^[#^]' packed-refs >x && mv x packed-refs");
	assert_ok(ref_snapshot_read(repo_fd, 20, &from, &err));
	refs_of(line, &to);
	assert_ok(publish(&(struct publish_request){ .dir = repo_fd,
						     .oid_len = 20,
						     .from = &from,
						     .to = &to,
						     .fence = 1 },
			  &err));
	assert_git_sees(line);
}

TEST(what_was_asked_for_replaces_wrong_peels)
{
	assert_publishes(BASE " refs/tags/a=t1 refs/tags/b=t5");
	must("cd r.git && grep -v '^^' packed-refs >x && mv x packed-refs && "
	     "test $(git show-ref -d | grep -c '{}') = 0");
	assert_publishes(BASE " refs/tags/a=t1 refs/tags/b=t5 refs/tags/c=t2");
}

TEST(the_mode_of_packed_refs_stays)
{
	struct stat st;

	assert_publishes(BASE);
	must("chmod 600 r.git/packed-refs");
	assert_publishes("refs/heads/main=9");
	assert_int_equal(fstatat(repo_fd, "packed-refs", &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static char *many_refs(int count, int commit)
{
	AUTO_STR struct str line = STR_INIT;

	for (int i = 0; i < count; i++)
		str_addf(&line, "refs/changes/%02d/%d=%d ", i % 100, i, commit);
	return str_take(&line);
}

TEST(two_thousand_refs_change_at_once)
{
	AUTO_FREE char *one = many_refs(2000, 1);
	AUTO_FREE char *two = many_refs(2000, 2);

	assert_publishes(one);
	assert_publishes(two);
	set_loose("changes/00/0=7 changes/01/1=8");
	assert_publishes(one);
	assert_publishes("");
}

/* Of the processor, by this thread. */
static int64_t used_ms(void)
{
	struct timespec used;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

TEST(one_of_a_hundred_thousand_refs_changes)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_SNAPSHOT struct ref_snapshot to = REF_SNAPSHOT_INIT;
	char oid[OID_MAX_TEXT];

	str_add(&text, "# pack-refs with: peeled fully-peeled sorted \n");
	for (int i = 0; i < 100000; i++)
		str_addf(&text, "%s refs/changes/%06d\n",
			 oid_text(&commits[i % COMMITS], oid), i);
	write_text("packed-refs", text.data);
	read_refs(&to);
	to.refs.items[50000].oid = commits[59];
	int64_t start_ms = used_ms();
	assert_ok(publish_snapshot(&to));
	assert_true(used_ms() - start_ms < 3000);
	AUTO_FREE char *lines = output_of("wc -l <r.git/packed-refs");
	assert_int_equal(strtoul(lines, NULL, 10), 100001);
	must("test $(git -C r.git rev-parse refs/changes/050000) = %s",
	     oid_text(&commits[59], oid));
}

TEST(repositories_of_sha256_are_published)
{
	AUTO_SNAPSHOT struct ref_snapshot from = REF_SNAPSHOT_INIT;
	AUTO_SNAPSHOT struct ref_snapshot to = REF_SNAPSHOT_INIT;

	must("rm -rf r.git && git init -q --bare -b main --object-format=sha256 r.git && "
	     "cd r.git && git update-ref refs/heads/main "
	     "$(git commit-tree -m c $(git mktree </dev/null))");
	open_repo();
	assert_ok(fence_raise(repo_fd, 1, &err));
	assert_ok(ref_snapshot_read(repo_fd, 32, &from, &err));
	fill_peels(&from);
	struct ref copy = from.refs.items[0];
	vec_add(&to.refs, copy);
	copy.name = "refs/heads/other";
	vec_add(&to.refs, copy);
	to.head_target = xstrdup("refs/heads/other");
	assert_ok(publish(&(struct publish_request){ .dir = repo_fd,
						     .oid_len = 32,
						     .from = &from,
						     .to = &to,
						     .fence = 1 },
			  &err));
	must("cd r.git && test $(git rev-parse HEAD) = $(git rev-parse main) && "
	     "git fsck 2>/dev/null");
}

TEST(a_name_that_leads_elsewhere_is_refused)
{
	AUTO_SNAPSHOT struct ref_snapshot to = REF_SNAPSHOT_INIT;
	static const char *const names[] = { "refs/../../evil", "packed-refs", "HEAD",
					     "refs/heads/a\nb" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct ref ref = { .name = names[i],
				   .oid = commits[1],
				   .peel = REF_PEEL_SELF };
		ref_snapshot_clear(&to);
		refs_of("", &to);
		vec_add(&to.refs, ref);
		assert_fails(publish_snapshot(&to), ERR_CORRUPT);
	}
	assert_refs("");
	assert_nothing_left();
}

TEST(a_ref_that_is_locked_is_a_conflict_after_the_wait)
{
	int64_t start_ms;

	assert_publishes(BASE);
	write_text("refs/heads/b.lock", "");
	start_ms = clock_boot_ms();
	assert_fails(try_publish("refs/heads/main=4 refs/heads/b=4"), ERR_CONFLICT);
	/* without one of its own it would wait for 10 s */
	assert_in_range(clock_boot_ms() - start_ms, WAIT_MS, WAIT_MS + 9000);
	must("rm r.git/refs/heads/b.lock");
	assert_refs(BASE);
	assert_nothing_left();
	write_text("packed-refs.lock", "");
	assert_fails(try_publish("refs/heads/main=4"), ERR_CONFLICT);
	must("rm r.git/packed-refs.lock");
	assert_refs(BASE);
	assert_nothing_left();
}

/* Another process stops at this point of publishing `line`. */
static pid_t stop_at(const char *point, const char *line)
{
	AUTO_FREE char *failpoint = xasprintf("%s=stop", point);
	pid_t pid = start_helper("publish", line, failpoint);

	wait_stopped(pid);
	return pid;
}

static void assert_ends(pid_t pid, enum err_class class)
{
	let_go(pid);
	assert_int_equal(wait_end(pid), class == ERR_NONE ? 0 : 10 + (int)class);
}

TEST(a_ref_that_somebody_moved_meanwhile_is_a_conflict)
{
	pid_t pid;

	assert_publishes(BASE);
	pid = stop_at("publish.pending", "refs/heads/main=7 refs/heads/b=7");
	set_loose("heads/b=5");
	assert_ends(pid, ERR_CONFLICT);
	assert_refs("refs/heads/main=1 refs/heads/b=5 refs/tags/v=t1");
	assert_nothing_left();
}

TEST(a_ref_that_somebody_deleted_or_created_meanwhile_is_a_conflict)
{
	pid_t pid;

	assert_publishes(BASE);
	pid = stop_at("publish.pending", "refs/heads/main=7 refs/heads/b=7");
	must("git -C r.git update-ref -d refs/heads/b");
	assert_ends(pid, ERR_CONFLICT);
	pid = stop_at("publish.pending", "refs/heads/main=1 refs/heads/n=7");
	set_loose("heads/n=6");
	assert_ends(pid, ERR_CONFLICT);
	assert_refs("refs/heads/main=1 refs/heads/n=6 refs/tags/v=t1");
	assert_nothing_left();
}

TEST(a_head_that_somebody_moved_meanwhile_is_a_conflict)
{
	pid_t pid;

	assert_publishes(BASE);
	pid = stop_at("publish.pending", "HEAD=>refs/heads/b " BASE);
	must("git -C r.git symbolic-ref HEAD refs/heads/x");
	assert_ends(pid, ERR_CONFLICT);
	assert_refs("HEAD=>refs/heads/x " BASE);
}

TEST(a_file_that_somebody_put_in_the_way_is_a_conflict)
{
	pid_t pid;

	assert_publishes(BASE);
	pid = stop_at("publish.pending", BASE " refs/heads/n/m=7");
	set_loose("heads/n=6");
	assert_ends(pid, ERR_CONFLICT);
	assert_publishes(BASE " refs/heads/n/m=7");
}

TEST(refs_that_do_not_change_keep_what_others_gave_them)
{
	pid_t pid;

	assert_publishes(BASE);
	pid = stop_at("publish.pending", "refs/heads/main=7 refs/heads/b=2 "
					 "refs/tags/v=t1");
	set_loose("heads/b=5 heads/new=6");
	assert_ends(pid, ERR_NONE);
	assert_refs("refs/heads/main=7 refs/heads/b=5 refs/heads/new=6 refs/tags/v=t1");
	assert_nothing_left();
}

/* As a loose file it would hide what is published. */
TEST(a_ref_that_somebody_made_loose_meanwhile_is_published_all_the_same)
{
	pid_t pid;

	assert_publishes(BASE);
	pid = stop_at("publish.pending", "refs/heads/main=7 refs/tags/v=t1");
	set_loose("heads/main=1 heads/b=2");
	assert_ends(pid, ERR_NONE);
	assert_refs("refs/heads/main=7 refs/tags/v=t1");
	assert_false(has_loose_files());
}

TEST(an_overtaken_holder_publishes_nothing)
{
	pid_t pid;

	assert_publishes(BASE);
	pid = stop_at("publish.pending", "refs/heads/main=7");
	assert_ok(fence_raise(repo_fd, 2, &err));
	assert_ends(pid, ERR_LOST);
	assert_refs(BASE);
	assert_nothing_left();
}

TEST(an_overtaken_holder_folds_nothing)
{
	set_loose("heads/main=1");
	assert_ok(fence_raise(repo_fd, 2, &err));
	assert_fails(try_publish("refs/heads/main=1"), ERR_LOST);
	assert_true(exists("refs/heads/main"));
	assert_false(exists("packed-refs"));
	assert_nothing_left();
}

TEST(the_fence_cannot_pass_a_publication_that_goes_on)
{
	pid_t pid, raiser;
	uint64_t fence;

	assert_publishes(BASE);
	pid = stop_at("publish.checked", "refs/heads/main=7");
	backdate("packed-refs.lock", 7200);
	raiser = start_helper("raise", "2", NULL);
	usleep(200000);
	assert_int_equal(waitpid(raiser, NULL, WNOHANG), 0);
	assert_ok(fence_read(repo_fd, &fence, &err));
	assert_int_equal(fence, 1);
	assert_ends(pid, ERR_NONE);
	assert_int_equal(wait_end(raiser), 0);
	assert_refs("refs/heads/main=7");
	assert_fails(try_publish("refs/heads/main=8"), ERR_LOST);
}

TEST(one_whose_pending_file_is_gone_publishes_nothing)
{
	static const char *const points[] = { "publish.pending", "publish.locked" };

	assert_publishes(BASE);
	for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
		pid_t pid = stop_at(points[i], "refs/heads/main=7");
		must("rm r.git/refrelay/state/pending/*");
		assert_ends(pid, ERR_LOST);
		assert_refs(BASE);
		assert_nothing_left();
	}
}

TEST(a_paused_publisher_keeps_all_others_out)
{
	pid_t pid;

	assert_publishes(BASE);
	pid = stop_at("publish.written", "refs/heads/main=7 refs/heads/b=2 "
					 "refs/tags/v=t1");
	backdate("packed-refs.lock", 7200);
	assert_fails(try_publish("refs/heads/b=9"), ERR_CONFLICT);
	must("! git -C r.git -c core.packedRefsTimeout=50 pack-refs --all 2>/dev/null");
	assert_refs(BASE);
	assert_ends(pid, ERR_NONE);
	assert_refs("refs/heads/main=7 refs/heads/b=2 refs/tags/v=t1");
	assert_nothing_left();
}

static int as_helper(char **argv)
{
	enter_helper(argv);
	if (strcmp(argv[1], "raise") == 0)
		return fence_raise(repo_fd, strtoull(argv[4], NULL, 10), &err) == 0 ? 0
										    : 1;
	return publish_as_helper(argv[4]);
}

#define LARGE (PUBLISH_LOOSE_FROM + 10)

/* Sets one ref of the large repository to this commit (-1: deletes it), and looks at what
 * is there then. */
static void publish_large(const char *name, int commit)
{
	AUTO_SNAPSHOT struct ref_snapshot to = REF_SNAPSHOT_INIT;
	AUTO_SNAPSHOT struct ref_snapshot after = REF_SNAPSHOT_INIT;
	AUTO_DIFF struct ref_diff diff = { 0 };
	struct ref new = { .name = name, .peel = REF_PEEL_SELF };
	struct ref *ref;

	read_refs(&to);
	if (commit >= 0 && !ref_snapshot_find(&to, name))
		vec_add(&to.refs, new); /* the last of all */
	ref = ref_snapshot_find(&to, name);
	if (commit >= 0)
		ref->oid = commits[commit];
	else
		memmove(ref, ref + 1,
			(size_t)(&to.refs.items[to.refs.count--] - (ref + 1)) *
				sizeof(*ref));
	assert_ok(publish_snapshot(&to));
	read_refs(&after);
	ref_diff_compute(&after, &to, &diff);
	assert_true(ref_diff_is_empty(&diff));
	assert_nothing_left();
}

static ino_t packed_inode(void)
{
	struct stat st;

	assert_int_equal(fstatat(repo_fd, "packed-refs", &st, 0), 0);
	return st.st_ino;
}

static void make_large(void)
{
	write_large("r.git/packed-refs", LARGE);
	must("git -C r.git symbolic-ref HEAD refs/heads/large/000000");
}

TEST(one_ref_of_very_many_becomes_a_file_of_its_own)
{
	make_large();
	ino_t packed = packed_inode();
	publish_large("refs/heads/large/000003", 9);
	publish_large("refs/heads/large/000003", 10);
	publish_large("refs/zz/new/er", 11);
	assert_int_equal(packed_inode(), packed);
	must("cd r.git && test $(find refs -type f | wc -l) = 2 && "
	     "test $(git rev-parse refs/heads/large/000003) = $(git rev-parse "
	     "refs/heads/large/000010) && git rev-parse -q --verify refs/zz/new/er >oid "
	     "&& "
	     "git fsck --connectivity-only --no-dangling >oid 2>&1");
	publish_large("refs/heads/large/000004", -1);
	assert_false(has_loose_files());
	must("! git -C r.git rev-parse -q --verify refs/heads/large/000004");
	must("grep -q 'fully-peeled' r.git/packed-refs");
}

TEST(two_changes_of_very_many_refs_are_one_rename)
{
	AUTO_SNAPSHOT struct ref_snapshot to = REF_SNAPSHOT_INIT;

	make_large();
	publish_large("refs/heads/large/000003", 9);
	read_refs(&to);
	to.refs.items[1].oid = to.refs.items[2].oid = commits[30];
	ref_snapshot_find(&to, "refs/heads/large/000003")->peel = REF_PEEL_SELF;
	assert_ok(publish_snapshot(&to));
	assert_false(has_loose_files());
	must("grep -q 'fully-peeled' r.git/packed-refs");
}

TEST(too_many_files_of_refs_are_folded)
{
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;

	make_large();
	must("cd r.git/refs/heads && mkdir large && for i in $(seq 1000 %d); do "
	     "sed -n '2s/ .*//p' ../../packed-refs >large/00$i; done",
	     1000 + PUBLISH_LOOSE_MOST - 2);
	publish_large("refs/heads/large/000003", 9);
	read_refs(&refs);
	assert_int_equal(refs.loose_count, PUBLISH_LOOSE_MOST);
	ref_snapshot_clear(&refs);
	publish_large("refs/heads/large/000003", 10);
	read_refs(&refs);
	assert_int_equal(refs.loose_count, 1);
}

/* Whoever wrote it meanwhile keeps what he wrote. */
TEST(a_ref_of_very_many_that_has_moved_is_a_conflict)
{
	AUTO_SNAPSHOT struct ref_snapshot from = REF_SNAPSHOT_INIT;
	AUTO_SNAPSHOT struct ref_snapshot to = REF_SNAPSHOT_INIT;

	make_large();
	read_refs(&from);
	read_refs(&to);
	to.refs.items[3].oid = commits[30];
	must("git -C r.git update-ref refs/heads/large/000003 refs/heads/large/000007");
	assert_fails(publish(&(struct publish_request){ .dir = repo_fd,
							.oid_len = 20,
							.from = &from,
							.to = &to,
							.fence = 1 },
			     &err),
		     ERR_CONFLICT);
	must("cd r.git && test $(git rev-parse refs/heads/large/000003) = "
	     "$(git rev-parse refs/heads/large/000007)");
	assert_nothing_left();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		GIT_CASE(one_ref_of_very_many_becomes_a_file_of_its_own),
		GIT_CASE(two_changes_of_very_many_refs_are_one_rename),
		GIT_CASE(too_many_files_of_refs_are_folded),
		GIT_CASE(a_ref_of_very_many_that_has_moved_is_a_conflict),
		GIT_CASE(refs_are_created_moved_forced_and_deleted),
		GIT_CASE(publishing_what_is_there_writes_nothing),
		GIT_CASE(head_moves_to_every_kind),
		GIT_CASE(a_head_that_is_a_symbolic_link_is_replaced),
		GIT_CASE(symbolic_refs_come_move_and_go),
		GIT_CASE(plain_refs_become_symbolic_and_back),
		GIT_CASE(a_file_becomes_a_directory_and_back),
		GIT_CASE(a_loose_file_becomes_a_directory_and_back),
		GIT_CASE(symbolic_refs_become_directories_and_back),
		GIT_CASE(loose_refs_are_folded_even_if_nothing_changes),
		GIT_CASE(loose_refs_are_folded_on_the_way_to_others),
		GIT_CASE(names_that_are_too_long_for_a_file_are_packed),
		GIT_CASE(tags_keep_their_peeled_values),
		GIT_CASE(a_packed_refs_without_peels_can_be_published_over),
		GIT_CASE(what_was_asked_for_replaces_wrong_peels),
		GIT_CASE(the_mode_of_packed_refs_stays),
		GIT_CASE(two_thousand_refs_change_at_once),
		GIT_CASE(one_of_a_hundred_thousand_refs_changes),
		GIT_CASE(repositories_of_sha256_are_published),
		GIT_CASE(a_name_that_leads_elsewhere_is_refused),
		GIT_CASE(a_ref_that_is_locked_is_a_conflict_after_the_wait),
		GIT_CASE(a_ref_that_somebody_moved_meanwhile_is_a_conflict),
		GIT_CASE(a_ref_that_somebody_deleted_or_created_meanwhile_is_a_conflict),
		GIT_CASE(a_head_that_somebody_moved_meanwhile_is_a_conflict),
		GIT_CASE(a_file_that_somebody_put_in_the_way_is_a_conflict),
		GIT_CASE(refs_that_do_not_change_keep_what_others_gave_them),
		GIT_CASE(
			a_ref_that_somebody_made_loose_meanwhile_is_published_all_the_same),
		GIT_CASE(an_overtaken_holder_publishes_nothing),
		GIT_CASE(an_overtaken_holder_folds_nothing),
		GIT_CASE(the_fence_cannot_pass_a_publication_that_goes_on),
		GIT_CASE(one_whose_pending_file_is_gone_publishes_nothing),
		GIT_CASE(a_paused_publisher_keeps_all_others_out),
	};

	if (argc > 1)
		return as_helper(argv);
	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
