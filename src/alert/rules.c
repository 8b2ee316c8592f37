/*
 * Each trouble has a subject that stays the same as long as it lasts: numbers and
 * examples are in the text. What cannot be known just now, as right after a start, is
 * open.
 */
#include "alert/rules.h"

#include <stdarg.h>

#include "base/log.h"
#include "pull/freshness.h"
#include "replicable/name.h"

#define PLENTY_FACTOR 1.1 /* of a bound of disk space: then there is enough again */
#define START_MS 15000    /* by then the node has tried its database and its leases */
#define DAMAGE_SETTLES 2  /* what was mended is told of all the same */

struct alert_judging {
	const struct alert_facts *facts;
	const struct report *report;
	const struct alert *alert;
	alert_troubles *troubles;
};

void alert_endings_clear(alert_endings *endings)
{
	vec_clear_members(endings, what);
}

void alert_endings_copy(const alert_endings *from, alert_endings *to)
{
	for (size_t i = 0; i < from->count; i++) {
		struct alert_ending one = from->items[i];
		one.what = xstrdup(one.what);
		vec_add(to, one);
	}
}

void alert_disks_clear(alert_disks *disks)
{
	vec_clear_members(disks, path);
}

void alert_troubles_clear(alert_troubles *troubles)
{
	for (size_t i = 0; i < troubles->count; i++) {
		free(troubles->items[i].subject);
		free(troubles->items[i].text);
		free(troubles->items[i].remedy);
	}
	vec_clear(troubles);
}

/* The last one's text and remedy come later. Borrowed until the next. */
static PRINTF_LIKE(3,
		   4) struct alert_trouble *rule_add(const struct alert_judging *judging,
						     enum alert_kind kind,
						     const char *fmt, ...)
{
	struct alert_trouble trouble = { .kind = kind };
	AUTO_STR struct str subject = STR_INIT;
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	str_add_utf8(&subject, text, strlen(text));
	trouble.subject = xstrdup(subject.data);
	trouble.text = xstrdup("");
	trouble.remedy = xstrdup("");
	vec_add(judging->troubles, trouble);
	return &judging->troubles->items[judging->troubles->count - 1];
}

/* As a person reads it, and JSON takes it. */
static void rule_set_text(char **at, const char *text)
{
	AUTO_STR struct str redacted = STR_INIT, printable = STR_INIT;

	log_redact(text, &redacted);
	str_add_printable(&printable, redacted.data);
	free(*at);
	*at = xstrdup(printable.data);
}

static PRINTF_LIKE(3, 4) void rule_say(struct alert_trouble *trouble, const char *remedy,
				       const char *fmt, ...)
{
	char text[1024];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	rule_set_text(&trouble->text, text);
	rule_set_text(&trouble->remedy, remedy ? remedy : "");
}

static bool rule_is_wanted(const struct alert_judging *judging, enum alert_kind kind)
{
	return judging->alert->kinds & 1u << kind;
}

static char *rule_span(int64_t ms)
{
	struct str text = STR_INIT;

	report_duration(ms > 0 ? ms : 0, &text);
	return str_take(&text);
}

/*
 * Lag.
 */

static void rule_add_lag(const struct alert_judging *judging, const char *subject,
			 int64_t lag_ms, bool is_known, const char *remedy)
{
	const int64_t bound_ms = judging->alert->lag_ms;
	struct alert_trouble *trouble;

	if (is_known && lag_ms <= bound_ms / 2)
		return;
	trouble = rule_add(judging, ALERT_LAG, "%s", subject);
	trouble->is_open = !is_known || lag_ms <= bound_ms;
	trouble->since = judging->facts->now - lag_ms;
	AUTO_FREE char *lag = rule_span(lag_ms), *bound = rule_span(bound_ms);
	rule_say(trouble, remedy, "%s is %s behind (the limit is %s)", subject, lag,
		 bound);
}

static bool rule_is_comparing(const struct report *report)
{
	return report->signs.heard_age_ms < 0 && report->signs.news_void != NEWS_COUNT;
}

/* While all is compared no news count, and each answer of the primary is a sign of life.
 * -1: none since the start. */
static int64_t rule_heard_ms(const struct report *report)
{
	if (!rule_is_comparing(report) || report->heard_at == 0)
		return report->signs.heard_age_ms;
	return int64_max(report->now - report->heard_at, 0);
}

