/*
 * The accepting thread only queues connections; a worker reads the message, so that a
 * client that says nothing holds up one worker for a second and nobody else. When all is
 * full, connections wait in the kernel, and hooks lose patience there: they use the
 * spool. Idle, no thread wakes, and after some seconds only the accepting one is left.
 */
#include "change/hook_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/hook_wire.h"
#include "base/log.h"
#include "base/str.h"
#include "base/thread.h"
#include "change/blob_notice.h"

/* connect() waits as long as one may send when the node has too much to do. */
static int set_patience(int fd, int64_t wait_ms)
{
	const struct timeval wait = { .tv_sec = wait_ms / 1000,
				      .tv_usec = wait_ms % 1000 * 1000 };

	return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
}

static int late(struct err *err)
{
	err_set(err, ERR_TIMEOUT, "the node is running, but did not answer in time");
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
		return err_set(err, ERR_INTERNAL, "unexpected answer from the node");
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

int hook_socket_report(const char *data, const char *message, int64_t wait_ms,
		       char *answer, size_t size, struct err *err)
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

enum { WORKERS_MAX = 16, QUEUE_MAX = 64, IDLE_MS = 10000, SAY_MS = 1000 };

struct worker {
	struct hook_socket *socket;
	pthread_t thread;
	bool is_started; /* accepting thread only; there is one to join */
	bool has_ended;  /* guarded by mutex */
};

struct hook_socket {
	pthread_mutex_t mutex;
	pthread_cond_t work;  /* something queued, or stopping */
	pthread_cond_t room;  /* something taken, or stopping */
	int queue[QUEUE_MAX]; /* guarded by mutex; a ring */
	size_t first, queued; /* guarded by mutex */
	size_t idle;          /* guarded by mutex; workers that wait */
	struct worker workers[WORKERS_MAX];
	struct hook_socket_options options; /* options.data is not kept */
	struct stop stop;
	int data; /* the directory */
	int listener;
	pthread_t acceptor;
};

static void hook_socket_add_refusal(const struct err *err, struct str *answer)
{
	str_addf(answer, HOOK_NO "%s %s", err_class_name(err->class), err->text);
}

/* Somebody else has written to a copy. */
static int change_copy(struct hook_socket *socket, const char *path, struct str *answer,
		       struct err *err)
{
	const struct hook_socket_options *options = &socket->options;

	if (!options->copies)
		return err_set(err, ERR_CONFIG,
			       "this site does not record changes: it is not a primary");
	AUTO_FREE char *name = notice_name_below(options->copies, path, err);
	if (!name)
		return -1;
	options->copy_changed(options->arg, name);
	str_add(answer, HOOK_OK " 0");
	return 0;
}

static int hook_socket_handle_change(struct hook_socket *socket, const char *path,
				     struct str *answer, struct err *err)
{
	struct notice *notice = socket->options.notice;
	AUTO_NOTICED struct noticed noticed = { 0 };
	AUTO_FREE char *name = NULL;

	if (!notice)
		return change_copy(socket, path, answer, err);
	name = notice_name_of(notice, path, err);
	if (!name)
		return -1;
	int result = notice_compare_hint(notice, name, &noticed, err);
	/* That it was deleted is a change like others, if this is the first to tell. */
	if (result != 0 && !(noticed.why.class == ERR_MISSING && noticed.is_changed)) {
		/* Nothing was recorded, which is no fault of the repository: the hook is
		 * to tell it again. */
		if (noticed.why.class == ERR_NONE)
			err->class = ERR_DISK;
		return -1;
	}
	failpoint("hook.noticed");
	str_addf(answer, HOOK_OK " %" PRIu64, noticed.event.id);
	return 0;
}

static int change_blobs(struct hook_socket *socket, const char *what, struct str *answer,
			struct err *err)
{
	struct notice *blobs = socket->options.blobs;
	uint64_t event_id;

	if (!blobs)
		return err_set(err, ERR_CONFIG,
			       "this site is not a primary, or has no blob types");
	if (blob_changed(blobs, what, &event_id, err) != 0)
		return -1;
	str_addf(answer, HOOK_OK " %" PRIu64, event_id);
	return 0;
}

static void hook_socket_handle_message(struct hook_socket *socket, const char *message,
				       struct str *answer)
{
	struct err err;

	if (strcmp(message, "wake") == 0) {
		if (socket->options.wake)
			socket->options.wake(socket->options.arg);
		str_add(answer, HOOK_OK);
		if (socket->options.mirrors)
			str_addf(answer, " %s",
				 socket->options.mirrors(socket->options.arg));
	} else if (strcmp(message, HOOK_ALIVE) == 0 && socket->options.alive) {
		str_add(answer, HOOK_OK " ");
		socket->options.alive(socket->options.arg, answer);
	} else if (text_starts_with(message, HOOK_CHANGED)) {
		const char *path = message + strlen(HOOK_CHANGED);
		if (hook_socket_handle_change(socket, path, answer, &err) == 0)
			return;
		log_warn("hook.failed", LOG_ERR(&err), LOG_TEXT("path", path));
		hook_socket_add_refusal(&err, answer);
	} else if (text_starts_with(message, HOOK_CHANGED_BLOB)) {
		const char *what = message + strlen(HOOK_CHANGED_BLOB);
		if (change_blobs(socket, what, answer, &err) == 0)
			return;
		log_warn("hook.failed", LOG_ERR(&err), LOG_TEXT("path", what));
		hook_socket_add_refusal(&err, answer);
	} else {
		err_set(&err, ERR_CONFIG, "this node does not know that request");
		hook_socket_add_refusal(&err, answer);
	}
}

/* Waits for the client's message; its length, or -1: there is none. */
static ssize_t hook_socket_receive_message(struct hook_socket *socket, int fd,
					   char *message)
{
	struct pollfd watched[] = { { .fd = fd, .events = POLLIN },
				    { .fd = socket->stop.fd, .events = POLLIN } };

	if (poll(watched, 2, SAY_MS) <= 0 || watched[1].revents)
		return -1;
	ssize_t got = recv(fd, message, HOOK_MESSAGE_MAX, MSG_DONTWAIT | MSG_TRUNC);
	return got > 0 ? got : -1;
}

/* Takes fd. A client that has gone by then has said the same to the spool. */
static void hook_socket_serve_client(struct hook_socket *socket, int fd_given)
{
	AUTO_CLOSE int fd = fd_given;
	AUTO_STR struct str answer = STR_INIT;
	char message[HOOK_MESSAGE_MAX + 1];
	ssize_t len = hook_socket_receive_message(socket, fd, message);

	if (len < 0)
		return;
	if (len > HOOK_MESSAGE_MAX || memchr(message, '\0', (size_t)len)) {
		str_addf(&answer, HOOK_NO "config a message is text of up to %d bytes",
			 HOOK_MESSAGE_MAX);
	} else {
		message[len] = '\0';
		hook_socket_handle_message(socket, message, &answer);
	}
	if (send(fd, answer.data, answer.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("hook.gone", LOG_NUMBER("errno", errno));
}

/* The next connection; -1: the worker is to end. */
static int hook_socket_take_next_locked(struct hook_socket *socket)
{
	int64_t until = clock_boot_ms() + IDLE_MS;
	int fd;

	socket->idle++;
	while (socket->queued == 0 && !stop_is_requested(&socket->stop))
		if (!cond_wait_until(&socket->work, &socket->mutex, until))
			break;
	socket->idle--;
	if (socket->queued == 0 || stop_is_requested(&socket->stop))
		return -1;
	fd = socket->queue[socket->first];
	socket->first = (socket->first + 1) % QUEUE_MAX;
	socket->queued--;
	pthread_cond_signal(&socket->room);
	return fd;
}

static void *hook_socket_run_worker(void *arg)
{
	struct worker *self = arg;
	struct hook_socket *socket = self->socket;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&socket->mutex);
	int fd;

	while ((fd = hook_socket_take_next_locked(socket)) >= 0) {
		unlock(&socket->mutex);
		hook_socket_serve_client(socket, fd);
		lock(&socket->mutex);
	}
	self->has_ended = true;
	return NULL;
}

static void start_worker_locked(struct hook_socket *socket)
{
	for (size_t i = 0; i < WORKERS_MAX; i++) {
		struct worker *worker = &socket->workers[i];
		if (worker->is_started && !worker->has_ended)
			continue;
		if (worker->is_started)
			thread_join(worker->thread);
		*worker = (struct worker){ .socket = socket, .is_started = true };
		thread_start(&worker->thread, "hook", hook_socket_run_worker, worker);
		return;
	}
}

/* Takes fd. */
static void enqueue(struct hook_socket *socket, int fd)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&socket->mutex);

	while (socket->queued == QUEUE_MAX && !stop_is_requested(&socket->stop))
		cond_wait_until(&socket->room, &socket->mutex, INT64_MAX);
	if (stop_is_requested(&socket->stop)) {
		close(fd);
		return;
	}
	socket->queue[(socket->first + socket->queued) % QUEUE_MAX] = fd;
	socket->queued++;
	if (socket->idle < socket->queued)
		start_worker_locked(socket);
	pthread_cond_signal(&socket->work);
}

