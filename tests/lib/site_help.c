/*
 * What the site tests would otherwise start many programs for; usage() has the commands.
 *
 * `adopt` runs a script, and inherits all that is started below it and loses its parent.
 * So what a test leaves behind is found by walking down from there, and no other process
 * of the machine is looked at closely.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_PROCESSES 16384
#define SIGNAL_MS 1500 /* until the next signal */
/* Below those that the kernel gives to connections: a node that is down for a while must
   get its own again. A script has a hundred of them: see take_ports(). */
#define FIRST_PORT 12000
#define PORTS_OF_SCRIPT 100
#define SCRIPTS 200

struct process {
	pid_t id, parent;
	char state;
};

struct processes {
	struct process all[MAX_PROCESSES];
	size_t count;
};

_Noreturn static void usage(void)
{
	fputs("usage: site_help adopt COMMAND...      it inherits what is orphaned "
	      "below\n"
	      "       site_help below PID KEPT...      ids of all below PID, but for "
	      "those\n"
	      "                                        below, or of, KEPT\n"
	      "       site_help sweep PID KEPT...      ends them: TERM, and KILL at "
	      "last\n"
	      "       site_help member A.B             of the JSON object on standard "
	      "input\n"
	      "       site_help port [COUNTER]         one that is free; of those of "
	      "the script,\n"
	      "                                        if it has some\n",
	      stderr);
	exit(2);
}

_Noreturn static void die(const char *what)
{
	fprintf(stderr, "site_help: %s: %s\n", what, strerror(errno));
	exit(2);
}

/* False: it has ended meanwhile. */
static bool read_process(const char *name, struct process *process)
{
	char path[300], text[512];
	const char *end;
	FILE *file;
	int parent;

	snprintf(path, sizeof(path), "/proc/%s/stat", name);
	if ((file = fopen(path, "re")) == NULL)
		return false;
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	/* The name, in parentheses, may have anything in it. */
	end = strrchr(text, ')');
	if (end == NULL || sscanf(end, ") %c %d", &process->state, &parent) != 2)
		return false;
	process->id = (pid_t)strtol(name, NULL, 10);
	process->parent = parent;
	return true;
}

static void read_processes(struct processes *processes)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	if (proc == NULL)
		die("/proc");
	processes->count = 0;
	while ((entry = readdir(proc)) != NULL && processes->count < MAX_PROCESSES)
		if (isdigit((unsigned char)entry->d_name[0]) &&
		    read_process(entry->d_name, &processes->all[processes->count]))
			processes->count++;
	closedir(proc);
}

static const struct process *find_process(const struct processes *processes, pid_t id)
{
	for (size_t i = 0; i < processes->count; i++)
		if (processes->all[i].id == id)
			return &processes->all[i];
	return NULL;
}

static bool is_kept(pid_t id, char **kept)
{
	for (; *kept != NULL; kept++)
		if (id == (pid_t)strtol(*kept, NULL, 10))
			return true;
	return false;
}

/* Whether one of this process and its ancestors: they are the script itself. */
static bool is_of_script(const struct processes *processes, pid_t id)
{
	const struct process *here = find_process(processes, getpid());

	while (here != NULL && here->id != id)
		here = find_process(processes, here->parent);
	return here != NULL;
}

/* Whether it is below ROOT, neither of the kept ones nor below them. */
static bool is_left(const struct processes *processes, const struct process *process,
		    pid_t root, char **kept)
{
	pid_t id = process->id;

	for (int depth = 0; depth < 1000; depth++) {
		const struct process *here;

		if (id == root)
			return process->id != root;
		if (is_kept(id, kept) || (here = find_process(processes, id)) == NULL)
			return false;
		id = here->parent;
	}
	return false;
}

/* Those that are left and live go to the front. */
static size_t keep_left(struct processes *processes, pid_t root, char **kept)
{
	static struct process left[MAX_PROCESSES];
	size_t count = 0;

	read_processes(processes);
	for (size_t i = 0; i < processes->count; i++) {
		const struct process *process = &processes->all[i];

		if (strchr("ZX", process->state) == NULL &&
		    !is_of_script(processes, process->id) &&
		    is_left(processes, process, root, kept))
			left[count++] = *process;
	}
	memcpy(processes->all, left, count * sizeof(*left));
	processes->count = count;
	return count;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Until it has ended, or the time is up. */
static void wait_for_end(pid_t id, int64_t until_ms)
{
	struct pollfd end = { .fd = (int)syscall(SYS_pidfd_open, id, 0),
			      .events = POLLIN };
	int64_t rest_ms = until_ms - now_ms();

	if (end.fd < 0)
		return;
	poll(&end, 1, rest_ms > 0 ? (int)rest_ms : 0);
	close(end.fd);
}

/* A process that is stopped does not end by any other signal. */
static void send_signal(const struct process *process, int number)
{
	kill(process->id, process->state == 'T' ? SIGKILL : number);
}

/* Those that start meanwhile are found by the next look, and get the same. */
static bool sweep_with(int number, struct processes *processes, pid_t root, char **kept)
{
	int64_t until_ms = now_ms() + SIGNAL_MS;
	struct processes *signalled = calloc(1, sizeof(*signalled));

	if (signalled == NULL)
		die("memory");
	while (keep_left(processes, root, kept) > 0 && now_ms() < until_ms) {
		for (size_t i = 0; i < processes->count; i++) {
			if (find_process(signalled, processes->all[i].id) != NULL ||
			    signalled->count == MAX_PROCESSES)
				continue;
			send_signal(&processes->all[i], number);
			signalled->all[signalled->count++] = processes->all[i];
		}
		for (size_t i = 0; i < processes->count; i++)
			wait_for_end(processes->all[i].id, until_ms);
	}
	free(signalled);
	return processes->count == 0;
}

static int sweep(pid_t root, char **kept)
{
	static const int numbers[] = { SIGTERM, SIGTERM, SIGKILL, SIGKILL, SIGKILL };
	static struct processes processes;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (sweep_with(numbers[i], &processes, root, kept))
			return 0;
	return 1;
}

static int print_below(pid_t root, char **kept)
{
	static struct processes processes;

	keep_left(&processes, root, kept);
	for (size_t i = 0; i < processes.count; i++)
		printf("%d\n", (int)processes.all[i].id);
	return 0;
}

static volatile pid_t adopted;

/* What a terminal sends is for all of the script, as if it were in our process group. */
static void pass_on(int number)
{
	kill(number == SIGINT ? -adopted : adopted, number);
}

static int exit_status(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

_Noreturn static void become(char **command)
{
	if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, (long)SIGTERM, 0L, 0L, 0L) != 0)
		die("prctl");
	execvp(command[0], command);
	die(command[0]);
}

