#include "git_test.h"

#include <dlfcn.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "change/notice.h"
#include "git/git_child.h"
#include "replicable/name.h"
#include "verify/verify_origin.h"

static struct store *store;
static struct verify_origin *verify;
static atomic_int compared;
static const char *change;      /* done by a push between two comparisons; NULL: none */
static struct err trouble;      /* of the repository, as the notice says */
static struct err broken;       /* ... of the comparison itself */
static void (*meanwhile)(void); /* once, while a repository is verified */
static bool hangs;              /* git, until it is given up */

static int read_origin(struct store_tx *tx, void *arg, struct err *error)
{
	struct origin_row *row = arg;

	return origin_row_get(tx, KIND_REPOSITORY, "p", row, error) > 0 ? 0 : -1;
}

/* In the place of the real one: the refs on disk, and the row as it stands. */
int notice_compare_claimed(struct notice *notice, const char *name,
			   const char *claim_token, struct noticed *noticed,
			   struct err *error)
{
	AUTO_CLOSE int fd = openat(root_fd, "p.git", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)notice;
	(void)name;
	(void)claim_token;
	*noticed = (struct noticed){ 0 };
	if (meanwhile)
		TAKE(meanwhile)();
	if (atomic_fetch_add(&compared, 1) == 1 && change)
		must("%s", change);
	if (fd < 0)
		err_set(&noticed->why, ERR_MISSING, "no such repository");
	if (trouble.class != ERR_NONE)
		noticed->why = trouble;
	*error = noticed->why.class != ERR_NONE ? noticed->why : broken;
	if (error->class != ERR_NONE)
		return -1;
	if (store_read(store, read_origin, &noticed->row, error) != 0)
		return -1;
	noticed->row.generation += change && atomic_load(&compared) > 1;
	return ref_snapshot_read(fd, 20, &noticed->refs, error);
}

void noticed_clear(struct noticed *noticed)
{
	origin_row_clear(&noticed->row);
	ref_snapshot_clear(&noticed->refs);
}

static int add_row(struct store_tx *tx, void *arg, struct err *error)
{
	char name[] = "p", path[] = "p.git", checksum[] = "1-aa";
	struct origin_row row = {
		.id = replicable_id(KIND_REPOSITORY, name),
		.name = name,
		.path = path,
		.timeline = "0123456789abcdef",
		.generation = 1,
		.checksum = checksum,
		.changed_at = 1,
		.verification = VERIFICATION_PENDING,
		.verification_due_at = *(const int64_t *)arg,
	};

	return origin_row_add(tx, KIND_REPOSITORY, &row, error);
}

static void open_all(int64_t due_at)
{
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);

	atomic_store(&compared, 0);
	change = NULL;
	trouble = broken = (struct err){ 0 };
	meanwhile = NULL;
	hangs = false;
	assert_ok(git_setup(root, &err));
	must("git clone -q --bare %s p.git && cd p.git && git repack -qad && "
	     "chmod -R u+w objects",
	     store_path);
	assert_ok(store_open(url, &store, &err));
	assert_ok(store_write(store, add_row, &due_at, &err));
}

#define REVERIFY_MS 3600000

static int64_t timeout_ms = 3600000;

/* In the place of the program's. */
int git_run(const struct git_call *call, struct err *why)
{
	int (*real)(const struct git_call *, struct err *);
	const int64_t left_ms = call->work->until - clock_boot_ms();

	*(void **)&real = dlsym(RTLD_NEXT, "git_run");
	if (!hangs || strcmp(call->args[0], "verify-pack") != 0)
		return real(call, why);
	assert_in_range(left_ms, timeout_ms - 60000, timeout_ms);
	return err_set(why, ERR_TIMEOUT, "git took too long");
}

/* Likewise: no chance. */
int64_t notice_next_verification(int64_t reverify_ms)
{
	return clock_wall_ms() + reverify_ms / 4 * 3;
}

static void start_verify_for(size_t capacity, int64_t reverify_ms)
{
	struct origin_kind kind = { .of = kind_of_repositories(root), .store = store };

	kind.of.verify = &repository_verify_ops;
	verify = verify_origin_start(
		&(struct verify_origin_options){ .store = store,
						 .kinds = &kind,
						 .kind_count = 1,
						 .capacity = capacity,
						 .reverify_ms = reverify_ms,
						 .timeout_ms = timeout_ms });
}

