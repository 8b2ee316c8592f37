/*
 * The backends of leases for tests of all of them: real servers, and processes that are
 * this program again. Those of one host have the tracking database in common; each other
 * kind has data directories of its own.
 */
#ifndef UNIT_LEASE_KINDS_TEST_H
#define UNIT_LEASE_KINDS_TEST_H

#include "postgresql_test.h"
#include "redis_test.h"

#include <fcntl.h>

#include "lease/directory.h"
#include "lease/postgresql.h"
#include "store/store.h"

#define SERVERS 5

struct kind {
	const char *name;
	size_t servers;
	bool is_local; /* else of several hosts */
	bool is_postgresql;
};

static const struct kind kinds[] = {
	{ .name = "local", .is_local = true },
	{ .name = "directory" },
	{ .name = "redis-1", .servers = 1 },
	{ .name = "redis-3", .servers = 3 },
	{ .name = "redis-5", .servers = 5 },
	{ .name = "postgresql", .servers = 1, .is_postgresql = true },
};

static const struct kind *kind;
static struct redis_server servers[SERVERS];
static char servers_root[64];

/* ------------------------------------------------------------------ managers */

static struct store *store;

/* Those of one host have the tracking database in common, and each other kind a data
 * directory of its own. `urls` ends in NULL. */
static inline struct lease_manager *open_kind(const char *data, char *const *urls,
					      int64_t ttl)
{
	AUTO_FREE char *own = xasprintf("%s/%s", root, data);
	AUTO_FREE char *shared = xasprintf("%s/shared", root);
	AUTO_FREE char *database = xasprintf("sqlite:%s/db", root);
	AUTO_FREE char *prefix = xasprintf("%s:", root);
	struct lease_options options = { .directory = kind->servers ? own : shared,
					 .node = data,
					 .ttl_ms = ttl,
					 .prefix = prefix };
	struct lease_manager *manager = NULL;
	int result;

	for (size_t i = 0; urls[i]; i++)
		options.url_count = i + 1;
	options.urls = (const char *const *)urls;
	if (kind->is_local) {
		if (store_open(database, &store, &err) != 0)
			abort();
		result = lease_manager_open_local(store, &options, &manager, &err);
	} else if (kind->servers == 0) {
		result = lease_manager_open_directory(&options, &manager, &err);
	} else if (kind->is_postgresql) {
		result = lease_manager_open_postgresql(&options, &manager, &err);
	} else {
		result = lease_manager_open_redis(&options, &manager, &err);
	}
	if (result != 0)
		fprintf(stderr, "# %s\n", err.text);
	return manager;
}

/* ------------------------------------------------------------------ processes */

struct process {
	pid_t pid;
	FILE *to, *from;
	char line[600];
};

static inline const char *url_of(size_t i)
{
	return kind->is_postgresql ? pg_url : servers[i].url;
}

/* Of two or more data directories. `through`: other ways to the first servers than their
 * own; NULL: there are none. */
static inline void run_by(struct process *process, const char *mode, const char *data,
			  int64_t ttl, const char *a, const char *b,
			  const char *const *through)
{
	char kind_text[8], ttl_text[24];
	const char *argv[8 + SERVERS + 1] = {
		"/proc/self/exe", mode, kind_text, root, data, ttl_text, a, b
	};
	posix_spawn_file_actions_t actions;
	int to[2], from[2];

	snprintf(kind_text, sizeof(kind_text), "%d", (int)(kind - kinds));
	snprintf(ttl_text, sizeof(ttl_text), "%" PRId64, ttl);
	for (size_t i = 0; i < kind->servers; i++)
		argv[8 + i] = through && through[i] ? through[i] : url_of(i);
	if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
		abort();
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, to[0], 0);
	posix_spawn_file_actions_adddup2(&actions, from[1], 1);
	if (posix_spawnp(&process->pid, argv[0], &actions, NULL,
			 (char *const *)(uintptr_t)argv, environ) != 0)
		abort();
	posix_spawn_file_actions_destroy(&actions);
	close(to[0]);
	close(from[1]);
	process->to = fdopen(to[1], "we");
	process->from = fdopen(from[0], "re");
}

static inline void run(struct process *process, const char *mode, const char *data,
		       int64_t ttl, const char *a, const char *b)
{
	run_by(process, mode, data, ttl, a, b, NULL);
}

static inline const char *hear(struct process *process)
{
	if (!fgets(process->line, sizeof(process->line), process->from))
		fail_msg("a helper ended");
	process->line[strcspn(process->line, "\n")] = '\0';
	return process->line;
}

static inline int finish(struct process *process)
{
	int status;

	fclose(process->to);
	fclose(process->from);
	waitpid(process->pid, &status, 0);
	return status;
}

/* Passes on what comes to a socket, until it is stopped. `life_s`, unless "0": each
 * connection is broken off after about that time, maybe in the middle of something, and
 * some of what passes is late. */
