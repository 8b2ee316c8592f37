/*
 * A destination by smart HTTP, served without git: what is small (push/small_push.h) goes
 * as one request with the new objects in a pack made here, and nothing counts but what
 * the destination says of it, ref by ref. Where its answers are not what they should be,
 * or it refuses, all stays as it is for `git push`, which then finds it done, does it, or
 * says in its own words why not. So nothing here needs to know how a push fails.
 *
 * Why nothing newer is undone: each command has the value that the destination had before
 * our refs were read, and a receive-pack refuses to change a ref that has another by
 * then. For named refs its list of what a push may change is read before ours. For a full
 * push its list of what it shows to all is, as by git, and the other after that, if
 * anything is to be pushed: where the two differ the ref is git's.
 *
 * Source: gitprotocol-http(5), "Smart Service git-receive-pack"; gitprotocol-pack(5),
 * "Pushing Data To a Server".
 */
#include "push/transfer_run.h"

#include <fcntl.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "git/pkt_line.h"
#include "git/push_answer.h"
#include "git/ref_advert.h"
#include "git/small_pack.h"
#include "net/http.h"
#include "push/small_push.h"

#define LIST_MOST ((size_t)16 << 20)  /* bytes, all for nothing if it is more */
#define ANSWER_MOST ((size_t)1 << 20) /* likewise, with what hooks say */
#define LIST_MS 60000
#define LIST_SILENCE_MS 30000
#define CONNECT_MS 10000

#define UPLOAD "git-upload-pack"
#define RECEIVE "git-receive-pack"

struct transfer_http {
	struct http_line line;
	char *base; /* the repository's URL, without a "/" at its end; owned */
	struct push_advert advert;
	bool is_listed; /* `advert` is there */
};

/*
 * One request. Whatever is wrong with its answer makes it none.
 */

struct exchange {
	const char *path;        /* behind the repository's URL */
	const struct str *body;  /* NULL: it is a GET */
	const char *wanted_type; /* of the answer */
	size_t most;             /* bytes of it */
	int64_t silence_ms, until;
	struct str answer;
};

static bool is_as_wanted(const struct http_call *call, const struct exchange *exchange)
{
	const char *type = http_find_header(call, "Content-Type", 0);

	return call->status == 200 && type && strcmp(type, exchange->wanted_type) == 0;
}

static bool do_exchange(const struct transfer *transfer, struct transfer_http *http,
			struct exchange *exchange)
{
	const struct git_work *work = transfer->request->work;
	AUTO_FREE char *url = xasprintf("%s%s", http->base, exchange->path);
	struct http_header headers[HTTP_GIT_HEADERS];
	bool is_good;

	http_fill_git_headers(transfer->header,
			      exchange->body ? "application/x-" RECEIVE "-request" : NULL,
			      headers);
	struct http_call call = {
		.line = http->line,
		.request = { .method = exchange->body ? "POST" : "GET",
			     .url = url,
			     .headers = headers,
			     .ca_file = transfer->remote->ca_file,
			     .body = exchange->body ? exchange->body->data : NULL,
			     .body_size = exchange->body ? exchange->body->len : 0,
			     .connect_ms = CONNECT_MS,
			     .silence_ms = exchange->silence_ms,
			     .until = exchange->until,
			     .stop = work->stop,
			     .deadline = work->deadline },
		.peer = "the destination",
		.remedy = "",
		.take = http_take_limited,
		.taker = &(struct http_limit){ &exchange->answer, exchange->most,
					       ERR_CORRUPT, "the answer does not end" },
	};
	is_good = http_complete(&call, ERR_IGNORED) == 0 && is_as_wanted(&call, exchange);
	http_end(&call);
	http->line = call.line;
	return is_good;
}

static int64_t earlier(int64_t at, int64_t other) /* 0: never */
{
	return other > 0 && other < at ? other : at;
}

