#include "test.h"

#include <sys/syscall.h>

#include "base/clock.h"
#include "base/log.h"
#include "git/repo.h"
#include "lease/lease.h"
#include "replicable/name.h"
#include "replicable/registry.h"
#include "store/site_value.h"
#include "upkeep/removal.h"

#include "registry_write.h"

static int refusal; /* errno of looks at the parts of a repository; 0: none */

/* The library's, as the next. */
int faccessat(int dir, const char *path, int mode, int flags)
{
	if (refusal != 0 && (strcmp(path, "HEAD") == 0 || strcmp(path, "objects") == 0 ||
			     strcmp(path, "refs") == 0)) {
		errno = refusal;
		return -1;
	}
	return (int)syscall(SYS_faccessat2, dir, path, mode, flags);
}

static bool is_closed; /* the clone "closed": no descriptor is left for it */

int openat(int dir, const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list rest;

	va_start(rest, flags);
	if (flags & (O_CREAT | __O_TMPFILE))
		mode = va_arg(rest, mode_t);
	va_end(rest);
	if (is_closed && text_ends_with(path, "/closed.git")) {
		errno = EMFILE;
		return -1;
	}
	return (int)syscall(SYS_openat, dir, path, flags, mode);
}

static struct store *store;
static struct lease_manager *leases;

static void open_all(void)
{
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);
	AUTO_FREE char *directory = xasprintf("%s/leases", root);

	log_set_level(LOG_LEVEL_NONE);
	assert_ok(store_open(url, &store, &err));
	assert_ok(lease_manager_open_local(
		store, &(struct lease_options){ .directory = directory }, &leases, &err));
}

static void close_all(void)
{
	lease_manager_close(leases);
	store_close(store);
}

static void add_rows(int count)
{
	for (int i = 0; i < count; i++) {
		AUTO_FREE char *name = xasprintf("r%03d", i);
		const char *names[] = { name };
		assert_ok(registry_add(store, KIND_REPOSITORY, names, 1, &err));
	}
}

static int move(const char *name, enum registry_event event)
{
	const struct registry_move change = { .id = replicable_id(KIND_REPOSITORY, name),
					      .event = event,
					      .timeout_ms = 60000 };

	return registry_move(store, &change, &err);
}

static void delete_rows(int from, int count)
{
	for (int i = from; i < from + count; i++) {
		AUTO_FREE char *name = xasprintf("r%03d", i);
		assert_ok(move(name, REGISTRY_GONE));
	}
}

static int looked_at = -1; /* -1: nobody looks for them */

static bool may_remove(void)
{
	const struct removal_limit limit = {
		.kind = KIND_REPOSITORY, .root = looked_at, .share = 0.05, .more_than = 10
	};
	bool may;

	assert_ok(removal_may(store, &limit, &may, &err));
	return may;
}

static int64_t count_held(void)
{
	struct registry_counts counts;

	assert_ok(registry_counts(store, KIND_REPOSITORY, &counts, &err));
	return counts.held;
}

TEST(of_blobs_the_remedy_names_the_kind_that_is_held)
{
	static const struct removal_limit limit = { .kind = "uploads", .root = -1 };
	const char *names[] = { "a" };
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	bool may;

	open_all();
	assert_ok(registry_add(store, "uploads", names, 1, &err));
	assert_ok(registry_move(
		store,
		&(struct registry_move){ .id = replicable_id("uploads", "a"),
					 .event = REGISTRY_GONE },
		&err));
	assert_ok(removal_may(store, &limit, &may, &err));
	assert_false(may);
	assert_ok(registry_get(store, "uploads", "a", &row, &err));
	assert_string_equal(row.held_reason,
			    "at least 1 of 1 uploads would be deleted at once");
	assert_non_null(
		strstr(row.remedy, "refrelay blob remove --type uploads --state held"));
	close_all();
}

static int remove_row_as(const char *name, bool is_ordered, bool takes_wanted)
{
	const struct removal_request request = { .store = store,
						 .leases = leases,
						 .root = root,
						 .kind = KIND_REPOSITORY,
						 .name = name,
						 .wait_ms = 1000,
						 .is_ordered = is_ordered,
						 .takes_wanted = takes_wanted };

	return removal_run(&request, &err);
}

