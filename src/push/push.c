/*
 * Starting and stopping. Two tokens: `ending` lets the distributor end what it drains and
 * then itself; `kill` ends children, whose tasks then wait again for another node, or for
 * the next start.
 */
#include <fcntl.h>
#include <sys/eventfd.h>

#include "base/file.h"
#include "push/push_run.h"
#include "push/view.h"

void push_poke(struct push *push)
{
	const uint64_t one = 1;

	/* Only fails if the counter is full: then it is readable anyway. */
	if (write(push->wake_fd, &one, sizeof(one)) < 0)
		return;
}

struct push_settings *push_settings_of(struct push *push)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&push->mutex);

	return push_settings_ref(push->settings);
}

static void push_free(struct push *push)
{
	struct push_run *run;

	while ((run = TAILQ_FIRST(&push->finished)) != NULL) {
		TAILQ_REMOVE(&push->finished, run, link);
		push_run_free(run);
	}
	push_settings_unref(push->settings);
	stop_clear(&push->ending);
	stop_clear(&push->kill);
	pthread_mutex_destroy(&push->mutex);
	if (push->wake_fd >= 0)
		close(push->wake_fd);
	free(push->directory);
	free(push);
}

int push_start(const struct push_options *options, struct push **started, struct err *err)
{
	struct push *push = xcalloc(1, sizeof(*push));

	push->options = *options;
	push->settings = push_settings_ref(options->settings);
	push->has_new_settings = true;
	push->directory = xasprintf("%s/tmp", options->data);
	TAILQ_INIT(&push->finished);
	mutex_init(&push->mutex);
	stop_init(&push->ending);
	stop_init(&push->kill);
	push->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (push->wake_fd < 0) {
		err_errno(err, "cannot make an eventfd");
		push_free(push);
		return -1;
	}
	if (dir_make(AT_FDCWD, push->directory, err) != 0) {
		push_free(push);
		return -1;
	}
	view_sweep(push->directory);
	push->pool = pool_start("push", 1);
	thread_start(&push->startup, "push startup", startup_run, push);
	thread_start(&push->distributor, "distributor", distributor_run, push);
	*started = push;
	return 0;
}

void push_stop(struct push *push, int64_t grace_ms)
{
	if (!push)
		return;
	lock(&push->mutex);
	push->grace_ms = grace_ms;
	unlock(&push->mutex);
	stop_request(&push->ending);
	thread_join(push->startup);
	thread_join(push->distributor);
	stop_request(&push->kill);
	pool_drain(push->pool); /* what was submitted ends by itself, at once */
	pool_stop(push->pool, NULL);
	lease_release(push->presence);
	push_free(push);
}

void push_set(struct push *push, struct push_settings *settings)
{
	lock(&push->mutex);
	push_settings_unref(push->settings);
	push->settings = push_settings_ref(settings);
	push->has_new_settings = true;
	unlock(&push->mutex);
	push_poke(push);
}

void push_wake(struct push *push)
{
	lock(&push->mutex);
	push->is_woken = true;
	unlock(&push->mutex);
	push_poke(push);
}

void push_look(struct push *push, struct push_look *look)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&push->mutex);

	*look = push->look;
}