static struct exchange list_exchange(const struct transfer *transfer, const char *path,
				     const char *type)
{
	return (struct exchange){
		.path = path,
		.wanted_type = type,
		.most = LIST_MOST,
		.silence_ms = earlier(LIST_SILENCE_MS, transfer->remote->silence_ms),
		.until = earlier(clock_boot_ms() + LIST_MS,
				 transfer->request->work->until),
		.answer = STR_INIT,
	};
}

/*
 * What the destination has.
 */

/* One that is shallow, or wants signatures, is git's. */
static bool is_plain(const struct push_advert *advert)
{
	return advert->oid_len == 20 && advert->refs.cuts.count == 0 &&
	       push_advert_has(advert, "report-status") &&
	       !push_advert_has(advert, "push-cert");
}

/* What a push may change. */
static bool list_for_push(const struct transfer *transfer, struct transfer_http *http)
{
	struct exchange exchange =
		list_exchange(transfer, "/info/refs?service=" RECEIVE,
			      "application/x-" RECEIVE "-advertisement");

	push_advert_clear(&http->advert);
	http->is_listed = do_exchange(transfer, http, &exchange) &&
			  push_advert_read(exchange.answer.data, exchange.answer.len,
					   &http->advert, ERR_IGNORED) == 0 &&
			  is_plain(&http->advert);
	str_clear(&exchange.answer);
	return http->is_listed;
}

/* What `git ls-remote --refs` would list: what hides its refs from a push only, or only
 * from others, shows here. */
static bool list_all(struct transfer *transfer, struct transfer_http *http)
{
	struct exchange exchange =
		list_exchange(transfer, "/info/refs?service=" UPLOAD,
			      "application/x-" UPLOAD "-advertisement");
	size_t oid_len = 0;

	transfer->is_seen =
		do_exchange(transfer, http, &exchange) &&
		ref_advert_read(exchange.answer.data, exchange.answer.len,
				&transfer->seen, &oid_len, ERR_IGNORED) == 0 &&
		oid_len == 20;
	if (!transfer->is_seen)
		ref_snapshot_clear(&transfer->seen);
	str_clear(&exchange.answer);
	return transfer->is_seen;
}

/* Ours has SHA-1 as well. */
static bool is_for_sha1(const struct transfer *transfer)
{
	AUTO_REPO struct repo repo = REPO_INIT;

	return repo_open(AT_FDCWD, transfer->request->repository, &repo, ERR_IGNORED) ==
		       0 &&
	       repo.oid_len == 20;
}

/* A request is not worth it for what git does most of. */
static bool is_candidate(const struct transfer *transfer)
{
	const struct destination *to = transfer->request->destination;

	return to->kind == URL_HTTP &&
	       (transfer->is_all || transfer->request->refs->count <= SMALL_PUSH_REFS) &&
	       !http_check_url(to->git_url, false, NULL) && is_for_sha1(transfer);
}

struct transfer_http *transfer_http_open(struct transfer *transfer)
{
	struct transfer_http *http;

	if (!is_candidate(transfer))
		return NULL;
	http = xcalloc(1, sizeof(*http));
	http->line = http_line_open();
	http->base = xstrdup(transfer->request->destination->git_url);
	for (size_t len = strlen(http->base); len > 0 && http->base[len - 1] == '/';)
		http->base[--len] = '\0';
	if (transfer->is_all ? list_all(transfer, http) : list_for_push(transfer, http))
		return http;
	transfer_http_close(http);
	return NULL;
}

void transfer_http_close(struct transfer_http *http)
{
	if (!http)
		return;
	push_advert_clear(&http->advert);
	http_line_close(&http->line);
	free(http->base);
	free(http);
}

/*
 * What is pushed.
 */

/* With a band of its own for progress the connection does not rest while hooks run. */
static void add_commands(const struct small_push *push, bool has_bands, struct str *body)
{
	static const struct oid none = { .len = 20 };
	char old[OID_MAX_TEXT], new[OID_MAX_TEXT];

	for (size_t i = 0; i < push->items.count; i++) {
		const struct push_item *item = push->items.items[i];
		const struct ref *theirs =
			ref_snapshot_find(push->theirs, item->result.dst);
		const size_t begin = pkt_begin(body);
		str_addf(body, "%s %s %s", oid_text(theirs ? &theirs->oid : &none, old),
			 oid_text(&item->value.oid, new), item->result.dst);
		if (i == 0) {
			str_add_char(body, '\0');
			str_add(body, " report-status");
			str_add(body, has_bands ? " side-band-64k" : "");
		}
		pkt_end(body, begin);
	}
	pkt_add_flush(body);
}