static int remove_row(const char *name, bool is_ordered)
{
	return remove_row_as(name, is_ordered, false);
}

static bool is_gone(const char *name)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	assert_ok(registry_get(store, KIND_REPOSITORY, name, &row, &err));
	return row.is_gone;
}

static bool exists(const char *path)
{
	return faccessat(root_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool has_row(const char *name)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	return registry_get(store, KIND_REPOSITORY, name, &row, &err) == 0;
}

static int count_discarded(void *arg, const struct removal_copy *copy, struct err *error)
{
	size_t *discarded = arg;

	(void)copy;
	(void)error;
	(*discarded)++;
	return 0;
}

TEST(of_many_only_those_go_that_are_gone_and_of_the_workers_claim)
{
	registry_rows rows = { 0 };
	size_t discarded = 0;
	struct removal_copy copies[] = { { .name = "r000" },
					 { .name = "r001", .claim_token = "other" },
					 { .name = "r002" } };
	struct removal_batch removal = { .kind = KIND_REPOSITORY,
					 .copies = copies,
					 .count = ARRAY_SIZE(copies),
					 .discard = count_discarded,
					 .arg = &discarded };

	open_all();
	removal.store = store;
	add_rows(3);
	delete_rows(0, 2);
	assert_ok(registry_claim(store, KIND_REPOSITORY, 10, 60000, &rows, &err));
	assert_ok(removal_run_batch(&removal, &err));
	assert_int_equal(copies[0].why.class, ERR_NONE);
	assert_int_equal(copies[1].why.class, ERR_LOST);
	assert_int_equal(copies[2].why.class, ERR_CONFLICT);
	assert_int_equal(discarded, 1);
	assert_false(has_row("r000"));
	assert_true(has_row("r001") && has_row("r002"));
	registry_rows_clear(&rows);
	close_all();
}

TEST(a_few_deletions_and_a_small_share_pass)
{
	open_all();
	add_rows(100);
	delete_rows(0, 10);
	assert_true(may_remove()); /* not more than ten */
	add_rows(240);
	delete_rows(10, 2);
	assert_true(may_remove()); /* twelve are five per cent of 240 */
	assert_int_equal(count_held(), 0);
	close_all();
}

TEST(very_many_deletions_at_once_are_held_with_a_reason)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	open_all();
	add_rows(100);
	delete_rows(0, 11);
	assert_false(may_remove());
	assert_int_equal(count_held(), 11);
	assert_ok(registry_get(store, KIND_REPOSITORY, "r003", &row, &err));
	assert_string_equal(row.held_reason,
			    "at least 11 of 100 repositories would be deleted at once");
	assert_non_null(strstr(row.remedy, "refrelay repository remove --state held"));
	assert_int_equal(row.due_at, 0);
	assert_false(may_remove()); /* and again, without a second word */
	assert_int_equal(count_held(), 11);
	close_all();
}

TEST(what_is_back_at_the_primary_is_held_no_longer)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	open_all();
	add_rows(100);
	delete_rows(0, 11);
	assert_false(may_remove());
	assert_ok(move("r003", REGISTRY_ASKED));
	assert_int_equal(count_held(), 10);
	assert_ok(registry_get(store, KIND_REPOSITORY, "r003", &row, &err));
	assert_null(row.remedy);
	assert_true(may_remove());
	close_all();
}

TEST(a_removal_puts_the_copy_into_the_trash_and_the_row_out)
{
	open_all();
	add_rows(1);
	assert_ok(repo_make(root_fd, "r000.git", 20, &err));
	delete_rows(0, 1);
	assert_ok(remove_row("r000", false));
	assert_false(exists("r000.git"));
	assert_true(exists(".refrelay/trash"));
	assert_false(has_row("r000"));
	assert_ok(remove_row("r000", false)); /* by a crash: nothing is left to do */
	close_all();
}

static int is_called_other(const struct registry_row *row, int clone, struct err *e)
{
	assert_true(clone >= 0);
	if (text_starts_with(row->name, "unread"))
		return err_set(e, ERR_DISK, "its record cannot be read");
	return text_starts_with(row->name, "other");
}

