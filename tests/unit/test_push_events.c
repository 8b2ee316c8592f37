/*
 * The log of push events and its delivery: what is cut off, lost or corrected costs no
 * other event.
 */
#include "http_peer.h"
#include "push_conf.h"

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/log.h"
#include "push/push_events.h"
#include "push/push_run.h"
#include "push/task_list.h"

static struct push_events *events;
/* Before the how many-th file of a reader the log rotates; 0: not. Both are counted by
 * the webhook's thread, too. */
static atomic_int opened_at;
static atomic_size_t task_reads;
/* So many openings of the log fail: to write, or to read for the webhook. */
static atomic_int unwritable, unreadable;

static bool fails_to_open(const char *path, int flags)
{
	bool writes = flags & O_CREAT;
	atomic_int *left = writes ? &unwritable : &unreadable;

	if (strcmp(path, "push-events") != 0 || (!writes && gettid() == getpid()))
		return false;
	return atomic_load(left) > 0 && atomic_fetch_sub(left, 1) > 0;
}

static void fill_log(void);

int openat(int dir, const char *path, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	mode_t mode = (flags & O_CREAT) ? va_arg(args, mode_t) : 0;
	va_end(args);
	task_reads += strlen(path) == TASK_KEY_SIZE - 1;
	if ((strcmp(path, "push-events") == 0 || strcmp(path, "push-events.old") == 0) &&
	    atomic_load(&opened_at) > 0 && atomic_fetch_sub(&opened_at, 1) == 1)
		fill_log();
	if (fails_to_open(path, flags)) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_openat, dir, path, flags, mode);
}

static int set_up(void **state)
{
	log_set_level(LOG_LEVEL_NONE);
	signal(SIGXFSZ, SIG_IGN);
	return test_make_root(state);
}

static int tear_down(void **state)
{
	push_events_close(events);
	events = NULL;
	return forget_settings(state);
}

#define EVENTS_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void put_file(const char *name, const char *text)
{
	assert_ok(file_replace(root_fd, name, text, strlen(text), FILE_NO_SYNC, &err));
}

/* PATH of the peer, or NULL. */
static void set_webhook(const char *path)
{
	AUTO_FREE char *text =
		path ? xasprintf("[replication]\nwebhook = http://127.0.0.1:%d%s\n",
				 peer.port, path)
		     : xstrdup("[replication]\n");

	assert_ok(read_settings(text));
}

static void open_events(void)
{
	assert_ok(push_events_open(root, settings, &events, &err));
}

static void add_event(void)
{
	json_t *event = json_object();

	json_put_text(event, "type", "ref-replicated");
	push_events_add(events, event);
}

/* More than what a log has room for, but not for two. */
static void fill_log(void)
{
	json_t *event = json_object();
	AUTO_FREE char *text = xcalloc(1, (1 << 20) + 1);

	memset(text, 'x', 1 << 20);
	json_put_text(event, "type", text);
	push_events_add(events, json_incref(event));
	push_events_add(events, json_incref(event));
	push_events_add(events, event);
}

/* The number of the last that was read. */
static uint64_t read_page(uint64_t after, size_t limit, struct str *lines)
{
	struct push_events_page page = { .after = after, .limit = limit, .lines = lines };

	assert_ok(push_events_read(root, &page, &err));
	assert_int_equal(page.how, EVENTS_READ);
	return page.after;
}

static void read_all(struct str *lines)
{
	read_page(EVENTS_FROM_OLDEST, SIZE_MAX, lines);
}

