/*
 * Starting and stopping. Two tokens: `ending` lets the distributor end what it drains and
 * then itself; `kill` ends children, whose tasks then wait again for another node, or for
 * the next start.
 */
#include "push/push.h"

#include <ctype.h>
#include <fcntl.h>
#include <sys/eventfd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/metrics.h"
#include "git/git_message.h"
#include "push/dead_letters.h"
#include "push/outcome.h"
#include "push/push_run.h"
#include "push/task_list.h"
#include "push/view.h"

static struct metric *push_ends(void)
{
	return metric_counter("refrelay_pushes_total",
			      "Pushes that ended, by how: ok, or the error's class.",
			      "remote", "class");
}

void report_class(const char *remote, enum err_class class)
{
	metric_add(metric_at(push_ends(), remote,
			     class == ERR_NONE ? "ok" : err_class_name(class)),
		   1);
}

static void count_refs(const char *remote, enum ref_status status, unsigned count)
{
	char state[64];
	size_t i;

	snprintf(state, sizeof(state), "%s", ref_status_name(status));
	for (i = 0; state[i]; i++)
		state[i] = (char)tolower((unsigned char)state[i]);
	metric_add(metric_at(metric_counter("refrelay_push_refs_total",
					    "Refs that were pushed, by their result.",
					    "remote", "state"),
			     remote, state),
		   count);
}

static struct metric *push_durations(void)
{
	return metric_histogram("refrelay_push_seconds", "How long pushes took.",
				metric_buckets_seconds, "remote");
}

static struct metric *push_delays(void)
{
	return metric_histogram("refrelay_push_delay_seconds",
				"How old the oldest change of a push was when it began.",
				metric_buckets_seconds, "remote");
}

static struct metric *push_slow(void)
{
	return metric_counter("refrelay_push_slow_total",
			      "Pushes that took longer than the remote's "
			      "slowLatencyThreshold.",
			      "remote");
}

static struct metric *pushes_without_git(void)
{
	return metric_counter("refrelay_pushes_without_git_total",
			      "Pushes to paths of this machine for which no git was "
			      "started.",
			      "remote");
}

/* So that what is counted of each remote is there from the start. */
static void push_begin_metrics(const char *name)
{
	const char *const *remote = METRIC_LIST(name);

	metric_begin(push_ends(), remote, METRIC_LIST("ok"));
	metric_begin(push_ends(), remote, err_class_names);
	for (int status = REF_OK; status <= REF_NOT_ATTEMPTED; status++)
		count_refs(name, (enum ref_status)status, 0);
	metric_begin(push_durations(), remote, NULL);
	metric_begin(push_delays(), remote, NULL);
	metric_begin(push_slow(), remote, NULL);
	metric_begin(pushes_without_git(), remote, NULL);
}

static void observe(const struct push_account *account, const struct push_remote *remote)
{
	const char *name = remote->name;

	metric_observe(metric_at(push_durations(), name),
		       (double)account->took_ms / 1000);
	metric_observe(metric_at(push_delays(), name), (double)account->delay_ms / 1000);
	metric_add(metric_at(push_slow(), name),
		   remote->slow_ms > 0 && account->took_ms > remote->slow_ms);
	metric_add(metric_at(pushes_without_git(), name), !account->result->used_git);
}

static void log_ref(const struct ref_result *result)
{
	log_at(ref_status_is_good(result->status) ? LOG_LEVEL_INFO : LOG_LEVEL_WARN,
	       "push.ref", LOG_TEXT("ref", result->ref), LOG_TEXT("dst", result->dst),
	       LOG_TEXT("status", ref_status_name(result->status)),
	       LOG_TEXT("text", result->text));
}

static size_t log_refs(const struct push_account *account, const char *remote)
{
	const ref_results *refs = &account->result->refs;
	size_t bad = 0, most = account->max_refs > 0 ? account->max_refs : SIZE_MAX;

	for (size_t i = 0; i < refs->count; i++) {
		bad += !ref_status_is_good(refs->items[i].status);
		count_refs(remote, refs->items[i].status, 1);
		if (i < most)
			log_ref(&refs->items[i]);
	}
	return bad;
}