static int remove_mirror(const char *name, bool is_ordered)
{
	const struct registry_row row = { .name = (char *)(uintptr_t)name };

	return removal_run(
		&(struct removal_request){ .store = store,
					   .leases = leases,
					   .root = root,
					   .kind = KIND_MIRROR,
					   .name = name,
					   .wait_ms = 1000,
					   .is_ordered = is_ordered,
					   .is_from_elsewhere = is_called_other,
					   .row = &row },
		&err);
}

static void mirror_moves(const char *name, enum registry_event event)
{
	const struct registry_move change = { .id = replicable_id(KIND_MIRROR, name),
					      .event = event,
					      .generation = 1,
					      .timeline = "0123456789abcdef",
					      .timeout_ms = 60000 };

	assert_ok(registry_move(store, &change, &err));
}

/* It was there before, and held for its commits. */
TEST(a_clone_stays_that_was_never_equal_to_its_upstream)
{
	static const char *const names[] = { "own", "ordered", "mirrored", "none" };

	open_all();
	assert_ok(registry_add(store, KIND_MIRROR, names, ARRAY_SIZE(names), &err));
	assert_ok(repo_make(root_fd, "own.git", 20, &err));
	assert_ok(repo_make(root_fd, "ordered.git", 20, &err));
	assert_ok(repo_make(root_fd, "mirrored.git", 20, &err));
	mirror_moves("mirrored", REGISTRY_BEGUN);
	mirror_moves("mirrored", REGISTRY_BROUGHT);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO_REGISTRY_ROW struct registry_row row = { 0 };
		mirror_moves(names[i], REGISTRY_GONE);
		assert_ok(remove_mirror(names[i], i == 1));
		assert_fails(registry_get(store, KIND_MIRROR, names[i], &row, &err),
			     ERR_MISSING);
	}
	assert_true(exists("own.git"));
	assert_false(exists("ordered.git"));
	assert_false(exists("mirrored.git"));
	close_all();
}

TEST(a_clone_stays_that_was_brought_from_elsewhere_since)
{
	static const char *const names[] = { "other", "other_ordered", "mirrored" };

	open_all();
	assert_ok(registry_add(store, KIND_MIRROR, names, ARRAY_SIZE(names), &err));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO_FREE char *path = name_to_path(names[i]);
		assert_ok(repo_make(root_fd, path, 20, &err));
		mirror_moves(names[i], REGISTRY_BEGUN);
		mirror_moves(names[i], REGISTRY_BROUGHT);
		mirror_moves(names[i], REGISTRY_GONE);
		assert_ok(remove_mirror(names[i], i == 1));
		assert_int_equal(exists(path), i == 0);
	}
	close_all();
}

/* Of which nobody can tell now whose it is. */
TEST(a_mirror_that_cannot_be_looked_at_now_keeps_its_row)
{
	static const char *const names[] = { "closed", "unread" };

	open_all();
	assert_ok(registry_add(store, KIND_MIRROR, names, ARRAY_SIZE(names), &err));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO_FREE char *path = name_to_path(names[i]);
		AUTO_REGISTRY_ROW struct registry_row row = { 0 };
		assert_ok(repo_make(root_fd, path, 20, &err));
		mirror_moves(names[i], REGISTRY_BEGUN);
		mirror_moves(names[i], REGISTRY_BROUGHT);
		mirror_moves(names[i], REGISTRY_GONE);
		is_closed = i == 0;
		assert_int_equal(remove_mirror(names[i], false), -1);
		is_closed = false;
		assert_true(exists(path));
		assert_ok(registry_get(store, KIND_MIRROR, names[i], &row, &err));
	}
	close_all();
}

TEST(a_copy_that_cannot_be_looked_at_now_keeps_its_row)
{
	static const int codes[] = { EIO, ESTALE, ENOTCONN };

	open_all();
	add_rows(1);
	assert_ok(repo_make(root_fd, "r000.git", 20, &err));
	delete_rows(0, 1);
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		refusal = codes[i];
		assert_int_equal(remove_row("r000", false), -1);
		refusal = 0;
		assert_int_equal(err.sys_errno, codes[i]);
		assert_non_null(strstr(err.text, "cannot look at r000.git"));
		assert_true(exists("r000.git"));
		assert_true(has_row("r000"));
	}
	assert_ok(remove_row("r000", false));
	assert_false(exists("r000.git"));
	close_all();
}

