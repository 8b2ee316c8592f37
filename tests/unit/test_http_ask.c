/*
 * What is asked of servers, byte by byte, and when it ends.
 */
#include "net/http_ask.h"

#include "base/clock.h"
#include "http_peer.h"

static const char *said;

static void answer_head(struct peer_link *link)
{
	while (peer_hear_head(link) && peer_say(link, said))
		;
}

static void say_nothing(struct peer_link *link)
{
	if (peer_hear_head(link))
		peer_wait_for_end(link);
}

static struct http_ask_request asking(const char *method)
{
	return (struct http_ask_request){ .method = method,
					  .url = peer.url,
					  .timeout_ms = 5000,
					  .setting = "adminUrl of the remote" };
}

/* The head that the server gets, but for the line with its port. */
static void assert_asks(const struct http_ask_request *request, const char *first,
			const char *others)
{
	AUTO_STR struct str body = STR_INIT;
	AUTO_STR struct str expected = STR_INIT;
	int status = 0;

	str_addf(&expected, "%s /a%%2Fb?x=../y HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s",
		 first, peer.port, others);
	assert_ok(http_ask(request, &status, &body, &err));
	peer_stop();
	assert_int_equal(status, 200);
	assert_string_equal(body.data, "ok");
	assert_string_equal(peer.heads[0], expected.data);
}

#define AGENT "User-Agent: refrelay/" REFRELAY_VERSION "\r\n"
#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

TEST(without_a_body_nothing_is_said_of_one)
{
	said = OK_ANSWER;
	peer_start(answer_head);
	struct http_ask_request request = asking("DELETE");
	assert_asks(&request, "DELETE", AGENT "Accept: application/json\r\n\r\n");
}

TEST(credentials_a_signature_and_a_body_are_sent_at_once)
{
	said = OK_ANSWER;
	peer_start(answer_head);
	struct http_ask_request request = asking("PUT");
	request.user = "u";
	request.password = "p";
	request.signature = "sha256=00";
	request.body = "{\"a\":1}";
	assert_asks(&request, "PUT",
		    "Authorization: Basic dTpw\r\n" AGENT "Accept: application/json\r\n"
		    "X-Refrelay-Signature: sha256=00\r\n"
		    "Content-Type: application/json; charset=UTF-8\r\n"
		    "Content-Length: 7\r\n\r\n");
}

static int ask_once(const struct http_ask_request *request, int *status, struct str *body)
{
	int result = http_ask(request, status, body, &err);

	peer_stop();
	return result;
}

TEST(of_a_long_answer_the_beginning_is_kept)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_STR struct str body = STR_INIT;
	int status = 0;

	str_add(&text, "HTTP/1.1 409 No\r\nContent-Length: 100000\r\n\r\n");
	for (int i = 0; i < 100000; i++)
		str_add_char(&text, 'x');
	said = text.data;
	peer_start(answer_head);
	struct http_ask_request request = asking("GET");
	assert_ok(ask_once(&request, &status, &body));
	assert_int_equal(status, 409);
	assert_int_equal(body.len, 4096);
}

TEST(a_redirect_is_not_followed)
{
	AUTO_STR struct str body = STR_INIT;
	int status = 0;

	said = "HTTP/1.1 302 There\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n";
	peer_start(answer_head);
	struct http_ask_request request = asking("GET");
	assert_fails(ask_once(&request, &status, &body), ERR_CONFIG);
	assert_int_equal(peer.requests, 1);
	assert_non_null(strstr(err.remedy, "adminUrl"));
}

TEST(what_is_no_answer_names_the_setting_to_look_at)
{
	AUTO_STR struct str body = STR_INIT;
	int status = 0;

	said = "\x16\x03\x01 some bytes that are no answer\r\n\r\n";
	peer_start(answer_head);
	struct http_ask_request request = asking("GET");
	assert_fails(ask_once(&request, &status, &body), ERR_NETWORK);
	assert_non_null(strstr(err.remedy, "adminUrl"));
}

static void *stop_soon(void *arg)
{
	while (peer.requests == 0)
		usleep(1000);
	stop_request(arg);
	return NULL;
}

static void *expire_soon(void *arg)
{
	while (peer.requests == 0)
		usleep(1000);
	deadline_move(arg, clock_boot_ms());
	return NULL;
}

TEST(it_ends_by_a_stop_its_deadline_or_its_time)
{
	AUTO_STR struct str body = STR_INIT;
	struct deadline deadline;
	struct stop stop;
	pthread_t thread;
	int status = 0;

	stop_init(&stop);
	peer_start(say_nothing);
	struct http_ask_request request = asking("GET");
	request.timeout_ms = 60000;
	request.stop = &stop;
	thread_start(&thread, "stop", stop_soon, &stop);
	assert_fails(ask_once(&request, &status, &body), ERR_CANCELED);
	thread_join(thread);
	stop_clear(&stop);

	deadline_init(&deadline, clock_boot_ms() + 60000);
	peer_start(say_nothing);
	request = asking("GET");
	request.timeout_ms = 60000;
	request.deadline = &deadline;
	thread_start(&thread, "expire", expire_soon, &deadline);
	assert_fails(ask_once(&request, &status, &body), ERR_LOST);
	thread_join(thread);
	deadline_clear(&deadline);

	peer_start(say_nothing);
	request = asking("GET");
	request.timeout_ms = 100;
	assert_fails(ask_once(&request, &status, &body), ERR_TIMEOUT);
	assert_string_equal(err.remedy, "see whether that server is overloaded");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_body_nothing_is_said_of_one),
		cmocka_unit_test(credentials_a_signature_and_a_body_are_sent_at_once),
		cmocka_unit_test(of_a_long_answer_the_beginning_is_kept),
		cmocka_unit_test(a_redirect_is_not_followed),
		cmocka_unit_test(what_is_no_answer_names_the_setting_to_look_at),
		cmocka_unit_test(it_ends_by_a_stop_its_deadline_or_its_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
