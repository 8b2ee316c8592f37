/*
 * Whether a directory's file system takes what is written: by writing.
 */
#ifndef BASE_DISK_PROOF_H
#define BASE_DISK_PROOF_H

#include "base/base.h"

/* Reserves some room in a file without a name, writes into it, waits for the disk, and
 * lets it go. Leaves nothing behind. ERR_DISK: full, read-only or broken; ERR_MISSING:
 * there is no such directory. */
int disk_prove(const char *directory, struct err *err);

#endif
