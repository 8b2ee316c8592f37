#include "git_test.h"

#include "git/git_child.h"
#include "git/pack_list.h"
#include "job/job.h"
#include "replicable/name.h"
#include "store/store.h"
#include "upkeep/maintenance.h"

#define DAY MAINTENANCE_DAY_MS
#define NONE "----"

/* What is to be done, a letter each, in this order. */
static void say(const struct maintenance_plan *plan, char text[6])
{
	snprintf(text, 6, "%c%c%c%c", plan->sweeps ? 's' : '-', plan->graphs ? 'g' : '-',
		 plan->folds ? 'f' : '-',
		 plan->indexes ? plan->has_bitmap ? 'b' : 'i' : '-');
}

static const struct {
	const char *why, *plan;
	struct maintenance_found found;
} due[] = {
	{ "empty", NONE, { .since_ms = -1, .is_graph_old = true } },
	{ "small, new: a graph would help nobody",
	  NONE,
	  { .packs = 1, .objects = 5, .since_ms = -1, .is_graph_old = true } },
	{ "large, never maintained, one pack: a graph",
	  "sg--",
	  { .packs = 1, .objects = 5000, .since_ms = -1, .is_graph_old = true } },
	{ "large, as it was left, a year ago",
	  NONE,
	  { .packs = 1,
	    .objects = 5000,
	    .has_graph = true,
	    .has_index = true,
	    .since_ms = 365 * DAY } },
	{ "seven packs to fold, an hour ago",
	  NONE,
	  { .packs = 7,
	    .folds = 7,
	    .unindexed = 7,
	    .objects = 5000,
	    .has_index = true,
	    .is_graph_old = true,
	    .since_ms = 3600000 } },
	{ "seven packs to fold, yesterday",
	  "sgfb",
	  { .packs = 7,
	    .folds = 7,
	    .unindexed = 7,
	    .objects = 5000,
	    .has_index = true,
	    .is_graph_old = true,
	    .since_ms = DAY } },
	{ "seven packs to fold, yesterday, but small",
	  NONE,
	  { .packs = 7,
	    .folds = 7,
	    .unindexed = 7,
	    .objects = 999,
	    .has_index = true,
	    .is_graph_old = true,
	    .since_ms = DAY } },
	{ "eight packs to fold, whatever their size",
	  "sgfb",
	  { .packs = 8,
	    .folds = 8,
	    .objects = 8,
	    .is_graph_old = true,
	    .since_ms = 1000 } },
	{ "eight packs to fold, refs as they were",
	  "s-fb",
	  { .packs = 8, .folds = 8, .objects = 8, .has_graph = true, .since_ms = 1000 } },
	{ "many loose objects",
	  "s-fb",
	  { .packs = 1,
	    .loose = 256,
	    .objects = 8,
	    .has_graph = true,
	    .since_ms = 1000 } },
	{ "no many loose objects, but large and late",
	  "s-fb",
	  { .packs = 1,
	    .loose = 1,
	    .objects = 1000,
	    .has_graph = true,
	    .since_ms = DAY } },
	{ "many packs that are in order, without an index",
	  "s--b",
	  { .packs = 9,
	    .unindexed = 9,
	    .objects = 511,
	    .has_graph = true,
	    .since_ms = 1000 } },
	{ "two packs in order, large, never indexed",
	  "s--b",
	  { .packs = 2,
	    .unindexed = 2,
	    .objects = 5000,
	    .has_graph = true,
	    .since_ms = DAY } },
	{ "history cut short: no graph, no bitmap",
	  "s-fi",
	  { .packs = 8,
	    .folds = 8,
	    .objects = 8,
	    .is_graph_old = true,
	    .is_shallow = true,
	    .since_ms = -1 } },
	{ "left-overs alone",
	  "s---",
	  { .packs = 1, .stale = 1, .objects = 5, .has_graph = true, .since_ms = 1000 } },
};

