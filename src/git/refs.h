/*
 * A ref snapshot: every ref of one repository at one moment, where HEAD points, and where
 * refrelay has cut the history (git/cuts.h).
 * Read straight from the files backend (loose files and packed-refs), so that reading
 * starts no process and works for any hash. A snapshot is plain data; it is not safe to
 * change it from two threads.
 *
 * Source: gitrepository-layout(5), git-pack-refs(1), git-check-ref-format(1).
 */
#ifndef GIT_REFS_H
#define GIT_REFS_H

#include "base/base.h"
#include "base/str.h"
#include "base/vec.h"
#include "git/fingerprint.h"
#include "git/oid.h"

/* The knowledge about the object behind annotated tags. */
enum ref_peel {
	REF_PEEL_UNKNOWN,
	REF_PEEL_SELF, /* not a tag */
	REF_PEEL_TAG,  /* a tag; ref.peeled is what it finally names */
};

struct ref {
	const char *name;   /* "refs/heads/main"; owned by the snapshot */
	const char *target; /* of a symbolic ref, else NULL; owned by the snapshot */
	struct oid oid;     /* len 0 for a symbolic ref */
	struct oid peeled;
	enum ref_peel peel;
	bool is_loose; /* a loose file holds the value */
};

struct ref_snapshot {
	VEC(struct ref) refs;       /* in byte order of their names, each once */
	char *head_target;          /* HEAD is symbolic (it may be unborn); owned */
	struct oid head_oid;        /* HEAD is detached, if head_target is NULL */
	bool has_packed_only;       /* no loose refs except symbolic ones */
	size_t loose_count;         /* loose refs, without symbolic ones */
	oid_list cuts;              /* where refrelay has cut its history short; tidy */
	bool is_cutting;            /* a change of the cuts has not ended */
	VEC(char *) texts;          /* owned; names and targets point into these */
	struct packed_refs *packed; /* ... and into this, which is shared; a reference
				       (git/packed_refs.h), or NULL */
	bool is_short;              /* refs has only the loose ones, packed the others */
};

#define REF_SNAPSHOT_INIT                                                                \
	{                                                                                \
		0                                                                        \
	}
#define AUTO_SNAPSHOT __attribute__((cleanup(ref_snapshot_clear)))

/* Reads the repository whose directory `dir` is open. oid_len: 20 or 32. Loose files are
 * read before packed-refs, so that a ref that is being packed is never missed; changes by
 * others in between show in the fingerprint (git/fingerprint.h). ERR_CORRUPT: no HEAD; or
 * it names what cannot be read. What git ignores (*.lock, bad names) is ignored. */
int ref_snapshot_read(int dir, size_t oid_len, struct ref_snapshot *snapshot,
		      struct err *err);

/* The same without merging loose and packed refs, which is nearly all the work for many
 * refs. Until it is completed it is for ref_snapshot_value(), ref_past_take() and
 * ref_diff_since() only. */
int ref_snapshot_read_short(int dir, size_t oid_len, struct ref_snapshot *snapshot,
			    struct err *err);
void ref_snapshot_complete(struct ref_snapshot *snapshot);

/* The same for callers that only need to know which refs are symbolic: a loose ref with
 * neither an object nor a target is left out. Git skips it, too. */
int ref_snapshot_read_symbolic(int dir, size_t oid_len, struct ref_snapshot *snapshot,
			       struct err *err);
/* HEAD alone, in whatever state the refs are. */
int ref_snapshot_read_head(int dir, size_t oid_len, struct ref_snapshot *snapshot,
			   struct err *err);
void ref_snapshot_clear(struct ref_snapshot *snapshot);

int ref_compare_names(const void *a, const void *b); /* of struct ref, for vec_sort() */
/* The ref of that name, or NULL. */
struct ref *ref_snapshot_find(const struct ref_snapshot *snapshot, const char *name);

/* The same, also for a short one. */
const struct ref *ref_snapshot_value(const struct ref_snapshot *snapshot,
				     const char *name);

/* Follows symbolic refs; NULL when it leads nowhere (unborn) or round in circles. */
const struct ref *ref_snapshot_resolve(const struct ref_snapshot *snapshot,
				       const char *name);

/* The object HEAD stands for; false when it is unborn. */
bool ref_snapshot_head(const struct ref_snapshot *snapshot, struct oid *oid);

