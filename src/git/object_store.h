/*
 * The objects of one repository, read in this process: from packs, deltas, loose files
 * and alternates. Each is proved by its hash on the way. One thread at a time a store;
 * as many stores as there are threads.
 *
 * History is as the objects say: replacements (refs/replace) are not obeyed, as in git's
 * transfers.
 */
#ifndef GIT_OBJECT_STORE_H
#define GIT_OBJECT_STORE_H

#include "base/base.h"
#include "git/git_work.h"
#include "git/oid.h"
#include "git/repo.h"

struct object_store;
#define AUTO_OBJECT_STORE __attribute__((cleanup(object_store_clear)))

/* ERR_CONFIG: of a kind that only git can read (SHA-256, a cut history, grafts, a partial
 * clone, alternates of alternates). `repo` need not stay open. The caller closes it; not
 * for long, since it keeps files that git has removed. */
int object_store_open(const struct repo *repo, struct object_store **store,
		      struct err *err);
/* Whether it would be opened, without opening it. ERR_CONFIG as above. */
int object_store_check(const struct repo *repo, struct err *err);
void object_store_close(struct object_store *store); /* NULL: fine */
void object_store_clear(struct object_store *const *store);

/* From now on the limits of `work`, which is borrowed for as long as the store is open,
 * apply to each call below: ERR_CANCELED, ERR_LOST, ERR_TIMEOUT. Without it, none do. */
void object_store_obey(struct object_store *store, const struct git_work *work);

/* An object's content: borrowed memory that lives until the release, even beyond the
 * store's life. Not a copy. */
struct object {
	enum object_kind kind;
	const unsigned char *data;
	size_t len;
	void *handle; /* private; NULL: lent */
};
#define AUTO_OBJECT __attribute__((cleanup(object_release)))
void object_release(struct object *object); /* of zeros: fine */

/* ERR_MISSING: not found, even after the list of packs was read again. ERR_CORRUPT: it is
 * damaged. ERR_CONFIG: it, or what it is a delta on, is large, or all that was read here
 * is; git may read it. From then on the store says so of every object. */
int object_store_read(struct object_store *store, const struct oid *oid,
		      struct object *object, struct err *err);

/* Its kind and size, without reading (and proving) all of it. Errors as above. */
int object_store_look(struct object_store *store, const struct oid *oid,
		      enum object_kind *kind, uint64_t *size, struct err *err);

bool object_store_has(struct object_store *store, const struct oid *oid);

/* An object in memory. */
struct object_lent {
	struct oid oid;
	enum object_kind kind;
	const void *data; /* borrowed */
	size_t len;
};

/* Adds these, which the caller keeps until the store is closed, in front of those of the
 * repository. They are in the order of oid_compare(), and each has the content of its
 * name. */
void object_store_lend(struct object_store *store, const struct object_lent *objects,
		       size_t count);

/* The name of an object with this content. ERR_CORRUPT: forged to collide with another's
 * SHA-1. */
int object_name(enum object_kind kind, const void *data, size_t len, struct oid *oid,
		struct err *err);

#endif
