/*
 * A secondary answers a read itself where its copy is fresh; for all other reads, and for
 * pushes, it asks the primary and hands on what that says, as it comes.
 *
 * Reads are asked for with this site's own right to read: who may read here was decided
 * here. Pushes are asked for with what the client showed: who may push the primary
 * decides, so nobody can push there who holds only a secondary's secret.
 *
 * What went through here, whoever pushed it must find here, too: from before a push until
 * the copy has caught up with the log as it was after it, the copy counts as behind. The
 * same holds for a read that was handed on: nobody is taken back behind what he has seen.
 */
#include <strings.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/pace.h"
#include "web/answer.h"
#include "web/client.h"
#include "web/git_parts.h"
#include "web/pass_on.h"

enum {
	LAST_EVENT_MS = 10 * 1000,
	PLACE_MS = 5000,
	/* For how long the primary may be silent before it lists refs, which is what each
	 * client asks for first; and where the copy here would do, and be done with. */
	LIST_SILENCE_MS = 15 * 1000,
	SPARE_SILENCE_MS = 5 * 1000,
	ASK_AGAIN_MS = 10 * 1000, /* such a primary, for readers whom the copy would do */
};

/* The primary lets this site have 64 connections if it is not told otherwise, and who
 * holds all of them keeps it from following the primary. Those who push are not known
 * here: they could hold each other up there, where passwords are checked. */
static const struct fair_limits read_limits = { .places = 20,
						.waiting = 128,
						.each = 16 },
				push_limits = { .places = 20, .waiting = 128, .each = 8 };

enum read_or_push { READ, PUSH };
static const char *const kinds[] = { "read", "push" };

enum decision {
	HERE,
	HERE_PRIMARY_DOWN,
	FORWARDED,
	REFUSED_PRIMARY_DOWN,
	REFUSED_BUSY,
	REFUSED_NOT_NOTED,
	DECISIONS
};

struct fair *git_forward_places(bool is_of_pushes)
{
	return fair_new(is_of_pushes ? &push_limits : &read_limits);
}

static void count_as(enum read_or_push kind, enum decision decision)
{
	static const char *const classes[DECISIONS] = {
		"here",         "here_primary_down", "forwarded", "refused_primary_down",
		"refused_busy", "refused_not_noted"
	};
	static _Atomic(struct metric_series *) known[2][DECISIONS];
	struct metric_series *series = atomic_load(&known[kind][decision]);

	if (!series) {
		series = metric_at(
			metric_counter("refrelay_git_decisions_total",
				       "Git requests at a secondary, by who answered.",
				       "kind", "class"),
			kinds[kind], classes[decision]);
		atomic_store(&known[kind][decision], series);
	}
	metric_add(series, 1);
}

/* Where our own database fails nothing is known of the copy. */
static enum fresh git_forward_observe_copy(const struct web_request *request,
					   const char *name)
{
	enum fresh fresh;
	struct err err;

	if (freshness_look(request->services->freshness, name, &fresh, &err) == 0)
		return fresh;
	log_warn("git.freshness_unknown", LOG_ERR(&err), LOG_TEXT("repo", name));
	return FRESH_BEHIND;
}

enum git_place git_place(const struct web_request *request, const char *name,
			 enum fresh *fresh)
{
	struct freshness *freshness = request->services->freshness;

	if (!freshness)
		return GIT_HERE;
	if (!freshness_now(freshness, name, fresh)) {
		if (!request->may_wait)
			return GIT_LATER;
		*fresh = git_forward_observe_copy(request, name);
	}
	if (*fresh != FRESH)
		return GIT_ELSEWHERE;
	count_as(READ, HERE);
	return GIT_HERE;
}

/* One request to the primary. What it needs is kept until its answer is given on. */
struct passing {
	const struct web_services *services;
	struct forward *forward;
	enum read_or_push kind;
	struct fair *places;
	struct fair_place place;
	struct pace pace; /* of a client that sends */
	struct web_patience patience;
	char *name;
	bool is_marked;                    /* the copy: what is handed on may be newer */
	const struct web_request *request; /* NULL: its body is not to be had any more */
	size_t at;                         /* of the body of a read */
};

