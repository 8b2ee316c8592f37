/*
 * What is mirrored, and for whom: the sections [mirror "NAME"] and [watcher "NAME"].
 * Plain data, which does not change once it was read.
 *
 * Source: seed 004 (one shared clone of each upstream, watchers with different tokens).
 */
#ifndef MIRROR_MIRRORS_H
#define MIRROR_MIRRORS_H

#include "base/setting.h"
#include "base/vec.h"
#include "net/uri_text.h"

/* The upstream of one repository of this site. */
struct mirror {
	char *name;                    /* of the repository; owned, as all of these */
	char *url;                     /* as git is given it */
	struct uri_text uri;           /* the same, taken apart */
	char *webhook_secret_file;     /* NULL: webhooks are refused */
	char *then, *then_secret_file; /* who is told of changes; NULL: nobody */
	text_list refs; /* patterns of those that are mirrored; empty: all */
	text_list exclude_refs;
	int64_t interval_ms;
};

/* Somebody for whom upstreams are asked, with a credential of his own or none. */
struct watcher {
	char *name;                            /* owned, as all of these */
	text_list mirrors;                     /* names, or patterns */
	char *token_file;                      /* or these two: */
	char *user_name, *password_file;       /* for HTTP */
	char *ssh_key_file, *known_hosts_file; /* for ssh */
};

struct mirrors {
	VEC(struct mirror) items;     /* in byte order of their names */
	VEC(struct watcher) watchers; /* in the file's order */
};

extern const struct setting_table mirror_settings_table, watcher_settings_table;

#define AUTO_MIRRORS __attribute__((cleanup(mirrors_clear)))

/* ERR_CONFIG names file, line and key: a name that none can have; two that are one
 * directory on some file system, or differ only in case, slashes or ".git"; a URL with a
 * user's password; a watcher with two credentials for one way, or of no mirror. Files of
 * credentials are not read here. */
int mirrors_read(const struct conf *conf, struct mirrors *mirrors, struct err *err);
void mirrors_clear(struct mirrors *mirrors);

/* "/a//b.git/" is "a/b". The caller frees. */
char *mirror_usual_name(const char *text);

/* The mirror of that name, which is put in its usual form first ("/a//b.git/" is "a/b"):
 * wherever a name comes from, it passes here. NULL: there is none. */
const struct mirror *mirrors_find(const struct mirrors *mirrors, const char *name);

/* The watchers of a mirror, one after another: *at begins as 0; NULL: no more. */
const struct watcher *mirrors_next_watcher(const struct mirrors *mirrors,
					   const struct mirror *mirror, size_t *at);

/* That one, if it watches the mirror; ERR_CONFIG: it does not, or is none. */
int mirrors_find_watcher(const struct mirrors *mirrors, const struct mirror *mirror,
			 const char *name, const struct watcher **watcher,
			 struct err *err);

/* Whether a node may go on with the one where it began with the other. */
bool mirrors_are_same(const struct mirrors *one, const struct mirrors *other);

/* Whether a ref of the upstream is mirrored. */
bool mirror_has_ref(const struct mirror *mirror, const char *ref);

#endif
