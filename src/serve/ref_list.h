/*
 * The refs that a repository shows to clients, as `git upload-pack` itself wrote them for
 * protocol 0: parsed once, then any ls-refs request of protocol 2 is answered from it
 * without a process. What is hidden was never in it. Not changed once made: any thread.
 *
 * Source: gitprotocol-pack(5), gitprotocol-v2(5), git 2.39's ls-refs.c.
 */
#ifndef SERVE_REF_LIST_H
#define SERVE_REF_LIST_H

#include "base/base.h"
#include "base/str.h"
#include "base/vec.h"
#include "git/refs.h"

/*
 * The command ls-refs of protocol 2, as a client sends it. Plain data.
 *
 * Source: gitprotocol-v2(5).
 */

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

struct ref_list;

/* Symbolic refs, which protocol 0 does not tell: {name, target}, in byte order of their
 * names, "HEAD" included; plain data. */
struct ref_symbolic {
	const char *name, *target;
};

/* Parses an advertisement of protocol 0 without its service line: pkt-lines up to and
 * with the flush. `bytes` is borrowed until ref_list_free; what `symbolic` points to is
 * copied. ERR_CORRUPT: it is none. */
struct ref_list *ref_list_parse(const char *bytes, size_t len,
				const struct ref_symbolic *symbolic, size_t count,
				struct err *err);
void ref_list_free(struct ref_list *list);

size_t ref_list_count(const struct ref_list *list);

/* Bytes of memory it takes. */
size_t ref_list_size(const struct ref_list *list);

/* Appends the answer to the request: pkt-lines up to and with the flush, as git would
 * write them. Cost: what is written, and two searches for each prefix. */
void ref_list_answer(const struct ref_list *list, const struct ls_refs *request,
		     struct str *out);

/* How far an answer has come; { 0 } at its beginning. */
struct ref_cursor {
	size_t at, end; /* of the refs that are to be written now */
	size_t prefix;  /* the one after these */
	bool is_begun;
};

/* The same in parts: appends about `most` bytes, which are more than none, a ref or two
 * more at most. False: that was the last of it. */
bool ref_list_part(const struct ref_list *list, const struct ls_refs *request,
		   struct ref_cursor *cursor, size_t most, struct str *out);

#endif
