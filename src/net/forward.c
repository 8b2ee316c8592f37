/*
 * What is given on to another site: which headers, and the Via that says who has passed
 * the request on; and the connections that are kept between forwards. Each of those rests
 * in a multi handle of its own, since libcurl's cache of connections cannot be shared
 * between threads; the newest is used first, so that those which are not needed grow old,
 * and are closed.
 */
#include "net/forward.h"

#include <assert.h>
#include <strings.h>

#include "base/clock.h"
#include "base/vec.h"

#define CONNECT_MS 5000
#define SILENCE_MS 120000
#define LINES_KEPT 8
#define IDLE_MS 30000 /* servers close theirs after a minute or more */
#define BUFFER_SIZE 65536L
#define NAME_PREFIX "refrelay-"

struct forwarder {
	pthread_mutex_t mutex;
	struct http_line idle[LINES_KEPT]; /* guarded; oldest first */
	size_t count;                      /* guarded */
	int64_t unanswered_at; /* boot ms; 0: the last was answered; guarded */
	char *site;            /* owned */
	char *ca_file;         /* owned; NULL: the authorities of the system */
};

struct forward {
	struct forwarder *forwarder;
	struct http_call call;
	char *host; /* of the URL, for messages; owned */
};

typedef VEC(struct http_header) forward_headers;

struct forwarder *forwarder_new(const char *site)
{
	struct forwarder *forwarder = xcalloc(1, sizeof(*forwarder));

	mutex_init(&forwarder->mutex);
	forwarder->site = xstrdup(site);
	return forwarder;
}

void forwarder_trust(struct forwarder *forwarder, const char *ca_file)
{
	forwarder->ca_file = ca_file ? xstrdup(ca_file) : NULL;
}

void forwarder_free(struct forwarder *forwarder)
{
	if (!forwarder)
		return;
	for (size_t i = 0; i < forwarder->count; i++)
		http_line_close(&forwarder->idle[i]);
	pthread_mutex_destroy(&forwarder->mutex);
	free(forwarder->site);
	free(forwarder->ca_file);
	free(forwarder);
}

static void forwarder_note(struct forwarder *forwarder, int64_t unanswered_at)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&forwarder->mutex);

	forwarder->unanswered_at = unanswered_at;
}

bool forwarder_is_unanswered(struct forwarder *forwarder, int64_t within_ms)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&forwarder->mutex);

	return forwarder->unanswered_at > 0 &&
	       clock_boot_ms() - forwarder->unanswered_at <= within_ms;
}

/* Takes the oldest out: one that rests too long, or that there is no room for. */
static bool forwarder_take_old_locked(struct forwarder *forwarder, size_t room,
				      struct http_line *line)
{
	if (forwarder->count == 0 ||
	    (forwarder->count + room <= LINES_KEPT &&
	     clock_boot_ms() - forwarder->idle[0].idle_since < IDLE_MS))
		return false;
	*line = forwarder->idle[0];
	forwarder->count--;
	memmove(forwarder->idle, forwarder->idle + 1,
		forwarder->count * sizeof(forwarder->idle[0]));
	return true;
}

static bool forwarder_take_old(struct forwarder *forwarder, size_t room,
			       struct http_line *line)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&forwarder->mutex);

	return forwarder_take_old_locked(forwarder, room, line);
}

static void forwarder_close_old(struct forwarder *forwarder, size_t room)
{
	struct http_line line;

	while (forwarder_take_old(forwarder, room, &line))
		http_line_close(&line);
}

static bool forwarder_take_newest(struct forwarder *forwarder, struct http_line *line)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&forwarder->mutex);

	if (forwarder->count == 0)
		return false;
	*line = forwarder->idle[--forwarder->count];
	return true;
}

static struct http_line forwarder_take_line(struct forwarder *forwarder)
{
	struct http_line line;

	forwarder_close_old(forwarder, 0);
	return forwarder_take_newest(forwarder, &line) ? line : http_line_open();
}

static bool forwarder_add_idle(struct forwarder *forwarder, struct http_line line)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&forwarder->mutex);

	if (forwarder->count == LINES_KEPT)
		return false;
	forwarder->idle[forwarder->count++] = line;
	return true;
}

static void forwarder_keep_line(struct forwarder *forwarder, struct http_line line)
{
	line.idle_since = clock_boot_ms();
	forwarder_close_old(forwarder, 1);
	if (!forwarder_add_idle(forwarder, line))
		http_line_close(&line);
}

/* Each who passes a request on appends "1.1 NAME" to its Via (RFC 9110, 7.6.3), and may
 * add a comment in brackets, within which commas mean nothing. */
static char *forward_join_via(const char *via, const char *site)
{
	return xasprintf("%s%s1.1 " NAME_PREFIX "%s", via ? via : "", via ? ", " : "",
			 site);
}

/* The end of a list's element that begins here: a comma, or the end. */
static const char *forward_find_element_end(const char *text)
{
	int depth = 0;

	for (; *text && (depth > 0 || *text != ','); text++) {
		if (*text == '\\' && depth > 0 && text[1])
			text++;
		else if (*text == '(')
			depth++;
		else if (*text == ')' && depth > 0)
			depth--;
	}
	return text;
}

/* "1.1 refrelay-paris (a comment)": whether its second word is the name. */
static bool forward_names_site(const char *element, const char *end, const char *site)
{
	static const char blank[] = " \t";
	size_t prefix = strlen(NAME_PREFIX), len = strlen(site);

	element += strspn(element, blank);
	element += strcspn(element, " \t,");
	element += strspn(element, blank);
	return element < end && (size_t)(end - element) >= prefix + len &&
	       strncasecmp(element, NAME_PREFIX, prefix) == 0 &&
	       strncasecmp(element + prefix, site, len) == 0 &&
	       strchr(" \t,(", element[prefix + len]) != NULL;
}

