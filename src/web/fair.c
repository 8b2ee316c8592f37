/*
 * Turns are counted as if clients were served one after another: the n-th that waits for
 * a client has his turn n rounds from now. The line is kept in that order.
 */
#include "web/fair.h"

#include "base/clock.h"
#include "base/thread.h"

TAILQ_HEAD(fair_places, fair_place);

struct fair {
	struct fair_limits limits;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct fair_places in, line; /* guarded by mutex, as all below */
	size_t in_count, waiting;
	uint64_t round;
};

struct fair *fair_new(const struct fair_limits *limits)
{
	struct fair *fair = xcalloc(1, sizeof(*fair));

	fair->limits = *limits;
	if (fair->limits.each == 0)
		fair->limits.each = limits->places;
	mutex_init(&fair->mutex);
	cond_init(&fair->changed);
	TAILQ_INIT(&fair->in);
	TAILQ_INIT(&fair->line);
	return fair;
}

void fair_free(struct fair *fair)
{
	if (!fair)
		return;
	pthread_cond_destroy(&fair->changed);
	pthread_mutex_destroy(&fair->mutex);
	free(fair);
}

static bool may_be_in_locked(const struct fair *fair, const char *client)
{
	const struct fair_place *other;
	size_t count = 0;

	TAILQ_FOREACH(other, &fair->in, entry)
	count += strcmp(other->client, client) == 0;
	return count < fair->limits.each;
}

static void let_in_locked(struct fair *fair, struct fair_place *place)
{
	TAILQ_INSERT_TAIL(&fair->in, place, entry);
	fair->in_count++;
	place->state = FAIR_IN;
}

static void leave_line_locked(struct fair *fair, struct fair_place *place)
{
	TAILQ_REMOVE(&fair->line, place, entry);
	fair->waiting--;
	place->state = FAIR_OUT;
}

static void let_next_in_locked(struct fair *fair)
{
	struct fair_place *place = TAILQ_FIRST(&fair->line);

	while (place && fair->in_count < fair->limits.places) {
		struct fair_place *next = TAILQ_NEXT(place, entry);
		if (may_be_in_locked(fair, place->client)) {
			if (place->turn > fair->round)
				fair->round = place->turn;
			leave_line_locked(fair, place);
			let_in_locked(fair, place);
		}
		place = next;
	}
	pthread_cond_broadcast(&fair->changed);
}

static uint64_t next_turn_locked(const struct fair *fair, const char *client)
{
	const struct fair_place *other;
	uint64_t turn = fair->round;

	TAILQ_FOREACH(other, &fair->line, entry)
	if (other->turn > turn && strcmp(other->client, client) == 0)
		turn = other->turn;
	return turn + 1;
}

static void insert_locked(struct fair *fair, struct fair_place *place)
{
	struct fair_place *before = TAILQ_LAST(&fair->line, fair_places);

	while (before && before->turn > place->turn)
		before = TAILQ_PREV(before, fair_places, entry);
	if (before)
		TAILQ_INSERT_AFTER(&fair->line, before, place, entry);
	else
		TAILQ_INSERT_HEAD(&fair->line, place, entry);
	fair->waiting++;
	place->state = FAIR_WAITS;
}

static void join_locked(struct fair *fair, struct fair_place *place)
{
	struct fair_place *last;

	if (fair->in_count < fair->limits.places &&
	    may_be_in_locked(fair, place->client)) {
		let_in_locked(fair, place);
		return;
	}
	place->turn = next_turn_locked(fair, place->client);
	if (fair->waiting >= fair->limits.waiting) {
		last = TAILQ_LAST(&fair->line, fair_places);
		if (!last || last->turn <= place->turn)
			return;
		leave_line_locked(fair, last);
		pthread_cond_broadcast(&fair->changed);
	}
	insert_locked(fair, place);
}

bool fair_enter(struct fair *fair, struct fair_place *place, const char *client,
		int64_t wait_ms)
{
	int64_t until = clock_boot_ms() + wait_ms;

	*place = (struct fair_place){ .state = FAIR_OUT };
	address_network(client ? client : "", place->client);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&fair->mutex);
	join_locked(fair, place);
	while (place->state == FAIR_WAITS)
		if (!cond_wait_until(&fair->changed, held, until))
			break;
	if (place->state == FAIR_WAITS)
		leave_line_locked(fair, place);
	return place->state == FAIR_IN;
}

void fair_leave(struct fair *fair, struct fair_place *place)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&fair->mutex);

	TAILQ_REMOVE(&fair->in, place, entry);
	fair->in_count--;
	place->state = FAIR_OUT;
	let_next_in_locked(fair);
}
