/*
 * The supervisor of one child (base/proc_wire.h has its arguments and messages). Static
 * and small, since one is started for each git command; single-threaded, so that it may
 * fork.
 *
 * Why no descendant survives:
 *
 * - As child subreaper it becomes the parent of every orphan below it, whatever group or
 *   session that is in, and it ends only when waitid() says that no child is left.
 * - Only its own children are signalled, each with its process group. As nobody else can
 *   reap them, neither number can have passed to a stranger. What hides behind a parent
 *   comes to light when the parent dies, and is killed in the next round.
 * - If it is killed itself, the child gets SIGKILL from the kernel, and proc.c kills the
 *   rest of the session.
 *
 * But for what a hook of a push starts in the background: as after a push by ssh it
 * stays, if the program exits with 0 and was not ended by us (leaves_jobs).
 *
 * Why in time: the timer counts CLOCK_BOOTTIME, and the daemon is needed for nothing. A
 * process that hangs in the kernel (a dead NFS server) still delays the report, rightly:
 * it may yet write.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/hook_wire.h"
#include "base/proc_wire.h"
#include "run/confine.h"

enum { AGAIN_MS = 50, GROUPS_MAX = 64 };

static int inherited[PROC_FDS_MAX], inherited_count; /* control first */
static int control, signals, timer, children;
static int64_t grace_ms, timeout_at;
static int niceness;
static unsigned long long file_most, memory_most; /* 0: no limit */
static bool leaves_jobs;
static int64_t deadline = INT64_MAX;
static int64_t kill_at = INT64_MAX; /* else: it is ending */

static pid_t child;
static const struct confinement *confined; /* NULL: it is free */

/* Shared with the child until its exec. */
static struct {
	int error;
	enum proc_cause cause;
} * failure;

static struct proc_report report = { .exit_code = -1 };

static pid_t reported[GROUPS_MAX]; /* groups that were sent SIGTERM */
static int reported_count;

static int64_t refrelay_run_earlier_of(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t refrelay_run_add_ms(int64_t at, int64_t ms)
{
	return at > INT64_MAX - ms ? INT64_MAX : at + ms;
}

static int64_t boot_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static bool is_ending(void)
{
	return kill_at != INT64_MAX;
}

static void begin_end(enum proc_cause cause)
{
	if (is_ending())
		return;
	report.cause = cause;
	kill_at = refrelay_run_earlier_of(refrelay_run_add_ms(boot_ms(), grace_ms),
					  INT64_MAX - 1);
}

/* Whether the group has not been sent SIGTERM before: some programs take a second one
 * for impatience. When the list is full, SIGKILL must do. */
static bool is_new(pid_t group)
{
	for (int i = 0; i < reported_count; i++)
		if (reported[i] == group)
			return false;
	if (reported_count == GROUPS_MAX)
		return false;
	reported[reported_count++] = group;
	return true;
}

static void signal_group_of(pid_t pid, int signal)
{
	pid_t group = getpgid(pid);

	if (group <= 0 || group == getpgrp()) /* it has joined our own */
		kill(pid, signal);
	else if (signal == SIGKILL || is_new(group))
		kill(-group, signal);
}

static void signal_children(int signal)
{
	char list[8192], *at = list, *end;
	ssize_t len = pread(children, list, sizeof(list) - 1, 0);

	list[len > 0 ? len : 0] = '\0';
	for (;;) {
		long pid = strtol(at, &end, 10);
		if (end == at || *end != ' ') /* cut off: in the next round */
			return;
		signal_group_of((pid_t)pid, signal);
		at = end;
	}
}

static void note_end_of_child(const siginfo_t *info)
{
	if (info->si_code == CLD_EXITED)
		report.exit_code = info->si_status;
	else
		report.signal = info->si_status;
	begin_end(PROC_BY_ITSELF);
}

/* Reaps what has ended; false when no descendant is left. */
static bool refrelay_run_reap_children(void)
{
	siginfo_t info = { 0 };

	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0) {
		if (info.si_pid == 0)
			return true;
		if (info.si_pid == child)
			note_end_of_child(&info);
		info.si_pid = 0;
	}
	return false;
}

