/*
 * Git's smart HTTP protocol: the routes, and what is read from this site. Status and
 * headers are those of git http-backend where it has good ones; it answers 200 with
 * nothing in it to much that goes wrong, and we never do. What is known whole has a
 * length and a tag.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "change/pushed.h"
#include "git/git_message.h"
#include "git/pkt_line.h"
#include "replicable/name.h"
#include "serve/pushes.h"
#include "web/answer.h"
#include "web/git_parts.h"
#include "web/listen.h"
#include "web/route.h"
#include "web/web_metrics.h"

/*
 * A push to a repository of this site. Git reports before it runs post-receive, so what
 * a client is told is held here until the event is committed: all refs of the push are in
 * one event, and nobody hears of a change that the event log has not.
 */

enum { NOTICE_MS = 60 * 1000, NOTICE_PAUSE_MS = 20 };

/* What outlives the request: the report is sent after that. */
struct push_record {
	const struct web_services *services;
	const struct stop *stop;
	const struct web_request *request; /* until the body is read */
	struct web_patience patience;
	struct client client; /* as long as there is a request */
	char *name, *user;
	int64_t begun_at;
	size_t deletions; /* of refs, as it was told before; not settled yet */
};

static ssize_t git_push_read_body(void *arg, void *buffer, size_t size, struct err *err)
{
	const struct push_record *record = arg;

	return web_read_upload(record->request, buffer, size, err);
}

static void limit(void *arg, bool (*may_wait)(void *of), void *of)
{
	struct push_record *record = arg;

	record->patience = (struct web_patience){ may_wait, of };
	if (record->request->has_upload)
		web_set_patience(record->request, &record->patience);
}

/* Others may be changing the same repository, a push of very many refs for long: what
 * they change is in an event, too. */
static int commit_event(void *arg, struct err *err)
{
	struct push_record *record = arg;
	int64_t until = clock_boot_ms() + NOTICE_MS;
	int result;

	do {
		AUTO_NOTICED struct noticed noticed = { 0 };
		result = notice_compare_hint(record->services->notice, record->name,
					     &noticed, err);
	} while (result != 0 && err->class == ERR_CONFLICT && clock_boot_ms() < until &&
		 !stop_wait(record->stop, NOTICE_PAUSE_MS));
	if (result != 0)
		return err_prefix(err, "the push was received, but not recorded");
	return 0;
}

/* A secondary that hears of many deletions at once does not ask about these. */
static void note_deletions(void *arg, size_t count)
{
	struct push_record *record = arg;
	struct err err;

	if (pushed_begin(record->services->notice, record->name, count, &err) == 0)
		record->deletions = count;
	else
		log_warn("change.deletions_miscounted", LOG_ERR(&err),
			 LOG_TEXT("repo", record->name));
}

/* What a client pushes may fail for its own sake, which looks just so. */
static void look_at_it(const struct push_record *record)
{
	if (record->services->verify_origin)
		verify_origin_look(record->services->verify_origin, record->name);
}

static const char *git_push_classify_outcome(const struct receive_outcome *outcome)
{
	if (!outcome->is_known)
		return "unknown";
	if (outcome->taken == 0)
		return "refused";
	return outcome->refused > 0 ? "in_part" : "taken";
}

/* Before the client hears of it: what it does next finds them settled. */
static void settle_deletions(struct push_record *record, size_t refused)
{
	if (record->deletions > 0)
		pushed_end(record->services->notice, record->name, record->deletions,
			   refused < record->deletions ? refused : record->deletions);
	record->deletions = 0;
}

static struct metric *git_pushes(void)
{
	return metric_counter("refrelay_git_pushes_total",
			      "Pushes to repositories of this site that ended, by what "
			      "became of their refs.",
			      "class");
}

void git_push_begin_metrics(void)
{
	metric_begin(git_pushes(), METRIC_LIST("taken", "in_part", "refused", "unknown"),
		     NULL);
}

