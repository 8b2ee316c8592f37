/*
 * The queue and orders over HTTP, on a real task store, with a real push to where nobody
 * listens.
 */
#include "web_test.h"

#include <sys/stat.h>

#include "git/git_child.h"
#include "lease/directory.h"
#include "push/push.h"
#include "push/queue_view.h"

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
	assert_ok(access_read(access_conf, &services.access, &err));
}

static char *paths[2];
static struct push *push;

static int64_t listed_at(void)
{
	struct push_look look;

	push_look(push, &look);
	return look.last_listed_at;
}

/* It lists the store when it starts, and when it is woken. */
static void wait_until_listed(int64_t after)
{
	for (int tries = 0; listed_at() <= after; tries++) {
		if (tries > 5000)
			fail_msg("push was not woken");
		usleep(1000);
	}
	usleep(2000); /* the next one is at another millisecond */
}

static int setup(void **state)
{
	if (test_make_root(state))
		return -1;
	services = (struct web_services){ 0 };
	read_conf();
	make_repository("a");
	make_repository("b");
	paths[0] = xasprintf("%s/git", root);
	paths[1] = xasprintf("%s/leases", root);
	services.root = paths[0];
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

static const char *post(const char *body, const char *token)
{
	AUTO_STR struct str request = STR_INIT;
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();

	str_addf(&request,
		 "POST /api/v1/push/start HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
		 "%s%s%sContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
		 token ? "Authorization: Bearer " : "", token ? token : "",
		 token ? "\r\n" : "", strlen(body), body);
	send_text(fd, request.data);
	assert_true(receive_all(fd, 5000, &answer));
	snprintf(reported, sizeof(reported), "%s", answer.data);
	return reported;
}

static const char *order(const char *body)
{
	return post(body, "0123456789abcdef0123456789abcdef");
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
	int64_t before = listed_at();
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
		"{\"projects\":[1]}",
		"{\"projects\":[\"^(\"]}",
	};

	int64_t before = listed_at();

	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++)
		if (status_of(order(bodies[i])) != 400)
			fail_msg("%s: %s", bodies[i], reported);
	assert_int_equal(queued(), 0);
	assert_int_equal(listed_at(), before);
}

TEST(only_an_operator_gives_orders)
{
	assert_int_equal(status_of(post("{\"all\":true}", NULL)), 401);
	assert_int_equal(status_of(post("{\"all\":true}", "x")), 401);
	assert_int_equal(queued(), 0);
}

TEST(a_site_without_remotes_says_so)
{
	services.push = NULL;
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
		SERVED(a_site_without_remotes_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
