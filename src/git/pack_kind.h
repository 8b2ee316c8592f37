/*
 * What kind of object stands in a repository's own packs, looked up in this process, so
 * that a change of few refs needs no git child for it.
 *
 * Source: gitformat-pack(5); indexes of version 2.
 */
#ifndef GIT_PACK_KIND_H
#define GIT_PACK_KIND_H

#include "base/base.h"
#include "git/oid.h"

enum pack_kind {
	PACK_NONE, /* in no pack, or it cannot be told: ask git */
	PACK_COMMIT,
	PACK_TREE,
	PACK_BLOB,
	PACK_TAG,
};

/* `dir` is the repository's directory. Alternates are not looked at. */
enum pack_kind pack_kind_of(int dir, const struct oid *oid);

#endif
