/*
 * One easy handle inside one multi handle, driven by the thread that calls. The multi
 * handle waits for the socket and for the stop's descriptor at once, so that a stop ends
 * a forward without delay and nothing polls.
 *
 * The body is read outside of libcurl's callbacks, one piece at a time, and only when all
 * of the piece before was handed to the kernel: while its reader waits for more, nothing
 * that came is kept back from the other site. A piece is given to libcurl after a look at
 * what the other site has said meanwhile, so that an answer which refuses the body is
 * seen before a write to a connection that was closed behind it fails. (A server that
 * resets the connection between that look and the write still makes it a broken one.)
 *
 * A body that broke is never ended properly: its last chunk is not sent, or its size not
 * reached, so that the other site cannot take a part of it for all of it.
 */
#include "net/forward.h"

#include <assert.h>

#include "base/clock.h"
#include "net/forward_private.h"

#define SILENCE_MS 120000
#define WAIT_MAX_MS 60000

static struct forward_answer no_answer(void)
{
	return (struct forward_answer){ .content_type = STR_INIT,
					.content_encoding = STR_INIT,
					.content_range = STR_INIT,
					.accept_ranges = STR_INIT,
					.etag = STR_INIT,
					.last_modified = STR_INIT,
					.www_authenticate = STR_INIT,
					.retry_after = STR_INIT,
					.timeline = STR_INIT,
					.last_event = STR_INIT,
					.error_reason = STR_INIT,
					.length = UINT64_MAX };
}

void forward_answer_clear(struct forward_answer *answer)
{
	str_clear(&answer->content_type);
	str_clear(&answer->content_encoding);
	str_clear(&answer->content_range);
	str_clear(&answer->accept_ranges);
	str_clear(&answer->etag);
	str_clear(&answer->last_modified);
	str_clear(&answer->www_authenticate);
	str_clear(&answer->retry_after);
	str_clear(&answer->timeline);
	str_clear(&answer->last_event);
	str_clear(&answer->error_reason);
	*answer = no_answer();
}

static bool get_part(CURLU *parts, CURLUPart part, struct str *out)
{
	char *text = NULL;
	bool has = curl_url_get(parts, part, &text, 0) == CURLUE_OK && text[0];

	if (has)
		str_add(out, text);
	curl_free(text);
	return has;
}

/* What messages name: without path and query, which are the client's. */
static const char *forward_read_host(CURLU *parts, const char *url, struct str *host)
{
	AUTO_STR struct str rest = STR_INIT;
	CURLUcode code = curl_url_set(parts, CURLUPART_URL, url, 0);

	if (code != CURLUE_OK)
		return curl_url_strerror(code);
	if (strncasecmp(url, "http://", 7) != 0 && strncasecmp(url, "https://", 8) != 0)
		return "it begins with neither https:// nor http://";
	if (get_part(parts, CURLUPART_USER, &rest) ||
	    get_part(parts, CURLUPART_PASSWORD, &rest))
		return "it has a user's name";
	if (get_part(parts, CURLUPART_FRAGMENT, &rest))
		return "it has a fragment";
	get_part(parts, CURLUPART_SCHEME, host);
	str_add(host, "://");
	get_part(parts, CURLUPART_HOST, host);
	if (get_part(parts, CURLUPART_PORT, &rest))
		str_addf(host, ":%s", rest.data);
	return NULL;
}

static int forward_check_url(const char *url, struct str *host, struct err *err)
{
	CURLU *parts = curl_url();

	if (!parts)
		abort();
	const char *why = forward_read_host(parts, url, host);
	curl_url_cleanup(parts);
	if (!why)
		return 0;
	err_set(err, ERR_CONFIG, "the URL of another site is none: %s", why);
	return err_remedy(err, "it looks like https://git.example.com");
}

static void note_moves(struct forward *forward)
{
	CURL *easy = forward->line.easy;
	curl_off_t up = 0, down = 0;

	curl_easy_getinfo(easy, CURLINFO_SIZE_UPLOAD_T, &up);
	curl_easy_getinfo(easy, CURLINFO_SIZE_DOWNLOAD_T, &down);
	curl_off_t moved = up + down + (curl_off_t)forward->head_bytes;
	if (moved != forward->moved)
		forward->moved_at = clock_boot_ms();
	forward->moved = moved;
}

