/*
 * The thread and its workers, with a report that the test makes: who is told when, and
 * who waits for nobody.
 */
#include "http_peer.h"

#include <dlfcn.h>
#include <sys/syscall.h>

#include "alert/alerter.h"
#include "alert/send.h"
#include "alert/store.h"
#include "base/log.h"
#include "verify/damage.h"

static struct store *store;
static struct alerts alerts;
static struct alerter *alerter;
static atomic_bool is_held, is_broken;
static atomic_int written_age_ms;
static atomic_size_t looks;
static char told[128];
static atomic_int ahead_s;      /* how far the clock is */
static atomic_int look_takes_s; /* by that clock */
/* A message is on its way, and stays there for as long. */
static atomic_bool is_away, is_awaited;

/* Stands in for the library's. */
int clock_gettime(clockid_t id, struct timespec *now)
{
	int result = (int)syscall(SYS_clock_gettime, id, now);

	if (id == CLOCK_BOOTTIME)
		now->tv_sec += ahead_s;
	return result;
}

/* Two heartbeats of which the second ends while the first one's result is looked at. */
static struct {
	atomic_bool is_on;
	atomic_bool sends;     /* a message, until the second heartbeat is on its way */
	atomic_int begun;      /* of the two */
	atomic_bool is_logged; /* what came of the first */
	atomic_bool is_noted;  /* what came of the second */
	atomic_bool is_first_told;
} two_beats;
static _Thread_local bool ends_second;

static void await_flag(const atomic_bool *flag)
{
	while (!atomic_load(flag))
		usleep(1000);
}

static int fail_beat(struct err *error)
{
	const int number = atomic_fetch_add(&two_beats.begun, 1) + 1;

	if (number > 2)
		return err_set(error, ERR_CANCELED, "no more");
	if (number == 2)
		await_flag(&two_beats.is_logged);
	ends_second = number == 2;
	return err_set(error, ERR_NETWORK, number == 1 ? "the first" : "the second");
}

int alert_beat(const struct alert *alert, const struct stop *stop,
	       struct alert_answer *answer, struct err *error)
{
	static int (*real)(const struct alert *, const struct stop *,
			   struct alert_answer *, struct err *);

	if (atomic_load(&two_beats.is_on))
		return atomic_load(&two_beats.sends) ? fail_beat(error) : 0;
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "alert_beat");
	return real(alert, stop, answer, error);
}

/* A worker asks for the time after it has noted what came of a heartbeat. */
int64_t clock_wall_ms(void)
{
	struct timespec now;

	if (ends_second)
		atomic_store(&two_beats.is_noted, true);
	ends_second = false;
	clock_gettime(CLOCK_REALTIME, &now);
	return clock_ms(&now);
}

/* Texts are compared after the second was noted. */
void log_write(enum log_level level, const char *ev, const struct log_field *fields)
{
	(void)level;
	if (!atomic_load(&two_beats.is_on) || strcmp(ev, "alert.no_heartbeat") != 0 ||
	    atomic_exchange(&two_beats.is_logged, true))
		return;
	await_flag(&two_beats.is_noted);
	for (; fields->name; fields++)
		if (strcmp(fields->name, "err") == 0)
			two_beats.is_first_told = strcmp(fields->text, "the first") == 0;
	atomic_store(&two_beats.is_on, false);
}

static int begin(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	is_held = is_broken = false;
	memset(&two_beats, 0, sizeof(two_beats));
	look_takes_s = written_age_ms = 0;
	is_away = is_awaited = false;
	snprintf(told, sizeof(told), "%s/told", root);
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);
	return store_open(url, &store, &err);
}

static int end(void **state)
{
	atomic_store(&two_beats.is_on, false);
	atomic_store(&two_beats.is_logged, true);
	atomic_store(&two_beats.is_noted, true);
	atomic_store(&two_beats.begun, 2);
	is_awaited = false;
	alerter_stop(TAKE(alerter));
	alerts_clear(&alerts);
	store_close(store);
	return test_remove_root(state);
}

