#include "git_test.h"
#include "web_test.h"

#include <curl/curl.h>
#include <sys/resource.h>

#include "base/metrics.h"
#include "web/transport.h"

enum { LONG = 8 << 20 };

static int get_who(const struct web_request *request, struct web_response *response,
		   struct err *e)
{
	(void)e;
	str_addf(&response->body, "%s %s", request->client,
		 request->is_secure ? "secure" : "plain");
	return 0;
}

static ssize_t read_long(void *arg, void *buffer, size_t size)
{
	size_t *left = arg;

	size = size < *left ? size : *left;
	memset(buffer, 'x', size);
	*left -= size;
	return (ssize_t)size;
}

static int get_long(const struct web_request *request, struct web_response *response,
		    struct err *e)
{
	size_t *left = xmalloc(sizeof(*left));

	(void)request;
	(void)e;
	*left = LONG;
	response->read = read_long;
	response->close = free;
	response->stream = left;
	return 0;
}

static const struct web_route routes[] = {
	{ "GET", "/who", WEB_ANYBODY, WEB_BODY_NONE, get_who },
	{ "GET", "/long", WEB_ANYBODY, WEB_BODY_NONE, get_long },
	{ 0 },
};

static void serve(const struct transport *transport, int64_t idle_ms, int64_t head_ms)
{
	static const struct web_route *const tables[] = { routes, NULL };

	services.data = root;
	log_set_level(LOG_LEVEL_NONE);
	assert_ok(server_start(&(struct web_server_options){ .listen = "127.0.0.1:0",
							     .services = &services,
							     .transport = transport,
							     .idle_ms = idle_ms,
							     .head_ms = head_ms,
							     .routes = tables },
			       &server, &err));
}

static int teardown(void **state)
{
	web_server_stop(TAKE(server), 0);
	return test_remove_root(state);
}

/* root/NAME.pem and root/NAME.key */
static void make_identity(const char *name)
{
	must("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
	     "-keyout %s/%s.key -out %s/%s.pem -days 3 -subj /CN=%s "
	     "-addext subjectAltName=DNS:localhost 2>/dev/null && chmod 600 %s/%s.key",
	     root, name, root, name, name, root, name);
}

static int read_identity(const char *certificate, const char *key,
			 struct tls_identity **identity)
{
	AUTO_FREE char *certificate_path = xasprintf("%s/%s.pem", root, certificate);
	AUTO_FREE char *key_path = xasprintf("%s/%s.key", root, key);

	return tls_identity_read(certificate_path, key_path, identity, &err);
}

static void serve_tls(const char *name, int64_t head_ms)
{
	AUTO_TRANSPORT struct transport transport = { .connections = 64 };

	make_identity(name);
	assert_ok(read_identity(name, name, &transport.identity));
	serve(&transport, 0, head_ms);
}

static size_t add_block(char *data, size_t size, size_t count, void *out)
{
	str_add_bytes(out, data, size * count);
	return size * count;
}

static CURL *prepare(const char *target, const char *ca, struct str *out)
{
	AUTO_FREE char *url =
		xasprintf("https://localhost:%u%s", web_server_port(server), target);
	AUTO_FREE char *file = xasprintf("%s/%s.pem", root, ca);
	CURL *curl = curl_easy_init();

	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_CAINFO, file);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT, 10L);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, add_block);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, out);
	return curl;
}

static CURLcode fetch(const char *target, const char *ca, struct str *out)
{
	CURL *curl = prepare(target, ca, out);
	CURLcode code = curl_easy_perform(curl);

	curl_easy_cleanup(curl);
	return code;
}

TEST(a_request_by_tls_is_answered_and_known_to_be_secure)
{
	AUTO_STR struct str answer = STR_INIT;

	serve_tls("one", 0);
	assert_int_equal(fetch("/who", "one", &answer), CURLE_OK);
	assert_true(text_starts_with(answer.data, "127.0.0.1 "));
	assert_true(text_ends_with(answer.data, " secure"));
}

