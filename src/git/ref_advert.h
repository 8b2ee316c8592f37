/*
 * The refs that another git reports, read into a snapshot: untrusted input, so each is
 * checked. An advertisement also has the peels of annotated tags.
 *
 * Source: gitprotocol-pack(5) "Reference Discovery", gitprotocol-http(5) "Smart
 * Clients", git-ls-remote(1).
 */
#ifndef GIT_REF_ADVERT_H
#define GIT_REF_ADVERT_H

#include "base/base.h"
#include "git/refs.h"

/* The answer to GET <url>/info/refs?service=git-upload-pack in protocol 0. *oid_len: 20
 * or 32. A HEAD it leaves open (an unborn branch is not reported) is filled in, always
 * the same way: main, master, or the first branch. ERR_CORRUPT: not an advertisement, or
 * with a ref that git would not accept, or twice. Its cuts are those of a repository that
 * is shallow itself. The caller clears the snapshot. */
int ref_advert_read(const char *bytes, size_t len, struct ref_snapshot *refs,
		    size_t *oid_len, struct err *err);

/* The answer to GET <url>/info/refs?service=git-receive-pack, likewise: the refs and
 * abilities offered for a push. */
struct push_advert {
	struct ref_snapshot refs;
	size_t oid_len;
	char *capabilities; /* owned; NULL: none */
};

/* The caller clears *push in either case. */
int push_advert_read(const char *bytes, size_t len, struct push_advert *push,
		     struct err *err);
bool push_advert_has(const struct push_advert *push,
		     const char *capability); /* without its "=" */
void push_advert_clear(struct push_advert *push);

/* The output of `git ls-remote --symref`, likewise, with the peels of tags. An empty one
 * means a repository without refs: then *oid_len stays as it was. */
int ref_advert_read_listing(const char *text, size_t len, struct ref_snapshot *refs,
			    size_t *oid_len, struct err *err);

#endif
