#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hook_wire.h"
#include "base/str.h"
#include "change/hook_socket.h"

/* connect() waits as long as one may send when the node has too much to do. */
static int set_patience(int fd, int64_t wait_ms)
{
	const struct timeval wait = { .tv_sec = wait_ms / 1000,
				      .tv_usec = wait_ms % 1000 * 1000 };

	return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
}

static int late(struct err *err)
{
	err_set(err, ERR_TIMEOUT, "the node runs, but did not answer in time");
	return err_remedy(err, "see its log; it may be overloaded");
}

/* 1: connected; 0: no node runs; -1. */
static int hook_report_connect_node(const char *data, int fd, int64_t wait_ms,
				    struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	AUTO_CLOSE int dir = open(data, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return errno == ENOENT ? 0 : err_errno(err, "cannot open %s", data);
	snprintf(address.sun_path, sizeof(address.sun_path),
		 "/proc/self/fd/%d/" HOOK_SOCKET, dir);
	if (fd < 0 || set_patience(fd, wait_ms) != 0)
		return err_errno(err, "cannot make a socket");
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return 1;
	if (errno == ENOENT || errno == ECONNREFUSED)
		return 0;
	if (errno == EAGAIN)
		return late(err);
	return err_errno(err, "cannot reach the node at %s/" HOOK_SOCKET, data);
}

static enum err_class hook_report_find_class(const char *name, size_t len)
{
	for (enum err_class class = ERR_BUSY; class < ERR_INTERNAL; class ++)
		if (strlen(err_class_name(class)) == len &&
		    strncmp(err_class_name(class), name, len) == 0)
			return class;
	return ERR_INTERNAL;
}

static int hook_report_set_refusal(const char *said, struct err *err)
{
	size_t len;

	if (!text_starts_with(said, HOOK_NO))
		return err_set(err, ERR_INTERNAL, "the node gave no known answer");
	said += strlen(HOOK_NO);
	len = strcspn(said, " ");
	return err_set(err, hook_report_find_class(said, len), "%s",
		       said + len + (said[len] == ' '));
}

/* 1: said filled; 0: the node ended. */
static int hook_report_receive_answer(int fd, int64_t left_ms, char *said,
				      struct err *err)
{
	struct pollfd watched = { .fd = fd, .events = POLLIN };

	if (poll(&watched, 1, left_ms > 0 ? (int)left_ms : 0) <= 0)
		return late(err);
	ssize_t got = recv(fd, said, HOOK_ANSWER_MAX, MSG_DONTWAIT);
	if (got <= 0)
		return 0;
	said[got] = '\0';
	return 1;
}

int hook_socket_tell(const char *data, const char *message, int64_t wait_ms, char *answer,
		     size_t size, struct err *err)
{
	AUTO_FREE char *said = xcalloc(1, HOOK_ANSWER_MAX + 1);
	int64_t until = clock_boot_ms() + wait_ms;
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int result = hook_report_connect_node(data, fd, wait_ms, err);

	if (result <= 0)
		return result;
	if (send(fd, message, strlen(message), MSG_NOSIGNAL) < 0)
		return errno == EPIPE || errno == ECONNRESET
			       ? 0
			       : err_errno(err, "cannot send to the node");
	result = hook_report_receive_answer(fd, until - clock_boot_ms(), said, err);
	if (result <= 0)
		return result;
	if (!text_starts_with(said, HOOK_OK))
		return hook_report_set_refusal(said, err);
	const char *rest = said + strlen(HOOK_OK);
	snprintf(answer, size, "%s", rest + (*rest == ' '));
	return 1;
}