static int perform(struct forward *forward, struct err *err)
{
	int running, left;
	CURLMcode failure = curl_multi_perform(forward->line.multi, &running);
	const CURLMsg *message = curl_multi_info_read(forward->line.multi, &left);

	if (failure != CURLM_OK)
		return err_set(err, ERR_INTERNAL, "%s: %s", forward->host,
			       curl_multi_strerror(failure));
	if (message && message->msg == CURLMSG_DONE) {
		forward->has_ended = true;
		forward->code = message->data.result;
	}
	note_moves(forward);
	return 0;
}

/* Lets libcurl go on with what it paused, as far as there is something to do. */
static void forward_resume_transfer(struct forward *forward)
{
	int paused = CURLPAUSE_CONT;

	if (forward->has_ended)
		return;
	if (forward->wants_body && !forward_is_refused(forward))
		paused |= CURLPAUSE_SEND;
	if (forward->is_held_back && forward->held.len > 0)
		paused |= CURLPAUSE_RECV;
	else
		forward->is_held_back = false;
	curl_easy_pause(forward->line.easy, paused);
}

/* The next piece of the body, which may be waited for. */
static int forward_read_piece(struct forward *forward, struct err *err)
{
	const struct forward_request *request = &forward->request;
	struct forward_bytes *piece = &forward->piece;
	uint64_t left = request->body_size - forward->body_read;
	size_t size = left < FORWARD_PIECE ? (size_t)left : FORWARD_PIECE;
	ssize_t got = 0;

	assert(piece->at == piece->len);
	if (!piece->data)
		piece->data = xmalloc(FORWARD_PIECE);
	if (size > 0)
		got = request->read(request->arg, piece->data, size, err);
	if (got < 0)
		return -1;
	if (got == 0 && request->body_size != UINT64_MAX && left > 0)
		return err_set(err, ERR_NETWORK,
			       "the body of the request ended %" PRIu64 " bytes early",
			       left);
	forward->has_body_ended = got == 0;
	forward->body_read += (uint64_t)got;
	piece->at = 0;
	piece->len = (size_t)got;
	forward->moved_at = clock_boot_ms();
	return 0;
}

static int forward_feed_body(struct forward *forward, struct err *err)
{
	if (forward_read_piece(forward, err) != 0 || perform(forward, err) != 0)
		return -1;
	forward->is_woken = true;
	forward->wants_body = false;
	forward_resume_transfer(forward);
	return 0;
}

static int64_t forward_get_silence_ms(const struct forward *forward)
{
	int64_t ms = forward->request.silence_ms;

	return ms > 0 ? ms : SILENCE_MS;
}

static int too_late(const struct forward *forward, struct err *err)
{
	err_set(err, ERR_TIMEOUT, "%s has not answered whole in time", forward->host);
	return err_remedy(err, "see whether that site is overloaded, and how the network "
			       "between the sites does");
}

static int too_silent(const struct forward *forward, struct err *err)
{
	err_set(err, ERR_TIMEOUT, "%s has neither taken nor said anything for %.1f s",
		forward->host, (double)forward_get_silence_ms(forward) / 1000);
	return err_remedy(err, "see whether that site is overloaded, and how the network "
			       "between the sites does");
}

/* Whether it may go on; *left_ms: how long it may wait. */
static int forward_check_limits(const struct forward *forward, int64_t *left_ms,
				struct err *err)
{
	const struct forward_request *request = &forward->request;
	int64_t now = clock_boot_ms();
	int64_t silent_at = forward->moved_at + forward_get_silence_ms(forward);

	if (request->stop && stop_is_requested(request->stop))
		return err_set(err, ERR_CANCELED, "the request to %s was stopped",
			       forward->host);
	if (request->until > 0 && now >= request->until)
		return too_late(forward, err);
	if (now >= silent_at)
		return too_silent(forward, err);
	*left_ms = silent_at - now;
	if (request->until > 0 && request->until - now < *left_ms)
		*left_ms = request->until - now;
	return 0;
}

