/*
 * What git runs as hooks. At a primary, reference-transaction brackets each change of
 * refs in the repository's state, so that no reader is given old refs (hook_state.h);
 * that and post-receive tell the node that refs changed. Only the first can make a push
 * fail, and only when the change cannot be announced. In a secondary's copy, or what may
 * be one, pre-receive and reference-transaction refuse: it changes only as its primary
 * does. Static and small, since one is started for each change; no stdio, no locale.
 *
 *	refrelay-hook --hook SCRIPT [ARGUMENT]...
 *			as the interpreter of a hook file, <repository>/hooks/HOOK or
 *			HOOK.d/refrelay
 *	<repository>/hooks/HOOK [ARGUMENT]...
 *			a symbolic link to this program, as earlier versions made them
 *	refrelay-hook DATA_DIR HOOK [ARGUMENT]...
 *
 * By the first two it finds the data directory in the repository, refrelay/node (a
 * symbolic link), and runs a hook that was there before (hook_kept.h) after the node was
 * told. Nothing waits for us meanwhile: the refs are in place, and git's pipe to the kept
 * hook is read when that starts.
 *
 * The node answers once the change is durable. If it does not within a second, or cannot
 * do it now, a file in data/spool says the same; if that cannot be written, the node's
 * next scan finds the change. Wire: change/hook_socket.h, change/spool.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/hook_wire.h"
#include "hook/hook_kept.h"
#include "hook/hook_state.h"
#include "hook/hook_text.h"

#define LATER "this change will be noticed later: "

#define LATE_MARK ".late"

enum { LATE_S = 10 };

/* "changed <absolute path of the repository>"; the path is message +
 * strlen(HOOK_CHANGED). */
static char message[HOOK_MESSAGE_MAX + 1] = HOOK_CHANGED;
static char *const path = message + sizeof(HOOK_CHANGED) - 1;

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* Names by way of an open directory: they may be longer than a socket's address. */
static void name_below(int dir, const char *name, char *out, size_t size)
{
	out[0] = '\0';
	hook_text_add(out, size, "/proc/self/fd/");
	hook_text_add_number(out, size, (uint64_t)dir);
	hook_text_add(out, size, name);
}