/* Sends these bytes by TLS, and gives what comes until the server ends the connection. */
static void ask_secretly(const char *text, struct str *answer)
{
	CURL *curl = prepare("/who", "one", answer);
	int64_t until = clock_boot_ms() + 5000;
	CURLcode code = CURLE_AGAIN;
	char block[4096];
	size_t count = 1;

	curl_easy_setopt(curl, CURLOPT_CONNECT_ONLY, 1L);
	assert_int_equal(curl_easy_perform(curl), CURLE_OK);
	assert_int_equal(curl_easy_send(curl, text, strlen(text), &count), CURLE_OK);
	while (code == CURLE_AGAIN || (code == CURLE_OK && count > 0)) {
		count = 0;
		code = curl_easy_recv(curl, block, sizeof(block), &count);
		if (code == CURLE_OK)
			str_add_bytes(answer, block, count);
		assert_true(clock_boot_ms() < until);
		usleep(500);
	}
	curl_easy_cleanup(curl);
}

TEST(heads_that_come_by_tls_are_judged_too)
{
	AUTO_STR struct str answer = STR_INIT;

	serve_tls("one", 0);
	ask_secretly("GET /who HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n", &answer);
	assert_true(text_starts_with(answer.data, "HTTP/1.1 400 Bad Request\r\n"));
	str_reset(&answer);
	ask_secretly("GET /who HTTP/1.1\r\nHost: h\r\n\r\n"
		     "GET /who HTTP/1.1\r\nHost : h\r\n\r\n",
		     &answer);
	assert_true(text_starts_with(answer.data, "HTTP/1.1 200 OK\r\n"));
	assert_non_null(strstr(answer.data, " secureHTTP/1.1 400 Bad Request\r\n"));
}

TEST(a_long_stream_by_tls_comes_whole_and_encrypted)
{
	AUTO_STR struct str answer = STR_INIT;

	serve_tls("one", 0);
	assert_int_equal(fetch("/long", "one", &answer), CURLE_OK);
	assert_int_equal(answer.len, LONG);
	for (size_t i = 0; i < LONG; i++)
		assert_int_equal(answer.data[i], 'x');
}

TEST(who_speaks_plainly_or_an_old_version_to_tls_gets_nothing)
{
	AUTO_STR struct str answer = STR_INIT;

	serve_tls("one", 0);
	AUTO_CLOSE int fd = dial();
	send_text(fd, "GET /who HTTP/1.1\r\nHost: h\r\n\r\n");
	assert_true(receive_all(fd, 5000, &answer));
	assert_null(strstr(answer.data, "HTTP"));
	CURL *curl = prepare("/who", "one", &answer);
	curl_easy_setopt(curl, CURLOPT_SSLVERSION,
			 (long)CURL_SSLVERSION_TLSv1 | (long)CURL_SSLVERSION_MAX_TLSv1_1);
	assert_int_not_equal(curl_easy_perform(curl), CURLE_OK);
	curl_easy_cleanup(curl);
}

TEST(another_certificate_is_shown_to_new_connections_and_old_ones_stay)
{
	AUTO_STR struct str answer = STR_INIT;
	AUTO_TRANSPORT struct transport with = { .connections = 64 };
	long connects = -1;

	serve_tls("one", 0);
	CURL *kept = prepare("/who", "one", &answer);
	assert_int_equal(curl_easy_perform(kept), CURLE_OK);
	make_identity("two");
	assert_ok(read_identity("two", "two", &with.identity));
	web_server_set(server, &with);
	assert_int_equal(fetch("/who", "two", &answer), CURLE_OK);
	assert_int_equal(fetch("/who", "one", &answer), CURLE_PEER_FAILED_VERIFICATION);
	assert_int_equal(curl_easy_perform(kept), CURLE_OK);
	curl_easy_getinfo(kept, CURLINFO_NUM_CONNECTS, &connects);
	assert_int_equal(connects, 0);
	curl_easy_cleanup(kept);
}

