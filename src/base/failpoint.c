#include "base/failpoint.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/base.h"

static struct {
	char name[64]; /* "" : none is set */
	int signal;
	long at;
	atomic_long passed;
} set;

static void read_setting(void)
{
	const char *text = getenv("REFRELAY_FAILPOINT");
	const char *action = text ? strchr(text, '=') : NULL;

	if (!action)
		return;
	set.signal = strcmp(action, "=stop") == 0 ? SIGSTOP : SIGKILL;
	set.at = 1;
	snprintf(set.name, sizeof(set.name), "%.*s", (int)(action - text), text);
	char *count = strchr(set.name, '@');
	if (count) {
		*count = '\0';
		set.at = strtol(count + 1, NULL, 10);
	}
}

void failpoint(const char *name)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_setting);
	if (!set.name[0] || strcmp(set.name, name) != 0)
		return;
	/* To this thread, so that it is the first to stop: sent to the process, the
	 * signal may be taken by another thread while this one goes on for a while. */
	if (atomic_fetch_add(&set.passed, 1) + 1 == set.at)
		pthread_kill(pthread_self(), set.signal);
}