static bool make_body(struct small_push *push, bool has_bands, struct str *body)
{
	size_t begin;

	if (!small_push_find_added(push))
		return false;
	add_commands(push, has_bands, body);
	begin = body->len;
	if (small_pack_make(push->store, &push->added, SMALL_PUSH_BYTES, body,
			    ERR_IGNORED) != 1)
		return false;
	push->transfer->result->sent_bytes += body->len - begin;
	return true;
}

static bool is_named(const text_list *names, const char *name)
{
	return names->count > 0 && bsearch(&name, names->items, names->count,
					   sizeof(*names->items), text_list_order);
}

/* Nothing counts if it tells of more than it was asked. */
static void settle(struct small_push *push, const text_list *taken)
{
	size_t known = 0;

	for (size_t i = 0; i < push->items.count; i++)
		known += is_named(taken, push->items.items[i]->result.dst);
	if (known != taken->count)
		return;
	for (size_t i = 0; i < push->items.count; i++)
		if (is_named(taken, push->items.items[i]->result.dst))
			item_settle(push->items.items[i], REF_OK, NULL);
}

static void send_body(struct small_push *push, struct transfer_http *http,
		      const struct str *body, bool has_bands)
{
	const struct transfer *transfer = push->transfer;
	struct exchange exchange = {
		.path = "/" RECEIVE,
		.body = body,
		.wanted_type = "application/x-" RECEIVE "-result",
		.most = ANSWER_MOST,
		.silence_ms = transfer->remote->silence_ms,
		.until = transfer->request->work->until,
		.answer = STR_INIT,
	};
	AUTO_TEXT_LIST text_list taken = { 0 };
	bool is_answered = do_exchange(transfer, http, &exchange);

	transfer->result->pushes++;
	failpoint("transfer_http.sent");
	if (is_answered && push_answer_read(exchange.answer.data, exchange.answer.len,
					    has_bands, &taken, ERR_IGNORED) == 0)
		settle(push, &taken);
	str_clear(&exchange.answer);
}

/* Whatever is not settled is git's, but not after the end of its time. */
static int bring(struct small_push *push, struct transfer_http *http, struct err *err)
{
	const bool has_bands = push_advert_has(&http->advert, "side-band-64k");
	AUTO_STR struct str body = STR_INIT;

	if (!make_body(push, has_bands, &body) ||
	    transfer_check_limits(push->transfer, ERR_IGNORED) != 0)
		return 0;
	failpoint("transfer_http.listed");
	send_body(push, http, &body, has_bands);
	return transfer_check_limits(push->transfer, err);
}

static bool is_any_plain(const struct transfer *transfer)
{
	for (size_t i = 0; i < transfer->items.count; i++)
		if (transfer->items.items[i].state == ITEM_PLAIN)
			return true;
	return false;
}

static size_t most_refs(const struct transfer *transfer)
{
	const size_t batch = transfer->remote->batch_size;

	return batch > 0 && batch < SMALL_PUSH_REFS ? batch : SMALL_PUSH_REFS;
}

int transfer_http_push(struct transfer *transfer, struct transfer_http *http,
		       struct err *err)
{
	struct small_push push = { .transfer = transfer,
				   .theirs = &http->advert.refs,
				   .before = transfer->is_all ? &transfer->seen : NULL,
				   .most_refs = most_refs(transfer) };
	int result = 0;

	if (!is_any_plain(transfer) ||
	    (!http->is_listed && !list_for_push(transfer, http)))
		return 0;
	if (small_push_open(&push))
		small_push_choose(&push);
	if (push.items.count > 0)
		result = bring(&push, http, err);
	small_push_close(&push);
	return result;
}