#define ALERTER(name) cmocka_unit_test_setup_teardown(name, begin, end)

/* alert_sources.signs */
static void show_signs(void *arg, struct vital_signs *signs)
{
	(void)arg;
	*signs = VITAL_SIGNS_NONE;
	signs->heard_age_ms = 0;
	signs->written_age_ms = written_age_ms;
}

/* alert_sources.report */
static int make_report(void *arg, struct report *report, struct err *error)
{
	(void)arg;
	looks++;
	ahead_s += look_takes_s;
	if (is_broken)
		return err_set(error, ERR_CORRUPT, "the database is malformed");
	*report = (struct report){ .role = SITE_SECONDARY,
				   .site = xstrdup("paris"),
				   .now = clock_wall_ms() };
	show_signs(NULL, &report->signs);
	report->repositories.held = is_held;
	return 0;
}

/* Kinds are those of which the machine's own disk is none. */
static struct alert *add_alert(const char *name, const char *command)
{
	struct alert *alert = xcalloc(1, sizeof(*alert));

	alert->name = xstrdup(name);
	alert->command = command ? xstrdup(command) : NULL;
	alert->kinds = 1u << ALERT_HELD | 1u << ALERT_STORAGE;
	alert->settle_ms = 20;
	alert->heartbeat_ms = 100;
	vec_add(&alerts.list, alert);
	return alert;
}

static void start(void)
{
	alert_endings endings = { 0 };
	alert_peers peers = { 0 };

	alerter = alerter_start(&(struct alerter_options){
		.alerts = &alerts,
		.peers = &peers,
		.endings = &endings,
		.site = "paris",
		.role = "secondary",
		.sources = { .store = store,
			     .report = make_report,
			     .signs = show_signs,
			     .data = root,
			     .root = root,
			     .started_at = clock_boot_ms() } });
}

/* A look rests twenty times as long as it took: one in which the thread had no processor
 * for a second or two is followed by a rest that is longer than wait_until waits. */