static void start_verify(size_t capacity)
{
	start_verify_for(capacity, REVERIFY_MS);
}

static void close_all(void)
{
	verify_origin_stop(verify);
	verify_origin_free(verify);
	store_close(store);
}

static struct origin_row read_row(void)
{
	struct origin_row row = { 0 };

	assert_ok(store_read(store, read_origin, &row, &err));
	return row;
}

/* The row, once its verification has ended like this. */
static struct origin_row wait_for(enum registry_verification end)
{
	for (int i = 0; i < 6000; i++) {
		struct origin_row row = read_row();
		if (row.verification == end)
			return row;
		origin_row_clear(&row);
		usleep(5000);
	}
	fail_msg("never became %s", registry_verification_name(end));
	return (struct origin_row){ 0 };
}

TEST(a_due_repository_is_verified_and_due_again_later)
{
	int64_t now = clock_wall_ms();

	open_all(now);
	start_verify(2);
	AUTO_ORIGIN_ROW struct origin_row row = wait_for(VERIFICATION_SUCCEEDED);
	assert_true(row.verified_at >= now);
	/* not with all that came at the same time */
	assert_in_range(row.verification_due_at - now, REVERIFY_MS / 4 * 3,
			REVERIFY_MS / 4 * 3 + 60000);
	assert_int_equal(atomic_load(&compared), 1);
	close_all();
}

TEST(a_damaged_repository_is_told_of_and_tried_again_later)
{
	int64_t now = clock_wall_ms();

	open_all(now);
	must("cd p.git && truncate -s -100 objects/pack/*.pack");
	start_verify(1);
	AUTO_ORIGIN_ROW struct origin_row row = wait_for(VERIFICATION_FAILED);
	assert_string_equal(row.failure_class, "corrupt");
	assert_true(*row.failure && *row.remedy);
	assert_int_equal(row.verification_retry_count, 1);
	assert_true(row.verification_due_at > now + 14000);
	close_all();
}

/* p borrows all from beside the root, where a pack ends with an object that p has no use
 * for. */
static void borrow(char **pool)
{
	*pool = xasprintf("%s-pool", root);
	must("git clone -q --bare p.git %s && cd %s && "
	     "git update-ref refs/blobs/x $(echo x | git hash-object -w --stdin) && "
	     "git repack -qad && chmod -R u+w objects && cd - >/dev/null && "
	     "rm -f p.git/objects/pack/* && "
	     "echo %s/objects >p.git/objects/info/alternates",
	     *pool, *pool, *pool);
}

#define DAMAGE_PACK                                                                      \
	"p=$(ls objects/pack/*.pack) && printf x | "                                     \
	"dd of=$p bs=1 seek=$(($(stat -c %s $p) - 24)) conv=notrunc 2>/dev/null"

TEST(what_is_borrowed_from_elsewhere_is_read)
{
	static const char *const damages[] = {
		DAMAGE_PACK,
		"f=$(echo y | git hash-object -w --stdin | sed 's,..,objects/&/,') && "
		"chmod u+w $f && : >$f",
	};

	for (size_t i = 0; i < ARRAY_SIZE(damages); i++) {
		AUTO_FREE char *pool = NULL;
		open_all(clock_wall_ms());
		borrow(&pool);
		must("cd %s && %s", pool, damages[i]);
		start_verify(1);
		AUTO_ORIGIN_ROW struct origin_row row = wait_for(VERIFICATION_FAILED);
		assert_non_null(strstr(row.failure, pool));
		close_all();
		must("rm -rf %s p.git db*", pool);
	}
}

static int due_again(struct store_tx *tx, void *arg, struct err *error)
{
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };

	assert_ok(read_origin(tx, &row, error));
	row.verification = *(const enum registry_verification *)arg;
	row.verification_due_at = 1;
	row.verified_at = 1;
	return origin_row_update(tx, &row, row.generation, error);
}