/* The client has its answer, or never will have it. */
static void end_push(const struct passing *passing)
{
	struct primary_line *line = NULL;
	struct event_ends ends;
	struct err err;
	bool is_known =
		primary_line_open(passing->services->primary, NULL, &line, &err) == 0;

	if (is_known) {
		primary_line_limit(line, LAST_EVENT_MS);
		is_known = primary_last_event(line, &ends, &err) == 0;
	}
	primary_line_close(line);
	freshness_mark_ended(passing->services->freshness, passing->name,
			     is_known ? &ends : NULL);
}

static void git_forward_close_passing(void *arg)
{
	struct passing *passing = arg;

	forward_close(passing->forward);
	if (passing->is_marked)
		end_push(passing);
	fair_leave(passing->places, &passing->place);
	free(passing->name);
	free(passing);
}

static ssize_t git_forward_read_passing(void *arg, void *buffer, size_t size)
{
	struct passing *passing = arg;
	struct err err = { 0 };
	ssize_t got = forward_read(passing->forward, buffer, size, &err);

	if (got < 0)
		log_warn("git.forward_broken", LOG_ERR(&err),
			 LOG_TEXT("repo", passing->name),
			 LOG_TEXT("kind", kinds[passing->kind]));
	return got;
}

/* The body of a read, which is here already. */
static ssize_t read_kept(void *arg, void *buffer, size_t size, struct err *err)
{
	struct passing *passing = arg;
	const struct web_request *request = passing->request;

	if (!request)
		return pass_on_answered_early(err);
	if (request->body_fd >= 0) {
		ssize_t got = pread(request->body_fd, buffer, size, (off_t)passing->at);
		if (got < 0)
			return err_errno(err, "cannot read the request");
		passing->at += (size_t)got;
		return got;
	}
	const struct str *body = request->body;
	size = size < body->len - passing->at ? size : body->len - passing->at;
	memcpy(buffer, body->data + passing->at, size);
	passing->at += size;
	return (ssize_t)size;
}

static bool git_forward_is_wanted(void *arg)
{
	struct passing *passing = arg;

	return fair_is_wanted(passing->places, &passing->place);
}

static bool git_forward_may_wait(void *arg)
{
	struct passing *passing = arg;

	return !pace_is_too_slow(&passing->pace) || !git_forward_is_wanted(passing);
}

static ssize_t git_forward_read_upload(void *arg, void *buffer, size_t size,
				       struct err *err)
{
	struct passing *passing = arg;

	if (!passing->request)
		return pass_on_answered_early(err);
	pace_begin_wait(&passing->pace);
	ssize_t count = web_read_upload(passing->request, buffer, size, err);
	pace_end_wait(&passing->pace);
	pace_add(&passing->pace, count > 0 ? (size_t)count : 0);
	return count;
}

static void add_common(const struct web_request *request, struct pass_on_headers *headers)
{
	pass_on_copy(headers, request, "Git-Protocol");
	pass_on_copy(headers, request, "User-Agent");
	pass_on_copy(headers, request, "Accept-Encoding");
	pass_on_copy(headers, request, "Via");
	if (strcmp(request->method, "POST") == 0)
		pass_on_copy(headers, request, "Content-Type");
}

/* The end of the URL at the primary: as it was asked of us, behind the name. */
static const char *git_forward_choose_url_end(const struct web_request *request)
{
	if (strcmp(request->method, "POST") != 0)
		return strcmp(git_request_service(request), GIT_UPLOAD_PACK) == 0
			       ? "/info/refs?service=" GIT_UPLOAD_PACK
			       : "/info/refs?service=" GIT_RECEIVE_PACK;
	return strcmp(git_request_service(request), GIT_UPLOAD_PACK) == 0
		       ? "/" GIT_UPLOAD_PACK
		       : "/" GIT_RECEIVE_PACK;
}

/* The client's own faults, and what the repository allows to nobody, are told as the
 * primary tells them; the client cannot help what is wrong between the sites. */
static bool git_forward_is_between_sites(const struct passing *passing,
					 const struct forward_answer *answer)
{
	int status = answer->status;

	if (status >= 300 && status < 400)
		return true;
	return passing->kind == READ && (status == 401 || status == 403) &&
	       strcmp(answer->error_reason.data, err_reason_name(REASON_CLOSED)) != 0;
}

