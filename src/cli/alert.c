/*
 * `refrelay alert`: who is told of troubles, what is wrong now, and whether a message
 * gets through.
 */
#include "alert/send.h"
#include "alert/store.h"
#include "base/clock.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/site.h"
#include "net/http.h"
#include "report/report.h"

struct alert_call {
	bool is_json;
	const char *word; /* NAME, or NULL */
	struct site site;
	struct site_data data;
	struct alerts alerts;
	json_t *array; /* with --json */
	size_t tried, failed;
	bool is_interrupted;
};

static const struct cli_option rows[] = {
	CLI_JSON(struct alert_call),
	{ 0 },
};

enum { LIST, TEST };

static const struct cli_verb verbs[] = {
	[LIST] = { "list", .help = "what is wrong now, and what was sent" },
	[TEST] = { "test", .most = 1, .operands = "[NAME]",
		   .help = "send a test message, and say what came of it" },
	{ 0 },
};

const struct cli_options alert_options = {
	.rows = rows, .verbs = verbs, .takes = "list or test [NAME]", .column = 15
};

/*
 * list
 */

static void cli_alert_format_time(int64_t wall_ms, char text[CLOCK_TEXT_SIZE])
{
	if (wall_ms > 0)
		clock_format(wall_ms, text);
	else
		snprintf(text, CLOCK_TEXT_SIZE, "never");
}

static const char *cli_alert_state_word(const struct alert_entry *entry)
{
	return entry->is_over       ? "over"
	       : entry->gone_at > 0 ? "ending"
	       : entry->is_due      ? "present"
				    : "pending";
}

static json_t *cli_alert_entry_json(const struct alert_entry *entry)
{
	json_t *object = json_object();

	json_put_text(object, "kind", alert_kind_name(entry->kind));
	json_put_text(object, "subject", entry->subject);
	json_put_text(object, "state", cli_alert_state_word(entry));
	json_put_message(object, "message", entry->text);
	json_put_message(object, "remedy", entry->remedy);
	json_put_time(object, "since", entry->since);
	json_put_time(object, "ended_at", entry->gone_at);
	json_put_time(object, "sent_at", entry->told_at);
	return object;
}

static void cli_alert_put_heartbeat(const struct alert *alert,
				    const struct alert_sending *sending, json_t *object)
{
	AUTO_STR struct str host = STR_INIT;
	json_t *heartbeat = json_object();

	if (!alert->heartbeat) {
		json_decref(heartbeat);
		json_put(object, "heartbeat", json_null());
		return;
	}
	http_check_url(alert->heartbeat, true, &host);
	json_put_text(heartbeat, "to", host.data);
	json_put_time(heartbeat, "sent_at", sending->beat_at);
	json_put_time(heartbeat, "failing_since", sending->beat_failing_since);
	json_put_text(heartbeat, "failure",
		      sending->beat_failing_since > 0 ? sending->beat_why : NULL);
	json_put(object, "heartbeat", heartbeat);
}

static json_t *cli_alert_kinds_json(const struct alert *alert)
{
	json_t *array = json_array();

	for (int kind = 0; kind < ALERT_KINDS; kind++)
		if (alert->kinds & 1u << kind)
			json_array_append_new(array, json_string(alert_kind_name(
							     (enum alert_kind)kind)));
	return array;
}

static json_t *cli_alert_json(const struct alert *alert, const struct alert_state *state,
			      const struct alert_sending *sending)
{
	AUTO_STR struct str target = STR_INIT;
	json_t *object = json_object(), *troubles = json_array();

	alert_target(alert, &target);
	json_put_text(object, "name", alert->name);
	json_put_text(object, "way", alert_way(alert));
	json_put_text(object, "to", target.len > 0 ? target.data : NULL);
	json_put(object, "kinds", cli_alert_kinds_json(alert));
	json_put_time(object, "sent_at", sending->sent_at);
	json_put_time(object, "failing_since", sending->failing_since);
	json_put_time(object, "failed_at", sending->failed_at);
	json_put(object, "failure",
		 sending->failing_since > 0 ? json_from_err(&sending->why) : json_null());
	cli_alert_put_heartbeat(alert, sending, object);
	for (size_t i = 0; i < state->entries.count; i++)
		json_array_append_new(troubles,
				      cli_alert_entry_json(&state->entries.items[i]));
	json_put(object, "troubles", troubles);
	return object;
}