/* Who wants no report is told nothing, nor are we. */
static void git_push_log_outcome(void *arg, const struct receive_outcome *outcome)
{
	struct push_record *record = arg;
	const char *class = git_push_classify_outcome(outcome);
	bool is_refused = outcome->is_known && outcome->taken == 0;

	settle_deletions(record, outcome->refused_deletions);
	metric_add(metric_at(git_pushes(), class), 1);
	log_info(is_refused ? "git.push_refused" : "git.pushed",
		 LOG_NUMBER("dur_ms", clock_boot_ms() - record->begun_at),
		 LOG_TEXT("repo", record->name), LOG_TEXT("user", record->user),
		 LOG_TEXT("result", class), LOG_NUMBER("refs", outcome->asked),
		 LOG_NUMBER("taken", outcome->taken),
		 LOG_NUMBER("refused", outcome->refused));
	if (is_refused)
		look_at_it(record);
}

static void record_free(void *arg)
{
	struct push_record *record = arg;

	settle_deletions(record, 0);
	free(record->name);
	free(record->user);
	free(record);
}

static struct push_record *record_new(const struct web_request *request)
{
	struct push_record *record = xcalloc(1, sizeof(*record));

	record->services = request->services;
	record->stop = request->cut;
	record->request = request;
	record->name = git_request_repository(request);
	record->user = xstrdup(request->user);
	record->begun_at = clock_boot_ms();
	client_of_request(request, &record->client);
	return record;
}

static struct pushes_request git_push_make_request(const struct web_request *request,
						   struct push_record *record)
{
	return (struct pushes_request){
		.name = record->name,
		.protocol = web_header(request, "Git-Protocol"),
		.user = record->user,
		.client = request->client,
		.stop = request->stop,
		.cut = request->cut,
		.share = &record->client.names,
		.read = git_push_read_body,
		.limit = limit,
		.deletes = note_deletions,
		.recorded = commit_event,
		.reported = git_push_log_outcome,
		.close = record_free,
		.arg = record,
	};
}

#define ADVERTISEMENT "application/x-git-upload-pack-advertisement"
#define RESULT "application/x-git-upload-pack-result"

void git_never_cache(struct web_response *response)
{
	web_set_header(response, "Expires", "Fri, 01 Jan 1980 00:00:00 GMT");
	web_set_header(response, "Pragma", "no-cache");
	web_set_header(response, "Cache-Control", "no-cache, max-age=0, must-revalidate");
}

static int git_failed(struct web_response *response, const struct serve_answer *answer,
		      const struct err *err)
{
	if (answer->is_too_large) {
		answer_err(response, 413, err);
		return 0;
	}
	if (err->class == ERR_BUSY) {
		answer_err(response, 503, err);
		response->is_expected = true;
		web_add_header(response, "Retry-After", "%u",
			       answer->retry_after_s ? answer->retry_after_s : 1);
		return 0;
	}
	if (err->class != ERR_CONFIG || answer->is_request_bad)
		return -1;
	/* What is set up wrong here is for this site's operator. */
	answer_err(response, err->reason == REASON_FORMAT ? 409 : 500, err);
	return 0;
}

static void release_generation(void *generation)
{
	generation_unref(generation);
}

static void web_git_share_answer(struct serve_answer *answer,
				 struct web_response *response)
{
	response->shared = (struct web_shared){ .data = answer->shared.data,
						.len = answer->shared.len,
						.release = release_generation,
						.owner = TAKE(answer->generation) };
	if (answer->shared.is_gzip)
		web_set_header(response, "Content-Encoding", "gzip");
}

static void git_hand_over(struct serve_answer *answer, const char *content_type,
			  struct web_response *response)
{
	response->content_type = content_type;
	if (answer->generation) {
		web_git_share_answer(answer, response);
	} else if (answer->stream) {
		response->read = answer->read;
		response->close = answer->close;
		response->stream = TAKE(answer->stream);
		response->until = answer->until;
		response->is_wanted = answer->is_wanted;
		response->least_rate = answer->least_rate;
	} else {
		response->body = answer->bytes;
		answer->bytes = (struct str)STR_INIT;
	}
	git_never_cache(response);
}

typedef int (*git_pushing)(struct pushes *pushes, const struct pushes_request *request,
			   struct serve_answer *answer, struct err *err);