static void *run_acceptor(void *arg)
{
	struct hook_socket *socket = arg;
	struct pollfd watched[] = { { .fd = socket->listener, .events = POLLIN },
				    { .fd = socket->stop.fd, .events = POLLIN } };

	while (!stop_is_requested(&socket->stop)) {
		poll(watched, 2, -1);
		if (stop_is_requested(&socket->stop))
			break;
		int fd = accept4(socket->listener, NULL, NULL,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			enqueue(socket, fd);
		} else if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
			struct err err;
			err_errno(&err, "cannot accept a hook's connection");
			log_warn("hook_socket.failed", LOG_ERR(&err));
			stop_wait(&socket->stop, 1000); /* files may be closed by then */
		}
	}
	return NULL;
}

static int remove_stale(int data, struct err *err)
{
	struct stat st;

	if (fstatat(data, HOOK_SOCKET, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? 0
				       : err_errno(err, "cannot look at " HOOK_SOCKET);
	if (!S_ISSOCK(st.st_mode)) {
		err_set(err, ERR_CONFIG,
			"something other than a socket is at " HOOK_SOCKET);
		return err_remedy(err, "move it away");
	}
	if (unlinkat(data, HOOK_SOCKET, 0) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove the old " HOOK_SOCKET);
	return 0;
}

/* By way of the open directory: its path may be longer than an address. The mode is
 * given before there is a name. */
static int open_listener(int data, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	AUTO_CLOSE int fd =
		socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(address.sun_path, sizeof(address.sun_path),
		 "/proc/self/fd/%d/" HOOK_SOCKET, data);
	if (fd < 0 || fchmod(fd, 0660) != 0 ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    listen(fd, QUEUE_MAX) != 0)
		return err_errno(err, "cannot open the socket " HOOK_SOCKET);
	return TAKE_FD(fd);
}

int hook_socket_start(const struct hook_socket_options *options,
		      struct hook_socket **result, struct err *err)
{
	AUTO_CLOSE int data = dir_open(AT_FDCWD, options->data, err);
	int listener;

	if (data < 0)
		return -1;
	if (remove_stale(data, err) != 0 || (listener = open_listener(data, err)) < 0)
		return err_prefix(err, "%s", options->data);

	struct hook_socket *socket = xcalloc(1, sizeof(*socket));
	mutex_init(&socket->mutex);
	cond_init(&socket->work);
	cond_init(&socket->room);
	stop_init(&socket->stop);
	socket->options = *options;
	socket->options.data = NULL;
	socket->data = TAKE_FD(data);
	socket->listener = listener;
	thread_start(&socket->acceptor, "hook-accept", run_acceptor, socket);
	*result = socket;
	return 0;
}

/* After this nobody starts a worker: the accepting thread has ended. */
static void end_threads(struct hook_socket *socket)
{
	lock(&socket->mutex);
	stop_request(&socket->stop);
	pthread_cond_broadcast(&socket->work);
	pthread_cond_broadcast(&socket->room);
	unlock(&socket->mutex);
	thread_join(socket->acceptor);
	for (size_t i = 0; i < WORKERS_MAX; i++)
		if (socket->workers[i].is_started)
			thread_join(socket->workers[i].thread);
}

void hook_socket_stop(struct hook_socket *socket)
{
	if (!socket)
		return;
	end_threads(socket);
	unlinkat(socket->data, HOOK_SOCKET, 0);
	close(socket->listener);
	for (size_t i = 0; i < socket->queued; i++)
		close(socket->queue[(socket->first + i) % QUEUE_MAX]);
	close(socket->data);
	stop_clear(&socket->stop);
	pthread_cond_destroy(&socket->work);
	pthread_cond_destroy(&socket->room);
	pthread_mutex_destroy(&socket->mutex);
	free(socket);
}
