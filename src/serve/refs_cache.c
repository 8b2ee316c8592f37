/*
 * The cache of info/refs.
 *
 * A slot is a repository that was asked for. What it serves, its stand, is a pair that
 * never changes: a look, and a generation that was true at that look or came to be true
 * between it and now. Nothing is ever invalidated. Who asks takes a stand only with a
 * proof that it was true at some moment of his own call, one of these:
 *
 * 1. Check: the stand's look still stands (its directory is where it was, the watch has
 *    seen nothing), asked after the call began. So nothing has changed from the look to
 *    this moment. Only for a minute after the look.
 * 2. Look: a whole look that began after the call did, and that is the same as the
 *    stand's, or came before it (looks of a slot are numbered in the order in which they
 *    begin): the stand was true at that look, or at a later one.
 * 3. Flight: the same two reasons hold for the look from which a flight started; then
 *    what the flight brings, if it lands well, is as good as a stand.
 *
 * Why what a flight brings is true at its look (A). From git: A ended before git began to
 * read; a second look, after git ended, was the same: nothing changed between, so any
 * moment of it gives the same refs. If it is not the same, or says that a write is
 * pending, nothing is kept, and all who follow look again. From the disk: a file there is
 * named by the key and the fingerprint of a look (C) of some process, whose fingerprint
 * was settled, and at which its content was true. If A came later than C, their equal
 * fingerprints prove that nothing changed between. If A came earlier, the content is of
 * C, which is later than A and not later than now, and so after the calls that A is good
 * for began. Should something have changed between A and C unseen by fingerprints, the
 * watch has counted it, and A (whose fingerprint was not settled, or C's would differ)
 * is the same as no later look.
 *
 * What grows. A reader that streams gets git's own bytes as they come. Who has followed
 * by reason 3 knows that nothing changed from A to his own look; so each ref that git
 * read before that look was true at it too, and all others were read after it. If the
 * repository moves meanwhile, he gets all the same what git itself would have answered
 * him; it is kept by nobody.
 *
 * Interleavings:
 * - A flight is replaced by a newer one (the repository has changed): the older goes on
 *   for those who follow it and mostly finds that it has moved. Should it land well, what
 *   it brings is right for them, and its slot takes it unless it serves a later look.
 * - The slot gets the stand, or forgets the flight, before any follower is told: who
 *   comes back finds the outcome or starts anew. Both in one hold of the mutex: who comes
 *   between finds the one or the other.
 * - A stand is dropped for want of memory, or replaced, while it is checked or read:
 *   references keep it. Flights, looks and callers hold their slot, and slots that are
 *   held are not evicted.
 * - Close: its caller promises that no reader is left; flights are told to stop, and the
 *   last of their threads is joined before anything is freed.
 *
 * One mutex for all slots, held for some pointers and never across I/O; a flight has a
 * mutex of its own for its bytes. The two are never held at once.
 */
#include "serve/refs_cache.h"

#include "base/clock.h"
#include "base/metrics.h"
#include "serve/refs_flight.h"

/* So often the refs may have moved while git read them, before git alone must answer. */
#define TRIES 3

/* A slot that nobody asks for so long is freed. */
#define IDLE_MS (10 * 60 * 1000)

static const struct inotify_limits inotify_limits = {
	.directories_each = 1024,
	.directories = 65536,
};

enum request_class {
	CLASS_HIT,
	CLASS_DISK,
	CLASS_MISS,
	CLASS_SHARED,
	CLASS_BYPASS, /* and on: CLASS_BYPASS + enum bypass */
	CLASS_COUNT = (int)CLASS_BYPASS + (int)BYPASS_COUNT,
};

#define BYPASSED(why) ((int)CLASS_BYPASS + (int)(why))

static void refs_cache_count_request(enum refs_kind kind, unsigned class)
{
	static const char *const kinds[] = {
		[REFS_INFO] = "info_refs",
		[REFS_LS] = "ls_refs",
	};
	static const char *const classes[CLASS_COUNT] = {
		[CLASS_HIT] = "hit",
		[CLASS_DISK] = "disk",
		[CLASS_MISS] = "miss",
		[CLASS_SHARED] = "shared",
		[CLASS_BYPASS] = "bypass",
		[BYPASSED(BYPASS_PENDING)] = "bypass_pending",
		[BYPASSED(BYPASS_UNSETTLED)] = "bypass_unsettled",
		[BYPASSED(BYPASS_CONFIG)] = "bypass_config",
		[BYPASSED(BYPASS_UNWRITABLE)] = "bypass_unwritable",
		[BYPASSED(BYPASS_MOVING)] = "bypass_moving",
		[BYPASSED(BYPASS_UNREADABLE)] = "bypass_unreadable",
	};
	static _Atomic(struct metric_series *) known[ARRAY_SIZE(kinds)][CLASS_COUNT];
	struct metric_series *series = atomic_load(&known[kind][class]);

	if (!series) {
		series = metric_at(metric_counter("refrelay_refs_requests_total",
						  "Requests for refs, by what answered.",
						  "kind", "class"),
				   kinds[kind], classes[class]);
		atomic_store(&known[kind][class], series);
	}
	metric_add(series, 1);
}