static int64_t used_ms(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 +
	       (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
}

TEST(a_handshake_that_stops_half_way_spins_nothing_and_is_closed)
{
	AUTO_STR struct str answer = STR_INIT;
	int64_t begun, used;

	serve_tls("one", 600);
	begun = clock_boot_ms();
	AUTO_CLOSE int fd = dial();
	send_bytes(fd, "\x16\x03\x01\x02", 4);
	used = used_ms();
	assert_true(receive_all(fd, 5000, &answer));
	assert_in_range(clock_boot_ms() - begun, 500, 6000);
	assert_in_range(used_ms() - used, 0, 300);
}

TEST(a_key_that_fits_not_or_is_open_to_all_is_refused)
{
	struct tls_identity *identity;

	make_identity("one");
	make_identity("two");
	assert_fails(read_identity("one", "two", &identity), ERR_CONFIG);
	assert_non_null(strstr(err.text, "is not that of the certificate"));
	must("chmod 644 %s/one.key", root);
	assert_fails(read_identity("one", "one", &identity), ERR_CONFIG);
	assert_non_null(strstr(err.text, "everybody can read"));
	must("echo nothing >%s/two.key", root);
	assert_fails(read_identity("two", "two", &identity), ERR_CONFIG);
	must("cp %s/two.pem %s/four.pem; truncate -s 200 %s/four.pem", root, root, root);
	assert_fails(read_identity("four", "one", &identity), ERR_CONFIG);
	assert_non_null(strstr(err.text, "four.pem"));
	assert_int_equal(read_identity("five", "one", &identity), -1);
	assert_non_null(strstr(err.text, "five.pem"));
}

static void fails_to_read(const char *text, const char *named)
{
	AUTO_CONF struct conf *conf = NULL;
	struct transport transport;

	assert_ok(conf_load_text("conf", text, strlen(text), &conf, &err));
	assert_fails(transport_read(conf, &transport, &err), ERR_CONFIG);
	if (!strstr(err.text, named))
		fail_msg("%s", err.text);
	assert_string_not_equal(err.remedy, "");
}

TEST(half_of_tls_and_names_of_proxies_are_told)
{
	fails_to_read("[http]\n tlsKey = k\n", "http.tlsCertificate is not set");
	fails_to_read("[http]\n tlsCertificate = c\n", "http.tlsKey is not set");
	fails_to_read("[http]\n trustedProxy = 10.0.0.1\n trustedProxy = gate\n",
		      "conf:3: http.trustedProxy: \"gate\"");
}

static void trust(struct transport *transport, const char *network)
{
	assert_ok(trusted_proxies_add(&transport->proxies, network, &err));
}

static const char *who(const char *headers)
{
	AUTO_FREE char *head = xasprintf("GET /who HTTP/1.1\r\n%s", headers);

	/* what follows a head's line has its own end */
	head[strlen(head) - 2] = '\0';
	return body_of(exchange(head, NULL, 0));
}

TEST(a_trusted_proxy_says_who_asks_and_how)
{
	AUTO_TRANSPORT struct transport transport = { .connections = 64 };

	trust(&transport, "127.0.0.1");
	trust(&transport, "10.0.0.0/8");
	serve(&transport, 0, 0);
	assert_string_equal(who("X-Forwarded-For: 192.0.2.7\r\n"), "192.0.2.7 plain");
	assert_string_equal(who("X-Forwarded-For: 192.0.2.7\r\n"
				"X-Forwarded-Proto: https\r\n"),
			    "192.0.2.7 secure");
	assert_string_equal(who("X-Forwarded-For: 1.1.1.1, 2001:db8::1\r\n"
				"x-forwarded-for: 10.1.1.1\r\n"),
			    "2001:db8::1 plain");
	assert_true(text_starts_with(who("X-Forwarded-For: 192.0.2.7, gate\r\n"),
				     "127.0.0.1 "));
	assert_true(text_ends_with(who("X-Forwarded-Proto: https\r\n"
				       "X-Forwarded-Proto: http\r\n"),
				   " plain"));
}

TEST(what_others_say_of_who_asks_counts_for_nothing)
{
	AUTO_TRANSPORT struct transport transport = { .connections = 64 };
	const char *answer;

	trust(&transport, "10.0.0.0/8");
	serve(&transport, 0, 0);
	answer = who("X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\n");
	assert_true(text_starts_with(answer, "127.0.0.1 "));
	assert_true(text_ends_with(answer, " plain"));
	trust(&transport, "127.0.0.1");
	web_server_set(server, &transport);
	assert_string_equal(who("X-Forwarded-For: 192.0.2.7\r\n"), "192.0.2.7 plain");
}

static void dial_many(int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++)
		fds[i] = dial();
}

static void hang_up(const int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++)
		close(fds[i]);
}

/* A request on a connection that stays. */
static bool is_answered(int fd, int ms)
{
	struct pollfd watched = { .fd = fd, .events = POLLIN };
	char answer[4096];

	send_text(fd, "GET /who HTTP/1.1\r\nHost: h\r\n\r\n");
	return poll(&watched, 1, ms) == 1 && recv(fd, answer, sizeof(answer), 0) > 0;
}

static bool is_taken(void)
{
	AUTO_CLOSE int fd = dial();

	return is_answered(fd, 5000);
}