TEST(a_removal_ends_what_one_that_died_has_begun)
{
	const char *const name = "deep/er/one";

	open_all();
	assert_ok(registry_add(store, KIND_REPOSITORY, &name, 1, &err));
	assert_ok(move(name, REGISTRY_GONE));
	assert_ok(dir_make(root_fd, "deep/er", &err));
	assert_ok(dir_make(root_fd, "deep/other", &err));
	assert_ok(remove_row(name, false));
	assert_false(exists("deep/er"));
	assert_true(exists("deep/other"));
	close_all();
}

TEST(what_is_wanted_again_is_not_removed)
{
	open_all();
	add_rows(1);
	assert_ok(repo_make(root_fd, "r000.git", 20, &err));
	assert_fails(remove_row("r000", true), ERR_CONFLICT);
	delete_rows(0, 1);
	assert_ok(move("r000", REGISTRY_BEGUN));
	assert_ok(move("r000", REGISTRY_ASKED));
	assert_fails(remove_row("r000", false), ERR_CONFLICT);
	assert_int_equal(err.reason, REASON_WANTED);
	assert_true(exists("r000.git"));
	assert_true(has_row("r000"));
	close_all();
}

static int read_ordered(struct store_tx *tx, void *arg, struct err *error)
{
	return registry_ordered_in(tx, KIND_REPOSITORY, arg, error);
}

static int64_t count_ordered(void)
{
	int64_t count = -1;

	assert_ok(store_read(store, read_ordered, &count, &err));
	return count;
}

static int note_mark(void *arg, const struct removal_copy *copy, struct err *error)
{
	*(bool *)arg = is_gone(copy->name);
	return err_set(error, ERR_DISK, "no space");
}

/* A crash leaves what a node completes; a failure, what is not removed later. */
TEST(what_a_person_removes_is_gone_while_it_goes_only)
{
	struct removal_copy copy = { .name = "r000" };
	bool was_gone = false;
	struct removal_batch batch = { .kind = KIND_REPOSITORY,
				       .copies = &copy,
				       .count = 1,
				       .is_ordered = true,
				       .takes_wanted = true,
				       .discard = note_mark,
				       .arg = &was_gone };
	struct lease *held;
	char key[LEASE_KEY_SIZE];

	open_all();
	batch.store = store;
	add_rows(1);
	assert_ok(repo_make(root_fd, "r000.git", 20, &err));
	assert_ok(removal_run_batch(&batch, &err));
	assert_int_equal(copy.why.class, ERR_DISK);
	assert_true(was_gone);
	assert_false(is_gone("r000"));
	assert_int_equal(count_ordered(), 0);

	lease_key_for(leases, KIND_REPOSITORY, replicable_id(KIND_REPOSITORY, "r000"),
		      "r000", key);
	assert_ok(lease_acquire(leases,
				&(struct lease_request){ .key = key, .operation = "x" },
				&held, &err));
	assert_fails(remove_row_as("r000", true, true), ERR_LOCK_TIMEOUT);
	lease_release(held);
	assert_false(is_gone("r000"));
	assert_true(exists("r000.git"));

	assert_ok(remove_row_as("r000", true, true));
	assert_false(exists("r000.git"));
	assert_false(has_row("r000"));
	assert_int_equal(count_ordered(), 1);
	close_all();
}

static int want_again(void *arg, const struct removal_copy *copy, struct err *error)
{
	(void)arg;
	(void)error;
	return move(copy->name, REGISTRY_ASKED);
}

/* By a comparison, for example. What was gone already is the primary's word, which has
 * changed. */
TEST(what_a_person_removes_goes_also_if_it_is_wanted_meanwhile)
{
	struct removal_copy copies[] = { { .name = "r000" }, { .name = "r001" } };
	struct removal_batch batch = { .kind = KIND_REPOSITORY,
				       .copies = copies,
				       .count = ARRAY_SIZE(copies),
				       .is_ordered = true,
				       .takes_wanted = true,
				       .discard = want_again };

	open_all();
	batch.store = store;
	add_rows(2);
	delete_rows(1, 1);
	assert_ok(removal_run_batch(&batch, &err));
	assert_int_equal(copies[0].why.class, ERR_NONE);
	assert_false(has_row("r000"));
	assert_int_equal(copies[1].why.reason, REASON_WANTED);
	assert_true(has_row("r001"));
	close_all();
}

