#include "blob_notice_test.h"

#include <poll.h>

#include "change/scan_record.h"
#include "change/watch.h"
#include "verify/verify_origin.h"

static atomic_int limits_told;

void log_write(enum log_level level, const char *ev, const struct log_field *fields)
{
	(void)level;
	(void)fields;
	atomic_fetch_add(&limits_told, strcmp(ev, "blob_watch.limit") == 0);
}

static struct watch *watch;
static struct verify_origin *verifier;

static void start(int64_t interval_ms, size_t most)
{
	const struct origin_kind origins[] = {
		notice_kind(notice, &kinds.all.items[1]),
		notice_kind(notice, &kinds.all.items[2]),
	};

	watch = watch_start(&(struct watch_options){ .thread = "blob-watch",
						     .kinds = origins,
						     .kind_count = ARRAY_SIZE(origins),
						     .store = store,
						     .scan_interval_ms = interval_ms,
						     .directories = most });
}

static struct watch_state state_of(const char *type)
{
	struct watch_state state = { 0 };

	assert_true(watch_look(watch, type, &state));
	return state;
}

static void wait_for_scan(void)
{
	wait_until(state_of("files").has_scanned && state_of("lfs").has_scanned);
}

static bool is_told(enum event_what what, const char *name)
{
	all_events();
	for (size_t at = 0; at < events.count; at++)
		if (events.items[at].what == what &&
		    strcmp(events.items[at].name, name) == 0)
			return true;
	return false;
}

static void wait_for(enum event_what what, const char *name)
{
	int64_t until = clock_boot_ms() + 20000;

	while (!is_told(what, name)) {
		if (clock_boot_ms() > until)
			fail_msg("%s was never told as %s", name, event_what_name(what));
		poll(NULL, 0, 10);
	}
}

static int stop_and_remove(void **state)
{
	watch_stop(watch);
	verify_origin_stop(verifier);
	verify_origin_free(verifier);
	watch = NULL;
	verifier = NULL;
	return remove_site(state);
}

TEST(what_happens_is_told_without_a_scan)
{
	start(3600000, 0);
	wait_for_scan();
	must("echo 1 >files/x");
	wait_for(EVENT_CREATED, "x");
	must("echo 22 >files/x");
	wait_for(EVENT_UPDATED, "x");
	must("mv files/x files/y");
	wait_for(EVENT_CREATED, "y");
	wait_for(EVENT_DELETED, "x");
	must("ln files/y files/z");
	wait_for(EVENT_CREATED, "z");
	must("rm files/y");
	wait_for(EVENT_DELETED, "y");
}

TEST(directories_that_come_are_watched_and_those_that_go_are_told)
{
	start(3600000, 0);
	wait_for_scan();
	must("mkdir -p files/a/b/c; echo 1 >files/a/b/c/x");
	wait_for(EVENT_CREATED, "a/b/c/x");
	must("echo 1 >files/a/b/y");
	wait_for(EVENT_CREATED, "a/b/y");
	must("mv files/a/b files/moved");
	wait_for(EVENT_DELETED, "a/b/c/x");
	wait_for(EVENT_CREATED, "moved/c/x");
	must("echo 1 >files/moved/c/z");
	wait_for(EVENT_CREATED, "moved/c/z");
	must("mv files/moved outside");
	wait_for(EVENT_DELETED, "moved/c/z");
	must("mkdir -p lfs/55/55; echo 1 >lfs/55/55/$(printf '5%%.0s' $(seq 64))");
	wait_until(strcmp(last_event()->kind, "lfs") == 0);
}

TEST(a_burst_is_told_in_groups_and_completely)
{
	start(3600000, 0);
	wait_for_scan();
	must("cd files; mkdir d; cd d; for i in $(seq 300); do echo $i >$i; done");
	wait_until(all_events()->count >= 300);
	for (int i = 1; i <= 300; i++) {
		AUTO_FREE char *id = xasprintf("d/%d", i);
		wait_for(EVENT_CREATED, id);
	}
}

TEST(without_enough_watches_the_scan_tells)
{
	must("mkdir files/a files/b; echo 1 >files/b/x");
	start(100, 1);
	wait_for_scan();
	assert_int_equal(limits_told, 1);
	must("echo 22 >files/b/x");
	wait_for(EVENT_UPDATED, "b/x");
}

TEST(a_wake_scans_at_once)
{
	must("mkdir files/a files/b");
	start(3600000, 1);
	wait_for_scan();
	must("echo 1 >files/b/x");
	watch_wake(watch);
	wait_for(EVENT_CREATED, "b/x");
}

static int read_record(struct store_tx *tx, void *arg, struct err *error)
{
	return scan_record_read(tx, "files", arg, error);
}

static bool has_whole_scan(struct scan_record *record)
{
	assert_ok(store_read(store, read_record, record, &err));
	return record->whole_at != 0;
}

TEST(how_scans_fare_is_kept_for_status)
{
	struct scan_record record = { 0 };

	must("ln -s x files/link; rmdir lfs");
	start(50, 0);
	wait_until(has_whole_scan(&record));
	assert_int_equal(record.left_out, 1);
	assert_non_null(strstr(record.example, "link"));
	wait_until(state_of("lfs").is_failing);
	assert_false(state_of("lfs").has_scanned);
	must("mkdir lfs");
	wait_for_scan();
	assert_false(watch_look(watch, "other", &(struct watch_state){ 0 }));
}

static void due(void *arg)
{
	(void)arg;
	verify_origin_wake(verifier);
}

TEST(from_a_new_file_to_its_checksum_nobody_need_do_anything)
{
	verifier = start_verifier(root, 2);
	notice_set_due(notice, due, NULL);
	start(3600000, 0);
	wait_for_scan();
	must("cd files; for i in $(seq 100); do echo $i >$i; done");
	must("head -c 3000000 /dev/zero >files/big");
	for (int i = 1; i <= 100; i++) {
		AUTO_FREE char *id = xasprintf("%d", i);
		wait_for(EVENT_CHECKSUMMED, id);
	}
	wait_for(EVENT_CHECKSUMMED, "big");
}

#define WATCH_CASE(name) cmocka_unit_test_setup_teardown(name, make_site, stop_and_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WATCH_CASE(what_happens_is_told_without_a_scan),
		WATCH_CASE(directories_that_come_are_watched_and_those_that_go_are_told),
		WATCH_CASE(a_burst_is_told_in_groups_and_completely),
		WATCH_CASE(without_enough_watches_the_scan_tells),
		WATCH_CASE(a_wake_scans_at_once),
		WATCH_CASE(how_scans_fare_is_kept_for_status),
		WATCH_CASE(from_a_new_file_to_its_checksum_nobody_need_do_anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