/* Not by each that borrows it, but where something may be wrong. */
TEST(what_is_borrowed_is_read_once_in_a_round)
{
	enum registry_verification routine = VERIFICATION_SUCCEEDED;
	enum registry_verification asked = VERIFICATION_PENDING;
	AUTO_FREE char *pool = NULL;

	open_all(clock_wall_ms());
	borrow(&pool);
	start_verify(1);
	AUTO_ORIGIN_ROW struct origin_row first = wait_for(VERIFICATION_SUCCEEDED);
	assert_null(first.failure);
	must("cd %s && %s", pool, DAMAGE_PACK);
	assert_ok(store_write(store, due_again, &routine, &err));
	verify_origin_wake(verify);
	for (int64_t at = 1; at == 1; usleep(5000)) {
		AUTO_ORIGIN_ROW struct origin_row row = read_row();
		at = row.verified_at;
		assert_int_equal(row.verification, VERIFICATION_SUCCEEDED);
	}
	assert_ok(store_write(store, due_again, &asked, &err));
	verify_origin_wake(verify);
	AUTO_ORIGIN_ROW struct origin_row last = wait_for(VERIFICATION_FAILED);
	assert_non_null(strstr(last.failure, pool));
	close_all();
	must("rm -rf %s", pool);
}

/* A work tree is no repository of the site. */
TEST(what_is_borrowed_from_no_repository_is_read_below_the_root_too)
{
	AUTO_FREE char *place = xasprintf("%s/tree/.git", root);

	open_all(clock_wall_ms());
	must("git clone -q --bare p.git a && git -C a config core.bare false && "
	     "mkdir tree && mv a tree/.git && cd tree/.git && "
	     "git update-ref refs/blobs/x $(echo x | git hash-object -w --stdin) && "
	     "git repack -qad && chmod -R u+w objects && " DAMAGE_PACK " && "
	     "cd ../.. && rm -f p.git/objects/pack/* && "
	     "echo %s/objects >p.git/objects/info/alternates",
	     "%s", place);
	start_verify(1);
	AUTO_ORIGIN_ROW struct origin_row row = wait_for(VERIFICATION_FAILED);
	assert_non_null(strstr(row.failure, place));
	close_all();
}

static int add_pool(struct store_tx *tx, void *arg, struct err *error)
{
	char name[] = "pool", path[] = "pool.git", checksum[] = "1-aa";
	struct origin_row row = { .id = replicable_id(KIND_REPOSITORY, name),
				  .name = name,
				  .path = path,
				  .timeline = "0123456789abcdef",
				  .generation = 1,
				  .checksum = checksum,
				  .changed_at = 1,
				  .verification = VERIFICATION_SUCCEEDED,
				  .verification_due_at = clock_wall_ms() + 3600000 };

	(void)arg;
	return origin_row_add(tx, KIND_REPOSITORY, &row, error);
}

TEST(what_is_borrowed_from_a_repository_is_left_to_that)
{
	AUTO_FREE char *pool = NULL;

	open_all(clock_wall_ms());
	borrow(&pool);
	must("mv %s pool.git && cd pool.git && %s && cd .. && "
	     "echo $PWD/pool.git/objects >p.git/objects/info/alternates",
	     pool, DAMAGE_PACK);
	assert_ok(store_write(store, add_pool, NULL, &err));
	start_verify(1);
	AUTO_ORIGIN_ROW struct origin_row row = wait_for(VERIFICATION_SUCCEEDED);
	assert_null(row.failure);
	close_all();
}

TEST(what_takes_longer_than_the_timeout_is_tried_again_much_later)
{
	int64_t now = clock_wall_ms();

	open_all(now);
	hangs = true;
	start_verify(1);
	AUTO_ORIGIN_ROW struct origin_row row = wait_for(VERIFICATION_FAILED);
	assert_string_equal(row.failure_class, "timeout");
	assert_true(row.verification_due_at >= now + 10 * timeout_ms);
	close_all();
}

/* That may take hours, and be in vain while another reads the place. */
TEST(its_own_objects_are_not_read_before_what_is_borrowed)
{
	AUTO_FREE char *pool = NULL;

	open_all(clock_wall_ms());
	borrow(&pool);
	must("cd %s && %s", pool, DAMAGE_PACK);
	must("cd p.git && chmod u+w objects && mkdir -p objects/ab && "
	     ": >objects/ab/$(printf %%038d 1)");
	start_verify(1);
	AUTO_ORIGIN_ROW struct origin_row row = wait_for(VERIFICATION_FAILED);
	assert_non_null(strstr(row.failure, pool));
	close_all();
	must("rm -rf %s", pool);
}