struct refs_cache *refs_cache_open(const struct refs_cache_options *options)
{
	struct refs_cache *cache = xcalloc(1, sizeof(*cache));

	cache->root = xstrdup(options->root);
	cache->inotify = inotify_open(&inotify_limits, ERR_IGNORED);
	cache->shelf =
		shelf_open(options->settings->directory, &options->settings->shelf);
	cache->capabilities = capabilities_new();
	cache->fills = options->slots;
	cache->memory_limit = options->settings->memory;
	cache->timeout_ms = options->settings->timeout_ms;
	stop_init(&cache->stop);
	mutex_init(&cache->mutex);
	cond_init(&cache->landed);
	TAILQ_INIT(&cache->used);
	TAILQ_INIT(&cache->over);
	return cache;
}

static void free_slots(struct refs_cache *cache)
{
	AUTO_WASTE struct refs_waste waste = { 0 };
	AUTO_UNLOCK pthread_mutex_t *held = lock(&cache->mutex);

	while (cache->flying > 0)
		cond_wait_until(&cache->landed, &cache->mutex, INT64_MAX);
	slots_trim_locked(cache, INT64_MAX, &waste);
}

void refs_cache_close(struct refs_cache *cache)
{
	if (!cache)
		return;
	stop_request(&cache->stop);
	free_slots(cache);
	refs_flights_reap(cache);
	map_clear(&cache->by_name);
	capabilities_free(cache->capabilities);
	shelf_close(cache->shelf);
	inotify_close(cache->inotify);
	pthread_cond_destroy(&cache->landed);
	pthread_mutex_destroy(&cache->mutex);
	stop_clear(&cache->stop);
	free(cache->root);
	free(cache);
}

void refs_cache_set(struct refs_cache *cache, const struct serve_settings *settings)
{
	AUTO_WASTE struct refs_waste waste = { 0 };

	shelf_set_limits(cache->shelf, &settings->shelf);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&cache->mutex);
	cache->memory_limit = settings->memory;
	cache->timeout_ms = settings->timeout_ms;
	slots_trim_locked(cache, 0, &waste);
}

void refs_cache_sweep(struct refs_cache *cache, const struct stop *stop)
{
	AUTO_WASTE struct refs_waste waste = { 0 };

	refs_flights_reap(cache);
	lock(&cache->mutex);
	slots_trim_locked(cache, clock_boot_ms() - IDLE_MS, &waste);
	unlock(&cache->mutex);
	shelf_sweep(cache->shelf, stop);
}

static void answer_generation(struct refs_answer *answer, const struct look *look,
			      struct generation *generation)
{
	answer->generation = generation;
	answer->path = xstrdup(look->path);
}

/* Reason 1: a reference to what is served; its path only where it is asked for. If there
 * is nothing, the slot comes back held, for the other two. */
static struct refs_slot *try_check(struct refs_cache *cache, const char *name,
				   struct generation **generation, char **path)
{
	AUTO_WASTE struct refs_waste waste = { 0 };
	int64_t now = clock_boot_ms();
	struct refs_slot *slot;
	struct refs_stand *stand;

	lock(&cache->mutex);
	slot = slot_acquire_locked(cache, name, now, &waste);
	stand = slot_checkable_locked(slot, now);
	unlock(&cache->mutex);
	if (!stand)
		return slot;

	bool stands = look_still_stands(&stand->sight->look, slot->watch);
	if (stands)
		*generation = generation_ref(stand->generation);
	if (stands && path)
		*path = xstrdup(stand->sight->look.path);
	refs_stand_unref(stand);
	if (!stands)
		return slot;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&cache->mutex);
	slot_release_locked(slot, &waste);
	return NULL;
}

/* Where a look leads: to a stand, as a reference to its generation, or to a flight. */
struct lead {
	struct generation *generation;
	struct refs_flight *flight;
	bool is_new; /* the flight is the caller's to start */
};

static bool is_good_for(const struct refs_sight *sight, const struct refs_sight *mine)
{
	return sight->number >= mine->number || refs_sight_is_same(sight, mine);
}

static struct lead find_lead(struct refs_slot *slot, struct refs_sight *sight)
{
	AUTO_WASTE struct refs_waste waste = { 0 };
	AUTO_UNLOCK pthread_mutex_t *held = lock(&slot->cache->mutex);
	struct lead lead = { 0 };

