/*
 * A manifest of grokmirror: all repositories of a tree with what shows that their refs
 * changed, in one file. Read as its own programs write it, and written as they read it.
 * Pure functions; any thread.
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

#define MANIFEST_FINGERPRINT_SIZE 41
#define MANIFEST_FINDINGS_MAX 1000 /* of more only the number is told */

struct manifest_entry {
	char *path; /* below the tree's root, without a slash before it: "a/b.git"; owned,
		     * as all of these; NULL: not told */
	char fingerprint[MANIFEST_FINGERPRINT_SIZE]; /* "": not told, or it has no refs */
	int64_t modified;                            /* seconds since 1970; 0: not told */
	char *head; /* what the file HEAD says: "ref: refs/heads/main" */
	char *owner, *description;
	char *reference;    /* the path of the repository that it borrows objects from */
	char *forkgroup;    /* the name of their common store of objects */
	text_list symlinks; /* other paths that lead there */
};

struct manifest_finding {
	char *path;     /* as it stood there; owned */
	struct err err; /* why it was left out; without the path */
};

struct manifest {
	VEC(struct manifest_entry) entries; /* in byte order of their paths, each once */
	VEC(struct manifest_finding) findings;
	size_t left_out; /* as many findings there were */
};

#define AUTO_MANIFEST __attribute__((cleanup(manifest_clear)))

/* Reads it, gzip or plain: the bytes say which. Members that are null, missing or of
 * another type are not told; paths with or without a slash before them are the same. A
 * path that can be no repository's name is a finding. ERR_CORRUPT: it is none, was cut,
 * or is too large when inflated. */
int manifest_read(const void *bytes, size_t len, struct manifest *manifest,
		  struct err *err);
void manifest_clear(struct manifest *manifest);
void manifest_entry_clear(struct manifest_entry *entry);

/* The entry of that path, with or without a slash before it; or NULL. */
const struct manifest_entry *manifest_find(const struct manifest *manifest,
					   const char *path);

/* What is to be said of the repository of this name. The caller clears it. */
void manifest_describe(const char *name, const struct ref_reading *reading,
		       int64_t modified, struct manifest_entry *entry);

/* A manifest as it is written: entries in the order in which they come, so that the same
 * ones always make the same bytes. Zero-initialised but for the text. */
struct manifest_writer {
	struct str text;
	bool has_entries;
};

#define MANIFEST_WRITER_INIT                                                             \
	{                                                                                \
		.text = STR_INIT                                                         \
	}

/* Left out, as grokmirror does: without a fingerprint; and what JSON has no word for, a
 * path that is not UTF-8. In other texts such bytes become U+FFFD. */
void manifest_add(struct manifest_writer *writer, const struct manifest_entry *entry);

/* The JSON is whole then; and appends it as gzip. */
void manifest_end(struct manifest_writer *writer);
void manifest_pack(const struct str *json, struct str *out);

#endif