/* While the primary is silent nobody knows how far it is ahead; that has a kind of its
 * own, which may not be wanted. While all is compared, what is known is the least. */
static void rule_lag_of_copies(const struct alert_judging *judging)
{
	const struct report *report = judging->report;
	const int64_t heard_ms = rule_heard_ms(report);
	const bool is_heard =
		heard_ms >= 0 && heard_ms <= VERDICT_HEARD_MS &&
		(!rule_is_comparing(report) || report->lag_ms > judging->alert->lag_ms);

	if (report->role == SITE_SECONDARY)
		rule_add_lag(judging, report->site, report->lag_ms,
			     is_heard || !rule_is_wanted(judging, ALERT_SILENCE),
			     "see refrelay status");
	for (size_t i = 0; i < report->secondaries.count; i++) {
		const struct report_secondary *one = &report->secondaries.items[i];
		const bool is_silent = one->age_ms < 0 || one->age_ms > VERDICT_HEARD_MS;
		if (one->is_expected && one->seen_at > 0)
			rule_add_lag(judging, one->site, one->lag_ms,
				     !is_silent ||
					     !rule_is_wanted(judging, ALERT_SILENCE),
				     "see refrelay status there");
	}
}

static void rule_lag(const struct alert_judging *judging)
{
	const struct report *report = judging->report;
	const struct report_mirrors *mirrors = &report->mirrors;

	rule_lag_of_copies(judging);
	for (size_t i = 0; i < report->push.remotes.count; i++) {
		const struct report_remote *one = &report->push.remotes.items[i];
		AUTO_FREE char *subject = xasprintf("remote %s", one->name);
		rule_add_lag(judging, subject, one->lag_ms, true,
			     "see refrelay push queue");
	}
	if (mirrors->stale > 0)
		rule_say(
			rule_add(judging, ALERT_LAG, "mirrors"),
			"see refrelay mirror list",
			"mirrors not confirmed equal to their upstreams in time: %" PRId64
			" of %" PRId64,
			mirrors->stale, mirrors->all);
	if (mirrors->lists_stale > 0)
		rule_say(rule_add(judging, ALERT_LAG, "lists of mirrors"),
			 "see refrelay mirror list",
			 "lists of upstreams not read in time: %" PRId64 ", e.g. %s",
			 mirrors->lists_stale, mirrors->list ? mirrors->list : "?");
}

/*
 * Failures, and damage, which is one of a certain class.
 */

static struct alert_trouble *rule_add_failure(const struct alert_judging *judging,
					      const char *subject)
{
	struct alert_trouble *trouble = rule_add(judging, ALERT_FAILURES, "%s", subject);

	trouble->bound_ms = judging->alert->failures_ms;
	return trouble;
}

static struct alert_trouble *rule_add_failure_since(const struct alert_judging *judging,
						    const char *subject, int64_t since)
{
	struct alert_trouble *trouble = rule_add_failure(judging, subject);

	trouble->since = since;
	return trouble;
}

/* What a primary reads wrong on its own disk is damage, unless it could not be read. */
static bool rule_is_damage(const struct alert_judging *judging, const char *class)
{
	const enum err_class is = err_class_of_name(class);

	return is == ERR_CORRUPT ||
	       (judging->report->role != SITE_SECONDARY && !err_is_transient(is));
}

static void rule_failing_class(const struct alert_judging *judging, const char *kind,
			       const struct report_failures *one)
{
	const bool is_damage = rule_is_damage(judging, one->class);
	const char *noun = strcmp(kind, KIND_REPOSITORY) == 0 ? "repositories" : kind;
	AUTO_FREE char *subject = xasprintf("%s: %s", noun, one->class);
	AUTO_FREE char *remedy = xasprintf(
		"see refrelay %s --failed",
		strcmp(kind, KIND_REPOSITORY) == 0 ? "repository list" : "blob list");
	struct alert_trouble *trouble;

	if (!rule_is_wanted(judging, is_damage ? ALERT_DAMAGE : ALERT_FAILURES))
		return;
	trouble = is_damage ? rule_add(judging, ALERT_DAMAGE, "%s", subject)
			    : rule_add_failure(judging, subject);
	if (one->since > 0)
		trouble->since = one->since - judging->report->skew_ms;
	rule_say(trouble, remedy, "%s %s: %" PRId64 " (%s), e.g. %s: %s", noun,
		 is_damage ? "damaged" : "failing", one->count, one->class, one->example,
		 one->failure ? one->failure : "?");
}