TEST(what_is_due_follows_from_what_is_there)
{
	struct maintenance_plan plan;
	char text[6];

	for (size_t i = 0; i < ARRAY_SIZE(due); i++) {
		maintenance_decide(&due[i].found, &plan);
		say(&plan, text);
		if (strcmp(text, due[i].plan) != 0)
			fail_msg("%s: %s, not %s", due[i].why, text, due[i].plan);
		assert_int_equal(maintenance_is_due(&plan),
				 strcmp(due[i].plan, NONE) != 0);
		if (plan.folds)
			assert_true(plan.room > due[i].found.fold_bytes);
	}
}

TEST(packs_are_folded_where_they_do_not_double)
{
	static const struct {
		uint64_t sizes[8]; /* rising; of kept ones more than a million */
		size_t folds;
	} rows[] = {
		{ { 0 }, 0 },
		{ { 5 }, 0 },
		{ { 1, 2, 4, 8 }, 0 },
		{ { 3, 7, 20, 1000 }, 0 },
		{ { 1, 1 }, 2 },
		{ { 1, 1, 1000 }, 2 },
		{ { 1, 1, 3, 7 }, 4 },
		{ { 1, 1, 4, 8 }, 2 },
		{ { 4, 5, 6, 7 }, 4 },
		{ { 1, 4, 5, 11, 1000 }, 4 },
		{ { 5, 5, 2000000 }, 2 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		pack_list list = { 0 };
		for (size_t at = 0; at < 8 && rows[i].sizes[at] > 0; at++)
			vec_add(&list, ((struct pack_item){ .objects = rows[i].sizes[at],
							    .is_kept = rows[i].sizes[at] >
								       1000000 }));
		size_t folds = pack_list_count_folds(&list);
		vec_clear(&list);
		if (folds != rows[i].folds)
			fail_msg("row %zu: %zu, not %zu", i, folds, rows[i].folds);
	}
}

/* A repository with packs, one for each of so many commits, an object that nothing
 * reaches in each, and loose objects. */
static struct repo repo;
static struct store *store;
static struct lease_manager *leases;

static void make_packs(int count)
{
	must("cd r.git && from=; for i in $(seq %d); do "
	     "! git rev-parse -q --verify refs/heads/main >.name || "
	     "from='from refs/heads/main^0\n'; "
	     "printf \"blob\ndata <<.\nlost $$ $i\n.\ncommit refs/heads/main\n"
	     "committer c <c@c> 1700000000 +0000\ndata <<.\n$i\n.\n${from}"
	     "M 100644 inline f\ndata <<.\n$$ $i\n.\n\" | "
	     "git -c fastimport.unpackLimit=0 fast-import --quiet || "
	     "exit 1; done; rm .name",
	     count);
}

static void open_all(void)
{
	AUTO_FREE char *path = xasprintf("%s/r.git", root);
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);
	AUTO_FREE char *directory = xasprintf("%s/leases", root);

	assert_ok(git_setup(root, &err));
	assert_ok(repo_make(root_fd, "r.git", 20, &err));
	assert_ok(repo_open(AT_FDCWD, path, &repo, &err));
	assert_ok(dir_make(repo.fd, "refrelay", &err));
	assert_ok(store_open(url, &store, &err));
	assert_ok(lease_manager_open_local(
		store, &(struct lease_options){ .directory = directory }, &leases, &err));
}

static void close_all(void)
{
	repo_close(&repo);
	lease_manager_close(leases);
	store_close(store);
}

struct maintained {
	struct maintenance_plan plan;
	struct maintenance_result result;
	int asked, ends_at; /* must_end() says so from that time on; 0: never */
	uint64_t fence;     /* somebody has raised the repository's to it meanwhile */
};

static bool must_end(void *arg)
{
	struct maintained *this = arg;

	return this->ends_at > 0 && ++this->asked >= this->ends_at;
}

static int maintain_leased(struct job *job, void *arg, struct err *e)
{
	struct maintained *this = arg;

	if (this->fence > 0)
		assert_ok(fence_raise(repo.fd, job->fence + this->fence, e));
	return maintenance_run(&(struct maintenance_request){ .job = job,
							      .repo = &repo,
							      .refs = "refs",
							      .plan = this->plan,
							      .must_end = must_end,
							      .arg = this },
			       &this->result, e);
}

