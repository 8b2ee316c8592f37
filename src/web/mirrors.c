/*
 * What may be asked of mirrors over HTTP: that one is brought now, what became of that,
 * and the webhooks of forges.
 */
#include "mirror/requests.h"
#include "mirror/upstream.h"
#include "mirror/webhook.h"
#include "web/access.h"
#include "web/answer.h"
#include "web/api.h"
#include "web/request.h"
#include "web/route.h"
#include "web/services.h"

/* NULL, with the answer made: there is none. */
static const struct mirror *web_mirror_find(const struct web_request *request,
					    struct web_response *response)
{
	const struct mirrors *mirrors = request->services->mirrors;
	const struct mirror *mirror =
		mirrors ? mirrors_find(mirrors, request->name) : NULL;

	if (!mirror)
		web_answer_problem(
			response, 404, "MIRROR_NOT_FOUND", "no such mirror at this site",
			"add a [mirror \"NAME\"] section to its configuration");
	return mirror;
}

/* It is a row before anybody hears of it. */
static int web_mirror_ask(const struct web_request *request, const struct mirror *mirror,
			  struct mirror_request *asked, struct err *err)
{
	const struct web_services *services = request->services;
	const char *watcher = web_query(request, "as");
	const struct watcher *its = NULL;
	uint64_t wait_s = (uint64_t)lease_manager_wait_ms(services->leases) / 1000;

	if (watcher &&
	    mirrors_find_watcher(services->mirrors, mirror, watcher, &its, err) != 0)
		return -1;
	if (web_query_number(request, "wait", 86400, &wait_s, err) != 0)
		return -1;
	asked->mirror = xstrdup(mirror->name);
	asked->watcher = watcher ? xstrdup(watcher) : NULL;
	asked->wait_ms = (int64_t)wait_s * 1000;
	if (mirror_request_add(services->store, asked, err) != 0)
		return -1;
	pull_wake(services->mirror_pull);
	return 0;
}

static int post_mirror_sync(const struct web_request *request,
			    struct web_response *response, struct err *err)
{
	AUTO_MIRROR_REQUEST struct mirror_request asked = { 0 };
	const struct mirror *mirror = web_mirror_find(request, response);

	if (!mirror)
		return 0;
	if (web_mirror_ask(request, mirror, &asked, err) != 0)
		return -1;
	web_add_header(response, "Location", "/api/v1/jobs/%s", asked.id);
	web_answer_json(response, 202,
			mirror_request_json(&asked, request->services->root));
	return 0;
}

static int get_job(const struct web_request *request, struct web_response *response,
		   struct err *err)
{
	AUTO_MIRROR_REQUEST struct mirror_request job = { 0 };

	if (mirror_request_get(request->services->store, request->name, &job, err) != 0) {
		if (err->class != ERR_MISSING)
			return -1;
		web_answer_problem(response, 404, "JOB_NOT_FOUND", err->text,
				   "a job is forgotten seven days after its end");
		return 0;
	}
	web_answer_json(response, 200,
			mirror_request_json(&job, request->services->root));
	return 0;
}

/* Those that forges sign with, and by which they are known. */
static const char *const web_webhook_headers[] = {
	"X-GitHub-Event",      "X-GitHub-Delivery",     "X-Hub-Signature-256",
	"X-Hub-Signature",     "X-Gitlab-Event",        "X-Gitlab-Token",
	"X-Gitlab-Event-UUID", "X-Gitlab-Webhook-UUID", "Idempotency-Key",
	"webhook-id",          "webhook-timestamp",     "webhook-signature",
	"X-Gitea-Event",       "X-Gitea-Event-Type",    "X-Gitea-Delivery",
	"X-Gitea-Signature",   "X-Forgejo-Event",       "X-Forgejo-Event-Type",
	"X-Forgejo-Delivery",  "X-Forgejo-Signature",   "X-Gogs-Event",
	"X-Gogs-Delivery",     "X-Gogs-Signature",      "Content-Type",
};

/* Ends in one without a name. */
static void web_webhook_find_headers(
	const struct web_request *request,
	struct http_header headers[ARRAY_SIZE(web_webhook_headers) + 1])
{
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(web_webhook_headers); i++) {
		const char *value = web_header(request, web_webhook_headers[i]);
		if (value)
			headers[count++] =
				(struct http_header){ web_webhook_headers[i], value };
	}
	headers[count] = (struct http_header){ 0 };
}

static int web_webhook_read(const struct web_request *request, const struct str *secret,
			    struct webhook *webhook, struct err *err)
{
	struct http_header headers[ARRAY_SIZE(web_webhook_headers) + 1];
	struct webhook_request read = { .headers = headers, .secret = secret };

	web_webhook_find_headers(request, headers);
	if (request->body_fd >= 0) {
		read.fd = request->body_fd;
	} else {
		read.body = request->body->data;
		read.len = request->body->len;
	}
	return webhook_read(&read, webhook, err);
}

/* Strangers are not told which mirrors there are, nor which of them take webhooks; the
 * log tells who sets one up. */
static void web_webhook_refuse(const struct web_request *request, const struct err *why,
			       struct web_response *response)
{
	const struct access_answer answer = { .status = 401, .code = "BAD_SIGNATURE" };
	struct err err = *why;

	err_prefix(&err, "the webhook for %s", request->name);
	access_log_refused(request->services->access, &answer, &err);
	web_answer_problem(response, answer.status, answer.code,
			   "the webhook is not signed with this mirror's secret",
			   "set the same secret on both sides; the log of this site says "
			   "more");
}

