/*
 * What the tests of src/git share: shell commands, a store of real objects, a bare
 * repository for each test, refs written down in one line, and this program run again
 * as a helper that can be killed or paused at a failpoint.
 *
 * Refs in one line: "HEAD=>refs/heads/main refs/heads/main=3 refs/tags/v=t1
 * refs/heads/s=>refs/heads/main": commit 3, annotated tag 1, a symbolic ref. They need
 * not be sorted.
 */
#ifndef UNIT_GIT_TEST_H
#define UNIT_GIT_TEST_H

#include "test.h"

#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "git/fence.h"
#include "git/refs.h"
#include "git/repo.h"

#define COMMITS 60
#define TAGS 6 /* the last one is a tag of a tag */

#define GIT_CASE(name) cmocka_unit_test_setup_teardown(name, make_repo, test_remove_root)

/* Objects of all tests, made once; each repository borrows them. */
static char store_path[64] __attribute__((unused));
static struct oid commits[COMMITS] __attribute__((unused));
static struct oid tags[TAGS] __attribute__((unused));
static struct oid tagged[TAGS] __attribute__((unused));

static char self[256] __attribute__((unused));   /* this program */
static int repo_fd __attribute__((unused)) = -1; /* root/r.git */

extern char **environ;

static inline pid_t start(const char *program, char *const argv[])
{
	pid_t pid;

	if (posix_spawnp(&pid, program, NULL, NULL, argv, environ) != 0)
		abort();
	return pid;
}

/* As a shell reports it: 128 + signal. */
static inline int wait_end(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			abort();
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline pid_t start_shell(const char *command)
{
	char shell[] = "sh", option[] = "-c";
	AUTO_FREE char *text = xstrdup(command);
	char *argv[] = { shell, option, text, NULL };

	return start("/bin/sh", argv);
}

/* Runs a shell command in root and returns how it ended. */
PRINTF_LIKE(1, 0) static inline int run_args(const char *fmt, va_list args)
{
	char text[4096];
	AUTO_FREE char *line = NULL;

	vsnprintf(text, sizeof(text), fmt, args);
	line = xasprintf("cd '%s' && %s", *root ? root : "/tmp", text);
	return wait_end(start_shell(line));
}

PRINTF_LIKE(1, 2) static inline int run(const char *fmt, ...)
{
	va_list args;
	int result;

	va_start(args, fmt);
	result = run_args(fmt, args);
	va_end(args);
	return result;
}

/* In a repository: hash_lines writes each line of its input as a blob, by one git. */
#define HASH_LINES                                                                       \
	"hash_lines() { mkdir .l && split -l 1 -a 3 - .l/ && ls .l | sed 's,^,.l/,' | "  \
	"git hash-object -w --stdin-paths && rm -r .l; }; "

/* As run(), and it must succeed. */
PRINTF_LIKE(1, 2) static inline void must(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	if (run_args(fmt, args) != 0)
		fail_msg("failed: %s", fmt);
	va_end(args);
}

/* What a command that succeeds writes to stdout; the caller frees. */
PRINTF_LIKE(1, 2) static inline char *output_of(const char *fmt, ...)
{
	char text[4096], path[96];
	AUTO_STR struct str out = STR_INIT;
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	snprintf(path, sizeof(path), "%s/.out", root);
	must("{ %s; } >%s", text, path);
	assert_ok(file_read(AT_FDCWD, path, (size_t)1 << 30, &out, &err));
	return str_take(&out);
}

/* The next object's name in *at, of the kind rev-list or for-each-ref prints. */
static inline struct oid next_oid(const char **at)
{
	struct oid oid;

	assert_true(oid_parse(*at, 20, &oid));
	*at += strcspn(*at, "\n");
	*at += **at == '\n';
	return oid;
}

static inline void write_history(struct str *script)
{
	for (int i = 1; i <= COMMITS; i++)
		str_addf(script,
			 "commit refs/heads/main\nmark :%d\n"
			 "committer A <a@b> %d +0000\ndata 2\nc\n\n",
			 i, 1700000000 + i);
	for (int i = 1; i < TAGS; i++)
		str_addf(script,
			 "tag v%d\nfrom :%d\ntagger A <a@b> 1700000000 +0000\n"
			 "data 2\nt\n\n",
			 i, i);
}

/* Commits in order, tags, and what the tags finally name, a line each. */
static inline void list_objects(void)
{
	must("cd %s && { git rev-list --reverse refs/heads/main && "
	     "git for-each-ref refs/tags --format='%%(objectname)' && "
	     "git rev-parse v1^{} v2^{} v3^{} v4^{} v5^{} v6^{}; } >list",
	     store_path);
}

static inline void learn_objects(void)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_FREE char *path = xasprintf("%s/list", store_path);

	assert_ok(file_read(AT_FDCWD, path, 65536, &text, &err));
	const char *at = text.data;
	for (size_t i = 0; i < COMMITS; i++)
		commits[i] = next_oid(&at);
	for (size_t i = 0; i < TAGS; i++)
		tags[i] = next_oid(&at);
	for (size_t i = 0; i < TAGS; i++)
		tagged[i] = next_oid(&at);
}

