/*
 * libFuzzer: any message on the node's socket is answered, by "ok" or by "no", a class
 * and a sentence, and the node goes on: it answers what an honest hook says afterwards.
 */
#include "fuzz_notice.h"
#include "fuzz_threads.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "base/thread.h"
#include "change/hook_socket.h"

static struct hook_socket *hooks;

static void start(void)
{
	struct err err;

	make_directory();
	if (hook_socket_start(
		    &(struct hook_socket_options){ .data = directory, .notice = &notice },
		    &hooks, &err) != 0)
		abort();
}

/* The length of the answer; -1: there was none. */
static ssize_t say(const void *bytes, size_t len, char *answer, size_t size)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/" HOOK_SOCKET,
		 directory);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		abort();
	if (send(fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
		abort();
	return TEMP_FAILURE_RETRY(recv(fd, answer, size, 0));
}

static void check(const char *answer)
{
	if (text_starts_with(answer, HOOK_OK))
		return;
	assert(text_starts_with(answer, HOOK_NO));
	const char *class = answer + strlen(HOOK_NO), *sentence = strchr(class, ' ');
	assert(sentence && sentence > class && sentence[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char answer[HOOK_MESSAGE_MAX + 512];
	ssize_t got;

	if (!hooks)
		start_without_signals(start);
	if (len == 0) /* is the end, to the other side */
		return 0;
	got = say(data, len, answer, sizeof(answer) - 1);
	assert(got > 0);
	answer[got] = '\0';
	check(answer);
	got = say("changed /root/honest", strlen("changed /root/honest"), answer,
		  sizeof(answer) - 1);
	assert(got == 4 && memcmp(answer, "ok 1", 4) == 0);
	return 0;
}
