/*
 * One easy handle inside one multi handle, driven by the thread that calls. The multi
 * handle waits for the socket and for the stop's descriptor at once, so that a stop ends
 * a call without delay and nothing polls, and keeps the connection open between calls.
 *
 * A body that comes is read outside of libcurl's callbacks, one piece at a time, and only
 * when all of the piece before was handed to the kernel: while its reader waits for more,
 * nothing that came is kept back from the other side. A piece is given to libcurl after a
 * look at what the other side has said meanwhile, so that an answer which refuses the
 * body is seen before a write to a connection that was closed behind it fails. (A server
 * that resets the connection between that look and the write still makes it a broken
 * one.)
 *
 * A body that broke is never ended properly: its last chunk is not sent, or its size not
 * reached, so that the other side cannot take a part of it for all of it.
 *
 * The callbacks never wait. The body's gives what was read of it, and pauses libcurl when
 * there is none; the answer's pauses when nothing more can be held.
 */
#include "net/http.h"

#include <assert.h>
#include <malloc.h>
#include <strings.h>

#include <curl/curl.h>
#include <openssl/evp.h>

#include "base/clock.h"

#define PROBE_S 5L /* of a silent connection, whether its other end is still there */
#define CONTINUE_MS 2000 /* the body is sent then, if nothing was said of it */
#define WAIT_MAX_MS 60000
#define LOOK_MS 1000 /* at a deadline that may have moved */
#define REST_MS 60000
#define REST_MIN_MS 1000
#define REST_MAX_MS (INT64_C(24) * 3600 * 1000)
#define MODIFIED_MS 60000 /* as old is what has a time that can be relied on */
#define HEAD_MAX (64u << 10)
#define PIECE_SIZE (64u << 10)
#define HELD_SIZE (256u << 10)

/*
 * Heads have credentials. What libcurl made of them, as its lists of headers and the text
 * that it sent, is wiped when it is given back: a core shows no request that is over.
 */

static void http_free_wiped(void *memory)
{
	if (memory)
		explicit_bzero(memory, malloc_usable_size(memory));
	free(memory);
}

static void *http_realloc_wiped(void *memory, size_t size)
{
	size_t had = memory ? malloc_usable_size(memory) : 0;
	void *now = malloc(size > 0 ? size : 1);

	if (now && had > 0)
		memcpy(now, memory, had < size ? had : size);
	if (now)
		http_free_wiped(memory);
	return now;
}

static void http_start_curl(void)
{
	if (curl_global_init_mem(CURL_GLOBAL_DEFAULT, malloc, http_free_wiped,
				 http_realloc_wiped, strdup, calloc) != CURLE_OK)
		abort();
}

struct http_line http_line_open(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, http_start_curl);
	struct http_line line = { .multi = curl_multi_init() };
	if (!line.multi)
		abort();
	curl_multi_setopt(line.multi, CURLMOPT_MAXCONNECTS, 1L);
	return line;
}

void http_line_close(struct http_line *line)
{
	curl_multi_cleanup(line->multi);
	*line = (struct http_line){ 0 };
}

static bool http_read_part(CURLU *parts, CURLUPart part, struct str *out)
{
	char *text = NULL;
	bool has = curl_url_get(parts, part, &text, 0) == CURLUE_OK && text[0];

	if (has && out)
		str_add(out, text);
	curl_free(text);
	return has;
}

static const char *http_check_parts(CURLU *parts, const char *url, bool may_have_query)
{
	CURLUcode code = curl_url_set(parts, CURLUPART_URL, url, 0);

	if (code != CURLUE_OK)
		return curl_url_strerror(code);
	if (strncasecmp(url, "http://", 7) != 0 && strncasecmp(url, "https://", 8) != 0)
		return "it begins with neither https:// nor http://";
	if (http_read_part(parts, CURLUPART_USER, NULL) ||
	    http_read_part(parts, CURLUPART_PASSWORD, NULL))
		return "it has a user's name; sites know each other by secretFile";
	if (http_read_part(parts, CURLUPART_FRAGMENT, NULL) ||
	    (!may_have_query && http_read_part(parts, CURLUPART_QUERY, NULL)))
		return "it has a query or a fragment";
	return NULL;
}

