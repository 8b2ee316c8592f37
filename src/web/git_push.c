/*
 * A push to a repository of this site. Git reports before it runs post-receive, so what
 * a client is told is held here until the event is committed: all refs of the push are in
 * one event, and nobody hears of a change that the event log has not.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "change/pushed.h"
#include "serve/pushes.h"
#include "web/git_parts.h"
#include "web/listen.h"

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
	size_t deletions, refused; /* of refs, as it was told before */
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
		result = notice_compare(record->services->notice, record->name, &noticed,
					err);
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

/* Who wants no report is told nothing, nor are we. */
static void git_push_log_outcome(void *arg, const struct receive_outcome *outcome)
{
	struct push_record *record = arg;
	const char *class = git_push_classify_outcome(outcome);
	bool is_refused = outcome->is_known && outcome->taken == 0;

	record->refused = outcome->refused < record->deletions ? outcome->refused
							       : record->deletions;
	metric_add(metric_at(metric_counter("refrelay_git_pushes_total",
					    "Pushes to repositories of this site that "
					    "ended, by what became of their refs.",
					    "class"),
			     class),
		   1);
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

	if (record->deletions > 0)
		pushed_end(record->services->notice, record->name, record->deletions,
			   record->refused);
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

int git_push_advertise(const struct web_request *request, struct web_response *response,
		       struct err *err)
{
	struct push_record *record = record_new(request);
	struct pushes_request wanted = git_push_make_request(request, record);
	struct serve_answer answer = SERVE_ANSWER_INIT;
	int result = pushes_advertise(request->services->pushes, &wanted, &answer, err);

	if (result == 0) {
		git_hand_over(&answer, "application/x-git-receive-pack-advertisement",
			      response);
	} else {
		look_at_it(record);
		result = git_failed(response, &answer, err);
	}
	serve_answer_clear(&answer);
	record_free(record);
	return result;
}

static int git_push_receive_pack(const struct web_request *request,
				 struct web_response *response, struct err *err)
{
	struct push_record *record = record_new(request);
	struct pushes_request wanted = git_push_make_request(request, record);
	struct serve_answer answer = SERVE_ANSWER_INIT;
	int result = pushes_receive(request->services->pushes, &wanted, &answer, err);

	if (result == 0) {
		record->request = NULL;
		git_hand_over(&answer, "application/x-git-receive-pack-result", response);
	} else {
		look_at_it(record);
		record_free(record);
		result = git_failed(response, &answer, err);
	}
	serve_answer_clear(&answer);
	return result;
}

int git_push_receive(const struct web_request *request, struct web_response *response,
		     struct err *err)
{
	if (!git_has_type(request, "application/x-git-receive-pack-request", response))
		return 0;
	return git_push_receive_pack(request, response, err);
}
