/*
 * How fast a site is answered that shall not have all there is: measured, over real
 * connections.
 */
#include "git_test.h"
#include "web_test.h"

#include <curl/curl.h>

#include "base/file.h"
#include "web/transport.h"
#include "wire/wire_token.h"

enum { RATE = 10 << 20, BYTES = 5 << 20 }; /* half a second */

static struct site_key key;

struct torrent {
	size_t left;
	bool slows; /* half-way the site may have RATE and no more */
};

static ssize_t read_torrent(void *stream, void *buffer, size_t size)
{
	struct torrent *torrent = stream;

	size = size < torrent->left ? size : torrent->left;
	if (torrent->slows && torrent->left <= BYTES / 2)
		bucket_ask(buckets_find(services.buckets, "paris"), RATE);
	memset(buffer, 'x', size);
	torrent->left -= size;
	return (ssize_t)size;
}

static int answer_stream(const struct web_request *request, struct web_response *response,
			 struct err *error)
{
	struct torrent *torrent = xcalloc(1, sizeof(*torrent));

	(void)error;
	torrent->left = BYTES;
	torrent->slows = web_query(request, "slows");
	response->read = read_torrent;
	response->close = free;
	response->stream = torrent;
	if (web_query(request, "sized"))
		response->length = BYTES;
	return 0;
}

static int answer_memory(const struct web_request *request, struct web_response *response,
			 struct err *error)
{
	AUTO_FREE char *bytes = xmalloc(BYTES);

	(void)request;
	(void)error;
	memset(bytes, 'x', BYTES);
	str_add_bytes(&response->body, bytes, BYTES);
	return 0;
}

static int answer_short(const struct web_request *request, struct web_response *response,
			struct err *error)
{
	(void)request;
	(void)error;
	for (int i = 0; i < 32 << 10; i++)
		str_add_char(&response->body, 'x');
	return 0;
}

static const struct web_route routes[] = {
	{ "GET", "/stream", WEB_READER, WEB_BODY_NONE, answer_stream },
	{ "GET", "/memory", WEB_READER, WEB_QUICK, answer_memory },
	{ "GET", "/short", WEB_READER, WEB_BODY_NONE, answer_short },
	{ 0 },
};

static void configure(const char *more)
{
	AUTO_FREE char *text = xasprintf(
		"[secondary \"paris\"]\n\tsecretFile = %s/secret\n%s", root, more);
	AUTO_CONF struct conf *conf = NULL;

	assert_ok(conf_load_text("test", text, strlen(text), &conf, &err));
	if (!services.access)
		assert_ok(access_read(conf, true, &services.access, &err));
	assert_ok(buckets_set(services.buckets, conf, &err));
}

static int setup(void **state)
{
	if (test_make_root(state))
		return -1;
	AUTO_FREE char *file = xasprintf("%s/secret", root);
	assert_ok(file_replace(root_fd, "secret", "0123456789abcdef0123", 20,
			       FILE_NO_SYNC, &err));
	assert_int_equal(fchmodat(root_fd, "secret", 0600, 0), 0);
	assert_ok(site_key_read("paris", file, &key, &err));
	services = (struct web_services){ .buckets = buckets_new() };
	configure("");
	return 0;
}

static int setup_plain(void **state)
{
	if (setup(state))
		return -1;
	start_server(routes, 0);
	return 0;
}

static int setup_tls(void **state)
{
	static const struct web_route *const tables[] = { routes, NULL };
	AUTO_TRANSPORT struct transport transport = { .connections = 64 };

	if (setup(state))
		return -1;
	must("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
	     "-keyout %s/key -out %s/pem -days 3 -subj /CN=localhost "
	     "-addext subjectAltName=DNS:localhost 2>/dev/null && chmod 600 %s/key",
	     root, root, root);
	AUTO_FREE char *certificate = xasprintf("%s/pem", root);
	AUTO_FREE char *private = xasprintf("%s/key", root);
	assert_ok(tls_identity_read(certificate, private, &transport.identity, &err));
	services.data = root;
	log_set_level(LOG_LEVEL_NONE);
	assert_ok(server_start(&(struct web_server_options){ .listen = "127.0.0.1:0",
							     .services = &services,
							     .transport = &transport,
							     .routes = tables },
			       &server, &err));
	return 0;
}

