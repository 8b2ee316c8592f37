/*
 * One bare repository on disk: opened, its format understood, or made. Plain data; a
 * struct repo is for one thread at a time.
 */
#ifndef GIT_REPO_H
#define GIT_REPO_H

#include "base/base.h"

struct repo {
	char *path;          /* owned; for messages and children */
	int fd;              /* the directory; -1: not open */
	size_t oid_len;      /* 20: SHA-1, 32: SHA-256 */
	bool is_shallow;     /* its history is cut short */
	bool is_cut;         /* ... by refrelay (git/cuts.h) */
	bool is_partial;     /* it lacks objects on purpose (a promisor remote) */
	bool has_work_tree;  /* its config names one */
	bool rewrites_urls;  /* its config has url.*.insteadOf, or includes others */
	bool has_includes;   /* its config includes other files, or one adds to it */
	bool hides_head;     /* its config keeps HEAD from those who fetch */
	bool is_closed;      /* its own config, without includes, has http.uploadpack =
				false: it is not read over HTTP */
	bool has_alternates; /* some of its objects live in another repository */
	/* What git reads in place of its `shallow`, below its directory; borrowed, NULL:
	 * that itself. For the functions of git/objects.h. */
	const char *shallow_file;
};

#define REPO_INIT                                                                        \
	{                                                                                \
		.fd = -1                                                                 \
	}
#define AUTO_REPO __attribute__((cleanup(repo_close)))

/* Opens the repository at path, relative to the directory dir. ERR_MISSING: nothing
 * there; ERR_CORRUPT: no repository, or a damaged one; ERR_CONFIG: no right to read it,
 * or (REASON_FORMAT) a format that is not supported: reftable, an unknown extension, by
 * name. */
int repo_open(int dir, const char *path, struct repo *repo, struct err *err);
void repo_close(struct repo *repo);

/* Directories below refs in each other; each takes a descriptor while it is looked into.
 */
#define REFS_DEPTH 64

/* Before git works there: ERR_CONFIG if one of the files that it would open is no plain
 * file (a pipe would hold it for ever), if packed-refs is a link, if links below refs
 * lead in circles, or if there are grafts, by name. What git does not open may be
 * anything. */
int repo_check_files(const struct repo *repo, struct err *err);

/* What git obeys in a repository's directory so that readers get another history, or the
 * refs and objects of another repository: where history ends (shallow, info/grafts), what
 * it is a part of (commondir, gitdir), what it borrows (objects/info/alternates), and
 * more configuration. Paths; NULL-terminated. */
extern const char *const repo_diversions[];

/* Whether that one is there, and stands for what nobody wants: of a repository whose
 * history refrelay has cut, shallow is a part. */
bool repo_is_diverted_by(int dir, const char *name);

/* That the repository whose directory is open has none: ERR_CORRUPT. For copies, which
 * never need one. */
int repo_check_diversions(int dir, struct err *err);

/* What a directory looks like. Cheap: some stat() calls. */
enum repo_look {
	REPO_NOTHING, /* no repository: look below */
	REPO_BARE,
	REPO_DAMAGED, /* two of HEAD, objects/ and refs/ */
};
enum repo_look repo_look_at(int dir);

/* Makes an empty bare repository at path, which must not exist: directories, config and
 * a HEAD that names refs/heads/main. Nothing is synced to disk. */
int repo_make(int dir, const char *path, size_t oid_len, struct err *err);

#endif