static void write_file(const char *path, const char *text, int64_t age_s)
{
	const struct timespec old = { time(NULL) - age_s, 0 };
	const struct timespec times[2] = { old, old };

	assert_ok(file_replace(root_fd, path, text, strlen(text), FILE_SYNC, &err));
	assert_int_equal(utimensat(root_fd, path, times, 0), 0);
}

/* Nobody syncs it any more, so nothing else would mend it. */
TEST(a_copy_goes_that_has_a_damaged_fence_and_a_forgotten_lock)
{
	open_all();
	add_rows(1);
	delete_rows(0, 1);
	assert_ok(repo_make(root_fd, "r000.git", 20, &err));
	assert_ok(dir_make(root_fd, "r000.git/refrelay", &err));
	write_file("r000.git/refrelay/fence", "12x\n", 0);
	write_file("r000.git/packed-refs.lock", "", 60);
	assert_ok(remove_row("r000", false));
	assert_false(exists("r000.git"));
	assert_false(has_row("r000"));
	close_all();
}

static void make_copy(const char *name)
{
	AUTO_FREE char *path = xasprintf("%s.git", name);

	assert_ok(repo_make(root_fd, path, 20, &err));
}

/* A wrong inventory may lose one a minute. */
TEST(deletions_that_come_drop_by_drop_reach_the_brake)
{
	open_all();
	add_rows(50);
	for (int i = 0; i < 10; i++) {
		AUTO_FREE char *name = xasprintf("r%03d", i);
		make_copy(name);
		delete_rows(i, 1);
		assert_true(may_remove());
		assert_ok(remove_row(name, false));
	}
	delete_rows(10, 1);
	assert_false(may_remove());
	assert_int_equal(count_held(), 1);
	close_all();
}

TEST(what_a_person_removes_does_not_count)
{
	open_all();
	add_rows(50);
	delete_rows(0, 20);
	assert_false(may_remove());
	for (int i = 0; i < 20; i++) {
		AUTO_FREE char *name = xasprintf("r%03d", i);
		make_copy(name);
		assert_ok(remove_row(name, true));
	}
	delete_rows(20, 1);
	assert_true(may_remove());
	close_all();
}

/* What was compared before says nothing of a row that is away since, with a copy or
 * without. */
TEST(each_row_that_a_person_removes_asks_for_a_comparison)
{
	open_all();
	add_rows(4);
	make_copy("r000");
	delete_rows(0, 3);
	assert_ok(remove_row("r000", true));
	assert_int_equal(count_ordered(), 1);
	assert_ok(remove_row("r001", true));
	assert_int_equal(count_ordered(), 2);
	assert_ok(remove_row("r002", false));
	assert_fails(remove_row("r003", true), ERR_CONFLICT);
	assert_int_equal(count_ordered(), 2);
	close_all();
}

TEST(what_has_no_copy_is_no_deletion)
{
	open_all();
	add_rows(50);
	make_copy("r000");
	delete_rows(0, 20);
	looked_at = root_fd;
	assert_true(may_remove());
	assert_int_equal(count_held(), 0);
	for (int i = 1; i < 20; i++) {
		AUTO_FREE char *name = xasprintf("r%03d", i);
		assert_ok(remove_row(name, false));
	}
	for (int i = 20; i < 30; i++) {
		AUTO_FREE char *name = xasprintf("r%03d", i);
		make_copy(name);
	}
	delete_rows(20, 9);
	assert_true(may_remove());
	delete_rows(29, 2); /* the second has none */
	assert_false(may_remove());
	looked_at = -1;
	assert_int_equal(count_held(), 11);
	close_all();
}

static void ask(const char *name, const char *timeline)
{
	const struct registry_move change = { .id = replicable_id(KIND_REPOSITORY, name),
					      .event = REGISTRY_ASKED,
					      .timeline = timeline,
					      .generation = 1 };

	assert_ok(registry_add(store, KIND_REPOSITORY, &name, 1, &err));
	assert_ok(registry_move(store, &change, &err));
}

/* Not even where the copy could not be moved, and the new name was fetched; or where it
 * was renamed twice. */
