/*
 * A body of Git's can be large (the wants of a repository with a million refs), and a
 * small gzip can stand for gigabytes; so what is above 1 MiB lies on disk, below
 * site.data and without a name, and what is above the limit is refused. Nothing is
 * handed on before all of it is here: a body that was cut must not be taken for a
 * shorter one. Gzip is kept as it comes and inflated at the end, by who may wait: the few
 * threads that take bytes in serve all other clients, too.
 *
 * All files together are bounded: some hundred clients could fill the disk otherwise,
 * on which more important things lie.
 */
#include "web/request.h"

#include <arpa/inet.h>
#include <assert.h>
#include <limits.h>
#include <stdatomic.h>
#include <strings.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "replicable/name.h"
#include "web/answer.h"
#include "web/exchange.h"
#include "web/lfs.h"
#include "web/route.h"
#include "web/services.h"

/*
 * The mirror image of web/flow.c. The sender, one of the threads that serve all
 * connections, fills a block; the worker reads the other, and takes the sender's in
 * exchange for its own when it has read it. If the sender's is full, it leaves the rest
 * to the library and suspends the connection, so the client is held up by its own TCP
 * window; the worker resumes it when there is room.
 *
 * Unlike the other requests that a worker has, this one's connection is not suspended all
 * the time, so the library may end it while the worker reads: if the client goes away, or
 * web/listen.c closes it. This is why nobody touches what is gone:
 *
 * - The library ends a connection on the sender's thread only, and never one that is
 *   suspended. is_suspended is set before the library suspends and cleared before it
 *   resumes, under the mutex. So while it is set there is a connection, and only then
 *   does the worker use it, with the mutex held. (The library's own end of a resumption
 *   touches the daemon only, which outlives the workers.)
 * - When a request ends, its sender leaves, under the mutex: from there on it suspends
 *   nothing, so is_suspended stays false.
 * - What the worker reads of the request is not the library's: headers are copied before
 *   it starts. The request itself, and this with it, belong to both of them, and go with
 *   the last (web/exchange.h).
 *
 * Who waits for bytes is woken by their coming, or by the end of the request. That is
 * enough when the server ends, as well: it closes all sockets when it requests the cut.
 */

enum { ASK_MS = 1000 };

struct upload {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct upload_path path;             /* as it says */
	const struct web_patience *patience; /* the worker's; or NULL */
	char *spare;                         /* the worker's, as the two below */
	size_t spare_len, at;
	char *block; /* guarded by mutex, as those below */
	size_t len;
	bool is_suspended;
	bool is_whole;    /* nothing follows what is in the block */
	bool is_finished; /* the worker */
	bool is_gone;     /* the sender */
};

struct upload *upload_new(const struct upload_path *path)
{
	struct upload *upload = xcalloc(1, sizeof(*upload));

	mutex_init(&upload->mutex);
	cond_init(&upload->changed);
	upload->path = *path;
	upload->spare = xmalloc(UPLOAD_BLOCK);
	upload->block = xmalloc(UPLOAD_BLOCK);
	return upload;
}

void upload_free(struct upload *upload)
{
	if (!upload)
		return;
	pthread_cond_destroy(&upload->changed);
	pthread_mutex_destroy(&upload->mutex);
	free(upload->spare);
	free(upload->block);
	free(upload);
}

static void suspend_locked(struct upload *upload)
{
	idle_hold(upload->path.idle);
	upload->is_suspended = true;
	MHD_suspend_connection(upload->path.connection);
}

static void upload_resume_locked(struct upload *upload)
{
	if (!upload->is_suspended)
		return;
	upload->is_suspended = false;
	MHD_resume_connection(upload->path.connection);
}

void upload_await_reader(struct upload *upload)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&upload->mutex);

	suspend_locked(upload);
}

/* Until there is something, or somebody is gone. False: patience is over. It is asked
 * without the mutex. */
static bool wait_for_client_locked(struct upload *upload)
{
	const struct web_patience *patience = upload->patience;
	bool may_wait = true;

	while (may_wait && upload->len == 0 && !upload->is_whole && !upload->is_gone) {
		int64_t until = patience ? clock_boot_ms() + ASK_MS : INT64_MAX;
		if (cond_wait_until(&upload->changed, &upload->mutex, until))
			continue;
		unlock(&upload->mutex);
		may_wait = patience->may_wait(patience->arg);
		lock(&upload->mutex);
	}
	return may_wait || upload->len > 0 || upload->is_whole || upload->is_gone;
}

