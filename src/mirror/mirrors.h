/*
 * The configured mirrors and their watchers: the sections [mirror "NAME"], [mirrors
 * "NAME"] and [watcher "NAME"], constant once read; and the present mirrors, which change
 * with the lists of [mirrors]. Any thread.
 *
 * Source: seed 004 (one shared clone of each upstream, watchers with different tokens).
 */
#ifndef MIRROR_MIRRORS_H
#define MIRROR_MIRRORS_H

#include "mirror/mirror_list.h"
#include "mirror/mirror_set.h"

/* A party for which upstreams are asked, with its own credential or without one. */
struct watcher {
	char *name;                            /* owned, as all of these */
	text_list mirrors;                     /* names, or patterns */
	char *token_file;                      /* or these two: */
	char *user_name, *password_file;       /* for HTTP */
	char *ssh_key_file, *known_hosts_file; /* for ssh */
	text_list hosts; /* those to which its credential may go for a list's mirrors that
			    it names: a list says itself what their names are */
};

struct mirrors {
	mirror_pointers sections;        /* in byte order of their names; owned */
	VEC(struct mirror_list *) lists; /* in the file's order; owned */
	VEC(struct watcher) watchers;    /* in the file's order */
	struct mirror_set *set;          /* those of sections, and those of lists */
};

extern const struct setting_table mirror_settings_table, watcher_settings_table;

#define AUTO_MIRRORS __attribute__((cleanup(mirrors_clear)))

/* ERR_CONFIG names file, line and key: an invalid name; two names that are one directory
 * on some file system, or differ only in case, slashes or ".git"; a URL with a user's
 * password; a watcher with two credentials for one protocol, or without a mirror; a list
 * with an unknown watcher. Files of credentials are not read here. */
int mirrors_read(const struct conf *conf, struct mirrors *mirrors, struct err *err);
void mirrors_clear(struct mirrors *mirrors);

/* "/a//b.git/" becomes "a/b". The caller frees. */
char *mirror_usual_name(const char *text);

/* Whether some section configures mirrors, or may do so. */
bool mirrors_are_any(const struct mirrors *mirrors);

/* All mirrors, one after another in byte order of their names, also while the set
 * changes: begin with NULL; NULL is the end. */
const struct mirror *mirrors_next(const struct mirrors *mirrors,
				  const struct mirror *before);

/* The section of that name in its usual form, or NULL. */
const struct mirror *mirrors_find_section(const struct mirrors *mirrors,
					  const char *name);

/* A mirror from a list. */
struct mirror_told {
	const struct mirror_list *list;
	char *name, *url; /* owned */
};
typedef VEC(struct mirror_told) mirrors_told;
#define AUTO_MIRRORS_TOLD __attribute__((cleanup(mirrors_told_clear)))
void mirrors_told_clear(mirrors_told *told);

/* Sets the mirrors to those of the sections, and those of `told` whose directory is free:
 * sections have precedence over lists, and earlier lists over later ones. `taken` (may be
 * NULL) is called for those left out: `by` has the directory; or, if too many were
 * replaced since the start, `by` is the same mirror with its former URL, which it keeps,
 * or NULL for a new one. */
void mirrors_replace_told(const struct mirrors *mirrors, const mirrors_told *told,
			  void (*taken)(void *arg, const struct mirror_told *one,
					const struct mirror *by),
			  void *arg);

/* The mirror of that name, which is first brought into its usual form ("/a//b.git/"
 * becomes "a/b"): names from any source pass through here. NULL: not found. */
const struct mirror *mirrors_find(const struct mirrors *mirrors, const char *name);

/* The watchers of a mirror, one after another: *at begins as 0; NULL: the end. */
const struct watcher *mirrors_next_watcher(const struct mirrors *mirrors,
					   const struct mirror *mirror, size_t *at);

/* That one, if it watches the mirror; ERR_CONFIG: it does not, or does not exist. */
int mirrors_find_watcher(const struct mirrors *mirrors, const struct mirror *mirror,
			 const char *name, const struct watcher **watcher,
			 struct err *err);

/* The name of a section, [mirror] or [mirrors], that wants objects of Git LFS; NULL: not
 * found. */
const char *mirrors_find_with_lfs(const struct mirrors *mirrors);

/* Whether a node started with the one may continue with the other. */
bool mirrors_are_same(const struct mirrors *one, const struct mirrors *other);

/* Whether a ref of the upstream is mirrored. */
bool mirror_has_ref(const struct mirror *mirror, const char *ref);

#endif