static void git_forward_hand_on(struct passing *passing, struct forward_answer *answer,
				struct web_response *response)
{
	pass_on_head(answer, response);
	response->read = git_forward_read_passing;
	response->is_wanted = git_forward_is_wanted;
	response->least_rate = passing->pace.least;
	response->close = git_forward_close_passing;
	response->stream = passing;
	git_never_cache(response);
}

static void log_forwarded(const struct passing *passing, const char *reason,
			  const struct web_request *request, int status)
{
	log_info("git.forwarded", LOG_TEXT("repo", passing->name),
		 LOG_TEXT("kind", kinds[passing->kind]), LOG_TEXT("reason", reason),
		 LOG_TEXT("user", request->user), LOG_NUMBER("status", status));
}

/* The copy must come as far as what a reader is about to see. */
static void end_read(struct passing *passing, const struct forward_answer *answer)
{
	struct event_ends ends = { 0 };
	bool is_known = text_to_uint64(answer->last_event.data, &ends.last);

	snprintf(ends.timeline, sizeof(ends.timeline), "%s", answer->timeline.data);
	freshness_mark_ended(passing->services->freshness, passing->name,
			     is_known ? &ends : NULL);
	passing->is_marked = false;
}

/* Nothing has changed there, or nothing is shown. */
static void git_forward_drop_mark(struct passing *passing)
{
	freshness_mark_dropped(passing->services->freshness, passing->name);
	passing->is_marked = false;
}

static bool is_without_effect(const struct passing *passing, int result,
			      const struct forward_answer *answer, bool is_sent)
{
	if (result == 0)
		return answer->status >= 300 && answer->status < 500;
	return passing->kind == READ || !is_sent;
}

static bool is_of_type(const struct forward_answer *answer, const char *type)
{
	return answer->content_type.len > 0 &&
	       strncasecmp(answer->content_type.data, type, strlen(type)) == 0;
}

/* What a server in front says of a primary that it does not reach. refrelay itself
 * refuses with text for Git, and JSON for others. */
static bool is_of_server_in_front(const struct forward_answer *answer)
{
	return answer->status >= 502 && answer->status <= 504 &&
	       !is_of_type(answer, "text/plain") &&
	       !is_of_type(answer, "application/json");
}

static int not_reached(const struct forward_answer *answer, struct err *err)
{
	err_set(err, ERR_NETWORK,
		"a server in front of it answered in its place, with status %d",
		answer->status);
	return err_remedy(err, "see whether refrelay runs there, and look into that "
			       "server's log");
}

/* Sends it, and makes the answer of what comes back; takes `passing` in any case.
 * ERR_NETWORK and ERR_TIMEOUT are the caller's to tell. */
static int send_on(struct passing *passing, const struct web_request *request,
		   const struct http_request *asked, const char *reason,
		   struct web_response *response, struct err *err)
{
	struct forward_answer answer = { 0 };
	bool is_sent = false;
	int result = forward_open(passing->services->forwarder, asked, &passing->forward,
				  &answer, &is_sent, err);

	if (result == 0 && is_of_server_in_front(&answer))
		result = not_reached(&answer, err);
	passing->request = NULL;
	if (passing->is_marked && is_without_effect(passing, result, &answer, is_sent))
		git_forward_drop_mark(passing);
	if (passing->is_marked && passing->kind == READ)
		end_read(passing, &answer);
	if (result == 0)
		log_forwarded(passing, reason, request, answer.status);
	if (result == 0 && git_forward_is_between_sites(passing, &answer)) {
		pass_on_refuse_status(response, answer.status);
		result = 1;
	}
	if (result == 0)
		git_forward_hand_on(passing, &answer, response);
	else
		git_forward_close_passing(passing);
	forward_answer_clear(&answer);
	return result < 0 ? -1 : 0;
}

/* NULL: there is no place for it; the client is told to come again. */
static struct passing *git_forward_new_passing(const struct web_request *request,
					       const char *name, enum read_or_push kind,
					       struct web_response *response)
{
	const struct web_services *services = request->services;
	struct passing *passing = xcalloc(1, sizeof(*passing));
	struct client client;

