/*
 * How fast this site sends to each of the others: one bucket a site, out of which all
 * answers to it take, whatever they are and however many there are at once. Any thread;
 * nothing here waits.
 */
#ifndef WEB_BUCKET_H
#define WEB_BUCKET_H

#include "base/base.h"
#include "base/conf.h"

struct buckets;
struct bucket; /* of one site; lives as long as the buckets */

struct buckets *buckets_new(void);
void buckets_free(struct buckets *buckets); /* NULL is allowed */

/* Takes over [secondary "NAME"] bandwidth; what is under way goes on by it. ERR_CONFIG
 * names the key, and nothing is taken over. */
int buckets_set(struct buckets *buckets, const struct conf *conf, struct err *err);

/* `site` has proved that it is the one. */
struct bucket *buckets_find(struct buckets *buckets, const char *site);

/* The site wants no more than this, in bytes a second; 0: as much as it may have. */
void bucket_ask(struct bucket *bucket, uint64_t rate);

bool bucket_is_limited(struct bucket *bucket);

/* So many bytes shall be sent: from when on they may, boot ms. They are taken in any
 * case. */
int64_t bucket_take(struct bucket *bucket, size_t bytes);

/* How many bytes to send at a time, so that nobody waits long for his turn: at most
 * `most`. */
size_t bucket_block(struct bucket *bucket, size_t most);

#endif