/* What was pushed to a mirror would be gone with the next look at its upstream. */
static bool git_push_is_to_mirror(const struct web_request *request,
				  const char *content_type, struct web_response *response)
{
	const struct mirrors *mirrors = request->services->mirrors; /* NULL: none */

	if (!mirrors)
		return false;
	AUTO_FREE char *name = git_request_repository(request);
	const struct mirror *mirror = mirrors_find(mirrors, name);
	if (!mirror)
		return false;
	answer_reset(response);
	pkt_addf(&response->body, "ERR %s is a mirror: push to %s instead", mirror->name,
		 mirror->url);
	response->content_type = content_type;
	git_never_cache(response);
	return true;
}

static int git_push(const struct web_request *request, git_pushing serve,
		    const char *content_type, struct web_response *response,
		    struct err *err)
{
	if (git_push_is_to_mirror(request, content_type, response))
		return 0;
	struct push_record *record = record_new(request);
	struct pushes_request wanted = git_push_make_request(request, record);
	struct serve_answer answer = SERVE_ANSWER_INIT;
	int result = serve(request->services->pushes, &wanted, &answer, err);

	if (result != 0)
		look_at_it(record);
	/* A stream outlives the request, and frees the record when it is closed. */
	if (answer.stream)
		record->request = NULL;
	else
		record_free(record);
	if (result == 0)
		git_hand_over(&answer, content_type, response);
	else
		result = git_failed(response, &answer, err);
	serve_answer_clear(&answer);
	return result;
}

/* For a secondary that reads for somebody else. */
static bool is_for_site(const struct web_request *request)
{
	return request->site[0] && request->services->notice &&
	       web_header(request, "Via");
}

/* For a secondary that makes its copy. */
static bool is_for_copy(const struct web_request *request)
{
	return request->site[0] && !web_header(request, "Via");
}

/* Git gives its caller nothing of an answer that is an error but the status. So a copy is
 * told within the protocol what is wrong with the repository. */
static bool report_copy(const struct web_request *request, const char *content_type,
			struct web_response *response, const struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	if (!is_for_copy(request) || !git_reported_may_be(err->class))
		return false;
	git_reported_render(err, &text);
	answer_reset(response);
	pkt_addf(&response->body, "ERR %s", text.data);
	response->content_type = content_type;
	git_never_cache(response);
	log_warn("git.copy_refused", LOG_ERR(err), LOG_TEXT("site", request->site),
		 LOG_TEXT("target", request->target));
	return true;
}

/* Nor is a reader told more, who has nobody else to ask than a primary. */
static bool web_git_report_lost(const struct web_request *request,
				struct web_response *response, const struct err *err)
{
	if (request->services->pull || err->reason != REASON_LOST_OBJECT)
		return false;
	answer_reset(response);
	pkt_addf(&response->body, "ERR the repository is damaged: %s", err->text);
	response->content_type = RESULT;
	git_never_cache(response);
	log_warn("git.broken", LOG_ERR(err), LOG_TEXT("target", request->target));
	return true;
}

typedef int (*git_reading)(const struct web_request *request, const char *name,
			   struct web_response *response, struct err *err);

/* *client is kept as long as it. */
static struct serve_request web_git_make_request(const struct web_request *request,
						 const char *name, struct client *client)
{
	if (request->may_wait) /* else there is nothing to wait for */
		client_of_request(request, client);
	return (struct serve_request){
		.name = name,
		.client = request->may_wait ? &client->names : NULL,
		.protocol = web_header(request, "Git-Protocol"),
		.is_for_copy = is_for_copy(request),
		.has_other = request->services->pull,
		.wants_whole = is_for_site(request),
		.accepts_gzip = negotiate_gzip(web_header(request, "Accept-Encoding")),
		.body = request->body,
		.body_fd = request->body_fd,
		.stop = request->stop,
		.cut = request->cut,
	};
}

static int web_git_find_answer(const struct web_request *request,
			       const struct serve_request *wanted,
			       struct serve_answer *answer, struct err *err)
{
	struct serve *serve = request->services->serve;

	if (request->may_wait)
		return serve_info_refs(serve, wanted, answer, err);
	return serve_info_refs_now(serve, wanted, answer) ? 0 : WEB_LATER;
}

/* What a reading returns in place of an answer: the copy cannot give it, and *err says
 * why. The primary may. If the request itself may be the reason, nothing is said of the
 * copy: who asks could put it in doubt otherwise. */
#define COPY_FAILED 2
#define COPY_OR_REQUEST_FAILED 3
/* The git here does not understand the request; the primary's may be newer. */
#define REQUEST_NOT_KNOWN 4