	passing->places =
		kind == PUSH ? services->forwarded_pushes : services->forwarded_reads;
	client_of_request(request, &client);
	if (fair_enter(passing->places, &passing->place, &client.names, PLACE_MS,
		       request->stop) != FAIR_ENTERED) {
		free(passing);
		count_as(kind, REFUSED_BUSY);
		pass_on_refuse(response, 503, "BUSY",
			       "too many requests are being passed on to the primary",
			       "try again in a moment");
		return NULL;
	}
	passing->services = services;
	passing->kind = kind;
	passing->name = xstrdup(name);
	passing->request = request;
	passing->pace.least = serve_least_rate(services->serve);
	passing->patience = (struct web_patience){ git_forward_may_wait, passing };
	if (request->has_upload)
		web_set_patience(request, &passing->patience);
	return passing;
}

/* A pack shows nothing that its client had not been told of. */
static bool shows_refs(const struct web_request *request)
{
	static const char ls_refs[] = "command=ls-refs";
	const struct str *body = request->body;

	return strcmp(request->method, "POST") != 0 ||
	       (body->len > 4 + strlen(ls_refs) &&
		memcmp(body->data + 4, ls_refs, strlen(ls_refs)) == 0);
}

/* 0: as long as the work may take. */
static int64_t git_forward_choose_silence(const struct web_request *request,
					  enum fresh fresh)
{
	if (fresh == FRESH_NOT_HEARD)
		return SPARE_SILENCE_MS;
	return strcmp(request->method, "POST") == 0 ? 0 : LIST_SILENCE_MS;
}

/* 1: there is no place for it, which is the answer. */
static int git_forward_ask_primary(const struct web_request *request, const char *name,
				   enum fresh fresh, struct web_response *response,
				   struct err *err)
{
	AUTO_FREE char *url = NULL;
	AUTO_FREE char *token = NULL;
	AUTO_STR struct str whole = STR_INIT;
	struct pass_on_headers headers = { 0 };
	int64_t timeout_ms = serve_timeout_ms(request->services->serve);

	if (primary_git(request->services->primary, name, timeout_ms / 1000, &url, &token,
			err) != 0)
		return -1;
	str_addf(&whole, "%s%s", url, git_forward_choose_url_end(request));
	add_common(request, &headers);
	pass_on_add(&headers, "Authorization",
		    token ? token + strlen("Authorization: ") : NULL);
	struct passing *passing = git_forward_new_passing(request, name, READ, response);
	if (!passing)
		return 1;
	if (shows_refs(request)) {
		freshness_mark_began(request->services->freshness, name);
		passing->is_marked = true;
	}
	return send_on(
		passing, request,
		&(struct http_request){
			.method = request->method,
			.url = whole.data,
			.headers = headers.list,
			.read = strcmp(request->method, "POST") == 0 ? read_kept : NULL,
			.arg = passing,
			.body_size = UINT64_MAX,
			.silence_ms = git_forward_choose_silence(request, fresh),
			.until = clock_boot_ms() + timeout_ms,
			.stop = request->cut,
		},
		fresh_name(fresh), response, err);
}

/* Why the copy here would not do. */
static const char *why_not_here(enum fresh fresh)
{
	switch (fresh) {
	case FRESH_NOT_COPIED:
	case FRESH_GONE:
		return "no copy is here";
	case FRESH_HELD:
		return "the copy here waits for its operator";
	case FRESH_DAMAGED:
		return "the copy here is damaged";
	case FRESH_PUSHED:
		return "the copy here does not have your push yet";
	default:
		return "the copy here is behind";
	}
}

enum git_place git_forward_read(const struct web_request *request, const char *name,
				enum fresh fresh, struct web_response *response)
{
	struct err err = { 0 };

	if (pass_on_is_loop(request, response))
		return GIT_ELSEWHERE;
	if (fresh == FRESH_NOT_HEARD &&
	    forwarder_is_unanswered(request->services->forwarder, ASK_AGAIN_MS)) {
		count_as(READ, HERE_PRIMARY_DOWN);
		return GIT_HERE;
	}
	int result = git_forward_ask_primary(request, name, fresh, response, &err);
	if (result == 0)
		count_as(READ, FORWARDED);
	if (result >= 0)
		return GIT_ELSEWHERE;
	if (fresh == FRESH_NOT_HEARD) {
		count_as(READ, HERE_PRIMARY_DOWN);
		log_info("git.served_unheard", LOG_ERR(&err), LOG_TEXT("repo", name));
		return GIT_HERE;
	}
	count_as(READ, REFUSED_PRIMARY_DOWN);
	log_warn("git.not_forwarded", LOG_ERR(&err), LOG_TEXT("repo", name),
		 LOG_TEXT("kind", "read"), LOG_TEXT("reason", fresh_name(fresh)));
	AUTO_FREE char *message =
		xasprintf("%s, and the primary does not answer", why_not_here(fresh));
	pass_on_refuse(response, 503, "PRIMARY_UNREACHABLE", message,
		       "try again in a while");
	return GIT_ELSEWHERE;
}

