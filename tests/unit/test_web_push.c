/*
 * The queue and orders over HTTP, on a real task store, with a real push to where nobody
 * listens.
 */
#include "web_test.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include "git/git_child.h"
#include "lease/directory.h"
#include "push/act.h"
#include "push/push.h"

static struct push_settings *settings;
static char reported[4096];

static const char text[] = "[remote \"m1\"]\n"
			   "url = git://127.0.0.1:1/m1/${name}.git\n"
			   "[remote \"m2\"]\n"
			   "url = git://127.0.0.1:1/m2/${name}.git\n"
			   "projects = a\n";

static void make_repository(const char *name)
{
	AUTO_FREE char *head = xasprintf("git/%s.git/HEAD", name);
	AUTO_FREE char *refs = xasprintf("git/%s.git/refs", name);
	AUTO_FREE char *objects = xasprintf("git/%s.git/objects", name);

	assert_ok(dir_make(root_fd, refs, &err));
	assert_ok(dir_make(root_fd, objects, &err));
	assert_ok(file_replace(root_fd, head, "ref: refs/heads/main\n", 21, FILE_NO_SYNC,
			       &err));
}

static void read_conf(void)
{
	AUTO_CONF struct conf *conf = NULL;
	AUTO_FREE char *access_text =
		xasprintf("[http]\noperatorTokenFile = %s/token\n", root);
	AUTO_CONF struct conf *access_conf = NULL;

	assert_ok(conf_load_text("test", text, strlen(text), &conf, &err));
	assert_ok(push_settings_read(conf, root, &settings, &err));
	assert_ok(file_replace(root_fd, "token", "0123456789abcdef0123456789abcdef\n", 33,
			       FILE_NO_SYNC, &err));
	assert_int_equal(fchmodat(root_fd, "token", 0600, 0), 0);
	assert_ok(conf_load_text("test", access_text, strlen(access_text), &access_conf,
				 &err));
	assert_ok(access_read(access_conf, true, &services.access, &err));
}

static char *paths[2];
static struct push *push;

static atomic_int listings; /* begun */
static atomic_int listed;   /* the last that ended, by its number */

int task_store_refresh(struct task_store *store, waiting_uri_seen seen,
		       running_uri_seen running, void *arg, struct err *error)
{
	int (*real)(struct task_store *, waiting_uri_seen, running_uri_seen, void *,
		    struct err *);
	int result, number = atomic_fetch_add(&listings, 1) + 1;

	*(void **)&real = dlsym(RTLD_NEXT, "task_store_refresh");
	result = real(store, seen, running, arg, error);
	listed = number;
	return result;
}

/* It lists the store when it starts, and when it is woken. What began before may have
 * missed what was added since. */
static void wait_until_listed(int before)
{
	for (int tries = 0; listed <= before; tries++) {
		if (tries > 60000)
			fail_msg("push was not woken");
		usleep(1000);
	}
}

static int setup(void **state)
{
	if (test_make_root(state))
		return -1;
	services = (struct web_services){ 0 };
	listings = listed = 0;
	read_conf();
	make_repository("a");
	make_repository("b");
	paths[0] = xasprintf("%s/git", root);
	paths[1] = xasprintf("%s/leases", root);
	services.root = paths[0];
	services.data = root;
	assert_ok(task_store_open(root, &services.tasks, &err));
	assert_ok(lease_manager_open_directory(
		&(struct lease_options){ .directory = paths[1] }, &services.push_leases,
		&err));
	assert_ok(git_setup(root, &err));
	assert_ok(push_start(&(struct push_options){ .tasks = services.tasks,
						     .leases = services.push_leases,
						     .root = paths[0],
						     .data = root,
						     .node = "here",
						     .settings = settings },
			     &push, &err));
	services.push = push;
	wait_until_listed(0);
	start_server(web_push_routes, 0);
	return 0;
}