/* For main(): objects, and an environment in which git does as it is told. */
static inline int make_objects(void **state)
{
	AUTO_STR struct str script = STR_INIT;
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	(void)state;
	self[len > 0 ? len : 0] = '\0';
	setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
	setenv("GIT_CONFIG_GLOBAL", "/dev/null", 1);
	setenv("GIT_AUTHOR_NAME", "A", 1);
	setenv("GIT_AUTHOR_EMAIL", "a@example.com", 1);
	setenv("GIT_COMMITTER_NAME", "A", 1);
	setenv("GIT_COMMITTER_EMAIL", "a@example.com", 1);
	setenv("GIT_AUTHOR_DATE", "2024-01-01T00:00:00Z", 1);
	setenv("GIT_COMMITTER_DATE", "2024-01-01T00:00:00Z", 1);
	setenv("LC_ALL", "C", 1);
	log_set_level(LOG_LEVEL_NONE);
	snprintf(store_path, sizeof(store_path), "%s/refrelay-store.XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(store_path))
		return -1;
	write_history(&script);
	must("git init -q --bare %s", store_path);
	AUTO_FREE char *path = xasprintf("%s/script", store_path);
	assert_ok(file_replace(AT_FDCWD, path, script.data, script.len, FILE_NO_SYNC,
			       &err));
	must("git -C %s fast-import --quiet <%s", store_path, path);
	must("git -C %s -c advice.nestedTag=false tag -a -m n v6 v1", store_path);
	list_objects();
	learn_objects();
	return 0;
}

static inline int remove_objects(void **state)
{
	(void)state;
	return tree_remove(AT_FDCWD, store_path, ERR_IGNORED);
}

static inline void open_repo(void)
{
	if (repo_fd >= 0)
		close(repo_fd);
	repo_fd = openat(root_fd, "r.git", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(repo_fd >= 0);
}

/* An empty bare repository at root/r.git, whose fence is 1. */
static inline int make_repo(void **state)
{
	char alternates[96];

	if (test_make_root(state) != 0)
		return -1;
	assert_ok(repo_make(root_fd, "r.git", 20, &err));
	open_repo();
	snprintf(alternates, sizeof(alternates), "%s/objects\n", store_path);
	assert_ok(file_replace(repo_fd, "objects/info/alternates", alternates,
			       strlen(alternates), FILE_NO_SYNC, &err));
	assert_ok(fence_raise(repo_fd, 1, &err));
	return 0;
}

static inline bool exists(const char *name)
{
	struct stat st;

	return fstatat(repo_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static inline void write_text(const char *name, const char *text)
{
	AUTO_CLOSE int fd =
		openat(repo_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	assert_true(fd >= 0);
	assert_ok(file_write_all(fd, text, strlen(text), name, &err));
}

/* packed-refs of so many refs, "refs/heads/large/000000" and on: commits 0 to 59 in turn.
 */
static inline void write_large(const char *path, size_t count)
{
	AUTO_STR struct str text = STR_INIT;

	str_add(&text, "# pack-refs with: peeled fully-peeled sorted \n");
	for (size_t i = 0; i < count; i++) {
		oid_add_text(&commits[i % COMMITS], &text);
		str_addf(&text, " refs/heads/large/%06zu\n", i);
	}
	assert_ok(file_replace(root_fd, path, text.data, text.len, FILE_NO_SYNC, &err));
}

/* Makes it look as if it had been written so long ago. */
static inline void backdate(const char *name, time_t seconds)
{
	const struct timespec times[2] = { { time(NULL) - seconds, 0 },
					   { time(NULL) - seconds, 0 } };

	assert_int_equal(utimensat(repo_fd, name, times, AT_SYMLINK_NOFOLLOW), 0);
}

/* The peel that this object has, from the table. */
static inline void fill_peel(struct ref *ref)
{
	if (ref->target || ref->peel != REF_PEEL_UNKNOWN)
		return;
	ref->peel = REF_PEEL_SELF;
	for (size_t i = 0; i < TAGS; i++) {
		if (oid_equal(&ref->oid, &tags[i])) {
			ref->peel = REF_PEEL_TAG;
			ref->peeled = tagged[i];
		}
	}
}

static inline void fill_peels(struct ref_snapshot *snapshot)
{
	for (size_t i = 0; i < snapshot->refs.count; i++)
		fill_peel(&snapshot->refs.items[i]);
}

static inline int order_by_name(const void *a, const void *b)
{
	return strcmp(((const struct ref *)a)->name, ((const struct ref *)b)->name);
}

static inline struct oid object_of(const char *text)
{
	size_t number = (size_t)strtoul(text + (*text == 't'), NULL, 10);

	assert_true(number < (*text == 't' ? TAGS : COMMITS));
	return *text == 't' ? tags[number] : commits[number];
}

static inline void add_word(struct ref_snapshot *snapshot, const char *word)
{
	size_t len = strcspn(word, "=");
	const char *value = word + len + 1;
	struct ref ref = { .name = ref_snapshot_keep(snapshot, word, len) };

	if (strcmp(ref.name, "cut") == 0) {
		vec_add(&snapshot->cuts, object_of(value));
		oid_list_tidy(&snapshot->cuts);
		return;
	}
	if (*value == '>')
		ref.target = ref_snapshot_keep(snapshot, value + 1, strlen(value + 1));
	else
		ref.oid = object_of(value);
	if (strcmp(ref.name, "HEAD") != 0) {
		fill_peel(&ref);
		vec_add(&snapshot->refs, ref);
		return;
	}
	free(snapshot->head_target);
	snapshot->head_target = ref.target ? xstrdup(ref.target) : NULL;
	snapshot->head_oid = ref.oid;
}

/* The snapshot that a line describes, with "cut=1" for a commit without its parents; HEAD
 * is =>refs/heads/main if it is not said. */
static inline void refs_of(const char *line, struct ref_snapshot *snapshot)
{
	AUTO_FREE char *text = xstrdup(line);
	char *rest = text, *word;

	*snapshot = (struct ref_snapshot)REF_SNAPSHOT_INIT;
	snapshot->head_target = xstrdup("refs/heads/main");
	while ((word = strsep(&rest, " ")) != NULL)
		if (*word)
			add_word(snapshot, word);
	vec_sort(&snapshot->refs, order_by_name);
}

static inline void read_refs(struct ref_snapshot *snapshot)
{
	assert_ok(ref_snapshot_read(repo_fd, 20, snapshot, &err));
	fill_peels(snapshot);
}

/* A snapshot in words that can be compared and read. */
static inline char *text_of(const struct ref_snapshot *snapshot)
{
	AUTO_STR struct str text = STR_INIT;

	if (snapshot->head_target)
		str_addf(&text, "HEAD=>%s\n", snapshot->head_target);
	else
		oid_add_text(&snapshot->head_oid, &text);
	for (size_t i = 0; i < snapshot->refs.count; i++) {
		const struct ref *ref = &snapshot->refs.items[i];
		str_addf(&text, "%s=", ref->name);
		if (ref->target)
			str_addf(&text, ">%s", ref->target);
		else
			oid_add_text(&ref->oid, &text);
		str_add_char(&text, '\n');
	}
	for (size_t i = 0; i < snapshot->cuts.count; i++) {
		str_add(&text, "cut=");
		oid_add_text(&snapshot->cuts.items[i], &text);
		str_add_char(&text, '\n');
	}
	return str_take(&text);
}

static inline void assert_snapshots_equal(const struct ref_snapshot *found,
					  const struct ref_snapshot *wanted)
{
	AUTO_FREE char *left = text_of(found);
	AUTO_FREE char *right = text_of(wanted);

	assert_string_equal(left, right);
}

/* The repository holds exactly these refs. */
static inline void assert_refs(const char *line)
{
	AUTO_SNAPSHOT struct ref_snapshot wanted = REF_SNAPSHOT_INIT;
	AUTO_SNAPSHOT struct ref_snapshot found = REF_SNAPSHOT_INIT;

	refs_of(line, &wanted);
	read_refs(&found);
	assert_snapshots_equal(&found, &wanted);
}

/* Runs this program as a helper, main() of which must know `mode`; failpoint may be
 * NULL. */
static inline pid_t start_helper(const char *mode, const char *argument,
				 const char *failpoint)
{
	char *path = xasprintf("%s/r.git", root);
	char *argv[] = { xstrdup(self),       xstrdup(mode),     path,
			 xstrdup(store_path), xstrdup(argument), NULL };
	pid_t pid;

	if (failpoint)
		setenv("REFRELAY_FAILPOINT", failpoint, 1);
	pid = start(self, argv);
	unsetenv("REFRELAY_FAILPOINT");
	for (size_t i = 0; argv[i]; i++)
		free(argv[i]);
	return pid;
}

/* In a child: a test that fails must not leave it behind, paused for ever. */
static inline void die_with_parent(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* In the helper: opens what start_helper names. */
static inline void enter_helper(char **argv)
{
	die_with_parent();
	log_set_level(LOG_LEVEL_NONE);
	snprintf(store_path, sizeof(store_path), "%s", argv[3]);
	repo_fd = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	learn_objects();
}

/* Waits until it has stopped itself (REFRELAY_FAILPOINT=...=stop). */
static inline void wait_stopped(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
}

static inline void let_go(pid_t pid)
{
	kill(pid, SIGCONT);
}

/* How many names below refrelay/state/pending, and of kinds that a crash may leave. */
static inline char *left_overs(void)
{
	return output_of("cd r.git && find . -name '*.lock' -o -name 'packed-refs.new' "
			 "-o -name '*.tmp-*' -o -path './refrelay/state/pending/*' "
			 "-o -path './refrelay/ref'");
}

static inline void assert_nothing_left(void)
{
	AUTO_FREE char *names = left_overs();

	assert_string_equal(names, "");
}

#endif
