#include "web/exchange.h"

#include <arpa/inet.h>
#include <strings.h>

#include "replicable/name.h"
#include "web/answer.h"
#include "web/lfs.h"
#include "web/route.h"
#include "web/services.h"

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
		return refuse_problem(exchange, 404, "NOT_FOUND",
				      "there is nothing at this URL", "");
	refuse_problem(exchange, 405, "METHOD_NOT_ALLOWED",
		       "this URL does not take this method", "");
	web_add_header(&exchange->response, "Allow", "%s", match->allow);
	return false;
}

static bool begin_body(struct exchange *exchange)
{
	const char *encoding = exchange->head.content_encoding.text;
	struct body *body = &exchange->body;

	if (body_begin(body, exchange->match.route->body, encoding,
		       exchange->server->services->data, &exchange->err))
		return exchange_refuse(exchange, body->refusal);
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
	if (is_decided_by_head(exchange))
		exchange_decide(exchange);
}