#define await(condition)                                                                 \
	do {                                                                             \
		const int64_t until_ = clock_boot_ms() + 90000;                          \
		while (!(condition)) {                                                   \
			if (clock_boot_ms() > until_)                                    \
				fail_msg("never: %s", #condition);                       \
			usleep(2000);                                                    \
		}                                                                        \
	} while (0)

static bool is_told(const char *what)
{
	AUTO_STR struct str text = STR_INIT;

	return file_read(AT_FDCWD, told, 1 << 20, &text, ERR_IGNORED) == 0 &&
	       strstr(text.data, what);
}

static void add_teller(void)
{
	AUTO_FREE char *command = xasprintf("/usr/bin/tee -a %s", told);

	add_alert("teller", command);
}

static struct alert_sending sending_of(const char *name)
{
	struct alert_state state = { 0 };
	struct alert_sending sending = { 0 };

	assert_ok(alert_store_read(store, name, &state, &sending, &err));
	alert_state_clear(&state);
	return sending;
}

static bool has_entry(const char *name, enum alert_kind kind)
{
	struct alert_state state = { 0 };
	struct alert_sending sending = { 0 };
	bool has = false;

	assert_ok(alert_store_read(store, name, &state, &sending, &err));
	for (size_t i = 0; i < state.entries.count; i++)
		has |= state.entries.items[i].kind == kind;
	alert_state_clear(&state);
	return has;
}

/* alert_sources.report */
static int find_damage(void *arg, struct report *report, struct err *error)
{
	usleep(2000);
	err_set(error, ERR_CORRUPT, "it is damaged");
	damage_note("repository", "a", error);
	return make_report(arg, report, error);
}

TEST(damage_that_is_found_while_facts_are_gathered_is_new)
{
	struct alert_facts facts;
	struct report report;

	alert_facts_gather(&(struct alert_sources){ .store = store,
						    .report = find_damage,
						    .data = root,
						    .root = root },
			   &report, &facts);
	assert_int_equal(facts.damage_age_ms, 0);
	alert_facts_clear(&facts, &report);
}

TEST(what_begins_and_what_is_over_is_told)
{
	add_teller();
	start();
	is_held = true;
	await(is_told("\"event\":\"begins\",\"kind\":\"held\""));
	is_held = false;
	await(is_told("\"event\":\"over\",\"kind\":\"held\""));
	await(sending_of("teller").sent_at > 0);
}

/* It says nothing of what it cannot know then. */
TEST(a_report_that_cannot_be_made_is_told_and_ends_nothing)
{
	add_teller();
	start();
	is_held = true;
	await(is_told("\"begins\",\"kind\":\"held\""));
	is_broken = true;
	await(is_told("\"begins\",\"kind\":\"storage\""));
	assert_false(is_told("\"over\",\"kind\":\"held\""));
	is_broken = false;
	await(is_told("\"over\",\"kind\":\"storage\""));
	assert_false(is_told("\"over\",\"kind\":\"held\""));
}

TEST(who_fails_or_hangs_holds_up_nobody)
{
	int64_t before;

	add_alert("fails", "/bin/false");
	add_alert("hangs", "/bin/sleep 1000");
	add_teller();
	is_held = true;
	start();
	await(is_told("\"begins\",\"kind\":\"held\""));
	await(sending_of("fails").failures > 1);
	assert_int_equal(sending_of("fails").why.class, ERR_INTERNAL);
	is_held = false;
	await(is_told("\"over\",\"kind\":\"held\""));
	before = clock_boot_ms();
	alerter_stop(TAKE(alerter));
	assert_true(clock_boot_ms() - before < 30000); /* not a thousand seconds */
}

static void answer_beats(struct peer_link *link)
{
	while (peer_hear_head(link) &&
	       peer_say(link, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
		;
}

/* Between two looks are a quarter of a second and several heartbeats. */
static void wait_for_looks(size_t count)
{
	const size_t until = looks + count;

	await(looks >= until);
}

/* To a peer that counts them. */
static void add_heartbeat(void)
{
	peer_start(answer_beats);
	struct alert *alert = add_alert("beats", NULL);
	alert->heartbeat = xstrdup(peer.url);
}

/* Its heartbeats have the thread look at the clock again. */
TEST(after_a_long_look_the_next_one_comes_within_minutes)
{
	add_heartbeat();
	looks = 0;
	look_takes_s = 60;
	start();
	await(peer.requests > 0);
	assert_int_equal(looks, 1);
	look_takes_s = 0;
	ahead_s += 301;
	await(looks > 1);
	alerter_stop(TAKE(alerter));
	peer_stop();
}

TEST(a_node_that_cannot_work_sends_no_heartbeat)
{
	size_t beats, rounds = 0;

	add_heartbeat();
	is_broken = true;
	start();
	wait_for_looks(3);
	assert_int_equal(peer.requests, 0);
	is_broken = false;
	await(peer.requests > 3);
	is_broken = true;
	do { /* one may have been on its way */
		assert_true(rounds++ < 5);
		beats = peer.requests;
		wait_for_looks(3);
	} while (peer.requests != beats);
	assert_true(sending_of("beats").beat_at > 0);
	alerter_stop(TAKE(alerter));
	peer_stop();
}

/* A write that hangs does not fail. */
TEST(a_node_that_has_not_written_for_long_sends_no_heartbeat)
{
	add_heartbeat();
	written_age_ms = -1;
	start();
	wait_for_looks(3);
	assert_int_equal(peer.requests, 0);
	written_age_ms = VERDICT_WRITTEN_MS + 1;
	wait_for_looks(3);
	assert_int_equal(peer.requests, 0);
	written_age_ms = VERDICT_WRITTEN_MS;
	await(peer.requests > 0);
	alerter_stop(TAKE(alerter));
	peer_stop();
}

/* Not even the next look. */
TEST(a_node_that_writes_no_more_sends_no_heartbeat_from_then_on)
{
	size_t beats, rounds = 0;

	add_heartbeat();
	looks = 0;
	look_takes_s = 60;
	start();
	await(peer.requests > 3);
	written_age_ms = VERDICT_WRITTEN_MS + 1;
	do { /* one may have been on its way */
		assert_true(rounds++ < 5);
		beats = peer.requests;
		usleep(500000);
	} while (peer.requests != beats);
	assert_int_equal(looks, 1);
	alerter_stop(TAKE(alerter));
	peer_stop();
}

/* Looks of a large site are minutes apart. */
TEST(a_message_that_failed_is_sent_again_without_a_look)
{
	int64_t failures;
	size_t before;

	add_alert("fails", "/bin/false");
	is_held = true;
	start();
	await(sending_of("fails").failures > 0);
	const int from_s = ahead_s;
	look_takes_s = 60;
	await(ahead_s >= from_s + 60);
	do { /* until it rests, for minutes: one that missed this look has another one */
		before = looks;
		usleep(300000);
	} while (looks != before);
	failures = sending_of("fails").failures;
	await(sending_of("fails").failures > failures + 1);
	assert_int_equal(looks, before);
}

TEST(who_is_sent_to_during_a_look_is_judged_as_soon_as_that_ends)
{
	add_alert("slow", "/bin/true");
	is_held = true;
	atomic_store(&is_awaited, true);
	start();
	await(atomic_load(&is_away));
	is_broken = true;
	const int from_s = ahead_s;
	look_takes_s = 60;
	await(ahead_s >= from_s + 60);
	look_takes_s = 0;
	usleep(300000); /* until it rests, for minutes */
	assert_false(has_entry("slow", ALERT_STORAGE));
	atomic_store(&is_awaited, false);
	await(has_entry("slow", ALERT_STORAGE));
}

static int hold_message(struct err *error)
{
	atomic_store(&two_beats.sends, true);
	while (atomic_load(&two_beats.begun) < 2)
		usleep(1000);
	return err_set(error, ERR_NETWORK, "it is away");
}

int alert_send(const struct alert *alert, const struct alert_message *message,
	       const struct stop *stop, struct alert_answer *answer, struct err *error)
{
	static int (*real)(const struct alert *, const struct alert_message *,
			   const struct stop *, struct alert_answer *, struct err *);

	if (atomic_load(&two_beats.is_on)) {
		*answer = (struct alert_answer){ 0 };
		return hold_message(error);
	}
	atomic_store(&is_away, true);
	while (atomic_load(&is_awaited))
		usleep(1000);
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "alert_send");
	return real(alert, message, stop, answer, error);
}

TEST(what_came_of_a_heartbeat_is_not_mixed_with_the_next_one)
{
	struct alert *alert = add_alert("beats", "/bin/true");

	alert->heartbeat = xstrdup("http://127.0.0.1:1/");
	is_held = true;
	atomic_store(&two_beats.is_on, true);
	start();
	await(!atomic_load(&two_beats.is_on));
	assert_true(two_beats.is_first_told);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ALERTER(damage_that_is_found_while_facts_are_gathered_is_new),
		ALERTER(what_begins_and_what_is_over_is_told),
		ALERTER(a_report_that_cannot_be_made_is_told_and_ends_nothing),
		ALERTER(who_fails_or_hangs_holds_up_nobody),
		ALERTER(after_a_long_look_the_next_one_comes_within_minutes),
		ALERTER(a_node_that_cannot_work_sends_no_heartbeat),
		ALERTER(a_node_that_has_not_written_for_long_sends_no_heartbeat),
		ALERTER(a_node_that_writes_no_more_sends_no_heartbeat_from_then_on),
		ALERTER(a_message_that_failed_is_sent_again_without_a_look),
		ALERTER(who_is_sent_to_during_a_look_is_judged_as_soon_as_that_ends),
		ALERTER(what_came_of_a_heartbeat_is_not_mixed_with_the_next_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