void report_done(const struct push_account *account)
{
	const struct push_remote *remote = account->group->destination.remote;
	size_t bad = log_refs(account, remote->name);

	observe(account, remote);
	report_class(remote->name, bad > 0 ? ERR_CONFLICT : ERR_NONE);
	log_at(bad > 0 ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "push.done",
	       LOG_NUMBER("dur_ms", account->took_ms),
	       LOG_NUMBER("bytes", account->result->sent_bytes),
	       LOG_TEXT("remote", remote->name), LOG_TEXT("uri", account->uri),
	       LOG_NUMBER("refs", account->result->refs.count),
	       LOG_NUMBER("not_taken", bad),
	       LOG_NUMBER("pushes", account->result->pushes),
	       LOG_TEXT("by", account->result->used_git ? "git" : "refrelay"),
	       LOG_NUMBER("delay_ms", account->delay_ms),
	       LOG_NUMBER("retries", account->retries));
}

void push_report_failed(const struct push_run *run, int64_t retry_in_ms)
{
	log_at(err_is_transient(run->why.class) ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR,
	       "push.failed", LOG_ERR(&run->why), LOG_TEXT("repo", run->state.project),
	       LOG_TEXT("remote", run->state.remote), LOG_TEXT("uri", run->uri),
	       LOG_TEXT("remedy", run->why.remedy),
	       LOG_NUMBER("failures", run->state.failures),
	       LOG_NUMBER("retry_in_ms", retry_in_ms));
}

void report_gave_up(const struct push_group *group, const char *uri,
		    const struct err *why)
{
	log_error("push.gave_up", LOG_ERR(why),
		  LOG_TEXT("remote", group->destination.remote->name),
		  LOG_TEXT("uri", uri), LOG_TEXT("remedy", why->remedy));
}

static void push_metrics_set_gauge(struct metric *metric, const char *remote,
				   double value)
{
	metric_set(metric_at(metric, remote), value);
}

/* The age of the oldest by remote; in the order of the lanes, 0: none. Returns how many
 * URIs have no remote. */
static size_t find_oldest(const struct schedule *schedule, int64_t *oldest)
{
	const struct map_entry *at;
	size_t orphans = 0;

	for (size_t i = 0; (at = map_next(&schedule->entries, &i)) != NULL;) {
		const struct schedule_entry *entry = at->value;
		orphans += entry->state == ENTRY_ORPHAN;
		for (size_t lane = 0; lane < schedule->lanes.count; lane++)
			if (schedule->lanes.items[lane] == entry->lane &&
			    entry->tasks > 0 &&
			    (oldest[lane] == 0 || entry->since < oldest[lane]))
				oldest[lane] = entry->since;
	}
	return orphans;
}

static struct metric *waiting_gauge(void)
{
	return metric_gauge("refrelay_push_waiting", "URIs with tasks that wait.",
			    "remote");
}

static struct metric *running_gauge(void)
{
	return metric_gauge("refrelay_push_running", "URIs that this node is pushing to.",
			    "remote");
}

static struct metric *age_gauge(void)
{
	return metric_gauge("refrelay_push_oldest_seconds",
			    "How long the oldest task has been waiting.", "remote");
}

void report_forget(void)
{
	metric_forget(waiting_gauge());
	metric_forget(running_gauge());
	metric_forget(age_gauge());
}

