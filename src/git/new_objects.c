/*
 * Two walks. The first colours commits, the youngest first: new, or known by way of
 * `known`. Most changes end at once at values that refs had, so those are only compared
 * by name at first. If that does not end soon, or only at a root, they are walked from,
 * too, down to the age of the oldest new one, so that a branch that begins at an old
 * commit meets their history. With clocks that were wrong a known commit may stay new:
 * that lists more than is needed, and is no danger.
 *
 * The second goes through new commits, parents first, and compares the tree of each with
 * those of all its parents. What a parent has at the same path is complete there, since
 * either the parent is known, or it was gone through before. For the same reason an
 * object that was met before is not looked into again: it was completed by then, or it is
 * being completed right now and will be before anything is answered. (Children first,
 * two directories that change places could vouch for each other.)
 *
 * Whatever is taken for a proof is read or looked up, never believed: an entry's object
 * has the kind that its mode says, a tag's the one that the tag says.
 *
 * In here 1 is to go on, 0 to give up, -1 an error.
 */
#include "git/new_objects.h"

#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "git/commit_text.h"

#define PLAIN_COMMITS 32 /* walked before what is known is walked from */
#define PLAIN_LOOKS 16   /* at `known` as it is, before it is sorted */
#define DEPTH_LIMIT 128  /* of folders in each other: each takes some of the stack */
/* Of what is known is read, again and again where many compare themselves with it. */
#define KNOWN_BYTES ((uint64_t)64 << 20)
#define PARENTS_MOST                                                                     \
	64 /* of a commit: each entry of a tree is looked up in all of theirs */

#define MODE_KIND 0170000
#define MODE_TREE 0040000
#define MODE_SUBMODULE 0160000

struct new_commit {
	struct oid oid, tree;
	int64_t date;
	bool is_known;
	bool is_parsed;
	bool is_queued;                   /* was, or is */
	bool is_waiting;                  /* is */
	bool is_entered, is_left;         /* by the second walk */
	VEC(struct new_commit *) parents; /* the list is owned */
};
typedef VEC(struct new_commit *) commit_list;

struct new_walk {
	const struct new_objects_request *request;
	oid_list *list;
	oid_list blobs, trees; /* go behind the others; trees that tips name */
	oid_list sorted;       /* `known`, if it was asked often */
	size_t known_looks;
	struct map commits; /* by name in text; the commits are owned by `all` */
	commit_list all, queue, tips;
	size_t open;    /* new commits in the queue */
	size_t fresh;   /* ... that have left it and are still new */
	int64_t oldest; /* date of those */
	bool has_root;  /* one of them has no parents */
	size_t walked;  /* commits */
	bool is_painting;
	bool has_painted;
	struct map
		met; /* trees, blobs and tags by name in text: their kind, as borrowed */
	size_t work; /* objects that were read or listed */
	uint64_t bytes;
	uint64_t known_bytes; /* read of what is known, or was listed before */
	struct err *err;
};

static const enum object_kind met_kinds[] = { OBJECT_NONE, OBJECT_COMMIT, OBJECT_TREE,
					      OBJECT_BLOB, OBJECT_TAG };

static const char *kind_text(enum object_kind kind)
{
	static const char *const names[] = { "unknown", "commit", "tree", "blob", "tag" };

	return names[kind];
}

static int wrong_object(struct new_walk *walk, const struct oid *oid, const char *what)
{
	char text[OID_MAX_TEXT];

	return err_set(walk->err, ERR_CORRUPT, "object %s %s", oid_text(oid, text), what);
}

/* What fails to be read is damage if it is of the change; unless nobody has tried. */
static int not_read(struct new_walk *walk, const struct oid *oid)
{
	if (walk->err->class == ERR_MISSING)
		return wrong_object(walk, oid, "is missing");
	return walk->err->class == ERR_CORRUPT ? -1 : 0;
}

static int new_walk_count(struct new_walk *walk)
{
	return ++walk->work <= walk->request->most;
}

/* Looks at one of the change. */
static int look_at_new(struct new_walk *walk, const struct oid *oid,
		       enum object_kind *kind, uint64_t *size)
{
	if (object_store_look(walk->request->store, oid, kind, size, walk->err) != 0)
		return not_read(walk, oid);
	return 1;
}

static int is_of_kind(struct new_walk *walk, const struct oid *oid,
		      enum object_kind found, enum object_kind wanted)
{
	AUTO_FREE char *what = NULL;

