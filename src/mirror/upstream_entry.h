/*
 * One repository that a list of upstreams names (mirror/upstream_list.h): read from a
 * forge's description, and checked. Pure functions; any thread.
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

/* Their words, in that order; ends with NULL. */
extern const char *const upstream_from_words[];

struct upstream_entry {
	char *name;        /* "owner/name" as in the forge; owned, as all of these */
	char *http, *ssh;  /* clone URLs given by the forge; NULL: not given */
	char *branch;      /* the default one; NULL: not given */
	char *fingerprint; /* of its refs, grokmirror's; NULL: not given */
	int64_t size;      /* bytes; -1: not given */
	int64_t pushed_at; /* wall ms of the last push, or change; 0: not given */
	bool is_fork, is_archived;
	bool is_empty; /* has no refs yet, as far as is reported */
};

/* ERR_CORRUPT: not a repository, or without a name. */
int upstream_entry_read(enum upstream_from from, const json_t *object,
			struct upstream_entry *entry, struct err *err);
struct upstream_entry upstream_entry_copy(const struct upstream_entry *entry);
void upstream_entry_clear(struct upstream_entry *entry);

/* The name that its mirror gets: without ".git" at its end. ERR_CONFIG: the name is not
 * usable. The caller frees. */
int upstream_entry_make_name(const struct upstream_entry *entry, char **name,
			     struct err *err);

/* The URL for git. It is untrusted, so it must be https or ssh, or plain http if the API
 * itself is used by http on a loopback address; and its host must be the API's, or "x" if
 * the API is "api.x". ERR_CONFIG: the forge does not give such a URL. Borrowed. */
int upstream_entry_choose_url(const struct upstream_entry *entry,
			      const struct uri_text *api, const char **url,
			      struct err *err);

/* Whether upstreams at this host are those of the API's: the same, or "x" of "api.x". */
bool upstream_entry_is_host(const char *host, const char *api);

#define UPSTREAM_FINDINGS_MAX 1000 /* further ones are only counted */

/* A repository that could be a mirror but is not: to be shown to a person. */
struct upstream_finding {
	char *name;     /* as in the forge, or its path in a manifest; owned */
	struct err err; /* without the name */
};

struct upstream_findings {
	VEC(struct upstream_finding) items;
	size_t left_out; /* the total number */
};

void upstream_findings_add(struct upstream_findings *findings, const char *name,
			   const struct err *err);
void upstream_findings_add_all(struct upstream_findings *findings,
			       const struct upstream_findings *more);
void upstream_findings_clear(struct upstream_findings *findings);

#endif
