/*
 * The command ls-refs of protocol 2, as a client sends it. Plain data.
 *
 * Source: gitprotocol-v2(5).
 */
#ifndef SERVE_LS_REFS_H
#define SERVE_LS_REFS_H

#include "base/base.h"
#include "base/vec.h"

struct ls_refs {
	bool wants_peeled, wants_symrefs, wants_unborn;
	/* Owned; sorted, none a prefix of another; none: all refs. */
	VEC(char *) prefixes;
};

#define AUTO_LS_REFS __attribute__((cleanup(ls_refs_clear)))

/* Reads the body of a POST to git-upload-pack under protocol 2. True: it is ls-refs and
 * nothing else, and only what is understood here is in it; `oid_digits` (40 or 64) is
 * what its object-format must mean. False: git shall answer it itself; *request is empty
 * then. Bounded by the body; never fails. */
bool ls_refs_parse(const char *body, size_t len, size_t oid_digits,
		   struct ls_refs *request);
void ls_refs_clear(struct ls_refs *request);

/* The protocol that a header Git-Protocol asks for: 0, 1 or 2, the highest that it
 * names; NULL and what is not understood: 0. */
int git_protocol_version(const char *header);

#endif