static void cli_alert_print_entry(const struct alert_entry *entry)
{
	char since[CLOCK_TEXT_SIZE], told[CLOCK_TEXT_SIZE];

	cli_alert_format_time(entry->since, since);
	cli_alert_format_time(entry->told_at, told);
	cli_print("  %s, %s: %s; since %s, last sent %s", alert_kind_name(entry->kind),
		  cli_alert_state_word(entry), entry->text, since, told);
	if (entry->remedy[0])
		cli_print("    what to do: %s", entry->remedy);
}

static void cli_alert_print_failures(const struct alert_sending *sending)
{
	char since[CLOCK_TEXT_SIZE];

	if (sending->failing_since > 0) {
		cli_alert_format_time(sending->failing_since, since);
		cli_print("  cannot be sent since %s: %s%s%s", since, sending->why.text,
			  sending->why.remedy[0] ? "; what to do: " : "",
			  sending->why.remedy);
	}
	if (sending->beat_failing_since == 0)
		return;
	cli_alert_format_time(sending->beat_failing_since, since);
	cli_print("  the heartbeat fails since %s: %s", since, sending->beat_why);
}

static void cli_alert_print(const struct alert *alert, const struct alert_state *state,
			    const struct alert_sending *sending)
{
	AUTO_STR struct str line = STR_INIT, target = STR_INIT;
	char sent[CLOCK_TEXT_SIZE];

	alert_target(alert, &target);
	cli_alert_format_time(sending->sent_at, sent);
	if (target.len > 0)
		str_addf(&line, "%s %s, last sent %s", alert_way(alert), target.data,
			 sent);
	else
		str_add(&line, "heartbeat only");
	if (alert->heartbeat) {
		cli_alert_format_time(sending->beat_at, sent);
		str_addf(&line, ", last heartbeat %s", sent);
	}
	cli_print("%s: %s", alert->name, line.data);
	cli_alert_print_failures(sending);
	for (size_t i = 0; i < state->entries.count; i++)
		cli_alert_print_entry(&state->entries.items[i]);
}

static int cli_alert_list_one(struct alert_call *call, const struct alert *alert,
			      struct err *err)
{
	struct alert_state state = { 0 };
	struct alert_sending sending = { 0 };
	int result =
		alert_store_read(call->data.store, alert->name, &state, &sending, err);

	if (result == 0 && call->is_json)
		json_array_append_new(call->array,
				      cli_alert_json(alert, &state, &sending));
	else if (result == 0)
		cli_alert_print(alert, &state, &sending);
	alert_state_clear(&state);
	return result;
}

static int cli_alert_list(struct alert_call *call, struct err *err)
{
	if (site_data_open_to_read(call->site.data, &call->data, err) != 0)
		return -1;
	if (call->alerts.list.count == 0)
		fputs("no [alert] is configured\n", stderr);
	else
		site_note_if_alone(&call->site);
	for (size_t i = 0; i < call->alerts.list.count; i++)
		if (cli_alert_list_one(call, call->alerts.list.items[i], err) != 0)
			return -1;
	return 0;
}

/*
 * test
 */