void push_report_queue(const struct schedule *schedule, int64_t now)
{
	struct metric *waiting = waiting_gauge(), *running = running_gauge();
	struct metric *age = age_gauge();
	AUTO_FREE int64_t *oldest = xcalloc(schedule->lanes.count + 1, sizeof(*oldest));
	int64_t server_now = now + schedule->server_lead_ms;

	metric_set(metric_at(metric_gauge("refrelay_push_orphans",
					  "URIs that no remote takes any more.")),
		   (double)find_oldest(schedule, oldest));
	for (size_t i = 0; i < schedule->lanes.count; i++) {
		const struct schedule_lane *lane = schedule->lanes.items[i];
		int64_t since = oldest[i] > 0 ? oldest[i] : server_now;
		if (lane->threads == 0 && lane->running == 0)
			continue; /* it is not configured any more */
		push_metrics_set_gauge(waiting, lane->name, (double)lane->waiting);
		push_metrics_set_gauge(running, lane->name, (double)lane->running);
		push_metrics_set_gauge(age, lane->name,
				       (double)(server_now - since) / 1000);
	}
}

void push_report_dead_letters(struct task_store *tasks,
			      const struct push_settings *settings, struct map *letters)
{
	struct metric *gauge =
		metric_gauge("refrelay_push_dead_letters",
			     "Tasks that were given up and wait for a person.", "remote");
	const struct map_entry *letter;
	struct unreadable unreadable = { 0 };

	if (task_store_unreadable(tasks, &unreadable, ERR_IGNORED) == 0)
		metric_set(metric_at(metric_gauge("refrelay_push_unreadable",
						  "Files of the task store that were set "
						  "aside, or cannot be read.")),
			   (double)(unreadable.count + task_store_troubled(tasks)));
	unreadable_clear(&unreadable);
	if (task_store_letter_remotes(tasks, letters, ERR_IGNORED) != 0)
		return;
	metric_forget(gauge);
	for (size_t i = 0; i < settings->remotes.count; i++) {
		push_begin_metrics(settings->remotes.items[i].name);
		push_metrics_set_gauge(gauge, settings->remotes.items[i].name, 0);
	}
	for (size_t at = 0; (letter = map_next(letters, &at)) != NULL;)
		metric_add(metric_at(gauge, letter->value), 1);
}

#define WORDS_MAX 300

static char *cut_line(char **text)
{
	char *line = *text;
	size_t len = strcspn(line, "\n");

	if (!*line)
		return NULL;
	*text = line + len + (line[len] == '\n');
	line[len] = '\0';
	return line;
}

/* The summary may hold parentheses of its own only in what the other side gave as reason,
 * which comes last. */
static void split_summary(char *summary, struct push_line *line)
{
	char *reason = strstr(summary, " (");
	size_t len = strlen(summary);

	line->summary = summary;
	line->reason = "";
	if (!reason || summary[len - 1] != ')')
		return;
	summary[len - 1] = '\0';
	*reason = '\0';
	line->reason = reason + 2;
}

static bool push_report_parse_line(char *text, struct push_line *line)
{
	char *names, *summary, *dst;

	if (!text[0] || !strchr(" +-*!=", text[0]) || text[1] != '\t')
		return false;
	names = text + 2;
	summary = strchr(names, '\t');
	if (!summary)
		return false;
	*summary++ = '\0';
	dst = strchr(names, ':');
	if (!dst)
		return false;
	line->flag = text[0];
	line->dst = dst + 1;
	split_summary(summary, line);
	return true;
}

bool push_report_next(char **text, struct push_line *line)
{
	char *one;

	while ((one = cut_line(text)) != NULL)
		if (push_report_parse_line(one, line))
			return true;
	return false;
}

/* What a refusal comes to. */
static const struct {
	enum ref_status status;
	bool is_transient, is_lock;
} effects[] = {
	[REFUSAL_OTHER] = { REF_REJECTED_OTHER_REASON, false, false },
	[REFUSAL_STALE] = { REF_REJECTED_OTHER_REASON, false, false },
	[REFUSAL_LOCKED] = { REF_REJECTED_OTHER_REASON, true, true },
	[REFUSAL_CHANGED] = { REF_REJECTED_REMOTE_CHANGED, true, false },
	[REFUSAL_UNPACKING] = { REF_REJECTED_OTHER_REASON, true, false },
	[REFUSAL_TOGETHER] = { REF_REJECTED_OTHER_REASON, false, false },
	[REFUSAL_PASSING] = { REF_REJECTED_OTHER_REASON, true, false },
	[REFUSAL_NO_FORCE] = { REF_REJECTED_NONFASTFORWARD, false, false },
	[REFUSAL_NO_DELETION] = { REF_REJECTED_NODELETE, false, false },
	[REFUSAL_DELETES_HEAD] = { REF_REJECTED_NODELETE, false, false },
};

