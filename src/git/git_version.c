#include "git/git_version.h"

#include <sys/stat.h>

#include "base/file.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/thread.h"

#define ASK_MS 10000

/* Which file would be run. */
struct program {
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec changed;
};

static struct {
	pthread_mutex_t mutex;
	struct program of;
	char text[GIT_VERSION_SIZE];              /* "": not known */
} known = { .mutex = PTHREAD_MUTEX_INITIALIZER }; /* guarded by mutex */

static bool look_in(const char *folder, size_t len, struct program *program)
{
	AUTO_FREE char *path =
		xasprintf("%.*s/git", len ? (int)len : 1, len ? folder : ".");
	struct stat st;

	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || access(path, X_OK) != 0)
		return false;
	*program = (struct program){ .device = st.st_dev,
				     .inode = st.st_ino,
				     .size = st.st_size,
				     .changed = st.st_ctim };
	return true;
}

static bool git_version_find_program(struct program *program)
{
	const char *path = getenv("PATH");

	if (!path)
		path = "/usr/local/bin:/usr/bin:/bin"; /* as in git_setup */
	for (;;) {
		size_t len = strcspn(path, ":");
		if (look_in(path, len, program))
			return true;
		if (!path[len])
			return false;
		path += len + 1;
	}
}

static bool git_version_ask(char text[GIT_VERSION_SIZE])
{
	static const char *const argv[] = { "git", "--version", NULL };
	AUTO_STR struct str output = STR_INIT;

	if (proc_run(&(struct proc_request){ .argv = argv,
					     .output = &output,
					     .output_limit = GIT_VERSION_SIZE - 1,
					     .timeout_ms = ASK_MS },
		     NULL, ERR_IGNORED) != 0 ||
	    !text_starts_with(output.data, "git version "))
		return false;
	snprintf(text, GIT_VERSION_SIZE, "%.*s", (int)strcspn(output.data, "\n"),
		 output.data);
	return true;
}

static bool git_version_is_same_program(const struct program *a, const struct program *b)
{
	return a->device == b->device && a->inode == b->inode && a->size == b->size &&
	       a->changed.tv_sec == b->changed.tv_sec &&
	       a->changed.tv_nsec == b->changed.tv_nsec;
}

void git_version(char text[GIT_VERSION_SIZE])
{
	struct program program;
	bool is_found = git_version_find_program(&program);

	{
		AUTO_UNLOCK pthread_mutex_t *held = lock(&known.mutex);
		if (is_found && known.text[0] &&
		    git_version_is_same_program(&program, &known.of)) {
			memcpy(text, known.text, GIT_VERSION_SIZE);
			return;
		}
	}
	if (!is_found || !git_version_ask(text)) {
		random_hex(text, 16);
		return;
	}
	AUTO_UNLOCK pthread_mutex_t *held = lock(&known.mutex);
	memcpy(known.text, text, GIT_VERSION_SIZE);
	known.of = program;
}