/* Nothing that a reading soon would tell. */
TEST(what_is_borrowed_from_an_unknown_place_is_not_called_verified)
{
	const int64_t now = clock_wall_ms();

	open_all(now);
	must("echo '\"/srv/\\303\\244\"' >p.git/objects/info/alternates");
	start_verify(1);
	for (int64_t tries = 0; tries == 0; usleep(5000)) {
		AUTO_ORIGIN_ROW struct origin_row row = read_row();
		tries = row.verification_retry_count;
		assert_int_equal(row.verification, VERIFICATION_PENDING);
		if (tries > 0)
			assert_true(row.verification_due_at > now + REVERIFY_MS - 1000);
	}
	close_all();
}

/* The damage of its own objects is told all the same. */
TEST(damage_is_found_where_a_place_is_unknown)
{
	open_all(clock_wall_ms());
	must("echo '\"/srv/\\303\\244\"' >p.git/objects/info/alternates && cd p.git && "
	     "truncate -s -100 objects/pack/*.pack");
	start_verify(1);
	AUTO_ORIGIN_ROW struct origin_row row = wait_for(VERIFICATION_FAILED);
	assert_string_equal(row.failure_class, "corrupt");
	close_all();
}

/* One that cannot be told from a deleted one must not be looked at all the time. */
TEST(what_failed_has_failed_until_it_is_found_whole)
{
	int64_t now = clock_wall_ms();

	open_all(now);
	must("cd p.git && truncate -s -100 objects/pack/*.pack");
	start_verify(1);
	AUTO_ORIGIN_ROW struct origin_row failed = wait_for(VERIFICATION_FAILED);
	assert_non_null(failed.failure);
	verify_origin_stop(verify);
	verify_origin_free(verify);
	assert_ok(verify_origin_ask_kind(store, KIND_REPOSITORY, "p", 0, &err));
	AUTO_ORIGIN_ROW struct origin_row row = read_row();
	assert_int_equal(row.verification, VERIFICATION_FAILED);
	assert_non_null(row.failure);
	assert_true(row.verification_due_at >= now &&
		    row.verification_due_at < now + 9999);
	store_close(store);
}

static struct err met(enum err_class class, enum err_reason reason)
{
	struct err why;

	err_set(&why, class, "somebody met it");
	err_because(&why, reason);
	return why;
}

static void wait_until_proved(void)
{
	AUTO_ORIGIN_ROW struct origin_row row = wait_for(VERIFICATION_SUCCEEDED);

	assert_true(row.verification_due_at > clock_wall_ms() + 60000);
}

/* Beside work that takes all of the capacity, which rests now. */
TEST(a_doubt_is_verified_at_once)
{
	const struct err why = met(ERR_CORRUPT, REASON_NONE);

	open_all(clock_wall_ms());
	start_verify(1);
	wait_until_proved();
	must("cd p.git && truncate -s -100 objects/pack/*.pack");
	verify_origin_doubt(verify, "p", &why);
	AUTO_ORIGIN_ROW struct origin_row row = wait_for(VERIFICATION_FAILED);
	assert_non_null(strstr(row.failure, "packs"));
	close_all();
}

/* Without capacity nobody reads it again: what is known at once is what the row says. */
TEST(a_doubtful_repository_is_not_verified_and_a_damaged_one_has_failed)
{
	const struct err maybe = met(ERR_CORRUPT, REASON_NONE),
			 sure = met(ERR_CORRUPT, REASON_LOST_OBJECT),
			 network = met(ERR_NETWORK, REASON_NONE);

	open_all(clock_wall_ms());
	start_verify(1);
	wait_until_proved();
	verify_origin_set(verify, 0, 3600000, 3600000);
	verify_origin_doubt(verify, "p", &network);
	wait_until_proved();
	verify_origin_doubt(verify, "p", &maybe);
	AUTO_ORIGIN_ROW struct origin_row doubtful = read_row();
	assert_int_equal(doubtful.verification, VERIFICATION_PENDING);
	assert_true(doubtful.verification_due_at <= clock_wall_ms());
	verify_origin_doubt(verify, "p", &sure); /* it is in line, and read by nobody */
	AUTO_ORIGIN_ROW struct origin_row damaged = read_row();
	assert_int_equal(damaged.verification, VERIFICATION_FAILED);
	verify_origin_set(verify, 1, 3600000, 3600000);
	wait_until_proved();
	verify_origin_set(verify, 0, 3600000, 3600000);
	verify_origin_doubt(verify, "p", &sure);
	AUTO_ORIGIN_ROW struct origin_row failed = read_row();
	assert_int_equal(failed.verification, VERIFICATION_FAILED);
	assert_string_equal(failed.failure, "somebody met it");
	verify_origin_set(verify, 1, 3600000, 3600000);
	wait_until_proved();
	verify_origin_doubt(verify, "q", &sure); /* there is none */
	close_all();
}