/* Gives the worker the sender's block. 1, 0 at the end of the body, or -1. */
static int upload_fetch_block(struct upload *upload, struct err *err)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&upload->mutex);

	if (upload->len == 0 && !upload->is_whole)
		upload_resume_locked(upload); /* the sender waits for this */
	if (!wait_for_client_locked(upload))
		return err_set(err, ERR_BUSY,
			       "the body comes too slowly while others wait");
	if (stop_is_requested(upload->path.cut))
		return err_set(err, ERR_CANCELED, "this node is ending");
	if (upload->is_gone)
		return err_set(err, ERR_NETWORK,
			       "the client went away, or was too slow, before it had "
			       "sent all of the body");
	if (upload->len == 0)
		return 0;
	char *block = upload->block;
	upload->block = upload->spare;
	upload->spare = block;
	upload->spare_len = upload->len;
	upload->at = upload->len = 0;
	if (!upload->is_whole)
		upload_resume_locked(upload);
	return 1;
}

static ssize_t upload_read_plain(struct upload *upload, void *buffer, size_t size,
				 struct err *err)
{
	if (upload->at == upload->spare_len) {
		int result = upload_fetch_block(upload, err);
		if (result <= 0)
			return result;
	}
	size_t left = upload->spare_len - upload->at;
	size = size < left ? size : left;
	memcpy(buffer, upload->spare + upload->at, size);
	upload->at += size;
	return (ssize_t)size;
}

static ssize_t upload_read_packed(struct upload *upload, void *buffer, size_t size,
				  struct err *err)
{
	struct gunzip *gunzip = upload->path.gunzip;

	for (;;) {
		ssize_t count = gunzip_read(gunzip, buffer, size, err);
		if (count != 0)
			return count;
		int result = upload_fetch_block(upload, err);
		if (result < 0)
			return -1;
		if (result == 0)
			return gunzip_end(gunzip, err);
		gunzip_feed(gunzip, upload->spare, upload->spare_len);
	}
}

void upload_set_patience(struct upload *upload, const struct web_patience *patience)
{
	upload->patience = patience;
}

ssize_t upload_read(struct upload *upload, void *buffer, size_t size, struct err *err)
{
	assert(size > 0);
	return upload->path.gunzip ? upload_read_packed(upload, buffer, size, err)
				   : upload_read_plain(upload, buffer, size, err);
}

bool upload_finish(struct upload *upload)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&upload->mutex);

	upload->is_finished = true;
	upload->len = 0;
	upload_resume_locked(upload);
	return !upload->is_gone;
}

size_t upload_give(struct upload *upload, const char *bytes, size_t len)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&upload->mutex);
	size_t room = UPLOAD_BLOCK - upload->len;

	if (upload->is_finished)
		return len;
	/* Never when all is taken: in chunks, the library would go on at once. */
	if (len > room) {
		len = room;
		suspend_locked(upload);
	}
	memcpy(upload->block + upload->len, bytes, len);
	upload->len += len;
	pthread_cond_signal(&upload->changed);
	return len;
}

bool upload_end(struct upload *upload)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&upload->mutex);

	if (upload->is_finished)
		return true;
	upload->is_whole = true;
	suspend_locked(upload);
	pthread_cond_signal(&upload->changed);
	return false;
}

bool upload_is_finished(struct upload *upload)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&upload->mutex);

	return upload->is_finished;
}

bool upload_leave(struct upload *upload)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&upload->mutex);

	upload->is_gone = true;
	pthread_cond_signal(&upload->changed);
	return upload->is_finished;
}

static const char *git_request_batch_service(const struct web_request *request)
{
	switch (lfs_batch_operation(request->body->data, request->body->len)) {
	case LFS_DOWNLOAD:
		return GIT_UPLOAD_PACK;
	case LFS_UPLOAD:
		return GIT_RECEIVE_PACK;
	default:
		return "";
	}
}

/* By the route that was found, and so by method and whole path: what the end of a path
 * only looks like is nothing. */
