/* With a primary in this process, whose connections break, and a clock that waits move.
 */
#include "git_test.h"

#include <dlfcn.h>
#include <sys/file.h>

#include "base/hash.h"
#include "pull/bring_packs.h"
#include "pull/source.h"

#define PIECE ((uint64_t)256 << 10) /* of a connection that breaks */

struct primary_line {
	struct str pack, index, small_pack, small_index;
	char name[WIRE_PACK_NAME_SIZE], small_name[WIRE_PACK_NAME_SIZE];
	uint64_t before_break; /* bytes of an answer; 0: it has all */
	bool is_answered;      /* while it is away */
	int64_t back_at;       /* by the clock */
	bool is_unlisted;      /* it is away when its packs are asked for */
	bool has_small;        /* another pack, which comes first */
	int asked;             /* for a part of a file */
	uint64_t sent;         /* bytes of those */
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
	struct wire_pack small = { .bytes = line->small_pack.len,
				   .index_bytes = line->small_index.len,
				   .objects = 1 };

	(void)name;
	if (line->is_unlisted)
		return is_away(error);
	snprintf(pack.name, sizeof(pack.name), "%s", line->name);
	snprintf(small.name, sizeof(small.name), "%s", line->small_name);
	if (line->has_small)
		vec_add(packs, small);
	vec_add(packs, pack);
	return 0;
}

int primary_pack_read(struct primary_line *line, const struct pack_part *part,
		      const struct pack_part_sink *sink, struct err *error)
{
	const bool is_index = text_ends_with(part->file, ".idx");
	const bool is_small = text_starts_with(part->file, line->small_name);
	const struct str *file =
		is_small   ? is_index ? &line->small_index : &line->small_pack
		: is_index ? &line->index
			   : &line->pack;
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
	line->sent += len;
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
	     "cd .. && git init -q --bare copy.git && git init -q s && "
	     "echo small | git -C s hash-object -w --stdin | "
	     "git -C s pack-objects -q ../p >small_name && mv p-*.pack small_pack && "
	     "mv p-*.idx small_idx");
	AUTO_FREE char *path = output_of("basename w/.git/objects/pack/*.pack .pack");
	AUTO_FREE char *name = output_of("git -C w rev-parse main");
	const char *at = name;
	AUTO_FREE char *small = output_of("cat small_name");
	primary = (struct primary_line){ .pack = STR_INIT,
					 .index = STR_INIT,
					 .small_pack = STR_INIT,
					 .small_index = STR_INIT };
	snprintf(primary.name, sizeof(primary.name), "%.45s", path);
	snprintf(primary.small_name, sizeof(primary.small_name), "pack-%.40s", small);
	read_file("pack", &primary.pack);
	read_file("idx", &primary.index);
	read_file("small_pack", &primary.small_pack);
	read_file("small_idx", &primary.small_index);
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
	str_clear(&primary.small_pack);
	str_clear(&primary.small_index);
	return test_remove_root(state);
}

