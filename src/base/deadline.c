#include "base/deadline.h"

#include <assert.h>
#include <sys/socket.h>

#include "base/thread.h"

/* Must neither wait for a supervisor that is stopped nor fail for one that is dead. When
 * its queue of some hundred moves is full, it goes by an older and mostly earlier one. */
static void deadline_report_move(int pipe, int64_t at)
{
	ssize_t ignored = send(pipe, &at, sizeof(at), MSG_NOSIGNAL | MSG_DONTWAIT);

	(void)ignored;
}

static void move_locked(struct deadline *deadline, int64_t at)
{
	deadline->at = at;
	for (size_t i = 0; i < deadline->pipes.count; i++)
		deadline_report_move(deadline->pipes.items[i], at);
}

void deadline_init(struct deadline *deadline, int64_t at)
{
	*deadline = (struct deadline){ .at = at };
	mutex_init(&deadline->mutex);
}

void deadline_clear(struct deadline *deadline)
{
	assert(deadline->pipes.count == 0);
	vec_clear(&deadline->pipes);
	pthread_mutex_destroy(&deadline->mutex);
}

void deadline_move(struct deadline *deadline, int64_t at)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&deadline->mutex);

	if (!deadline->lost)
		move_locked(deadline, at);
}

void deadline_expire(struct deadline *deadline)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&deadline->mutex);

	deadline->lost = true;
	move_locked(deadline, 0);
}

int64_t deadline_at(struct deadline *deadline)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&deadline->mutex);

	return deadline->at;
}

void deadline_attach(struct deadline *deadline, int pipe)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&deadline->mutex);

	deadline_report_move(pipe, deadline->at);
	vec_add(&deadline->pipes, pipe);
}

void deadline_detach(struct deadline *deadline, int pipe)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&deadline->mutex);
	size_t i = 0;

	while (i < deadline->pipes.count && deadline->pipes.items[i] != pipe)
		i++;
	assert(i < deadline->pipes.count);
	deadline->pipes.items[i] = deadline->pipes.items[--deadline->pipes.count];
}