const char *git_request_service(const struct web_request *request)
{
	const struct web_route *route = request->route;
	const char *asked;

	if (!route || route->right != WEB_GIT)
		return "";
	if (text_ends_with(route->pattern, "/" GIT_UPLOAD_PACK))
		return GIT_UPLOAD_PACK;
	if (text_ends_with(route->pattern, "/info/refs")) {
		asked = web_query(request, "service");
		return asked ? asked : "";
	}
	if (text_ends_with(route->pattern, "/info/lfs/objects/batch"))
		return git_request_batch_service(request);
	return strcmp(route->method, "GET") == 0 ? GIT_UPLOAD_PACK : GIT_RECEIVE_PACK;
}

char *git_request_repository(const struct web_request *request)
{
	return name_of_path(request->name ? request->name : "");
}

struct name {
	const char *text;
	size_t len;
	size_t at; /* of its struct head_value, or of is_forwarded */
	bool is_flag;
};

#define VALUE(name_, member)                                                             \
	{                                                                                \
		name_, sizeof(name_) - 1, offsetof(struct head, member), false           \
	}
#define FLAG(name_)                                                                      \
	{                                                                                \
		name_, sizeof(name_) - 1, offsetof(struct head, is_forwarded), true      \
	}

static const struct name names[] = {
	VALUE("Host", host),
	VALUE("Authorization", authorization),
	VALUE("Content-Length", content_length),
	VALUE("Content-Encoding", content_encoding),
	VALUE("Transfer-Encoding", transfer_encoding),
	VALUE("X-Forwarded-Proto", forwarded_proto),
	FLAG("Forwarded"),
	FLAG("X-Forwarded-For"),
	FLAG("X-Real-IP"),
	FLAG("Via"),
};

static void web_head_note_field(struct head *head, const struct name *name,
				const char *text)
{
	struct head_value *value;

	if (name->is_flag) {
		head->is_forwarded = true;
		return;
	}
	value = (struct head_value *)(void *)((char *)head + name->at);
	if (value->count++ == 0)
		value->text = text;
}

static enum MHD_Result on_header(void *arg, enum MHD_ValueKind kind, const char *key,
				 const char *value)
{
	size_t len = strlen(key);

	(void)kind;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].len == len && strcasecmp(names[i].text, key) == 0)
			web_head_note_field(arg, &names[i], value ? value : "");
	return MHD_YES;
}

static void exchange_head_read(struct MHD_Connection *connection, struct head *head)
{
	*head = (struct head){ 0 };
	MHD_get_connection_values(connection, MHD_HEADER_KIND, on_header, head);
	head->is_forwarded |= head->forwarded_proto.count > 0;
}

static enum MHD_Result on_forwarded_for(void *arg, enum MHD_ValueKind kind,
					const char *key, const char *value)
{
	struct str *out = arg;

	(void)kind;
	if (strcasecmp(key, "X-Forwarded-For") != 0)
		return MHD_YES;
	if (out->len > 0)
		str_add_char(out, ',');
	str_add(out, value ? value : "");
	return MHD_YES;
}

static void exchange_head_add_forwarded_for(struct MHD_Connection *connection,
					    struct str *out)
{
	MHD_get_connection_values(connection, MHD_HEADER_KIND, on_forwarded_for, out);
}

static uint64_t exchange_head_length(const struct head *head)
{
	uint64_t value = UINT64_MAX;

	if (head->transfer_encoding.text)
		return UINT64_MAX;
	if (!head->content_length.text)
		return 0;
	return text_to_uint64(head->content_length.text, &value) ? value : UINT64_MAX;
}

static bool exchange_head_host_is_plain(const struct head *head)
{
	const char *host = head->host.text;
	char name[INET_ADDRSTRLEN];
	struct in_addr address;

	if (!host || *host == '[')
		return true;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(host, ":"), host);
	return strcasecmp(name, "localhost") == 0 ||
	       inet_pton(AF_INET, name, &address) == 1;
}

/* What others than proxies that are trusted say of that is not believed; and whoever
 * comes through one is not on this machine. */