/* A client that causes words of damage at will is believed three times. */
TEST(who_cries_wolf_waits)
{
	const struct err why = met(ERR_CORRUPT, REASON_NONE),
			 sure = met(ERR_CORRUPT, REASON_LOST_OBJECT);

	open_all(clock_wall_ms());
	start_verify(1);
	wait_until_proved();
	for (int i = 0; i < 3; i++) {
		int before = atomic_load(&compared);
		verify_origin_doubt(verify, "p", &why);
		while (atomic_load(&compared) == before)
			usleep(1000);
		wait_until_proved();
	}
	verify_origin_set(verify, 0, 3600000, 3600000);
	verify_origin_doubt(verify, "p", &why);
	wait_until_proved();
	verify_origin_doubt(verify, "p", &sure);
	AUTO_ORIGIN_ROW struct origin_row row = read_row();
	assert_int_equal(row.verification, VERIFICATION_FAILED);
	close_all();
}

TEST(a_look_finds_what_refs_name_and_is_away)
{
	open_all(clock_wall_ms());
	start_verify(1);
	wait_until_proved();
	verify_origin_look(verify, "p");
	verify_origin_look(verify, "q"); /* there is none */
	must("cd p.git && mkdir away && mv objects/pack/* away");
	verify_origin_look(verify, "p");
	AUTO_ORIGIN_ROW struct origin_row row = wait_for(VERIFICATION_FAILED);
	assert_non_null(strstr(row.failure, "refs/heads/"));
	close_all();
}

TEST(a_look_at_all_tells_of_one_and_marks_it)
{
	struct verify_glances glances;

	open_all(clock_wall_ms());
	assert_ok(verify_origin_glance_all(store, root, &glances, &err));
	assert_int_equal(glances.looked, 1);
	assert_int_equal(glances.broken, 0);
	must("cd p.git && mv objects/pack away");
	assert_ok(verify_origin_glance_all(store, root, &glances, &err));
	assert_int_equal(glances.broken, 1);
	assert_string_equal(glances.example, "p");
	assert_int_equal(glances.why.reason, REASON_LOST_OBJECT);
	free(glances.example);
	AUTO_ORIGIN_ROW struct origin_row row = read_row();
	assert_int_equal(row.verification, VERIFICATION_FAILED);
	assert_true(row.verification_due_at <= clock_wall_ms());
	store_close(store);
}

TEST(one_that_cannot_be_found_backs_off)
{
	int64_t now = clock_wall_ms();

	open_all(now);
	must("mv p.git elsewhere");
	start_verify(1);
	AUTO_ORIGIN_ROW struct origin_row row = wait_for(VERIFICATION_FAILED);
	assert_true(row.verification_due_at > now + 10000);
	assert_int_equal(atomic_load(&compared), 1);
	close_all();
}

/* A forced push, and its repository was cleaned up at once. */
TEST(what_a_push_drops_meanwhile_is_not_missed)
{
	open_all(clock_wall_ms());
	must("cd p.git && echo 1234567890123456789012345678901234567890 "
	     ">refs/heads/dropped");
	change = "rm p.git/refs/heads/dropped";
	start_verify(1);
	AUTO_ORIGIN_ROW struct origin_row row = wait_for(VERIFICATION_SUCCEEDED);
	assert_null(row.failure);
	assert_int_equal(row.verification_retry_count, 0);
	assert_int_equal(atomic_load(&compared), 2);
	close_all();
}

TEST(what_changes_too_fast_to_be_read_has_not_failed)
{
	int64_t now = clock_wall_ms();

	open_all(now);
	err_set(&trouble, ERR_CONFLICT, "it changes");
	start_verify(1);
	while (atomic_load(&compared) == 0)
		usleep(5000);
	verify_origin_stop(verify);
	verify_origin_free(verify);
	AUTO_ORIGIN_ROW struct origin_row row = read_row();
	assert_int_equal(row.verification, VERIFICATION_PENDING);
	assert_int_equal(row.verification_due_at, now);
	assert_null(row.failure);
	store_close(store);
}