static bool has_copy_failed(const struct web_request *request,
			    const struct serve_answer *answer, const struct err *err)
{
	return request->services->pull && !answer->is_too_large &&
	       (err_is_of_data(err) || err->class == ERR_INTERNAL ||
		err->class == ERR_CONFIG || err->class == ERR_DISK) &&
	       (!answer->is_request_bad || err->class == ERR_INTERNAL);
}

/* At a primary. */
static void note_damage(const struct web_request *request, const char *name,
			const struct serve_answer *answer, const struct err *err)
{
	struct verify_origin *verify = request->services->verify_origin;

	if (verify && !answer->is_request_bad && !answer->is_too_large)
		verify_origin_doubt(verify, name, err);
}

static int web_git_fail(const struct web_request *request,
			const struct serve_answer *answer, struct web_response *response,
			const struct err *err)
{
	if (request->services->pull && answer->is_request_bad &&
	    git_message_may_be_version(err))
		return REQUEST_NOT_KNOWN;
	if (!has_copy_failed(request, answer, err))
		return git_failed(response, answer, err);
	return answer->is_request_bad ? COPY_OR_REQUEST_FAILED : COPY_FAILED;
}

static int web_git_advertise(const struct web_request *request, const char *name,
			     struct web_response *response, struct err *err)
{
	struct client client;
	struct serve_request wanted = web_git_make_request(request, name, &client);
	struct serve_answer answer = SERVE_ANSWER_INIT;
	int result = web_git_find_answer(request, &wanted, &answer, err);

	if (result < 0) {
		note_damage(request, name, &answer, err);
		result = report_copy(request, ADVERTISEMENT, response, err)
				 ? 0
				 : web_git_fail(request, &answer, response, err);
	} else if (result == 0) {
		git_hand_over(&answer, ADVERTISEMENT, response);
		web_set_header(response, "Vary", "Git-Protocol, Accept-Encoding");
		if (*answer.etag)
			web_answer_tagged(request, response, answer.etag);
	}
	serve_answer_clear(&answer);
	return result;
}

static int upload_pack(const struct web_request *request, const char *name,
		       struct web_response *response, struct err *err)
{
	struct client client;
	struct serve_request wanted = web_git_make_request(request, name, &client);
	struct serve_answer answer = SERVE_ANSWER_INIT;
	int result = 0;

	if (serve_upload_pack(request->services->serve, &wanted, &answer, err) == 0) {
		git_hand_over(&answer, RESULT, response);
	} else {
		note_damage(request, name, &answer, err);
		if (!report_copy(request, RESULT, response, err) &&
		    !web_git_report_lost(request, response, err))
			result = web_git_fail(request, &answer, response, err);
	}
	serve_answer_clear(&answer);
	return result;
}

/* Says up to which event the log has what the answer shows: as long as a secondary has
 * not come so far, its own copy may be older than what it hands on. Refs that are still
 * being read may be newer than anything that can be said now. */
static void report_last_event(const struct web_request *request, const char *name,
			      struct web_response *response)
{
	AUTO_NOTICED struct noticed noticed = { 0 };
	struct event_ends ends;
	struct err err;

	if (response->read || response->status >= 400)
		return;
	if (notice_compare_hint(request->services->notice, name, &noticed, &err) == 0 &&
	    event_log_look(request->services->store, &ends, &err) == 0) {
		web_add_header(response, WIRE_TIMELINE, "%s", ends.timeline);
		web_add_header(response, WIRE_LAST_EVENT, "%" PRIu64, ends.last);
	} else {
		log_warn("git.last_event_unknown", LOG_ERR(&err), LOG_TEXT("repo", name));
	}
}

static int answer_here(const struct web_request *request, const char *name,
		       struct web_response *response, struct err *err, git_reading here)
{
	int result;

	if (is_for_site(request) && !request->may_wait)
		return WEB_LATER;
	result = here(request, name, response, err);
	if (result == 0 && is_for_site(request))
		report_last_event(request, name, response);
	return result;
}

/* From the copy; if that is damaged or its disk is away, readers get the primary's
 * answer. What it looks like is asked before it is read: git may not notice that files
 * are missing, or hold something else. */