	if (found == wanted)
		return 1;
	what = xasprintf("is a %s in the place of a %s", kind_text(found),
			 kind_text(wanted));
	return wrong_object(walk, oid, what);
}

static int read_new(struct new_walk *walk, const struct oid *oid, enum object_kind wanted,
		    struct object *object)
{
	enum object_kind kind;
	uint64_t size;
	int result = look_at_new(walk, oid, &kind, &size);

	if (result == 1)
		result = is_of_kind(walk, oid, kind, wanted);
	if (result != 1)
		return result;
	if (!new_walk_count(walk) || size > walk->request->most_bytes - walk->bytes)
		return 0;
	walk->bytes += size;
	if (object_store_read(walk->request->store, oid, object, walk->err) != 0)
		return not_read(walk, oid);
	return is_of_kind(walk, oid, object->kind, wanted);
}

/* Somebody may have put large ones there, for a small change that names them all. */
static bool takes_known(struct new_walk *walk, uint64_t size)
{
	if (size > walk->request->most_bytes || size > KNOWN_BYTES - walk->known_bytes)
		return false;
	walk->known_bytes += size;
	return true;
}

/* One that is known to be complete: what is wrong with it is no fault of the change. */
static int read_known(struct new_walk *walk, const struct oid *oid,
		      enum object_kind wanted, struct object *object)
{
	enum object_kind kind;
	uint64_t size;

	return new_walk_count(walk) &&
	       object_store_look(walk->request->store, oid, &kind, &size, ERR_IGNORED) ==
		       0 &&
	       kind == wanted && takes_known(walk, size) &&
	       object_store_read(walk->request->store, oid, object, ERR_IGNORED) == 0 &&
	       object->kind == wanted;
}

/* 1: it is met for the first time; 0: it was met before; -1: as another kind. */
static int new_walk_meet(struct new_walk *walk, const struct oid *oid,
			 enum object_kind kind)
{
	char text[OID_MAX_TEXT];
	const enum object_kind *before;

	oid_text(oid, text);
	before = map_get(&walk->met, text);
	if (before)
		return is_of_kind(walk, oid, *before, kind) == 1 ? 0 : -1;
	/* the map holds what may be written to */
	map_put(&walk->met, text, (void *)(uintptr_t)&met_kinds[kind]);
	return 1;
}

/* Most changes ask a few times only. */
static bool known_has(struct new_walk *walk, const struct oid *oid)
{
	const oid_list *known = walk->request->known;

	if (++walk->known_looks <= PLAIN_LOOKS) {
		for (size_t i = 0; i < known->count; i++)
			if (oid_equal(&known->items[i], oid))
				return true;
		return false;
	}
	if (walk->sorted.count == 0 && known->count > 0) {
		for (size_t i = 0; i < known->count; i++)
			vec_add(&walk->sorted, known->items[i]);
		oid_list_tidy(&walk->sorted);
	}
	return oid_list_has(&walk->sorted, oid);
}

static bool begins_with(const char *at, const char *end, const char *word)
{
	const size_t len = strlen(word);

	return (size_t)(end - at) >= len && memcmp(at, word, len) == 0;
}

static struct new_commit *commit_of(struct new_walk *walk, const struct oid *oid)
{
	char text[OID_MAX_TEXT];
	struct new_commit *commit;

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

/* Each once. False: there are more than is worth a look here. */
static bool new_commit_add_parents(struct new_walk *walk, struct new_commit *commit,
				   const char *at, const char *end, const char **stop)
{
	struct oid oid;

	while (commit_text_oid(&at, end, "parent", &oid)) {
		struct new_commit *parent = commit_of(walk, &oid);
		bool is_double = false;
		for (size_t i = 0; i < commit->parents.count; i++)
			is_double = is_double || commit->parents.items[i] == parent;
		if (!is_double)
			vec_add(&commit->parents, parent);
		if (commit->parents.count > PARENTS_MOST)
			return false;
	}
	*stop = at;
	return true;
}

static int parse_commit(struct new_walk *walk, struct new_commit *commit)
{
	AUTO_OBJECT struct object object = { 0 };
	int result;

	if (commit->is_parsed)
		return 1;
	result = commit->is_known ? read_known(walk, &commit->oid, OBJECT_COMMIT, &object)
				  : read_new(walk, &commit->oid, OBJECT_COMMIT, &object);
	if (result != 1)
		return result;
	const char *at = (const char *)object.data, *end = at + object.len;
	/* git refuses a line of a parent that has no name of one */
	const bool has_tree = commit_text_oid(&at, end, "tree", &commit->tree);
	if (has_tree && !new_commit_add_parents(walk, commit, at, end, &at))
		return 0;
	if (!has_tree || begins_with(at, end, "parent "))
		return commit->is_known
			       ? 0
			       : wrong_object(walk, &commit->oid, "is no whole commit");
	commit->date = commit_text_date(at - 1, end);
	commit->is_parsed = true;
	return 1;
}

/* The queue is a heap, the youngest on top. */
static void queue_put(struct new_walk *walk, struct new_commit *commit)
{
	struct new_commit **items;
	size_t at = walk->queue.count;

	vec_add(&walk->queue, commit);
	items = walk->queue.items;
	for (; at > 0 && items[(at - 1) / 2]->date < commit->date; at = (at - 1) / 2)
		items[at] = items[(at - 1) / 2];
	items[at] = commit;
	commit->is_queued = commit->is_waiting = true;
	walk->open += !commit->is_known;
}

static struct new_commit *queue_take(struct new_walk *walk)
{
	struct new_commit **items = walk->queue.items, *top = items[0];
	struct new_commit *last = items[--walk->queue.count];
	size_t count = walk->queue.count, at = 0;