static int wait(struct forward *forward, int64_t left_ms, struct err *err)
{
	const struct stop *stop = forward->request.stop;
	struct curl_waitfd watched = { .events = CURL_WAIT_POLLIN };
	int ready = 0;

	if (stop)
		watched.fd = stop->fd;
	CURLMcode failure = curl_multi_poll(
		forward->line.multi, &watched, stop ? 1 : 0,
		(int)(left_ms < WAIT_MAX_MS ? left_ms : WAIT_MAX_MS), &ready);
	if (failure != CURLM_OK)
		return err_set(err, ERR_INTERNAL, "%s: %s", forward->host,
			       curl_multi_strerror(failure));
	forward->is_woken = ready > 0;
	return 0;
}

/* A status of 417 makes libcurl ask again without Expect: then it is not the answer. */
static bool has_answer(const struct forward *forward)
{
	return forward->has_ended || (forward->has_whole_head &&
				      (forward->status != 417 || forward->held.len > 0));
}

static bool forward_has_bytes(const struct forward *forward)
{
	return forward->has_ended || forward->held.len > 0;
}

/* If the body was paused when it was refused, libcurl does not see for itself that all is
 * over: it has to be asked to go on, which it does by pausing again. */
static int forward_pump_until(struct forward *forward,
			      bool (*is_enough)(const struct forward *), struct err *err)
{
	int64_t left_ms = 0;

	while (!is_enough(forward)) {
		if (forward_check_limits(forward, &left_ms, err) != 0 ||
		    perform(forward, err) != 0)
			return -1;
		if (is_enough(forward))
			break;
		bool is_refused = forward_is_refused(forward);
		if (is_refused && forward->request.read && forward->is_woken) {
			forward->is_woken = false;
			forward_resume_transfer(forward);
		} else if (forward->wants_body && !is_refused) {
			if (forward_feed_body(forward, err) != 0)
				return -1;
		} else if (wait(forward, left_ms, err) != 0) {
			return -1;
		}
	}
	return 0;
}

static void add_values(CURL *easy, const char *name, struct str *out)
{
	struct curl_header *header;

	for (size_t i = 0;
	     curl_easy_header(easy, name, i, CURLH_HEADER, -1, &header) == CURLHE_OK; i++)
		str_addf(out, "%s%s", i > 0 ? ", " : "", header->value);
}

/* For libcurl an answer also ends where its connection does: that could be anywhere. */
static int read_length(struct forward *forward, struct forward_answer *answer,
		       struct err *err)
{
	CURL *easy = forward->line.easy;
	AUTO_STR struct str coding = STR_INIT;
	curl_off_t length = -1;

	curl_easy_getinfo(easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
	add_values(easy, "Transfer-Encoding", &coding);
	if (answer->status == 204 || answer->status == 304 ||
	    strcmp(forward->request.method, "HEAD") == 0)
		answer->length = 0;
	else if (coding.len == 0 && length >= 0)
		answer->length = (uint64_t)length;
	else if (coding.len == 0) {
		err_set(err, ERR_NETWORK, "%s: the answer does not say where it ends",
			forward->host);
		return err_remedy(err, "see whether a server in front of that site "
				       "speaks HTTP/1.0");
	}
	return 0;
}

static int forward_read_head(struct forward *forward, struct forward_answer *answer,
			     struct err *err)
{
	CURL *easy = forward->line.easy;

