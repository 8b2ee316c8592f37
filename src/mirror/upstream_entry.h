/*
 * One repository that a list of upstreams names (mirror/upstream_list.h): read from what
 * a forge says of it, and judged. Pure functions; any thread.
 *
 * Source: GitHub "List organization repositories", GitLab "List a group's projects",
 * Gitea "List an organization's repos".
 */
#ifndef MIRROR_UPSTREAM_ENTRY_H
#define MIRROR_UPSTREAM_ENTRY_H

#include "base/json.h"
#include "base/vec.h"
#include "net/uri_text.h"

enum upstream_from {
	UPSTREAM_GITHUB,
	UPSTREAM_GITLAB,
	UPSTREAM_GITEA, /* Forgejo, too */
	UPSTREAM_DIRECTORY,
	UPSTREAM_GROKMIRROR, /* its manifest: mirror/manifest.h */
};

/* The words for them, in that order; end in NULL. */
extern const char *const upstream_from_words[];

struct upstream_entry {
	char *name;        /* "owner/name" as the forge has it; owned, as all of these */
	char *http, *ssh;  /* as the forge says it is cloned; NULL: not told */
	char *branch;      /* the default one; NULL: not told */
	char *fingerprint; /* of its refs, grokmirror's; NULL: not told */
	int64_t size;      /* bytes; -1: not told */
	int64_t pushed_at; /* wall ms of the last push, or change; 0: not told */
	bool is_fork, is_archived;
	bool is_empty; /* has no refs yet, as far as it is told */
};

/* ERR_CORRUPT: what is there is no repository, or has no name. */
int upstream_entry_read(enum upstream_from from, const json_t *object,
			struct upstream_entry *entry, struct err *err);
struct upstream_entry upstream_entry_copy(const struct upstream_entry *entry);
void upstream_entry_clear(struct upstream_entry *entry);

/* The name that its mirror gets: without ".git" at its end. ERR_CONFIG: it can have
 * none. The caller frees. */
int upstream_entry_make_name(const struct upstream_entry *entry, char **name,
			     struct err *err);

/* The URL that git is given. A stranger chose it, so it is https or ssh, or plain http if
 * the API itself is asked by that on a loopback address; and its host is the API's, or
 * "x" where the API is "api.x". ERR_CONFIG: no such URL is told. Borrowed. */
int upstream_entry_choose_url(const struct upstream_entry *entry,
			      const struct uri_text *api, const char **url,
			      struct err *err);

#endif
