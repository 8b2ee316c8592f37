#include "change/known_refs.h"

#include <stdatomic.h>

#include "base/thread.h"
#include "git/checksum.h"
#include "git/packed_refs.h"

#define PLACES 16

/* What is smaller is read again as fast. */
#define REFS_LEAST 1000

struct known_past {
	atomic_uint users;
	uint64_t id;
	char checksum[CHECKSUM_TEXT_SIZE];
	struct ref_past past;
};

struct known_refs {
	pthread_mutex_t mutex;
	/* Used last is first; guarded by the mutex. */
	struct known_past *places[PLACES];
};

struct known_refs *known_refs_new(void)
{
	struct known_refs *known = xcalloc(1, sizeof(*known));

	mutex_init(&known->mutex);
	return known;
}

void known_past_leave(struct known_past *past)
{
	if (!past || atomic_fetch_sub(&past->users, 1) > 1)
		return;
	ref_past_clear(&past->past);
	free(past);
}

void known_refs_free(struct known_refs *known)
{
	if (!known)
		return;
	for (size_t i = 0; i < PLACES; i++)
		known_past_leave(known->places[i]);
	pthread_mutex_destroy(&known->mutex);
	free(known);
}

const struct ref_past *known_past_of(const struct known_past *past)
{
	return &past->past;
}

/* Where those of that id stand, else the last place. */
static size_t known_refs_find(const struct known_refs *known, uint64_t id)
{
	size_t at = 0;

	while (at < PLACES - 1 && !(known->places[at] && known->places[at]->id == id))
		at++;
	return at;
}

/* The one at this place comes first. */
static void known_refs_use(struct known_refs *known, size_t at)
{
	struct known_past *past = known->places[at];

	memmove(known->places + 1, known->places, at * sizeof(*known->places));
	known->places[0] = past;
}

void known_refs_put(struct known_refs *known, uint64_t id, const char *checksum,
		    const struct ref_snapshot *refs)
{
	struct known_past *past;

	if (!refs->packed || packed_refs_of(refs->packed)->refs.count < REFS_LEAST)
		return;
	past = xcalloc(1, sizeof(*past));
	atomic_init(&past->users, 1);
	past->id = id;
	snprintf(past->checksum, sizeof(past->checksum), "%s", checksum);
	ref_past_take(refs, &past->past);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&known->mutex);
	size_t at = known_refs_find(known, id);
	known_past_leave(known->places[at]);
	known->places[at] = past;
	known_refs_use(known, at);
}

struct known_past *known_refs_get(struct known_refs *known, uint64_t id,
				  const char *checksum)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&known->mutex);
	size_t at = known_refs_find(known, id);
	struct known_past *past = known->places[at];

	if (!past || past->id != id || strcmp(past->checksum, checksum) != 0)
		return NULL;
	known_refs_use(known, at);
	atomic_fetch_add(&past->users, 1);
	return past;
}