const char *http_check_url(const char *url, bool may_have_query, struct str *host)
{
	AUTO_STR struct str port = STR_INIT;
	CURLU *parts = curl_url();

	if (!parts)
		abort();
	const char *why = http_check_parts(parts, url, may_have_query);
	if (!why && host) {
		http_read_part(parts, CURLUPART_SCHEME, host);
		str_add(host, "://");
		http_read_part(parts, CURLUPART_HOST, host);
		if (http_read_part(parts, CURLUPART_PORT, &port))
			str_addf(host, ":%s", port.data);
	}
	curl_url_cleanup(parts);
	return why;
}

char *http_resolve_url(const char *url, const char *location)
{
	AUTO_STR struct str whole = STR_INIT;
	CURLU *parts = curl_url();

	if (!parts)
		abort();
	if (curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
	    curl_url_set(parts, CURLUPART_URL, location, 0) == CURLUE_OK)
		http_read_part(parts, CURLUPART_URL, &whole);
	curl_url_cleanup(parts);
	return whole.len > 0 ? str_take(&whole) : NULL;
}

/* Whether the other side has answered so that the rest of the body is of no use. */
static bool http_is_refused(const struct http_call *call)
{
	return call->has_whole_head && call->status >= 300;
}

static size_t http_give_body(char *buffer, size_t one, size_t count, void *arg)
{
	struct http_call *call = arg;
	struct http_bytes *piece = &call->piece;
	size_t len = piece->len - piece->at;

	assert(one == 1);
	if (http_is_refused(call))
		return CURL_READFUNC_PAUSE;
	if (len == 0 && call->has_body_ended)
		return 0;
	if (len == 0) {
		call->wants_body = true;
		return CURL_READFUNC_PAUSE;
	}
	if (len > count)
		len = count;
	memcpy(buffer, piece->data + piece->at, len);
	piece->at += len;
	call->body_taken += len;
	return len;
}

static size_t http_hold(struct http_call *call, const char *bytes, size_t count)
{
	struct http_bytes *held = &call->held;

	assert(count <= HELD_SIZE);
	if (!held->data)
		held->data = xmalloc(HELD_SIZE);
	if (count > HELD_SIZE - held->len) {
		call->is_held_back = true;
		return CURL_WRITEFUNC_PAUSE;
	}
	memcpy(held->data + held->len, bytes, count);
	held->len += count;
	return count;
}

static size_t http_take_answer(char *bytes, size_t one, size_t count, void *arg)
{
	struct http_call *call = arg;

	assert(one == 1);
	if (!call->take)
		return http_hold(call, bytes, count);
	return call->take(call->taker, bytes, count, &call->failure) == 0
		       ? count
		       : CURL_WRITEFUNC_ERROR;
}

/* Called for each line: of heads of 100 to 199, of the head, of trailers. */
static size_t http_take_head(char *bytes, size_t one, size_t count, void *arg)
{
	struct http_call *call = arg;

	assert(one == 1);
	if (call->head_bytes == 0)
		call->arrived_at = clock_wall_ms();
	call->head_bytes += count;
	if (call->head_bytes > HEAD_MAX) {
		call->is_head_too_long = true;
		return CURL_WRITEFUNC_ERROR;
	}
	if (count >= 5 && memcmp(bytes, "HTTP/", 5) == 0)
		call->has_whole_head = false;
	if (count > 0 && (bytes[0] == '\r' || bytes[0] == '\n')) {
		curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &call->status);
		call->has_whole_head = call->status >= 200;
	}
	return count;
}

/* libcurl is about to send the head, maybe for the second time: the first time was on a
 * kept connection that had died, or its Expect was refused by a 417. What it took of the
 * body then is lost. */
