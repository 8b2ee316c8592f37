/*
 * One line for the POSIX shell at the other end does each thing as a whole, so that a
 * connection that breaks leaves nothing half done that would pass for done: a new
 * repository gets its HEAD before git makes it one, and has a file NEW in it until it is
 * whole; one that goes gets another name before anything of it is removed. The line's own
 * exit statuses are chosen where neither git nor a shell has any.
 *
 * A path that git takes for relative to the home directory begins with "./" here, so that
 * none is an option, and no CDPATH is searched.
 */
#include <ctype.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/vec.h"
#include "git/git_message.h"
#include "git/ssh_command.h"
#include "push/target_kinds.h"
#include "push/task.h"
#include "replicable/name.h"

/*
 * ssh is asked for nothing (BatchMode) and believes no host that it does not know. An
 * error of its own is exit status 255; everything else is the command's at the other end.
 */

#define SSH_FAILED 255
#define GRACE_MS 200 /* it has little to tidy up */

static struct ssh_options target_ssh_options(const struct push_settings *settings,
					     const struct push_remote *remote)
{
	return (struct ssh_options){ .config = settings->ssh_config,
				     .key = remote->ssh_key,
				     .known_hosts = remote->ssh_known_hosts,
				     .connect_ms = settings->ssh_connect_ms };
}

