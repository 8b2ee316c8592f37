/* What a first copy leaves for a later try, and for whom. */
#include "sync_test.h"

#include <dlfcn.h>

#include "pull/copy_record.h"

/* Stands for a primary whose packs come in part, and then this goes wrong. */
static const struct source_ops *whole_ops;
static struct source_ops part_ops;
static struct err breaks;
static bool loses_lease, is_lost;

int lease_check(struct lease *lease, struct err *error)
{
	int (*real)(struct lease * lease, struct err * error);

	*(void **)&real = dlsym(RTLD_NEXT, "lease_check");
	return is_lost ? err_set(error, ERR_LOST, "another has it") : real(lease, error);
}

static int bring_part(struct source *from, const struct source_want *want,
		      struct err *error)
{
	must("mkdir -p %s && echo part >%s/pack-1.pack", want->parts, want->parts);
	if (breaks.class == ERR_NONE && whole_ops->bring(from, want, error) != 0)
		return -1;
	is_lost = loses_lease;
	if (breaks.class == ERR_NONE)
		return 0;
	*error = breaks;
	return -1;
}

static void begin_parts(void)
{
	whole_ops = source->ops;
	part_ops = *whole_ops;
	part_ops.bring = bring_part;
	source->ops = &part_ops;
}

static int sync_with(enum err_class class, int code)
{
	breaks = (struct err){ .class = class, .sys_errno = code };
	is_lost = false;
	return sync_by((struct sync_request){ 0 });
}

static void assert_waits(const char *files)
{
	must("[ \"$(cat here/.refrelay/parts/*/* 2>/dev/null)\" = '%s' ]", files);
	must("[ -z \"$(ls here/.refrelay/staging)\" ]");
}

/* Whatever breaks, but for a disk that is full. */
TEST(what_came_of_a_first_copy_waits_until_it_is_whole)
{
	static const struct err waits[] = {
		{ .class = ERR_NETWORK },  { .class = ERR_TIMEOUT },
		{ .class = ERR_CANCELED }, { .class = ERR_AUTH },
		{ .class = ERR_CORRUPT },  { .class = ERR_DISK, .sys_errno = EIO },
	};

	begin_parts();
	for (size_t i = 0; i < ARRAY_SIZE(waits); i++) {
		assert_fails(sync_with(waits[i].class, waits[i].sys_errno),
			     waits[i].class);
		assert_waits("part");
	}
	assert_fails(sync_with(ERR_DISK, ENOSPC), ERR_DISK);
	assert_waits("");
	assert_fails(sync_with(ERR_NETWORK, 0), ERR_NETWORK);
	assert_fails(sync_with(ERR_DISK, EDQUOT), ERR_DISK);
	assert_waits("");
	assert_fails(sync_with(ERR_NETWORK, 0), ERR_NETWORK);
	assert_ok(sync_with(ERR_NONE, 0));
	assert_equal_and_whole();
	assert_waits("");
	source->ops = whole_ops;
}

/* Another node, or a later try, works there by now. */
TEST(what_came_is_left_to_the_holder_of_the_lease)
{
	begin_parts();
	loses_lease = true;
	assert_fails(sync_with(ERR_NONE, 0), ERR_LOST);
	assert_waits("part");
	assert_fails(sync_with(ERR_DISK, ENOSPC), ERR_DISK);
	assert_waits("part");
	loses_lease = is_lost = false;
	must("[ ! -e here/a.git ]");
	source->ops = whole_ops;
}

static int bring_linked(struct source *from, const struct source_want *want,
			struct err *error)
{
	if (whole_ops->bring(from, want, error) != 0)
		return -1;
	must("mkdir -p %s && ln here/.refrelay/staging/*/objects/pack/*.pack %s",
	     want->parts, want->parts);
	return 0;
}

/* Its packs have lost their second names before they are recorded: a later loss would
 * have all of them read again. */
TEST(a_copy_is_recorded_as_it_stays)
{
	AUTO_RECORD struct copy_record record = { 0 };

	begin_parts();
	part_ops.bring = bring_linked;
	assert_ok(sync_with(ERR_NONE, 0));
	assert_waits("");
	AUTO_CLOSE int copy = openat(root_fd, "here/a.git", O_RDONLY | O_DIRECTORY);
	must("[ \"$(stat -c %%h here/a.git/objects/pack/*.pack)\" = 1 ]");
	copy_record_read(copy, &record);
	assert_int_equal(copy_record_look(&record, copy), COPY_STAMPS_SAME);
	source->ops = whole_ops;
}

/* Another node was killed in the middle. */
TEST(what_another_builder_left_goes_and_its_parts_are_continued)
{
	const uint64_t id = replicable_id(KIND_REPOSITORY, "a");

	begin_parts();
	must("mkdir here/.refrelay && cd here/.refrelay && mkdir -p staging/%" PRIu64
	     ".1/objects staging/%" PRIu64 "0.1 parts/%" PRIu64
	     " && echo before >parts/%" PRIu64 "/pack-0.pack",
	     id, id, id, id);
	assert_fails(sync_with(ERR_NETWORK, 0), ERR_NETWORK);
	must("[ \"$(ls here/.refrelay/staging)\" = %" PRIu64 "0.1 ]", id);
	must("[ \"$(cat here/.refrelay/parts/%" PRIu64 "/*)\" = 'before\npart' ]", id);
	source->ops = whole_ops;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SYNC_CASE(what_came_of_a_first_copy_waits_until_it_is_whole),
		SYNC_CASE(what_came_is_left_to_the_holder_of_the_lease),
		SYNC_CASE(a_copy_is_recorded_as_it_stays),
		SYNC_CASE(what_another_builder_left_goes_and_its_parts_are_continued),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