static int http_begin_head(void *arg, char *address, char *own, int port, int own_port)
{
	struct http_call *call = arg;

	(void)address, (void)own, (void)port, (void)own_port;
	call->wants_body = false;
	call->has_whole_head = false;
	return call->body_taken > 0 ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

/* The system's directory of authorities counts beside a file, unless it is taken away. */
static void http_set_authorities(CURL *easy, const char *file)
{
	curl_easy_setopt(easy, CURLOPT_CAINFO, file);
	curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
}

/* QUICK_EXIT: a request that ends while a name is being looked up does not wait for the
 * system's resolver. PATH_AS_IS: what was signed, or what the client asked for, is what
 * is sent. */
static void http_set_transport(struct http_call *call)
{
	CURL *easy = call->easy;

	curl_easy_setopt(easy, CURLOPT_URL, call->request.url);
	curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 0L);
	curl_easy_setopt(easy, CURLOPT_HTTP_CONTENT_DECODING, 0L);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, PROBE_S);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, PROBE_S);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)call->request.connect_ms);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "refrelay/" REFRELAY_VERSION);
	if (call->request.ca_file)
		http_set_authorities(easy, call->request.ca_file);
	if (call->wants_certificate)
		curl_easy_setopt(easy, CURLOPT_CERTINFO, 1L);
	if (call->buffer_size > 0)
		curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, call->buffer_size);
	if (call->kept_s > 0)
		curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, call->kept_s);
}

static void http_set_callbacks(struct http_call *call)
{
	CURL *easy = call->easy;

	_Static_assert(sizeof(call->detail) >= CURL_ERROR_SIZE, "libcurl fills it");
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, http_take_answer);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, http_take_head);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
	curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, http_begin_head);
	curl_easy_setopt(easy, CURLOPT_PREREQDATA, call);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->detail);
}

/* libcurl asks by Expect: 100-continue before it sends a body of unknown size, or above
 * 1 MiB. */
static void http_set_body(struct http_call *call)
{
	const struct http_request *request = &call->request;
	CURL *easy = call->easy;
	curl_off_t size =
		request->body_size <= INT64_MAX ? (curl_off_t)request->body_size : -1;

	curl_easy_setopt(easy, CURLOPT_POST, 1L);
	if (!request->read)
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS,
				 request->body ? request->body : "");
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
			 request->read || request->body ? size : 0);
	if (!request->read)
		return;
	curl_easy_setopt(easy, CURLOPT_READFUNCTION, http_give_body);
	curl_easy_setopt(easy, CURLOPT_READDATA, call);
	curl_easy_setopt(
		easy, CURLOPT_EXPECT_100_TIMEOUT_MS,
		(long)(request->continue_ms > 0 ? request->continue_ms : CONTINUE_MS));
	curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)PIECE_SIZE);
}

static void http_set_method(struct http_call *call)
{
	const struct http_request *request = &call->request;
	CURL *easy = call->easy;
	bool is_post = strcmp(request->method, "POST") == 0;

	if (is_post || strcmp(request->method, "PUT") == 0)
		http_set_body(call);
	else
		curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
	call->is_head = strcmp(request->method, "HEAD") == 0;
	if (call->is_head)
		curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
	else if (!is_post && strcmp(request->method, "GET") != 0)
		curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
	if (request->user) {
		curl_easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
		curl_easy_setopt(easy, CURLOPT_USERNAME, request->user);
		curl_easy_setopt(easy, CURLOPT_PASSWORD,
				 request->password ? request->password : "");
	}
}

/* A byte that ends a line would begin a header, or a request, of somebody's choice. */
static bool http_is_good_header(const struct http_header *header)
{
	static const char token[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789!#$%&'*+-.^_`|~";

	if (!header->name[0] || header->name[strspn(header->name, token)])
		return false;
	for (const char *c = header->value ? header->value : ""; *c; c++)
		if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f)
			return false;
	return true;
}

