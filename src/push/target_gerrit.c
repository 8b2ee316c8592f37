/*
 * Gerrit servers, which make and delete their projects themselves.
 *
 * Source: Gerrit's Documentation/cmd-create-project, cmd-set-head, rest-api-projects,
 * and that of its plugin delete-project.
 */
#include "base/json.h"
#include "base/str.h"
#include "git/git_message.h"
#include "git/ssh_command.h"
#include "net/http.h"
#include "net/http_ask.h"
#include "net/site_client.h"
#include "push/target.h"
#include "push/target_kinds.h"

#define SSH_PORT 29418

/* An ssh URL has led to it: "/team/app.git/" is the project team/app. The caller frees.
 */
static char *project_of(const struct destination *destination)
{
	const char *path = destination->path;
	size_t len;

	if (destination->kind != URL_SSH)
		return xstrdup(destination->project);
	path += strspn(path, "/");
	len = strlen(path);
	while (len > 0 && path[len - 1] == '/')
		len--;
	if (len > 4 && strncmp(path + len - 4, ".git", 4) == 0)
		len -= 4;
	return xstrndup(path, len);
}

static int missing(const struct destination *destination, struct err *err)
{
	AUTO_FREE char *project = project_of(destination);

	return err_set(err, ERR_MISSING, "%.80s has no project %.300s",
		       destination->host ? destination->host : destination->uri, project);
}

static int fail_without_plugin(struct err *err)
{
	err_because(err, REASON_NO_WAY);
	return err_remedy(err, "install its plugin delete-project, or delete the project "
			       "there");
}

/* An option it would be taken for. */
static int target_gerrit_add_name(const struct destination *destination, struct str *line,
				  struct err *err)
{
	AUTO_FREE char *project = project_of(destination);

	if (project[0] == '-') {
		err_set(err, ERR_CONFIG, "Gerrit cannot have a project \"%.300s\"",
			project);
		return err_because(err, REASON_NO_WAY);
	}
	ssh_command_quote(project, line);
	return 0;
}

static bool is_answer(const struct proc_result *result, enum err_class class)
{
	struct err said;

	return git_message_find(SPEAKER_GERRIT, result->tail, &said) &&
	       said.class == class;
}

/* An ssh URL without a port has led to it by ssh's own. */
static int gerrit_run(const struct target_call *call, const char *line,
		      struct proc_result *result, struct err *err)
{
	uint16_t port = call->destination->kind == URL_SSH ? 0 : SSH_PORT;

	return ssh_run(call, port, line, result, err);
}

static int create_by_ssh(const struct target_call *call, const char *head, size_t oid_len,
			 struct err *err)
{
	AUTO_STR struct str line = STR_INIT;
	struct proc_result result;

	(void)oid_len;
	str_add(&line, "gerrit create-project ");
	if (head) {
		str_add(&line, "--branch ");
		ssh_command_quote(head, &line);
		str_add_char(&line, ' ');
	}
	if (target_gerrit_add_name(call->destination, &line, err) != 0)
		return -1;
	if (gerrit_run(call, line.data, &result, err) == 0)
		return 0;
	return is_answer(&result, ERR_CONFLICT) ? 0 : -1;
}

static bool is_no_project(const struct proc_result *result)
{
	return result->exit_code > 0 && result->exit_code < 255 &&
	       is_answer(result, ERR_MISSING);
}

static int set_head_by_ssh(const struct target_call *call, const char *head,
			   struct err *err)
{
	AUTO_STR struct str line = STR_INIT;
	struct proc_result result;

	str_add(&line, "gerrit set-head ");
	if (target_gerrit_add_name(call->destination, &line, err) != 0)
		return -1;
	str_add(&line, " --new-head ");
	ssh_command_quote(head, &line);
	if (gerrit_run(call, line.data, &result, err) == 0)
		return 0;
	return is_no_project(&result) ? missing(call->destination, err) : -1;
}

static int delete_by_ssh(const struct target_call *call, struct err *err)
{
	AUTO_STR struct str line = STR_INIT;
	struct proc_result result;

	str_add(&line, "deleteproject delete --yes-really-delete --force ");
	if (target_gerrit_add_name(call->destination, &line, err) != 0)
		return -1;
	if (gerrit_run(call, line.data, &result, err) == 0)
		return 0;
	if (is_no_project(&result))
		return missing(call->destination, err);
	if (!is_answer(&result, ERR_CONFIG))
		return -1;
	err->class = ERR_CONFIG;
	return fail_without_plugin(err);
}

/* The server's own URL: of "gerrit+https://user@host/prefix/" "https://host/prefix". */
static int target_gerrit_add_base(const struct destination *destination, struct str *url,
				  struct err *err)
{
	const char *uri = destination->uri + strlen("gerrit+");
	const char *host = strstr(uri, "://");
	const char *end, *at;