static int refrelay_hook_open_directory(int dir, const char *name)
{
	return openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* A linked work tree's GIT_DIR is a part of it only: "commondir" names the whole. */
static int refrelay_hook_open_repository(void)
{
	const char *given = getenv("GIT_DIR");
	char common[PATH_MAX];
	int dir = refrelay_hook_open_directory(AT_FDCWD, given && *given ? given : ".");

	if (dir < 0 || !hook_text_read_file(dir, "commondir", common, sizeof(common)))
		return dir;
	common[strcspn(common, "\n")] = '\0';
	return refrelay_hook_open_directory(dir, common);
}

static bool find_path(int repository)
{
	char link[64];
	size_t room = HOOK_MESSAGE_MAX - (sizeof(HOOK_CHANGED) - 1);

	name_below(repository, "", link, sizeof(link));
	ssize_t len = readlink(link, path, room);
	if (len < 0)
		return false;
	if ((size_t)len == room) {
		errno = ENAMETOOLONG;
		return false;
	}
	path[len] = '\0';
	return true;
}

/* connect() waits as long as one may send when the node has too much to do. */
static int refrelay_hook_connect_node(int data)
{
	const struct timeval wait = { .tv_sec = HOOK_WAIT_MS / 1000 };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	name_below(data, "/" HOOK_SOCKET, address.sun_path, sizeof(address.sun_path));
	if (fd >= 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) == 0 &&
	    connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Whether nothing is left to do: it is recorded, or the node wants no word of this
 * repository, now or later. */
static bool refrelay_hook_is_settled(const char *answer)
{
	if (hook_text_begins_with(answer, "no config "))
		hook_text_complain("the node rejects this change",
				   answer + strlen("no config "));
	return hook_text_begins_with(answer, HOOK_OK) ||
	       hook_text_begins_with(answer, "no config ") ||
	       hook_text_begins_with(answer, "no missing ");
}

/* What root makes, in a push of its own, becomes the user's that the node runs as. The
 * spool may be another of root's hooks', which is about to give it away. */
static bool give_away(int fd, int spool, int data)
{
	struct stat st;

	if (geteuid() != 0)
		return true;
	if (fstat(spool, &st) != 0 || (st.st_uid == 0 && fstat(data, &st) != 0))
		return false;
	return st.st_uid == 0 || fchown(fd, st.st_uid, st.st_gid) == 0;
}

static int open_spool(int data)
{
	int spool = refrelay_hook_open_directory(data, HOOK_SPOOL);
	bool is_made;

	if (spool >= 0 || errno != ENOENT)
		return spool;
	is_made = mkdirat(data, HOOK_SPOOL, 0700) == 0;
	if ((!is_made && errno != EEXIST) || fsync(data) != 0)
		return -1;
	spool = refrelay_hook_open_directory(data, HOOK_SPOOL);
	if (spool >= 0 && is_made && !give_away(spool, data, data)) {
		close(spool);
		return -1;
	}
	return spool;
}

/* A push of a thousand refs runs a thousand hooks: when one has waited in vain, those of
 * the next seconds do not wait. */
static bool was_late(int data)
{
	struct timespec now;
	struct stat st;

	if (fstatat(data, HOOK_SPOOL "/" LATE_MARK, &st, 0) != 0)
		return false;
	clock_gettime(CLOCK_REALTIME, &now);
	return llabs((long long)now.tv_sec - (long long)st.st_mtim.tv_sec) < LATE_S;
}

/* Made anew, for an old one may be another user's. */
static void note_late(int data)
{
	int spool = open_spool(data);

	unlinkat(spool, LATE_MARK, 0);
	int fd = openat(spool, LATE_MARK, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0)
		give_away(fd, spool, data);
}

/* The answer's length; 0: there is none. */
static size_t ask_node(int fd, int64_t until, char *answer)
{
	struct pollfd watched = { .fd = fd, .events = POLLIN };
	int64_t left = until - now_ms();

	if (send(fd, message, strlen(message), MSG_NOSIGNAL) <= 0 ||
	    poll(&watched, 1, left > 0 ? (int)left : 0) <= 0)
		return 0;
	ssize_t got = recv(fd, answer, HOOK_MESSAGE_MAX, MSG_DONTWAIT);
	return got > 0 ? (size_t)got : 0;
}

static bool refrelay_hook_report_to_node(int data)
{
	char answer[HOOK_MESSAGE_MAX + 1];
	int64_t until = now_ms() + HOOK_WAIT_MS;
	size_t got = 0;

	if (was_late(data))
		return false;
	int fd = refrelay_hook_connect_node(data);
	if (fd >= 0) {
		got = ask_node(fd, until, answer);
		close(fd);
	}
	if (got == 0 && now_ms() >= until)
		note_late(data);
	answer[got] = '\0';
	return got > 0 && refrelay_hook_is_settled(answer);
}

static bool refrelay_hook_write_file(int data, int spool, const char *name)
{
	int fd = openat(spool, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	size_t len = strlen(path);
	bool is_written;

	if (fd < 0)
		return false;
	ssize_t put = write(fd, path, len);
	if (put >= 0 && (size_t)put < len)
		errno = ENOSPC;
	is_written = put == (ssize_t)len && give_away(fd, spool, data) && fsync(fd) == 0;
	int saved = errno;
	close(fd);
	errno = saved;
	return is_written;
}

/* ".<time>.<pid>", then without the first dot: readers look at whole ones only. */
static bool refrelay_hook_write_spool(int data, int spool)
{
	struct timespec now;
	char name[80] = ".", digits[NUMBER_SIZE];

	clock_gettime(CLOCK_REALTIME, &now);
	hook_text_add_number(name, sizeof(name), (uint64_t)now.tv_sec);
	hook_text_add(name, sizeof(name), number((uint64_t)now.tv_nsec, 9, digits));
	hook_text_add(name, sizeof(name), ".");
	hook_text_add_number(name, sizeof(name), (uint64_t)getpid());
	if (refrelay_hook_write_file(data, spool, name) &&
	    renameat(spool, name, spool, name + 1) == 0)
		return fsync(spool) == 0;
	int saved = errno;
	unlinkat(spool, name, 0);
	errno = saved;
	return false;
}

/* data_name: NULL: what the repository says. */
static int refrelay_hook_open_data(int repository, const char *data_name)
{
	return data_name ? refrelay_hook_open_directory(AT_FDCWD, data_name)
			 : refrelay_hook_open_directory(repository, HOOK_NODE_LINK);
}

static void refrelay_hook_report_change(int repository, const char *data_name)
{
	int data, spool;

	if (repository < 0 || !find_path(repository)) {
		complain_errno(LATER "cannot find the repository");
		return;
	}
	data = refrelay_hook_open_data(repository, data_name);
	if (data < 0) {
		complain_errno(LATER "cannot open the node's data directory");
		return;
	}
	if (refrelay_hook_report_to_node(data))
		return;
	spool = open_spool(data);
	if (spool < 0 || !refrelay_hook_write_spool(data, spool))
		complain_errno(LATER "cannot write to the node's spool");
}

static bool refrelay_hook_is_plain_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || strchr("/-._~", c);
}

/* As part of a URL. */
static void refrelay_hook_add_encoded(char *text, size_t size, const char *more)
{
	for (; *more; more++) {
		unsigned char c = (unsigned char)*more;
		char one[4] = { '%', "0123456789ABCDEF"[c >> 4],
				"0123456789ABCDEF"[c & 15], '\0' };
		if (refrelay_hook_is_plain_char(*more))
			memcpy(one, (char[]){ *more, '\0' }, 2);
		hook_text_add(text, size, one);
	}
}

/* "URL\nROOT\n": where the same repository is at the primary. */
static void say_refusal(int repository, char *primary)
{
	char text[PATH_MAX] = "read-only copy; push to ";
	char *root = strchr(primary, '\n');
	size_t len;

	if (root)
		*root++ = '\0';
	hook_text_add(text, sizeof(text), primary);
	if (root) {
		root[strcspn(root, "\n")] = '\0';
		len = strlen(root);
		if (len > 0 && find_path(repository) &&
		    hook_text_begins_with(path, root) && path[len] == '/')
			refrelay_hook_add_encoded(text, sizeof(text), path + len);
	}
	hook_text_say(text);
}

/* -1 with errno set: it is not known. An empty directory may be a mount point whose
 * volume is away. */
static int read_primary(int data, char *primary, size_t size)
{
	if (data < 0)
		return -1;
	if (hook_text_read_file(data, HOOK_PRIMARY, primary, size))
		return 1;
	return errno == ENOENT && faccessat(data, HOOK_DATABASE, F_OK, 0) == 0 ? 0 : -1;
}

/* A push into a copy would be there only. Users other than the node's may never look into
 * the directory, and push at former secondaries, too: they are not kept from it. */
static bool may_be_copy(int repository)
{
	int error = errno;
	struct stat record;

	if (repository < 0 || fstatat(repository, HOOK_COPY_RECORD, &record, 0) != 0 ||
	    (error == EACCES && record.st_uid != geteuid()))
		return false;
	errno = error;
	complain_errno("this may be a read-only copy, and its node's data directory "
		       "cannot be read");
	hook_text_complain("hint", "see where " HOOK_NODE_LINK " leads; if this is no "
				   "copy any more, remove " HOOK_COPY_RECORD);
	return true;
}

/* The node says in its data directory that its repositories are copies; so all hooks
 * obey at once when its role changes. */
static bool refuses(int repository, const char *data_name)
{
	char primary[2 * PATH_MAX];
	int data = repository < 0 ? -1 : refrelay_hook_open_data(repository, data_name);
	int is_copy = read_primary(data, primary, sizeof(primary));
	bool is_refused = is_copy > 0 || (is_copy < 0 && may_be_copy(repository));

	if (is_copy > 0)
		say_refusal(repository, primary);
	if (data >= 0)
		close(data);
	return is_refused;
}

/* False: git must not go on. */
static bool bracket(int repository, const char *step)
{
	if (strcmp(step, "prepared") == 0)
		return hook_state_begin(repository);
	if (strcmp(step, "committed") == 0)
		hook_state_committed(repository);
	else if (strcmp(step, "aborted") == 0)
		hook_state_aborted(repository);
	return true;
}

/* The node is told last: it looks at once. False: git must not go on. */
static bool refrelay_hook_serve(const char *hook, const char *argument,
				const char *data_name)
{
	bool is_receipt = strcmp(hook, "post-receive") == 0;
	bool is_transaction = argument && strcmp(hook, "reference-transaction") == 0;
	bool begins_change = strcmp(hook, "pre-receive") == 0 ||
			     (is_transaction && strcmp(argument, "prepared") == 0);
	int repository = -1;

	if (is_transaction || is_receipt || begins_change)
		repository = refrelay_hook_open_repository();
	if (begins_change && refuses(repository, data_name))
		return false;
	if (is_transaction && !bracket(repository, argument))
		return false;
	if ((is_receipt || (is_transaction && strcmp(argument, "committed") == 0)) &&
	    !hook_state_is_of_node())
		refrelay_hook_report_change(repository, data_name);
	if (repository >= 0)
		close(repository);
	return true;
}

/* By name of a hook file, or of a link to this program. */
static int run_as(char *script, char **arguments)
{
	struct hook_call call;

	hook_call_of(script, arguments, &call);
	if (!hook_is_nested() && !refrelay_hook_serve(call.name, arguments[0], NULL))
		return 1;
	hook_become_kept(&call);
	return 0;
}

int main(int argc, char **argv)
{
	const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
	const char *name = slash ? slash + 1 : argc > 0 ? argv[0] : "";

	if (argc > 2 && strcmp(argv[1], HOOK_MARK) == 0)
		return run_as(argv[2], argv + 3);
	if (!hook_text_begins_with(name, HOOK_PROGRAM))
		return argc > 0 ? run_as(argv[0], argv + 1) : 0;
	if (argc < 3 || hook_is_nested())
		return 0;
	return refrelay_hook_serve(argv[2], argc > 3 ? argv[3] : NULL, argv[1]) ? 0 : 1;
}