/* What it was called before it is called still; and others are not kept waiting. */
static void assert_put_off(void)
{
	int64_t now = clock_wall_ms();

	start_verify(1);
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };
	do {
		usleep(5000);
		origin_row_clear(&row);
		row = read_row();
	} while (row.verification_due_at == 1 && clock_wall_ms() < now + 20000);
	assert_string_equal(registry_verification_name(row.verification), "pending");
	assert_in_range(row.verification_due_at - now, 10000, 60000);
	assert_int_equal(row.verification_retry_count, 1); /* later each time */
	assert_null(row.failure);
	assert_string_equal(row.claim_token, "");
	close_all();
}

TEST(a_fault_of_the_machine_is_none_of_the_repository)
{
	open_all(1);
	errno = EMFILE;
	err_errno(&trouble, "cannot open refs");
	assert_put_off();
	must("rm -rf p.git db*");
	open_all(1);
	err_set(&trouble, ERR_DISK, "the directory is away");
	assert_put_off();
}

TEST(a_fault_of_the_database_is_none_of_the_repository)
{
	open_all(1);
	err_set(&broken, ERR_CORRUPT, "the database is damaged");
	assert_put_off();
}

TEST(what_the_disk_cannot_read_has_failed)
{
	open_all(1);
	errno = EIO;
	err_errno(&trouble, "cannot read HEAD");
	start_verify(1);
	AUTO_ORIGIN_ROW struct origin_row row = wait_for(VERIFICATION_FAILED);
	assert_string_equal(row.failure_class, "disk");
	close_all();
}

/* Nobody wakes the dispatcher for it. */
TEST(a_repository_that_comes_while_it_sleeps_is_verified)
{
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);
	int64_t now = clock_wall_ms();

	open_all(now);
	store_close(store);
	must("rm db*");
	assert_ok(store_open(url, &store, &err));
	start_verify_for(1, 400);
	usleep(50000);
	assert_ok(store_write(store, add_row, &now, &err));
	AUTO_ORIGIN_ROW struct origin_row row = wait_for(VERIFICATION_SUCCEEDED);
	assert_null(row.failure);
	close_all();
}

static void expect_verified(void)
{
	AUTO_ORIGIN_ROW struct origin_row row = wait_for(VERIFICATION_SUCCEEDED);

	(void)row;
}

TEST(nothing_is_verified_with_no_capacity_until_there_is_some)
{
	open_all(clock_wall_ms());
	start_verify(0);
	usleep(50000);
	assert_int_equal(atomic_load(&compared), 0);
	verify_origin_set(verify, 1, 1000000, 3600000);
	expect_verified();
	close_all();
}

TEST(it_sleeps_until_the_next_one_is_due)
{
	int64_t due_at = clock_wall_ms() + 300;

	open_all(due_at);
	start_verify(1);
	AUTO_ORIGIN_ROW struct origin_row row = wait_for(VERIFICATION_SUCCEEDED);
	assert_true(row.verified_at >= due_at);
	close_all();
}

/* Written while the clock was a year ahead. */
TEST(what_was_put_off_by_a_wrong_clock_is_due_at_the_start)
{
	open_all(clock_wall_ms() + 31536000000);
	start_verify(1);
	expect_verified();
	close_all();
}

static int run_sql(struct store_tx *tx, void *sql, struct err *error)
{
	return store_exec(tx, sql, error);
}

static void sql(const char *text)
{
	AUTO_FREE char *own = xstrdup(text);

	assert_ok(store_write(store, run_sql, own, &err));
}

TEST(what_another_node_verifies_is_left_alone_until_its_time_is_over)
{
	AUTO_FREE char *claim = xasprintf("UPDATE origin SET claim_token = 'other',"
					  " claim_node = 'other', claim_until = %" PRId64,
					  clock_wall_ms() + 60000);

	open_all(1);
	sql(claim);
	start_verify(2);
	usleep(200000);
	assert_int_equal(atomic_load(&compared), 0);
	sql("UPDATE origin SET claim_until = 1");
	verify_origin_wake(verify);
	expect_verified();
	AUTO_ORIGIN_ROW struct origin_row row = read_row();
	assert_string_equal(row.claim_token, "");
	close_all();
}