	for (size_t child = 1; child < count; child = 2 * at + 1) {
		if (child + 1 < count && items[child + 1]->date > items[child]->date)
			child++;
		if (items[child]->date <= last->date)
			break;
		items[at] = items[child];
		at = child;
	}
	items[at] = last;
	top->is_waiting = false;
	if (top->is_known)
		return top;
	walk->open--;
	walk->fresh++;
	walk->oldest = top->date < walk->oldest ? top->date : walk->oldest;
	walk->has_root |= top->parents.count == 0;
	return top;
}

static int queue_parsed(struct new_walk *walk, struct new_commit *commit)
{
	int result = commit->is_queued ? 1 : parse_commit(walk, commit);

	if (result == 1 && !commit->is_queued)
		queue_put(walk, commit);
	return result;
}

/* With all of its history that was walked before it was known. What is not walked yet
 * comes into the queue, if what is known is walked from at all. */
static int paint(struct new_walk *walk, struct new_commit *first)
{
	commit_list stack = { 0 };
	int result = 1;

	vec_add(&stack, first);
	while (result >= 0 && stack.count > 0) {
		struct new_commit *commit = stack.items[--stack.count];
		bool was_known = commit->is_known;
		commit->is_known = true;
		walk->open -= commit->is_waiting && !was_known;
		walk->fresh -= commit->is_queued && !commit->is_waiting && !was_known;
		if (!commit->is_queued && walk->is_painting)
			queue_parsed(walk, commit); /* not there: it ends here */
		for (size_t i = 0; !was_known && !commit->is_waiting &&
				   commit->is_queued && i < commit->parents.count;
		     i++)
			vec_add(&stack, commit->parents.items[i]);
	}
	vec_clear(&stack);
	return walk->work <= walk->request->most;
}

/* The commit that an object is, or tags stand for; false: none, or it cannot be read. */
static bool find_known_commit(struct new_walk *walk, const struct oid *oid,
			      struct oid *commit)
{
	enum object_kind kind;
	uint64_t size;

