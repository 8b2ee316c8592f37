/*
 * One run is one refrelay-run, which starts the program and outlives all that comes of
 * it. This side only feeds and reads; nobody's death depends on it (proc_wire.h).
 *
 * The report comes after the last descendant was reaped. So whatever they wrote is in
 * the pipes by then, and reading until a pipe is empty gets all of it; the end of the
 * file is not waited for, since a stranger may have been handed the pipe.
 */
#include "base/proc.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/proc_run.h"

enum {
	CHUNK_SIZE = 32768,
	ORPHANS_MAX_WAIT_MS = 500 /* for the death of a killed supervisor's orphans */
};

/* Until it is reaped, its number cannot be another's. */
void run_tell(struct run *run)
{
	if (!run->told)
		kill(run->supervisor, SIGTERM);
	run->told = true;
}

/* A child over its limit is heard out, so that it can end in good order. */
static void proc_take_output(struct run *run, const char *data, size_t len)
{
	size_t fits = len < run->room ? len : run->room;

	str_add_bytes(run->request->output, data, fits);
	run->room -= fits;
	if (fits < len) {
		run->over_limit = true;
		run_tell(run);
	}
}

static void take_errors(struct run *run, const char *data, size_t len)
{
	struct str *tail = &run->tail;

	if (len > PROC_TAIL_KEPT) {
		str_reset(tail);
		run->tail_is_cut = true;
		data += len - PROC_TAIL_KEPT;
		len = PROC_TAIL_KEPT;
	}
	if (tail->len + len > 2 * PROC_TAIL_KEPT) {
		run->tail_is_cut = true;
		memmove(tail->data, tail->data + tail->len - PROC_TAIL_KEPT,
			PROC_TAIL_KEPT);
		str_truncate(tail, PROC_TAIL_KEPT);
	}
	str_add_bytes(tail, data, len);
}

/* Reads once; false when there is nothing, for now or for ever. */
static bool pull(struct run *run, int *fd,
		 void (*take)(struct run *run, const char *data, size_t len))
{
	char chunk[CHUNK_SIZE];
	ssize_t got = *fd >= 0 ? read(*fd, chunk, sizeof(chunk)) : 0;

	if (got > 0) {
		run->heard_at = clock_boot_ms();
		take(run, chunk, (size_t)got);
	} else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
		run_close(fd);
	}
	return got > 0;
}

/* False while neither the report nor the end without it has come. The socket says
 * ECONNRESET, once and even before a report, when the supervisor left without reading
 * the last move of the deadline. */
static bool proc_receive_report(struct run *run)
{
	ssize_t got;

	do
		got = recv(run->control[0], &run->report, sizeof(run->report),
			   MSG_DONTWAIT);
	while (got < 0 && (errno == EINTR || errno == ECONNRESET));
	if (got < 0 && errno == EAGAIN)
		return false;
	run->reported = got == sizeof(run->report);
	return true;
}

/* When it will have been silent for too long. */
static int64_t silent_at(const struct run *run)
{
	if (run->request->silence_ms <= 0 || run->told)
		return INT64_MAX;
	return run->heard_at + run->request->silence_ms;
}