static void exchange_identify(struct exchange *exchange)
{
	const struct web_connection *client = exchange->client;
	const struct head_value *proto = &exchange->head.forwarded_proto;
	struct connections *connections = exchange->server->connections;
	AUTO_STR struct str forwarded = STR_INIT;
	struct ip_address ip;

	address_format_ip(&client->ip, exchange->address);
	exchange->request.client = exchange->address;
	exchange->request.is_secure = exchange->server->has_tls;
	exchange->is_loopback = client->is_loopback;
	if (!connections_is_proxy(connections, &client->ip))
		return;
	exchange->is_loopback = false;
	if (proto->count > 0)
		exchange->request.is_secure =
			proto->count == 1 && strcasecmp(proto->text, "https") == 0;
	exchange_head_add_forwarded_for(exchange->connection, &forwarded);
	if (!connections_client(connections, forwarded.data, &ip))
		return;
	address_format_ip(&ip, exchange->peer);
	address_format_ip(&ip, exchange->address);
}

bool exchange_refuse(struct exchange *exchange, int status)
{
	answer_err(&exchange->response, status, &exchange->err);
	if (status == 503)
		web_set_header(&exchange->response, "Retry-After", "1");
	exchange->is_refused = true;
	return false;
}

static bool refuse_problem(struct exchange *exchange, int status, const char *code,
			   const char *message, const char *remedy)
{
	web_answer_problem(&exchange->response, status, code, message, remedy);
	exchange->is_refused = true;
	return false;
}

bool exchange_refuse_stopping(struct exchange *exchange)
{
	refuse_problem(exchange, 503, "STOPPING", "this node is ending",
		       "try again in a moment");
	web_add_header(&exchange->response, "Connection", "close");
	return false;
}

static bool refuse_unjudged(struct exchange *exchange)
{
	refuse_problem(exchange, 500, "INTERNAL",
		       "the head of this request was not judged",
		       "this server does not fit its libmicrohttpd: tell its operator");
	web_add_header(&exchange->response, "Connection", "close");
	return false;
}

static bool find_route(struct exchange *exchange)
{
	struct web_server *server = exchange->server;
	struct route_match *match = &exchange->match;

	route_find(server->routes, exchange->method, &exchange->target, match);
	exchange->request.route = match->route;
	if (match->route) {
		exchange->request.name = match->name;
		exchange->request.kind = match->kind;
		return true;
	}
	if (!*match->allow)
		return refuse_problem(exchange, 404, WIRE_NOT_FOUND,
				      "nothing at this URL", "");
	refuse_problem(exchange, 405, "METHOD_NOT_ALLOWED",
		       "this URL does not take this method", "");
	web_add_header(&exchange->response, "Allow", "%s", match->allow);
	return false;
}

static bool may_need_file(enum web_body kind)
{
	return kind == WEB_BODY_FILE || kind == WEB_BODY_HOOK;
}

static bool begin_body(struct exchange *exchange)
{
	const char *encoding = exchange->head.content_encoding.text;
	struct body *body = &exchange->body;

	if (body_begin(body, exchange->match.route->body, encoding,
		       exchange->server->services->data, &exchange->err))
		return exchange_refuse(exchange, body->refusal);
	if (may_need_file(body->kind)) {
		address_block(exchange->address, body->client);
		if (!*body->client)
			address_network(exchange->address, body->client);
	}
	if (exchange->length != UINT64_MAX && exchange->length > body->limit) {
		err_set(&exchange->err, ERR_CONFIG,
			"the body has more than %" PRIu64 " bytes", body->limit);
		return exchange_refuse(exchange, 413);
	}
	return true;
}

/* Who asks for any other service of Git is refused, whoever it is, without a look at the
 * disk; and shall read that, not be asked for a password first. */
static bool needs_no_decision(const struct exchange *exchange, const char *git_service)
{
	enum web_right right = exchange->match.route->right;

	return right == WEB_ANYBODY ||
	       (right == WEB_GIT && strcmp(git_service, GIT_UPLOAD_PACK) != 0 &&
		strcmp(git_service, GIT_RECEIVE_PACK) != 0);
}

static void refuse_asker(struct exchange *exchange, const struct access_answer *answer)
{
	struct web_response *response = &exchange->response;
	bool is_git = exchange->match.route->right == WEB_GIT;

	refuse_problem(exchange, answer->status, answer->code, exchange->err.text,
		       exchange->err.remedy);
	if (answer->status == 401)
		web_add_header(response, "WWW-Authenticate", "%s realm=\"refrelay\"",
			       is_git ? "Basic" : "Bearer");
	if (answer->status == 429)
		web_set_header(response, "Retry-After", "5");
}

