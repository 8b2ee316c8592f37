/*
 * What an upstream answers to who asks for objects of Git LFS: where each can be had, or
 * why not. Pure functions over what a stranger wrote; any thread.
 *
 * Source: Git LFS API, server discovery and batch.
 */
#ifndef MIRROR_LFS_OFFER_H
#define MIRROR_LFS_OFFER_H

#include "base/base.h"
#include "base/vec.h"
#include "replicable/lfs_rows.h"

#define LFS_OFFER_TYPE "application/vnd.git-lfs+json"
#define LFS_OFFER_BATCH 100 /* objects a question, as git-lfs itself asks */
#define LFS_OFFER_ANSWER ((size_t)4 << 20) /* an answer has at most so many bytes */

struct lfs_offer_header {
	char *name, *value; /* owned */
};

/* One object that was asked for. */
struct lfs_offer {
	struct lfs_row row;                   /* as it was asked for */
	char *href;                           /* NULL: it is not to be had; owned */
	VEC(struct lfs_offer_header) headers; /* that go to href */
	bool is_authenticated;                /* nothing else need be shown there */
	int64_t lasts_ms;                     /* from the answer on; 0: not said */
	int code;      /* with no href: as a status of HTTP; 0 with one */
	char *message; /* likewise; owned */
};
typedef VEC(struct lfs_offer) lfs_offers;
#define AUTO_LFS_OFFERS __attribute__((cleanup(lfs_offers_clear)))
void lfs_offers_clear(lfs_offers *offers);

/* Where the upstream of this URL is asked: that of git-lfs, ".git/info/lfs/objects/batch"
 * behind it. The caller frees. */
char *lfs_offer_make_url(const char *upstream);

/* The question's body. The caller frees. */
char *lfs_offer_make_question(const struct lfs_row *rows, size_t count);

/* One offer for each of the rows, in their order: of what the answer does not have it
 * says so; what was not asked for is passed over. ERR_CORRUPT: it is no such answer. The
 * caller clears in any case. `wall_ms`: now, for when an offer ends. */
int lfs_offers_read(const char *text, size_t len, const struct lfs_row *rows,
		    size_t count, int64_t wall_ms, lfs_offers *offers, struct err *err);

/* Scheme, host and port are the same. What only looks different is so. */
bool lfs_offer_is_same_place(const char *one, const char *other);

/* Whether what is asked for over https would go over http. */
bool lfs_offer_is_downgrade(const char *from, const char *to);

#endif