static int teardown(void **state)
{
	web_server_stop(server, 0);
	push_stop(push, 0);
	lease_manager_close(services.push_leases);
	task_store_close(services.tasks);
	push_settings_unref(settings);
	access_free(services.access);
	free(paths[0]);
	free(paths[1]);
	return test_remove_root(state);
}

static const char *post_to(const char *verb, const char *body, const char *token)
{
	AUTO_STR struct str request = STR_INIT;
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();

	str_addf(&request,
		 "POST /api/v1/push/%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
		 "%s%s%sContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
		 verb, token ? "Authorization: Bearer " : "", token ? token : "",
		 token ? "\r\n" : "", strlen(body), body);
	send_text(fd, request.data);
	assert_true(receive_all(fd, 5000, &answer));
	snprintf(reported, sizeof(reported), "%s", answer.data);
	return reported;
}

static const char *post(const char *body, const char *token)
{
	return post_to("start", body, token);
}

#define TOKEN "0123456789abcdef0123456789abcdef"

static const char *order(const char *body)
{
	return post(body, TOKEN);
}

static const char *retry(const char *body)
{
	return post_to("retry", body, TOKEN);
}

static const char *discard(const char *body)
{
	return post_to("discard", body, TOKEN);
}

static size_t queued(void)
{
	struct queue_view view;
	size_t count;

	assert_ok(queue_view_read(services.tasks, NULL, settings, &view, &err));
	count = view.uris.count;
	queue_view_clear(&view);
	return count;
}

static size_t listed_in(const char *target)
{
	const char *body = body_of(get(target));
	json_auto_t *object = json_parse_object(body, strlen(body), 65536, &err);

	return json_array_size(json_object_get(object, "queue"));
}

TEST(an_order_makes_tasks_and_says_their_keys)
{
	int before = listings;
	const char *answer = order("{\"all\":true}");
	struct err parsed;

	assert_int_equal(status_of(answer), 202);
	json_auto_t *object = json_parse_object(body_of(answer), strlen(body_of(answer)),
						4096, &parsed);
	assert_int_equal(json_array_size(json_object_get(object, "keys")), 3);
	assert_int_equal(queued(), 3); /* m2 takes only a */
	wait_until_listed(before);
	answer = get("/api/v1/push/queue");
	assert_int_equal(status_of(answer), 200);
	assert_non_null(strstr(answer, "\"uri\":\"git://127.0.0.1:1/m2/a.git\""));
	assert_non_null(strstr(answer, "\"refs\":[\"..all..\"]"));
	assert_int_equal(listed_in("/api/v1/push/queue"), 3);
	assert_int_equal(listed_in("/api/v1/push/queue?limit=2"), 2);
	assert_int_equal(status_of(get("/api/v1/push/queue?limit=0")), 400);
}

TEST(an_order_can_name_projects_remotes_and_urls)
{
	assert_int_equal(
		status_of(order("{\"projects\":[\"b*\",\"a\"],\"remotes\":[\"m1\"],"
				"\"url\":\"/a.git\",\"now\":true}")),
		202);
	assert_int_equal(queued(), 1);
	assert_int_equal(status_of(order("{\"projects\":[\"nobody\"]}")), 404);
	assert_int_equal(status_of(order("{\"all\":true,\"remotes\":[\"m9\"]}")), 404);
	assert_int_equal(queued(), 1);
}

TEST(an_order_that_is_not_understood_makes_nothing)
{
	static const char *const bodies[] = {
		"",
		"[]",
		"{}",
		"{\"all\":false}",
		"{\"all\":true,\"projects\":[\"a\"]}",
		"{\"all\":true,\"remote\":[\"m1\"]}",
		"{\"all\":true,\"remotes\":[]}",
		"{\"all\":true,\"remotes\":\"m1\"}",
		"{\"all\":true,\"url\":1}",
		"{\"all\":true,\"now\":1}",
		"{\"all\":true,\"keys\":[\"012345\"]}",
		"{\"all\":true,\"dry_run\":true}",
		"{\"projects\":[1]}",
		"{\"projects\":[\"^(\"]}",
	};

	int before = listings;

	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++)
		if (status_of(order(bodies[i])) != 400)
			fail_msg("%s: %s", bodies[i], reported);
	assert_int_equal(queued(), 0);
	assert_int_equal(listings, before);
}