/* Shortened, and in one line. */
static void add_clean(const char *said, struct str *out)
{
	size_t len = strlen(said), start = out->len;

	str_add_utf8(out, said, len > WORDS_MAX ? WORDS_MAX : len);
	for (size_t i = start; i < out->len; i++)
		if (iscntrl((unsigned char)out->data[i]))
			out->data[i] = ' ';
	if (len > WORDS_MAX)
		str_add(out, "...");
}

static void fill_text(const struct push_line *line, const char *tail,
		      struct ref_result *result)
{
	AUTO_STR struct str text = STR_INIT, words = STR_INIT;

	add_clean(*line->reason ? line->reason : line->summary, &text);
	git_message_add_words(tail, &words);
	if (words.len > 0) {
		str_add(&text, ": ");
		add_clean(words.data, &text);
	}
	result->text = str_take(&text);
}

/* A branch cannot be made where a directory of branches is, however often it is tried. */
static void push_report_refuse(const struct push_line *line, enum git_refusal refusal,
			       const char *tail, struct ref_result *result)
{
	bool may_pass = !git_message_is_in_the_way(tail, line->dst);

	result->status = effects[refusal].status;
	result->is_transient = effects[refusal].is_transient && may_pass;
	result->is_lock = effects[refusal].is_lock && may_pass;
	result->deletes_head = refusal == REFUSAL_DELETES_HEAD;
	fill_text(line, tail, result);
}

enum push_verdict push_report_judge(const struct push_line *line, const char *tail,
				    struct ref_result *result)
{
	enum git_refusal refusal = git_message_refusal(line->reason);
	bool is_here = git_message_is_refused_here(line->summary);

	free(TAKE(result->text));
	result->is_transient = result->is_lock = result->needs_force = false;
	result->deletes_head = false;
	if (line->flag != '!') {
		result->status = line->flag == '=' ? REF_UP_TO_DATE : REF_OK;
		return PUSH_SETTLED;
	}
	if (is_here && refusal == REFUSAL_STALE)
		return PUSH_STALE;
	push_report_refuse(line, refusal, is_here ? "" : tail, result);
	result->needs_force = is_here && refusal == REFUSAL_NO_FORCE;
	return result->needs_force ? PUSH_NEEDS_FORCE : PUSH_SETTLED;
}

bool push_report_is_unpacking(const struct push_line *line)
{
	return line->flag == '!' &&
	       git_message_refusal(line->reason) == REFUSAL_UNPACKING;
}

bool push_report_is_together(const struct push_line *line)
{
	return push_report_is_unpacking(line) ||
	       (line->flag == '!' &&
		git_message_refusal(line->reason) == REFUSAL_TOGETHER);
}

#define SILENT                                                                           \
	"it is tried again; see what the host of the URL does all the time, or raise "   \
	"timeout of the remote"

/* What stopped it from outside is no matter of what it had to say. */
int push_report_failure(const char *tail, struct err *err)
{
	if (err->class == ERR_LOST || err->class == ERR_CANCELED)
		return -1;
	if (err->reason == REASON_SILENT)
		return err_remedy(err, SILENT);
	if (tail[0]) /* of this machine, or of the destination's */
		err->sys_errno = 0;
	if (!git_message_find(SPEAKER_PUSH, tail, err) && err->class == ERR_INTERNAL)
		git_message_guess(tail, err);
	return -1;
}

int push_report_unpacking(const char *tail, struct err *err)
{
	struct err said;

	if (!git_message_find(SPEAKER_PUSH, tail, &said) || said.class != ERR_DISK)
		return 0;
	*err = said;
	return -1;
}

