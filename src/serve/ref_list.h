/*
 * The refs that a repository shows to clients, as `git upload-pack` itself wrote them for
 * protocol 0: parsed once, then any ls-refs request of protocol 2 is answered from it
 * without a process. Hidden refs are not in it. Immutable: any thread.
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
	/* Owned; sorted; no prefix of another one; empty: all refs. */
	VEC(char *) prefixes;
};

#define AUTO_LS_REFS __attribute__((cleanup(ls_refs_clear)))

/* Reads the body of a POST to git-upload-pack under protocol 2. True: it is only ls-refs,
 * and completely understood here; `oid_digits` (40 or 64) must match its object-format.
 * False: git must answer it; *request is empty then. Bounded by the body; never fails. */
bool ls_refs_parse(const char *body, size_t len, size_t oid_digits,
		   struct ls_refs *request);
void ls_refs_clear(struct ls_refs *request);

/* The protocol that a header Git-Protocol asks for: 0, 1 or 2, the highest that it names;
 * NULL or not understood: 0. */
int git_protocol_version(const char *header);

struct ref_list;

/* Symbolic refs, which protocol 0 does not report: {name, target}, in byte order of their
 * names, "HEAD" included; plain data. */
struct ref_symbolic {
	const char *name, *target;
};

/* Parses an advertisement of protocol 0 without its service line: pkt-lines including the
 * flush. `bytes` is borrowed until ref_list_free(); the entries of `symbolic` are copied.
 * ERR_CORRUPT: not an advertisement. */
struct ref_list *ref_list_parse(const char *bytes, size_t len,
				const struct ref_symbolic *symbolic, size_t count,
				struct err *err);
void ref_list_free(struct ref_list *list);

size_t ref_list_count(const struct ref_list *list);

/* Bytes of memory it takes. */
size_t ref_list_size(const struct ref_list *list);

/* Appends the answer to the request: pkt-lines including the flush, as git would write
 * them. Cost: proportional to the output, and two searches for each prefix. */
void ref_list_answer(const struct ref_list *list, const struct ls_refs *request,
		     struct str *out);

/* The progress of an answer; { 0 } at its beginning. */
struct ref_cursor {
	size_t at, end; /* of the refs to write now */
	size_t prefix;  /* the one after these */
	bool is_begun;
};

/* The same in parts: appends about `most` bytes, at least one and at most a ref or two
 * more. False: that was the last part. */
bool ref_list_part(const struct ref_list *list, const struct ls_refs *request,
		   struct ref_cursor *cursor, size_t most, struct str *out);

#endif