TEST(only_an_operator_gives_orders)
{
	assert_int_equal(status_of(post("{\"all\":true}", NULL)), 401);
	assert_int_equal(status_of(post("{\"all\":true}", "x")), 401);
	assert_int_equal(queued(), 0);
}

#define URI_A "git://127.0.0.1:1/m1/a.git"

static const char *digits_of_a(void)
{
	static char key[URI_KEY_SIZE];

	uri_key_of(URI_A, key);
	key[PUSH_KEY_LEAST] = '\0';
	return key;
}

/* {"keys":[the first digits of a's key, and so many more]} */
static char *keys_of_a(const char *more)
{
	return xasprintf("{\"keys\":[\"%s\"]%s}", digits_of_a(), more);
}

static void assert_acted(const char *answer, int done, const char *result)
{
	AUTO_FREE char *wanted = xasprintf("\"done\":%d,\"busy\":0,\"orphan\":0,", done);

	if (status_of(answer) != 200 || !strstr(answer, wanted) ||
	    (result && !strstr(answer, result)))
		fail_msg("no %s %s in %s", wanted, result ? result : "", answer);
}

static void queue_all(void)
{
	int before = listings;

	assert_int_equal(status_of(order("{\"all\":true}")), 202);
	wait_until_listed(before);
}

/* The node tries it, and then waits for its next try. */
TEST(what_waits_is_tried_when_that_is_asked_for)
{
	AUTO_FREE char *by_key = keys_of_a(",\"remotes\":[\"m1\"]");
	AUTO_FREE char *by_two = keys_of_a(",\"remotes\":[\"m2\"]");

	queue_all();
	assert_int_equal(status_of(retry(by_two)), 404);
	assert_acted(retry(by_key), 1, "\"result\":\"due\"");
	assert_non_null(strstr(reported, "\"remote\":\"m1\",\"project\":\"a\","
					 "\"uri\":\"" URI_A "\","
					 "\"request\":null,\"failure\":null"));
	wait_until(strstr(get("/api/v1/push/queue"), "\"failures\":1"));
	assert_int_equal(queued(), 3);
}

/* As a node that pushes there. */
static struct lease *hold(const char *uri)
{
	char uri_key[URI_KEY_SIZE];
	struct lease *lease = NULL;

	uri_key_of(uri, uri_key);
	AUTO_FREE char *key = xasprintf(PUSH_URI_LEASE "%s", uri_key);
	const struct lease_request request = { .key = key, .operation = "push" };
	assert_ok(lease_acquire(services.push_leases, &request, &lease, &err));
	return lease;
}

static size_t requests(void)
{
	requested_list list = { 0 };
	size_t count;

	assert_ok(uri_request_list(services.tasks, &list, &err));
	count = list.count;
	requested_list_clear(&list);
	return count;
}

TEST(deletions_are_not_permitted_where_it_is_busy)
{
	AUTO_FREE char *by_key = keys_of_a(",\"remotes\":[\"m1\"],\"force\":true");

	queue_all();
	struct lease *lease = hold(URI_A);
	const char *answer = retry(by_key);
	assert_int_equal(status_of(answer), 200);
	assert_non_null(strstr(answer, "\"done\":0,\"busy\":1,"));
	assert_int_equal(requests(), 0);
	lease_release(lease);
	assert_acted(retry(by_key), 1, "\"result\":\"due\"");
}