#define PACKS_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static int bring(void)
{
	AUTO_FREE char *parts = xasprintf("%s/parts/7", root);
	const struct source_view view = { .oid_len = 20, .pack_bytes = primary.pack.len };
	const struct source_want want = { .work = &work,
					  .name = "big",
					  .copy = &copy,
					  .view = &view,
					  .oids = &wanted,
					  .parts = parts,
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

/* The first bytes of the pack wait for a later try. */
static void assert_part_is_there(void)
{
	must("p=parts/7/%s.pack && s=$(stat -c %%s $p) && [ $s -gt 0 ] && cmp -n $s $p "
	     "pack",
	     primary.name);
}

static void assert_comes_with(uint64_t sent)
{
	primary.before_break = 0;
	primary.back_at = 0;
	primary.is_silent = primary.is_answered = false;
	primary.sent = 0;
	assert_came();
	assert_int_equal(primary.sent, sent);
	must("[ -z \"$(ls copy.git/objects/pack | grep tmp_)\" ]");
}

static uint64_t whole(void)
{
	return primary.pack.len + primary.index.len;
}

/* Git would meet the same; what has come is continued later. */
TEST(after_minutes_without_a_byte_it_fails)
{
	int64_t began = clock_boot_ms();

	primary.before_break = (uint64_t)1 << 20;
	primary.back_at = INT64_MIN / 2;
	assert_fails(bring(), ERR_NETWORK);
	assert_in_range(clock_boot_ms() - began, 180000, 210000);
	assert_part_is_there();
	assert_comes_with(whole() - ((uint64_t)1 << 20));
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
	assert_part_is_there();
	assert_comes_with(whole() - ((uint64_t)1 << 20));
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

/* A pack of that name among the parts: whole, then changed by this command on $p. */
static void leave(const char *command)
{
	must("mkdir -p parts/7 && p=parts/7/%s.pack && cp pack $p && %s", primary.name,
	     command);
}

TEST(what_is_whole_is_not_asked_for_again)
{
	leave("chmod 444 $p && cp idx ${p%.pack}.idx");
	assert_comes_with(0);
	must("[ \"$(stat -c %%a copy.git/objects/pack/*.pack)\" = 444 ]");
}

/* As if the work had ended by now. */
TEST(what_became_whole_waits_as_long_as_the_copy_is_not)
{
	assert_came();
	must("[ copy.git/objects/pack/%s.pack -ef parts/7/%s.pack ] && "
	     "rm copy.git/objects/pack/*",
	     primary.name, primary.name);
	assert_comes_with(0);
}

TEST(what_was_taken_up_is_said)
{
	leave("truncate -s 1000000 $p");
	assert_ok(bring_with_log());
	must("grep 'ev=sync.pack_taken_up' log | grep -q 'bytes=1000000'");
}

/* It was made under a mask; a mode that a crash left in between does not stay. */
TEST(a_pack_has_the_mode_that_git_gives_it)
{
	leave("truncate -s 1000000 $p && chmod 640 $p");
	assert_comes_with(whole() - 1000000);
	must("[ \"$(stat -c %%a copy.git/objects/pack/*.pack)\" = 440 ] && "
	     "[ \"$(stat -c %%a copy.git/objects/pack/*.idx)\" = 444 ]");
}

TEST(what_is_damaged_comes_from_its_start)
{
	leave("printf x | dd of=$p bs=1 seek=5000 conv=notrunc status=none && "
	      "truncate -s 1000000 $p");
	assert_comes_with(whole() - 1000000 + primary.pack.len);
}

/* Of two packs one is torn: the other one stays, and so does what is to come. */
TEST(a_file_that_is_damaged_takes_no_other_along)
{
	atomic_uint_fast64_t bytes = 0, at_end = 0;

	work.bytes = &bytes;
	work.bytes_at_end = &at_end;
	primary.has_small = true;
	leave("truncate -s 1000000 $p && cp idx ${p%.pack}.idx && "
	      "s=parts/7/pack-$(cat small_name) && cp small_idx $s.idx && "
	      "cp small_pack $s.pack && chmod 644 $s.pack && "
	      "printf X | dd of=$s.pack conv=notrunc status=none");
	primary.sent = 0;
	assert_ok(bring());
	assert_int_equal(primary.sent,
			 primary.pack.len - 1000000 + primary.small_pack.len);
	assert_int_equal(atomic_load(&bytes), primary.sent);
	assert_int_equal(atomic_load(&at_end), primary.sent);
	must("cmp pack copy.git/objects/pack/%s.pack && git -C copy.git fsck",
	     primary.name);
}

/* The digest at its end is right whatever was changed. */
static void seal(struct str *file)
{
	struct hash hash;

	hash_init(&hash, HASH_SHA1);
	hash_add(&hash, file->data, file->len - 20);
	hash_end(&hash, (unsigned char *)file->data + file->len - 20);
	hash_clear(&hash);
}

/* It was packed anew under the same name, in other bytes. */
TEST(a_pack_that_the_index_is_not_of_comes_from_its_start)
{
	AUTO_FREE char *path = xasprintf("parts/7/%s.pack", primary.name);

	leave(":");
	primary.pack.data[5000] ^= 1;
	seal(&primary.pack);
	assert_ok(file_replace(root_fd, path, primary.pack.data, primary.pack.len,
			       FILE_NO_SYNC, &err));
	primary.pack.data[5000] ^= 1;
	seal(&primary.pack);
	assert_comes_with(primary.index.len + whole());
}

TEST(a_file_that_is_too_long_is_not_taken_up)
{
	leave("echo more >>$p");
	assert_comes_with(whole());
}

TEST(a_file_with_another_name_is_not_continued)
{
	leave("truncate -s 1000000 $p && ln $p other");
	assert_comes_with(whole());
	must("[ \"$(stat -c %%s:%%h other)\" = 1000000:1 ]");
}

TEST(what_is_no_file_is_not_taken_up)
{
	leave("truncate -s 1000000 $p && mv $p other && ln -s $PWD/other $p");
	assert_comes_with(whole());
	must("[ \"$(stat -c %%s other)\" = 1000000 ]");
}

/* It was paused for long, and lost the lease: what it writes goes nowhere. */
static void assert_late_writer_is_avoided(const char *command, const char *at)
{
	leave(command);
	AUTO_FREE char *path = xasprintf("parts/7/%s.pack", primary.name);
	AUTO_CLOSE int late = openat(root_fd, path, O_WRONLY | O_CLOEXEC);

	assert_ok(flock(late, LOCK_EX));
	assert_comes_with(whole());
	assert_int_equal(pwrite(late, "x", 1, atoll(at)), 1);
	must("cmp pack copy.git/objects/pack/*.pack");
}

TEST(a_file_that_somebody_writes_to_is_not_taken_up)
{
	assert_late_writer_is_avoided("truncate -s 1000000 $p", "0");
}

TEST(nor_is_one_that_is_whole)
{
	assert_late_writer_is_avoided(":", "3000100");
}

TEST(what_the_primary_no_longer_has_goes)
{
	leave("mv $p ${p%/*}/pack-0123.pack");
	assert_comes_with(whole());
	must("[ ! -e parts/7/pack-0123.pack ]");
}

/* What is to come shrinks by what is here. */
TEST(what_is_here_is_not_to_come)
{
	atomic_uint_fast64_t bytes = 0, at_end = 0;

	work.bytes = &bytes;
	work.bytes_at_end = &at_end;
	leave("truncate -s 1000000 $p");
	assert_comes_with(whole() - 1000000);
	assert_int_equal(atomic_load(&at_end), whole() - 1000000);
	assert_int_equal(atomic_load(&bytes), whole() - 1000000);
}

TEST(where_all_is_here_nothing_is_to_come)
{
	atomic_uint_fast64_t bytes = 0, at_end = 0;

	work.bytes = &bytes;
	work.bytes_at_end = &at_end;
	leave("cp idx ${p%.pack}.idx");
	assert_comes_with(0);
	assert_int_equal(atomic_load(&at_end), 0);
}

/* Nothing came in this try: it may be kept from here for ever. What waits, waits on. */
TEST(git_is_tried_where_a_try_brings_nothing)
{
	const int64_t began = clock_boot_ms();

	leave("truncate -s 1000000 $p");
	primary.back_at = INT64_MAX;
	assert_int_equal(bring(), 1);
	assert_in_range(clock_boot_ms() - began, 5000, 10000);
	assert_nothing_is_there();
	assert_comes_with(whole() - 1000000);
}

TEST(what_was_begun_stays_until_the_packs_are_known)
{
	leave("truncate -s 1000000 $p");
	primary.is_unlisted = true;
	assert_int_equal(bring(), 1);
	primary.is_unlisted = false;
	assert_comes_with(whole() - 1000000);
}

TEST(what_is_left_to_git_waits_on)
{
	primary.before_break = (uint64_t)1 << 20;
	primary.is_answered = true;
	primary.back_at = INT64_MIN / 2;
	assert_int_equal(bring(), 1);
	assert_nothing_is_there();
	assert_part_is_there();
	assert_comes_with(whole() - ((uint64_t)1 << 20));
}

/* They would be wrong each time. */
TEST(packs_that_are_not_sound_do_not_wait)
{
	primary.pack.data[5000] ^= 1;
	seal(&primary.pack);
	memcpy(primary.index.data + primary.index.len - 40,
	       primary.pack.data + primary.pack.len - 20, 20);
	seal(&primary.index);
	assert_int_equal(bring(), 1);
	assert_nothing_is_there();
	must("[ ! -e parts/7 ]");
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
		PACKS_CASE(what_is_whole_is_not_asked_for_again),
		PACKS_CASE(what_became_whole_waits_as_long_as_the_copy_is_not),
		PACKS_CASE(what_was_taken_up_is_said),
		PACKS_CASE(a_pack_has_the_mode_that_git_gives_it),
		PACKS_CASE(what_is_damaged_comes_from_its_start),
		PACKS_CASE(a_file_that_is_damaged_takes_no_other_along),
		PACKS_CASE(a_pack_that_the_index_is_not_of_comes_from_its_start),
		PACKS_CASE(a_file_that_is_too_long_is_not_taken_up),
		PACKS_CASE(a_file_with_another_name_is_not_continued),
		PACKS_CASE(what_is_no_file_is_not_taken_up),
		PACKS_CASE(a_file_that_somebody_writes_to_is_not_taken_up),
		PACKS_CASE(nor_is_one_that_is_whole),
		PACKS_CASE(what_the_primary_no_longer_has_goes),
		PACKS_CASE(what_is_here_is_not_to_come),
		PACKS_CASE(where_all_is_here_nothing_is_to_come),
		PACKS_CASE(git_is_tried_where_a_try_brings_nothing),
		PACKS_CASE(what_was_begun_stays_until_the_packs_are_known),
		PACKS_CASE(what_is_left_to_git_waits_on),
		PACKS_CASE(packs_that_are_not_sound_do_not_wait),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