static void look(struct maintained *this)
{
	struct maintenance_found found;

	assert_ok(maintenance_look(&repo, "refs", true, &found, &err));
	maintenance_decide(&found, &this->plan);
}

static int maintain(struct maintained *this)
{
	return job_run(&(struct job_request){ .leases = leases,
					      .kind = KIND_REPOSITORY,
					      .name = "r",
					      .operation = "maintenance",
					      .run = maintain_leased,
					      .arg = this },
		       &err);
}

static size_t count(const char *pattern)
{
	AUTO_FREE char *text =
		output_of("find r.git/objects -path '%s' | wc -l", pattern);

	return strtoul(text, NULL, 10);
}

static size_t count_objects(void)
{
	AUTO_FREE char *text = output_of("git -C r.git cat-file --batch-check "
					 "--batch-all-objects | wc -l");

	return strtoul(text, NULL, 10);
}

/* And nothing that a killed git leaves behind. */
static void assert_sound(size_t objects)
{
	must("git -C r.git fsck --no-dangling --no-progress >.fsck 2>&1 || "
	     "{ cat .fsck; exit 1; }");
	must("git -C r.git multi-pack-index verify --no-progress");
	must("git -C r.git commit-graph verify --no-progress");
	assert_int_equal(count_objects(), objects);
	AUTO_FREE char *left = output_of("find r.git/objects -name 'tmp_*' -o "
					 "-name '.tmp-*' -o -name '*.lock'");
	assert_string_equal(left, "");
}

TEST(many_packs_become_few_with_indexes_and_no_object_is_dropped)
{
	struct maintained this = { 0 };

	open_all();
	make_packs(12);
	must(HASH_LINES "cd r.git && seq 40 | hash_lines >.out; rm .out");
	look(&this);
	assert_true(this.plan.folds && this.plan.graphs && this.plan.has_bitmap);
	assert_ok(maintain(&this));
	assert_int_equal(this.result.packs_before, 12);
	assert_int_equal(this.result.packs_after, 1);
	assert_int_equal(count("*.pack"), 1);
	assert_int_equal(count("*/pack/multi-pack-index*.bitmap"), 1);
	assert_int_equal(count("*/commit-graph-chain"), 1);
	assert_int_equal(count("*/objects/[0-9a-f][0-9a-f]/*"), 0);
	assert_sound(12 * 4 + 40);
	look(&this);
	assert_false(maintenance_is_due(&this.plan));

	make_packs(9);
	look(&this);
	assert_ok(maintain(&this));
	assert_in_range(count("*.pack"), 1, 2);
	assert_sound(21 * 4 + 40);
	close_all();
}

/* Wherever it is. */
TEST(who_must_end_leaves_all_objects_and_no_half_of_a_file)
{
	open_all();
	for (int ends_at = 1;; ends_at++) {
		struct maintained this = { .ends_at = ends_at };
		look(&this);
		if (!this.plan.folds)
			make_packs(9);
		look(&this);
		assert_true(this.plan.folds);
		size_t objects = count_objects();
		int done = maintain(&this);
		maintenance_result_clear(&this.result);
		assert_sound(objects);
		if (done == 0)
			break;
		assert_int_equal(err.class, ERR_CANCELED);
		assert_true(ends_at < 100);
	}
	close_all();
}

/* The pack of all is there, and so is what it was made of. */
TEST(what_a_crash_left_twice_is_folded_into_the_pack_of_the_same_name)
{
	struct maintained this = { 0 };

	open_all();
	make_packs(9);
	must("cp -r r.git twin.git && git -C twin.git -c pack.threads=1 "
	     "repack -q -n --geometric=2 --no-write-bitmap-index && "
	     "rm -rf r.git/objects && mv twin.git/objects r.git/");
	assert_int_equal(count("*.pack"), 10);
	look(&this);
	assert_ok(maintain(&this));
	assert_int_equal(count("*.pack"), 1);
	assert_sound(36);
	maintenance_result_clear(&this.result);
	close_all();
}