static void wait_for_end_of_claim(void)
{
	bool is_claimed = true;

	for (int tries = 0; is_claimed; tries++) {
		AUTO_ORIGIN_ROW struct origin_row row = read_row();
		is_claimed = row.claim_token[0] != '\0';
		assert_true(tries < 10000);
		usleep(1000);
	}
}

/* A scan, or another's result, writes the row between the look and the claim. */
TEST(one_that_is_put_off_while_it_is_looked_for_is_not_forgotten)
{
	open_all(clock_wall_ms() + 3600000);
	start_verify(1);
	for (int i = 0, seen = 0; i < 12; i++) {
		AUTO_FREE char *later = xasprintf("UPDATE origin SET"
						  " verification_due_at = %" PRId64,
						  clock_wall_ms() + 50);
		sql("UPDATE origin SET verification_due_at = 1");
		verify_origin_wake(verify);
		sql(later);
		for (int tries = 0; atomic_load(&compared) == seen; tries++) {
			assert_true(tries < 10000);
			usleep(1000);
		}
		wait_for_end_of_claim();
		usleep(50000); /* the worker rests, and its end wakes */
		seen = atomic_load(&compared);
	}
	close_all();
}

/* Its node was killed, and is started again. */
TEST(what_was_verified_when_the_node_was_killed_is_due_at_the_start)
{
	AUTO_FREE char *claim = xasprintf("UPDATE origin SET claim_token = 'former',"
					  " claim_node = 'node', claim_until = %" PRId64,
					  clock_wall_ms() + 60000);

	open_all(1);
	store_set_node(store, "node");
	sql(claim);
	start_verify(1);
	expect_verified();
	close_all();
}

static void take_over(void)
{
	AUTO_FREE char *claim = xasprintf("UPDATE origin SET claim_token = 'other',"
					  " claim_node = 'other', claim_until = %" PRId64,
					  clock_wall_ms() + 60000);

	sql(claim);
}

TEST(who_was_too_slow_records_nothing)
{
	open_all(1);
	meanwhile = take_over;
	start_verify(1);
	while (atomic_load(&compared) == 0)
		usleep(1000);
	verify_origin_stop(verify);
	verify_origin_free(verify);
	AUTO_ORIGIN_ROW struct origin_row row = read_row();
	assert_int_equal(row.verification, VERIFICATION_PENDING);
	assert_string_equal(row.claim_token, "other");
	store_close(store);
}

static void doubt_meanwhile(void)
{
	const struct err why = met(ERR_CORRUPT, REASON_NONE);

	verify_origin_doubt(verify, "p", &why);
}

TEST(what_is_read_while_somebody_meets_damage_proves_nothing)
{
	open_all(clock_wall_ms() + 3000000);
	meanwhile = doubt_meanwhile;
	start_verify(1);
	/* Due only now that `verify`, which is told of the doubt, is set. */
	sql("UPDATE origin SET verification_due_at = 1");
	verify_origin_wake(verify);
	AUTO_ORIGIN_ROW struct origin_row row = wait_for(VERIFICATION_SUCCEEDED);
	assert_null(row.failure);
	assert_int_equal(atomic_load(&compared), 2);
	close_all();
}

static void make_unreadable(void)
{
	sql("UPDATE origin SET checksum = NULL, verification_state = 3,"
	    " failure_class = 'corrupt', failure = 'it has no HEAD'");
}

TEST(what_cannot_be_read_any_more_is_not_called_verified)
{
	assert_int_equal(VERIFICATION_FAILED, 3);
	open_all(1);
	meanwhile = make_unreadable;
	start_verify(1);
	while (atomic_load(&compared) == 0)
		usleep(1000);
	verify_origin_stop(verify);
	verify_origin_free(verify);
	AUTO_ORIGIN_ROW struct origin_row row = read_row();
	assert_int_equal(row.verification, VERIFICATION_FAILED);
	assert_string_equal(row.failure, "it has no HEAD");
	assert_string_equal(row.claim_token, "");
	assert_int_equal(row.verification_due_at, 1);
	store_close(store);
}