static void http_add_header(struct http_call *call, const struct http_header *header)
{
	const char *value = header->value;
	struct str line = STR_INIT;

	str_reserve(&line, strlen(header->name) + 2 + strlen(value ? value : ""));
	str_add(&line, header->name);
	if (value && !value[strspn(value, " \t")]) {
		str_add_char(&line, ';'); /* libcurl sends it empty */
	} else {
		str_add(&line, value ? ": " : ":");
		str_add(&line, value ? value : "");
	}
	struct curl_slist *list = curl_slist_append(call->headers, line.data);
	if (!list)
		abort();
	call->headers = list;
	str_wipe(&line);
}

static int http_set_headers(struct http_call *call, struct err *err)
{
	const struct http_header *header = call->request.headers;

	for (; header && header->name; header++) {
		if (!http_is_good_header(header))
			return err_set(err, ERR_CONFIG,
				       "a header of the request cannot be given on to "
				       "%s: it is none",
				       call->peer);
		http_add_header(call, header);
	}
	curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers);
	return 0;
}

/* No printf: it leaves copies in memory of its own. */
char *http_make_basic_header(const char *user, const char *password)
{
	static const char before[] = "Authorization: Basic ";
	struct str plain = STR_INIT, header = STR_INIT;

	user = user ? user : "";
	password = password ? password : "";
	str_reserve(&plain, strlen(user) + 1 + strlen(password));
	str_add(&plain, user);
	str_add_char(&plain, ':');
	str_add(&plain, password);
	str_reserve(&header, strlen(before) + 4 * ((plain.len + 2) / 3));
	str_add(&header, before);
	EVP_EncodeBlock((unsigned char *)header.data + header.len,
			(const unsigned char *)plain.data, (int)plain.len);
	str_wipe(&plain);
	return str_take(&header);
}

/* The connection belongs to the multi handle. The other is a new one for each call:
 * libcurl before 8.0 keeps a pointer to the last header of the answer before, and reads
 * what is freed if the next answer begins with a folded line. */
int http_begin(struct http_call *call, struct err *err)
{
	call->easy = curl_easy_init();
	if (!call->easy)
		abort();
	http_set_transport(call);
	http_set_callbacks(call);
	http_set_method(call);
	if (http_set_headers(call, err) != 0)
		return -1;
	if (curl_multi_add_handle(call->line.multi, call->easy) != CURLM_OK)
		abort();
	call->begun_at = call->moved_at = clock_boot_ms();
	return 0;
}

static void http_note_moves(struct http_call *call)
{
	curl_off_t up = 0, down = 0;

	curl_easy_getinfo(call->easy, CURLINFO_SIZE_UPLOAD_T, &up);
	curl_easy_getinfo(call->easy, CURLINFO_SIZE_DOWNLOAD_T, &down);
	int64_t moved = up + down + (int64_t)call->head_bytes;
	if (moved != call->moved)
		call->moved_at = clock_boot_ms();
	call->moved = moved;
}

static int http_perform(struct http_call *call, struct err *err)
{
	int running, left;
	CURLMcode failure = curl_multi_perform(call->line.multi, &running);
	const CURLMsg *message = curl_multi_info_read(call->line.multi, &left);

	if (failure != CURLM_OK)
		return err_set(err, ERR_INTERNAL, "%s: %s", call->peer,
			       curl_multi_strerror(failure));
	if (message && message->msg == CURLMSG_DONE) {
		call->has_ended = true;
		call->code = message->data.result;
	}
	http_note_moves(call);
	return 0;
}

/* Lets libcurl go on with what it paused, as far as there is something to do. */
static void http_resume(struct http_call *call)
{
	int paused = CURLPAUSE_CONT;

	if (call->has_ended)
		return;
	if (call->wants_body && !http_is_refused(call))
		paused |= CURLPAUSE_SEND;
	if (call->is_held_back && call->held.len > 0)
		paused |= CURLPAUSE_RECV;
	else
		call->is_held_back = false;
	curl_easy_pause(call->easy, paused);
}