static int teardown(void **state)
{
	web_server_stop(TAKE(server), 0);
	access_free(services.access);
	buckets_free(services.buckets);
	site_key_clear(&key);
	return test_remove_root(state);
}

struct fetching {
	const char *target;
	uint64_t bandwidth;
	int repeats;
	bool is_good;
	pthread_t thread;
};

static size_t drop(char *data, size_t size, size_t count, void *arg)
{
	(void)data;
	(void)arg;
	return size * count;
}

/* As the program's client, which trusts this machine's authorities only. */
static bool fetch_once(CURL *curl, const struct fetching *fetching)
{
	const struct signed_request what = { .method = "GET",
					     .target = fetching->target };
	struct err why;
	AUTO_FREE char *token = wire_token_for_request(&key, &what, &why);
	AUTO_FREE char *right = xasprintf("Authorization: Bearer %s", token);
	AUTO_FREE char *rate =
		xasprintf("Refrelay-Bandwidth: %" PRIu64, fetching->bandwidth);
	struct curl_slist *headers = curl_slist_append(NULL, right);
	long status = 0;

	headers = curl_slist_append(headers, rate);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	bool is_done = curl_easy_perform(curl) == CURLE_OK;
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	curl_slist_free_all(headers);
	return is_done && status == 200;
}

/* Failures are the main thread's to judge. */
static void *run_fetching(void *arg)
{
	struct fetching *fetching = arg;
	AUTO_FREE char *url =
		xasprintf("%s://localhost:%u%s", server->has_tls ? "https" : "http",
			  web_server_port(server), fetching->target);
	AUTO_FREE char *file = xasprintf("%s/pem", root);
	CURL *curl = curl_easy_init();

	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_CAINFO, file);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT, 60L);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop);
	fetching->is_good = true;
	for (int i = 0; i < fetching->repeats && fetching->is_good; i++)
		fetching->is_good = fetch_once(curl, fetching);
	curl_easy_cleanup(curl);
	return NULL;
}

/* In milliseconds, with so many connections at once. */
static int64_t fetch(const struct fetching *what, int connections)
{
	struct fetching all[4];
	int64_t begun = clock_boot_ms();
	bool are_good = true;

	for (int i = 0; i < connections; i++) {
		all[i] = *what;
		thread_start(&all[i].thread, "fetch", run_fetching, &all[i]);
	}
	for (int i = 0; i < connections; i++) {
		thread_join(all[i].thread);
		are_good &= all[i].is_good;
	}
	assert_true(are_good);
	return clock_boot_ms() - begun;
}

/* Where others need the processors it takes longer, but never less: so each time counts
 * against the least, and one is enough for the most. */
static void assert_takes(int64_t least_ms, int64_t most_ms, int connections,
			 struct fetching what)
{
	int64_t took_ms = INT64_MAX;

	for (int i = 0; i < 20 && took_ms > most_ms; i++) {
		took_ms = fetch(&what, connections);
		assert_true(took_ms >= least_ms);
	}
	assert_in_range(took_ms, least_ms, most_ms);
}

TEST(a_site_has_what_it_asks_for_a_second_and_no_more)
{
	static const char *const targets[] = { "/stream", "/stream?sized=1", "/memory" };

	for (size_t i = 0; i < ARRAY_SIZE(targets); i++)
		assert_takes(400, 3000, 1,
			     (struct fetching){ .target = targets[i],
						.bandwidth = RATE,
						.repeats = 1 });
}

TEST(all_connections_of_a_site_share_it)
{
	assert_takes(900, 4500, 2,
		     (struct fetching){
			     .target = "/stream", .bandwidth = RATE, .repeats = 1 });
}

TEST(many_short_answers_count_like_a_long_one)
{
	/* 512 KiB */
	assert_takes(350, 3000, 2,
		     (struct fetching){
			     .target = "/short", .bandwidth = 1 << 20, .repeats = 8 });
}