static void fill_disk(void)
{
	sql("CREATE TRIGGER full BEFORE UPDATE ON origin WHEN NEW.claim_token IS NULL"
	    " BEGIN SELECT RAISE(ABORT, 'full'); END");
}

TEST(a_claim_whose_end_could_not_be_written_ends_as_soon_as_that_can_be)
{
	open_all(1);
	meanwhile = fill_disk;
	start_verify(2);
	while (atomic_load(&compared) == 0)
		usleep(1000);
	usleep(100000);
	AUTO_ORIGIN_ROW struct origin_row row = read_row();
	assert_int_equal(row.verification, VERIFICATION_PENDING);
	assert_true(row.claim_token[0]);
	sql("DROP TRIGGER full");
	verify_origin_wake(verify);
	expect_verified();
	close_all();
}

static int set_verified_ahead(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return store_exec(tx, "UPDATE origin SET verified_at = 99999999999999", error);
}

TEST(a_verification_in_the_future_is_no_reason_to_refuse_one)
{
	open_all(1);
	assert_ok(store_write(store, set_verified_ahead, NULL, &err));
	assert_ok(verify_origin_ask_kind(store, KIND_REPOSITORY, "p", 60000, &err));
	store_close(store);
}

TEST(one_may_ask_for_a_verification_but_not_all_the_time)
{
	open_all(clock_wall_ms() + 3000000);
	start_verify(1);
	assert_fails(verify_origin_ask_kind(store, KIND_REPOSITORY, "x", 60000, &err),
		     ERR_MISSING);
	assert_ok(verify_origin_ask_kind(store, KIND_REPOSITORY, "p", 60000, &err));
	verify_origin_wake(verify);
	expect_verified();
	assert_fails(verify_origin_ask_kind(store, KIND_REPOSITORY, "p", 60000, &err),
		     ERR_BUSY);
	close_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_due_repository_is_verified_and_due_again_later),
		CASE(a_damaged_repository_is_told_of_and_tried_again_later),
		CASE(what_is_borrowed_from_elsewhere_is_read),
		CASE(what_is_borrowed_is_read_once_in_a_round),
		CASE(what_is_borrowed_from_no_repository_is_read_below_the_root_too),
		CASE(what_is_borrowed_from_a_repository_is_left_to_that),
		CASE(what_takes_longer_than_the_timeout_is_tried_again_much_later),
		CASE(its_own_objects_are_not_read_before_what_is_borrowed),
		CASE(what_is_borrowed_from_an_unknown_place_is_not_called_verified),
		CASE(damage_is_found_where_a_place_is_unknown),
		CASE(what_failed_has_failed_until_it_is_found_whole),
		CASE(a_doubt_is_verified_at_once),
		CASE(a_doubtful_repository_is_not_verified_and_a_damaged_one_has_failed),
		CASE(who_cries_wolf_waits),
		CASE(a_look_finds_what_refs_name_and_is_away),
		CASE(a_look_at_all_tells_of_one_and_marks_it),
		CASE(one_that_cannot_be_found_backs_off),
		CASE(what_a_push_drops_meanwhile_is_not_missed),
		CASE(what_changes_too_fast_to_be_read_has_not_failed),
		CASE(a_fault_of_the_machine_is_none_of_the_repository),
		CASE(a_fault_of_the_database_is_none_of_the_repository),
		CASE(what_the_disk_cannot_read_has_failed),
		CASE(a_repository_that_comes_while_it_sleeps_is_verified),
		CASE(nothing_is_verified_with_no_capacity_until_there_is_some),
		CASE(it_sleeps_until_the_next_one_is_due),
		CASE(what_was_put_off_by_a_wrong_clock_is_due_at_the_start),
		CASE(what_another_node_verifies_is_left_alone_until_its_time_is_over),
		CASE(one_that_is_put_off_while_it_is_looked_for_is_not_forgotten),
		CASE(what_was_verified_when_the_node_was_killed_is_due_at_the_start),
		CASE(who_was_too_slow_records_nothing),
		CASE(what_is_read_while_somebody_meets_damage_proves_nothing),
		CASE(what_cannot_be_read_any_more_is_not_called_verified),
		CASE(a_claim_whose_end_could_not_be_written_ends_as_soon_as_that_can_be),
		CASE(a_verification_in_the_future_is_no_reason_to_refuse_one),
		CASE(one_may_ask_for_a_verification_but_not_all_the_time),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