static void rule_failing_rows(const struct alert_judging *judging)
{
	const struct report *report = judging->report;

	for (size_t i = 0; i < report->examples.failing.count; i++)
		rule_failing_class(judging, KIND_REPOSITORY,
				   &report->examples.failing.items[i]);
	for (size_t k = 0; k < report->blobs.count; k++) {
		const struct report_kind *kind = &report->blobs.items[k];
		for (size_t i = 0; i < kind->examples.failing.count; i++)
			rule_failing_class(judging, kind->type,
					   &kind->examples.failing.items[i]);
	}
}

/* What is being tried again just now has not failed, but is not mended either. */
static void rule_retrying_rows(const struct alert_judging *judging)
{
	for (size_t i = 0; i < judging->facts->retrying.count; i++) {
		const struct alert_retrying *one = &judging->facts->retrying.items[i];
		const bool is_mirror = strcmp(one->kind, KIND_MIRROR) == 0;
		const struct report_failures failure = { .class = one->class,
							 .example = one->example };
		const size_t before = judging->troubles->count;
		if (is_mirror && rule_is_wanted(judging, ALERT_FAILURES))
			rule_add_failure(judging, "mirrors");
		else if (!is_mirror)
			rule_failing_class(judging, one->kind, &failure);
		if (judging->troubles->count > before)
			judging->troubles->items[before].is_open = true;
	}
}

static void rule_failing_mirrors(const struct alert_judging *judging)
{
	const struct report_mirrors *mirrors = &judging->report->mirrors;
	const struct report_mirror_example *one = &mirrors->one_failing;

	if (mirrors->failing > 0)
		rule_say(rule_add_failure_since(judging, "mirrors",
						mirrors->failing_since),
			 one->remedy, "mirrors failing: %" PRId64 ", e.g. %s: %s",
			 mirrors->failing, one->name ? one->name : "?",
			 one->why ? one->why : "?");
	if (mirrors->checkouts_failing > 0)
		rule_say(rule_add_failure_since(judging, "working trees",
						mirrors->checkouts_failing_since),
			 mirrors->checkout_remedy,
			 "working trees of mirrors failing: %" PRId64 ", e.g. %s: %s",
			 mirrors->checkouts_failing, mirrors->checkout,
			 mirrors->checkout_why);
	if (mirrors->lists_failing > 0)
		rule_say(rule_add_failure(judging, "lists of mirrors"),
			 mirrors->list_remedy,
			 "lists of upstreams failing: %" PRId64 ", e.g. %s: %s",
			 mirrors->lists_failing, mirrors->list, mirrors->list_why);
}

static void rule_failing_pushes(const struct alert_judging *judging)
{
	const struct report_push *push = &judging->report->push;

	for (size_t i = 0; i < push->remotes.count; i++) {
		const struct report_remote *one = &push->remotes.items[i];
		if (one->failing + one->running == 0)
			continue;
		AUTO_FREE char *subject = xasprintf("remote %s", one->name);
		struct alert_trouble *trouble = rule_add_failure(judging, subject);
		trouble->is_open = one->failing == 0;
		if (one->failing > 0)
			rule_say(trouble, one->failure.remedy,
				 "pushes to %s failing: %zu, e.g. %s: %s", one->name,
				 one->failing, one->example, one->failure.text);
	}
	if (push->owed.count > 0)
		rule_say(rule_add_failure(judging, "push tasks"), push->owed.why.remedy,
			 "changed repositories without a push task: %" PRId64
			 ", e.g. %s: %s",
			 push->owed.count, push->owed.example, push->owed.why.text);
	if (push->is_failing)
		rule_say(rule_add_failure(judging, "push task store"),
			 push->failure.remedy, "the push tasks cannot be read: %s",
			 push->failure.text);
}

static int64_t rule_count_left_out(const struct report *report, const char **example)
{
	int64_t count = report->scan.left_out;

	*example = report->scan.example;
	for (size_t i = 0; i < report->blobs.count; i++) {
		const struct scan_record *scan = &report->blobs.items[i].scan;
		if (count == 0)
			*example = scan->example;
		count += scan->left_out;
	}
	return count;
}

/* Whether what it lacks is what failed, its report does not tell. A damaged copy lacks no
 * change. */
static void rule_say_tried_again(const struct report_secondary *one,
				 struct alert_trouble *trouble)
{
	AUTO_FREE char *lag = rule_span(one->lag_ms);

