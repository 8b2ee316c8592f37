/*
 * Turns are counted as if clients were served one after another: the n-th that waits for
 * a client has his turn n rounds from now. The line is kept in that order. A client has
 * several names, and the one that has most counts: so nobody gets more by another address
 * of his, or by another user of his address.
 *
 * A waiter sleeps on an eventfd of its own, beside the stop token; when its time is up it
 * looks once more under the lock, as it may just have been let in.
 */
#include "base/fair.h"

#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/str.h"

#define NO_FD_POLL_MS 50 /* out of descriptors: look now and then */

TAILQ_HEAD(fair_places, fair_place);

/* Of one name. */
struct fair_share {
	char *key;
	size_t places;      /* that have it: one that was sent away has it for a while */
	size_t in, waiting; /* of them */
	uint64_t last_turn; /* of those that wait */
};

struct fair {
	pthread_mutex_t mutex;
	struct fair_limits limits; /* guarded by mutex, as all below */
	struct fair_places line;
	struct map shares;
	size_t in, waiting;
	uint64_t round;
	struct metric_series *shown_in, *shown_waiting; /* or NULL */
};

struct fair *fair_new(const struct fair_limits *limits)
{
	struct fair *fair = xcalloc(1, sizeof(*fair));

	mutex_init(&fair->mutex);
	fair->limits = *limits;
	TAILQ_INIT(&fair->line);
	return fair;
}

void fair_free(struct fair *fair)
{
	if (!fair)
		return;
	map_clear(&fair->shares); /* all have left */
	pthread_mutex_destroy(&fair->mutex);
	free(fair);
}

static void show_locked(const struct fair *fair)
{
	if (!fair->shown_in)
		return;
	metric_set(fair->shown_in, (double)fair->in);
	metric_set(fair->shown_waiting, (double)fair->waiting);
}

void fair_show(struct fair *fair, struct metric_series *in, struct metric_series *waiting)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&fair->mutex);

	fair->shown_in = in;
	fair->shown_waiting = waiting;
	show_locked(fair);
}

static struct fair_share *share_of_locked(struct fair *fair, size_t kind,
					  const char *name)
{
	AUTO_FREE char *key = NULL;
	struct fair_share *share;

	if (!name || !*name)
		return NULL;
	key = xasprintf("%zu %s", kind, name);
	share = map_get(&fair->shares, key);
	if (!share) {
		share = xcalloc(1, sizeof(*share));
		share->key = TAKE(key);
		map_put(&fair->shares, share->key, share);
	}
	share->places++;
	return share;
}

static void join_shares_locked(struct fair *fair, struct fair_place *place,
			       const struct fair_client *client)
{
	for (size_t i = 0; client && i < FAIR_NAMES; i++)
		place->shares[i] = share_of_locked(fair, i, client->names[i]);
}

static void leave_shares_locked(struct fair *fair, struct fair_place *place)
{
	for (size_t i = 0; i < FAIR_NAMES; i++) {
		struct fair_share *share = TAKE(place->shares[i]);
		if (!share || --share->places > 0)
			continue;
		map_remove(&fair->shares, share->key);
		free(share->key);
		free(share);
	}
}

/* How many places it has by the name that has most. */
static size_t load_locked(const struct fair_place *place)
{
	size_t most = 0;

	for (size_t i = 0; i < FAIR_NAMES; i++)
		if (place->shares[i] && place->shares[i]->in > most)
			most = place->shares[i]->in;
	return most;
}

static bool has_enough_locked(const struct fair *fair, const struct fair_place *place)
{
	return fair->limits.each > 0 && load_locked(place) >= fair->limits.each;
}

static bool may_be_in_locked(const struct fair *fair, const struct fair_place *place)
{
	return fair->in < fair->limits.places && !has_enough_locked(fair, place);
}

static void let_in_locked(struct fair *fair, struct fair_place *place)
{
	for (size_t i = 0; i < FAIR_NAMES; i++)
		if (place->shares[i])
			place->shares[i]->in++;
	fair->in++;
	place->state = FAIR_IN;
}

static void leave_line_locked(struct fair *fair, struct fair_place *place)
{
	TAILQ_REMOVE(&fair->line, place, entry);
	for (size_t i = 0; i < FAIR_NAMES; i++)
		if (place->shares[i] && --place->shares[i]->waiting == 0)
			place->shares[i]->last_turn = 0;
	fair->waiting--;
	place->state = FAIR_OUT;
}

static void fair_wake_place(const struct fair_place *place)
{
	uint64_t one = 1;

	if (place->fd < 0)
		return;
	ssize_t ignored = write(place->fd, &one, sizeof(one));
	(void)ignored; /* it is empty, and has room for one */
}

static struct fair_place *fair_find_next_locked(const struct fair *fair)
{
	struct fair_place *place, *best = NULL;

	TAILQ_FOREACH(place, &fair->line, entry)
	if (may_be_in_locked(fair, place) &&
	    (!best || load_locked(place) < load_locked(best)))
		best = place;
	return best;
}

static void let_next_in_locked(struct fair *fair)
{
	struct fair_place *place;

	while ((place = fair_find_next_locked(fair)) != NULL) {
		if (place->turn > fair->round)
			fair->round = place->turn;
		leave_line_locked(fair, place);
		let_in_locked(fair, place);
		fair_wake_place(place);
	}
	show_locked(fair);
}

