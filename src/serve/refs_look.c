/*
 * Whole looks, one at a time for a repository: they arm its watch, which is for one
 * thread. Many who ask at once share few: a look is good for all who came before it
 * began. Who comes while one is under way needs the next, and so do all who come with
 * him: with any number of them, each waits for two looks at most, one that had begun and
 * one that serves him.
 *
 * A look that its own caller has canceled is nobody else's: the next one looks himself.
 */
#include "base/clock.h"
#include "base/metrics.h"
#include "serve/http_service.h"
#include "serve/refs_parts.h"

/* So long a pending write is waited for, as most last some milliseconds. */
#define PENDING_WAIT_MS 250

/* How soon who waits notices that he is to stop. */
#define NOTICE_MS 100

bool refs_sight_is_same(const struct refs_sight *before, const struct refs_sight *after)
{
	return before->result == 0 && after->result == 0 &&
	       look_is_same(&before->look, &after->look);
}

static struct refs_sight *refs_observation_take(struct refs_slot *slot, uint64_t number,
						const struct stop *stop)
{
	struct refs_sight *sight = xcalloc(1, sizeof(*sight));

	atomic_init(&sight->references, 1);
	sight->number = number;
	sight->began_ms = clock_boot_ms();
	sight->result = look_take(
		&(struct look_request){
			.root = slot->cache->root,
			.name = slot->name,
			.inotify = slot->cache->inotify,
			.watch = &slot->watch,
			.pending_wait_ms = PENDING_WAIT_MS,
			.stop = stop,
		},
		&sight->look, &sight->err);
	if (sight->result == 0 && sight->look.is_closed)
		sight->result = http_service_closed(sight->look.path, HTTP_SERVICE_READ,
						    &sight->err);
	return sight;
}

static void count_recoveries(unsigned recovered)
{
	if (recovered > 0)
		metric_add(metric_at(metric_counter(
				   "refrelay_refs_recoveries_total",
				   "Writers found dead, whose files were removed.")),
			   recovered);
}

static bool is_canceled(const struct refs_sight *sight)
{
	return sight->result != 0 && sight->err.class == ERR_CANCELED;
}

/* Waits until `slot->changed`; false: told to stop. */
static bool refs_observation_wait_locked(struct refs_slot *slot, const struct stop *stop)
{
	if (is_stopped(stop))
		return false;
	cond_wait_until(&slot->changed, &slot->cache->mutex, clock_boot_ms() + NOTICE_MS);
	return true;
}

/* Until somebody else's look that is good for us has ended (then a reference to it) or it
 * is for us to look (NULL). */
static int wait_for_look_locked(struct refs_slot *slot, const struct stop *stop,
				struct refs_sight **sight, struct err *err)
{
	uint64_t begun = slot->looks;

	*sight = NULL;
	for (;;) {
		if (slot->sight && slot->sight->number > begun) {
			*sight = refs_sight_ref(slot->sight);
			return 0;
		}
		if (!slot->is_looking)
			return 0;
		if (!refs_observation_wait_locked(slot, stop))
			return err_set(err, ERR_CANCELED, "stopped while waiting");
	}
}

static struct refs_sight *look_now(struct refs_slot *slot, uint64_t number,
				   const struct stop *stop)
{
	AUTO_WASTE struct refs_waste waste = { 0 };
	struct refs_cache *cache = slot->cache;
	struct refs_sight *sight = refs_observation_take(slot, number, stop);

	count_recoveries(sight->look.recovered);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&cache->mutex);
	slot->is_looking = false;
	if (!is_canceled(sight)) {
		if (slot->sight)
			vec_add(&waste.sights, slot->sight);
		slot->sight = refs_sight_ref(sight);
	}
	pthread_cond_broadcast(&slot->changed);
	return sight;
}

int slot_look(struct refs_slot *slot, const struct stop *stop, struct refs_sight **sight,
	      struct err *err)
{
	uint64_t number;

	lock(&slot->cache->mutex);
	int result = wait_for_look_locked(slot, stop, sight, err);
	bool is_ours = result == 0 && !*sight;
	if (is_ours) {
		slot->is_looking = true;
		slot->looks++;
	}
	number = slot->looks;
	unlock(&slot->cache->mutex);
	if (result != 0)
		return -1;
	if (is_ours)
		*sight = look_now(slot, number, stop);
	if ((*sight)->result == 0)
		return 0;
	*err = (*sight)->err;
	refs_sight_unref(TAKE(*sight));
	return -1;
}