	trouble->is_reworded = true;
	rule_say(trouble, "see refrelay status there",
		 "failed at %s before; by now tried again, or done: %" PRId64
		 " still to copy there%s%s",
		 one->site, one->behind, one->lag_ms > 0 ? ", behind by " : "",
		 one->lag_ms > 0 ? lag : "");
}

/* What it tries again has not failed for it, and lacks a change for long. */
static void rule_failing_there(const struct alert_judging *judging,
			       const struct report_secondary *one)
{
	AUTO_FREE char *subject = xasprintf("at %s", one->site);
	struct alert_trouble *trouble;

	if (one->failing == 0 &&
	    (one->behind <= 0 ||
	     (one->lag_ms > 0 && one->lag_ms < judging->alert->settle_ms)))
		return;
	trouble = rule_add_failure(judging, subject);
	trouble->is_open = one->failing == 0;
	if (one->failing > 0)
		rule_say(trouble, "see refrelay status there", "failing at %s: %" PRId64,
			 one->site, one->failing);
	else
		rule_say_tried_again(one, trouble);
}

static void rule_missing(const struct alert_judging *judging)
{
	const struct report *report = judging->report;

	if (report->repositories.states[REGISTRY_MISSING_ON_PRIMARY] > 0)
		rule_say(rule_add_failure(judging, "missing on the primary"),
			 "see refrelay repository list --state missing_on_primary",
			 "repositories missing on the primary: %" PRId64,
			 report->repositories.states[REGISTRY_MISSING_ON_PRIMARY]);
	for (size_t i = 0; i < report->blobs.count; i++) {
		const struct report_kind *one = &report->blobs.items[i];
		const int64_t count = one->counts.states[REGISTRY_MISSING_ON_PRIMARY];
		if (count == 0)
			continue;
		AUTO_FREE char *subject =
			xasprintf("%s: missing on the primary", one->type);
		AUTO_FREE char *remedy = xasprintf(
			"see refrelay blob list --type %s --state missing_on_primary",
			one->type);
		rule_say(rule_add_failure(judging, subject), remedy,
			 "%s missing on the primary: %" PRId64, one->type, count);
	}
}

static void rule_failing_others(const struct alert_judging *judging)
{
	const struct report *report = judging->report;
	const char *example;
	const int64_t left_out = rule_count_left_out(report, &example);

	if (left_out > 0)
		rule_say(rule_add_failure(judging, "left out"), "see refrelay check",
			 "left out of replication: %" PRId64 ", e.g. %s", left_out,
			 example);
	rule_missing(judging);
	for (size_t i = 0; i < report->secondaries.count; i++) {
		const struct report_secondary *one = &report->secondaries.items[i];
		AUTO_FREE char *twice = xasprintf("two nodes of %s", one->site);
		if (one->is_twice)
			rule_say(rule_add_failure(judging, twice),
				 "stop one of them, or give it a name of its own",
				 "two nodes use the name %s", one->site);
		if (one->is_expected)
			rule_failing_there(judging, one);
	}
}

static void rule_failures(const struct alert_judging *judging)
{
	rule_failing_mirrors(judging);
	rule_failing_pushes(judging);
	rule_failing_others(judging);
}

/* What the rows say of it comes from rule_failing_rows(). The node may end before a look
 * that comes later: only this process knows of it. */
static void rule_damage(const struct alert_judging *judging)
{
	const struct alert_facts *facts = judging->facts;

	if (facts->damage_age_ms < 0 ||
	    facts->damage_age_ms >
		    DAMAGE_SETTLES * (judging->alert->settle_ms + facts->look_ms))
		return;
	struct alert_trouble *trouble = rule_add(judging, ALERT_DAMAGE, "found");
	trouble->is_past = true;
	rule_say(trouble, "check the disk; refrelay replaces damaged copies by itself",
		 "damage found: %s", facts->damage.text);
}

/*
 * What waits for a person.
 */

static void rule_held_rows(const struct alert_judging *judging, const char *subject,
			   int64_t count, const struct report_examples *examples)
{
	if (count > 0)
		rule_say(rule_add(judging, ALERT_HELD, "%s", subject), examples->remedy,
			 "held %s: %" PRId64 ", e.g. %s: %s", subject, count,
			 examples->held ? examples->held : "?",
			 examples->reason ? examples->reason : "?");
}

