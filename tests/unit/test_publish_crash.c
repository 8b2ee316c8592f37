/*
 * A helper publishes and is killed at each named point in turn; then stock git looks,
 * and then another publication must put everything right. Also: disks that are full.
 */
#include "publish_test.h"

#include <sys/resource.h>

#include "git/cuts.h"

static const char *const points[] = {
	"publish.pending",    "publish.folded",   "publish.locked",
	"publish.checked",    "publish.written",  "publish.written@2",
	"publish.written@3",  "publish.renamed",  "publish.renamed@2",
	"publish.renamed@3",  "publish.head",     "publish.changed",
	"state.key",          "cuts.marked",      "cuts.united",
	"cuts.written",       "publish.symbolic", "publish.symbolic@2",
	"publish.symbolic@3",
};

struct scenario {
	const char *loose; /* of `before`, or NULL */
	const char *before, *after;
	bool is_one_rename; /* old or new, never a mixture */
};

static const struct scenario scenarios[] = {
	{ NULL, "refs/heads/main=1 refs/heads/b=2 refs/heads/x/y=3 refs/tags/v=t1",
	  "refs/heads/main=4 refs/heads/c=2 refs/heads/x=3 refs/tags/v=t2", true },
	{ "heads/main=3 heads/c/d=5 tags/w=t5",
	  "refs/heads/main=3 refs/heads/b=2 refs/heads/c/d=5 refs/tags/w=t5",
	  "refs/heads/main=4 refs/heads/b=2 refs/heads/c=6", true },
	{ NULL, "refs/heads/main=1 refs/heads/b=2",
	  "HEAD=>refs/heads/trunk refs/heads/trunk=1 refs/heads/b=3", false },
	{ NULL, "refs/heads/main=1 refs/heads/t=2",
	  "refs/heads/main=1 refs/heads/t=>refs/heads/main", false },
	{ "heads/main=3",
	  "refs/heads/main=3 refs/heads/b=2 refs/heads/s=>refs/heads/b refs/heads/t=2 "
	  "refs/heads/u/v=>refs/heads/b",
	  "HEAD=2 refs/heads/main=3 refs/heads/s=4 refs/heads/t=>refs/heads/main "
	  "refs/heads/u=>refs/heads/main",
	  false },
	{ NULL, "refs/heads/main=1 refs/heads/b/c=2",
	  "refs/heads/main=1 refs/heads/b=>refs/heads/main", false },
	{ NULL, "refs/heads/main=1",
	  "HEAD=>refs/heads/trunk refs/heads/main=4 refs/heads/trunk=2", false },
	{ NULL, "refs/heads/main=2 cut=2", "refs/heads/main=4 cut=3", true },
	{ "heads/b=1", "refs/heads/main=2 refs/heads/b=1",
	  "refs/heads/main=4 refs/heads/b=1 cut=4 cut=1", true },
	{ NULL, "refs/heads/main=3 cut=2", "refs/heads/main=4", true },
};

static bool has_line(const char *listing, const char *line)
{
	size_t len = strlen(line);

	for (const char *at = listing; (at = strstr(at, line)) != NULL; at += len)
		if ((at == listing || at[-1] == '\n') && at[len] == '\n')
			return true;
	return false;
}

static bool has_name(const char *listing, const char *name)
{
	AUTO_FREE char *end = xasprintf(" %s\n", name);

	return strstr(listing, end) != NULL;
}

/* Each line that git prints is an old or a new one; what is in both is there. */
static void assert_lines_are_known(const char *seen, const char *old, const char *new)
{
	AUTO_FREE char *copy = xstrdup(seen);
	AUTO_FREE char *both = xstrdup(old);
	char *rest = copy, *line;

	while ((line = strsep(&rest, "\n")) != NULL)
		if (*line && !has_line(old, line) && !has_line(new, line))
			fail_msg("neither old nor new: %s", line);
	rest = both;
	while ((line = strsep(&rest, "\n")) != NULL)
		if (*line && has_name(new, strchr(line, ' ') + 1) &&
		    !has_name(seen, strchr(line, ' ') + 1))
			fail_msg("gone: %s", line);
}

static char *listing_of_line(const char *line)
{
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;

	refs_of(line, &snapshot);
	return listing_of(&snapshot);
}

static bool has_all(const oid_list *all, const oid_list *some)
{
	for (size_t i = 0; i < some->count; i++)
		if (!oid_list_has(all, &some->items[i]))
			return false;
	return true;
}

/* Whichever refs there are, theirs are among the cuts; and no others once it is settled.
 */
