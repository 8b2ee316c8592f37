#include "mirror/upstream_fetch.h"

#include "base/clock.h"
#include "git/fetch_small.h"
#include "mirror/upstream.h"

#define SERVICE "git-upload-pack"
#define CONNECT_MS 10000
/* Servers say every few seconds that they live while they make a pack. */
#define SILENCE_MS 60000
#define TIMEOUT_MS 120000

static int check_answer(const struct http_call *call, int64_t *retry_after_ms,
			struct err *err)
{
	const char *type = http_find_header(call, "Content-Type", 0);

	if (call->status == 200 && type &&
	    strcmp(type, "application/x-" SERVICE "-result") == 0)
		return 0;
	if (upstream_is_limited(call, retry_after_ms, err))
		return -1;
	return err_set(err, ERR_NETWORK, "it answered HTTP %ld, not with a pack",
		       call->status);
}

static int64_t end_of(const struct git_work *work)
{
	int64_t until = clock_boot_ms() + TIMEOUT_MS;

	return work->until > 0 && work->until < until ? work->until : until;
}

static int post(const struct upstream_fetch *fetch, struct http_line *line,
		const struct str *body, struct str *answer, struct err *err)
{
	AUTO_FREE char *url = upstream_service_url(fetch->url, "/" SERVICE);
	struct http_header headers[HTTP_GIT_HEADERS];

	http_fill_git_headers(fetch->header, "application/x-" SERVICE "-request",
			      headers);
	struct http_call call = {
		.line = *line,
		.request = { .method = "POST",
			     .url = url,
			     .headers = headers,
			     .ca_file = fetch->ca_file,
			     .body = body->data,
			     .body_size = body->len,
			     .connect_ms = CONNECT_MS,
			     .silence_ms = SILENCE_MS,
			     .until = end_of(fetch->work),
			     .stop = fetch->work->stop,
			     .deadline = fetch->work->deadline },
		.peer = "the upstream",
		.remedy = "",
		.take = http_take_limited,
		.taker = &(struct http_limit){ answer, fetch->most, ERR_BUSY,
					       "the change is not a small one" },
	};
	int result = http_complete(&call, err);
	if (result == 0)
		result = check_answer(&call, fetch->retry_after_ms, err);
	http_end(&call);
	*line = call.line;
	return result;
}

int upstream_fetch_pack(const struct upstream_fetch *fetch, struct http_line *line,
			struct str *pack, struct err *err)
{
	AUTO_STR struct str body = STR_INIT, answer = STR_INIT;
	int result;

	fetch_small_ask(fetch->wanted, fetch->have, &body);
	result = post(fetch, line, &body, &answer, err);
	if (result == 0)
		result = fetch_small_read(answer.data, answer.len, pack, err);
	return result;
}