/* The next piece of the body, which may be waited for. */
static int http_read_piece(struct http_call *call, struct err *err)
{
	const struct http_request *request = &call->request;
	struct http_bytes *piece = &call->piece;
	uint64_t left = request->body_size - call->body_read;
	size_t size = left < PIECE_SIZE ? (size_t)left : PIECE_SIZE;
	ssize_t got = 0;

	assert(piece->at == piece->len);
	if (!piece->data)
		piece->data = xmalloc(PIECE_SIZE);
	if (size > 0)
		got = request->read(request->arg, piece->data, size, err);
	if (got < 0)
		return -1;
	if (got == 0 && request->body_size != UINT64_MAX && left > 0)
		return err_set(err, ERR_NETWORK,
			       "the body of the request ended %" PRIu64 " bytes early",
			       left);
	call->has_body_ended = got == 0;
	call->body_read += (uint64_t)got;
	piece->at = 0;
	piece->len = (size_t)got;
	call->moved_at = clock_boot_ms();
	return 0;
}

static int http_feed_body(struct http_call *call, struct err *err)
{
	if (http_read_piece(call, err) != 0 || http_perform(call, err) != 0)
		return -1;
	call->is_woken = true;
	call->wants_body = false;
	http_resume(call);
	return 0;
}

static int http_fail_slow(const struct http_call *call, bool is_silent, struct err *err)
{
	const struct http_request *request = &call->request;

	if (is_silent)
		err_set(err, ERR_TIMEOUT,
			"%s has neither taken nor said anything for %.1f s", call->peer,
			(double)request->silence_ms / 1000);
	else
		err_set(err, ERR_TIMEOUT, "%s has not answered within %.1f s", call->peer,
			(double)(request->until - call->begun_at) / 1000);
	return err_remedy(err, "see whether that site is overloaded, and how the network "
			       "between the sites does");
}

/* Whether it may go on; *left_ms: how long it may wait. */
static int http_check_limits(const struct http_call *call, int64_t *left_ms,
			     struct err *err)
{
	const struct http_request *request = &call->request;
	int64_t now = clock_boot_ms();
	int64_t silent_at = call->moved_at + request->silence_ms;

	if (request->stop && stop_is_requested(request->stop))
		return err_set(err, ERR_CANCELED, "the request to %s was stopped",
			       call->peer);
	if (request->deadline && deadline_at(request->deadline) <= now)
		return err_set(err, ERR_LOST, "the request had to end at its deadline");
	if (request->until > 0 && now >= request->until)
		return http_fail_slow(call, false, err);
	if (request->silence_ms > 0 && now >= silent_at)
		return http_fail_slow(call, true, err);
	*left_ms = request->deadline ? LOOK_MS : WAIT_MAX_MS;
	if (request->until > 0)
		*left_ms = int64_min(*left_ms, request->until - now);
	if (request->silence_ms > 0)
		*left_ms = int64_min(*left_ms, silent_at - now);
	return 0;
}

static int http_wait(struct http_call *call, int64_t left_ms, struct err *err)
{
	const struct stop *stop = call->request.stop;
	struct curl_waitfd watched = { .events = CURL_WAIT_POLLIN };
	int ready = 0;

	if (stop)
		watched.fd = stop->fd;
	CURLMcode failure = curl_multi_poll(call->line.multi, &watched, stop ? 1 : 0,
					    (int)left_ms, &ready);
	if (failure != CURLM_OK)
		return err_set(err, ERR_INTERNAL, "%s: %s", call->peer,
			       curl_multi_strerror(failure));
	call->is_woken = ready > 0;
	return 0;
}

bool http_has_ended(const struct http_call *call)
{
	return call->has_ended;
}

/* A status of 417 makes libcurl ask again without Expect: then it is not the answer. */
bool http_has_answer(const struct http_call *call)
{
	return call->has_ended ||
	       (call->has_whole_head && (call->status != 417 || call->held.len > 0));
}

