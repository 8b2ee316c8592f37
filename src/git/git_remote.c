/*
 * Everybody on this machine can read a process's arguments, its owner its environment,
 * and a backup the repository's config. So the header travels in a file that has no
 * name: the child inherits its descriptor, and the environment only says that git's
 * configuration goes on in /proc/self/fd/N. Git's own children inherit it, too.
 */
#include "git/git_remote.h"

#include <sys/mman.h>

#include "base/file.h"

#define DEFAULT_STALL_MS 60000

bool git_remote_is_http(const struct git_remote *remote)
{
	return remote && (text_starts_with(remote->url, "http://") ||
			  text_starts_with(remote->url, "https://"));
}

/* A line's end would begin another header. */
static int git_remote_check_header(const char *header, struct err *err)
{
	for (; *header; header++)
		if ((unsigned char)*header < ' ' || *header == 0x7f)
			return err_set(err, ERR_CONFIG,
				       "the header for git has a control character");
	return 0;
}

static void git_remote_add_quoted(struct str *text, const char *value)
{
	str_add_char(text, '"');
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			str_add_char(text, '\\');
		str_add_char(text, *value);
	}
	str_add_char(text, '"');
}

/* The empty values undo what a repository's own config may say. The header goes to no
 * other host than the URL's: redirects are errors. */
static void git_remote_write_config(const struct git_remote *remote, struct str *text)
{
	int64_t stall_ms = remote->stall_ms != 0 ? remote->stall_ms : DEFAULT_STALL_MS;

	str_add(text, "[credential]\n\thelper =\n"
		      "[http]\n\tfollowRedirects = false\n\tproxy =\n\tcookieFile =\n"
		      "\textraHeader =\n");
	if (remote->header) {
		str_add(text, "\textraHeader = ");
		git_remote_add_quoted(text, remote->header);
		str_add_char(text, '\n');
	}
	if (stall_ms > 0)
		str_addf(text, "\tlowSpeedLimit = 1\n\tlowSpeedTime = %" PRId64 "\n",
			 (stall_ms + 999) / 1000);
}

int git_remote_open(const struct git_remote *remote, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_CLOSE int fd = -1;

	if (remote->header && git_remote_check_header(remote->header, err) != 0)
		return -1;
	fd = memfd_create("gitconfig", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return err_errno(err, "cannot make a file in memory");
	git_remote_write_config(remote, &text);
	if (file_write_all(fd, text.data, text.len, "a file in memory", err) != 0)
		return -1;
	if (fcntl(fd, F_ADD_SEALS,
		  F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
		return err_errno(err, "cannot seal a file in memory");
	return TAKE_FD(fd);
}