	if (slot->stand && is_good_for(slot->stand->sight, sight)) {
		lead.generation = generation_ref(slot->stand->generation);
		slot_renew_locked(slot, sight, &waste);
	} else if (slot->flight && is_good_for(refs_flight_sight(slot->flight), sight)) {
		lead.flight = refs_flight_ref(slot->flight);
	} else {
		lead.flight = refs_flight_new_locked(slot, sight);
		lead.is_new = true;
	}
	return lead;
}

static unsigned refs_cache_class_of(const struct lead *lead)
{
	if (!lead->is_new)
		return CLASS_SHARED;
	return refs_flight_is_from_disk(lead->flight) ? CLASS_DISK : CLASS_MISS;
}

static void answer_bypass(const struct refs_request *request, const struct look *look,
			  enum bypass bypass, struct refs_answer *answer)
{
	answer->bypass = bypass;
	answer->path = xstrdup(look->path);
	refs_cache_count_request(request->kind, (unsigned)BYPASSED(bypass));
}

/* 1: there is an answer; 0: the repository has moved; -1: an error. */
static int refs_cache_follow_flight(const struct lead *lead,
				    const struct refs_request *request,
				    struct refs_answer *answer, struct err *err)
{
	const struct look *look = &refs_flight_sight(lead->flight)->look;
	struct generation *generation;

	switch (refs_flight_wait(
		lead->flight, &(struct refs_follow){ request->may_stream, request->stop },
		&generation, err)) {
	case REFS_LANDING_MOVED:
		return 0;
	case REFS_LANDING_UNREADABLE:
		answer_bypass(request, look, BYPASS_UNREADABLE, answer);
		return 1;
	case REFS_LANDING_FAILED:
		return -1;
	case REFS_LANDING_GROWING:
		answer->growing = refs_flight_ref(lead->flight);
		answer->path = xstrdup(look->path);
		break;
	case REFS_LANDING_WELL:
		answer_generation(answer, look, generation);
		break;
	}
	refs_cache_count_request(request->kind, refs_cache_class_of(lead));
	return 1;
}

/* Reasons 2 and 3. 1: there is an answer; 0: it has moved; -1: an error. */
static int try_look(struct refs_slot *slot, const struct refs_request *request,
		    bool is_last, struct refs_answer *answer, struct err *err)
{
	AUTO_SIGHT struct refs_sight *sight = NULL;
	int result = 1;

	if (slot_look(slot, request->stop, &sight, err) != 0)
		return -1;
	if (sight->look.bypass != BYPASS_NONE) {
		answer_bypass(request, &sight->look, sight->look.bypass, answer);
		return 1;
	}

	struct lead lead = find_lead(slot, sight);
	if (lead.generation) {
		answer_generation(answer, &sight->look, lead.generation);
		refs_cache_count_request(request->kind, CLASS_HIT);
		return 1;
	}
	if (lead.is_new)
		refs_flight_start(lead.flight);
	result = refs_cache_follow_flight(&lead, request, answer, err);
	refs_flight_unref(lead.flight);
	if (result != 0 || !is_last)
		return result;
	answer_bypass(request, &sight->look, BYPASS_MOVING, answer);
	return 1;
}

struct generation *refs_cache_hit(struct refs_cache *cache, const char *name,
				  enum refs_kind kind)
{
	AUTO_WASTE struct refs_waste waste = { 0 };
	struct generation *generation = NULL;
	struct refs_slot *slot = try_check(cache, name, &generation, NULL);

	if (!slot) {
		refs_cache_count_request(kind, CLASS_HIT);
		return generation;
	}
	AUTO_UNLOCK pthread_mutex_t *held = lock(&cache->mutex);
	slot_release_locked(slot, &waste);
	return NULL;
}

int refs_cache_get(struct refs_cache *cache, const struct refs_request *request,
		   struct refs_answer *answer, struct err *err)
{
	AUTO_WASTE struct refs_waste waste = { 0 };
	struct refs_slot *slot;
	int result = 0;

	*answer = (struct refs_answer){ 0 };
	slot = try_check(cache, request->name, &answer->generation, &answer->path);
	if (!slot) {
		refs_cache_count_request(request->kind, CLASS_HIT);
		return 0;
	}
	for (int i = 1; i <= TRIES && result == 0; i++)
		result = try_look(slot, request, i == TRIES, answer, err);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&cache->mutex);
	slot_release_locked(slot, &waste);
	return result < 0 ? -1 : 0;
}

void refs_answer_clear(struct refs_answer *answer)
{
	generation_unref(answer->generation);
	refs_flight_unref(answer->growing);
	free(answer->path);
	*answer = (struct refs_answer){ 0 };
}