char *target_ssh_command(const struct push_settings *settings,
			 const struct push_remote *remote)
{
	const struct ssh_options options = target_ssh_options(settings, remote);

	return ssh_command_make(&options);
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
static void ssh_command_add_environment(text_list *list)
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

static int ssh_command_run_child(const struct target_call *call, const text_list *argv,
				 struct proc_result *result, struct err *err)
{
	const struct git_work *work = call->work;
	const int keep[] = { work->guard_fd, -1 };
	AUTO_TEXT_LIST text_list env = { 0 };
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
	const struct ssh_options options =
		target_ssh_options(call->settings, destination->remote);
	AUTO_FREE char *target = NULL;
	AUTO_TEXT_LIST text_list argv = { 0 };

	*result = (struct proc_result){ .exit_code = -1 };
	if (ssh_command_read_host(destination, &target, err) != 0)
		return -1;
	ssh_command_add(&options, &argv);
	if (destination->port != 0 || port != 0)
		ssh_command_add_option(
			&argv, "-p",
			xasprintf("%d", destination->port ? destination->port : port));
	vec_add(&argv, xstrdup("--"));
	vec_add(&argv, xstrdup(target));
	vec_add(&argv, xstrdup(line));
	vec_add(&argv, NULL);
	if (ssh_command_run_child(call, &argv, result, err) == 0)
		return 0;
	return ssh_command_explain_failure(target, result, err);
}

#define EXIT_MISSING 44
#define EXIT_IN_THE_WAY 45
#define EXIT_NESTED 46
#define NEW "refrelay-new"

/* How much of it is "~/" or "~user/". */
static size_t home_part(const char *path)
{
	size_t len = 1;

	if (path[0] != '~')
		return 0;
	while (isalnum((unsigned char)path[len]) ||
	       (path[len] && strchr("._-", path[len])))
		len++;
	return path[len] == '/' ? len + 1 : 0;
}

static int target_ssh_refuse_path(const char *path, struct err *err)
{
	err_set(err, ERR_CONFIG, "\"%.300s\" can be no repository's path", path);
	return err_remedy(err, "correct url or adminUrl of the remote");
}

/* Its last part is a name: not empty, ".", "..", or somebody's home. */
static bool ends_in_name(const char *path, size_t len)
{
	const char *last = memrchr(path, '/', len);
	size_t part;

	last = last ? last + 1 : path;
	part = len - (size_t)(last - path);
	return part > 0 && !(part <= 2 && strncmp(last, "..", part) == 0) &&
	       !(last == path && *path == '~');
}

/* Without slashes at its end; the caller frees. NULL: *err. In host:path, git takes
 * "/~user/x" for "~user/x". */
static char *target_ssh_read_path(const struct destination *destination, struct err *err)
{
	const char *path = destination->path ? destination->path : "";
	size_t len;

	if (!strstr(destination->uri, "://") && text_starts_with(path, "/~"))
		path++;
	len = strlen(path);
	while (len > 0 && path[len - 1] == '/')
		len--;
	if (ends_in_name(path, len))
		return xstrndup(path, len);
	target_ssh_refuse_path(path, err);
	return NULL;
}

/* As a word for the shell. */
static void target_ssh_add_path(struct str *out, const char *path)
{
	size_t home = home_part(path);

	str_add_bytes(out, path, home);
	if (home == 0 && path[0] != '/')
		str_add(out, "./");
	ssh_command_quote(path + home, out);
}

static int quote_path(const struct destination *destination, struct str *out,
		      struct err *err)
{
	AUTO_FREE char *path = target_ssh_read_path(destination, err);

	if (!path)
		return -1;
	target_ssh_add_path(out, path);
	return 0;
}

/* What it is called while it goes: a name beside. Who deletes there has the URI's lease,
 * so what stands under that name was left by somebody who could not end. */
static void add_gone(struct str *out, const struct destination *destination,
		     const char *path)
{
	const char *slash = strrchr(path, '/');
	AUTO_FREE char *gone = xasprintf("%.*s" PASSING_PREFIX "deleted-%s",
					 slash ? (int)(slash + 1 - path) : 0, path,
					 destination->uri_key);

	target_ssh_add_path(out, gone);
}

static void add_is_repository(struct str *line, const char *path)
{
	str_addf(line,
		 "test -d %s/objects && test -d %s/refs && "
		 "{ test -f %s/HEAD || test -L %s/HEAD; }",
		 path, path, path, path);
}

static void add_git(struct str *line, const struct push_remote *remote)
{
	ssh_command_quote(remote->git_path ? remote->git_path : "git", line);
}

/* What is there and no repository stays as it is, but for a directory that is empty or
 * that a line like this one has begun to fill. */
static void add_checks(struct str *line, const char *path)
{
	str_addf(line, "if test ! -e %s/" NEW "; then if ", path);
	add_is_repository(line, path);
	str_addf(line,
		 "; then exit 0; fi; "
		 "if test -e %s && test -n \"$(ls -A %s)\"; then exit %d; fi; fi; ",
		 path, path, EXIT_IN_THE_WAY);
}

/* git keeps a HEAD that it finds: a push that follows a broken line meets the right one.
 */
static void add_create(struct str *line, const struct target_call *call, const char *path,
		       const char *head, size_t oid_len)
{
	str_addf(line, "mkdir -p %s && cd %s && : >" NEW " && ", path, path);
	if (head) {
		str_add(line, "printf 'ref: %s\\n' ");
		ssh_command_quote(head, line);
		str_add(line, " >HEAD && ");
	}
	add_git(line, call->destination->remote);
	str_addf(line, " init --bare%s", oid_len == 32 ? " --object-format=sha256" : "");
}

static void target_ssh_add_head(struct str *line, const struct push_remote *remote,
				const char *head)
{
	add_git(line, remote);
	str_add(line, " symbolic-ref HEAD ");
	ssh_command_quote(head, line);
}

/* Takes result and error of a line that failed. */
static int target_ssh_classify_failure(const struct target_call *call,
				       const struct proc_result *result, struct err *err)
{
	const struct destination *destination = call->destination;
	const char *host = destination->host, *path = destination->path;

	switch (result->exit_code) {
	case EXIT_MISSING:
		return err_set(err, ERR_MISSING, "%.80s has no repository at %.300s",
			       host, path);
	case EXIT_IN_THE_WAY:
		err_set(err, ERR_CONFIG,
			"at %.80s %.300s exists, but is not a repository", host, path);
		return err_remedy(err, "move it away there, or correct the URL");
	case EXIT_NESTED:
		err_set(err, ERR_CONFIG,
			"at %.80s the repository at %.300s has others inside: it stays",
			host, path);
		err_because(err, REASON_NO_WAY);
		return err_remedy(err, "move them out there, or delete it yourself");
	case 127:
		err->class = ERR_CONFIG;
		return err_remedy(err, "install git there, or set gitPath of the remote "
				       "to where it is");
	default:
		return -1;
	}
}

/* 1: a Gerrit answers, which takes no lines for a shell. */
static int run_line(const struct target_call *call, const struct str *line,
		    struct err *err)
{
	struct proc_result result;

	if (ssh_run(call, 0, line->data, &result, err) == 0)
		return 0;
	if (git_message_is_gerrit(result.tail))
		return 1;
	return target_ssh_classify_failure(call, &result, err);
}

static int target_ssh_create(const struct target_call *call, const char *head,
			     size_t oid_len, struct err *err)
{
	const struct push_remote *remote = call->destination->remote;
	AUTO_STR struct str path = STR_INIT, line = STR_INIT;

	if (quote_path(call->destination, &path, err) != 0)
		return -1;
	add_checks(&line, path.data);
	add_create(&line, call, path.data, head, oid_len);
	if (head) {
		str_add(&line, " && ");
		target_ssh_add_head(&line, remote, head);
	}
	str_add(&line, " && rm -f " NEW);
	int done = run_line(call, &line, err);
	return done > 0 ? target_gerrit_ssh.create(call, head, oid_len, err) : done;
}

static int target_ssh_set_head(const struct target_call *call, const char *head,
			       struct err *err)
{
	AUTO_STR struct str path = STR_INIT, line = STR_INIT;

	if (quote_path(call->destination, &path, err) != 0)
		return -1;
	str_add(&line, "if ");
	add_is_repository(&line, path.data);
	str_addf(&line, "; then cd %s && ", path.data);
	target_ssh_add_head(&line, call->destination->remote, head);
	str_addf(&line, "; else exit %d; fi", EXIT_MISSING);
	int done = run_line(call, &line, err);
	return done > 0 ? target_gerrit_ssh.set_head(call, head, err) : done;
}

/* A directory "objects" elsewhere than where git and its friends have one. */
static void add_has_others(struct str *line, const char *path)
{
	static const char *const known[] = { "objects", "refs", "logs", "lfs",
					     "modules" };

	str_addf(line, "test -n \"$(cd %s && find .", path);
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		str_addf(line, " -path ./%s -prune -o", known[i]);
	str_add(line, " -type d -name objects -print)\"");
}

static int target_ssh_destroy(const struct target_call *call, struct err *err)
{
	AUTO_FREE char *whole = target_ssh_read_path(call->destination, err);
	AUTO_STR struct str path = STR_INIT, gone = STR_INIT, line = STR_INIT;

	if (!whole)
		return -1;
	target_ssh_add_path(&path, whole);
	add_gone(&gone, call->destination, whole);
	str_addf(&line, "rm -rf %s && if ", gone.data);
	add_is_repository(&line, path.data);
	str_add(&line, "; then if ");
	add_has_others(&line, path.data);
	str_addf(&line, "; then exit %d; fi; mv %s %s && rm -rf %s; else exit %d; fi",
		 EXIT_NESTED, path.data, gone.data, gone.data, EXIT_MISSING);
	int done = run_line(call, &line, err);
	return done > 0 ? target_gerrit_ssh.destroy(call, err) : done;
}

const struct target_kind target_ssh = { target_ssh_create, target_ssh_set_head,
					target_ssh_destroy };
