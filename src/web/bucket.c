/*
 * A bucket counts the bytes that were taken, and those that might have been sent by now:
 * who takes some waits until all before them might have been. So streams take turns in
 * the order in which they ask, share what there is, and all of them feel another rate at
 * once. A bucket that nobody takes from is worth BURST_US, no more.
 */
#include "web/bucket.h"

#include "base/clock.h"
#include "base/thread.h"
#include "base/vec.h"
#include "web/access.h"

enum { BURST_US = 20 * 1000, SECOND_US = 1000 * 1000, BLOCK_MIN = 4096, LOOK_MS = 500 };
#define BLOCKS_A_SECOND 16

struct bucket {
	pthread_mutex_t mutex;
	char *site;
	uint64_t cap, asked; /* guarded by mutex, as all below; 0: none */
	double taken, sent;  /* bytes */
	int64_t sent_at;     /* boot us */
};

struct buckets {
	pthread_mutex_t mutex;
	VEC(struct bucket *) items; /* guarded by mutex */
};

struct buckets *buckets_new(void)
{
	struct buckets *buckets = xcalloc(1, sizeof(*buckets));

	mutex_init(&buckets->mutex);
	return buckets;
}

void buckets_free(struct buckets *buckets)
{
	if (!buckets)
		return;
	for (size_t i = 0; i < buckets->items.count; i++) {
		pthread_mutex_destroy(&buckets->items.items[i]->mutex);
		free(buckets->items.items[i]->site);
		free(buckets->items.items[i]);
	}
	vec_clear(&buckets->items);
	pthread_mutex_destroy(&buckets->mutex);
	free(buckets);
}

struct bucket *buckets_find(struct buckets *buckets, const char *site)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&buckets->mutex);
	struct bucket *new;

	for (size_t i = 0; i < buckets->items.count; i++)
		if (strcmp(buckets->items.items[i]->site, site) == 0)
			return buckets->items.items[i];
	new = xcalloc(1, sizeof(*new));
	mutex_init(&new->mutex);
	new->site = xstrdup(site);
	vec_add(&buckets->items, new);
	return new;
}

static int read_cap(const struct conf *conf, const char *site, uint64_t *cap,
		    struct err *err)
{
	struct secondary_settings settings;
	int result = secondary_settings_read(conf, site, &settings, err);

	*cap = settings.bandwidth;
	secondary_settings_clear(&settings);
	return result;
}

static uint64_t rate_locked(const struct bucket *bucket)
{
	if (bucket->cap == 0 || bucket->asked == 0)
		return bucket->cap + bucket->asked;
	return bucket->cap < bucket->asked ? bucket->cap : bucket->asked;
}

static double bucket_rate_locked(const struct bucket *bucket)
{
	return (double)rate_locked(bucket) / SECOND_US; /* a microsecond */
}

static void bucket_advance_locked(struct bucket *bucket)
{
	int64_t now = clock_boot_ms() * 1000;
	double rate = bucket_rate_locked(bucket), most = bucket->taken + BURST_US * rate;

	bucket->sent += (double)(now - bucket->sent_at) * rate;
	if (bucket->sent > most || rate <= 0)
		bucket->sent = most;
	bucket->sent_at = now;
}

static void bucket_limit(struct bucket *bucket, uint64_t *limit, uint64_t rate)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&bucket->mutex);

	bucket_advance_locked(bucket);
	*limit = rate;
}

static void set_cap(struct buckets *buckets, const char *site, uint64_t cap)
{
	struct bucket *bucket = buckets_find(buckets, site);

	bucket_limit(bucket, &bucket->cap, cap);
}

int buckets_set(struct buckets *buckets, const struct conf *conf, struct err *err)
{
	struct conf_names sites = { 0 };
	VEC(uint64_t) caps = { 0 };
	int result = 0;

	conf_subsections(conf, "secondary", &sites);
	for (size_t i = 0; i < sites.count && result == 0; i++) {
		uint64_t cap;
		result = read_cap(conf, sites.items[i], &cap, err);
		vec_add(&caps, cap);
	}
	for (size_t i = 0; i < sites.count && result == 0; i++)
		set_cap(buckets, sites.items[i], caps.items[i]);
	vec_clear(&caps);
	vec_clear(&sites);
	return result;
}

void bucket_ask(struct bucket *bucket, uint64_t rate)
{
	bucket_limit(bucket, &bucket->asked, rate);
}

bool bucket_is_limited(struct bucket *bucket)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&bucket->mutex);

	return rate_locked(bucket) > 0;
}

/* In how many milliseconds all bytes up to these might have been sent. */
static int64_t bucket_time_left(struct bucket *bucket, double bytes)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&bucket->mutex);
	double left;

	bucket_advance_locked(bucket);
	left = bytes - bucket->sent;
	if (left <= 0)
		return 0;
	left /= bucket_rate_locked(bucket) * 1000;
	return left < LOOK_MS ? (int64_t)left + 1 : LOOK_MS;
}

static double bucket_take(struct bucket *bucket, size_t bytes)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&bucket->mutex);
	double before;

	bucket_advance_locked(bucket);
	before = bucket->taken;
	bucket->taken += (double)bytes;
	return before;
}

bool bucket_wait(struct bucket *bucket, size_t bytes, int64_t until,
		 const struct stop *cut)
{
	double before = bucket_take(bucket, bytes);
	int64_t left, now;

	while ((left = bucket_time_left(bucket, before)) > 0) {
		now = clock_boot_ms();
		if (now >= until || stop_wait(cut, int64_min(left, until - now)))
			return false;
	}
	return true;
}

size_t bucket_block(struct bucket *bucket, size_t most)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&bucket->mutex);
	uint64_t rate = rate_locked(bucket), share = rate / BLOCKS_A_SECOND;

	if (rate > 0 && share < BLOCK_MIN)
		share = BLOCK_MIN;
	return rate == 0 || share >= most ? most : (size_t)share;
}