TEST(a_client_with_too_many_connections_gets_no_more_until_one_ends)
{
	AUTO_STR struct str metrics = STR_INIT;
	AUTO_TRANSPORT struct transport transport = { .connections = 64,
						      .per_client = 4 };
	int64_t until = clock_boot_ms() + 5000;
	int fds[4];

	serve(&transport, 0, 0);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = dial();
		assert_true(is_answered(fds[i], 5000));
	}
	assert_false(is_taken());
	metrics_render_as(METRICS_PROMETHEUS, &metrics);
	assert_non_null(strstr(metrics.data, "connections_refused_total 1\n"));
	assert_true(is_answered(fds[0], 5000));
	close(fds[3]);
	while (!is_taken())
		assert_true(clock_boot_ms() < until);
	trust(&transport, "127.0.0.0/8");
	web_server_set(server, &transport);
	fds[3] = dial();
	assert_true(is_answered(fds[3], 5000));
	assert_true(is_taken());
	hang_up(fds, ARRAY_SIZE(fds));
}

/* Returns a connection that came when others had all places, and asked in vain. -1: that
 * took so long that one of them was silent for a second, and may have been cut for it. */
static int come_too_late(int *fds, size_t count)
{
	dial_many(fds, count);
	int64_t begun = clock_boot_ms();
	for (size_t i = 0; i < count; i++)
		assert_true(is_answered(fds[i], 5000));
	int late = dial();
	int64_t used = used_ms();
	bool is_let_in = is_answered(late, 500);
	used = used_ms() - used;
	if (clock_boot_ms() - begun >= 1000) {
		close(late);
		hang_up(fds, count);
		return -1;
	}
	assert_false(is_let_in);
	assert_in_range(used, 0, 250);
	return late;
}

TEST(who_finds_all_places_taken_waits_without_spinning_and_gets_the_next)
{
	AUTO_TRANSPORT struct transport transport = { .connections = 16 };
	AUTO_CLOSE int late = -1;
	int fds[16];

	serve(&transport, 0, 0);
	for (int i = 0; i < 20 && late < 0; i++)
		late = come_too_late(fds, ARRAY_SIZE(fds));
	assert_true(late >= 0);
	close(fds[7]);
	struct pollfd watched = { .fd = late, .events = POLLIN };
	assert_int_equal(poll(&watched, 1, 5000), 1);
	fds[7] = dup(late);
	hang_up(fds, ARRAY_SIZE(fds));
}

static bool is_closed(int fd)
{
	struct pollfd watched = { .fd = fd, .events = POLLIN };
	char byte;

	return poll(&watched, 1, 0) == 1 && recv(fd, &byte, 1, MSG_PEEK) <= 0;
}

/* The server notes that an answer has ended after its client has it: so the others ask a
 * while after the first one. The last one asks now and then, and is never silent for as
 * long as one may be. */
TEST(when_all_places_are_taken_who_was_silent_for_longest_makes_room)
{
	AUTO_TRANSPORT struct transport transport = { .connections = 16 };
	int64_t until = clock_boot_ms() + 10000;
	int fds[16];

	serve(&transport, 0, 0);
	dial_many(fds, ARRAY_SIZE(fds));
	assert_true(is_answered(fds[0], 5000));
	usleep(300000);
	for (size_t i = 1; i < ARRAY_SIZE(fds); i++)
		assert_true(is_answered(fds[i], 5000));
	AUTO_CLOSE int late = dial();
	send_text(late, "GET /who HTTP/1.1\r\nHost: h\r\n\r\n");
	struct pollfd watched = { .fd = late, .events = POLLIN };
	while (poll(&watched, 1, 0) == 0) {
		assert_true(clock_boot_ms() < until);
		assert_true(is_answered(fds[15], 5000));
		usleep(1000);
	}
	assert_true(is_closed(fds[0]));
	assert_false(is_closed(fds[15]));
	hang_up(fds, ARRAY_SIZE(fds));
}

/* They ask for what no buffer holds. */
TEST(when_all_places_are_taken_by_who_reads_nothing_one_makes_room)
{
	AUTO_TRANSPORT struct transport transport = { .connections = 16 };
	int fds[16], size = 4096;

	serve(&transport, 0, 0);
	dial_many(fds, ARRAY_SIZE(fds));
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
		send_text(fds[i], "GET /long HTTP/1.1\r\nHost: h\r\n\r\n");
	}
	AUTO_CLOSE int late = dial();
	assert_true(is_answered(late, 30000));
	hang_up(fds, ARRAY_SIZE(fds));
}