static void assert_cuts_fit(const struct scenario *scenario)
{
	AUTO_SNAPSHOT struct ref_snapshot old = REF_SNAPSHOT_INIT,
					  new = REF_SNAPSHOT_INIT;
	AUTO_SNAPSHOT struct ref_snapshot now = REF_SNAPSHOT_INIT;
	AUTO_DIFF struct ref_diff diff = { 0 };

	refs_of(scenario->before, &old);
	refs_of(scenario->after, &new);
	read_refs(&now);
	ref_diff_compute(&now, &new, &diff);
	const struct ref_snapshot *its =
		diff.changes.count > 0 || diff.head_changed ? &old : &new;
	assert_true(has_all(&now.cuts, &its->cuts));
	if (!now.is_cutting)
		assert_true(cuts_equal(&now.cuts, &its->cuts));
}

static bool is_one_of(const struct checksum *sum, const struct checksum *sums,
		      size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (checksum_equal(sum, &sums[i]))
			return true;
	return false;
}

/* What is recorded before the refs change covers whatever a crash leaves of them. */
static void assert_step_is_known(const struct scenario *scenario)
{
	AUTO_SNAPSHOT struct ref_snapshot old = REF_SNAPSHOT_INIT,
					  new = REF_SNAPSHOT_INIT;
	AUTO_SNAPSHOT struct ref_snapshot now = REF_SNAPSHOT_INIT;
	AUTO_DIFF struct ref_diff diff = { 0 };
	struct checksum sum, sums[10];
	size_t steps;

	refs_of(scenario->before, &old);
	refs_of(scenario->after, &new);
	read_refs(&now);
	ref_diff_compute(&old, &new, &diff);
	checksum_of_refs(&now, &sum);
	checksum_of_refs(&old, &sums[0]);
	checksum_of_refs(&new, &sums[1]);
	steps = publish_steps(&old, &new, &diff, sums + 2, ARRAY_SIZE(sums) - 2);
	assert_true(steps <= ARRAY_SIZE(sums) - 2);
	if (scenario->is_one_rename)
		assert_int_equal(steps, 0);
	assert_false(is_one_of(&sums[0], sums + 2, steps));
	assert_true(is_one_of(&sum, sums, steps + 2));
	assert_int_equal(publish_steps(&old, &new, &diff, sums, 0), steps);
}

static void assert_old_or_new(const struct scenario *scenario)
{
	AUTO_FREE char *old = listing_of_line(scenario->before);
	AUTO_FREE char *new = listing_of_line(scenario->after);
	AUTO_FREE char *seen = output_of("git -C r.git show-ref -d 2>/dev/null");

	if (scenario->is_one_rename) {
		if (strcmp(seen, old) != 0 && strcmp(seen, new) != 0)
			fail_msg("a mixture:\n%s", seen);
	} else {
		assert_lines_are_known(seen, old, new);
	}
	must("git -C r.git rev-parse -q --verify HEAD >/dev/null");
	must("git -C r.git fsck --connectivity-only --no-dangling >/dev/null 2>&1");
}

static void prepare(const struct scenario *scenario)
{
	close(repo_fd);
	must("rm -rf r.git");
	assert_ok(repo_make(root_fd, "r.git", 20, &err));
	open_repo();
	must("echo %s/objects >r.git/objects/info/alternates", store_path);
	assert_ok(fence_raise(repo_fd, 1, &err));
	assert_ok(try_publish(scenario->before));
	if (scenario->loose)
		set_loose(scenario->loose);
	assert_refs(scenario->before);
}

/* False: it did not pass there, and is done. */
static bool crash_at(const char *point, const struct scenario *scenario)
{
	AUTO_FREE char *failpoint = xasprintf("%s=kill", point);
	int end;

	prepare(scenario);
	end = wait_end(start_helper("publish", scenario->after, failpoint));
	if (end != 0)
		assert_int_equal(end, 128 + SIGKILL);
	return end != 0;
}

static void assert_repaired_by(const struct scenario *scenario, const char *line)
{
	AUTO_SNAPSHOT struct ref_snapshot now = REF_SNAPSHOT_INIT;

	assert_old_or_new(scenario);
	if (scenario->is_one_rename)
		assert_cuts_fit(scenario);
	if (line) {
		assert_publishes(line);
		return;
	}
	read_refs(&now); /* nothing is to be changed */
	assert_ok(publish_snapshot(&now));
	assert_old_or_new(scenario);
	assert_nothing_left();
}

/* The next publication is the same again, or goes back, or has nothing to do. */
static bool survives(size_t point, size_t number)
{
	const struct scenario *scenario = &scenarios[number];
	const char *const next[] = { scenario->after, scenario->before, NULL };

	if (!crash_at(points[point], scenario))
		return false;
	assert_step_is_known(scenario);
	assert_repaired_by(scenario, next[(point + number) % ARRAY_SIZE(next)]);
	return true;
}

