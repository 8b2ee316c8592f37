#include "report/report_blobs.h"

#include "base/metrics.h"
#include "push/queue_view.h"

#define REMOTES_SAID 3

static int read_owed(struct store_tx *tx, void *arg, struct err *err)
{
	return owed_look(tx, arg, err);
}

static void report_push_add_remote(const struct queue_view *view,
				   const struct push_remote *remote,
				   struct report_push *push)
{
	struct report_remote one = { .name = xstrdup(remote->name) };
	struct remote_sum sum;

	queue_view_sum(view, remote->name, &sum);
	one.waiting = sum.waiting;
	one.running = sum.running;
	one.failing = sum.failing;
	one.given_up = sum.letters;
	if (sum.oldest > 0) /* one that came after the clock was asked is a little old */
		one.lag_ms = view->now > sum.oldest ? view->now - sum.oldest : 1;
	if (sum.example) {
		one.example = xstrdup(sum.example->project);
		one.failure = sum.example->failure;
	}
	vec_add(&push->remotes, one);
}

static void report_push_add_uri(const struct queued_uri *uri, struct report_push *push)
{
	push->orphans += uri->is_orphan;
	if (uri->is_orphan || !uri->is_held)
		return;
	push->held++;
	if (!push->example_held)
		push->example_held = xstrdup(uri->project);
}

static void report_push_take_over(const struct queue_view *view,
				  const struct push_settings *settings,
				  struct report_push *push)
{
	for (size_t i = 0; i < settings->remotes.count; i++)
		report_push_add_remote(view, &settings->remotes.items[i], push);
	for (size_t i = 0; i < view->uris.count; i++)
		report_push_add_uri(&view->uris.items[i], push);
	push->unreadable = view->unreadable.count;
	push->given_up = view->letters.count;
	if (view->letters.count > 0) {
		push->example_given_up = xstrdup(view->letters.items[0].task.project);
		push->given_up_why = view->letters.items[0].why;
	}
}

static void report_push_read_tasks(const struct report_options *options,
				   struct task_store *tasks,
				   const struct push_settings *settings,
				   struct report_push *push)
{
	struct queue_view view;

	if (!tasks) {
		push->is_failing = true;
		if (options->push_failure)
			push->failure = *options->push_failure;
	} else if (queue_view_read(tasks, options->push_leases, settings, &view,
				   &push->failure) != 0) {
		push->is_failing = true;
	} else {
		report_push_take_over(&view, settings, push);
		queue_view_clear(&view);
	}
}

/* What is left of a site that has no word of push any more. Where no store is, none is
 * made. */
static void report_push_read_former(const struct report_options *options,
				    const char *directory, struct report_push *push)
{
	static const struct push_settings none;
	struct task_store *tasks;

	if (task_store_open_to_read(directory, options->data, &tasks, ERR_IGNORED) != 0)
		return;
	report_push_read_tasks(options, tasks, &none, push);
	task_store_close(tasks);
}

static bool report_push_has_leftovers(const struct report_push *push)
{
	return push->orphans > 0 || push->given_up > 0 || push->unreadable > 0 ||
	       push->owed.count > 0;
}

/* Without remotes only what is left of them matters. */
int report_push_read(const struct report_options *options, struct report *report,
		     struct err *err)
{
	const struct push_settings *settings = options->push_settings;
	const bool has_remotes = settings && settings->remotes.count > 0;
	AUTO_FREE char *former = settings ? NULL : push_default_directory(options->data);
	struct report_push *push = &report->push;

	if (!settings && options->leaves_out_tasks)
		return 0;
	if (store_read(options->store, read_owed, &push->owed, err) != 0)
		return -1;
	if (!options->leaves_out_tasks && settings)
		report_push_read_tasks(options, options->tasks, settings, push);
	else if (former && access(former, F_OK) == 0)
		report_push_read_former(options, former, push);
	push->is_failing = push->is_failing && has_remotes;
	push->is_on = has_remotes || report_push_has_leftovers(push);
	return 0;
}

void report_push_clear(struct report *report)
{
	struct report_push *push = &report->push;

	for (size_t i = 0; i < push->remotes.count; i++) {
		free(push->remotes.items[i].name);
		free(push->remotes.items[i].example);
	}
	vec_clear(&push->remotes);
	free(push->example_given_up);
	free(push->example_held);
}

static bool is_behind(const struct report_remote *remote)
{
	return remote->waiting + remote->running > 0;
}

bool report_push_is_good(const struct report_push *push)
{
	if (push->is_failing || push->orphans > 0 || push->given_up > 0 ||
	    push->unreadable > 0 || push->owed.count > 0)
		return false;
	for (size_t i = 0; i < push->remotes.count; i++)
		if (is_behind(&push->remotes.items[i]))
			return false;
	return true;
}

static void report_push_add_separator(size_t start, struct str *out)
{
	if (out->len > start)
		str_add(out, "; ");
}

static void say_remote(const struct report_remote *remote, struct str *out)
{
	size_t all = remote->waiting + remote->running;

	str_addf(out, "%s is ", remote->name);
	report_duration(remote->lag_ms, out);
	str_addf(out, " behind: %zu push%s waiting", all, all == 1 ? "" : "es");
	if (remote->failing == 0)
		return;
	str_addf(out, ", %zu failing, e.g. %s", remote->failing, remote->example);
	report_add_reason(&remote->failure, out);
}

