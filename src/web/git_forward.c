/*
 * A secondary answers a read itself where its copy is fresh; for all other reads, and for
 * pushes, it asks the primary and hands on what that says, as it comes.
 *
 * Reads are asked for with this site's own right to read: who may read here was decided
 * here. Pushes are asked for with what the client showed: who may push the primary
 * decides, so nobody can push there who holds only a secondary's secret.
 *
 * What went through here, whoever pushed it must find here, too: from before a push until
 * the copy has caught up with the log as it was after it, the copy counts as behind. That
 * begins with the first byte of what is pushed, which the primary asks for when it has
 * let the pusher in: else anybody could have readers sent away while the primary is down.
 * The same holds for a read that was handed on: nobody is taken back behind what he has
 * seen.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "web/answer.h"
#include "web/git_parts.h"
#include "web/pass_on.h"
#include "web/web_metrics.h"
#include "wire/wire.h"

enum {
	LAST_EVENT_MS = 10 * 1000,
	/* For how long the primary may be silent before it lists refs, which is what each
	 * client asks for first; and where the copy here would do, and be done with. */
	LIST_SILENCE_MS = 15 * 1000,
	SPARE_SILENCE_MS = 5 * 1000,
	ASK_AGAIN_MS = 10 * 1000, /* such a primary, for readers whom the copy would do */
	PUSH_CONTINUE_MS = 20 * 1000, /* for its word that it wants the body */
};

/* The primary lets this site have 64 connections if it is not told otherwise, and who
 * holds all of them keeps it from following the primary. Those who push are not known
 * here: they could hold each other up there, where passwords are checked. */
static const struct fair_limits read_limits = { .places = 20,
						.waiting = 128,
						.each = 16 },
				push_limits = { .places = 20, .waiting = 128, .each = 8 };

/* Of blobs, and objects of Git LFS: git-lfs sends 8 at once, which hold up no push. */
static const struct fair_limits file_limits = { .places = 16,
						.waiting = 128,
						.each = 12 };

enum read_or_push { READ, PUSH };

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

struct fair *git_forward_file_places(void)
{
	return fair_new(&file_limits);
}

static const char *const git_forward_types[] = { "read", "push", NULL };
static const char *const git_forward_decisions[DECISIONS + 1] = {
	"here",         "here_primary_down", "forwarded", "refused_primary_down",
	"refused_busy", "refused_not_noted", NULL
};

static struct metric *git_forward_counter(void)
{
	return metric_counter("refrelay_git_decisions_total",
			      "Git requests at a secondary, by who answered.", "kind",
			      "class");
}

void git_forward_begin_metrics(void)
{
	metric_begin(git_forward_counter(), git_forward_types, git_forward_decisions);
}