/* A site's token for the API covers the body, of which nothing is known here. */
static bool is_token_in_vain(const struct exchange *exchange,
			     const struct access_answer *answer)
{
	const struct web_route *route = exchange->match.route;

	return route->body == WEB_BODY_STREAM && route->right != WEB_GIT && *answer->site;
}

static bool let_in(struct exchange *exchange, const struct access_answer *answer)
{
	struct web_request *request = &exchange->request;

	if (is_token_in_vain(exchange, answer))
		return refuse_problem(exchange, 403, "OPERATOR_ONLY",
				      "this takes an operator, not a site", "");
	memcpy(request->site, answer->site, sizeof(request->site));
	memcpy(request->user, answer->user, sizeof(request->user));
	request->may_operate = answer->may_operate;
	return true;
}

static bool exchange_head_is_for_primary(const struct exchange *exchange)
{
	return exchange->match.route->right == WEB_PRIMARY_OPERATOR ||
	       strcmp(git_request_service(&exchange->request), GIT_RECEIVE_PACK) == 0;
}

bool exchange_decide(struct exchange *exchange)
{
	struct web_request *request = &exchange->request;
	const struct web_services *services = exchange->server->services;
	struct access_answer answer = { 0 };
	AUTO_FREE char *repository = git_request_repository(request);
	struct signed_request shown = { request->method, request->target,
					exchange->body.memory.data,
					exchange->body.memory.len };
	struct access_question question = {
		.needs = exchange->match.route->right,
		.request = &shown,
		.authorization = exchange->head.authorization.text,
		.is_loopback = exchange->is_loopback &&
			       exchange_head_host_is_plain(&exchange->head),
		.is_forwarded = exchange->head.is_forwarded,
		.client = exchange->address,
		.git_service = git_request_service(request),
		.git_repository = repository,
		.is_quick = !request->may_wait,
		.is_forwarded_push = services->role == SITE_SECONDARY &&
				     exchange_head_is_for_primary(exchange),
	};

	exchange->is_decided = true;
	if (needs_no_decision(exchange, question.git_service))
		return true;
	access_decide(services->access, &question, &answer, &exchange->err);
	if (answer.status == 0)
		return let_in(exchange, &answer);
	if (answer.status == ACCESS_LATER) {
		exchange->is_decided = false;
		return true;
	}
	refuse_asker(exchange, &answer);
	return false;
}

/* Whether it would read or push stands in there. */
static bool is_said_by_body(const struct web_route *route)
{
	return route->right == WEB_GIT && route->body == WEB_BODY_MEMORY;
}

/* Not so if a site's token for the API may cover the body, or the body says what is asked
 * for: it must be whole first. */
static bool is_decided_by_head(const struct exchange *exchange)
{
	const struct web_route *route = exchange->match.route;

	if (is_said_by_body(route))
		return false;
	return exchange->length == 0 || route->right == WEB_GIT ||
	       route->body == WEB_BODY_STREAM || !exchange->head.authorization.text;
}

bool exchange_must_decide(const struct exchange *exchange)
{
	return !exchange->is_refused && !exchange->is_decided &&
	       is_decided_by_head(exchange) &&
	       (exchange->length > 0 || exchange->match.route->body == WEB_BODY_STREAM);
}

void exchange_check_head(struct exchange *exchange)
{
	exchange_head_read(exchange->connection, &exchange->head);
	exchange_identify(exchange);
	exchange->length = exchange_head_length(&exchange->head);
	if (!gate_take_head(exchange->client->gate)) {
		refuse_unjudged(exchange);
		return;
	}
	if (exchange->is_refused)
		return;
	if (stop_is_requested(&exchange->server->stop)) {
		exchange_refuse_stopping(exchange);
		return;
	}
	if (!find_route(exchange) || !begin_body(exchange))
		return;
	if (exchange->match.route->body == WEB_BODY_HOOK &&
	    !web_webhook_may_come(&exchange->request, &exchange->response)) {
		exchange->is_refused = true;
		return;
	}
	if (is_decided_by_head(exchange))
		exchange_decide(exchange);
}