static inline void proxy(const char *from, const char *to, const char *life_s,
			 struct process *process)
{
	static const char script[] =
		"import random,socket,sys,threading,time\n"
		"life=float(sys.argv[3])\n"
		"def end(*both):\n"
		" for x in both:\n"
		"  try: x.shutdown(socket.SHUT_RDWR)\n"
		"  except OSError: pass\n"
		"def copy(a,b):\n"
		" try:\n"
		"  while d:=a.recv(65536):\n"
		"   if life and random.random()<0.005: time.sleep(random.random()*0.7)\n"
		"   if life and random.random()<0.003:\n"
		"    b.sendall(d[:len(d)//2]); return end(a,b)\n"
		"   b.sendall(d)\n"
		"  b.shutdown(socket.SHUT_RDWR)\n"
		" except OSError: pass\n"
		"s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(100)\n"
		"print('ready',flush=True)\n"
		"while True:\n"
		" a,_=s.accept(); b=socket.socket(socket.AF_UNIX)\n"
		" try: b.connect(sys.argv[2])\n"
		" except OSError: a.close(); continue\n"
		" for x,y in (a,b),(b,a):\n"
		"  threading.Thread(target=copy,args=(x,y),daemon=True).start()\n"
		" if life: "
		"threading.Timer(random.expovariate(1/life),end,(a,b)).start()\n";
	const char *argv[] = { "setpriv", "--pdeathsig", "KILL", "python3", "-c",
			       script,    from,          to,     life_s,    NULL };
	posix_spawn_file_actions_t actions;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		abort();
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
	if (posix_spawnp(&process->pid, argv[0], &actions, NULL,
			 (char *const *)(uintptr_t)argv, environ) != 0)
		abort();
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	process->from = fdopen(ends[0], "re");
	process->to = NULL;
	assert_string_equal(hear(process), "ready");
}

static inline void proxy_end(struct process *process)
{
	kill(process->pid, SIGKILL);
	waitpid(process->pid, NULL, 0);
	fclose(process->from);
}

/* In front of the kind's server `i`; and how that is reached then. */
static inline void proxy_start(size_t i, const char *life_s, char url[192],
			       struct process *process)
{
	AUTO_FREE char *path = kind->is_postgresql ? xasprintf("%s/.s.PGSQL.5432", root)
						   : xasprintf("%s/proxy%zu", root, i);
	AUTO_FREE char *server = kind->is_postgresql
					 ? xasprintf("%s/.s.PGSQL.5432", pg_place)
					 : xstrdup(servers[i].socket);

	if (kind->is_postgresql)
		snprintf(url, 192, "postgresql:///postgres?host=%s&user=postgres", root);
	else
		snprintf(url, 192, "unix://%s", path);
	proxy(path, server, life_s, process);
}

static inline void run_shell(const char *command)
{
	char shell[] = "sh", flag[] = "-c";
	AUTO_FREE char *text = xstrdup(command);
	char *argv[] = { shell, flag, text, NULL };
	pid_t pid;
	int status;

	if (posix_spawnp(&pid, shell, NULL, NULL, argv, environ) != 0)
		abort();
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

/* Of tests/lib; the caller frees its path. */
static inline char *make_preload(const char *folder, const char *name)
{
	const char *tests = getenv("TESTS");
	char *path = xasprintf("%s/%s.so", folder, name);
	AUTO_FREE char *make = xasprintf("cc -shared -fPIC -o %s %s/lib/%s.c", path,
					 tests ? tests : "tests", name);

	run_shell(make);
	return path;
}

/* ------------------------------------------------------------------ servers */

/* NULL: all; else the name of the kind. */
static const char *wanted_kind;

static inline bool is_wanted(const struct kind *one)
{
	return !wanted_kind || strcmp(one->name, wanted_kind) == 0;
}

/* Those of the kinds that are wanted. */
static inline size_t count_redis_servers(void)
{
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (is_wanted(&kinds[i]) && !kinds[i].is_postgresql &&
		    kinds[i].servers > count)
			count = kinds[i].servers;
	return count;
}

static inline bool wants_postgresql(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (is_wanted(&kinds[i]) && kinds[i].is_postgresql)
			return true;
	return false;
}

/* Their clocks go wrong by what the files clock0, clock1... in `root` say, if that
 * library is given (tests/lib/wrong_clock.c). */
static inline int start_servers_in_root(const char *wrong_clock_library)
{
	char name[8];

	for (size_t i = 0; i < count_redis_servers(); i++) {
		AUTO_FREE char *wrapper = xasprintf(
			"env LD_PRELOAD=%s WRONG_CLOCK=%s/clock%zu",
			wrong_clock_library ? wrong_clock_library : "", root, i);
		redis_wrapper = wrong_clock_library ? wrapper : "";
		snprintf(name, sizeof(name), "s%zu", i);
		redis_start(&servers[i], name, "");
		redis_wrapper = "";
	}
	if (wants_postgresql())
		pg_make();
	return 0;
}

static inline int start_servers(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	memcpy(servers_root, root, sizeof(root));
	return start_servers_in_root(NULL);
}

static inline int end_servers(void **state)
{
	for (size_t i = 0; i < count_redis_servers(); i++)
		redis_end(&servers[i]);
	if (wants_postgresql())
		pg_end();
	memcpy(root, servers_root, sizeof(root));
	root_fd = -1;
	return test_remove_root(state);
}

#endif
