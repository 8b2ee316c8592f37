/*
 * Commits are looked at the youngest first, from both ends. The answer is yes as soon as
 * `old` is a parent of one that the tip reaches, and no when all that is left to be
 * looked at below the tip is also below `old`.
 *
 * Both are right whatever the commits' dates say, which only tell whom to look at first:
 * each commit on a way from the tip down to `old` descends from `old`, so it is never
 * below `old`, and the walk does not end before it was looked at.
 */
#include "git/descent.h"

#include "base/map.h"
#include "base/vec.h"
#include "git/commit_text.h"

#define COMMIT_BYTES_MOST ((uint64_t)1 << 20)

struct descent_commit {
	struct oid oid;
	int64_t date;
	bool is_below_tip, is_below_old; /* or it is the one itself */
	bool is_read, is_waiting;
	VEC(struct descent_commit *) parents; /* the list is owned */
};
typedef VEC(struct descent_commit *) descent_list;

struct descent_walk {
	struct object_store *store;
	size_t left;        /* so many are read */
	struct map commits; /* by name in text; the commits are owned by `all` */
	descent_list all;
	descent_list queue;
	size_t open; /* in the queue, below the tip and not below `old` */
};

static struct descent_commit *descent_commit_of(struct descent_walk *walk,
						const struct oid *oid)
{
	char text[OID_MAX_TEXT];
	struct descent_commit *commit;

	oid_text(oid, text);
	commit = map_get(&walk->commits, text);
	if (commit)
		return commit;
	commit = xcalloc(1, sizeof(*commit));
	commit->oid = *oid;
	map_put(&walk->commits, text, commit);
	vec_add(&walk->all, commit);
	return commit;
}

static bool descent_is_open(const struct descent_commit *commit)
{
	return commit->is_below_tip && !commit->is_below_old;
}

/* False: it has more parents than may be looked at. */
static bool descent_parse(struct descent_walk *walk, struct descent_commit *commit,
			  const struct object *object)
{
	const char *at = (const char *)object->data, *end = at + object->len;
	struct oid oid;

	if (!commit_text_oid(&at, end, "tree", &oid))
		return false;
	while (commit_text_oid(&at, end, "parent", &oid)) {
		vec_add(&commit->parents, descent_commit_of(walk, &oid));
		if (commit->parents.count > walk->left)
			return false;
	}
	commit->date = commit_text_date(at - 1, end);
	commit->is_read = true;
	return true;
}

/* OBJECT_NONE: it cannot be read, or not that many. */
static enum object_kind descent_read(struct descent_walk *walk,
				     struct descent_commit *commit)
{
	AUTO_OBJECT struct object object = { 0 };
	enum object_kind kind;
	uint64_t size;

	if (commit->is_read)
		return OBJECT_COMMIT;
	if (walk->left == 0 ||
	    object_store_look(walk->store, &commit->oid, &kind, &size, ERR_IGNORED) != 0)
		return OBJECT_NONE;
	walk->left--;
	if (kind != OBJECT_COMMIT)
		return kind;
	if (size > COMMIT_BYTES_MOST ||
	    object_store_read(walk->store, &commit->oid, &object, ERR_IGNORED) != 0 ||
	    object.kind != OBJECT_COMMIT || !descent_parse(walk, commit, &object))
		return OBJECT_NONE;
	return OBJECT_COMMIT;
}

/* Few wait at a time. */
static struct descent_commit *descent_take(struct descent_walk *walk)
{
	struct descent_commit **items = walk->queue.items;
	struct descent_commit *youngest;
	size_t at = 0;

	for (size_t i = 1; i < walk->queue.count; i++)
		if (items[i]->date > items[at]->date)
			at = i;
	youngest = items[at];
	items[at] = items[--walk->queue.count];
	youngest->is_waiting = false;
	walk->open -= descent_is_open(youngest);
	return youngest;
}

/* It is looked at, perhaps once more, if that is news. */
static enum object_kind descent_reach(struct descent_walk *walk,
				      struct descent_commit *commit, bool is_below_tip,
				      bool is_below_old)
{
	enum object_kind kind = OBJECT_COMMIT;

	if ((commit->is_below_tip || !is_below_tip) &&
	    (commit->is_below_old || !is_below_old))
		return kind;
	kind = descent_read(walk, commit);
	if (kind != OBJECT_COMMIT)
		return kind;
	if (commit->is_waiting)
		walk->open -= descent_is_open(commit);
	else
		vec_add(&walk->queue, commit);
	commit->is_waiting = true;
	commit->is_below_tip |= is_below_tip;
	commit->is_below_old |= is_below_old;
	walk->open += descent_is_open(commit);
	return kind;
}

/* DESCENT_UNKNOWN: it goes on below it. */
static enum descent descent_go_below(struct descent_walk *walk,
				     const struct descent_commit *commit,
				     const struct descent_commit *old, bool *is_lost)
{
	for (size_t i = 0; i < commit->parents.count; i++) {
		struct descent_commit *parent = commit->parents.items[i];
		if (parent == old && commit->is_below_tip)
			return DESCENT_YES;
		*is_lost |= descent_reach(walk, parent, commit->is_below_tip,
					  commit->is_below_old) != OBJECT_COMMIT;
	}
	return DESCENT_UNKNOWN;
}

static enum descent descent_walk(struct descent_walk *walk,
				 const struct descent_commit *old)
{
	enum descent found = DESCENT_UNKNOWN;
	bool is_lost = false;

	while (found == DESCENT_UNKNOWN && walk->open > 0 && !is_lost)
		found = descent_go_below(walk, descent_take(walk), old, &is_lost);
	return found == DESCENT_UNKNOWN && !is_lost ? DESCENT_NO : found;
}

/* Whether both are commits. */
static enum descent descent_begin(struct descent_walk *walk, struct descent_commit *tip,
				  struct descent_commit *old)
{
	enum object_kind kind = descent_reach(walk, tip, true, false);
	enum object_kind other = descent_reach(walk, old, false, true);

	if (kind == OBJECT_NONE || other == OBJECT_NONE)
		return DESCENT_UNKNOWN;
	return kind == OBJECT_COMMIT && other == OBJECT_COMMIT ? DESCENT_YES : DESCENT_NO;
}

static void descent_clear(struct descent_walk *walk)
{
	for (size_t i = 0; i < walk->all.count; i++) {
		vec_clear(&walk->all.items[i]->parents);
		free(walk->all.items[i]);
	}
	vec_clear(&walk->all);
	vec_clear(&walk->queue);
	map_clear(&walk->commits);
}

enum descent descent_find(struct object_store *store, const struct oid *tip,
			  const struct oid *old, size_t *left)
{
	struct descent_walk walk = { .store = store, .left = *left };
	struct descent_commit *above = descent_commit_of(&walk, tip);
	struct descent_commit *below = descent_commit_of(&walk, old);
	enum descent found = DESCENT_YES;

	if (above != below) {
		found = descent_begin(&walk, above, below);
		if (found == DESCENT_YES)
			found = descent_walk(&walk, below);
	}
	*left = walk.left;
	descent_clear(&walk);
	return found;
}