/* It would permit what is deleted later, too. */
TEST(deletions_are_permitted_where_a_key_says_it_and_not_for_all_that_waits)
{
	AUTO_FREE char *by_key = keys_of_a(",\"force\":true");

	queue_all();
	assert_acted(retry("{\"remotes\":[\"m1\"],\"force\":true}"), 2, "\"due\"");
	assert_acted(retry("{\"all\":true,\"force\":true}"), 3, "\"due\"");
	assert_int_equal(requests(), 0);
	assert_acted(retry(by_key), 1, "\"due\"");
	assert_int_equal(requests(), 1);
	/* It has one, and gets a new one. */
	assert_acted(retry("{\"all\":true,\"force\":true}"), 3, "\"due\"");
	assert_int_equal(requests(), 1);
}

#define SAME_DIGITS "387df0"

/* Two repositories whose URIs' keys begin with the same digits. */
TEST(a_key_that_names_two_destinations_does_nothing)
{
	static const char by_few[] = "{\"keys\":[\"" SAME_DIGITS "\"]}";
	char keys[2][URI_KEY_SIZE];

	make_repository("c1239");
	make_repository("c1797");
	uri_key_of("git://127.0.0.1:1/m1/c1239.git", keys[0]);
	uri_key_of("git://127.0.0.1:1/m1/c1797.git", keys[1]);
	AUTO_FREE char *by_more = xasprintf("{\"keys\":[\"%.8s\"]}", keys[0]);
	queue_all();
	assert_int_equal(queued(), 5);
	assert_int_equal(status_of(retry(by_few)), 400);
	assert_int_equal(status_of(discard(by_few)), 400);
	if (!strstr(reported, keys[0]) || !strstr(reported, keys[1]))
		fail_msg("%s", reported);
	assert_int_equal(queued(), 5);
	assert_acted(discard(by_more), 1, "/m1/c1239.git");
	/* Now it is enough. */
	assert_acted(discard(by_few), 1, "/m1/c1797.git");
}

static void ignore_acted(void *arg, const struct push_acted *acted)
{
	(void)arg;
	(void)acted;
}

static const char *const names[] = { "a", "b", "c", "d", "e", "f" };

/* Not two seconds for each. */
TEST(what_is_busy_is_waited_for_a_few_seconds_in_all)
{
	AUTO_PUSH_ACT_RESULT struct push_act_result result = { 0 };
	const char *const remotes[] = { "m1", NULL };
	struct lease *leases[ARRAY_SIZE(names)];
	struct queue_view view;
	struct stop stop;

	for (size_t i = 2; i < ARRAY_SIZE(names); i++)
		make_repository(names[i]);
	queue_all();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO_FREE char *uri = xasprintf("git://127.0.0.1:1/m1/%s.git", names[i]);
		leases[i] = hold(uri);
	}
	stop_init(&stop);
	assert_ok(queue_view_read(services.tasks, services.push_leases, settings, &view,
				  &err));
	const struct push_act act = { .tasks = services.tasks,
				      .leases = services.push_leases,
				      .settings = settings,
				      .operation = "retry",
				      .stop = &stop,
				      .remotes = remotes,
				      .tell = ignore_acted };
	const int64_t began_at = clock_boot_ms();
	assert_ok(push_act_retry(&act, &view, &result, &err));
	assert_true(clock_boot_ms() - began_at < 9000);
	assert_int_equal(result.busy, ARRAY_SIZE(names));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		lease_release(leases[i]);
	queue_view_clear(&view);
	stop_clear(&stop);
}

/* As if it had been tried. */
static void give_up(const char *uri)
{
	claimed_tasks tasks = { 0 };
	ref_failures refs = { 0 };
	struct err why;

	assert_ok(task_store_claim(services.tasks, uri, &tasks, &err));
	assert_int_equal(tasks.count, 1);
	err_set(&why, ERR_CONFLICT, "not a fast-forward");
	assert_ok(task_store_fail(services.tasks, &tasks.items[0], &why, &refs, &err));
	claimed_tasks_clear(&tasks);
}

static void give_up_a(void)
{
	give_up(URI_A);
}

