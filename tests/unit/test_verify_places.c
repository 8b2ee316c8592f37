/* With a place that is not read, and a clock that the tests move. */
#include "git_test.h"

#include <dlfcn.h>

#include "base/clock.h"
#include "verify/verify_objects.h"
#include "verify/verify_origin_parts.h"

static int64_t ahead_ms;
static struct verify_origin verify;
static struct origin_kind kind;
static struct verify_batch batch;
static struct repo borrower;
static int readings;
static int64_t takes_ms;
static enum err_class found; /* by the next readings */
static void (*meanwhile)(void);

#define HOUR_MS ((int64_t)3600 * 1000)
#define WEEK_MS (7 * 24 * HOUR_MS)

static const struct origin_row unread = { .verification = VERIFICATION_PENDING };
static const struct origin_row known = { .verification = VERIFICATION_SUCCEEDED,
					 .verified_at = 1 };
static const struct origin_row doubted = { .verification = VERIFICATION_PENDING,
					   .verified_at = 1 };

int64_t clock_boot_ms(void)
{
	int64_t (*real)(void);

	*(void **)&real = dlsym(RTLD_NEXT, "clock_boot_ms");
	return real() + ahead_ms;
}

int verify_borrowed(const struct git_work *work, const struct repo *repo,
		    const char *objects, struct err *error)
{
	(void)repo;
	assert_non_null(strstr(objects, "-pool/objects"));
	assert_in_range(work->until - clock_boot_ms(), 2 * HOUR_MS, 4 * HOUR_MS);
	readings++;
	if (meanwhile)
		meanwhile();
	ahead_ms += takes_ms;
	return found == ERR_NONE ? 0 : err_set(error, found, "packs of %s", objects);
}

static int set_up(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	must("git init -q --bare p.git && mkdir -p %s-pool/objects && "
	     "echo %s-pool/objects >p.git/objects/info/alternates",
	     root, root);
	AUTO_FREE char *path = xasprintf("%s/p.git", root);
	borrower = (struct repo)REPO_INIT;
	assert_ok(repo_open(AT_FDCWD, path, &borrower, &err));
	verify = (struct verify_origin){ .options = { .reverify_ms = WEEK_MS,
						      .timeout_ms = 3 * HOUR_MS } };
	mutex_init(&verify.mutex);
	kind = (struct origin_kind){ .of = kind_of_repositories(root) };
	batch = (struct verify_batch){ .verify = &verify, .kind = &kind };
	readings = 0;
	takes_ms = 0;
	found = ERR_NONE;
	meanwhile = NULL;
	return 0;
}

static int tear_down(void **state)
{
	repo_close(&borrower);
	verify_places_clear(&verify);
	pthread_mutex_destroy(&verify.mutex);
	must("rm -rf %s-pool", root);
	return test_remove_root(state);
}

static int read_for(const struct origin_row *row)
{
	struct err unjudged;
	int result = verify_places_read(&batch, row, &borrower, &unjudged, &err);

	assert_int_equal(unjudged.class, ERR_NONE);
	return result;
}

/* In err: why nothing is known of a place. */
static int judge_for(const struct origin_row *row)
{
	assert_ok(verify_places_read(&batch, row, &borrower, &err, &(struct err){ 0 }));
	return err.class == ERR_NONE ? 0 : -1;
}

static void come_meanwhile(void)
{
	meanwhile = NULL;
	assert_fails(read_for(&unread), ERR_BUSY);
	assert_fails(read_for(&doubted), ERR_BUSY);
}

TEST(one_reads_a_place_and_those_that_come_meanwhile_come_back)
{
	meanwhile = come_meanwhile;
	assert_ok(read_for(&unread));
	assert_int_equal(readings, 1);
	assert_ok(read_for(&unread));
	assert_ok(read_for(&known));
	assert_int_equal(readings, 1);
}

TEST(a_place_is_read_again_in_each_round_and_where_something_may_be_wrong)
{
	assert_ok(read_for(&unread));
	ahead_ms += WEEK_MS / 2 - HOUR_MS;
	assert_ok(read_for(&known));
	assert_int_equal(readings, 1);
	assert_ok(read_for(&unread));
	assert_int_equal(readings, 2);
	assert_ok(read_for(&doubted));
	assert_int_equal(readings, 3);
	ahead_ms += WEEK_MS / 2 + HOUR_MS;
	assert_ok(read_for(&known));
	assert_int_equal(readings, 4);
}

TEST(what_is_wrong_with_a_place_is_told_to_all_without_reading_it_again)
{
	found = ERR_CORRUPT;
	takes_ms = 2 * HOUR_MS;
	assert_fails(read_for(&unread), ERR_CORRUPT);
	takes_ms = 0;
	ahead_ms += HOUR_MS;
	assert_fails(read_for(&known), ERR_CORRUPT);
	assert_fails(read_for(&doubted), ERR_CORRUPT);
	assert_non_null(strstr(err.text, "-pool"));
	assert_int_equal(readings, 1);
	ahead_ms += 2 * HOUR_MS;
	found = ERR_NONE;
	assert_ok(read_for(&known));
	assert_int_equal(readings, 2);
}

TEST(a_place_that_cannot_be_read_in_time_is_no_damage)
{
	found = ERR_TIMEOUT;
	assert_fails(judge_for(&unread), ERR_TIMEOUT);
	assert_fails(judge_for(&known), ERR_TIMEOUT);
	ahead_ms += 29 * HOUR_MS; /* of ten times three */
	assert_fails(judge_for(&known), ERR_TIMEOUT);
	assert_int_equal(readings, 1);
	verify.options.timeout_ms += 1000;
	assert_fails(judge_for(&known), ERR_TIMEOUT);
	assert_int_equal(readings, 2);
}

TEST(what_ended_a_reading_from_outside_is_not_remembered)
{
	found = ERR_CANCELED;
	assert_fails(read_for(&unread), ERR_CANCELED);
	found = ERR_NONE;
	assert_ok(read_for(&unread));
	assert_int_equal(readings, 2);
}

TEST(a_place_that_is_not_known_is_not_called_whole)
{
	must("echo '\"/srv/\\303\\244\"' >p.git/objects/info/alternates");
	assert_fails(judge_for(&unread), ERR_CONFIG);
	assert_true(*err.remedy);
	must("seq -f '%s-pool/objects/%%g' 3000 >p.git/objects/info/alternates", root);
	assert_fails(judge_for(&unread), ERR_CONFIG);
}

TEST(a_place_that_is_not_known_hides_no_damage_of_another)
{
	struct err unjudged;

	must("(echo '\"/srv/x\"' && cat p.git/objects/info/alternates) >a && "
	     "mv a p.git/objects/info/alternates");
	found = ERR_CORRUPT;
	assert_fails(verify_places_read(&batch, &unread, &borrower, &unjudged, &err),
		     ERR_CORRUPT);
}

#define PLACES_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PLACES_CASE(one_reads_a_place_and_those_that_come_meanwhile_come_back),
		PLACES_CASE(
			a_place_is_read_again_in_each_round_and_where_something_may_be_wrong),
		PLACES_CASE(
			what_is_wrong_with_a_place_is_told_to_all_without_reading_it_again),
		PLACES_CASE(a_place_that_cannot_be_read_in_time_is_no_damage),
		PLACES_CASE(what_ended_a_reading_from_outside_is_not_remembered),
		PLACES_CASE(a_place_that_is_not_known_is_not_called_whole),
		PLACES_CASE(a_place_that_is_not_known_hides_no_damage_of_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
