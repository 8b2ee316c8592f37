/*
 * The files of a repository's objects at one moment, by stat(): packs, and what lies
 * beside them and in objects/info. Whoever works there for long compares them afterwards:
 * git writes new files, and never into those that are there.
 */
#ifndef GIT_OBJECT_FILES_H
#define GIT_OBJECT_FILES_H

#include <sys/stat.h>

#include "base/base.h"
#include "base/vec.h"

struct object_file {
	char *path; /* owned */
	struct stat stat;
};

typedef VEC(struct object_file) object_files;
#define AUTO_OBJECT_FILES __attribute__((cleanup(object_files_clear)))

/* Temporary files of git do not count. */
int object_files_take(int dir, object_files *files, struct err *err);
void object_files_clear(object_files *files);

/* The path of one that is not as it was, or NULL. Those that git replaced by a new pack
 * are gone after its work. Borrowed. */
const char *object_files_changed(const object_files *files, int dir, bool may_be_gone);

#endif