TEST(a_crash_at_any_point_is_repaired_by_whatever_is_published_next)
{
	for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
		int passed = 0;
		for (size_t j = 0; j < ARRAY_SIZE(scenarios); j++)
			passed += survives(i, j);
		if (passed == 0)
			fail_msg("no scenario passes %s", points[i]);
	}
}

/* At each step, whatever is published next. */
TEST(a_crash_of_a_plain_change_leaves_nothing_behind)
{
	static const char *const steps[] = { "publish.locked", "publish.written",
					     "publish.renamed" };

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		assert_true(crash_at(steps[i], &scenarios[0]));
		assert_repaired_by(&scenarios[0], NULL);
	}
}

TEST(a_crash_during_the_repair_is_repaired_too)
{
	static const char *const repairs[] = { "state.recover=kill", "state.buried=kill",
					       "publish.locked=kill" };

	for (size_t i = 0; i < ARRAY_SIZE(repairs); i++) {
		assert_true(crash_at("publish.renamed", &scenarios[2]));
		pid_t pid = start_helper("publish", scenarios[2].before, repairs[i]);
		assert_int_equal(wait_end(pid), 128 + SIGKILL);
		assert_repaired_by(&scenarios[2], scenarios[2].after);
	}
}

/* Git works on as soon as the dead one's locks are gone. */
TEST(git_can_change_the_refs_after_a_crash_and_a_recovery)
{
	assert_true(crash_at("publish.checked", &scenarios[0]));
	must("! git -C r.git update-ref refs/heads/c refs/heads/b 2>/dev/null");
	assert_repaired_by(&scenarios[0], NULL);
	must("git -C r.git update-ref refs/heads/c refs/heads/b");
	must("git -C r.git pack-refs --all");
}

/* A helper may write files of so many bytes at most. */
static int publish_with_limit(const char *limited_line)
{
	char *line;
	unsigned long limit = strtoul(limited_line, &line, 10);
	struct rlimit size = { limit, limit };

	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &size);
	return publish_as_helper(line);
}

static char *many_refs(int commit)
{
	AUTO_STR struct str line = STR_INIT;

	for (int i = 0; i < 100; i++)
		str_addf(&line, "refs/heads/b%d=%d ", i, commit);
	str_add(&line, "refs/heads/main=1");
	return str_take(&line);
}

/* From "not even the pending file" by "not the key" to "only packed-refs does not fit".
 */
TEST(a_full_disk_leaves_the_old_refs)
{
	static const unsigned limits[] = { 0, 10, 100, 4096 };
	AUTO_FREE char *old = many_refs(1);
	AUTO_FREE char *new = many_refs(2);

	assert_publishes(old);
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		AUTO_FREE char *argument = xasprintf("%u %s", limits[i], new);
		pid_t pid = start_helper("limited", argument, NULL);
		assert_int_equal(wait_end(pid), 10 + ERR_DISK);
		assert_refs(old);
		assert_git_sees(old);
		assert_false(exists("packed-refs.new"));
		assert_nothing_left();
	}
	assert_publishes(new);
}

/* The folded refs are safe in packed-refs, or still loose. */
TEST(a_full_disk_loses_no_loose_ref)
{
	AUTO_FREE char *old = many_refs(1);
	AUTO_FREE char *argument = xasprintf("4096 %s", old);

	for (int i = 0; i < 100; i++)
		must("echo %s >r.git/refs/heads/b%d",
		     oid_text(&commits[1], (char[65]){ 0 }), i);
	set_loose("heads/main=1");
	assert_int_equal(wait_end(start_helper("limited", argument, NULL)),
			 10 + ERR_DISK);
	assert_refs(old);
	assert_nothing_left();
	assert_publishes(old);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		GIT_CASE(a_crash_at_any_point_is_repaired_by_whatever_is_published_next),
		GIT_CASE(a_crash_of_a_plain_change_leaves_nothing_behind),
		GIT_CASE(a_crash_during_the_repair_is_repaired_too),
		GIT_CASE(git_can_change_the_refs_after_a_crash_and_a_recovery),
		GIT_CASE(a_full_disk_leaves_the_old_refs),
		GIT_CASE(a_full_disk_loses_no_loose_ref),
	};

	if (argc > 1) {
		enter_helper(argv);
		return strcmp(argv[1], "limited") == 0 ? publish_with_limit(argv[4])
						       : publish_as_helper(argv[4]);
	}
	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