/* Keeps a copy of text as long as the snapshot and returns it. */
const char *ref_snapshot_keep(struct ref_snapshot *snapshot, const char *text,
			      size_t len);

/* Whether two refs hold the same value (object or target); either may be NULL. */
bool ref_same_value(const struct ref *a, const struct ref *b);

/* Whether HEAD names the same branch or, detached, the same object. */
bool ref_same_head(const struct ref_snapshot *a, const struct ref_snapshot *b);

/* Whether git takes it as the full name of a ref ("refs/..." with at least one more
 * part), by git-check-ref-format(1). */
bool ref_name_is_valid(const char *name);

/* Whether it needs a directory where the file of `above` would stand: "refs/heads/a/b"
 * is below "refs/heads/a". */
bool ref_name_is_below(const char *name, const char *above);

/* Reads packed-refs text; names point into `text`, which the snapshot takes over. For
 * ref_snapshot_read and the tests. */
int ref_parse_packed(struct ref_snapshot *snapshot, char *text, size_t len,
		     size_t oid_len, struct err *err);

/* Appends the snapshot's refs as packed-refs text; symbolic refs are left out. When the
 * peel of some ref is unknown, the text says so, and readers peel by themselves. */
void ref_write_packed(const struct ref_snapshot *snapshot, struct str *out);

/*
 * The changes from one ref snapshot to another.
 */

struct ref_change {
	const char *name;         /* borrowed from one of the snapshots */
	const struct ref *before; /* NULL: created */
	const struct ref *after;  /* NULL: deleted */
};

struct ref_diff {
	VEC(struct ref_change) changes; /* in byte order of their names */
	size_t deletions;
	bool head_changed;
	bool cuts_changed;
	bool symbolic_changed; /* some change has a symbolic ref on either side */
};

#define AUTO_DIFF __attribute__((cleanup(ref_diff_clear)))

/* Both snapshots must outlive the diff, unchanged. */
void ref_diff_compute(const struct ref_snapshot *before, const struct ref_snapshot *after,
		      struct ref_diff *diff);
/*
 * The short form of a snapshot: only HEAD, cuts and the loose refs. It is enough as long
 * as packed-refs is unchanged (git/packed_refs.h).
 */
struct ref_past {
	struct ref_snapshot loose;
	uint64_t packed; /* packed_refs_serial(); 0: there were none */
};

void ref_past_take(const struct ref_snapshot *snapshot, struct ref_past *past);
void ref_past_clear(struct ref_past *past);

/* The changes since, in time proportional to the loose refs. False: packed-refs differs.
 * The refs of `after` must be as they were read. */
bool ref_diff_since(const struct ref_past *past, const struct ref_snapshot *after,
		    struct ref_diff *diff);

void ref_diff_clear(struct ref_diff *diff);

bool ref_diff_is_empty(const struct ref_diff *diff);

/*
 * One repository read at one moment: refs, HEAD, description and the settings for readers
 * as they were together. Reading takes several system calls, and pushes go on meanwhile;
 * a picture counts only if the stat fingerprint after it equals the one before.
 */

struct ref_reading {
	struct ref_snapshot refs;
	size_t oid_len;
	struct fingerprint fingerprint; /* of that moment */
	char *description;              /* the file of that name; owned, NULL: none */
	char *settings;                 /* git/read_settings.h; owned; "": none */
	bool has_includes; /* ... some of them from other files: an equal fingerprint does
			      not prove them unchanged */
	bool has_alternates; /* some of its objects live in another repository */
};

#define AUTO_READING __attribute__((cleanup(ref_reading_clear)))

/* Reads the repository at path, relative to the directory dir. A picture in which some
 * refs are older than others is never returned. ERR_CONFLICT: it changed faster than it
 * could be read; ERR_CONFIG: a repository that cannot be copied whole (partial, grafts,
 * shallow but not cut by refrelay), or that cannot be read; ERR_CORRUPT; ERR_MISSING:
 * nothing there. */
int ref_reading_take(int dir, const char *path, struct ref_reading *reading,
		     struct err *err);

/* The same, but the refs are short. */
int ref_reading_take_short(int dir, const char *path, struct ref_reading *reading,
			   struct err *err);

/* The same for the refs alone: accepts shallow repositories and grafts. */
int ref_reading_take_refs(int dir, const char *path, struct ref_reading *reading,
			  struct err *err);
void ref_reading_clear(struct ref_reading *reading);

#endif