/* Does what is due now, and returns when it wants to be called again. */
static int64_t refrelay_run_apply_deadlines(void)
{
	int64_t now = boot_ms();

	if (now >= deadline)
		begin_end(PROC_DEADLINE);
	else if (now >= timeout_at)
		begin_end(PROC_TIMEOUT);
	if (!is_ending())
		return refrelay_run_earlier_of(deadline, timeout_at);
	kill_at = refrelay_run_earlier_of(
		kill_at, deadline > 0 ? refrelay_run_add_ms(deadline, grace_ms) : 0);
	if (now >= kill_at) {
		signal_children(SIGKILL);
		return now + AGAIN_MS;
	}
	signal_children(SIGTERM);
	return kill_at;
}

static void set_timer(int64_t at)
{
	struct itimerspec spec = { 0 };

	if (at != INT64_MAX) {
		spec.it_value.tv_sec = at / 1000;
		spec.it_value.tv_nsec = at % 1000 * 1000000;
	}
	timerfd_settime(timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

/* Takes the latest deadline. */
static void hear_control(void)
{
	int64_t at;
	ssize_t got;

	while ((got = recv(control, &at, sizeof(at), MSG_DONTWAIT)) == sizeof(at))
		deadline = at;
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	close(control);
	control = -1;
	begin_end(PROC_ASKED);
}

static void hear_signals(void)
{
	struct signalfd_siginfo info;

	while (read(signals, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo != SIGCHLD)
			begin_end(PROC_ASKED);
}

static void refrelay_run_wait_for_events(void)
{
	struct pollfd watched[] = {
		{ .fd = signals, .events = POLLIN },
		{ .fd = timer, .events = POLLIN },
		{ .fd = control, .events = POLLIN },
	};

	poll(watched, 3, -1);
	hear_signals();
	if (control >= 0)
		hear_control();
}

static bool may_leave(void)
{
	return leaves_jobs && report.cause == PROC_BY_ITSELF && report.exit_code == 0;
}

static void supervise(void)
{
	while (refrelay_run_reap_children() && !may_leave()) {
		set_timer(refrelay_run_apply_deadlines());
		refrelay_run_wait_for_events();
	}
	if (failure->error != 0) {
		report = (struct proc_report){ .cause = failure->cause,
					       .exit_code = -1,
					       .error = failure->error };
	}
}

/* Where the kernel shares the processors among sessions first (sched(7), autogroups), a
 * process is only nicer than others of its session: so this one has to be nicer too. */
static void yield_to_sessions(void)
{
	int fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	dprintf(fd, "%d", niceness);
	close(fd);
}

/* A kernel that refuses runs it as any other: it is a wish only. */
static void yield_to_others(void)
{
	const struct sched_param none = { 0 };

	errno = 0;
	if (niceness <= 0 || (nice(niceness) == -1 && errno != 0))
		return;
	sched_setscheduler(0, SCHED_BATCH, &none);
	yield_to_sessions();
}

static void limit_child(int resource, unsigned long long most)
{
	struct rlimit limit;

	if (most == 0 || getrlimit(resource, &limit) != 0)
		return;
	if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max > most)
		limit.rlim_cur = limit.rlim_max = most;
	setrlimit(resource, &limit);
}

static void report_supervisor(pid_t supervisor)
{
	char number[24];

	snprintf(number, sizeof(number), "%jd", (intmax_t)supervisor);
	setenv(HOOK_SUPERVISOR, number, 1);
}

static _Noreturn void fail_child(enum proc_cause cause)
{
	failure->error = errno;
	failure->cause = cause;
	_exit(127);
}

static _Noreturn void refrelay_run_exec_child(char **argv, pid_t supervisor,
					      const sigset_t *none)
{
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != supervisor)
		_exit(127); /* it died before the line above */
	yield_to_others();
	limit_child(RLIMIT_FSIZE, file_most);
	limit_child(RLIMIT_DATA, memory_most);
	report_supervisor(supervisor);
	sigprocmask(SIG_SETMASK, none, NULL);
	signal(SIGXFSZ,
	       SIG_IGN); /* git then says what is wrong, instead of dying of it */
	if (confined && confine(confined) != 0)
		fail_child(PROC_NOT_CONFINED);
	execvp(argv[0], argv);
	fail_child(PROC_NO_PROGRAM);
}

/* Closes our copies of what the child uses, so that the ends of its pipes can be seen. */
static void close_its_files(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		close(fd);
	for (int i = 1; i < inherited_count; i++)
		close(inherited[i]);
}

static int refrelay_run_start_child(char **argv)
{
	sigset_t none;
	pid_t supervisor = getpid();

	sigemptyset(&none);
	child = fork();
	if (child < 0)
		return -1;
	if (child == 0)
		refrelay_run_exec_child(argv, supervisor, &none);
	setpgid(child, child); /* whoever is first, so that no signal is lost */
	close_its_files();
	return 0;
}

static void read_inherited(const char *list)
{
	char *end;

	while (inherited_count < PROC_FDS_MAX && *list) {
		inherited[inherited_count++] = (int)strtol(list, &end, 10);
		list = *end == ',' ? end + 1 : end;
	}
	control = inherited[0];
}

/* NICE[,FILE,MEMORY[,LEAVES]] */
static void read_limits(const char *text)
{
	char *end;

	niceness = (int)strtol(text, &end, 10);
	if (*end == ',')
		file_most = strtoull(end + 1, &end, 10);
	if (*end == ',')
		memory_most = strtoull(end + 1, &end, 10);
	leaves_jobs = strcmp(end, ",1") == 0;
}

static void close_strangers(void)
{
	unsigned from = STDERR_FILENO + 1, next;

	do {
		next = UINT_MAX;
		for (int i = 0; i < inherited_count; i++)
			if ((unsigned)inherited[i] >= from &&
			    (unsigned)inherited[i] < next)
				next = (unsigned)inherited[i];
		if (next > from)
			close_range(from, next - 1, 0);
		from = next + 1;
	} while (next != UINT_MAX);
}

static int refrelay_run_set_up(void)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGHUP);
	if (sigprocmask(SIG_SETMASK, &mask, NULL) != 0 ||
	    prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 ||
	    fcntl(control, F_SETFD, FD_CLOEXEC) != 0)
		return -1;
	signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
	children = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
	failure = mmap(NULL, sizeof(*failure), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return signals < 0 || timer < 0 || children < 0 || failure == MAP_FAILED ? -1 : 0;
}

