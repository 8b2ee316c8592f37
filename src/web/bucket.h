/*
 * Limits how fast this site sends to each of the others: one bucket per site, shared by
 * all answers to it. Any thread; only bucket_wait() waits.
 */
#ifndef WEB_BUCKET_H
#define WEB_BUCKET_H

#include "base/base.h"
#include "base/conf.h"
#include "base/thread.h"

struct buckets;
struct bucket; /* of one site; lives as long as the buckets */

struct buckets *buckets_new(void);
void buckets_free(struct buckets *buckets); /* NULL is allowed */

/* Takes over [secondary "NAME"] bandwidth, also for answers under way. ERR_CONFIG names
 * the key; then nothing is taken over. */
int buckets_set(struct buckets *buckets, const struct conf *conf, struct err *err);

/* `site` must be authenticated. */
struct bucket *buckets_find(struct buckets *buckets, const char *site);

/* The site asks for at most this, in bytes a second; 0: as much as it is allowed. */
void bucket_ask(struct bucket *bucket, uint64_t rate);

bool bucket_is_limited(struct bucket *bucket);

/* Takes this many bytes for sending, in any case, and waits until they may be sent at the
 * rate of now. False: `cut` was requested, or `until` (boot ms) came first. */
bool bucket_wait(struct bucket *bucket, size_t bytes, int64_t until,
		 const struct stop *cut);

/* How many bytes to send at a time so that others do not wait long: at most `most`. */
size_t bucket_block(struct bucket *bucket, size_t most);

#endif
