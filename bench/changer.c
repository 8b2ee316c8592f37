/*
 * Changes refs as fast as they can be changed, for bench/lib/rows_sites.py.
 *
 * usage: changer THREADS [SOCKET]
 *
 * Each line of the input is a change: the absolute path of a repository, a ref that is a
 * file there, and its new value. As git does it the value is written to REF.lock, which
 * is renamed. With SOCKET the node that listens there is told, as by its hook, and has to
 * have recorded the change before the next one of that repository is made. Changes of
 * one repository keep their order; those of others are made by other threads.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/hook_wire.h"

#define THREADS_MOST 256

struct change {
	char *repository, *ref, *value;
};

static struct change *changes;
static size_t change_count, thread_count;
static struct sockaddr_un node = { .sun_family = AF_UNIX };
static bool is_told;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void move_ref(const struct change *change)
{
	char path[4096], locked[4096 + 8];

	snprintf(path, sizeof(path), "%s/%s", change->repository, change->ref);
	snprintf(locked, sizeof(locked), "%s.lock", path);
	int fd = open(locked, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0 || dprintf(fd, "%s\n", change->value) < 0 || close(fd) != 0 ||
	    rename(locked, path) != 0)
		fail(locked);
}

static void tell_node(const struct change *change)
{
	char text[HOOK_MESSAGE_MAX], answer[HOOK_ANSWER_MAX];
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int len = snprintf(text, sizeof(text), HOOK_CHANGED "%s", change->repository);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&node, sizeof(node)) != 0 ||
	    send(fd, text, (size_t)len, MSG_NOSIGNAL) != len)
		fail("the node's socket");
	ssize_t got = recv(fd, answer, sizeof(answer) - 1, 0);
	if (got < 0)
		fail("the node's answer");
	answer[got] = '\0';
	if (strncmp(answer, HOOK_OK, strlen(HOOK_OK)) != 0) {
		fprintf(stderr, "changer: %s: %s\n", change->repository, answer);
		exit(1);
	}
	close(fd);
}

/* All changes of a repository are one thread's. */
static size_t thread_of(const char *repository)
{
	size_t sum = 5381;

	for (; *repository; repository++)
		sum = sum * 33 + (unsigned char)*repository;
	return sum % thread_count;
}

static void *make_changes(void *arg)
{
	const size_t own = *(const size_t *)arg;

	for (size_t i = 0; i < change_count; i++) {
		if (thread_of(changes[i].repository) != own)
			continue;
		move_ref(&changes[i]);
		if (is_told)
			tell_node(&changes[i]);
	}
	return NULL;
}

static void read_changes(void)
{
	struct change one;

	while (scanf("%ms %ms %ms", &one.repository, &one.ref, &one.value) == 3) {
		changes = realloc(changes, (change_count + 1) * sizeof(*changes));
		if (!changes)
			fail("memory");
		changes[change_count++] = one;
	}
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS_MOST];
	size_t numbers[THREADS_MOST];

	thread_count = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	if (thread_count == 0 || thread_count > THREADS_MOST) {
		fprintf(stderr, "usage: changer THREADS [SOCKET] <CHANGES\n");
		return 2;
	}
	is_told = argc > 2;
	if (is_told && strlen(argv[2]) < sizeof(node.sun_path))
		strcpy(node.sun_path, argv[2]);
	read_changes();
	for (size_t i = 0; i < thread_count; i++) {
		numbers[i] = i;
		if (pthread_create(&threads[i], NULL, make_changes, &numbers[i]) != 0)
			fail("thread");
	}
	for (size_t i = 0; i < thread_count; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
