/* With a primary in this process, whose connections break, and a clock that waits move.
 */
#include "git_test.h"

#include <dlfcn.h>

#include "pull/bring_packs.h"
#include "pull/source.h"

#define PIECE ((uint64_t)256 << 10) /* of a connection that breaks */

struct primary_line {
	struct str pack, index;
	char name[WIRE_PACK_NAME_SIZE];
	uint64_t before_break; /* bytes of an answer; 0: it has all */
	bool is_answered;      /* while it is away */
	int64_t back_at;       /* by the clock */
	int asked;             /* for a part of a file */
	int64_t takes_ms;      /* to answer that */
	bool is_silent;        /* while it is away: takes_ms are over then */
	struct stop *stops;    /* requested while it is away; NULL: none */
};

static int64_t ahead_ms;
static VEC(int64_t) waits;
static struct primary_line primary;
static struct stop stop, leaving;
static struct git_work work;
static struct repo copy;
static oid_list wanted;

int64_t clock_boot_ms(void)
{
	int64_t (*real)(void);

	*(void **)&real = dlsym(RTLD_NEXT, "clock_boot_ms");
	return real() + ahead_ms;
}

bool stop_wait(const struct stop *stopped, int64_t ms)
{
	if (stop_is_requested(stopped))
		return true;
	ahead_ms += ms;
	if (waits.count > 0)
		waits.items[waits.count - 1] += ms;
	return false;
}

static int is_away(struct err *error)
{
	return err_set(error, ERR_NETWORK, "nobody is there");
}

int primary_packs(struct primary_line *line, const char *name, wire_packs *packs,
		  struct err *error)
{
	struct wire_pack pack = { .bytes = line->pack.len,
				  .index_bytes = line->index.len,
				  .objects = 1 };

	(void)name;
	(void)error;
	snprintf(pack.name, sizeof(pack.name), "%s", line->name);
	vec_add(packs, pack);
	return 0;
}

int primary_pack_read(struct primary_line *line, const struct pack_part *part,
		      const struct pack_part_sink *sink, struct err *error)
{
	const struct str *file =
		text_ends_with(part->file, ".idx") ? &line->index : &line->pack;
	uint64_t len = part->length;

	line->asked++;
	ahead_ms += line->takes_ms;
	vec_add(&waits, 0);
	if (clock_boot_ms() < line->back_at) {
		if (line->stops)
			stop_request(line->stops);
		return line->is_silent ? err_set(error, ERR_TIMEOUT, "nothing came")
				       : is_away(error);
	}
	if (line->before_break > 0 && len > line->before_break)
		len = line->before_break;
	if (sink->take(sink->arg, &(struct pack_head){ "\"1\"", file->len },
		       file->data + part->offset, len, error) != 0)
		return -1;
	if (len == part->length)
		return 0;
	if (line->back_at < 0) /* from the first break on */
		line->back_at = clock_boot_ms() - line->back_at;
	return err_set(error, ERR_NETWORK, "the connection broke");
}

bool primary_line_was_answered(const struct primary_line *line)
{
	return line->is_answered;
}

static void read_file(const char *name, struct str *text)
{
	assert_ok(file_read(root_fd, name, 64 << 20, text, &err));
}

static int set_up(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	must("git init -q -b main w && head -c 3000000 /dev/urandom >w/r && cd w && "
	     "git add . && git commit -qm c && git repack -qad && "
	     "cp .git/objects/pack/*.pack ../pack && cp .git/objects/pack/*.idx ../idx "
	     "&& "
	     "cd .. && git init -q --bare copy.git");
	AUTO_FREE char *path = output_of("basename w/.git/objects/pack/*.pack .pack");
	AUTO_FREE char *name = output_of("git -C w rev-parse main");
	const char *at = name;
	primary = (struct primary_line){ .pack = STR_INIT, .index = STR_INIT };
	snprintf(primary.name, sizeof(primary.name), "%.45s", path);
	read_file("pack", &primary.pack);
	read_file("idx", &primary.index);
	assert_ok(git_setup(root, &err));
	copy = (struct repo)REPO_INIT;
	AUTO_FREE char *there = xasprintf("%s/copy.git", root);
	assert_ok(repo_open(AT_FDCWD, there, &copy, &err));
	stop_init(&stop);
	stop_init(&leaving);
	work = git_work_for(&stop, 0);
	vec_add(&wanted, next_oid(&at));
	return 0;
}

static int tear_down(void **state)
{
	vec_clear(&wanted);
	vec_clear(&waits);
	stop_clear(&leaving);
	stop_clear(&stop);
	repo_close(&copy);
	str_clear(&primary.pack);
	str_clear(&primary.index);
	return test_remove_root(state);
}

#define PACKS_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static int bring(void)
{
	const struct source_view view = { .oid_len = 20, .pack_bytes = primary.pack.len };
	const struct source_want want = { .work = &work,
					  .name = "big",
					  .copy = &copy,
					  .view = &view,
					  .oids = &wanted,
					  .is_new = true };

	return bring_packs(&primary, &want, &err);
}

static void assert_came(void)
{
	assert_ok(bring());
	must("cmp pack copy.git/objects/pack/*.pack && cmp idx "
	     "copy.git/objects/pack/*.idx");
}

static void assert_nothing_is_there(void)
{
	must("[ -z \"$(find copy.git/objects/pack -type f)\" ]");
}

TEST(a_primary_that_is_away_for_two_minutes_is_waited_for)
{
	static const int64_t expected[] = { 0, 1000, 2000, 4000, 8000, 16000, 16000 };

	primary.before_break = (uint64_t)1 << 20;
	primary.back_at = -120000;
	assert_came();
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
		assert_int_equal(waits.items[i], expected[i]);
	assert_true(primary.asked < 20);
}