TEST(what_is_kept_stays_as_it_is)
{
	struct maintained this = { 0 };

	open_all();
	make_packs(1);
	must("cd r.git/objects/pack && for p in *.pack; do touch ${p%%.pack}.keep; "
	     "cp $p ../../../kept; done");
	make_packs(9);
	look(&this);
	assert_ok(maintain(&this));
	assert_int_equal(count("*.pack"), 2);
	must("cmp kept $(ls r.git/objects/pack/*.keep | sed s/keep$/pack/)");
	assert_sound(40);
	close_all();
}

/* A pack with so many objects and those of the list, which are in a larger one too: as a
 * fetch leaves that was sent deltas alone. */
static void make_pack_of(int first, int count, const char *list)
{
	must(HASH_LINES "cd r.git && { seq %d %d | sed 's/^/own /' | hash_lines; "
			"%s; } | git pack-objects -q objects/pack/pack >.name && "
			"git prune-packed -q && rm .name",
	     first, first + count - 1, list);
}

/* Also where that one is kept. */
TEST(objects_of_the_pack_that_stays_are_left_in_it)
{
	struct maintained this = { 0 };

	open_all();
	make_pack_of(1, 300, ":");
	must("ls r.git/objects/pack/*.pack >big");
	make_pack_of(1001, 1, ":");
	must("cd r.git/objects/pack && touch $(ls *.pack | grep -v -F "
	     "\"$(basename $(cat ../../../big))\" | sed s/pack$/keep/)");
	for (int i = 0; i < 8; i++) {
		AUTO_FREE char *of_big =
			xasprintf("{ echo own %d; } | git hash-object --stdin; "
				  "echo own 1001 | git hash-object --stdin",
				  i + 1);
		make_pack_of(2001 + i, 1, of_big);
	}
	assert_int_equal(count("*.pack"), 10);
	look(&this);
	assert_true(this.plan.folds);
	assert_ok(maintain(&this));
	assert_int_equal(count("*.pack"), 3);
	must("test -e $(cat big)");
	must("git -C r.git fsck --no-dangling --no-progress");
	must("git -C r.git multi-pack-index verify --no-progress");
	assert_int_equal(count_objects(), 300 + 1 + 8);
	maintenance_result_clear(&this.result);
	close_all();
}

TEST(where_git_has_nothing_to_pack_what_is_there_twice_goes)
{
	struct maintained this = { 0 };

	open_all();
	make_pack_of(1, 300, ":");
	must("ls r.git/objects/pack/*.pack >big");
	for (int i = 0; i < 8; i++) {
		AUTO_FREE char *of_big = xasprintf(
			"for i in 1 %d; do echo own $i | git hash-object --stdin; done",
			i + 2);
		make_pack_of(1, 0, of_big);
	}
	assert_int_equal(count("*.pack"), 9);
	look(&this);
	assert_true(this.plan.folds);
	assert_ok(maintain(&this));
	assert_int_equal(count("*.pack"), 1);
	must("test -e $(cat big)");
	assert_int_equal(count_objects(), 300);
	maintenance_result_clear(&this.result);

	/* As one leaves them that ends before it has removed what it packed. */
	must("cd r.git && mv ../$(cat ../big) ../p.pack && rm objects/pack/* && "
	     "git unpack-objects -q <../p.pack && git repack -q -n --geometric=2");
	assert_int_equal(count("*/objects/[0-9a-f][0-9a-f]/*"), 300);
	look(&this);
	this.plan.folds = this.plan.indexes = true;
	assert_ok(maintain(&this));
	assert_int_equal(count("*/objects/[0-9a-f][0-9a-f]/*"), 0);
	assert_int_equal(count("*.pack"), 1);
	assert_int_equal(count_objects(), 300);
	maintenance_result_clear(&this.result);
	close_all();
}