static void rule_held_pushes(const struct alert_judging *judging)
{
	const struct report_push *push = &judging->report->push;
	const size_t count =
		push->given_up + push->orphans + push->unreadable + push->held;
	const char *example =
		push->example_given_up ? push->example_given_up : push->example_held;

	if (count > 0)
		rule_say(
			rule_add(judging, ALERT_HELD, "push tasks"),
			push->held > 0
				? "see refrelay push queue and refrelay check; then push "
				  "retry (--force permits held deletions) or discard"
				: "see refrelay push queue and refrelay check; then push "
				  "retry or discard",
			"push tasks given up: %zu, without a remote: %zu, unreadable: "
			"%zu; held deletions of repositories: %zu%s%s",
			push->given_up, push->orphans, push->unreadable, push->held,
			example ? ", e.g. " : "", example ? example : "");
}

static void rule_held(const struct alert_judging *judging)
{
	const struct report *report = judging->report;

	rule_held_rows(judging, "repositories", report->repositories.held,
		       &report->examples);
	for (size_t i = 0; i < report->blobs.count; i++)
		rule_held_rows(judging, report->blobs.items[i].type,
			       report->blobs.items[i].counts.held,
			       &report->blobs.items[i].examples);
	if (report->mirrors.held > 0)
		rule_say(rule_add(judging, ALERT_HELD, "mirrors"),
			 report->mirrors.one_held.remedy,
			 "held mirrors: %" PRId64 ", e.g. %s: %s", report->mirrors.held,
			 report->mirrors.one_held.name, report->mirrors.one_held.why);
	for (size_t i = 0; i < report->secondaries.count; i++) {
		const struct report_secondary *one = &report->secondaries.items[i];
		if (one->is_expected && one->held > 0)
			rule_say(rule_add(judging, ALERT_HELD, "at %s", one->site),
				 "see refrelay status there", "held at %s: %" PRId64,
				 one->site, one->held);
	}
	rule_held_pushes(judging);
}

/*
 * Disks.
 */

/* 1: too little; 0: maybe; -1: enough. */
static int rule_judge_room(const struct alert *alert, uint64_t room, uint64_t all)
{
	const double least = alert->disk_share > 0 ? alert->disk_share * (double)all
						   : (double)alert->disk_bytes;

	return (double)room < least ? 1 : (double)room < PLENTY_FACTOR * least ? 0 : -1;
}

static void rule_disk_bytes(const struct alert_judging *judging,
			    const struct alert_disk *disk)
{
	const int verdict = rule_judge_room(judging->alert, disk->room, disk->all);
	AUTO_STR struct str room = STR_INIT, all = STR_INIT;
	struct alert_trouble *trouble;

	if (verdict < 0)
		return;
	trouble = rule_add(judging, ALERT_DISK, "%s", disk->path);
	trouble->is_open = verdict == 0;
	report_size((int64_t)disk->room, &room);
	report_size((int64_t)disk->all, &all);
	rule_say(trouble, "free some space, or enlarge the file system",
		 "only %s of %s free at %s (%s)", room.data, all.data, disk->path,
		 disk->what);
}

static void rule_disk_files(const struct alert_judging *judging,
			    const struct alert_disk *disk)
{
	const int verdict = judging->alert->disk_share > 0 && disk->all_files > 0
				    ? rule_judge_room(judging->alert, disk->room_files,
						      disk->all_files)
				    : -1;
	struct alert_trouble *trouble;

	if (verdict < 0)
		return;
	trouble = rule_add(judging, ALERT_DISK, "files at %s", disk->path);
	trouble->is_open = verdict == 0;
	rule_say(trouble, "remove files that are not needed, or enlarge the file system",
		 "only %" PRIu64 " of %" PRIu64 " inodes free at %s (%s)",
		 disk->room_files, disk->all_files, disk->path, disk->what);
}

static void rule_disk(const struct alert_judging *judging)
{
	for (size_t i = 0; i < judging->facts->disks.count; i++) {
		rule_disk_bytes(judging, &judging->facts->disks.items[i]);
		rule_disk_files(judging, &judging->facts->disks.items[i]);
	}
}

/*
 * The rest.
 */