/* As "1 2 3". */
static void assert_ids(const char *expected)
{
	AUTO_STR struct str lines = STR_INIT, ids = STR_INIT;
	char *save = NULL;

	read_all(&lines);
	for (char *line = strtok_r(lines.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		json_auto_t *event =
			json_parse_object(line, strlen(line), SIZE_MAX, &err);
		assert_non_null(event);
		str_addf(&ids, "%s%lld", ids.len > 0 ? " " : "",
			 json_integer_value(json_object_get(event, "id")));
	}
	assert_string_equal(ids.data, expected);
}

TEST(a_line_that_a_kill_cut_off_takes_no_other_event_along)
{
	put_file("push-events", "{\"id\":1,\"a\":{}}\n{\"id\":2,\"a\":{}");
	set_webhook(NULL);
	open_events();
	assert_ids("1");
	add_event();
	add_event();
	assert_ids("1 2 3");
}

TEST(what_a_full_disk_takes_only_a_part_of_leaves_nothing)
{
	struct rlimit before, now;
	struct stat st;

	set_webhook(NULL);
	open_events();
	add_event();
	assert_int_equal(fstatat(root_fd, "push-events", &st, 0), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	now = before;
	now.rlim_cur = (rlim_t)st.st_size + 10;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
	add_event();
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	add_event();
	assert_ids("1 2");
}

/* Refuses what is asked of "/old". */
static void serve(struct peer_link *link)
{
	size_t number = peer.requests;

	if (!peer_hear_head(link))
		return;
	peer_say(link, strstr(peer.heads[number], " /old ")
			       ? "HTTP/1.1 503 No\r\nContent-Length: 0\r\n"
				 "Connection: close\r\n\r\n"
			       : "HTTP/1.1 204 Yes\r\nConnection: close\r\n\r\n");
}

static bool is_sent(const char *id)
{
	AUTO_STR struct str text = STR_INIT;

	return file_read(root_fd, "push-events.sent", 32, &text, ERR_IGNORED) == 0 &&
	       strcmp(text.data, id) == 0;
}

TEST(a_webhook_that_is_corrected_gets_what_the_wrong_one_did_not_take)
{
	struct push_settings *wrong;

	peer_start(serve);
	set_webhook("/old");
	wrong = push_settings_ref(settings);
	open_events();
	add_event();
	wait_until(peer.requests >= 2);
	set_webhook("/new");
	push_events_set(events, settings);
	wait_until(is_sent("1\n"));
	push_settings_unref(wrong);
	push_events_close(events);
	events = NULL;
	peer_stop();
}

/* Those who know the ids up to that one would take it for an old event. */
TEST(ids_go_on_above_the_last_that_was_sent_when_the_log_is_lost)
{
	put_file("push-events.sent", "7\n");
	peer_start(serve);
	set_webhook("/new");
	open_events();
	add_event();
	assert_ids("8");
	wait_until(is_sent("8\n"));
	push_events_close(events);
	events = NULL;
	peer_stop();
}

TEST(a_rotation_while_the_log_is_read_hides_no_event)
{
	uint64_t after = 0;

	set_webhook(NULL);
	open_events();
	for (int at = 1; at <= 2; at++) {
		AUTO_STR struct str lines = STR_INIT;
		const uint64_t before = after;
		add_event(); /* and three of fill_log() */
		opened_at = at;
		after = read_page(after, 1, &lines);
		assert_int_equal(opened_at, 0);
		assert_int_equal(after, before + 1);
		after += 3;
	}
}

static void assert_after(uint64_t after, enum event_read expected, uint64_t last)
{
	AUTO_STR struct str lines = STR_INIT;
	struct push_events_page page = { .after = after, .limit = 9, .lines = &lines };

	assert_ok(push_events_read(root, &page, &err));
	assert_int_equal(page.how, expected);
	assert_int_equal(page.ends.last, last);
	if (expected == EVENTS_READ)
		assert_int_equal(page.after, last);
	else
		assert_int_equal(lines.len, 0);
}

TEST(a_number_that_the_log_does_not_reach_is_told)
{
	assert_after(0, EVENTS_READ, 0);
	assert_after(EVENTS_FROM_OLDEST, EVENTS_READ, 0);
	assert_after(1, EVENTS_OTHER_TIMELINE, 0);
	put_file("push-events.sent", "3\n");
	assert_after(2, EVENTS_GONE, 3);
	assert_after(3, EVENTS_READ, 3);
	assert_after(EVENTS_FROM_OLDEST, EVENTS_READ, 3);
	put_file("push-events.old", "{\"id\":4,\"a\":{}}\n");
	put_file("push-events", "{\"id\":5,\"a\":{}}\n{\"id\":6,\"a\":{");
	assert_after(2, EVENTS_GONE, 5);
	assert_after(3, EVENTS_READ, 5);
	assert_after(5, EVENTS_READ, 5);
	assert_after(6, EVENTS_OTHER_TIMELINE, 5);
}

TEST(events_are_recorded_again_after_the_log_could_not_be_opened_once)
{
	set_webhook(NULL);
	open_events();
	fill_log();
	fill_log();
	unwritable = 1;
	add_event(); /* lost, with an error in the log */
	assert_int_equal(unwritable, 0);
	add_event();
	assert_ids("5 6 7");
}

TEST(a_log_that_cannot_be_read_once_only_delays_its_events)
{
	put_file("push-events", "{\"id\":1,\"a\":{}}\n");
	peer_start(serve);
	set_webhook("/new");
	unreadable = 1;
	open_events();
	wait_until(is_sent("1\n"));
	assert_int_equal(unreadable, 0);
	push_events_close(events);
	events = NULL;
	peer_stop();
}

#define MANY 200

static void add_task(struct task_store *store, const struct destination *to, int number)
{
	AUTO_TASK struct task task = { .project = xstrdup(to->project),
				       .uri = xstrdup(to->uri),
				       .remote = xstrdup(to->remote->name) };
	bool is_new;

	vec_add(&task.refs, xasprintf("refs/heads/a%d", number));
	vec_add(&task.refs, xasprintf("refs/heads/b%d", number));
	assert_ok(task_store_add(store, &task, 0, &is_new, &err));
}

/* How many events of that type there are. */
static size_t count_events(const char *type)
{
	AUTO_STR struct str lines = STR_INIT;
	AUTO_FREE char *mark = xasprintf("\"type\":\"%s\"", type);
	size_t count = 0;

	read_all(&lines);
	for (const char *at = lines.data; (at = strstr(at, mark)) != NULL; at++)
		count++;
	return count;
}

/* What waits again is read once, not once for each of its refs. */
TEST(each_task_that_is_left_is_read_once_for_all_refs)
{
	AUTO_FREE char *text =
		xasprintf("[remote \"m\"]\nurl = %s/dst/${name}.git\n", root);
	AUTO_FREE char *store = xasprintf("%s/ev", root);
	AUTO_CLAIMED claimed_tasks claimed = { 0 }, again = { 0 };
	struct push_group group = { .remote = "m", .project = "p" };
	struct push push = { 0 };
	struct push_run run = { .push = &push };

	assert_ok(read_settings(text));
	open_events();
	assert_ok(task_store_open(store, &push.options.tasks, &err));
	push.options.events = events;
	run.settings = settings;
	assert_ok(destination_make(&settings->remotes.items[0], 0, "p",
				   &group.destination, &err));
	for (int i = 0; i < MANY; i++)
		add_task(push.options.tasks, &group.destination, i);
	assert_ok(task_store_claim(push.options.tasks, group.destination.uri, &claimed,
				   &err));
	for (size_t i = 0; i < claimed.count; i++) {
		vec_add(&group.tasks, &claimed.items[i]);
		assert_ok(task_store_give_back(push.options.tasks, &claimed.items[i],
					       &err));
	}
	assert_int_equal(group.tasks.count, MANY);
	task_reads = 0;
	ref_events_add(&run, &group, NULL);
	assert_in_range(task_reads, MANY, MANY + 1); /* and the URI's directory */
	assert_int_equal(count_events("ref-replicated"), 2 * MANY);
	assert_int_equal(count_events("ref-replication-done"), 0);
	assert_ok(task_store_claim(push.options.tasks, group.destination.uri, &again,
				   &err));
	for (size_t i = 0; i < again.count; i++)
		assert_ok(task_store_done(push.options.tasks, &again.items[i], &err));
	ref_events_add(&run, &group, NULL);
	assert_int_equal(count_events("ref-replication-done"), 2 * MANY);
	vec_clear(&group.tasks);
	destination_clear(&group.destination);
	task_store_close(push.options.tasks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		EVENTS_CASE(a_line_that_a_kill_cut_off_takes_no_other_event_along),
		EVENTS_CASE(what_a_full_disk_takes_only_a_part_of_leaves_nothing),
		EVENTS_CASE(
			a_webhook_that_is_corrected_gets_what_the_wrong_one_did_not_take),
		EVENTS_CASE(ids_go_on_above_the_last_that_was_sent_when_the_log_is_lost),
		EVENTS_CASE(a_number_that_the_log_does_not_reach_is_told),
		EVENTS_CASE(
			events_are_recorded_again_after_the_log_could_not_be_opened_once),
		EVENTS_CASE(a_log_that_cannot_be_read_once_only_delays_its_events),
		EVENTS_CASE(each_task_that_is_left_is_read_once_for_all_refs),
		EVENTS_CASE(a_rotation_while_the_log_is_read_hides_no_event),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
