/*
 * A manifest of grokmirror: all repositories of a tree in one file, with fingerprints
 * that show changes of their refs. Compatible with grokmirror's own programs, for reading
 * and writing. Pure functions; any thread.
 *
 * Source: grokmirror 2.0, grok-manifest and grok-pull; public-inbox-fetch(1) keeps one in
 * this form, too.
 */
#ifndef MIRROR_MANIFEST_H
#define MIRROR_MANIFEST_H

#include "base/base.h"
#include "base/str.h"
#include "base/vec.h"
#include "git/refs.h"
#include "mirror/upstream_entry.h"

#define MANIFEST_FINGERPRINT_SIZE 41

struct manifest_entry {
	char *path; /* below the tree's root, without a leading slash: "a/b.git"; owned,
		       as all of these; NULL: not given */
	char fingerprint[MANIFEST_FINGERPRINT_SIZE]; /* "": not given, or it has no
							refs */
	int64_t modified;                            /* seconds since 1970; 0: not
							given */
	char *head; /* content of the file HEAD: "ref: refs/heads/main" */
	char *description;
};

struct manifest {
	VEC(struct manifest_entry) entries; /* in byte order of their paths, each once */
	struct upstream_findings findings;  /* what is left out */
};

#define AUTO_MANIFEST __attribute__((cleanup(manifest_clear)))

/* Reads it, gzip or plain, as detected from the bytes. Members that are null, missing or
 * of another type count as not given; a leading slash of a path is ignored. A path that
 * is not a valid repository name is a finding. ERR_CORRUPT: not a manifest, truncated, or
 * too large when inflated. */
int manifest_read(const void *bytes, size_t len, struct manifest *manifest,
		  struct err *err);
void manifest_clear(struct manifest *manifest);
void manifest_entry_clear(struct manifest_entry *entry);

/* Makes the entry of the repository of this name. The caller clears it. */
void manifest_describe(const char *name, const struct ref_reading *reading,
		       int64_t modified, struct manifest_entry *entry);

/* A manifest being written: entries in the order in which they are added, so that the
 * same ones always make the same bytes. Zero-initialised but for the text. */
struct manifest_writer {
	struct str text;
	bool has_entries;
};

#define MANIFEST_WRITER_INIT                                                             \
	{                                                                                \
		.text = STR_INIT                                                         \
	}

/* Leaves out, like grokmirror, an entry without a fingerprint, and a path that is not
 * UTF-8, which JSON cannot express. In other texts invalid bytes become U+FFFD. */
void manifest_add(struct manifest_writer *writer, const struct manifest_entry *entry);

/* manifest_end() completes the JSON; manifest_pack() appends it as gzip. */
void manifest_end(struct manifest_writer *writer);
void manifest_pack(const struct str *json, struct str *out);

#endif
