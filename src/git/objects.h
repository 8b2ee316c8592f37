/*
 * Objects: brought from another repository, looked at.
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

/* Adds what the refs and a detached HEAD name, and tidies the list. */
void oid_list_add_tips(oid_list *list, const struct ref_snapshot *snapshot);

/* Brings exactly these objects, with all they reach that is not here, by one
 * `git fetch` that changes no ref. They are complete and durable when it returns 0; if
 * they were so before, nothing is transferred. `have`, if not NULL, are objects which are
 * here with all they reach, to be told to the other side in place of our refs.
 * ERR_CONFIG: the other repository is shallow, so that it does not have all. */
int objects_fetch(const struct git_work *work, const struct repo *repo,
		  const struct git_remote *from, const oid_list *wanted,
		  const oid_list *have, struct err *err);

/* Brings these objects with all they reach, also what seems to be here already: mends a
 * repository that lost some. */
int objects_fetch_anew(const struct git_work *work, const struct repo *repo,
		       const struct git_remote *from, const oid_list *wanted,
		       struct err *err);

/* Which of these objects are in the repository; says nothing about what they reach. The
 * caller clears the list. */
int objects_present(const struct git_work *work, const struct repo *repo,
		    const oid_list *asked, oid_list *present, struct err *err);

/* Whether these objects are in the repository with all they reach, as far as its history
 * is not cut (repo.shallow_file): 1, 0, or -1. */
int objects_are_complete(const struct git_work *work, const struct repo *repo,
			 const oid_list *asked, struct err *err);

/* Looks at the object of each ref whose peel is not known, and fills it in. ERR_CORRUPT
 * names the first ref whose object is not there. Starts no process when there is
 * nothing to learn. */
int objects_peel(const struct git_work *work, const struct repo *repo,
		 struct ref_snapshot *snapshot, struct err *err);

/* Checks that the object of every ref is there. ERR_CORRUPT names the first that is
 * not. */
int objects_check_tips(const struct git_work *work, const struct repo *repo,
		       const struct ref_snapshot *snapshot, struct err *err);

/* Adds the commits without parents that can be reached from `tips`: those at which the
 * history was cut are among them. */
int objects_list_roots(const struct git_work *work, const struct repo *repo,
		       const oid_list *tips, oid_list *roots, struct err *err);

/* Whether some commit can be reached from `tips` and from none of `known`, all of which
 * are in the repository: 1 (and *example is one), 0, or -1. */
int objects_has_more(const struct git_work *work, const struct repo *repo,
		     const oid_list *tips, const oid_list *known, struct oid *example,
		     struct err *err);

/* Whether `tip` descends from `old`, both of which are in the repository: 1, 0, or -1. */
int objects_descends(const struct git_work *work, const struct repo *repo,
		     const struct oid *tip, const struct oid *old, struct err *err);

/*
 * The files of a repository's objects at one moment, by stat(): packs, and what lies
 * beside them and in objects/info. Long work compares them afterwards:
 * git writes new files, and never into existing ones.
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

/* The path of one that is not as it was, or NULL. Those that git replaced by a new pack
 * are gone after its work. Borrowed. */
const char *object_files_changed(const object_files *files, int dir, bool may_be_gone);

#endif