static int pass_push(const struct web_request *request, struct passing *passing,
		     struct web_response *response, struct err *err)
{
	AUTO_FREE char *url = primary_url(request->services->primary, passing->name);
	AUTO_STR struct str whole = STR_INIT;
	struct pass_on_headers headers = { 0 };

	str_addf(&whole, "%s%s", url, git_forward_choose_url_end(request));
	add_common(request, &headers);
	pass_on_copy(&headers, request, "Authorization");
	return send_on(
		passing, request,
		&(struct http_request){
			.method = request->method,
			.url = whole.data,
			.headers = headers.list,
			.read = request->has_upload ? git_forward_read_upload : NULL,
			.arg = passing,
			.body_size = UINT64_MAX,
			.silence_ms = request->has_upload ? 0 : LIST_SILENCE_MS,
			.until = clock_boot_ms() +
				 serve_timeout_ms(request->services->serve),
			.stop = request->cut,
		},
		"push", response, err);
}

/* So that nobody is taken back behind it, even after a crash here. False: it must not be
 * passed on, which is the answer. */
static bool mark_push(struct passing *passing, struct web_response *response)
{
	struct err err;

	if (freshness_push_began(passing->services->freshness, passing->name, &err) ==
	    0) {
		passing->is_marked = true;
		return true;
	}
	count_as(PUSH, REFUSED_NOT_NOTED);
	log_warn("git.push_not_noted", LOG_ERR(&err), LOG_TEXT("repo", passing->name));
	pass_on_refuse(response, 503, "NOT_NOTED",
		       "this site cannot write down that a push goes through it, so it "
		       "was not passed on to the primary",
		       "try again in a while; this site's operator finds the reason in "
		       "its log");
	return false;
}

/* Of an error git shows only what answers its first request, which changes nothing. So
 * where a push could not be noted of late, that is tried before. */
static bool try_mark(const struct web_request *request, struct passing *passing,
		     struct web_response *response)
{
	if (!freshness_cannot_note(request->services->freshness) &&
	    !vitals_cannot_write(request->services->vitals))
		return true;
	if (!mark_push(passing, response))
		return false;
	git_forward_drop_mark(passing);
	return true;
}

static int forward_push(const struct web_request *request, bool may_change,
			struct web_response *response)
{
	AUTO_FREE char *name = git_request_repository(request);
	struct passing *passing;
	struct err err = { 0 };

	if (pass_on_is_loop(request, response))
		return 0;
	passing = git_forward_new_passing(request, name, PUSH, response);
	if (!passing)
		return 0;
	if (!(may_change ? mark_push(passing, response)
			 : try_mark(request, passing, response))) {
		git_forward_close_passing(passing);
		return 0;
	}
	if (pass_push(request, passing, response, &err) == 0) {
		count_as(PUSH, FORWARDED);
		return 0;
	}
	count_as(PUSH, REFUSED_PRIMARY_DOWN);
	log_warn("git.not_forwarded", LOG_ERR(&err), LOG_TEXT("repo", name),
		 LOG_TEXT("kind", "push"));
	AUTO_FREE char *message = xasprintf(
		"pushes go to the primary, and it does not answer: %s", err.text);
	pass_on_refuse(response, 503, "PRIMARY_UNREACHABLE", message,
		       "try again in a while; reading from here goes on");
	return 0;
}

int git_forward_push_refs(const struct web_request *request,
			  struct web_response *response, struct err *err)
{
	(void)err;
	return forward_push(request, false, response);
}

int git_forward_push(const struct web_request *request, struct web_response *response,
		     struct err *err)
{
	(void)err;
	if (!git_has_type(request, "application/x-git-receive-pack-request", response))
		return 0;
	return forward_push(request, true, response);
}
