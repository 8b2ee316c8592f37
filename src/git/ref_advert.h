/*
 * What another git says of its refs, read into a snapshot: a stranger's words, so each is
 * checked. The peels of annotated tags come with it, if it is the advertisement.
 *
 * Source: gitprotocol-pack(5) "Reference Discovery", gitprotocol-http(5) "Smart
 * Clients", git-ls-remote(1).
 */
#ifndef GIT_REF_ADVERT_H
#define GIT_REF_ADVERT_H

#include "base/base.h"
#include "git/refs.h"

/* The answer to GET <url>/info/refs?service=git-upload-pack in protocol 0. *oid_len: 20
 * or 32. What it leaves open of HEAD (an unborn branch is not told) is filled in, always
 * in the same way: main, master, or the first branch. ERR_CORRUPT: it is none, or has a
 * ref that git would not take, or twice. Its cuts are those of a repository that is
 * shallow itself. The caller clears the snapshot. */
int ref_advert_read(const char *bytes, size_t len, struct ref_snapshot *refs,
		    size_t *oid_len, struct err *err);

/* The answer to GET <url>/info/refs?service=git-receive-pack, likewise: what a push may
 * change there, and how. */
struct push_advert {
	struct ref_snapshot refs;
	size_t oid_len;
	char *capabilities; /* owned; NULL: none */
};

/* *push is to be cleared in either case. */
int push_advert_read(const char *bytes, size_t len, struct push_advert *push,
		     struct err *err);
bool push_advert_has(const struct push_advert *push,
		     const char *capability); /* without its "=" */
void push_advert_clear(struct push_advert *push);

/* The output of `git ls-remote --symref`, likewise. Peels of tags are told there as well.
 * An empty one is of a repository without refs: then *oid_len stays as it was. */
int ref_advert_read_listing(const char *text, size_t len, struct ref_snapshot *refs,
			    size_t *oid_len, struct err *err);

#endif