bool forward_is_loop(const char *via, const char *site)
{
	while (via && *via) {
		const char *end = forward_find_element_end(via);
		if (forward_names_site(via, end, site))
			return true;
		via = *end ? end + 1 : end;
	}
	return false;
}

int forward_status(const struct forward *forward)
{
	return (int)forward->call.status;
}

bool forward_add_header(const struct forward *forward, const char *name, struct str *out)
{
	const char *value;
	size_t count = 0;

	while ((value = http_find_header(&forward->call, name, count)))
		str_addf(out, "%s%s", count++ > 0 ? ", " : "", value);
	return count > 0;
}

static int forward_check_head(const struct forward *forward, struct err *err)
{
	if (!forward->call.has_whole_head)
		return http_fail(&forward->call, err);
	return http_check_length(&forward->call,
				 "see whether a server in front of that site speaks "
				 "HTTP/1.0",
				 err);
}

/* Not if its body may be what broke. */
static bool forward_is_unanswered(const struct forward *forward, const struct err *err)
{
	return !forward->call.request.read &&
	       (err->class == ERR_NETWORK || err->class == ERR_TIMEOUT);
}

static bool forward_is_of_connection(const char *name)
{
	static const char *const names[] = {
		"Connection",       "Content-Length",    "Expect",  "Host",
		"HTTP2-Settings",   "Keep-Alive",        "TE",      "Proxy-Authorization",
		"Proxy-Connection", "Transfer-Encoding", "Trailer", "Upgrade",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	return false;
}

static bool forward_has_header(const struct http_header *header, const char *name)
{
	while (header && header->name && strcasecmp(header->name, name) != 0)
		header++;
	return header && header->name;
}

/* What is given on, less what libcurl would say for it. Returns Via as it came, joined;
 * the caller frees. */
static char *forward_choose_headers(const struct http_header *given,
				    forward_headers *headers)
{
	static const char *const of_libcurl[] = { "Accept", "Content-Type" };
	char *via = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(of_libcurl); i++)
		if (!forward_has_header(given, of_libcurl[i]))
			vec_add(headers, ((struct http_header){ .name = of_libcurl[i] }));
	for (; given && given->name; given++) {
		if (strcasecmp(given->name, "Via") == 0) {
			char *joined = xasprintf("%s%s%s", via ? via : "",
						 via ? ", " : "", given->value);
			free(via);
			via = joined;
		} else if (!forward_is_of_connection(given->name)) {
			vec_add(headers, *given);
		}
	}
	return via;
}

static int forward_begin(struct forward *forward, struct err *err)
{
	struct http_request *request = &forward->call.request;
	forward_headers headers = { 0 };
	AUTO_FREE char *came = forward_choose_headers(request->headers, &headers);
	AUTO_FREE char *via = forward_join_via(came, forward->forwarder->site);

	vec_add(&headers, ((struct http_header){ "Via", via }));
	vec_add(&headers, ((struct http_header){ 0 }));
	request->headers = headers.items;
	int result = http_begin(&forward->call, err);
	vec_clear(&headers);
	return result;
}

static int forward_start_request(struct forward *forward, bool *is_sent, struct err *err)
{
	struct http_call *call = &forward->call;
	int result = http_run(call, http_has_answer, err);

	*is_sent = http_is_sent(call);
	if (result == 0)
		result = forward_check_head(forward, err);
	if (result == 0 || forward_is_unanswered(forward, err))
		forwarder_note(forward->forwarder, result == 0 ? 0 : clock_boot_ms());
	return result;
}

static struct forward *forward_new(struct forwarder *forwarder,
				   const struct http_request *request, struct str *host)
{
	struct forward *forward = xcalloc(1, sizeof(*forward));
	struct http_call *call = &forward->call;

	forward->forwarder = forwarder;
	forward->host = str_take(host);
	call->line = forwarder_take_line(forwarder);
	call->request = *request;
	call->request.ca_file = forwarder->ca_file;
	if (request->connect_ms <= 0)
		call->request.connect_ms = CONNECT_MS;
	if (request->silence_ms <= 0)
		call->request.silence_ms = SILENCE_MS;
	call->peer = forward->host;
	call->remedy =
		"see whether refrelay runs there and can be reached, and whether a "
		"server in front of it cuts requests";
	call->buffer_size = BUFFER_SIZE;
	call->kept_s = IDLE_MS / 1000;
	return forward;
}

int forward_open(struct forwarder *forwarder, const struct http_request *request,
		 struct forward **forward, bool *is_sent, struct err *err)
{
	AUTO_STR struct str host = STR_INIT;
	const char *why = http_check_url(request->url, true, &host);

	*is_sent = false;
	*forward = NULL;
	if (why) {
		err_set(err, ERR_CONFIG, "invalid URL of another site: %s", why);
		return err_remedy(err, "it looks like https://git.example.com");
	}
	struct forward *made = forward_new(forwarder, request, &host);
	if (forward_begin(made, err) != 0 ||
	    forward_start_request(made, is_sent, err) != 0) {
		forward_close(made);
		return -1;
	}
	*forward = made;
	return 0;
}

ssize_t forward_read(struct forward *forward, void *buffer, size_t size, struct err *err)
{
	return http_read(&forward->call, buffer, size, err);
}

void forward_close(struct forward *forward)
{
	if (!forward)
		return;
	if (http_end(&forward->call))
		forwarder_keep_line(forward->forwarder, forward->call.line);
	else
		http_line_close(&forward->call.line);
	free(forward->host);
	free(forward);
}