static void refrelay_run_supervise_child(char **argv)
{
	if (refrelay_run_set_up() == 0) {
		hear_control();
		refrelay_run_apply_deadlines();
		if (is_ending())
			return;
		if (refrelay_run_start_child(argv) == 0) {
			supervise();
			return;
		}
	}
	report.cause = PROC_NO_WATCH;
	report.error = errno;
}

/* Returns where the program's own words begin. A node that is older than this program
 * says nothing of it. */
static char **read_confinement(char **words, struct confinement *confinement)
{
	char **from = words + 1;

	if (words[0][0] != '+')
		return words;
	for (long left = strtol(words[0], NULL, 10); left > 0 && from[0]; left--, from++)
		confinement->path_count++;
	confinement->paths = words + 1;
	confinement->program = from[0] ? from[0] : "";
	confined = confinement;
	return from;
}

int main(int argc, char **argv)
{
	struct confinement confinement = { 0 };

	if (argc < 6) {
		fprintf(stderr,
			"usage: refrelay-run CONTROL_FD[,FD]... GRACE_MS TIMEOUT_AT "
			"NICE[,FILE,MEMORY[,LEAVES]] [+N PATH...] PROGRAM "
			"[ARGUMENT]...\n(started "
			"by refrelay "
			"only)\n");
		return 2;
	}
	read_inherited(argv[1]);
	close_strangers();
	grace_ms = strtoll(argv[2], NULL, 10);
	timeout_at = strtoll(argv[3], NULL, 10);
	read_limits(argv[4]);
	refrelay_run_supervise_child(read_confinement(argv + 5, &confinement));
	if (control >= 0)
		send(control, &report, sizeof(report), MSG_NOSIGNAL);
	return 0;
}