	*commit = *oid;
	while (object_store_look(walk->request->store, commit, &kind, &size,
				 ERR_IGNORED) == 0) {
		AUTO_OBJECT struct object object = { 0 };
		if (kind != OBJECT_TAG)
			return kind == OBJECT_COMMIT;
		if (read_known(walk, commit, OBJECT_TAG, &object) != 1)
			return false;
		const char *at = (const char *)object.data;
		if (!commit_text_oid(&at, at + object.len, "object", commit))
			return false;
	}
	return false;
}

/* Not where there are too many to read them all: then it goes on by their names. */
static int paint_known(struct new_walk *walk)
{
	const oid_list *known = walk->request->known;
	struct oid oid;
	int result = 1;

	walk->has_painted = true;
	if (known->count > walk->request->most / 2)
		return 1;
	walk->is_painting = true;
	for (size_t i = 0; result == 1 && i < known->count; i++)
		if (find_known_commit(walk, &known->items[i], &oid))
			result = paint(walk, commit_of(walk, &oid));
	return result;
}

static int walk_parent(struct new_walk *walk, const struct new_commit *child,
		       struct new_commit *parent)
{
	if (child->is_known || known_has(walk, &parent->oid))
		return paint(walk, parent);
	return parent->is_known ? 1 : queue_parsed(walk, parent);
}

/* Whether a look at the next one may change the colour of any. */
static bool walk_goes_on(const struct new_walk *walk)
{
	return walk->open > 0 || (walk->fresh > 0 && walk->queue.count > 0 &&
				  walk->queue.items[0]->date >= walk->oldest);
}

static bool walk_must_paint(const struct new_walk *walk)
{
	return !walk->has_painted &&
	       (walk->walked == PLAIN_COMMITS || (walk->open == 0 && walk->has_root));
}

static int walk_commits(struct new_walk *walk)
{
	int result = 1;

	while (result == 1 && (walk_goes_on(walk) || walk_must_paint(walk))) {
		if (walk_must_paint(walk)) {
			result = paint_known(walk);
			continue;
		}
		struct new_commit *commit = queue_take(walk);
		walk->walked++;
		for (size_t i = 0; result == 1 && i < commit->parents.count; i++)
			result = walk_parent(walk, commit, commit->parents.items[i]);
	}
	return result;
}

/* One entry of a tree. */
struct tree_entry {
	const unsigned char *at, *end; /* what follows */
	const char *name;
	size_t name_len;
	unsigned mode;
	struct oid oid;
};

/* 1: there is one; 0: the end; -1: this is no tree. "<mode> <name>\0<20 bytes>" */
static int tree_next(struct tree_entry *entry)
{
	const unsigned char *at = entry->at;

	if (at == entry->end)
		return 0;
	for (entry->mode = 0; at < entry->end && *at >= '0' && *at <= '7'; at++)
		entry->mode = entry->mode << 3 | (*at - '0');
	if (at == entry->at || at == entry->end || *at != ' ')
		return -1;
	entry->name = (const char *)++at;
	at = memchr(at, '\0', (size_t)(entry->end - at));
	if (!at || entry->end - at < 1 + 20)
		return -1;
	entry->name_len = (size_t)((const char *)at - entry->name);
	entry->oid = (struct oid){ .len = 20 };
	memcpy(entry->oid.bytes, at + 1, 20);
	entry->at = at + 1 + 20;
	return 1;
}

static enum object_kind entry_kind(const struct tree_entry *entry)
{
	switch (entry->mode & MODE_KIND) {
	case MODE_TREE:
		return OBJECT_TREE;
	case MODE_SUBMODULE:
		return OBJECT_NONE;
	default:
		return OBJECT_BLOB;
	}
}

/* In the order of trees: that of a folder as if it ended in a slash. */
static int entry_compare(const struct tree_entry *a, const struct tree_entry *b)
{
	size_t len = a->name_len < b->name_len ? a->name_len : b->name_len;
	int order = memcmp(a->name, b->name, len);
	char left = a->name_len > len              ? a->name[len]
		    : entry_kind(a) == OBJECT_TREE ? '/'
						   : 0;
	char right = b->name_len > len              ? b->name[len]
		     : entry_kind(b) == OBJECT_TREE ? '/'
						    : 0;

	return order != 0 ? order : (unsigned char)left - (unsigned char)right;
}

/* A parent's tree at the same path. */
struct old_tree {
	struct object object;
	struct tree_entry entry;
	bool is_ended;
};

/* Whether it has an entry of that name and kind, at which it stands then. Where trees are
 * not in their order it may be missed, and is listed. */
static bool old_tree_find(struct old_tree *old, const struct tree_entry *entry)
{
	while (!old->is_ended && entry_compare(&old->entry, entry) < 0)
		old->is_ended = tree_next(&old->entry) != 1;
	return !old->is_ended && entry_compare(&old->entry, entry) == 0 &&
	       entry_kind(&old->entry) == entry_kind(entry);
}

static struct tree_entry tree_begin(const struct object *object)
{
	return (struct tree_entry){ .at = object->data,
				    .end = object->data ? object->data + object->len
							: NULL };
}

static int list_tree(struct new_walk *walk, const struct oid *oid, const oid_list *before,
		     unsigned depth);

static int list_blob(struct new_walk *walk, const struct oid *oid)
{
	enum object_kind kind;
	uint64_t size;
	int result = new_walk_meet(walk, oid, OBJECT_BLOB);

	if (result != 1)
		return result < 0 ? -1 : 1;
	result = look_at_new(walk, oid, &kind, &size);
	if (result == 1)
		result = is_of_kind(walk, oid, kind, OBJECT_BLOB);
	if (result != 1)
		return result;
	vec_add(&walk->blobs, *oid);
	return new_walk_count(walk);
}

/* A tree of the change. */
struct new_tree {
	const struct oid *oid;
	struct object object;
	struct old_tree *olds; /* what the parents have at the same path; owned */
	size_t count;
	unsigned depth;
};

static void new_tree_clear(struct new_tree *tree)
{
	for (size_t i = 0; i < tree->count; i++)
		object_release(&tree->olds[i].object);
	free(tree->olds);
	object_release(&tree->object);
}

static int list_entry(struct new_walk *walk, struct new_tree *tree,
		      const struct tree_entry *entry)
{
	oid_list before = { 0 };
	bool is_old = entry_kind(entry) == OBJECT_NONE;
	int result = 1;

	for (size_t i = 0; i < tree->count; i++) {
		struct old_tree *old = &tree->olds[i];
		if (!old_tree_find(old, entry))
			continue;
		is_old |= oid_equal(&old->entry.oid, &entry->oid);
		vec_add(&before, old->entry.oid);
	}
	if (!is_old && entry_kind(entry) == OBJECT_TREE)
		result = list_tree(walk, &entry->oid, &before, tree->depth + 1);
	else if (!is_old)
		result = list_blob(walk, &entry->oid);
	vec_clear(&before);
	return result;
}

static int list_entries(struct new_walk *walk, struct new_tree *tree)
{
	struct tree_entry entry = tree_begin(&tree->object);
	int found, result = 1;

	while (result == 1 && (found = tree_next(&entry)) != 0) {
		if (found < 0 || entry.name_len == 0)
			return wrong_object(walk, tree->oid, "is no whole tree");
		result = list_entry(walk, tree, &entry);
	}
	return result;
}

static int new_tree_open_old(struct new_walk *walk, const struct oid *oid,
			     struct old_tree *old)
{
	int result = read_known(walk, oid, OBJECT_TREE, &old->object);

