/*
 * What tests of the task store share: a store in the test's directory, files in it, and
 * this program started again as another process.
 */
#ifndef UNIT_TASK_TEST_H
#define UNIT_TASK_TEST_H

#include "test.h"

#include <dirent.h>
#include <spawn.h>
#include <sys/wait.h>

#include "base/map.h"
#include "push/dead_letters.h"
#include "push/task_list.h"
#include "push/uri_state.h"

#define URI "git://h/p.git"
/* As the plugin wrote it before 2022, and without its file's right name. */
#define TASK_TEXT(ref)                                                                   \
	"{\"project\":\"p\",\"ref\":\"" ref "\",\"uri\":\"" URI "\",\"remote\":\"r\"}"

#define STORE_CASE(name) cmocka_unit_test_setup_teardown(name, open_store, close_store)

extern char **environ;

static struct task_store *store;
static bool is_new __attribute__((unused));

static inline int open_store(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	return task_store_open(root, &store, &err);
}

static inline int close_store(void **state)
{
	task_store_close(store);
	store = NULL;
	return test_remove_root(state);
}

static inline struct task task_of(const char *uri, const char *ref)
{
	struct task task = { xstrdup("p"), xstrdup(uri), xstrdup("r"), { 0 } };

	vec_add(&task.refs, xstrdup(ref));
	return task;
}

/* The task's key, in memory that the next call overwrites. */
static inline const char *add_at(const char *uri, const char *ref, int64_t since_ms)
{
	static char key[TASK_KEY_SIZE];
	AUTO_TASK struct task task = task_of(uri, ref);

	assert_ok(task_store_add(store, &task, since_ms, &is_new, &err));
	task_key(&task, key);
	return key;
}

static inline const char *add(const char *ref)
{
	return add_at(URI, ref, 0);
}

PRINTF_LIKE(2, 3)
static inline void write_to(const char *text, const char *fmt, ...)
{
	char path[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(path, sizeof(path), fmt, args);
	va_end(args);
	assert_ok(dir_make_parents(root_fd, path, &err));
	int fd = openat(root_fd, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_ok(file_write_all(fd, text, strlen(text), path, &err));
	close(fd);
}

static inline size_t files_in(const char *path)
{
	DIR *dir = dir_list(root_fd, path);
	struct dirent *entry;
	size_t count = 0;

	if (!dir)
		return 0;
	while ((entry = readdir(dir)) != NULL)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

#define WAITS files_in("ref-updates/waiting")

PRINTF_LIKE(1, 2) static inline bool exists(const char *fmt, ...)
{
	char path[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(path, sizeof(path), fmt, args);
	va_end(args);
	return faccessat(root_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static inline int64_t time_of(const char *path)
{
	struct stat st;

	assert_int_equal(fstatat(root_fd, path, &st, 0), 0);
	return (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
}

static inline void set_time(const char *path, int64_t ms)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
				     { ms / 1000, ms % 1000 * 1000000 } };

	assert_int_equal(utimensat(root_fd, path, times, 0), 0);
}

/* This program with a word that its main() knows, and a failpoint. */
static inline pid_t start_self(const char *word, const char *prefix, const char *point)
{
	char *argv[] = { (char *)(uintptr_t) "self", (char *)(uintptr_t)word, root,
			 (char *)(uintptr_t)prefix, NULL };
	pid_t pid;

	if (point)
		setenv("REFRELAY_FAILPOINT", point, 1);
	assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ),
			 0);
	unsetenv("REFRELAY_FAILPOINT");
	return pid;
}

static inline int end_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static const int64_t long_ago __attribute__((unused)) = INT64_C(1600000000123);

/* What was reported last of each URI, and how often. */
static struct waiting_uri last __attribute__((unused));
static char last_uri[256], last_running[URI_KEY_SIZE];
static size_t reports;

static inline void seen(void *arg, const struct waiting_uri *waiting)
{
	assert_ptr_equal(arg, &reports);
	reports++;
	last = *waiting;
	snprintf(last_uri, sizeof(last_uri), "%s", waiting->uri);
}

static inline void running(void *arg, const char *uri_key)
{
	assert_ptr_equal(arg, &reports);
	snprintf(last_running, sizeof(last_running), "%s", uri_key);
}

static inline void refresh(void)
{
	reports = 0;
	last_running[0] = '\0';
	assert_ok(task_store_refresh(store, seen, running, &reports, &err));
}

static inline claimed_tasks claim(const char *uri)
{
	claimed_tasks tasks = { 0 };

	assert_ok(task_store_claim(store, uri, &tasks, &err));
	return tasks;
}

#endif
