/*
 * Connections that are kept. Each rests in a multi handle of its own, since libcurl's
 * cache of connections cannot be shared between threads; the newest is used first, so
 * that those which are not needed grow old, and are closed.
 */
#include <assert.h>

#include "base/clock.h"
#include "net/forward_private.h"
#include "net/transport.h"

#define IDLE_MS 30000 /* servers close theirs after a minute or more */

struct forwarder {
	pthread_mutex_t mutex;
	struct forward_line idle[FORWARD_LINES_KEPT]; /* guarded; oldest first */
	size_t count;                                 /* guarded */
	int64_t unanswered_at; /* boot ms; 0: the last was answered; guarded */
	char *site;            /* owned */
};

struct forwarder *forwarder_new(const char *site)
{
	struct forwarder *forwarder = xcalloc(1, sizeof(*forwarder));

	transport_start();
	mutex_init(&forwarder->mutex);
	forwarder->site = xstrdup(site);
	return forwarder;
}

void forwarder_free(struct forwarder *forwarder)
{
	if (!forwarder)
		return;
	for (size_t i = 0; i < forwarder->count; i++)
		forward_line_clear(&forwarder->idle[i]);
	pthread_mutex_destroy(&forwarder->mutex);
	free(forwarder->site);
	free(forwarder);
}

void forwarder_note(struct forwarder *forwarder, int64_t unanswered_at)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&forwarder->mutex);

	forwarder->unanswered_at = unanswered_at;
}

bool forwarder_is_unanswered(struct forwarder *forwarder, int64_t within_ms)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&forwarder->mutex);

	return forwarder->unanswered_at > 0 &&
	       clock_boot_ms() - forwarder->unanswered_at <= within_ms;
}

const char *forwarder_site(const struct forwarder *forwarder)
{
	return forwarder->site;
}

void forward_line_clear(struct forward_line *line)
{
	curl_easy_cleanup(line->easy);
	curl_multi_cleanup(line->multi);
	*line = (struct forward_line){ 0 };
}

static struct forward_line fresh_line(void)
{
	struct forward_line line = { .easy = curl_easy_init(),
				     .multi = curl_multi_init() };

	if (!line.easy || !line.multi)
		abort();
	curl_multi_setopt(line.multi, CURLMOPT_MAXCONNECTS, 1L);
	return line;
}

/* Takes the oldest out: one that rests too long, or that there is no room for. */
static bool take_old_locked(struct forwarder *forwarder, size_t room,
			    struct forward_line *line)
{
	if (forwarder->count == 0 ||
	    (forwarder->count + room <= FORWARD_LINES_KEPT &&
	     clock_boot_ms() - forwarder->idle[0].idle_since < IDLE_MS))
		return false;
	*line = forwarder->idle[0];
	forwarder->count--;
	memmove(forwarder->idle, forwarder->idle + 1,
		forwarder->count * sizeof(forwarder->idle[0]));
	return true;
}

static bool take_old(struct forwarder *forwarder, size_t room, struct forward_line *line)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&forwarder->mutex);

	return take_old_locked(forwarder, room, line);
}

static void close_old(struct forwarder *forwarder, size_t room)
{
	struct forward_line line;

	while (take_old(forwarder, room, &line))
		forward_line_clear(&line);
}

static bool take_newest(struct forwarder *forwarder, struct forward_line *line)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&forwarder->mutex);

	if (forwarder->count == 0)
		return false;
	*line = forwarder->idle[--forwarder->count];
	return true;
}

struct forward_line forward_line_take(struct forwarder *forwarder)
{
	struct forward_line line;

	close_old(forwarder, 0);
	return take_newest(forwarder, &line) ? line : fresh_line();
}

static bool forward_line_add_idle(struct forwarder *forwarder, struct forward_line line)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&forwarder->mutex);

	if (forwarder->count == FORWARD_LINES_KEPT)
		return false;
	forwarder->idle[forwarder->count++] = line;
	return true;
}

void forward_line_keep(struct forwarder *forwarder, struct forward_line line)
{
	line.idle_since = clock_boot_ms();
	close_old(forwarder, 1);
	if (!forward_line_add_idle(forwarder, line))
		forward_line_clear(&line);
}
