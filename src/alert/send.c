#include "alert/send.h"

#include <limits.h>

#include "base/file.h"
#include "base/log.h"
#include "base/proc.h"
#include "mirror/then.h"
#include "mirror/upstream.h"
#include "net/http.h"
#include "net/http_ask.h"
#include "net/mail.h"

#define REQUEST_MS 30000
#define COMMAND_MS 60000
#define COMMAND_GRACE_MS 500 /* a stop of the node waits for it */
#define OUTPUT_MOST (1 << 20)

extern char **environ;

static int send_read_secret(const char *path, struct str *secret, struct err *err)
{
	return path ? upstream_read_secret(path, secret, err) : 0;
}

/* One line of what it said. */
static void send_quote(const char *said, struct str *out)
{
	AUTO_STR struct str redacted = STR_INIT, line = STR_INIT;
	const size_t len = strcspn(said, "\r\n");

	str_add_utf8(&line, said, len < 120 ? len : 120);
	log_redact(line.data, &redacted);
	if (redacted.len > 0)
		str_add(out, ": ");
	str_add_printable(out, redacted.data);
}

static int send_judge_status(const char *host, const char *setting, int status,
			     const struct str *said, struct alert_answer *answer,
			     struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	str_addf(&text, "%s answers %d", host, status);
	send_quote(said->data, &text);
	snprintf(answer->text, sizeof(answer->text), "%s", text.data);
	if (status < 300)
		return 0;
	err_set(err, http_classify_status(status), "%s", text.data);
	return err_remedy(err, "check %s of the alert, and the log of %.150s", setting,
			  host);
}

static int send_ask(const struct http_ask_request *request, const char *setting,
		    struct alert_answer *answer, struct err *err)
{
	AUTO_STR struct str host = STR_INIT, said = STR_INIT;
	struct http_ask_request asked = *request;
	int status = 0;

	http_check_url(request->url, true, &host);
	asked.peer = host.data;
	asked.setting = setting;
	asked.timeout_ms = REQUEST_MS;
	asked.rest_ms = &answer->rest_ms;
	if (http_ask(&asked, &status, &said, err) != 0)
		return -1;
	return send_judge_status(host.data, setting, status, &said, answer, err);
}

static int send_post(const struct alert *alert, const struct str *document,
		     const struct stop *stop, struct alert_answer *answer,
		     struct err *err)
{
	AUTO_FREE char *signature = NULL;
	struct str secret = STR_INIT;
	int result = send_read_secret(alert->secret_file, &secret, err);

	if (result == 0)
		signature = then_sign(&secret, document);
	str_wipe(&secret);
	return result != 0
		       ? -1
		       : send_ask(&(struct http_ask_request){ .method = "POST",
							      .url = alert->url,
							      .body = document->data,
							      .signature = signature,
							      .ca_file = alert->ca_file,
							      .stop = stop },
				  "url", answer, err);
}

/* This process's, and what a script can use without reading JSON. The caller clears. */
static void send_make_environment(const struct alert_message *message, text_list *all)
{
	AUTO_STR struct str title = STR_INIT, text = STR_INIT;

	for (char **at = environ; *at; at++)
		if (!text_starts_with(*at, "REFRELAY_ALERT"))
			vec_add(all, xstrdup(*at));
	alert_message_title(message, &title);
	alert_message_text(message, &text);
	vec_add(all, xasprintf("REFRELAY_ALERT=%s", message->alert));
	vec_add(all, xasprintf("REFRELAY_ALERT_SITE=%s", message->site));
	vec_add(all, xasprintf("REFRELAY_ALERT_TITLE=%s", title.data));
	vec_add(all, xasprintf("REFRELAY_ALERT_TEXT=%s", text.data));
	vec_add(all, NULL);
}

static int send_run(const struct alert *alert, const struct alert_message *message,
		    const struct str *document, const struct stop *stop,
		    struct alert_answer *answer, struct err *err)
{
	AUTO_TEXT_LIST text_list words = { 0 }, environment = { 0 };
	AUTO_STR struct str output = STR_INIT, text = STR_INIT;

	if (then_split(alert->command, &words, err) != 0)
		return -1;
	vec_add(&words, NULL);
	send_make_environment(message, &environment);
	if (proc_run(
		    &(struct proc_request){ .argv = (const char *const *)words.items,
					    .env = (const char *const *)environment.items,
					    .directory = "/",
					    .input = document->data,
					    .input_len = document->len,
					    .output = &output,
					    .output_limit = OUTPUT_MOST,
					    .timeout_ms = COMMAND_MS,
					    .grace_ms = COMMAND_GRACE_MS,
					    .stop = stop },
		    NULL, err) != 0)
		return err->remedy[0]
			       ? -1
			       : err_remedy(err, "see why the command of the alert "
						 "fails");
	str_addf(&text, "%s exits with 0", words.items[0]);
	send_quote(output.data, &text);
	snprintf(answer->text, sizeof(answer->text), "%s", text.data);
	return 0;
}

static char *send_choose_sender(const struct alert *alert)
{
	char host[HOST_NAME_MAX + 1] = "localhost";

	if (alert->from)
		return xstrdup(alert->from);
	gethostname(host, sizeof(host) - 1);
	return xasprintf("refrelay@%s", host);
}

static int send_mail(const struct alert *alert, const struct alert_message *message,
		     const struct stop *stop, struct alert_answer *answer,
		     struct err *err)
{
	AUTO_STR struct str title = STR_INIT, text = STR_INIT;
	AUTO_FREE char *from = send_choose_sender(alert);
	struct str password = STR_INIT;
	int code = 0;

	alert_message_title(message, &title);
	alert_message_text(message, &text);
	int result = send_read_secret(alert->password_file, &password, err);
	if (result == 0)
		result = mail_send(
			&(struct mail_request){
				.server = alert->smtp,
				.user = alert->user_name,
				.password = password.data,
				.ca_file = alert->ca_file,
				.from = from,
				.to = (const char *const *)alert->mail.items,
				.to_count = alert->mail.count,
				.subject = title.data,
				.text = text.data,
				.timeout_ms = REQUEST_MS,
				.stop = stop },
			&code, err);
	str_wipe(&password);
	snprintf(answer->text, sizeof(answer->text), "%.200s answers %d", alert->smtp,
		 code);
	return result;
}

int alert_send(const struct alert *alert, const struct alert_message *message,
	       const struct stop *stop, struct alert_answer *answer, struct err *err)
{
	AUTO_STR struct str document = STR_INIT;

	*answer = (struct alert_answer){ 0 };
	if (alert->mail.count > 0)
		return send_mail(alert, message, stop, answer, err);
	alert_message_json(message,
			   alert->url ? (enum alert_format)alert->format : ALERT_JSON,
			   &document);
	return alert->url ? send_post(alert, &document, stop, answer, err)
			  : send_run(alert, message, &document, stop, answer, err);
}

int alert_beat(const struct alert *alert, const struct stop *stop,
	       struct alert_answer *answer, struct err *err)
{
	*answer = (struct alert_answer){ 0 };
	return send_ask(&(struct http_ask_request){ .method = "GET",
						    .url = alert->heartbeat,
						    .ca_file = alert->ca_file,
						    .stop = stop },
			"heartbeat", answer, err);
}