static void rule_expiry(const struct alert_judging *judging)
{
	const alert_endings *endings = &judging->facts->endings;

	for (size_t i = 0; i < endings->count; i++) {
		const struct alert_ending *one = &endings->items[i];
		const int64_t left_ms = one->at_ms - judging->facts->now;
		if (one->at_ms > 0 && left_ms > judging->alert->expiry_ms)
			continue;
		AUTO_FREE char *left = rule_span(left_ms);
		struct alert_trouble *trouble =
			rule_add(judging, ALERT_EXPIRY, "%s", one->what);
		trouble->is_open = one->at_ms == 0;
		rule_say(trouble, one->remedy, "%s %s%s", one->what,
			 left_ms > 0 ? "expires in " : "has expired",
			 left_ms > 0 ? left : "");
	}
}

/* age_ms -1: not since the node's start; then the site is given as long. */
static struct alert_trouble *rule_add_silence(const struct alert_judging *judging,
					      const char *subject, int64_t age_ms)
{
	const int64_t silent_ms = age_ms >= 0 ? age_ms : judging->facts->uptime_ms;
	const bool is_silent = silent_ms > judging->alert->silence_ms;
	struct alert_trouble *trouble;

	if (!is_silent && age_ms >= 0)
		return NULL;
	trouble = rule_add(judging, ALERT_SILENCE, "%s", subject);
	trouble->is_open = !is_silent;
	trouble->since = judging->facts->now - silent_ms;
	return trouble;
}

static void rule_silence_of_primary(const struct alert_judging *judging)
{
	const struct report *report = judging->report;
	const int64_t age_ms = rule_heard_ms(report);
	struct alert_trouble *trouble = rule_add_silence(judging, "primary", age_ms);

	if (!trouble)
		return;
	AUTO_FREE char *silent =
		rule_span(age_ms >= 0 ? age_ms : judging->facts->uptime_ms);
	rule_say(trouble,
		 report->is_failing ? report->failure.remedy
				    : "see refrelay status at the primary",
		 "nothing heard from the primary for %s%s%s", silent,
		 report->is_failing ? ": " : "",
		 report->is_failing ? report->failure.text : "");
}

static void rule_silence(const struct alert_judging *judging)
{
	const struct report *report = judging->report;

	if (report->role == SITE_SECONDARY)
		rule_silence_of_primary(judging);
	for (size_t i = 0; i < report->secondaries.count; i++) {
		const struct report_secondary *one = &report->secondaries.items[i];
		struct alert_trouble *trouble =
			one->is_expected
				? rule_add_silence(judging, one->site, one->age_ms)
				: NULL;
		if (!trouble)
			continue;
		AUTO_FREE char *silent =
			rule_span(one->age_ms >= 0   ? one->age_ms
				  : one->seen_at > 0 ? judging->facts->now - one->seen_at
						     : judging->facts->uptime_ms);
		rule_say(trouble, "check whether its node runs, and can reach this one",
			 "nothing heard from %s for %s", one->site, silent);
	}
}

static void rule_hooks(const struct alert_judging *judging)
{
	const struct scan_record *scan = &judging->report->scan;
	const int64_t lacking = hook_counts_lacking(&scan->hooks);

	if (judging->report->role == SITE_SECONDARY || !judging->facts->had_hooks ||
	    (scan->has_hooks && lacking == 0))
		return;
	struct alert_trouble *trouble = rule_add(judging, ALERT_HOOKS, "hooks");
	trouble->is_open = !scan->has_hooks;
	rule_say(trouble, "run refrelay hooks install; refrelay hooks list names them",
		 "repositories with missing or outdated hooks: %" PRId64 " of %" PRId64
		 ", e.g. %s; changes there are noticed late",
		 lacking, lacking + scan->hooks.states[HOOK_INSTALLED],
		 scan->hooks.example);
}

static void rule_leases(const struct alert_judging *judging)
{
	const struct vital_signs *signs = &judging->report->signs;
	const bool is_new = judging->facts->uptime_ms < START_MS;

	if (signs->leases_away == 0 && !is_new)
		return;
	struct alert_trouble *trouble = rule_add(judging, ALERT_LEASES, "leases");
	trouble->is_open = signs->leases_away == 0;
	trouble->since = signs->leases_away;
	rule_say(trouble, signs->leases_failure.remedy,
		 "the lease server is unavailable, so no new work starts: %s",
		 signs->leases_failure.text);
}