/* One that another maintenance left, which did not come to read it. */
TEST(a_pack_that_nobody_has_read_proves_nothing)
{
	struct maintained this = { 0 };

	open_all();
	make_pack_of(1, 300, ":");
	must("cd r.git && big=$(ls objects/pack/*.pack) && chmod u+w $big && "
	     "printf xxxx | dd of=$big bs=1 seek=700 conv=notrunc status=none");
	for (int i = 0; i < 8; i++) {
		AUTO_FREE char *lost = xasprintf("echo lost %d | git hash-object -w "
						 "--stdin",
						 i);
		make_pack_of(1, 0, lost);
	}
	look(&this);
	assert_fails(maintain(&this), ERR_CORRUPT);
	assert_int_equal(count("*.pack"), 10);
	maintenance_result_clear(&this.result);
	close_all();
}

TEST(one_pack_is_made_whatever_size_the_configuration_allows)
{
	struct maintained this = { 0 };

	open_all();
	must("git -C r.git config pack.packSizeLimit 1m");
	for (int i = 0; i < 8; i++)
		make_pack_of(1, 0,
			     "head -c 600000 /dev/urandom | git hash-object -w --stdin");
	look(&this);
	assert_true(this.plan.folds);
	assert_ok(maintain(&this));
	assert_int_equal(count("*.pack"), 1);
	maintenance_result_clear(&this.result);
	close_all();
}

/* In place of git's pack of all it makes one of some. */
TEST(an_object_that_git_leaves_out_is_noticed_and_no_pack_goes)
{
	struct maintained this = { 0 };
	AUTO_FREE char *before = xstrdup(getenv("PATH"));
	AUTO_FREE char *path = xasprintf("%s/bin:%s", root, before);

	open_all();
	make_packs(9);
	must("mkdir bin && cat >bin/git <<'E'\n#!/bin/sh\n"
	     "PATH=${PATH#*:}\ncase \"$*\" in *--geometric*) "
	     "git rev-list -n 4 --objects main | git pack-objects -q objects/pack/pack "
	     ">/dev/null ;;\n*) exec git \"$@\" ;;\nesac\nE\nchmod +x bin/git");
	setenv("PATH", path, 1);
	assert_ok(git_setup(root, &err));
	look(&this);
	int done = maintain(&this);
	setenv("PATH", before, 1);
	assert_ok(git_setup(root, &err));
	assert_int_equal(done, -1);
	assert_int_equal(err.class, ERR_CORRUPT);
	assert_non_null(strstr(err.text, "out of the new pack"));
	assert_int_equal(count("*.pack"), 10);
	assert_sound(36);
	close_all();
}

TEST(without_room_nothing_is_begun)
{
	struct maintained this = { 0 };

	open_all();
	make_packs(9);
	look(&this);
	this.plan.room = UINT64_MAX;
	assert_fails(maintain(&this), ERR_DISK);
	assert_int_equal(count("*.pack"), 9);
	assert_sound(36);
	close_all();
}

TEST(who_is_too_late_removes_nothing)
{
	struct maintained this = { .fence = 1 };

	open_all();
	make_packs(9);
	look(&this);
	assert_fails(maintain(&this), ERR_LOST);
	assert_int_equal(count("*.pack"), 9);
	close_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_is_due_follows_from_what_is_there),
		CASE(packs_are_folded_where_they_do_not_double),
		CASE(many_packs_become_few_with_indexes_and_no_object_is_dropped),
		CASE(who_must_end_leaves_all_objects_and_no_half_of_a_file),
		CASE(what_a_crash_left_twice_is_folded_into_the_pack_of_the_same_name),
		CASE(what_is_kept_stays_as_it_is),
		CASE(objects_of_the_pack_that_stays_are_left_in_it),
		CASE(where_git_has_nothing_to_pack_what_is_there_twice_goes),
		CASE(a_pack_that_nobody_has_read_proves_nothing),
		CASE(one_pack_is_made_whatever_size_the_configuration_allows),
		CASE(an_object_that_git_leaves_out_is_noticed_and_no_pack_goes),
		CASE(without_room_nothing_is_begun),
		CASE(who_is_too_late_removes_nothing),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