static size_t given_up(void)
{
	dead_letters letters = { 0 };
	size_t count;

	assert_ok(task_store_dead_letters(services.tasks, &letters, &err));
	count = letters.count;
	dead_letters_clear(&letters);
	return count;
}

TEST(what_was_given_up_waits_again_or_goes)
{
	AUTO_FREE char *by_key = keys_of_a("");

	queue_all();
	give_up_a();
	assert_int_equal(given_up(), 1);
	assert_acted(discard("{\"all\":true,\"remotes\":[\"m1\"],\"dry_run\":true}"), 2,
		     "\"result\":\"discarded\"");
	assert_int_equal(given_up(), 1);
	assert_int_equal(queued(), 2);
	assert_acted(retry(by_key), 1, "\"result\":\"put_back\"");
	assert_int_equal(given_up(), 0);
}

TEST(what_is_discarded_is_not_pushed)
{
	AUTO_FREE char *by_key = keys_of_a(",\"dry_run\":false");

	queue_all();
	give_up_a();
	assert_acted(discard(by_key), 1, "\"unknown\":[]");
	assert_int_equal(given_up(), 0);
	assert_int_equal(queued(), 2);
	assert_int_equal(status_of(discard(by_key)), 404);
	assert_non_null(strstr(reported, "no such key"));
	assert_acted(discard("{\"all\":true,\"remotes\":[\"m1\"]}"), 1, "/m1/b.git");
	assert_int_equal(queued(), 1);
	assert_acted(discard("{\"orphans\":true}"), 0, NULL);
	assert_int_equal(queued(), 1);
	assert_int_equal(status_of(discard("{\"all\":true,\"remotes\":[\"m9\"]}")), 404);
	assert_int_equal(status_of(retry("{\"remotes\":[\"m9\"]}")), 404);
}

static char *key_given_up(void)
{
	dead_letters letters = { 0 };
	char *key;

	assert_ok(task_store_dead_letters(services.tasks, &letters, &err));
	assert_int_equal(letters.count, 1);
	key = xstrdup(letters.items[0].key);
	dead_letters_clear(&letters);
	return key;
}

/* The key of a task is the same each time. */
TEST(what_came_again_stays_when_what_was_given_up_is_discarded)
{
	queue_all();
	give_up_a();
	queue_all();
	AUTO_FREE char *key = key_given_up();
	AUTO_FREE char *by_key = xasprintf("{\"keys\":[\"%s\"]}", key);
	AUTO_FREE char *dry = xasprintf("{\"keys\":[\"%s\"],\"dry_run\":true}", key);
	assert_int_equal(queued(), 3);
	assert_acted(discard(dry), 1, "\"unknown\":[]");
	assert_acted(discard(by_key), 1, "\"unknown\":[]");
	assert_int_equal(given_up(), 0);
	assert_int_equal(queued(), 3);
	/* Now it names the task that waits. */
	assert_acted(discard(by_key), 1, "\"unknown\":[]");
	assert_int_equal(queued(), 2);
	queue_all();
	give_up_a();
	queue_all();
	assert_acted(discard("{\"all\":true,\"remotes\":[\"m1\"]}"), 3, NULL);
	assert_int_equal(given_up(), 0);
	assert_int_equal(queued(), 1);
}

TEST(a_key_that_names_nothing_is_told_beside_one_that_does)
{
	AUTO_FREE char *both =
		xasprintf("{\"keys\":[\"nothing\",\"%s\"]}", digits_of_a());

	queue_all();
	assert_acted(discard(both), 1, "\"unknown\":[\"nothing\"]");
	assert_int_equal(queued(), 2);
}

static const char other_text[] = "[remote \"m0\"]\n"
				 "url = git://127.0.0.1:1/m0/${name}.git\n"
				 "[remote \"m9\"]\n"
				 "url = git://127.0.0.1:1/m9/${name}.git\n";