/* For poll(). */
static int patience(const struct run *run)
{
	int64_t at = silent_at(run), left;

	if (run->wake_at > 0 && run->wake_at < at)
		at = run->wake_at;
	if (at == INT64_MAX)
		return -1;
	left = at - clock_boot_ms();
	return left <= 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

void run_feed(struct run *run)
{
	while (run->feed >= 0 && run->offered_len > 0) {
		ssize_t sent =
			send(run->feed, run->offered, run->offered_len, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno == EAGAIN)
			return;
		if (sent < 0) {
			run_close(&run->feed);
			break;
		}
		run->offered += sent;
		run->offered_len -= (size_t)sent;
	}
	run->offered_len = 0;
}

void run_step(struct run *run)
{
	const struct stop *stop = run->request->stop;
	struct pollfd watched[] = {
		{ .fd = run->output[0], .events = POLLIN },
		{ .fd = run->errors[0], .events = POLLIN },
		{ .fd = run->control[0], .events = POLLIN },
		{ .fd = stop && !run->told ? stop->fd : -1, .events = POLLIN },
		{ .fd = run->offered_len > 0 ? run->feed : -1, .events = POLLOUT },
	};

	int count = poll(watched, ARRAY_SIZE(watched), patience(run));

	if (count == 0 && clock_boot_ms() >= silent_at(run)) {
		run->is_silent = true;
		run_tell(run);
	}
	if (count <= 0)
		return;
	if (watched[0].revents && !run->is_streamed)
		pull(run, &run->output[0], proc_take_output);
	if (watched[1].revents)
		pull(run, &run->errors[0], take_errors);
	if (watched[3].revents)
		run_tell(run);
	if (watched[4].revents)
		run_feed(run);
	if (watched[2].revents)
		run->is_over = proc_receive_report(run);
}

/* False if it is of another session or dead, perhaps still a zombie. The pidfd makes
 * sure that what is killed is what was asked for its session. */
static bool kill_if_of(pid_t session, pid_t pid, int64_t until)
{
	AUTO_CLOSE int pidfd = pidfd_open(pid, 0);
	struct pollfd dead = { .fd = pidfd, .events = POLLIN };
	int64_t left = until - clock_boot_ms();

	if (pidfd < 0 || getsid(pid) != session || poll(&dead, 1, 0) != 0)
		return false;
	pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
	poll(&dead, 1, left > 0 ? (int)left : 0);
	return true;
}

static bool kill_session_once(pid_t session, int64_t until)
{
	struct dirent *entry;
	bool found = false;
	AUTO_CLOSEDIR DIR *proc = opendir("/proc");

	while (proc && (entry = readdir(proc)) != NULL) {
		uint64_t number;
		if (!text_to_uint64(entry->d_name, &number))
			continue;
		pid_t pid = (pid_t)number;
		if (pid != session && getsid(pid) == session)
			found |= kill_if_of(session, pid, until);
	}
	return found;
}

/* For a supervisor that was itself killed: its child is dying, the rest is not. While it
 * is not reaped, the number of its session is nobody else's. Orphans in sessions of
 * their own are out of reach. */
static void kill_session(pid_t session)
{
	int64_t until = clock_boot_ms() + ORPHANS_MAX_WAIT_MS;

	while (kill_session_once(session, until) && clock_boot_ms() < until)
		continue;
}

/* After its report the supervisor has nothing left to do but to exit. */
static void proc_reap_supervisor(struct run *run)
{
	if (!run->reported)
		kill_session(run->supervisor);
	kill(run->supervisor, SIGKILL);
	while (waitpid(run->supervisor, NULL, 0) < 0 && errno == EINTR)
		continue;
	if (!run->reported)
		return;
	while (!run->is_streamed && pull(run, &run->output[0], proc_take_output))
		continue;
	while (pull(run, &run->errors[0], take_errors))
		continue;
}

static void leave_deadline(struct run *run)
{
	if (run->request->deadline)
		deadline_detach(run->request->deadline, run->control[0]);
}

int run_begin(struct run *run, struct err *err)
{
	struct deadline *deadline = run->request->deadline;

	if (run->request->stop && stop_is_requested(run->request->stop))
		return err_set(err, ERR_CANCELED, "%s was not started: stopped",
			       run->request->argv[0]);
	if (run_open(run, err) != 0)
		return -1;
	if (deadline) /* first: it is heard even if we are stopped from here on */
		deadline_attach(deadline, run->control[0]);
	if (run_start(run, err) == 0)
		return 0;
	leave_deadline(run);
	return -1;
}

void run_end(struct run *run)
{
	proc_reap_supervisor(run);
	leave_deadline(run);
}

int proc_run(const struct proc_request *request, struct proc_result *result,
	     struct err *err)
{
	struct proc_result unwanted;
	struct run run;
	int status;

	if (!result)
		result = &unwanted;
	*result = (struct proc_result){ .exit_code = -1 };
	run_init(&run, request);
	status = run_begin(&run, err);
	if (status == 0) {
		while (!run.is_over)
			run_step(&run);
		run_end(&run);
		status = run_judge(&run, result, err);
	}
	run_clear(&run);
	return status;
}