static bool http_has_bytes(const struct http_call *call)
{
	return call->has_ended || call->held.len > 0;
}

/* If the body was paused when it was refused, libcurl does not see for itself that all is
 * over: it has to be asked to go on, which it does by pausing again. */
int http_run(struct http_call *call, bool (*is_enough)(const struct http_call *),
	     struct err *err)
{
	int64_t left_ms = 0;

	while (!is_enough(call)) {
		if (http_check_limits(call, &left_ms, err) != 0 ||
		    http_perform(call, err) != 0)
			return -1;
		if (is_enough(call))
			break;
		bool is_refused = http_is_refused(call);
		if (is_refused && call->request.read && call->is_woken) {
			call->is_woken = false;
			http_resume(call);
		} else if (call->wants_body && !is_refused) {
			if (http_feed_body(call, err) != 0)
				return -1;
		} else if (http_wait(call, left_ms, err) != 0) {
			return -1;
		}
	}
	return 0;
}

const char *http_find_header(const struct http_call *call, const char *name, size_t index)
{
	struct curl_header *header;

	return curl_easy_header(call->easy, name, index, CURLH_HEADER, -1, &header) ==
			       CURLHE_OK
		       ? header->value
		       : NULL;
}

int64_t http_get_length(const struct http_call *call)
{
	curl_off_t length = -1;

	curl_easy_getinfo(call->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
	return length;
}

static int64_t http_read_date(const char *value)
{
	time_t date = value ? curl_getdate(value, NULL) : -1;

	return date > 0 ? (int64_t)date * 1000 : 0;
}

int64_t http_get_date(const struct http_call *call)
{
	return http_read_date(http_find_header(call, "Date", 0));
}

const char *http_find_modified(const struct http_call *call)
{
	const char *value = http_find_header(call, "Last-Modified", 0);
	int64_t modified = http_read_date(value);

	return modified > 0 && http_get_date(call) - modified >= MODIFIED_MS ? value
									     : NULL;
}

/* Seconds, or a date. 0: neither. */
static int64_t http_read_retry_after(const char *value, int64_t now_ms)
{
	uint64_t seconds;
	time_t date;

	if (text_to_uint64(value, &seconds))
		return seconds < REST_MAX_MS / 1000 ? (int64_t)seconds * 1000
						    : REST_MAX_MS;
	date = curl_getdate(value, NULL);
	return date > 0 ? (int64_t)date * 1000 - now_ms : 0;
}

/* When the quota is full again: seconds since 1970, by the other side's clock. 0: it is
 * not used up; at this very moment: a second. */
static int64_t http_read_reset(const struct http_call *call, const char *left,
			       const char *reset, int64_t now_ms)
{
	const char *count = http_find_header(call, left, 0);
	const char *at = http_find_header(call, reset, 0);
	uint64_t seconds;

	if (!count || strcmp(count, "0") != 0 || !at || !text_to_uint64(at, &seconds))
		return 0;
	if (seconds > INT64_MAX / 1000)
		return REST_MAX_MS;
	int64_t rest_ms = int64_min((int64_t)seconds * 1000 - now_ms, REST_MAX_MS);
	return rest_ms > REST_MIN_MS ? rest_ms : REST_MIN_MS;
}

int64_t http_get_rest_ms(const struct http_call *call)
{
	const char *after = http_find_header(call, "Retry-After", 0);
	int64_t date = http_get_date(call);
	int64_t now_ms = date > 0 ? date : clock_wall_ms(), rest_ms;

	if (after && (rest_ms = http_read_retry_after(after, now_ms)) > 0)
		return int64_min(rest_ms, REST_MAX_MS);
	rest_ms = http_read_reset(call, "X-RateLimit-Remaining", "X-RateLimit-Reset",
				  now_ms);
	if (rest_ms == 0)
		rest_ms = http_read_reset(call, "RateLimit-Remaining", "RateLimit-Reset",
					  now_ms);
	if (rest_ms > 0)
		return rest_ms;
	return call->status == 429 ? REST_MS : 0;
}

/* As OpenSSL writes it, or as GnuTLS does. */
static int64_t http_read_certificate_date(const char *text)
{
	static const char *const forms[] = { "%b %d %H:%M:%S %Y GMT",
					     "%Y-%m-%d %H:%M:%S GMT" };

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		struct tm tm = { 0 };
		if (strptime(text, forms[i], &tm))
			return (int64_t)timegm(&tm) * 1000;
	}
	return 0;
}

