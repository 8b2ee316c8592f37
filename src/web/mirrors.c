/*
 * What may be asked of mirrors over HTTP: that one is brought now, what became of that,
 * and the webhooks of forges.
 */
#include "mirror/requests.h"
#include "mirror/upstream.h"
#include "mirror/webhook.h"
#include "web/answer.h"
#include "web/api.h"
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
		web_answer_problem(response, 404, "MIRROR_NOT_FOUND",
				   "this site has no mirror of that name",
				   "give its configuration a section [mirror \"NAME\"]");
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

static int web_webhook_read(const struct web_request *request, const struct str *secret,
			    struct webhook *webhook, struct err *err)
{
	struct http_header headers[ARRAY_SIZE(web_webhook_headers) + 1] = { 0 };
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(web_webhook_headers); i++) {
		const char *value = web_header(request, web_webhook_headers[i]);
		if (value)
			headers[count++] =
				(struct http_header){ web_webhook_headers[i], value };
	}
	return webhook_read(&(struct webhook_request){ .headers = headers,
						       .body = request->body->data,
						       .len = request->body->len,
						       .secret = secret },
			    webhook, err);
}

/* 1: it is genuine, and of this mirror. 0, with the answer made: it is not. -1. */
static int web_webhook_check(const struct web_request *request,
			     const struct mirror *mirror, struct webhook *webhook,
			     struct web_response *response, struct err *err)
{
	struct str secret = STR_INIT;
	int result = -1;

	if (upstream_read_secret(mirror->webhook_secret_file, &secret, err) == 0)
		result = web_webhook_read(request, &secret, webhook, err);
	str_wipe(&secret);
	if (result != 0 && err->class == ERR_AUTH) {
		web_answer_problem(response, 401, "BAD_SIGNATURE",
				   "the webhook is not signed with this mirror's secret",
				   "give both sides the same secret");
		return 0;
	}
	if (result != 0)
		return -1;
	if (webhook_is_of(webhook, &mirror->uri))
		return 1;
	web_answer_problem(response, 409, "OTHER_REPOSITORY",
			   "the webhook tells of another repository than the mirror's",
			   "set it up in the repository that mirror.url names");
	return 0;
}

static int post_mirror_webhook(const struct web_request *request,
			       struct web_response *response, struct err *err)
{
	AUTO_WEBHOOK struct webhook webhook = { 0 };
	const struct mirror *mirror = web_mirror_find(request, response);

	if (!mirror)
		return 0;
	if (!mirror->webhook_secret_file) {
		web_answer_problem(response, 403, "NO_WEBHOOKS",
				   "this mirror takes no webhooks",
				   "set mirror.webhookSecretFile");
		return 0;
	}
	int genuine = web_webhook_check(request, mirror, &webhook, response, err);
	if (genuine <= 0)
		return genuine;
	if (webhook.kind == WEBHOOK_PUSH)
		mirror_poll_hurry(request->services->mirror_poll, mirror);
	json_t *object = json_object();
	json_put_text(object, "mirror", mirror->name);
	json_put_bool(object, "asks", webhook.kind == WEBHOOK_PUSH);
	web_answer_json(response, 202, object);
	return 0;
}

const struct web_route web_mirror_routes[] = {
	{ "POST", "/api/v1/mirrors/{name}/sync", WEB_OPERATOR, WEB_BODY_MEMORY,
	  post_mirror_sync },
	{ "POST", "/api/v1/mirrors/{name}/webhook", WEB_ANYBODY, WEB_BODY_MEMORY,
	  post_mirror_webhook },
	{ "GET", "/api/v1/jobs/{name}", WEB_READER, WEB_BODY_NONE, get_job },
	{ 0 },
};