/* What remotes m0 and m9 had to push when they were in the configuration. */
static void leave_orphans(void)
{
	AUTO_CONF struct conf *conf = NULL;
	struct push_settings *others;
	text_list projects = { 0 }, keys = { 0 };

	assert_ok(conf_load_text("test", other_text, strlen(other_text), &conf, &err));
	assert_ok(push_settings_read(conf, root, &others, &err));
	vec_add(&projects, xstrdup("a"));
	assert_ok(push_start_repositories(services.tasks, others, &projects,
					  &(struct push_start_filter){ 0 }, &keys, &err));
	assert_int_equal(keys.count, 2);
	text_list_clear(&projects);
	text_list_clear(&keys);
	push_settings_unref(others);
}

static void assert_orphan(const char *answer)
{
	assert_int_equal(status_of(answer), 200);
	if (!strstr(answer, "\"done\":0,\"busy\":0,\"orphan\":1,") ||
	    !strstr(answer, "\"result\":\"orphan\""))
		fail_msg("%s", answer);
}

/* It would wait for nobody, and the reason be lost. */
TEST(what_was_given_up_for_a_remote_that_is_no_more_stays_given_up)
{
	leave_orphans();
	give_up("git://127.0.0.1:1/m9/a.git");
	assert_orphan(retry("{\"remotes\":[\"m9\"]}"));
	assert_orphan(retry("{\"remotes\":[\"m9\"],\"force\":true}"));
	assert_int_equal(given_up(), 1);
	assert_int_equal(queued(), 1);
	assert_acted(discard("{\"orphans\":true}"), 2, "/m9/a.git");
}

TEST(orphans_are_discarded_by_their_remote_or_all)
{
	queue_all();
	leave_orphans();
	assert_int_equal(queued(), 5);
	assert_orphan(retry("{\"remotes\":[\"m9\"]}"));
	assert_acted(discard("{\"orphans\":true,\"remotes\":[\"m9\"]}"), 1, "/m9/a.git");
	assert_int_equal(queued(), 4);
	assert_acted(discard("{\"orphans\":true}"), 1, "/m0/a.git");
	assert_int_equal(queued(), 3);
}

TEST(files_that_are_no_tasks_go_when_that_is_asked_for)
{
	static const char dry[] = "{\"unreadable\":true,\"dry_run\":true}";

	assert_ok(file_replace(root_fd, "ref-updates/waiting/nothing", "x", 1,
			       FILE_NO_SYNC, &err));
	assert_acted(discard(dry), 1, NULL);
	assert_acted(discard(dry), 1, NULL);
	assert_acted(discard("{\"unreadable\":true}"), 1, "\"entries\":[]");
	assert_acted(discard(dry), 0, NULL);
}

TEST(a_decision_that_is_not_understood_does_nothing)
{
	static const char *const bodies[] = {
		"",
		"[]",
		"{}",
		"{\"all\":false}",
		"{\"keys\":[]}",
		"{\"keys\":[1]}",
		"{\"keys\":[\"012345\"],\"all\":true}",
		"{\"all\":1}",
		"{\"all\":true,\"remote\":[\"m1\"]}",
		"{\"all\":true,\"remotes\":[]}",
		"{\"all\":true,\"remotes\":[\"m1\"],\"now\":true}",
		"{\"all\":true,\"remotes\":[\"m1\"],\"projects\":[\"a\"]}",
		"{\"all\":true,\"remotes\":[\"m1\"],\"url\":\"a\"}",
	};
	static const char *const of_discard[] = {
		"{\"all\":true}",
		"{\"remotes\":[\"m1\"]}",
		"{\"all\":true,\"remotes\":[\"m1\"],\"force\":true}",
		"{\"orphans\":true,\"all\":true}",
		"{\"orphans\":true,\"keys\":[\"012345\"]}",
		"{\"unreadable\":true,\"remotes\":[\"m1\"]}",
		"{\"unreadable\":true,\"orphans\":true}",
	};

	queue_all();
	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++)
		if (status_of(retry(bodies[i])) != 400 ||
		    status_of(discard(bodies[i])) != 400)
			fail_msg("%s: %s", bodies[i], reported);
	for (size_t i = 0; i < ARRAY_SIZE(of_discard); i++)
		if (status_of(discard(of_discard[i])) != 400)
			fail_msg("%s: %s", of_discard[i], reported);
	assert_int_equal(status_of(retry("{\"all\":true,\"dry_run\":true}")), 400);
	assert_int_equal(status_of(retry("{\"orphans\":true}")), 400);
	assert_int_equal(queued(), 3);
}