void fair_set(struct fair *fair, const struct fair_limits *limits)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&fair->mutex);

	fair->limits = *limits;
	let_next_in_locked(fair);
}

static uint64_t next_turn_locked(const struct fair *fair, const struct fair_place *place)
{
	uint64_t turn = fair->round;

	for (size_t i = 0; i < FAIR_NAMES; i++)
		if (place->shares[i] && place->shares[i]->last_turn > turn)
			turn = place->shares[i]->last_turn;
	return turn + 1;
}

static void fair_insert_locked(struct fair *fair, struct fair_place *place)
{
	struct fair_place *before = TAILQ_LAST(&fair->line, fair_places);

	while (before && before->turn > place->turn)
		before = TAILQ_PREV(before, fair_places, entry);
	if (before)
		TAILQ_INSERT_AFTER(&fair->line, before, place, entry);
	else
		TAILQ_INSERT_HEAD(&fair->line, place, entry);
	for (size_t i = 0; i < FAIR_NAMES; i++)
		if (place->shares[i]) {
			place->shares[i]->waiting++;
			place->shares[i]->last_turn = place->turn;
		}
	fair->waiting++;
	place->state = FAIR_WAITS;
}

/* False: there is no room, and nobody to send away for it. */
static bool fair_make_room_locked(struct fair *fair, uint64_t turn)
{
	struct fair_place *last = TAILQ_LAST(&fair->line, fair_places);

	if (fair->waiting < fair->limits.waiting)
		return true;
	if (!last || last->turn <= turn)
		return false;
	leave_line_locked(fair, last);
	fair_wake_place(last);
	return true;
}

static void join(struct fair *fair, struct fair_place *place,
		 const struct fair_client *client)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&fair->mutex);

	join_shares_locked(fair, place, client);
	place->turn = next_turn_locked(fair, place);
	if (may_be_in_locked(fair, place)) {
		let_in_locked(fair, place);
	} else if (fair_make_room_locked(fair, place->turn)) {
		place->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		fair_insert_locked(fair, place);
	} else {
		leave_shares_locked(fair, place);
	}
	show_locked(fair);
}

static bool waits(struct fair *fair, const struct fair_place *place)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&fair->mutex);

	return place->state == FAIR_WAITS;
}

static void fair_wait_for_turn(struct fair *fair, struct fair_place *place, int64_t until,
			       const struct stop *stop)
{
	struct pollfd watched[] = {
		{ .fd = place->fd, .events = POLLIN },
		{ .fd = stop ? stop->fd : -1, .events = POLLIN },
	};
	int64_t left;

	while (waits(fair, place) && !(stop && stop_is_requested(stop)) &&
	       (left = until - clock_boot_ms()) > 0) {
		if (place->fd < 0 && left > NO_FD_POLL_MS)
			left = NO_FD_POLL_MS;
		poll(watched, ARRAY_SIZE(watched), left > INT_MAX ? INT_MAX : (int)left);
	}
}

static void leave_locked(struct fair *fair, struct fair_place *place)
{
	for (size_t i = 0; i < FAIR_NAMES; i++)
		if (place->shares[i])
			place->shares[i]->in--;
	fair->in--;
	place->state = FAIR_OUT;
	leave_shares_locked(fair, place);
	let_next_in_locked(fair);
}

static enum fair_result fair_conclude_wait(struct fair *fair, struct fair_place *place,
					   const struct stop *stop)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&fair->mutex);
	bool is_stopped = stop && stop_is_requested(stop);
	enum fair_result result = FAIR_TOO_MANY;

	if (place->state == FAIR_IN && !is_stopped)
		return FAIR_ENTERED;
	if (place->state == FAIR_IN) {
		leave_locked(fair, place);
	} else {
		if (place->state == FAIR_WAITS) {
			result = FAIR_TOO_LATE;
			leave_line_locked(fair, place);
		}
		leave_shares_locked(fair, place);
	}
	show_locked(fair);
	return is_stopped ? FAIR_STOPPED : result;
}

enum fair_result fair_enter(struct fair *fair, struct fair_place *place,
			    const struct fair_client *client, int64_t wait_ms,
			    const struct stop *stop)
{
	int64_t until = clock_boot_ms() + wait_ms;

	*place = (struct fair_place){ .state = FAIR_OUT, .fd = -1 };
	join(fair, place, client);
	fair_wait_for_turn(fair, place, until, stop);
	enum fair_result result = fair_conclude_wait(fair, place, stop);
	if (place->fd >= 0)
		close(place->fd);
	place->fd = -1;
	return result;
}

void fair_leave(struct fair *fair, struct fair_place *place)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&fair->mutex);

	leave_locked(fair, place);
}

static bool fair_has_common_share(const struct fair_place *one,
				  const struct fair_place *other)
{
	for (size_t i = 0; i < FAIR_NAMES; i++)
		if (one->shares[i] && one->shares[i] == other->shares[i])
			return true;
	return false;
}

bool fair_is_wanted(struct fair *fair, const struct fair_place *place)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&fair->mutex);
	const struct fair_place *other;

	if (fair->in < fair->limits.places)
		return false; /* who waits has all that he may have */
	TAILQ_FOREACH(other, &fair->line, entry)
	if (!fair_has_common_share(place, other) && !has_enough_locked(fair, other))
		return true;
	return false;
}
