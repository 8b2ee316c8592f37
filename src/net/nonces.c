/*
 * Two generations of nonces. New ones go into the recent generation; when that is old
 * enough it becomes the older one, and what was the older one is forgotten. So a nonce
 * is remembered for one period at least and two at most, and forgetting costs nothing
 * each time. A period is as long as a token can still be good after it was accepted: 60
 * s, and the 5 s that its clock may be ahead. Periods are measured in boot time, so that
 * setting the clock forward forgets nothing early.
 */
#include "net/nonces.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/thread.h"

int64_t nonces_keep_ms = (SITE_TOKEN_VALID_S + 6) * 1000;

struct nonces {
	pthread_mutex_t mutex;
	struct map recent, older; /* guarded by mutex; values mean nothing */
	int64_t since; /* guarded by mutex; boot ms of the recent one's start */
};

struct nonces *nonces_new(void)
{
	struct nonces *nonces = xcalloc(1, sizeof(*nonces));

	mutex_init(&nonces->mutex);
	nonces->since = clock_boot_ms();
	return nonces;
}

void nonces_free(struct nonces *nonces)
{
	if (!nonces)
		return;
	map_clear(&nonces->recent);
	map_clear(&nonces->older);
	pthread_mutex_destroy(&nonces->mutex);
	free(nonces);
}

static void turn_locked(struct nonces *nonces)
{
	int64_t now = clock_boot_ms();

	if (now - nonces->since < nonces_keep_ms)
		return;
	map_clear(&nonces->older);
	if (now - nonces->since < 2 * nonces_keep_ms)
		nonces->older = nonces->recent;
	else
		map_clear(&nonces->recent);
	nonces->recent = (struct map){ 0 };
	nonces->since = now;
}

bool nonces_take(struct nonces *nonces, const char *site, const char *nonce)
{
	AUTO_FREE char *key = xasprintf("%s %s", nonce, site);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&nonces->mutex);

	turn_locked(nonces);
	if (map_get(&nonces->recent, key) || map_get(&nonces->older, key))
		return false;
	map_put(&nonces->recent, key, nonces);
	return true;
}

size_t nonces_count(struct nonces *nonces)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&nonces->mutex);

	turn_locked(nonces);
	return nonces->recent.count + nonces->older.count;
}
