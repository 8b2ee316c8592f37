/*
 * An upstream's answer to a request for Git LFS objects: where each is available, or why
 * not. Pure functions over untrusted text; any thread.
 *
 * Source: Git LFS API, server discovery and batch.
 */
#ifndef MIRROR_LFS_OFFER_H
#define MIRROR_LFS_OFFER_H

#include "base/base.h"
#include "base/json.h"
#include "base/vec.h"
#include "replicable/lfs_rows.h"

#define LFS_OFFER_TYPE "application/vnd.git-lfs+json"
#define LFS_OFFER_BATCH 100 /* objects per question, as in git-lfs itself */
#define LFS_OFFER_ANSWER ((size_t)4 << 20) /* largest answer, in bytes */

struct lfs_offer_header {
	char *name, *value; /* owned */
};

/* One requested object. */
struct lfs_offer {
	struct lfs_row row;                   /* as requested */
	char *href;                           /* NULL: not available; owned */
	VEC(struct lfs_offer_header) headers; /* to send to href */
	bool is_authenticated;                /* no other credential is needed there */
	int64_t lasts_ms;                     /* from the answer on; 0: not stated */
	int code;      /* without href: as an HTTP status; with href: 0 */
	char *message; /* likewise; owned */
};
typedef VEC(struct lfs_offer) lfs_offers;
#define AUTO_LFS_OFFERS __attribute__((cleanup(lfs_offers_clear)))
void lfs_offers_clear(lfs_offers *offers);

/* The batch URL for the upstream of this URL, as in git-lfs: with
 * ".git/info/lfs/objects/batch" appended. The caller frees. */
char *lfs_offer_make_url(const char *upstream);

/* The question's body. The caller frees. */
char *lfs_offer_make_question(const struct lfs_row *rows, size_t count);

/* An object as batches name it. */
json_t *lfs_offer_make_object(const char *oid, uint64_t size);

/* What the objects of an answer say of that oid, perhaps as their number `at`, or NULL.
 */
const json_t *lfs_offer_find(const json_t *objects, const char *oid, size_t at);

/* One offer for each of the rows, in their order: objects missing from the answer are
 * marked so; objects that were not requested are ignored. ERR_CORRUPT: invalid answer.
 * The caller clears in any case. `wall_ms`: now, to compute when an offer ends. */
int lfs_offers_read(const char *text, size_t len, const struct lfs_row *rows,
		    size_t count, int64_t wall_ms, lfs_offers *offers, struct err *err);

/* Whether scheme, host and port are the same; different spellings of a place are
 * equal. */
bool lfs_offer_is_same_place(const char *one, const char *other);

/* Whether a request over https would go over http. */
bool lfs_offer_is_downgrade(const char *from, const char *to);

#endif
