/*
 * One repository read at one moment: refs, HEAD, description and
 * the settings for readers as they stood together.
 * Reading takes several system calls, and pushes go on meanwhile; a picture counts only
 * if the stat fingerprint after it equals the one before.
 */
#ifndef GIT_REF_READING_H
#define GIT_REF_READING_H

#include "base/base.h"
#include "git/fingerprint.h"
#include "git/refs.h"

struct ref_reading {
	struct ref_snapshot refs;
	size_t oid_len;
	struct fingerprint print; /* of that moment */
	char *description;        /* the file of that name; owned, NULL: none */
	char *settings;           /* git/read_settings.h; owned; "": none */
	bool has_includes; /* ... some of which other files say: a fingerprint that is the
			      same does not prove that they are */
	bool has_alternates; /* some of its objects live in another repository */
};

#define AUTO_READING __attribute__((cleanup(ref_reading_clear)))

/* Reads the repository at path, relative to the directory dir. A picture in which some
 * refs are older than others is never returned. ERR_CONFLICT: it changed faster than it
 * could be read; ERR_CONFIG: a repository that cannot be copied whole (shallow, partial,
 * grafts), or that cannot be read; ERR_CORRUPT; ERR_MISSING: nothing there. */
int ref_reading_take(int dir, const char *path, struct ref_reading *reading,
		     struct err *err);

/* The same for who needs the refs only: shallow repositories and grafts will do. */
int ref_reading_take_refs(int dir, const char *path, struct ref_reading *reading,
			  struct err *err);
void ref_reading_clear(struct ref_reading *reading);

#endif
