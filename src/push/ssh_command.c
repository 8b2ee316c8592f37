/*
 * ssh is asked for nothing (BatchMode) and believes no host that it does not know. An
 * error of its own is exit status 255; everything else is the command's at the other end.
 */
#include "push/ssh_command.h"

#include <ctype.h>

#include "base/clock.h"
#include "base/vec.h"
#include "git/git_message.h"
#include "push/target_kinds.h"

#define SSH_FAILED 255
#define GRACE_MS 200 /* it has little to tidy up */

typedef VEC(char *) words;

static void words_clear(words *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i]);
	vec_clear(list);
}
#define AUTO_WORDS __attribute__((cleanup(words_clear)))

static void add_option(words *list, const char *flag, char *value)
{
	vec_add(list, xstrdup(flag));
	vec_add(list, value);
}

static void add_set(words *list, const char *setting)
{
	add_option(list, "-o", xstrdup(setting));
}

/* In names of files ssh expands "%h" and the like; some are lists, between spaces. */
static char *file_option(const char *name, const char *path)
{
	AUTO_STR struct str text = STR_INIT;

	str_addf(&text, "%s=\"", name);
	for (; *path; path++) {
		if (*path == '"' || *path == '\\')
			str_add_char(&text, '\\');
		if (*path == '%')
			str_add_char(&text, '%');
		str_add_char(&text, *path);
	}
	str_add_char(&text, '"');
	return str_take(&text);
}

/* -i says when the file is not there, but looks for it before it expands the name. */
static void add_key(words *list, const char *path)
{
	if (strchr(path, '%'))
		add_option(list, "-o", file_option("IdentityFile", path));
	else
		add_option(list, "-i", xstrdup(path));
	add_set(list, "IdentitiesOnly=yes");
}

/* With a key of its own the user's configuration has no say, unless it was named. */
static void ssh_command_add_files(words *list, const struct push_settings *settings,
				  const struct push_remote *remote)
{
	if (settings->ssh_config)
		add_option(list, "-F", xstrdup(settings->ssh_config));
	else if (remote->ssh_key)
		add_option(list, "-F", xstrdup("/dev/null"));
	if (remote->ssh_key)
		add_key(list, remote->ssh_key);
	if (remote->ssh_known_hosts)
		add_option(list, "-o",
			   file_option("UserKnownHostsFile", remote->ssh_known_hosts));
}

static void add_options(words *list, const struct push_settings *settings,
			const struct push_remote *remote)
{
	vec_add(list, xstrdup("ssh"));
	add_set(list, "BatchMode=yes");
	add_set(list, "StrictHostKeyChecking=yes");
	if (settings->ssh_connect_ms > 0)
		add_option(list, "-o",
			   xasprintf("ConnectTimeout=%" PRId64,
				     (settings->ssh_connect_ms + 999) / 1000));
	add_set(list, "ServerAliveInterval=15");
	add_set(list, "ServerAliveCountMax=4");
	ssh_command_add_files(list, settings, remote);
}

static bool ssh_command_is_plain(const char *text)
{
	for (const char *at = text; *at; at++)
		if (!isascii(*at) || (!isalnum(*at) && !strchr("_./:@%+,-", *at)))
			return false;
	return *text != '\0';
}

/* "!" as git does it, for shells that look for it even between quotes. */
void target_quote(const char *text, struct str *out)
{
	if (ssh_command_is_plain(text)) {
		str_add(out, text);
		return;
	}
	str_add_char(out, '\'');
	for (; *text; text++) {
		if (*text == '\'' || *text == '!')
			str_addf(out, "'\\%c'", *text);
		else
			str_add_char(out, *text);
	}
	str_add_char(out, '\'');
}

char *target_ssh_command(const struct push_settings *settings,
			 const struct push_remote *remote)
{
	AUTO_WORDS words list = { 0 };
	AUTO_STR struct str text = STR_INIT;

	add_options(&list, settings, remote);
	for (size_t i = 0; i < list.count; i++) {
		if (i > 0)
			str_add_char(&text, ' ');
		target_quote(list.items[i], &text);
	}
	return str_take(&text);
}

/* Besides being taken for an option, a name may end in a shell by ProxyCommand. */
static bool is_safe_name(const char *name, size_t len)
{
	static const char unsafe[] = "'`\"$\\;&<>|(){} ";

	if (len == 0 || name[0] == '-')
		return false;
	for (size_t i = 0; i < len; i++)
		if (iscntrl((unsigned char)name[i]) || strchr(unsafe, name[i]))
			return false;
	return true;
}

