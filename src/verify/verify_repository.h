/*
 * Verification of a repository's copy: what the copy's own disk holds, read anew and
 * summed up, against what it should be.
 */
#ifndef VERIFY_VERIFY_REPOSITORY_H
#define VERIFY_VERIFY_REPOSITORY_H

#include "base/base.h"
#include "git/checksum.h"
#include "git/fingerprint.h"
#include "git/refs.h"
#include "git/repo.h"

/* Reads the copy's refs and compares. *sum is what was found, *print what the disk
 * looked like right before it was read, so that an equal fingerprint later stands for
 * this result. ERR_CORRUPT: different; the text names the first ref that is. */
int verify_repository(const struct repo *copy, const struct ref_snapshot *expected,
		      struct checksum *sum, struct fingerprint *print, struct err *err);

#endif