/* The first is the server's own, those behind it are its authorities'. */
int64_t http_get_certificate_end(const struct http_call *call)
{
	static const char key[] = "Expire date:";
	struct curl_certinfo *chain = NULL;

	curl_easy_getinfo(call->easy, CURLINFO_CERTINFO, &chain);
	if (!chain || chain->num_of_certs < 1)
		return 0;
	for (const struct curl_slist *at = chain->certinfo[0]; at; at = at->next)
		if (strncasecmp(at->data, key, strlen(key)) == 0)
			return http_read_certificate_date(at->data + strlen(key));
	return 0;
}

bool http_has_no_body(const struct http_call *call)
{
	return call->status == 204 || call->status == 304 || call->is_head;
}

int http_check_length(const struct http_call *call, const char *remedy, struct err *err)
{
	if (call->has_whole_head &&
	    (http_has_no_body(call) || http_get_length(call) >= 0 ||
	     http_find_header(call, "Transfer-Encoding", 0)))
		return 0;
	err_set(err, ERR_NETWORK, "%s: the answer does not say where it ends",
		call->peer);
	return err_remedy(err, "%s", remedy);
}

bool http_is_sent(const struct http_call *call)
{
	long sent = 0;

	curl_easy_getinfo(call->easy, CURLINFO_REQUEST_SIZE, &sent);
	return sent > 0;
}

bool http_is_no_http(const struct http_call *call)
{
	return call->code == CURLE_UNSUPPORTED_PROTOCOL ||
	       call->code == CURLE_WEIRD_SERVER_REPLY ||
	       call->code == CURLE_BAD_CONTENT_ENCODING || call->code == CURLE_HTTP2 ||
	       call->code == CURLE_HTTP_RETURNED_ERROR;
}

bool http_is_bad_certificate(const struct http_call *call)
{
	return call->code == CURLE_PEER_FAILED_VERIFICATION;
}

enum err_class http_classify_status(int status)
{
	switch (status) {
	case 401:
	case 403:
		return ERR_AUTH;
	case 404:
		return ERR_MISSING;
	case 409:
		return ERR_CONFLICT;
	case 408:
	case 504:
		return ERR_TIMEOUT;
	case 421: /* misdirected, locked, too early: for now */
	case 423:
	case 425:
	case 429:
		return ERR_NETWORK;
	default:
		return status >= 400 && status < 500 ? ERR_CONFIG : ERR_NETWORK;
	}
}

static enum err_class http_classify_code(int code)
{
	switch (code) {
	case CURLE_OPERATION_TIMEDOUT:
		return ERR_TIMEOUT;
	case CURLE_OUT_OF_MEMORY:
		return ERR_INTERNAL;
	case CURLE_URL_MALFORMAT:
		return ERR_CONFIG;
	default:
		return ERR_NETWORK;
	}
}

/* What a person can do about it, if it has to do with the way there; else NULL. */
static const char *http_choose_remedy(int code)
{
	switch (code) {
	case CURLE_PEER_FAILED_VERIFICATION:
		return "check that its certificate has not expired and is for this host "
		       "name; for a CA of your own set caFile, or put it into "
		       "/usr/local/share/ca-certificates (NAME.crt) and run "
		       "update-ca-certificates";
	case CURLE_COULDNT_RESOLVE_HOST:
		return "see whether the host's name in the URL is right, and the name "
		       "service of this machine works";
	case CURLE_COULDNT_CONNECT:
		return "see whether refrelay runs there and listens on that address";
	case CURLE_OPERATION_TIMEDOUT:
		return "see whether that machine is up and a firewall lets its port pass";
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_WEIRD_SERVER_REPLY:
		return "see whether the URL names another service";
	default:
		return NULL;
	}
}