enum { INFLATE_BLOCK = 64 << 10 };

/* Bytes in files, of all bodies. */
static struct {
	pthread_mutex_t mutex;
	uint64_t all, max;
	struct map clients; /* by body.client: each has a uint64_t */
} spool = { .mutex = PTHREAD_MUTEX_INITIALIZER, .max = WEB_BODIES_MAX };

uint64_t body_bound_files(uint64_t bytes)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&spool.mutex);
	uint64_t before = spool.max;

	spool.max = bytes;
	return before;
}

/* What the body's client has then. */
static uint64_t spool_add_share_locked(const struct body *body, int64_t bytes)
{
	uint64_t *share = map_get(&spool.clients, body->client);

	if (!share) {
		share = xcalloc(1, sizeof(*share));
		map_put(&spool.clients, body->client, share);
	}
	*share += (uint64_t)bytes;
	uint64_t left = *share;
	if (left == 0)
		free(map_remove(&spool.clients, body->client));
	return left;
}

/* One body a client has in any case; another begins while all of them have no more than a
 * quarter, and goes on up to three, so that no client has others refused. */
static bool spool_take(struct body *body, uint64_t bytes)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&spool.mutex);
	uint64_t share = spool_add_share_locked(body, (int64_t)bytes);

	spool.all += bytes;
	body->held += bytes;
	uint64_t bound = spool.max / 4 * (body->is_let_in ? 3 : 1);
	body->is_let_in = !*body->client || share == body->held || share <= bound;
	return body->is_let_in && spool.all <= spool.max;
}

/* It gives way to what it stands for, which is still one body of its client's. */
static void spool_disown(struct body *packed)
{
	if (packed->held == 0)
		return;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&spool.mutex);

	spool_add_share_locked(packed, -(int64_t)packed->held);
	packed->client[0] = '\0';
	spool_add_share_locked(packed, (int64_t)packed->held);
}

static void spool_give_back(struct body *body)
{
	if (body->held == 0)
		return;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&spool.mutex);

	spool_add_share_locked(body, -(int64_t)body->held);
	spool.all -= body->held;
	body->held = 0;
}

static void body_drop(struct body *body)
{
	if (body->fd >= 0)
		close(TAKE_FD(body->fd));
	spool_give_back(body);
	str_clear(&body->memory);
}

static int body_refuse(struct body *body, int status)
{
	body_drop(body);
	body->refusal = status;
	return -1;
}

static int refuse_file(struct body *body, const struct err *err)
{
	if (err->class == ERR_BUSY)
		return body_refuse(body, 503);
	return body_refuse(body, err->class == ERR_DISK ? 507 : 500);
}

static bool may_be_packed(enum web_body kind)
{
	return kind == WEB_BODY_FILE || kind == WEB_BODY_STREAM;
}

static uint64_t limit_of(enum web_body kind)
{
	if (kind == WEB_BODY_STREAM) /* the handler's */
		return UINT64_MAX;
	return kind == WEB_BODY_FILE   ? WEB_BODY_FILE_MAX
	       : kind == WEB_BODY_HOOK ? WEB_BODY_HOOK_MAX
				       : WEB_BODY_MEMORY_MAX;
}

/* As Content-Encoding says it. */
static bool body_is_gzip(const char *encoding)
{
	return strcmp(encoding, "gzip") == 0 || strcmp(encoding, "x-gzip") == 0;
}

int body_begin(struct body *body, enum web_body kind, const char *encoding,
	       const char *data, struct err *err)
{
	*body = (struct body){ .kind = kind, .data = data, .memory = STR_INIT, .fd = -1 };
	body->limit = limit_of(kind);
	if (!encoding || !*encoding || strcmp(encoding, "identity") == 0)
		return 0;
	if (!may_be_packed(kind) || !body_is_gzip(encoding)) {
		err_set(err, ERR_CONFIG, "Content-Encoding %s is not understood here",
			encoding);
		err_remedy(err, "send the body %s",
			   may_be_packed(kind) ? "as it is, or as gzip" : "as it is");
		return body_refuse(body, 415);
	}
	if (gunzip_begin(&body->gunzip, err))
		return body_refuse(body, 500);
	body->is_packed = true;
	return 0;
}