	old->entry = tree_begin(&old->object);
	old->is_ended = result != 1 || tree_next(&old->entry) != 1;
	return result;
}

/* `before` are those that the parents have at the same path; none is this one. */
static int list_tree(struct new_walk *walk, const struct oid *oid, const oid_list *before,
		     unsigned depth)
{
	struct new_tree tree = { .oid = oid, .depth = depth };
	int result = new_walk_meet(walk, oid, OBJECT_TREE);

	if (result != 1)
		return result < 0 ? -1 : 1;
	if (depth > DEPTH_LIMIT)
		return 0;
	result = read_new(walk, oid, OBJECT_TREE, &tree.object);
	vec_add(walk->list, *oid);
	tree.olds = xcalloc(before->count + 1, sizeof(*tree.olds));
	for (; result == 1 && tree.count < before->count; tree.count++)
		result = new_tree_open_old(walk, &before->items[tree.count],
					   &tree.olds[tree.count]);
	if (result == 1)
		result = list_entries(walk, &tree);
	new_tree_clear(&tree);
	return result;
}

/* All its parents were listed before, or are known. */
static int list_commit(struct new_walk *walk, const struct new_commit *commit)
{
	oid_list before = { 0 };
	bool is_old = false;
	int result = 1;

	for (size_t i = 0; result == 1 && i < commit->parents.count; i++) {
		struct new_commit *parent = commit->parents.items[i];
		result = parse_commit(walk, parent);
		is_old |= result == 1 && oid_equal(&parent->tree, &commit->tree);
		vec_add(&before, parent->tree);
	}
	if (result == 1 && !is_old)
		result = list_tree(walk, &commit->tree, &before, 0);
	vec_clear(&before);
	vec_add(walk->list, commit->oid);
	return result;
}

/* Parents first: a commit is left when all that is above it in the stack is done. */
static int list_history(struct new_walk *walk, struct new_commit *tip)
{
	commit_list stack = { 0 };
	int result = 1;

	vec_add(&stack, tip);
	while (result == 1 && stack.count > 0) {
		struct new_commit *commit = stack.items[stack.count - 1];
		bool is_done = commit->is_known || commit->is_entered;
		stack.count -= is_done;
		if (is_done && !commit->is_known && !commit->is_left) {
			commit->is_left = true;
			result = list_commit(walk, commit);
		}
		commit->is_entered = true;
		for (size_t i = 0; !is_done && i < commit->parents.count; i++)
			if (!commit->parents.items[i]->is_entered)
				vec_add(&stack, commit->parents.items[i]);
	}
	vec_clear(&stack);
	return result;
}

/* A tag without a name is none, as for git. */
static enum object_kind read_tagged_kind(const char *at, const char *end)
{
	for (enum object_kind kind = OBJECT_COMMIT; kind <= OBJECT_TAG; kind++) {
		AUTO_FREE char *line = xasprintf("type %s\ntag ", kind_text(kind));
		if (begins_with(at, end, line))
			return memchr(at + strlen(line), '\n',
				      (size_t)(end - at) - strlen(line))
				       ? kind
				       : OBJECT_NONE;
	}
	return OBJECT_NONE;
}

/* Lists it, unless it is known, and says what it stands for. */
static int list_tag(struct new_walk *walk, struct oid *oid, enum object_kind *kind)
{
	AUTO_OBJECT struct object object = { 0 };
	const struct oid tag = *oid;
	int result = new_walk_meet(walk, &tag, OBJECT_TAG);

	*kind = OBJECT_NONE;
	if (result != 1)
		return result < 0 ? -1 : 1;
	result = read_new(walk, &tag, OBJECT_TAG, &object);
	if (result != 1)
		return result;
	const char *at = (const char *)object.data, *end = at + object.len;
	if (commit_text_oid(&at, end, "object", oid))
		*kind = read_tagged_kind(at, end);
	if (*kind == OBJECT_NONE)
		return wrong_object(walk, &tag, "is no whole tag");
	vec_add(walk->list, tag);
	return 1;
}

static int add_commit_tip(struct new_walk *walk, const struct oid *oid)
{
	struct new_commit *commit = commit_of(walk, oid);

	vec_add(&walk->tips, commit);
	return queue_parsed(walk, commit);
}

/* Git never gets over a tag that says that a commit is a tree. 0: it is not there. */
static int check_known_target(struct new_walk *walk, const struct oid *oid,
			      enum object_kind said)
{
	enum object_kind kind;
	uint64_t size;