/* Two networks of one block are two clients, and the third is one too many. */
TEST(a_block_of_networks_has_as_many_connections_as_two_clients)
{
	struct connections *connections = connections_new();
	struct trusted_proxies none = { 0 };
	struct connection_count *held[4];
	struct sockaddr_in6 address = { .sin6_family = AF_INET6 };

	log_set_level(LOG_LEVEL_NONE);
	connections_set(connections, 2, &none);
	for (unsigned i = 0; i < ARRAY_SIZE(held); i++) {
		AUTO_FREE char *text = xasprintf("2001:db8:1:%u::%u", i / 2, i + 1);
		inet_pton(AF_INET6, text, &address.sin6_addr);
		assert_true(connections_admit(connections, (struct sockaddr *)&address));
		held[i] = connections_enter(connections, (struct sockaddr *)&address);
	}
	inet_pton(AF_INET6, "2001:db8:1:2::1", &address.sin6_addr);
	assert_false(connections_admit(connections, (struct sockaddr *)&address));
	inet_pton(AF_INET6, "2001:db8:2:2::1", &address.sin6_addr);
	assert_true(connections_admit(connections, (struct sockaddr *)&address));
	connections_leave(connections, held[3]);
	inet_pton(AF_INET6, "2001:db8:1:2::1", &address.sin6_addr);
	assert_true(connections_admit(connections, (struct sockaddr *)&address));
	for (unsigned i = 0; i < ARRAY_SIZE(held) - 1; i++)
		connections_leave(connections, held[i]);
	connections_free(connections);
}

TEST(a_head_that_drips_is_cut_and_one_that_is_too_large_is_431)
{
	AUTO_STR struct str answer = STR_INIT;
	AUTO_STR struct str head = STR_INIT;
	int64_t begun = clock_boot_ms();

	serve(NULL, 20000, 400);
	AUTO_CLOSE int fd = dial();
	struct pollfd watched = { .fd = fd, .events = POLLIN };
	send_text(fd, "GET /who HTTP/1.1\r\nX: ");
	while (poll(&watched, 1, 50) == 0) {
		send_text(fd, "x");
		assert_true(clock_boot_ms() - begun < 15000);
	}
	assert_true(receive_all(fd, 1000, &answer));
	assert_string_equal(answer.data, "");
	str_add(&head, "GET /who HTTP/1.1");
	for (int i = 0; i < 2000; i++)
		str_addf(&head, "\r\nX-%d: some words that fill the memory", i);
	assert_int_equal(status_of(exchange(head.data, NULL, 0)), 431);
}

TEST(who_asked_before_may_be_silent_for_longer_than_a_head_may_take)
{
	AUTO_STR struct str answer = STR_INIT;

	serve(NULL, 20000, 300);
	AUTO_CLOSE int fd = dial();
	assert_true(is_answered(fd, 5000));
	assert_false(receive_all(fd, 1500, &answer));
	assert_true(is_answered(fd, 5000));
}

#define SERVED(name) cmocka_unit_test_setup_teardown(name, test_make_root, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(a_request_by_tls_is_answered_and_known_to_be_secure),
		SERVED(heads_that_come_by_tls_are_judged_too),
		SERVED(a_long_stream_by_tls_comes_whole_and_encrypted),
		SERVED(who_speaks_plainly_or_an_old_version_to_tls_gets_nothing),
		SERVED(another_certificate_is_shown_to_new_connections_and_old_ones_stay),
		SERVED(a_handshake_that_stops_half_way_spins_nothing_and_is_closed),
		SERVED(a_key_that_fits_not_or_is_open_to_all_is_refused),
		SERVED(half_of_tls_and_names_of_proxies_are_told),
		SERVED(a_trusted_proxy_says_who_asks_and_how),
		SERVED(what_others_say_of_who_asks_counts_for_nothing),
		SERVED(a_client_with_too_many_connections_gets_no_more_until_one_ends),
		SERVED(who_finds_all_places_taken_waits_without_spinning_and_gets_the_next),
		SERVED(when_all_places_are_taken_who_was_silent_for_longest_makes_room),
		SERVED(when_all_places_are_taken_by_who_reads_nothing_one_makes_room),
		cmocka_unit_test(
			a_block_of_networks_has_as_many_connections_as_two_clients),
		SERVED(a_head_that_drips_is_cut_and_one_that_is_too_large_is_431),
		SERVED(who_asked_before_may_be_silent_for_longer_than_a_head_may_take),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