static int answer_copy(const struct web_request *request, const char *name,
		       struct web_response *response, struct err *err, git_reading here)
{
	struct pull *pull = request->services->pull;
	int result;

	if (!pull || !request->may_wait || pull_glance(pull, name)) {
		result = answer_here(request, name, response, err, here);
		if (result == REQUEST_NOT_KNOWN) /* without the primary, *err it is */
			return git_forward_unknown(request, name, response) ? 0 : -1;
		if (result != COPY_FAILED && result != COPY_OR_REQUEST_FAILED)
			return result;
		if (result == COPY_FAILED && err_is_of_data(err))
			pull_doubt(pull, KIND_REPOSITORY, name, err);
		if (err->class == ERR_DISK)
			log_warn("git.copy_away", LOG_TEXT("repo", name), LOG_ERR(err));
	}
	git_forward_read(request, name, FRESH_DAMAGED, response);
	return 0;
}

/* By `here`, or by the primary. */
static int answer_read(const struct web_request *request, struct web_response *response,
		       struct err *err, git_reading here)
{
	AUTO_FREE char *name = git_request_repository(request);
	enum fresh fresh = FRESH;
	enum git_place place = GIT_HERE;

	/* Only a secondary may have to ask elsewhere. */
	if (request->services->freshness)
		place = git_forward_place(request, name, &fresh);

	if (place == GIT_ELSEWHERE)
		place = request->may_wait
				? git_forward_read(request, name, fresh, response)
				: GIT_LATER;
	if (place == GIT_LATER)
		return WEB_LATER;
	return place == GIT_HERE ? answer_copy(request, name, response, err, here) : 0;
}

static int web_git_get_push_refs(const struct web_request *request,
				 struct web_response *response, struct err *err)
{
	if (!request->may_wait)
		return WEB_LATER;
	if (request->services->role != SITE_SECONDARY)
		return git_push(request, pushes_advertise,
				"application/x-git-receive-pack-advertisement", response,
				err);
	git_forward_push(request, GIT_PUSH_LISTS, response);
	return 0;
}

static int web_git_get_refs(const struct web_request *request,
			    struct web_response *response, struct err *err)
{
	const char *service = git_request_service(request);

	if (strcmp(service, GIT_UPLOAD_PACK) == 0)
		return answer_read(request, response, err, web_git_advertise);
	if (strcmp(service, GIT_RECEIVE_PACK) == 0)
		return web_git_get_push_refs(request, response, err);
	if (*service)
		web_answer_problem(response, 403, "UNKNOWN_SERVICE",
				   "this service of Git is not known here", "");
	else
		web_answer_problem(response, 403, "DUMB_PROTOCOL",
				   "Git's dumb HTTP protocol is not served",
				   "use git 1.6.6 or later, without GIT_SMART_HTTP=0");
	return 0;
}

static bool git_has_type(const struct web_request *request, const char *type,
			 struct web_response *response)
{
	AUTO_FREE char *message = xasprintf("Content-Type must be %s", type);
	const char *shown = web_header(request, "Content-Type");

	if (shown && strcmp(shown, type) == 0)
		return true;
	web_answer_problem(response, 415, "WRONG_CONTENT_TYPE", message, "");
	return false;
}

static int post_upload_pack(const struct web_request *request,
			    struct web_response *response, struct err *err)
{
	if (!git_has_type(request, "application/x-git-upload-pack-request", response))
		return 0;
	return answer_read(request, response, err, upload_pack);
}

static int post_receive_pack(const struct web_request *request,
			     struct web_response *response, struct err *err)
{
	if (!git_has_type(request, "application/x-git-receive-pack-request", response))
		return 0;
	if (request->services->role != SITE_SECONDARY)
		return git_push(request, pushes_receive,
				"application/x-git-receive-pack-result", response, err);
	git_forward_push(request, GIT_PUSH_CHANGES, response);
	return 0;
}

const struct web_route web_git_routes[] = {
	{ "GET", "/{path}/info/refs", WEB_GIT, WEB_QUICK, web_git_get_refs },
	{ "POST", "/{path}/git-upload-pack", WEB_GIT, WEB_BODY_FILE, post_upload_pack },
	{ "POST", "/{path}/git-receive-pack", WEB_GIT, WEB_BODY_STREAM,
	  post_receive_pack },
	{ 0 },
};