/* 1: it is genuine. 0, with the answer made: it is not. -1: it is, and makes no sense. */
static int web_webhook_check(const struct web_request *request, const char *secret_file,
			     struct webhook *webhook, struct web_response *response,
			     struct err *err)
{
	struct str secret = STR_INIT;
	bool has_secret = upstream_read_secret(secret_file, &secret, err) == 0;
	int result = has_secret ? web_webhook_read(request, &secret, webhook, err) : -1;

	str_wipe(&secret);
	if (result == 0)
		return 1;
	if (has_secret && err->class != ERR_AUTH)
		return -1;
	web_webhook_refuse(request, err, response);
	return 0;
}

static void web_webhook_answer(const struct mirror *mirror, bool asks,
			       struct web_response *response)
{
	json_t *object = json_object();

	json_put_text(object, "mirror", mirror ? mirror->name : NULL);
	json_put_bool(object, "asks", asks);
	web_answer_json(response, 202, object);
}

/* An organisation's webhook tells of all its repositories, also of those that are not
 * mirrored. */
static int web_webhook_take_of_list(const struct web_request *request,
				    const struct mirror_list *list,
				    struct web_response *response, struct err *err)
{
	const struct mirrors *mirrors = request->services->mirrors;
	AUTO_WEBHOOK struct webhook webhook = { 0 };
	const struct mirror *found = NULL;
	int genuine = web_webhook_check(request, list->webhook_secret_file, &webhook,
					response, err);

	if (genuine <= 0)
		return genuine;
	for (const struct mirror *mirror = NULL;
	     webhook.kind == WEBHOOK_PUSH && webhook.repository &&
	     (mirror = mirrors_next(mirrors, mirror)) != NULL;) {
		if (mirror->list != list || !webhook_is_of(&webhook, &mirror->uri))
			continue;
		mirror_poll_hurry(request->services->mirror_poll, mirror);
		found = mirror;
	}
	web_webhook_answer(found, found != NULL, response);
	return 0;
}

static int web_webhook_take(const struct web_request *request,
			    const struct mirror *mirror, struct web_response *response,
			    struct err *err)
{
	AUTO_WEBHOOK struct webhook webhook = { 0 };
	int genuine = web_webhook_check(request, mirror->webhook_secret_file, &webhook,
					response, err);

	if (genuine <= 0)
		return genuine;
	if (!webhook_is_of(&webhook, &mirror->uri)) {
		web_answer_problem(response, 409, "OTHER_REPOSITORY",
				   "the webhook is for another repository",
				   "set it up in the repository that mirror.url names");
		return 0;
	}
	if (webhook.kind == WEBHOOK_PUSH)
		mirror_poll_hurry(request->services->mirror_poll, mirror);
	web_webhook_answer(mirror, webhook.kind == WEBHOOK_PUSH, response);
	return 0;
}

/* NAME is that of a mirror, or of a section [mirrors]. NULL: of none. */
static const struct mirror_list *web_webhook_find_list(const struct web_request *request)
{
	const struct mirrors *mirrors = request->services->mirrors;

	for (size_t i = 0; mirrors && i < mirrors->lists.count; i++)
		if (strcmp(mirrors->lists.items[i]->name, request->name) == 0 &&
		    !mirrors_find(mirrors, request->name))
			return mirrors->lists.items[i];
	return NULL;
}

/* Whether any mirror accepts some. */
static bool web_webhook_is_expected(const struct mirrors *mirrors)
{
	for (size_t i = 0; mirrors && i < mirrors->sections.count; i++)
		if (mirrors->sections.items[i]->webhook_secret_file)
			return true;
	for (size_t i = 0; mirrors && i < mirrors->lists.count; i++)
		if (mirrors->lists.items[i]->webhook_secret_file)
			return true;
	return false;
}

/* Whatever the name is: to be refused by the head alone would tell what the answer does
 * not. */
bool web_webhook_may_come(const struct web_request *request,
			  struct web_response *response)
{
	struct http_header headers[ARRAY_SIZE(web_webhook_headers) + 1];
	struct err err;

	web_webhook_find_headers(request, headers);
	if (!web_webhook_is_expected(request->services->mirrors))
		err_set(&err, ERR_CONFIG, "no mirror of this site accepts webhooks");
	else if (!webhook_is_signed(headers))
		err_set(&err, ERR_AUTH, "it is not signed");
	else
		return true;
	web_webhook_refuse(request, &err, response);
	return false;
}

static int post_mirror_webhook(const struct web_request *request,
			       struct web_response *response, struct err *err)
{
	const struct mirrors *mirrors = request->services->mirrors;
	const struct mirror_list *list = web_webhook_find_list(request);
	const struct mirror *mirror = list ? NULL : mirrors_find(mirrors, request->name);

	if (list && list->webhook_secret_file)
		return web_webhook_take_of_list(request, list, response, err);
	if (mirror && mirror->webhook_secret_file)
		return web_webhook_take(request, mirror, response, err);
	err_set(err, ERR_CONFIG,
		list || mirror ? "it has no webhookSecretFile"
			       : "no mirror of this site has this name");
	web_webhook_refuse(request, err, response);
	return 0;
}

_Static_assert(WEBHOOK_BODY_MAX == WEB_BODY_HOOK_MAX, "both are the same bound");

const struct web_route web_mirror_routes[] = {
	{ "POST", "/api/v1/mirrors/{name}/sync{?as,wait}", WEB_OPERATOR, WEB_BODY_MEMORY,
	  post_mirror_sync },
	{ "POST", "/api/v1/mirrors/{name}/webhook", WEB_ANYBODY, WEB_BODY_HOOK,
	  post_mirror_webhook },
	{ "GET", "/api/v1/jobs/{name}", WEB_READER, WEB_BODY_NONE, get_job },
	{ 0 },
};