	if (!forward->has_whole_head)
		return forward_curl_error(forward, err);
	answer->status = (int)forward->status;
	add_values(easy, "Content-Type", &answer->content_type);
	add_values(easy, "Content-Encoding", &answer->content_encoding);
	add_values(easy, "Content-Range", &answer->content_range);
	add_values(easy, "Accept-Ranges", &answer->accept_ranges);
	add_values(easy, "ETag", &answer->etag);
	add_values(easy, "Last-Modified", &answer->last_modified);
	add_values(easy, "WWW-Authenticate", &answer->www_authenticate);
	add_values(easy, "Retry-After", &answer->retry_after);
	add_values(easy, "Refrelay-Timeline", &answer->timeline);
	add_values(easy, "Refrelay-Last-Event", &answer->last_event);
	add_values(easy, "Refrelay-Error-Reason", &answer->error_reason);
	return read_length(forward, answer, err);
}

/* Not if its body may be what broke. */
static bool is_unanswered(const struct forward *forward, const struct err *err)
{
	return !forward->request.read &&
	       (err->class == ERR_NETWORK || err->class == ERR_TIMEOUT);
}

static int forward_start_request(struct forward *forward, struct forward_answer *answer,
				 bool *is_sent, struct err *err)
{
	long sent = 0;

	if (curl_multi_add_handle(forward->line.multi, forward->line.easy) != CURLM_OK)
		abort();
	forward->moved_at = clock_boot_ms();
	int result = forward_pump_until(forward, has_answer, err);
	curl_easy_getinfo(forward->line.easy, CURLINFO_REQUEST_SIZE, &sent);
	*is_sent = sent > 0;
	if (result == 0)
		result = forward_read_head(forward, answer, err);
	if (result == 0 || is_unanswered(forward, err))
		forwarder_note(forward->forwarder, result == 0 ? 0 : clock_boot_ms());
	return result;
}

static bool is_method(const char *method)
{
	return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 ||
	       strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0;
}

int forward_open(struct forwarder *forwarder, const struct forward_request *request,
		 struct forward **forward, struct forward_answer *answer, bool *is_sent,
		 struct err *err)
{
	AUTO_STR struct str host = STR_INIT;

	assert(is_method(request->method));
	*answer = no_answer();
	*is_sent = false;
	*forward = NULL;
	if (forward_check_url(request->url, &host, err) != 0)
		return -1;
	struct forward *made = xcalloc(1, sizeof(*made));
	made->forwarder = forwarder;
	made->request = *request;
	made->host = str_take(&host);
	made->line = forward_line_take(forwarder);
	if (forward_set_up(made, forwarder_site(forwarder), err) != 0 ||
	    forward_start_request(made, answer, is_sent, err) != 0) {
		forward_close(made);
		return -1;
	}
	*forward = made;
	return 0;
}

static int wait_for_bytes(struct forward *forward, struct err *err)
{
	forward->moved_at = clock_boot_ms();
	forward->is_woken = true;
	if (forward->is_held_back)
		forward_resume_transfer(forward);
	return forward_pump_until(forward, forward_has_bytes, err);
}

static size_t take_held(struct forward_bytes *held, void *buffer, size_t size)
{
	size_t len = held->len - held->at;

	if (len > size)
		len = size;
	memcpy(buffer, held->data + held->at, len);
	held->at += len;
	if (held->at == held->len)
		held->at = held->len = 0;
	return len;
}

ssize_t forward_read(struct forward *forward, void *buffer, size_t size, struct err *err)
{
	assert(size > 0);
	if (forward->failure.class == ERR_NONE && !forward_has_bytes(forward) &&
	    wait_for_bytes(forward, &forward->failure) != 0)
		assert(forward->failure.class != ERR_NONE);
	if (forward->held.len > 0)
		return (ssize_t)take_held(&forward->held, buffer, size);
	if (forward->failure.class == ERR_NONE && forward->code != CURLE_OK)
		forward_curl_error(forward, &forward->failure);
	if (forward->failure.class == ERR_NONE)
		return 0;
	*err = forward->failure;
	return -1;
}

/* Taken out before its end, its connection is closed. */
static void give_line_back(struct forward *forward)
{
	struct forward_line *line = &forward->line;
	curl_socket_t socket = CURL_SOCKET_BAD;

	if (forward->has_ended && forward->code == CURLE_OK)
		curl_easy_getinfo(line->easy, CURLINFO_ACTIVESOCKET, &socket);
	curl_multi_remove_handle(line->multi, line->easy);
	curl_easy_reset(line->easy); /* it points at what is freed now */
	if (socket != CURL_SOCKET_BAD)
		forward_line_keep(forward->forwarder, *line);
	else
		forward_line_clear(line);
}

void forward_close(struct forward *forward)
{
	if (!forward)
		return;
	give_line_back(forward);
	curl_slist_free_all(forward->headers);
	free(forward->piece.data);
	free(forward->held.data);
	free(forward->host);
	free(forward);
}
