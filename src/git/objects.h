/*
 * Objects: fetched from another repository, and examined.
 */
#ifndef GIT_OBJECTS_H
#define GIT_OBJECTS_H

#include <sys/stat.h>

#include "base/base.h"
#include "base/vec.h"
#include "git/git_child.h"
#include "git/oid.h"
#include "git/refs.h"
#include "git/repo.h"

/* Adds the objects that the refs and a detached HEAD name, and tidies the list. */
void oid_list_add_tips(oid_list *list, const struct ref_snapshot *snapshot);

/* Fetches exactly these objects, with all they reach that is not here, by one `git fetch`
 * that changes no ref. They are complete and durable when it returns 0; if they already
 * were, nothing is transferred. `have`, if not NULL, are objects present here with all
 * they reach, to be named to the other side in place of our refs. ERR_CONFIG: the other
 * repository is shallow, so that it is incomplete. */
int objects_fetch(const struct git_work *work, const struct repo *repo,
		  const struct git_remote *from, const oid_list *wanted,
		  const oid_list *have, struct err *err);

/* Fetches these objects with all they reach, even those that seem to be here already:
 * repairs a repository that lost some. */
int objects_fetch_anew(const struct git_work *work, const struct repo *repo,
		       const struct git_remote *from, const oid_list *wanted,
		       struct err *err);

/* Which of these objects are in the repository, regardless of what they reach. The caller
 * clears the list. */
int objects_present(const struct git_work *work, const struct repo *repo,
		    const oid_list *asked, oid_list *present, struct err *err);

/* Whether these objects are in the repository with all they reach, as far as its history
 * is not cut (repo.shallow_file): 1, 0, or -1, also if git was killed or this machine
 * lacks what it needs. */
int objects_are_complete(const struct git_work *work, const struct repo *repo,
			 const oid_list *asked, struct err *err);

/* Examines the object of each ref whose peel is unknown, and fills it in. ERR_CORRUPT
 * names the first ref whose object is missing. Starts no process when all are known. */
int objects_peel(const struct git_work *work, const struct repo *repo,
		 struct ref_snapshot *snapshot, struct err *err);

/* Checks that the object of every ref exists. ERR_CORRUPT names the first missing one. */
int objects_check_tips(const struct git_work *work, const struct repo *repo,
		       const struct ref_snapshot *snapshot, struct err *err);

/* Adds the commits without parents that can be reached from `tips`: including those at
 * which the history was cut. */
int objects_list_roots(const struct git_work *work, const struct repo *repo,
		       const oid_list *tips, oid_list *roots, struct err *err);

/* Whether some commit can be reached from `tips` but not from `known`, all of which are
 * in the repository: 1 (and *example is one), 0, or -1. */
int objects_has_more(const struct git_work *work, const struct repo *repo,
		     const oid_list *tips, const oid_list *known, struct oid *example,
		     struct err *err);

/* Whether `tip` descends from `old`, both of which are in the repository: 1, 0, or -1. */
int objects_descends(const struct git_work *work, const struct repo *repo,
		     const struct oid *tip, const struct oid *old, struct err *err);

/*
 * The files of a repository's objects at one moment, by stat(): packs, the files beside
 * them and in objects/info. Long work compares them afterwards: git writes new files,
 * never into existing ones.
 */

struct object_file {
	char *path; /* owned */
	struct stat stat;
};

typedef VEC(struct object_file) object_files;
#define AUTO_OBJECT_FILES __attribute__((cleanup(object_files_clear)))

/* Temporary files of git do not count. */
int object_files_take(int dir, object_files *files, struct err *err);
void object_files_clear(object_files *files);

/* The path of a changed one, or NULL. Files that git replaced by a new pack are gone
 * after its work. Borrowed. */
const char *object_files_changed(const object_files *files, int dir, bool may_be_gone);

#endif