bool push_report_is_local(const char *tail, struct err *err)
{
	struct err known;

	if (git_message_find(SPEAKER_PUSH, tail, &known) ||
	    !git_message_find(SPEAKER_PACK, tail, err))
		return false;
	outcome_is_local(err, NULL);
	return true;
}

const char *ref_status_name(enum ref_status status)
{
	static const char *const names[] = {
		[REF_OK] = "OK",
		[REF_UP_TO_DATE] = "UP_TO_DATE",
		[REF_NON_EXISTING] = "NON_EXISTING",
		[REF_REJECTED_NONFASTFORWARD] = "REJECTED_NONFASTFORWARD",
		[REF_REJECTED_NODELETE] = "REJECTED_NODELETE",
		[REF_REJECTED_REMOTE_CHANGED] = "REJECTED_REMOTE_CHANGED",
		[REF_REJECTED_OTHER_REASON] = "REJECTED_OTHER_REASON",
		[REF_NOT_ATTEMPTED] = "NOT_ATTEMPTED",
	};

	return names[status];
}

bool ref_status_is_good(enum ref_status status)
{
	return status == REF_OK || status == REF_UP_TO_DATE || status == REF_NON_EXISTING;
}

void push_poke(struct push *push)
{
	const uint64_t one = 1;

	/* Only fails if the counter is full: then it is readable anyway. */
	if (write(push->wake_fd, &one, sizeof(one)) < 0)
		return;
}

struct push_settings *push_settings_of(struct push *push)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&push->mutex);

	return push_settings_ref(push->settings);
}

static void push_free(struct push *push)
{
	struct push_run *run;

	while ((run = TAILQ_FIRST(&push->finished)) != NULL) {
		TAILQ_REMOVE(&push->finished, run, link);
		push_run_free(run);
	}
	push_settings_unref(push->settings);
	stop_clear(&push->ending);
	stop_clear(&push->kill);
	pthread_mutex_destroy(&push->mutex);
	if (push->wake_fd >= 0)
		close(push->wake_fd);
	free(push->directory);
	free(push);
}

int push_start(const struct push_options *options, struct push **started, struct err *err)
{
	struct push *push = xcalloc(1, sizeof(*push));

	push->options = *options;
	push->settings = push_settings_ref(options->settings);
	push->has_new_settings = true;
	push->directory = xasprintf("%s/tmp", options->data);
	TAILQ_INIT(&push->finished);
	mutex_init(&push->mutex);
	stop_init(&push->ending);
	stop_init(&push->kill);
	push->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (push->wake_fd < 0) {
		err_errno(err, "cannot make an eventfd");
		push_free(push);
		return -1;
	}
	if (dir_make(AT_FDCWD, push->directory, err) != 0) {
		push_free(push);
		return -1;
	}
	view_sweep(push->directory);
	push->pool = pool_start("push", 1);
	thread_start(&push->startup, "push startup", startup_run, push);
	thread_start(&push->distributor, "distributor", distributor_run, push);
	*started = push;
	return 0;
}

void push_stop(struct push *push, int64_t grace_ms)
{
	if (!push)
		return;
	lock(&push->mutex);
	push->grace_ms = grace_ms;
	unlock(&push->mutex);
	stop_request(&push->ending);
	thread_join(push->startup);
	thread_join(push->distributor);
	stop_request(&push->kill);
	pool_drain(push->pool); /* what was submitted ends by itself, at once */
	pool_stop(push->pool, NULL);
	lease_release(push->presence);
	push_free(push);
}

void push_set(struct push *push, struct push_settings *settings)
{
	lock(&push->mutex);
	push_settings_unref(push->settings);
	push->settings = push_settings_ref(settings);
	push->has_new_settings = true;
	unlock(&push->mutex);
	push_poke(push);
}

void push_wake(struct push *push)
{
	lock(&push->mutex);
	push->is_woken = true;
	unlock(&push->mutex);
	push_poke(push);
}

void push_look(struct push *push, struct push_look *look)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&push->mutex);

	*look = push->look;
}
