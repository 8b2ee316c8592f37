/*
 * A stat fingerprint: a digest of what stat() says about every file and directory that
 * decides a repository's refs. Equal fingerprints mean that nothing was changed in
 * between, at the cost of some microseconds and without reading a file; unequal ones
 * mean only: look.
 *
 * Two changes within one tick of the file system's clock leave equal stamps. So a
 * fingerprint is proof only if its newest stamp was already old when it was taken
 * (fingerprint_is_settled).
 *
 * Hosts that share a file system take equal ones, so it does not include a device number:
 * the caller must know which directory it belongs to.
 */
#ifndef GIT_FINGERPRINT_H
#define GIT_FINGERPRINT_H

#include <sys/stat.h>

#include "base/base.h"

#define FINGERPRINT_TEXT_SIZE 65

enum fingerprint_scope {
	FINGERPRINT_REFS, /* HEAD, config, description, packed-refs, everything below
			     refs/ */
	/* These, the list of packs, and what diverts git from a repository's content
	 * (repo_diversions) */
	FINGERPRINT_COPY,
	/* Each file among the packs, and of git's data derived from them: also shows
	 * writes in place. Temporary files of git do not count. ctime is not in the
	 * digest, since a clone over the path changes it: see changed_ns. */
	FINGERPRINT_OBJECTS,
	/* The refs as above, diversions and objects, likewise without ctime. */
	FINGERPRINT_FILES,
};

struct fingerprint {
	unsigned char digest[32];
	int64_t newest_ns; /* the latest of all stamps, wall clock */
	/* The latest ctime of a plain file. It cannot be set back: a file written in
	 * place or renamed since has a later one. */
	int64_t changed_ns;
	int64_t taken_ns; /* when it was taken, by the local clock */
	bool is_shared;   /* on a file system that other hosts can write */
	bool is_coarse;   /* on one that stamps whole seconds only */
	bool has_links;   /* symbolic links among them; their targets are not examined */
	bool is_diverted; /* some of repo_diversions are there; not with FINGERPRINT_REFS
			   */
	bool has_others;  /* neither links nor plain files nor directories, such as pipes
			   */
};

/* Takes that of the repository whose directory is open. ERR_MISSING: it has no directory
 * refs. */
int fingerprint_take(int dir, enum fingerprint_scope scope,
		     struct fingerprint *fingerprint, struct err *err);

/* Those of FINGERPRINT_FILES, FINGERPRINT_OBJECTS and FINGERPRINT_COPY, for one look at
 * refs and objects. */
int fingerprint_take_files(int dir, struct fingerprint *files,
			   struct fingerprint *objects, struct fingerprint *copy,
			   struct err *err);

/* Whether a later equal fingerprint proves that nothing changed since this one. */
bool fingerprint_is_settled(const struct fingerprint *fingerprint);

/* The same of one file in the directory `dir`, whose content is about to be read: whether
 * the same stamps, seen later, prove the same content. */
bool fingerprint_is_old(int dir, const struct stat *st);

bool fingerprint_equal(const struct fingerprint *a, const struct fingerprint *b);
void fingerprint_format(const struct fingerprint *fingerprint,
			char text[FINGERPRINT_TEXT_SIZE]);

#endif
