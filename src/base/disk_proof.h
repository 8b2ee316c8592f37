/*
 * Tests by writing whether a directory's file system accepts writes.
 */
#ifndef BASE_DISK_PROOF_H
#define BASE_DISK_PROOF_H

#include "base/base.h"

/* Reserves some room in a file without a name, writes into it, waits for the disk, and
 * releases it. Leaves no traces. ERR_DISK: full, read-only or broken; ERR_MISSING: the
 * directory does not exist. */
int disk_prove(const char *directory, struct err *err);

#endif