static int bad_host(const char *host, struct err *err)
{
	err_set(err, ERR_CONFIG, "\"%.300s\" is not a host, or user and host, for ssh",
		host);
	return err_remedy(err, "correct url or adminUrl of the remote; users whose names "
			       "have odd characters: set User in ssh's configuration");
}

/* "[::1]" stands so in URLs; ssh wants it bare. *target is what ssh is given. */
static int ssh_command_read_host(const struct destination *destination, char **target,
				 struct err *err)
{
	const char *whole = destination->host ? destination->host : "";
	const char *at = strrchr(whole, '@');
	const char *host = at ? at + 1 : whole;
	size_t len = strlen(host);

	if (len > 2 && host[0] == '[' && host[len - 1] == ']') {
		host++;
		len -= 2;
	}
	if (!is_safe_name(host, len) ||
	    (at && !is_safe_name(whole, (size_t)(at - whole))))
		return bad_host(whole, err);
	*target = xasprintf("%.*s%.*s", at ? (int)(at - whole) + 1 : 0, whole, (int)len,
			    host);
	return 0;
}

static int explain_own(const char *host, const struct proc_result *result,
		       struct err *err)
{
	AUTO_STR struct str line = STR_INIT;

	git_message_add_last(result->tail, &line);
	err_set(err, ERR_NETWORK, "ssh to %.80s: %.400s", host,
		line.len > 0 ? line.data : "it failed without a word");
	git_message_judge(SPEAKER_SSH, result->tail, err);
	return -1;
}

static int ssh_command_explain_remote(const char *host, const struct proc_result *result,
				      struct err *err)
{
	AUTO_STR struct str line = STR_INIT;

	git_message_add_last(result->tail, &line);
	err_set(err, ERR_INTERNAL, "at %.80s the command exited with %d%s%.400s", host,
		result->exit_code, line.len > 0 ? ": " : "", line.data);
	git_message_judge(SPEAKER_COMMAND, result->tail, err);
	return -1;
}

static int ssh_command_explain_failure(const char *host, const struct proc_result *result,
				       struct err *err)
{
	if (err->class != ERR_INTERNAL || result->exit_code <= 0)
		return err_prefix(err, "%.80s", host);
	return result->exit_code == SSH_FAILED
		       ? explain_own(host, result, err)
		       : ssh_command_explain_remote(host, result, err);
}

/* What ssh needs, and its agent; in English. */
static void ssh_command_add_environment(words *list)
{
	static const char *const names[] = { "HOME", "LOGNAME", "PATH", "SSH_AUTH_SOCK",
					     "USER" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *value = getenv(names[i]);
		if (value)
			vec_add(list, xasprintf("%s=%s", names[i], value));
	}
	vec_add(list, xstrdup("LC_ALL=C"));
	vec_add(list, xstrdup("SSH_ASKPASS=false"));
	vec_add(list, NULL);
}

static int ssh_command_run_child(const struct target_call *call, const words *argv,
				 struct proc_result *result, struct err *err)
{
	const struct git_work *work = call->work;
	const int keep[] = { work->guard_fd, -1 };
	AUTO_WORDS words env = { 0 };
	struct proc_request request = {
		.argv = (const char *const *)argv->items,
		.keep_fds = keep,
		.timeout_ms = target_timeout_ms(call),
		.grace_ms = GRACE_MS,
		.deadline = work->deadline,
		.stop = work->stop,
	};

	ssh_command_add_environment(&env);
	request.env = (const char *const *)env.items;
	return proc_run(&request, result, err);
}

int ssh_run(const struct target_call *call, uint16_t port, const char *line,
	    struct proc_result *result, struct err *err)
{
	const struct destination *destination = call->destination;
	AUTO_FREE char *target = NULL;
	AUTO_WORDS words argv = { 0 };

	*result = (struct proc_result){ .exit_code = -1 };
	if (ssh_command_read_host(destination, &target, err) != 0)
		return -1;
	add_options(&argv, call->settings, destination->remote);
	if (destination->port != 0 || port != 0)
		add_option(&argv, "-p",
			   xasprintf("%d", destination->port ? destination->port : port));
	vec_add(&argv, xstrdup("--"));
	vec_add(&argv, xstrdup(target));
	vec_add(&argv, xstrdup(line));
	vec_add(&argv, NULL);
	if (ssh_command_run_child(call, &argv, result, err) == 0)
		return 0;
	return ssh_command_explain_failure(target, result, err);
}