static void cli_alert_report_test(struct alert_call *call, const struct alert *alert,
				  const char *what, const struct alert_answer *answer,
				  const struct err *failure)
{
	call->tried++;
	call->failed += failure != NULL;
	if (call->is_json) {
		json_t *object = json_object();
		json_put_text(object, "name", alert->name);
		json_put_text(object, "what", what);
		json_put_bool(object, "delivered", !failure);
		json_put_text(object, "answer", answer->text[0] ? answer->text : NULL);
		json_put(object, "failure",
			 failure ? json_from_err(failure) : json_null());
		json_array_append_new(call->array, object);
		return;
	}
	if (failure) {
		struct err named = *failure;
		err_prefix(&named, "%s, %s", alert->name, what);
		cli_fail(&named);
		return;
	}
	cli_print("%s: %s delivered: %s", alert->name, what, answer->text);
}

static void cli_alert_test_one(struct alert_call *call, const struct alert *alert,
			       const struct stop *stop)
{
	const struct alert_message message = { .alert = alert->name,
					       .site = call->site.name,
					       .role = site_role_name(call->site.role),
					       .at = clock_wall_ms(),
					       .is_test = true,
					       .settings = alert };
	struct alert_answer answer;
	struct err err;

	if (strcmp(alert_way(alert), "none") != 0) {
		const int sent = alert_send(alert, &message, stop, &answer, &err);
		cli_alert_report_test(call, alert, "message", &answer,
				      sent ? &err : NULL);
	}
	if (alert->heartbeat && !stop_is_requested(stop)) {
		const int sent = alert_beat(alert, stop, &answer, &err);
		cli_alert_report_test(call, alert, "heartbeat", &answer,
				      sent ? &err : NULL);
	}
}

static int cli_alert_test(struct alert_call *call, struct err *err)
{
	struct stop stop;

	if (call->word && !alerts_find(&call->alerts, call->word)) {
		err_set(err, ERR_MISSING, "no alert named %s", call->word);
		return err_remedy(err, "refrelay alert list names those that are "
				       "configured");
	}
	if (call->alerts.list.count == 0) {
		err_set(err, ERR_MISSING, "no [alert] is configured");
		return err_remedy(err, "add a section [alert \"NAME\"]");
	}
	cli_catch_signals(&stop);
	for (size_t i = 0; i < call->alerts.list.count && !stop_is_requested(&stop);
	     i++) {
		const struct alert *alert = call->alerts.list.items[i];
		if (!call->word || strcmp(call->word, alert->name) == 0)
			cli_alert_test_one(call, alert, &stop);
	}
	call->is_interrupted = stop_is_requested(&stop);
	cli_end_signals(&stop);
	return 0;
}

static int cli_alert_open(const struct cli *cli, struct alert_call *call, struct err *err)
{
	AUTO_CONF struct conf *conf = NULL;

	if (cli_load_config(cli, &conf, err) != 0 ||
	    site_from_conf(conf, &call->site, err) != 0)
		return -1;
	return alerts_read(conf, &call->alerts, err);
}

static int cli_alert_end(const struct alert_call *call)
{
	return call->is_interrupted          ? EXIT_INTERRUPTED
	       : call->failed == 0           ? EXIT_DONE
	       : call->failed == call->tried ? EXIT_FAILED
					     : EXIT_PARTLY;
}

int cli_alert(struct cli *cli, char **argv)
{
	struct alert_call call = { .array = json_array() };
	json_auto_t *object = json_object();
	struct cli_operands operands;
	struct err err;
	int status = cli_read_options(cli->command, argv, &call, &operands);

	json_put(object, "alerts", call.array);
	if (status >= 0)
		return status;
	call.word = operands.items[0];
	int result = cli_alert_open(cli, &call, &err);
	if (result == 0)
		result = operands.verb_at == LIST ? cli_alert_list(&call, &err)
						  : cli_alert_test(&call, &err);
	if (result == 0 && call.is_json)
		json_write(stdout, object);
	alerts_clear(&call.alerts);
	site_data_close(&call.data);
	site_clear(&call.site);
	return result != 0 ? cli_fail(&err) : cli_alert_end(&call);
}