	if (!text_starts_with(destination->uri, "gerrit+http") || !host) {
		err_set(err, ERR_CONFIG, "\"%.300s\" is not the URL of a Gerrit server",
			destination->uri);
		return err_remedy(err, "it looks like gerrit+https://host/prefix");
	}
	host += strlen("://");
	end = strchrnul(host, '/');
	at = memrchr(host, '@', (size_t)(end - host));
	str_add_bytes(url, uri, (size_t)(host - uri));
	str_add(url, at ? at + 1 : host);
	while (url->len > 0 && url->data[url->len - 1] == '/')
		str_truncate(url, url->len - 1);
	return 0;
}

static int target_gerrit_ask(const struct target_call *call, const char *method,
			     const char *resource, const char *body, int *status,
			     struct str *said, struct err *err)
{
	const struct destination *destination = call->destination;
	AUTO_STR struct str url = STR_INIT;

	if (target_gerrit_add_base(destination, &url, err) != 0)
		return -1;
	str_add(&url, "/a/projects/");
	url_add_encoded(&url, destination->project);
	str_add(&url, resource);
	return http_ask(
		&(struct http_ask_request){
			.method = method,
			.url = url.data,
			.user = destination->url->user,
			.password = destination->url->password,
			.ca_file = destination->remote->ca_file,
			.body = body,
			.connect_ms = call->settings->ssh_connect_ms,
			.timeout_ms = target_timeout_ms(call),
			.setting = "adminUrl of the remote",
			.stop = call->work->stop,
			.deadline = call->work->deadline,
		},
		status, said, err);
}

/* Gerrit's errors are a line of plain text. */
static int target_gerrit_report_refusal(const struct target_call *call, int status,
					const struct str *said, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	size_t len = strcspn(said->data, "\r\n");

	str_add_utf8(&text, said->data, len < 200 ? len : 200);
	err_set(err, http_classify_status(status),
		"%.200s answers %d for project %.100s%s%s", call->destination->uri,
		status, call->destination->project, text.len > 0 ? ": " : "", text.data);
	switch (err->class) {
	case ERR_AUTH:
		return err_remedy(err, "check username and password of the remote, and "
				       "the rights of that user there");
	case ERR_CONFIG:
		return err_remedy(err, "check adminUrl of the remote");
	default:
		return err_remedy(err, "look at the log of that server");
	}
}

static bool target_gerrit_is_done(int status)
{
	return status == 200 || status == 201 || status == 204;
}

static char *body_of(json_t *value)
{
	AUTO_STR struct str text = STR_INIT;

	json_render(value, &text);
	json_decref(value);
	return str_take(&text);
}

/* The first of the branches becomes HEAD. 409: it exists. */
static int create_by_http(const struct target_call *call, const char *head,
			  size_t oid_len, struct err *err)
{
	AUTO_FREE char *body = head ? body_of(json_pack("{s:[s]}", "branches", head))
				    : body_of(json_object());
	AUTO_STR struct str said = STR_INIT;
	int status;

	(void)oid_len;
	if (target_gerrit_ask(call, "PUT", "", body, &status, &said, err) != 0)
		return -1;
	return target_gerrit_is_done(status) || status == 409
		       ? 0
		       : target_gerrit_report_refusal(call, status, &said, err);
}

static int set_head_by_http(const struct target_call *call, const char *head,
			    struct err *err)
{
	AUTO_FREE char *body = body_of(json_pack("{s:s}", "ref", head));
	AUTO_STR struct str said = STR_INIT;
	int status;

	if (target_gerrit_ask(call, "PUT", "/HEAD", body, &status, &said, err) != 0)
		return -1;
	if (status == 404)
		return missing(call->destination, err);
	return target_gerrit_is_done(status)
		       ? 0
		       : target_gerrit_report_refusal(call, status, &said, err);
}

/* Without the plugin, 404 is also the answer for a project that is there. */
static int report_missing(const struct target_call *call, struct err *err)
{
	AUTO_STR struct str said = STR_INIT;
	int status;

	if (target_gerrit_ask(call, "GET", "", NULL, &status, &said, err) != 0)
		return -1;
	if (status == 404)
		return missing(call->destination, err);
	if (!target_gerrit_is_done(status))
		return target_gerrit_report_refusal(call, status, &said, err);
	err_set(err, ERR_CONFIG, "%.200s deletes no projects", call->destination->uri);
	return fail_without_plugin(err);
}

bool target_gerrit_lacks(const struct target_call *call)
{
	AUTO_STR struct str said = STR_INIT;
	int status;

	return target_gerrit_ask(call, "GET", "", NULL, &status, &said, ERR_IGNORED) ==
		       0 &&
	       status == 404;
}

static int delete_by_http(const struct target_call *call, struct err *err)
{
	AUTO_STR struct str said = STR_INIT;
	int status;

	if (target_gerrit_ask(call, "DELETE", "", NULL, &status, &said, err) != 0)
		return -1;
	if (status == 404)
		return report_missing(call, err);
	return target_gerrit_is_done(status)
		       ? 0
		       : target_gerrit_report_refusal(call, status, &said, err);
}

const struct target_kind target_gerrit_ssh = { create_by_ssh, set_head_by_ssh,
					       delete_by_ssh };
const struct target_kind target_gerrit_http = { create_by_http, set_head_by_http,
						delete_by_http };
