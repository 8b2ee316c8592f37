/*
 * The repository's checksum: proof between honest sites that two copies have the same
 * refs, the same symbolic refs, the same HEAD, and a history that is cut at the same
 * commits or nowhere, without sending the refs. It does not authenticate, and it says
 * nothing about objects: those are proved when they arrive and by connectivity checks.
 *
 * Version 1: the sum, modulo 2^256, of the SHA-256 of each line
 *	"refrelay-1 " <oid> SP <name> LF		a ref
 *	"refrelay-1 ref: " <target> SP <name> LF	a symbolic ref
 *	"refrelay-1 " <oid> " shallow" LF		a commit without its parents
 * HEAD is a line like any other, so that an empty repository, a moved HEAD and an unborn
 * one all have distinct values. A sum does not depend on order, so one changed ref costs
 * two digests. Text form: "1-" and 64 hexadecimal digits, always.
 *
 * Also the checksums of two peers, byte for byte, for comparison with them.
 */
#ifndef GIT_CHECKSUM_H
#define GIT_CHECKSUM_H

#include "base/base.h"
#include "git/refs.h"

#define CHECKSUM_TEXT_SIZE 67

struct checksum {
	unsigned char sum[32]; /* little-endian */
};

void checksum_of(const struct ref_snapshot *snapshot, struct checksum *sum);

/* Regardless of cuts in the history. */
void checksum_of_refs(const struct ref_snapshot *snapshot, struct checksum *sum);

/* The sum after one line was added or removed: of a ref, or of "HEAD". target NULL: not
 * symbolic. */
void checksum_put(struct checksum *sum, const char *name, const char *target,
		  const struct oid *oid);
void checksum_take(struct checksum *sum, const char *name, const char *target,
		   const struct oid *oid);

/* The sum of the refs after these changes, HEAD's included; the share of the cuts
 * stays. */
void checksum_apply(struct checksum *sum, const struct ref_snapshot *before,
		    const struct ref_snapshot *after, const struct ref_diff *diff);

bool checksum_equal(const struct checksum *a, const struct checksum *b);
void checksum_format(const struct checksum *sum, char text[CHECKSUM_TEXT_SIZE]);

/* False if text is not version 1. */
bool checksum_parse(const char *text, struct checksum *sum);

/* Gitaly's: XOR of the SHA-1 of those lines of `git show-ref --head` that Gitaly uses, in
 * hexadecimal without leading zero bytes; 40 zeros without any. text has room for 41
 * bytes. */
void checksum_gitaly(const struct ref_snapshot *snapshot, char text[41]);

/* grokmirror's fingerprint: SHA-1 over the output of `git show-ref`. */
void checksum_grokmirror(const struct ref_snapshot *snapshot, char text[41]);

#endif