TEST(what_lives_on_under_another_name_does_not_count)
{
	open_all();
	for (int i = 0; i < 15; i++) {
		AUTO_FREE char *name = xasprintf("r%03d", i);
		AUTO_FREE char *timeline = xasprintf("%016x", i + 1);
		AUTO_FREE char *between = xasprintf("a%03d", i);
		AUTO_FREE char *next = xasprintf("z%03d", i);
		ask(name, timeline);
		ask(between, timeline);
		ask(next, timeline);
		make_copy(name);
		make_copy(between);
		assert_ok(move(between, REGISTRY_GONE));
		assert_ok(move(name, REGISTRY_GONE));
		assert_ok(remove_row(between, false));
		assert_ok(remove_row(name, false));
		assert_false(has_row(name));
	}
	ask("other", "00000000000000ff");
	assert_ok(move("other", REGISTRY_GONE));
	assert_true(may_remove());
	close_all();
}

TEST(what_waits_to_be_renamed_does_not_count)
{
	open_all();
	for (int i = 0; i < 20; i++) {
		AUTO_FREE char *name = xasprintf("r%03d", i);
		AUTO_FREE char *timeline = xasprintf("%016x", i + 1);
		AUTO_FREE char *next = xasprintf("z%03d", i);
		ask(name, timeline);
		ask(next, timeline);
		assert_ok(move(name, REGISTRY_GONE));
	}
	assert_true(may_remove());
	close_all();
}

/* As a primary of an earlier version gave its rows after a restore. */
TEST(a_timeline_that_several_have_is_no_new_name)
{
	open_all();
	for (int i = 0; i < 50; i++) {
		AUTO_FREE char *name = xasprintf("r%03d", i);
		ask(name, "00000000000000ff");
	}
	delete_rows(0, 20);
	assert_false(may_remove());
	delete_rows(20, 29);
	assert_false(may_remove()); /* and one is left */
	close_all();
}

static int set_removed(struct store_tx *tx, void *arg, struct err *error)
{
	return site_value_set(tx, "pull.removed", arg, error);
}

TEST(only_the_last_hour_counts)
{
	int64_t minute = clock_wall_ms() / 60000;
	AUTO_FREE char *text =
		xasprintf("%" PRId64 ":500 %" PRId64 ":9", minute - 61, minute - 50);

	open_all();
	add_rows(50);
	assert_ok(store_write(store, set_removed, text, &err));
	delete_rows(0, 1);
	assert_true(may_remove());
	make_copy("r000");
	assert_ok(remove_row("r000", false));
	delete_rows(1, 1);
	assert_false(may_remove());
	close_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(of_many_only_those_go_that_are_gone_and_of_the_workers_claim),
		CASE(a_few_deletions_and_a_small_share_pass),
		CASE(very_many_deletions_at_once_are_held_with_a_reason),
		CASE(of_blobs_the_remedy_names_the_kind_that_is_held),
		CASE(what_is_back_at_the_primary_is_held_no_longer),
		CASE(a_removal_puts_the_copy_into_the_trash_and_the_row_out),
		CASE(a_clone_stays_that_was_never_equal_to_its_upstream),
		CASE(a_clone_stays_that_was_brought_from_elsewhere_since),
		CASE(a_mirror_that_cannot_be_looked_at_now_keeps_its_row),
		CASE(a_copy_that_cannot_be_looked_at_now_keeps_its_row),
		CASE(a_removal_ends_what_one_that_died_has_begun),
		CASE(what_is_wanted_again_is_not_removed),
		CASE(what_a_person_removes_is_gone_while_it_goes_only),
		CASE(what_a_person_removes_goes_also_if_it_is_wanted_meanwhile),
		CASE(a_copy_goes_that_has_a_damaged_fence_and_a_forgotten_lock),
		CASE(deletions_that_come_drop_by_drop_reach_the_brake),
		CASE(what_a_person_removes_does_not_count),
		CASE(each_row_that_a_person_removes_asks_for_a_comparison),
		CASE(what_has_no_copy_is_no_deletion),
		CASE(what_lives_on_under_another_name_does_not_count),
		CASE(what_waits_to_be_renamed_does_not_count),
		CASE(a_timeline_that_several_have_is_no_new_name),
		CASE(only_the_last_hour_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