void body_clear(struct body *body)
{
	if (body->is_packed)
		gunzip_clear(&body->gunzip);
	body_drop(body);
	*body = (struct body){ .memory = STR_INIT, .fd = -1 };
}

/* Without O_TMPFILE (some file systems) it has a name for a moment. */
static int body_open_nameless(const char *folder, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/body.XXXXXX", folder);
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
		return fd >= 0 ? fd : err_errno(err, "cannot make a file in %s", folder);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "cannot make a file in %s", folder);
	unlink(path);
	return fd;
}

static int body_write_spool(struct body *body, const void *bytes, size_t len,
			    struct err *err)
{
	if (!spool_take(body, len))
		return err_set(err, ERR_BUSY, "too many large requests just now");
	return file_write_all(body->fd, bytes, len, "a request's body", err);
}

static int spill(struct body *body, struct err *err)
{
	AUTO_FREE char *folder = xasprintf("%s/tmp", body->data);

	if (dir_make(AT_FDCWD, folder, err))
		return -1;
	body->fd = body_open_nameless(folder, err);
	if (body->fd < 0)
		return -1;
	if (body->memory.len > 0 &&
	    body_write_spool(body, body->memory.data, body->memory.len, err))
		return -1;
	str_clear(&body->memory);
	return 0;
}

static int body_keep_bytes(struct body *body, const void *bytes, size_t len,
			   struct err *err)
{
	if (len > body->limit - body->size) {
		err_set(err, ERR_CONFIG, "the body has more than %" PRIu64 " bytes",
			body->limit);
		return body_refuse(body, 413);
	}
	body->size += len;
	if (may_need_file(body->kind) && body->fd < 0 &&
	    body->size > WEB_BODY_MEMORY_MAX && spill(body, err))
		return refuse_file(body, err);
	if (body->fd < 0)
		str_add_bytes(&body->memory, bytes, len);
	else if (body_write_spool(body, bytes, len, err))
		return refuse_file(body, err);
	return 0;
}

static int inflate_bytes(struct body *body, const void *bytes, size_t len,
			 struct err *err)
{
	unsigned char block[INFLATE_BLOCK];
	ssize_t count;

	gunzip_feed(&body->gunzip, bytes, len);
	while ((count = gunzip_read(&body->gunzip, block, sizeof(block), err)) > 0)
		if (body_keep_bytes(body, block, (size_t)count, err))
			return -1;
	return count == 0 ? 0 : body_refuse(body, 400);
}

int body_add(struct body *body, const void *bytes, size_t len, struct err *err)
{
	return body_keep_bytes(body, bytes, len, err);
}

static int inflate_file(struct body *body, int fd, struct err *err)
{
	unsigned char block[INFLATE_BLOCK];
	off_t at = 0;
	ssize_t len;

	while ((len = pread(fd, block, sizeof(block), at)) > 0) {
		if (inflate_bytes(body, block, (size_t)len, err))
			return -1;
		at += len;
	}
	if (len == 0)
		return 0;
	err_errno(err, "cannot read a request's body");
	return body_refuse(body, 500);
}

/* What came gives way to what it stands for. */
static int inflate_all(struct body *body, struct err *err)
{
	struct body packed = { .memory = body->memory,
			       .fd = TAKE_FD(body->fd),
			       .held = body->held };
	int result;

	body->memory = (struct str)STR_INIT;
	body->held = body->size = 0;
	memcpy(packed.client, body->client, sizeof(packed.client));
	spool_disown(&packed);
	result = packed.fd >= 0 ? inflate_file(body, packed.fd, err)
				: inflate_bytes(body, packed.memory.data,
						packed.memory.len, err);
	body_drop(&packed);
	if (result == 0 && gunzip_end(&body->gunzip, err))
		return body_refuse(body, 400);
	return result;
}

int body_end(struct body *body, struct err *err)
{
	if (body->is_packed && inflate_all(body, err))
		return -1;
	if (body->fd < 0)
		return 0;
	if (lseek(body->fd, 0, SEEK_SET) < 0) {
		err_errno(err, "cannot rewind a request's body");
		return body_refuse(body, 500);
	}
	return 0;
}