static int events_after(const char *query)
{
	AUTO_FREE char *target = xasprintf("/api/v1/push/events%s", query);

	return status_of(get(target));
}

TEST(events_that_cannot_be_had_are_told_from_none)
{
	static const char events[] = "{\"id\":4,\"a\":{}}\n{\"id\":5,\"a\":{}}\n";

	assert_int_equal(events_after("?after=0"), 200);
	assert_int_equal(events_after("?after=1"), 410);
	assert_ok(file_replace(root_fd, "push-events", events, strlen(events),
			       FILE_NO_SYNC, &err));
	assert_non_null(strstr(get("/api/v1/push/events"), "{\"id\":4,"));
	assert_non_null(strstr(get("/api/v1/push/events?after=2"), "EVENTS_GONE"));
	assert_int_equal(events_after("?after=2"), 410);
	assert_int_equal(events_after("?after=3"), 200);
	assert_int_equal(events_after("?after=5"), 200);
	assert_int_equal(events_after("?after=6"), 410);
	assert_non_null(strstr(get("/api/v1/push/events?after=6"), "OTHER_TIMELINE"));
}

TEST(only_an_operator_decides)
{
	queue_all();
	assert_int_equal(status_of(post_to("retry", "{\"all\":true}", NULL)), 401);
	assert_int_equal(
		status_of(post_to("discard", "{\"all\":true,\"remotes\":[\"m1\"]}", "x")),
		401);
	assert_int_equal(queued(), 3);
}

TEST(a_site_without_remotes_says_so)
{
	services.push = NULL;
	assert_int_equal(status_of(retry("{\"all\":true}")), 409);
	assert_int_equal(status_of(discard("{\"orphans\":true}")), 409);
	assert_int_equal(status_of(order("{\"all\":true}")), 409);
	assert_non_null(strstr(get("/api/v1/push/queue"), "NO_REMOTES"));
}

#define SERVED(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(an_order_makes_tasks_and_says_their_keys),
		SERVED(an_order_can_name_projects_remotes_and_urls),
		SERVED(an_order_that_is_not_understood_makes_nothing),
		SERVED(only_an_operator_gives_orders),
		SERVED(what_waits_is_tried_when_that_is_asked_for),
		SERVED(deletions_are_not_permitted_where_it_is_busy),
		SERVED(deletions_are_permitted_where_a_key_says_it_and_not_for_all_that_waits),
		SERVED(a_key_that_names_two_destinations_does_nothing),
		SERVED(what_is_busy_is_waited_for_a_few_seconds_in_all),
		SERVED(what_was_given_up_waits_again_or_goes),
		SERVED(what_is_discarded_is_not_pushed),
		SERVED(what_came_again_stays_when_what_was_given_up_is_discarded),
		SERVED(a_key_that_names_nothing_is_told_beside_one_that_does),
		SERVED(what_was_given_up_for_a_remote_that_is_no_more_stays_given_up),
		SERVED(orphans_are_discarded_by_their_remote_or_all),
		SERVED(files_that_are_no_tasks_go_when_that_is_asked_for),
		SERVED(a_decision_that_is_not_understood_does_nothing),
		SERVED(events_that_cannot_be_had_are_told_from_none),
		SERVED(only_an_operator_decides),
		SERVED(a_site_without_remotes_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
