/*
 * A notice under the test's control, in place of change/notice.c: names below /root/,
 * comparisons that are counted, take time and fail as told.
 */
#ifndef UNIT_NOTICE_STUB_H
#define UNIT_NOTICE_STUB_H

#include "test.h"

#include <poll.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/log.h"
#include "change/notice.h"

struct notice {
	int unused;
};

static struct notice stub __attribute__((unused));
static atomic_int compared, delay_ms, at_once, most_at_once;
/* No comparison ends before so many are under way at once; not for more than 10 s. Set to
 * 0 from then on. */
static atomic_int awaited;
static _Atomic enum err_class comparison_fails; /* as the repository is */
static _Atomic enum err_class recording_fails;

static inline int reset_stub(void **state)
{
	log_set_level(LOG_LEVEL_NONE);
	compared = delay_ms = at_once = most_at_once = awaited = 0;
	comparison_fails = recording_fails = ERR_NONE;
	return test_make_root(state);
}

#define STUB_CASE(name)                                                                  \
	cmocka_unit_test_setup_teardown(name, reset_stub, test_remove_root)

char *notice_name_of(struct notice *notice, const char *path, struct err *error)
{
	assert_ptr_equal(notice, &stub);
	if (text_starts_with(path, "/root/"))
		return xstrdup(path + strlen("/root/"));
	err_set(error, ERR_CONFIG, "%s is not below /root", path);
	return NULL;
}

static inline int64_t since(int64_t started)
{
	return clock_boot_ms() - started;
}

static inline void wait_for_awaited(void)
{
	int64_t started = clock_boot_ms();

	if (at_once >= awaited)
		awaited = 0; /* those that leave now do not hold up the others */
	while (awaited > 0 && since(started) < 10000)
		poll(NULL, 0, 2);
}

int notice_compare(struct notice *notice, const char *name, struct noticed *noticed,
		   struct err *error)
{
	int now = atomic_fetch_add(&at_once, 1) + 1, before = most_at_once;

	(void)notice;
	while (now > before && !atomic_compare_exchange_weak(&most_at_once, &before, now))
		;
	wait_for_awaited();
	poll(NULL, 0, delay_ms);
	noticed->event.id = (uint64_t)atomic_fetch_add(&compared, 1) + 1;
	noticed->is_changed = true;
	atomic_fetch_sub(&at_once, 1);
	noticed->why = (struct err){ 0 };
	if (recording_fails != ERR_NONE)
		return err_set(error, recording_fails, "the database fails");
	if (comparison_fails == ERR_NONE)
		return 0;
	err_set(error, comparison_fails, "%s was told to fail", name);
	noticed->why = *error;
	return -1;
}

int notice_compare_hint(struct notice *notice, const char *name, struct noticed *noticed,
			struct err *error)
{
	return notice_compare(notice, name, noticed, error);
}

void noticed_clear(struct noticed *noticed)
{
	(void)noticed;
}

static inline void write_file(const char *path, const char *text)
{
	assert_ok(dir_make_parents(root_fd, path, &err));
	assert_ok(file_replace(root_fd, path, text, strlen(text), FILE_NO_SYNC, &err));
}

static inline bool is_there(const char *path)
{
	return faccessat(root_fd, path, F_OK, 0) == 0;
}

#endif