/* Nobody else's until this process ends: another script would otherwise start its node at
   the port of one that is down for a while, or has not begun to listen. A name without a
   file is what the kernel itself gives back. */
static void take_ports(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	char port[16];

	unsetenv("TAP_PORTS");
	for (int i = 0; fd >= 0 && i < SCRIPTS; i++) {
		int number = (getpid() + i) % SCRIPTS;
		int len = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1,
				   "refrelay-ports-%d", number);

		if (bind(fd, (struct sockaddr *)&name,
			 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)) !=
		    0)
			continue;
		snprintf(port, sizeof(port), "%d", FIRST_PORT + number * PORTS_OF_SCRIPT);
		setenv("TAP_PORTS", port, 1);
		return;
	}
}

/* The command gets a process group of its own: as with init, who inherits an orphan is in
   another one. */
static int adopt(char **command)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	sigset_t blocked, before;
	int status;
	pid_t ended;

	if (prctl(PR_SET_CHILD_SUBREAPER, 1L, 0L, 0L, 0L) != 0)
		die("prctl");
	take_ports();
	sigemptyset(&blocked);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		sigaddset(&blocked, numbers[i]);
	sigprocmask(SIG_BLOCK, &blocked, &before);
	if ((adopted = fork()) < 0)
		die("fork");
	if (adopted == 0) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		become(command);
	}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		signal(numbers[i], pass_on);
	sigprocmask(SIG_SETMASK, &before, NULL);
	while ((ended = waitpid(-1, &status, 0)) != adopted)
		if (ended < 0 && errno != EINTR)
			die("waitpid");
	return exit_status(status);
}

/* null and an empty text: an empty line. */
static void print_value(const json_t *value)
{
	char *text;

	if (json_is_string(value)) {
		puts(json_string_value(value));
	} else if (value == NULL || json_is_null(value)) {
		puts("");
	} else {
		text = json_dumps(value, JSON_ENCODE_ANY);
		puts(text != NULL ? text : "");
		free(text);
	}
}

/* What is not there fails; below null all is null. */
static int print_member(char *path)
{
	json_error_t error;
	json_t *object = json_loadf(stdin, 0, &error), *value = object;

	if (object == NULL) {
		fprintf(stderr, "site_help: not JSON: %s\n", error.text);
		return 1;
	}
	for (char *key = strtok(path, "."); key != NULL; key = strtok(NULL, ".")) {
		if (json_is_null(value))
			break;
		if ((value = json_object_get(value, key)) == NULL) {
			fprintf(stderr, "site_help: no member %s\n", key);
			return 1;
		}
	}
	print_value(value);
	json_decref(object);
	return 0;
}

static bool is_free(uint16_t port)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	bool is_bound;

	if (fd < 0)
		die("socket");
	is_bound = bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
	close(fd);
	return is_bound;
}

/* How many have been asked for so far. */
static unsigned long count_on(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	char text[32] = "";
	unsigned long count;

	if (fd < 0 || flock(fd, LOCK_EX) != 0 || pread(fd, text, sizeof(text) - 1, 0) < 0)
		die(path);
	count = strtoul(text, NULL, 10);
	if (pwrite(fd, text, (size_t)snprintf(text, sizeof(text), "%lu", count + 1), 0) <
	    0)
		die(path);
	close(fd);
	return count;
}

static uint16_t any_port(void)
{
	uint16_t number;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		die("a port");
	return (uint16_t)(FIRST_PORT + number % (SCRIPTS * PORTS_OF_SCRIPT));
}

/* In turn, so that none of them is said twice while it is not listened at yet. */
static int print_port(const char *counter)
{
	const char *first = getenv("TAP_PORTS");
	uint16_t port;

	do {
		port = first == NULL || counter == NULL
			       ? any_port()
			       : (uint16_t)(strtoul(first, NULL, 10) +
					    count_on(counter) % PORTS_OF_SCRIPT);
	} while (!is_free(port));
	printf("%d\n", port);
	return 0;
}

int main(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";

	if (argc > 2 && strcmp(command, "adopt") == 0)
		return adopt(argv + 2);
	if (argc > 2 && strcmp(command, "below") == 0)
		return print_below((pid_t)strtol(argv[2], NULL, 10), argv + 3);
	if (argc > 2 && strcmp(command, "sweep") == 0)
		return sweep((pid_t)strtol(argv[2], NULL, 10), argv + 3);
	if (argc == 3 && strcmp(command, "member") == 0)
		return print_member(argv[2]);
	if ((argc == 2 || argc == 3) && strcmp(command, "port") == 0)
		return print_port(argv[2]);
	usage();
}