TEST(a_site_gets_no_more_than_its_primary_lets_it_have)
{
	configure("\tbandwidth = 10m\n");
	assert_takes(
		400, 3000, 1,
		(struct fetching){ .target = "/stream", .bandwidth = 0, .repeats = 1 });
	assert_takes(400, 3000, 1,
		     (struct fetching){ .target = "/memory",
					.bandwidth = (uint64_t)1 << 30,
					.repeats = 1 });
	configure("");
	assert_takes(
		0, 399, 1,
		(struct fetching){ .target = "/stream", .bandwidth = 0, .repeats = 1 });
}

TEST(what_is_no_size_is_refused_and_nothing_is_taken_over)
{
	static const char text[] = "[secondary \"paris\"]\n\tbandwidth = fast\n"
				   "[secondary \"a\"]\n\tbandwidth = 1k\n";
	AUTO_CONF struct conf *conf = NULL;

	assert_ok(conf_load_text("test", text, strlen(text), &conf, &err));
	assert_fails(buckets_set(services.buckets, conf, &err), ERR_CONFIG);
	assert_false(bucket_is_limited(buckets_find(services.buckets, "a")));
	assert_false(bucket_is_limited(buckets_find(services.buckets, "paris")));
}

TEST(a_limit_reaches_an_answer_that_began_without)
{
	assert_takes(200, 3000, 1,
		     (struct fetching){ .target = "/stream?slows=1", .repeats = 1 });
}

static bool wait_for(struct bucket *bucket, size_t bytes, int64_t until)
{
	struct stop stop;

	stop_init(&stop);
	bool is_due = bucket_wait(bucket, bytes, until, &stop);
	stop_clear(&stop);
	return is_due;
}

TEST(what_was_not_used_is_not_saved_up)
{
	struct bucket *bucket = buckets_find(services.buckets, "rome");
	int64_t before;

	bucket_ask(bucket, 1000000);
	assert_int_equal(bucket_block(bucket, 256 << 10), 62500);
	assert_true(wait_for(bucket, 1000, INT64_MAX));
	usleep(100000);
	before = clock_boot_ms();
	assert_true(wait_for(bucket, 500000, INT64_MAX));
	bool is_due = wait_for(bucket, 1, before + 100); /* or we came late */
	assert_true(clock_boot_ms() >= before + (is_due ? 450 : 100));
	assert_true(wait_for(bucket, 1, INT64_MAX));
	assert_true(clock_boot_ms() >= before + 450);
	bucket_ask(bucket, 0);
	assert_true(wait_for(bucket, 1, clock_boot_ms()));
}

static void *wait_for_a_year(void *arg)
{
	assert_true(wait_for(arg, 1, INT64_MAX));
	return NULL;
}

TEST(what_was_taken_at_another_rate_is_no_debt)
{
	struct bucket *bucket = buckets_find(services.buckets, "rome");
	pthread_t waiting;

	bucket_ask(bucket, 1);
	assert_true(wait_for(bucket, 30 << 20, INT64_MAX));
	thread_start(&waiting, "wait", wait_for_a_year, bucket);
	bucket_ask(bucket, 1); /* the same: it waits on */
	assert_false(wait_for(bucket, 1, clock_boot_ms() + 50));
	bucket_ask(bucket, 1000000);
	thread_join(waiting);
	assert_true(wait_for(bucket, 1, clock_boot_ms() + 20000));
}

#define PLAIN(name) cmocka_unit_test_setup_teardown(name, setup_plain, teardown)
#define BY_TLS(name)                                                                     \
	{                                                                                \
#name "_by_tls", name, setup_tls, teardown, NULL                         \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PLAIN(a_site_has_what_it_asks_for_a_second_and_no_more),
		PLAIN(all_connections_of_a_site_share_it),
		PLAIN(many_short_answers_count_like_a_long_one),
		PLAIN(a_site_gets_no_more_than_its_primary_lets_it_have),
		PLAIN(what_is_no_size_is_refused_and_nothing_is_taken_over),
		PLAIN(a_limit_reaches_an_answer_that_began_without),
		PLAIN(what_was_not_used_is_not_saved_up),
		PLAIN(what_was_taken_at_another_rate_is_no_debt),
		BY_TLS(a_site_has_what_it_asks_for_a_second_and_no_more),
		BY_TLS(all_connections_of_a_site_share_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