TEST(breaks_are_not_counted_while_it_goes_on)
{
	primary.before_break = PIECE;
	assert_came();
	assert_int_equal(primary.asked, primary.pack.len / PIECE + 2);
	for (size_t i = 0; i < waits.count; i++)
		assert_int_equal(waits.items[i], 0);
}

TEST(little_at_a_time_is_not_asked_for_at_once)
{
	primary.before_break = 16 << 10;
	assert_came();
	for (size_t i = 0; i + 8 < waits.count; i += 4)
		assert_int_equal(waits.items[i] + waits.items[i + 1] + waits.items[i + 2],
				 7000);
}

/* Git would meet the same; what is tried again later is all of it. */
TEST(after_minutes_without_a_byte_it_fails)
{
	int64_t began = clock_boot_ms();

	primary.before_break = (uint64_t)1 << 20;
	primary.back_at = INT64_MIN / 2;
	assert_fails(bring(), ERR_NETWORK);
	assert_in_range(clock_boot_ms() - began, 180000, 210000);
	assert_nothing_is_there();
}

/* It may not be away at all, and nothing is lost by trying. */
TEST(what_has_brought_nothing_is_left_to_git_early)
{
	const int64_t began = clock_boot_ms();

	primary.back_at = INT64_MAX;
	assert_int_equal(bring(), 1);
	assert_in_range(clock_boot_ms() - began, 5000, 10000);
	assert_nothing_is_there();
}

/* By somebody between the sites: it may let git through. */
TEST(what_is_never_answered_is_left_to_git)
{
	primary.back_at = INT64_MAX;
	primary.is_silent = true;
	primary.takes_ms = 60000;
	assert_int_equal(bring(), 1);
	assert_int_equal(primary.asked, 1);
	assert_nothing_is_there();
	work.until = clock_boot_ms() + 30000;
	assert_fails(bring(), ERR_TIMEOUT);
}

TEST(silence_after_the_first_bytes_is_not_left_to_git)
{
	primary.before_break = (uint64_t)1 << 20;
	primary.back_at = INT64_MIN / 2;
	primary.is_silent = true;
	primary.takes_ms = 60000;
	assert_fails(bring(), ERR_TIMEOUT);
	assert_nothing_is_there();
}

/* By somebody between the sites, too. */
TEST(what_is_answered_otherwise_is_left_to_git)
{
	int64_t began = clock_boot_ms();

	primary.is_answered = true;
	primary.before_break = (uint64_t)1 << 20;
	primary.back_at = INT64_MIN / 2;
	assert_int_equal(bring(), 1);
	assert_true(clock_boot_ms() - began >= 180000);
	assert_nothing_is_there();
	ahead_ms += 1000;
	began = clock_boot_ms();
	primary.back_at = INT64_MAX; /* from the start */
	assert_int_equal(bring(), 1);
	assert_true(clock_boot_ms() - began < 10000);
}

static void assert_ends_at_once(enum err_class class)
{
	const int64_t began = clock_boot_ms();

	primary.back_at = INT64_MAX;
	assert_fails(bring(), class);
	assert_true(clock_boot_ms() - began < 6500);
	assert_nothing_is_there();
}

TEST(a_stop_ends_the_wait)
{
	primary.stops = &stop;
	assert_ends_at_once(ERR_CANCELED);
}

/* It has its time for what can be done. */
TEST(a_node_that_leaves_does_not_wait)
{
	work.leaving = &leaving;
	primary.stops = &leaving;
	assert_ends_at_once(ERR_CANCELED);
}

TEST(the_end_of_the_work_ends_the_wait)
{
	work.until = clock_boot_ms() + 5000;
	assert_ends_at_once(ERR_TIMEOUT);
}

static int bring_with_log(void)
{
	AUTO_CLOSE int saved = fcntl(2, F_DUPFD_CLOEXEC, 0);
	AUTO_CLOSE int fd = openat(root_fd, "log", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	dup2(fd, 2);
	log_set_level(LOG_LEVEL_INFO);
	const int result = bring();
	log_set_level(LOG_LEVEL_NONE);
	dup2(saved, 2);
	return result;
}

TEST(nothing_is_resumed_when_the_time_is_over)
{
	work.until = clock_boot_ms() + 5000;
	primary.takes_ms = 3000;
	primary.before_break = PIECE;
	assert_fails(bring_with_log(), ERR_TIMEOUT);
	assert_int_equal(primary.asked, 2);
	must("[ \"$(grep -c ev=sync.pack_resumed log)\" = 1 ]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PACKS_CASE(a_primary_that_is_away_for_two_minutes_is_waited_for),
		PACKS_CASE(breaks_are_not_counted_while_it_goes_on),
		PACKS_CASE(little_at_a_time_is_not_asked_for_at_once),
		PACKS_CASE(after_minutes_without_a_byte_it_fails),
		PACKS_CASE(what_has_brought_nothing_is_left_to_git_early),
		PACKS_CASE(what_is_never_answered_is_left_to_git),
		PACKS_CASE(silence_after_the_first_bytes_is_not_left_to_git),
		PACKS_CASE(what_is_answered_otherwise_is_left_to_git),
		PACKS_CASE(a_stop_ends_the_wait),
		PACKS_CASE(a_node_that_leaves_does_not_wait),
		PACKS_CASE(the_end_of_the_work_ends_the_wait),
		PACKS_CASE(nothing_is_resumed_when_the_time_is_over),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
