/*
 * Files of objects with several links, which copies of forks share (pull/share.h): those
 * that were read and found sound, and with which stamps. A new link changes the ctime of
 * all of them, which would be taken for a change of content wherever the file is: with
 * this each is read once, and not for each copy. Kept in memory only. All threads.
 */
#ifndef GIT_SOUND_FILES_H
#define GIT_SOUND_FILES_H

#include <sys/stat.h>

#include "base/base.h"

/* Whether the file was found sound with these very stamps. */
bool sound_file_is(const struct stat *st);

/* It is sound; `st` is from before it was read. Files with one link are nobody else's,
 * and not kept. */
void sound_file_note(const struct stat *st);

/* It is not, or not known any more. */
void sound_file_forget(const struct stat *st);

/* A file with several links was read, and is not sound: each copy with it is to be looked
 * at. The second counts these calls. */
void sound_file_fail(const struct stat *st);
uint64_t sound_file_failures(void);

#endif