static void git_forward_count(enum read_or_push kind, enum decision decision)
{
	static _Atomic(struct metric_series *) known[2][DECISIONS];
	struct metric_series *series = atomic_load(&known[kind][decision]);

	if (!series) {
		series = metric_at(git_forward_counter(), git_forward_types[kind],
				   git_forward_decisions[decision]);
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

enum git_place git_forward_place(const struct web_request *request, const char *name,
				 enum fresh *fresh)
{
	struct freshness *freshness = request->services->freshness;

	if (!freshness_now(freshness, name, fresh)) {
		if (!request->may_wait)
			return GIT_LATER;
		*fresh = git_forward_observe_copy(request, name);
	}
	if (*fresh != FRESH)
		return GIT_ELSEWHERE;
	git_forward_count(READ, HERE);
	return GIT_HERE;
}

static void git_forward_end(struct pass_on *passing)
{
	struct primary_line *line = NULL;
	struct event_ends ends;
	struct err err;

	if (!passing->is_marked)
		return;
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

/* The copy must come as far as what a reader is about to see. Not before: as long as the
 * primary says nothing, whoever waits for it keeps nobody else from the copy. */
static void git_forward_mark_read(struct pass_on *passing)
{
	struct freshness *freshness = passing->services->freshness;
	AUTO_STR struct str timeline = STR_INIT;
	AUTO_STR struct str last_event = STR_INIT;
	struct event_ends ends = { 0 };

	forward_add_header(passing->forward, WIRE_TIMELINE, &timeline);
	forward_add_header(passing->forward, WIRE_LAST_EVENT, &last_event);
	bool is_known = text_to_uint64(last_event.data, &ends.last);
	snprintf(ends.timeline, sizeof(ends.timeline), "%s", timeline.data);
	freshness_mark_began(freshness, passing->name);
	freshness_mark_ended(freshness, passing->name, is_known ? &ends : NULL);
}

/* Nothing has changed there, or nothing is shown. */
static void git_forward_drop_mark(struct pass_on *passing)
{
	freshness_mark_dropped(passing->services->freshness, passing->name);
	passing->is_marked = false;
}

/* Whether a primary answers so before it changes anything: a push that is done has other
 * errors, such as a 409 if it could not be recorded. A 400 or 413 may be meant of what
 * comes behind commands that git has carried out by then. Of a read all of them show
 * nothing. */
static bool git_forward_is_refusal(int status, bool is_read)
{
	static const int refusals[] = { 401, 403, 404, 415 };

	if (is_read)
		return status >= 300;
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++)
		if (status == refusals[i])
			return true;
	return status >= 300 && status < 400;
}

static void git_forward_settle(struct pass_on *passing, int result, bool is_sent)
{
	bool is_read = passing->kind->is_own_right;
	int status = result == 0 ? forward_status(passing->forward) : 0;
	bool is_without_effect = result == 0 ? git_forward_is_refusal(status, is_read)
					     : is_read || !is_sent;

	if (passing->is_marked && is_without_effect)
		git_forward_drop_mark(passing);
	if (passing->shows_refs && !is_without_effect)
		git_forward_mark_read(passing);
}

/* So that nobody is taken back behind it, even after a crash here. -1: it must not be
 * passed on. */
static int git_forward_mark_push(struct pass_on *passing, struct err *err)
{
	*passing->is_noted = freshness_push_began(passing->services->freshness,
						  passing->name, err) == 0;
	passing->is_marked = *passing->is_noted;
	return passing->is_marked ? 0 : -1;
}

static const char *const git_read_headers[] = {
	"Git-Protocol", "User-Agent", "Accept-Encoding", "Via", "Content-Type", NULL,
};
static const char *const git_push_headers[] = {
	"Git-Protocol",  "User-Agent", "Accept-Encoding", "Via", "Content-Type",
	"Authorization", NULL,
};

static const struct pass_on_kind git_forward_kinds[] = {
	[READ] = { .forwarded = "git.forwarded",
		   .broken = "git.forward_broken",
		   .name_field = "repo",
		   .type = "read",
		   .headers = git_read_headers,
		   .is_own_right = true,
		   .reports_closed = true,
		   .knows_front = true,
		   .settle = git_forward_settle,
		   .finish_answer = git_never_cache,
		   .end = git_forward_end },
	[PUSH] = { .forwarded = "git.forwarded",
		   .not_forwarded = "git.not_forwarded",
		   .broken = "git.forward_broken",
		   .name_field = "repo",
		   .type = "push",
		   .unreached = "pushes go to the primary",
		   .remedy = "try again in a while; reading from here goes on",
		   .headers = git_push_headers,
		   .begin_body = git_forward_mark_push,
		   .knows_front = true,
		   .settle = git_forward_settle,
		   .finish_answer = git_never_cache,
		   .end = git_forward_end },
};

/* NULL: there is no place for it, which is the answer. */
static struct pass_on *git_forward_new(const struct web_request *request,
				       const char *name, enum read_or_push kind,
				       struct web_response *response)
{
	const struct web_services *services = request->services;

	return pass_on_new(&git_forward_kinds[kind], request, name,
			   kind == PUSH ? services->forwarded_pushes
					: services->forwarded_reads,
			   response);
}

static int git_forward_send(struct pass_on *passing, const char *reason,
			    int64_t silence_ms, struct web_response *response,
			    struct err *err)
{
	const struct web_request *request = passing->request;

	return pass_on_send(
		passing,
		(struct http_request){
			.body_size = UINT64_MAX,
			.silence_ms = silence_ms,
			.continue_ms = passing->is_noted ? PUSH_CONTINUE_MS : 0,
			.until = clock_boot_ms() +
				 serve_timeout_ms(request->services->serve),
		},
		git_forward_choose_url_end(request),
		(struct log_field[]){ LOG_TEXT("reason", reason),
				      LOG_TEXT("user", request->user),
				      { 0 } },
		response, err);
}

/* A pack shows nothing that its client had not been told of, unless it wants refs by
 * their names. A large request may be for refs, too. */
static bool git_forward_shows_refs(const struct web_request *request)
{
	const struct str *body = request->body;

	if (request->body_fd >= 0)
		return true;
	return strcmp(request->method, "POST") != 0 ||
	       memmem(body->data, body->len, "command=ls-refs", 15) != NULL ||
	       memmem(body->data, body->len, "want-ref ", 9) != NULL;
}

/* 0: the usual limit, since whoever works sends signs of life. */
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
	struct pass_on *passing = git_forward_new(request, name, READ, response);

	if (!passing)
		return 1;
	passing->shows_refs = git_forward_shows_refs(request);
	passing->is_spared = fresh == FRESH_NOT_HEARD;
	return git_forward_send(passing, fresh_name(fresh),
				git_forward_choose_silence(request, fresh), response,
				err);
}

/* Why the copy here would not do. */
static const char *git_forward_explain(enum fresh fresh)
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

/* The copy would do if the primary were away: where it has no place for us, too. */
static enum git_place git_forward_serve_unheard(bool is_busy, const char *name,
						struct web_response *response,
						struct err *err)
{
	if (is_busy) {
		answer_reset(response);
		err_set(err, ERR_BUSY, PASS_ON_BUSY);
	}
	git_forward_count(READ, HERE_PRIMARY_DOWN);
	log_info("git.served_unheard", LOG_ERR(err), LOG_TEXT("repo", name));
	return GIT_HERE;
}

enum git_place git_forward_read(const struct web_request *request, const char *name,
				enum fresh fresh, struct web_response *response)
{
	struct err err = { 0 };

	if (pass_on_is_loop(request, response))
		return GIT_ELSEWHERE;
	if (fresh == FRESH_NOT_HEARD &&
	    forwarder_is_unanswered(request->services->forwarder, ASK_AGAIN_MS)) {
		git_forward_count(READ, HERE_PRIMARY_DOWN);
		return GIT_HERE;
	}
	int result = git_forward_ask_primary(request, name, fresh, response, &err);
	if (result != 0 && fresh == FRESH_NOT_HEARD)
		return git_forward_serve_unheard(result == 1, name, response, &err);
	if (result >= 0) {
		git_forward_count(READ, result == 0 ? FORWARDED : REFUSED_BUSY);
		return GIT_ELSEWHERE;
	}
	git_forward_count(READ, REFUSED_PRIMARY_DOWN);
	log_warn("git.not_forwarded", LOG_ERR(&err), LOG_TEXT("repo", name),
		 LOG_TEXT("kind", "read"), LOG_TEXT("reason", fresh_name(fresh)));
	AUTO_FREE char *message = xasprintf("%s, and the primary does not answer",
					    git_forward_explain(fresh));
	pass_on_refuse(response, 503, "PRIMARY_UNREACHABLE", message,
		       "try again in a while");
	return GIT_ELSEWHERE;
}

bool git_forward_unknown(const struct web_request *request, const char *name,
			 struct web_response *response)
{
	struct err err = { 0 };

	if (pass_on_is_loop(request, response))
		return true;
	if (forwarder_is_unanswered(request->services->forwarder, ASK_AGAIN_MS))
		return false;
	int result =
		git_forward_ask_primary(request, name, FRESH_NOT_HEARD, response, &err);
	if (result == 0)
		git_forward_count(READ, FORWARDED);
	else
		answer_reset(response);
	return result == 0;
}

static void git_forward_refuse_unnoted(const char *name, const struct err *err,
				       struct web_response *response)
{
	git_forward_count(PUSH, REFUSED_NOT_NOTED);
	log_warn("git.push_not_noted", LOG_ERR(err), LOG_TEXT("repo", name));
	pass_on_refuse(response, 503, "NOT_NOTED",
		       "this site cannot write down that a push goes through it, so it "
		       "was not passed on to the primary",
		       "try again in a while; this site's operator finds the reason in "
		       "its log");
}

/* Of an error git shows only what answers its first request, which changes nothing. So
 * where a push could not be noted of late, that is tried before. */
static int git_forward_try_mark(struct pass_on *passing, struct err *err)
{
	const struct web_services *services = passing->services;

	if (!freshness_cannot_note(services->freshness) &&
	    !vitals_cannot_write(services->vitals))
		return 0;
	if (git_forward_mark_push(passing, err) != 0)
		return -1;
	git_forward_drop_mark(passing);
	return 0;
}

void git_forward_push(const struct web_request *request, enum git_push_step step,
		      struct web_response *response)
{
	AUTO_FREE char *name = git_request_repository(request);
	struct pass_on *passing;
	struct err err = { 0 };
	bool is_noted = true;
	int result = -1;

	if (pass_on_is_loop(request, response))
		return;
	passing = git_forward_new(request, name, PUSH, response);
	if (!passing) {
		git_forward_count(PUSH, REFUSED_BUSY);
		return;
	}
	passing->is_noted = &is_noted;
	if (step == GIT_PUSH_LISTS && git_forward_try_mark(passing, &err) != 0)
		pass_on_close(passing);
	else
		result = git_forward_send(
			passing, "push",
			git_forward_choose_silence(request, FRESH_PUSHED), response,
			&err);
	if (result == 0) {
		git_forward_count(PUSH, FORWARDED);
		return;
	}
	if (!is_noted) {
		git_forward_refuse_unnoted(name, &err, response);
		return;
	}
	git_forward_count(PUSH, REFUSED_PRIMARY_DOWN);
	pass_on_refuse_unreached(&git_forward_kinds[PUSH], request, name, &err, response);
}