/* A write that hangs does not fail. */
static void rule_storage_of_node(const struct alert_judging *judging)
{
	const struct vital_signs *signs = &judging->report->signs;
	const bool fails = signs->write_failure.class != ERR_NONE;
	const int64_t age_ms = signs->written_age_ms;
	const int64_t silent_ms = age_ms >= 0 ? age_ms : judging->facts->uptime_ms;
	const bool is_stuck = silent_ms > VERDICT_WRITTEN_MS;

	if (!fails && !is_stuck && age_ms >= 0)
		return;
	struct alert_trouble *trouble = rule_add(judging, ALERT_STORAGE, "writing");
	trouble->is_open = !fails && !is_stuck;
	if (fails) {
		rule_say(trouble, signs->write_failure.remedy,
			 "the database or a directory of copies cannot be written: %s",
			 signs->write_failure.text);
		return;
	}
	AUTO_FREE char *silent = rule_span(silent_ms);
	trouble->since = judging->facts->now - silent_ms;
	rule_say(trouble, "check the disks, or the file servers: one may hang",
		 "the database or a directory of copies was not written for %s", silent);
}

static void rule_scan(const struct alert_judging *judging, const char *subject,
		      const char *what, const struct scan_record *scan)
{
	if (scan->failing_since > 0)
		rule_say(rule_add(judging, ALERT_STORAGE, "%s", subject),
			 scan->failure.remedy, "the %s cannot be scanned: %s", what,
			 scan->failure.text);
}

/* One that hangs does not fail. The signs do not tell which one it is; if one fails, that
 * may be all. */
static void rule_scan_is_late(const struct alert_judging *judging, bool fails)
{
	const struct vital_signs *signs = &judging->report->signs;

	if (signs->scan_age_ms < 0 || signs->scan_left_ms >= 0)
		return;
	struct alert_trouble *trouble = rule_add(judging, ALERT_STORAGE, "scans");
	trouble->is_open = fails;
	trouble->since = judging->facts->now - signs->scan_age_ms;
	AUTO_FREE char *age = rule_span(signs->scan_age_ms);
	rule_say(trouble,
		 "check the disks, or the file servers: one may hang; or there is very "
		 "much that changed",
		 "no full scan has finished for %s", age);
}

static void rule_scans(const struct alert_judging *judging)
{
	const struct report *report = judging->report;
	const size_t before = judging->troubles->count;

	rule_scan(judging, "repositories", "repositories", &report->scan);
	for (size_t i = 0; i < report->blobs.count; i++) {
		const struct report_kind *one = &report->blobs.items[i];
		AUTO_FREE char *what = xasprintf("blobs of kind %s", one->type);
		rule_scan(judging, one->type, what, &one->scan);
	}
	rule_scan_is_late(judging, judging->troubles->count > before);
}

static void rule_storage(const struct alert_judging *judging)
{
	const struct report *report = judging->report;

	rule_storage_of_node(judging);
	if (report->is_root_lost)
		rule_say(rule_add(judging, ALERT_STORAGE, "copies"),
			 report->root_failure.remedy, "the copies cannot be found: %s",
			 report->root_failure.text);
	if (report->role != SITE_SECONDARY)
		rule_scans(judging);
}

static void rule_no_report(const struct alert_judging *judging)
{
	if (rule_is_wanted(judging, ALERT_STORAGE))
		rule_say(rule_add(judging, ALERT_STORAGE, "database"),
			 judging->facts->why_not.remedy,
			 "the database cannot be read: %s", judging->facts->why_not.text);
}

void alert_rules(const struct alert_facts *facts, const struct alert *alert,
		 alert_troubles *troubles)
{
	static void (*const rules[ALERT_KINDS])(const struct alert_judging *judging) = {
		[ALERT_LAG] = rule_lag,         [ALERT_FAILURES] = rule_failures,
		[ALERT_HELD] = rule_held,       [ALERT_DAMAGE] = rule_damage,
		[ALERT_DISK] = rule_disk,       [ALERT_EXPIRY] = rule_expiry,
		[ALERT_SILENCE] = rule_silence, [ALERT_HOOKS] = rule_hooks,
		[ALERT_LEASES] = rule_leases,   [ALERT_STORAGE] = rule_storage,
	};
	const struct alert_judging judging = { facts, facts->report, alert, troubles };

	if (!facts->report) {
		rule_no_report(&judging);
		return;
	}
	rule_failing_rows(&judging);
	rule_retrying_rows(&judging);
	for (int kind = 0; kind < ALERT_KINDS; kind++)
		if (rule_is_wanted(&judging, (enum alert_kind)kind))
			rules[kind](&judging);
}