const char *http_describe_end(const struct http_call *call)
{
	if (call->is_head_too_long)
		return "the head of its answer is too long";
	if (call->code == CURLE_ABORTED_BY_CALLBACK ||
	    call->code == CURLE_SEND_FAIL_REWIND)
		return "the connection broke while the request was sent";
	if (call->code == CURLE_OK)
		return "the head of its answer was cut";
	return call->detail[0] ? call->detail : curl_easy_strerror(call->code);
}

int http_fail(const struct http_call *call, struct err *err)
{
	const char *remedy = http_choose_remedy(call->code);

	if (call->failure.class != ERR_NONE) {
		*err = call->failure;
		return -1;
	}
	err_set(err, http_classify_code(call->code), "%.200s: %s", call->peer,
		http_describe_end(call));
	return err_remedy(err, "%s", remedy ? remedy : call->remedy);
}

int http_check_end(const struct http_call *call, struct err *err)
{
	return call->failure.class == ERR_NONE && call->code == CURLE_OK
		       ? 0
		       : http_fail(call, err);
}

int http_take_limited(void *limit, const char *bytes, size_t count, struct err *err)
{
	const struct http_limit *limited = limit;

	if (count > limited->most - limited->body->len)
		return err_set(err, limited->class, "%s", limited->too_long);
	str_add_bytes(limited->body, bytes, count);
	return 0;
}

size_t http_fill_git_headers(const char *authorization, const char *type,
			     struct http_header *headers)
{
	size_t count = 0;

	headers[count++] = (struct http_header){ "User-Agent", "git/refrelay" };
	headers[count++] = (struct http_header){ "Accept", "*/*" };
	if (authorization)
		headers[count++] =
			(struct http_header){ "Authorization",
					      authorization + strlen("Authorization: ") };
	if (type) {
		headers[count++] = (struct http_header){ "Content-Type", type };
		headers[count++] = (struct http_header){ "Expect", NULL };
	}
	headers[count] = (struct http_header){ 0 };
	return count;
}

int http_complete(struct http_call *call, struct err *err)
{
	return http_begin(call, err) == 0 && http_run(call, http_has_ended, err) == 0
		       ? http_check_end(call, err)
		       : -1;
}

static size_t http_take_held(struct http_bytes *held, void *buffer, size_t size)
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

static int http_wait_for_bytes(struct http_call *call)
{
	call->moved_at = clock_boot_ms();
	call->is_woken = true;
	if (call->is_held_back)
		http_resume(call);
	return http_run(call, http_has_bytes, &call->failure);
}

ssize_t http_read(struct http_call *call, void *buffer, size_t size, struct err *err)
{
	assert(size > 0);
	if (call->failure.class == ERR_NONE && !http_has_bytes(call) &&
	    http_wait_for_bytes(call) != 0)
		assert(call->failure.class != ERR_NONE);
	if (call->held.len > 0)
		return (ssize_t)http_take_held(&call->held, buffer, size);
	return http_check_end(call, err);
}

/* Taken out before its end, its connection is closed. */
bool http_end(struct http_call *call)
{
	CURL *easy = call->easy;
	curl_socket_t socket = CURL_SOCKET_BAD;

	if (call->has_ended && call->code == CURLE_OK)
		curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &socket);
	curl_multi_remove_handle(call->line.multi, easy);
	curl_easy_cleanup(easy);
	curl_slist_free_all(call->headers);
	free(call->piece.data);
	free(call->held.data);
	return socket != CURL_SOCKET_BAD;
}