	if (said == OBJECT_NONE)
		return 1;
	if (object_store_look(walk->request->store, oid, &kind, &size, ERR_IGNORED) != 0)
		return 0;
	return is_of_kind(walk, oid, kind, said);
}

/* Trees come later, when it is known what the commits have. */
static int new_walk_add_tip(struct new_walk *walk, struct oid oid)
{
	enum object_kind kind, said = OBJECT_NONE;
	uint64_t size;

	while (!known_has(walk, &oid)) {
		int result = look_at_new(walk, &oid, &kind, &size);
		if (result == 1 && said != OBJECT_NONE)
			result = is_of_kind(walk, &oid, kind, said);
		if (result != 1)
			return result;
		if (kind == OBJECT_COMMIT)
			return add_commit_tip(walk, &oid);
		if (kind == OBJECT_BLOB)
			return list_blob(walk, &oid);
		if (kind == OBJECT_TREE) {
			vec_add(&walk->trees, oid);
			return 1;
		}
		result = list_tag(walk, &oid, &said);
		if (result != 1 || said == OBJECT_NONE)
			return result;
	}
	return check_known_target(walk, &oid, said);
}

static int new_walk_run(struct new_walk *walk)
{
	const oid_list *tips = walk->request->tips;
	const oid_list none = { 0 };
	int result = 1;

	for (size_t i = 0; result == 1 && i < tips->count; i++)
		result = new_walk_add_tip(walk, tips->items[i]);
	if (result == 1)
		result = walk_commits(walk);
	for (size_t i = 0; result == 1 && i < walk->tips.count; i++)
		result = list_history(walk, walk->tips.items[i]);
	for (size_t i = 0; result == 1 && i < walk->trees.count; i++)
		result = list_tree(walk, &walk->trees.items[i], &none, 0);
	for (size_t i = 0; i < walk->blobs.count; i++)
		vec_add(walk->list, walk->blobs.items[i]);
	return result;
}

static void new_walk_clear(struct new_walk *walk)
{
	for (size_t i = 0; i < walk->all.count; i++) {
		vec_clear(&walk->all.items[i]->parents);
		free(walk->all.items[i]);
	}
	vec_clear(&walk->all);
	vec_clear(&walk->queue);
	vec_clear(&walk->tips);
	vec_clear(&walk->trees);
	vec_clear(&walk->blobs);
	vec_clear(&walk->sorted);
	map_clear(&walk->commits);
	map_clear(&walk->met);
}

int new_objects_list(const struct new_objects_request *request, oid_list *list,
		     struct err *err)
{
	struct new_walk walk = {
		.request = request, .list = list, .oldest = INT64_MAX, .err = err
	};
	int result = new_walk_run(&walk);

	new_walk_clear(&walk);
	return result;
}
