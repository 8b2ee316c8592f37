#include "git/ssh_command.h"

#include <ctype.h>

#include "base/vec.h"

void ssh_command_add_option(text_list *list, const char *flag, char *value)
{
	vec_add(list, xstrdup(flag));
	vec_add(list, value);
}

static void ssh_command_add_setting(text_list *list, const char *setting)
{
	ssh_command_add_option(list, "-o", xstrdup(setting));
}

/* In names of files ssh expands "%h" and the like; some are lists, between spaces. */
static char *ssh_command_file_option(const char *name, const char *path)
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
static void ssh_command_add_key(text_list *list, const char *path)
{
	if (strchr(path, '%'))
		ssh_command_add_option(list, "-o",
				       ssh_command_file_option("IdentityFile", path));
	else
		ssh_command_add_option(list, "-i", xstrdup(path));
	ssh_command_add_setting(list, "IdentitiesOnly=yes");
}

/* With a key of its own the user's configuration has no say, unless it was named. */
static void ssh_command_add_files(text_list *list, const struct ssh_options *options)
{
	if (options->config)
		ssh_command_add_option(list, "-F", xstrdup(options->config));
	else if (options->key)
		ssh_command_add_option(list, "-F", xstrdup("/dev/null"));
	if (options->key)
		ssh_command_add_key(list, options->key);
	if (options->known_hosts)
		ssh_command_add_option(list, "-o",
				       ssh_command_file_option("UserKnownHostsFile",
							       options->known_hosts));
}

void ssh_command_add(const struct ssh_options *options, text_list *list)
{
	vec_add(list, xstrdup("ssh"));
	ssh_command_add_setting(list, "BatchMode=yes");
	ssh_command_add_setting(list, "StrictHostKeyChecking=yes");
	if (options->connect_ms > 0)
		ssh_command_add_option(list, "-o",
				       xasprintf("ConnectTimeout=%" PRId64,
						 (options->connect_ms + 999) / 1000));
	ssh_command_add_setting(list, "ServerAliveInterval=15");
	ssh_command_add_setting(list, "ServerAliveCountMax=4");
	ssh_command_add_files(list, options);
}

static bool ssh_command_is_plain(const char *text)
{
	for (const char *at = text; *at; at++)
		if (!isascii(*at) || (!isalnum(*at) && !strchr("_./:@%+,-", *at)))
			return false;
	return *text != '\0';
}

/* "!" as git does it, for shells that look for it even between quotes. */
void ssh_command_quote(const char *text, struct str *out)
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

char *ssh_command_make(const struct ssh_options *options)
{
	AUTO_TEXT_LIST text_list list = { 0 };
	AUTO_STR struct str text = STR_INIT;

	ssh_command_add(options, &list);
	for (size_t i = 0; i < list.count; i++) {
		if (i > 0)
			str_add_char(&text, ' ');
		ssh_command_quote(list.items[i], &text);
	}
	return str_take(&text);
}