/* The one that is most behind comes first. */
static const struct report_remote *worst(const struct report_push *push, int64_t below,
					 const struct report_remote *after)
{
	const struct report_remote *found = NULL;

	for (size_t i = 0; i < push->remotes.count; i++) {
		const struct report_remote *one = &push->remotes.items[i];
		bool is_said =
			one->lag_ms > below || (one->lag_ms == below && one <= after);
		if (is_behind(one) && !is_said && (!found || one->lag_ms > found->lag_ms))
			found = one;
	}
	return found;
}

static void say_remotes(const struct report_push *push, size_t start, struct str *out)
{
	const struct report_remote *one = NULL;
	size_t behind = 0, said = 0;

	for (size_t i = 0; i < push->remotes.count; i++)
		behind += is_behind(&push->remotes.items[i]);
	while (said < REMOTES_SAID &&
	       (one = worst(push, one ? one->lag_ms : INT64_MAX, one)) != NULL) {
		report_push_add_separator(start, out);
		say_remote(one, out);
		said++;
	}
	if (behind > said)
		str_addf(out, "; %zu more remote%s behind", behind - said,
			 behind - said == 1 ? " is" : "s are");
}

static void say_leftovers(const struct report_push *push, size_t start, struct str *out)
{
	if (push->given_up > 0) {
		report_push_add_separator(start, out);
		str_addf(out, "%zu push%s given up, e.g. %s", push->given_up,
			 push->given_up == 1 ? " was" : "es were",
			 push->example_given_up);
		str_addf(out, ": %s (%s%ssee refrelay push queue, then retry or discard)",
			 push->given_up_why.text, push->given_up_why.remedy,
			 push->given_up_why.remedy[0] ? "; " : "");
	}
	if (push->orphans > 0) {
		report_push_add_separator(start, out);
		str_addf(out,
			 "%zu destination%s no longer in any remote (see refrelay push "
			 "discard "
			 "--orphans)",
			 push->orphans, push->orphans == 1 ? " is" : "s are");
	}
	if (push->unreadable > 0) {
		report_push_add_separator(start, out);
		str_addf(out,
			 "%zu unreadable file%s in the task store (see refrelay check)",
			 push->unreadable, push->unreadable == 1 ? " is" : "s are");
	}
}

static void say_owed(const struct owed_summary *owed, size_t start, struct str *out)
{
	if (owed->count == 0)
		return;
	report_push_add_separator(start, out);
	str_addf(out,
		 "no push task could be written for %" PRId64
		 " changed repositor%s, e.g. %s",
		 owed->count, owed->count == 1 ? "y" : "ies", owed->example);
	report_add_reason(&owed->why, out);
}

void report_push_sentence(const struct report *report, struct str *out)
{
	const struct report_push *push = &report->push;
	size_t start = out->len;

	if (!push->is_on)
		return;
	if (push->is_failing) {
		str_addf(out, "%s cannot read its push tasks", report->site);
		report_add_reason(&push->failure, out);
	}
	say_owed(&push->owed, start, out);
	say_remotes(push, start, out);
	say_leftovers(push, start, out);
}

void report_push_table(const struct report *report, struct str *out)
{
	const struct report_push *push = &report->push;

	if (push->remotes.count == 0)
		return;
	str_addf(out, "\n  %-20s%10s%9s%9s%9s%10s\n", "remote", "lag", "waiting",
		 "running", "failing", "given up");
	for (size_t i = 0; i < push->remotes.count; i++) {
		const struct report_remote *one = &push->remotes.items[i];
		AUTO_STR struct str lag = STR_INIT;
		report_duration(one->lag_ms, &lag);
		str_addf(out, "  %-20s%10s%9zu%9zu%9zu%10zu\n", one->name, lag.data,
			 one->waiting, one->running, one->failing, one->given_up);
		if (!one->example)
			continue;
		str_addf(out, "    %s: %s: %s", one->example,
			 err_class_name(one->failure.class), one->failure.text);
		if (one->failure.remedy[0])
			str_addf(out, "; hint: %s", one->failure.remedy);
		str_add(out, "\n");
	}
}

static json_t *report_push_remote_json(const struct report_remote *remote)
{
	json_t *object = json_object();

	json_put_text(object, "name", remote->name);
	json_put_number(object, "waiting", (int64_t)remote->waiting);
	json_put_number(object, "running", (int64_t)remote->running);
	json_put_number(object, "failing", (int64_t)remote->failing);
	json_put_number(object, "given_up", (int64_t)remote->given_up);
	json_put_seconds(object, "lag", remote->lag_ms);
	json_put_text(object, "failing_example", remote->example);
	json_put(object, "failure",
		 remote->example ? json_from_err(&remote->failure) : json_null());
	return object;
}

void report_push_json(const struct report *report, json_t *object)
{
	const struct report_push *push = &report->push;
	json_t *array = json_array();

	if (!push->is_on) {
		json_decref(array);
		return;
	}
	for (size_t i = 0; i < push->remotes.count; i++)
		json_array_append_new(array,
				      report_push_remote_json(&push->remotes.items[i]));
	json_put(object, "remotes", array);
	json_t *store = json_object();
	json_put(store, "failure",
		 push->is_failing ? json_from_err(&push->failure) : json_null());
	json_put_number(store, "given_up", (int64_t)push->given_up);
	json_put_number(store, "orphans", (int64_t)push->orphans);
	json_put_number(store, "unreadable", (int64_t)push->unreadable);
	json_put_number(store, "owed", push->owed.count);
	json_put(object, "push", store);
}

/* What else there is of push, the node's own threads count. */
void report_push_metrics(const struct report *report)
{
	static const char help[] = "Changed repositories of which no task could be made "
				   "yet.";

	if (report->push.is_on)
		metric_set(metric_at(metric_gauge("refrelay_push_owed", help)),
			   (double)report->push.owed.count);
}
