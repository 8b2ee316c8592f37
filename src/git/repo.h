/*
 * One bare repository on disk: opened, with its format checked, or made. Plain data; a
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
	bool is_partial;     /* a partial clone (it has a promisor remote) */
	bool has_work_tree;  /* its config names one */
	bool rewrites_urls;  /* its config has what may send a fetch elsewhere:
				url.*.insteadOf, fetch.bundleURI, a remote that a URL or
				path names, or an include */
	bool has_includes;   /* its config includes other files, or another adds to it */
	bool hides_head;     /* its config hides HEAD from fetches */
	bool is_closed;      /* its own config, without includes, has http.uploadpack =
				false: it is not read over HTTP */
	bool has_alternates; /* some of its objects live in another repository */
	/* A file that git reads in place of its `shallow`, below its directory; borrowed,
	 * NULL: `shallow`. For the functions of git/objects.h. */
	const char *shallow_file;
};

#define REPO_INIT                                                                        \
	{                                                                                \
		.fd = -1                                                                 \
	}
#define AUTO_REPO __attribute__((cleanup(repo_close)))

/* Opens the repository at path, relative to the directory dir. ERR_MISSING: nothing
 * there; ERR_CORRUPT: not a repository, or a damaged one; ERR_CONFIG: no permission to
 * read it, or (REASON_FORMAT) an unsupported format: reftable, an unknown extension, by
 * name. */
int repo_open(int dir, const char *path, struct repo *repo, struct err *err);
void repo_close(struct repo *repo);

/* Nested directories below refs; each takes a descriptor while it is read. */
#define REFS_DEPTH 64

/* Before git works there: ERR_CONFIG if one of the files that it would open is not a
 * plain file (a pipe would block it for ever), if packed-refs is a link, if links below
 * refs lead in circles, or if there are grafts, by name. Files that git does not open may
 * be anything. */
int repo_check_files(const struct repo *repo, struct err *err);

/* Its two parts: all but what is below refs, and that. Without links and special files
 * below refs the second has nothing to find. */
int repo_check_files_beside_refs(const struct repo *repo, struct err *err);
int repo_check_refs(const struct repo *repo, struct err *err);

/* Files in a repository's directory by which git gives readers another history, or the
 * refs and objects of another repository: where history ends (shallow, info/grafts), what
 * it is a part of (commondir, gitdir), what it borrows (objects/info/alternates), and
 * more configuration. Paths; NULL-terminated. */
extern const char *const repo_diversions[];

/* Whether that one exists and is unwanted: in a repository whose history refrelay has
 * cut, shallow is wanted. */
bool repo_is_diverted_by(int dir, const char *name);

/* ERR_CORRUPT if the repository whose directory is open has any. For copies, which never
 * need one. */
int repo_check_diversions(int dir, struct err *err);

/* What a directory looks like. Cheap: some stat() calls. */
enum repo_look {
	REPO_NOTHING, /* not a repository: look below */
	REPO_BARE,
	REPO_DAMAGED, /* two of HEAD, objects/ and refs/ */
	REPO_UNKNOWN, /* rights, or the disk, do not let one look; err says which */
};
enum repo_look repo_look_at(int dir); /* never REPO_UNKNOWN: that is REPO_NOTHING */
enum repo_look repo_look_into(int dir, struct err *err);

/* 1: a repository, or a damaged one; 0: nothing; -1: unknown. */
int repo_stands_at(int dir, struct err *err);

/* Makes an empty bare repository at path, which must not exist: directories, config and a
 * HEAD that names refs/heads/main. Not synced to disk. */
int repo_make(int dir, const char *path, size_t oid_len, struct err *err);

#endif
