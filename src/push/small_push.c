#include "push/small_push.h"

#include <fcntl.h>

#include "base/map.h"
#include "git/new_objects.h"

enum {
	OBJECTS_MOST = 100,       /* so many git unpacks; of more it keeps the pack */
	READ_MOST = 2000,         /* objects, to find which are new */
	ANCESTORS_MOST = 1000,    /* commits, to find that a value moves forward */
	ANCESTOR_BYTES = 1 << 20, /* of all of them; anybody may have made them */
	KNOWN_MOST = 2000,        /* refs of the destination that are told to the walk */
};

bool small_push_open(struct small_push *push)
{
	const char *path = push->transfer->request->repository;

	push->local = (struct repo)REPO_INIT;
	if (repo_open(AT_FDCWD, path, &push->local, ERR_IGNORED) != 0 ||
	    object_store_open(&push->local, &push->store, ERR_IGNORED) != 0)
		return false;
	object_store_obey(push->store, push->transfer->request->work);
	return true;
}

void small_push_close(struct small_push *push)
{
	object_store_close(push->store);
	repo_close(&push->local);
	vec_clear(&push->items);
	vec_clear(&push->tips);
	vec_clear(&push->known);
	vec_clear(&push->added);
}

/* The commits that it names, in order; false at the end. */
static bool next_parent(const char **text, struct oid *parent)
{
	const char *line = *text;

	if (!text_starts_with(line, "parent ") ||
	    !oid_parse(line + strlen("parent "), 20, parent))
		return false;
	line += strlen("parent ") + 40;
	*text = *line == '\n' ? line + 1 : line;
	return true;
}

static int compare_oids(const struct oid *a, const struct oid *b)
{
	return memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}

/* Adds those parents that were not met yet. False: it cannot be read as a commit of what
 * is left of the bytes. */
static bool add_parents(struct object_store *store, const struct oid *commit,
			uint64_t *left, struct map *met, oid_list *list)
{
	AUTO_OBJECT struct object object = { 0 };
	char text[OID_MAX_TEXT];
	enum object_kind kind;
	struct oid parent;
	uint64_t size;

	if (object_store_look(store, commit, &kind, &size, ERR_IGNORED) != 0 ||
	    kind != OBJECT_COMMIT || size > *left ||
	    object_store_read(store, commit, &object, ERR_IGNORED) != 0)
		return false;
	*left -= size;
	AUTO_FREE char *head = xstrndup((const char *)object.data, object.len);
	const char *at = strchr(head, '\n');
	for (at = at ? at + 1 : ""; next_parent(&at, &parent);)
		if (!map_put(met, oid_text(&parent, text), met))
			vec_add(list, parent);
	return true;
}

/* Whether `old` is an ancestor, as far as is looked. */
static bool is_forward(struct object_store *store, const struct oid *old,
		       const struct oid *new)
{
	oid_list list = { 0 };
	struct map met = { 0 };
	bool is_found = false, is_good = true;
	uint64_t left = ANCESTOR_BYTES;

	vec_add(&list, *new);
	for (size_t i = 0; i < list.count && i < ANCESTORS_MOST && is_good; i++) {
		struct oid commit = list.items[i];
		is_found = compare_oids(&commit, old) == 0;
		if (is_found)
			break;
		is_good = add_parents(store, &commit, &left, &met, &list);
	}
	map_clear(&met);
	vec_clear(&list);
	return is_found;
}

static bool is_commit(struct object_store *store, const struct oid *oid)
{
	enum object_kind kind;
	uint64_t size;

	return object_store_look(store, oid, &kind, &size, ERR_IGNORED) == 0 &&
	       kind == OBJECT_COMMIT;
}

/* Git's rules; what they refuse, git says. */
static bool is_allowed(const struct small_push *push, const struct push_item *item,
		       const struct ref *theirs)
{
	const struct oid *new = &item->value.oid;
	bool is_branch = text_starts_with(item->result.dst, "refs/heads/");

	if (is_branch && !is_commit(push->store, new))
		return false;
	if (!theirs || item->forces)
		return true;
	return !text_starts_with(item->result.dst, "refs/tags/") &&
	       object_store_has(push->store, &theirs->oid) &&
	       is_forward(push->store, &theirs->oid, new);
}

/* Since it was seen there. */
static bool has_changed(const struct small_push *push, const struct push_item *item,
			const struct ref *theirs)
{
	const struct ref *before;

	if (!push->before)
		return false;
	before = ref_snapshot_find(push->before, item->result.dst);
	return before && theirs ? !oid_equal(&before->oid, &theirs->oid)
				: before != theirs;
}

void small_push_choose(struct small_push *push)
{
	struct transfer *transfer = push->transfer;

	for (size_t i = 0; i < transfer->items.count; i++) {
		struct push_item *item = &transfer->items.items[i];
		const struct ref *theirs =
			ref_snapshot_find(push->theirs, item->result.dst);
		if (item->state != ITEM_PLAIN || item->result.is_deletion ||
		    has_changed(push, item, theirs))
			continue;
		if (theirs && oid_equal(&theirs->oid, &item->value.oid)) {
			item_settle(item, REF_UP_TO_DATE, NULL);
		} else if (push->items.count < push->most_refs &&
			   is_allowed(push, item, theirs)) {
			vec_add(&push->items, item);
			vec_add(&push->tips, item->value.oid);
		}
	}
}

/* Those of the refs that change come first; of very many others some will do. */
static void tell_known(struct small_push *push)
{
	const struct ref_snapshot *seen = push->theirs;

	for (size_t i = 0; i < push->items.count; i++) {
		const struct ref *theirs =
			ref_snapshot_find(seen, push->items.items[i]->result.dst);
		if (theirs)
			vec_add(&push->known, theirs->oid);
	}
	for (size_t i = 0; i < seen->refs.count && i < KNOWN_MOST; i++)
		vec_add(&push->known, seen->refs.items[i].oid);
	oid_list_tidy(&push->known);
	oid_list_tidy(&push->tips);
}

/* False: too large, or one cannot be read. */
static bool is_small(const struct small_push *push)
{
	uint64_t size, sum = 0;
	enum object_kind kind;

	if (push->added.count > OBJECTS_MOST)
		return false;
	for (size_t i = 0; i < push->added.count; i++) {
		if (object_store_look(push->store, &push->added.items[i], &kind, &size,
				      ERR_IGNORED) != 0 ||
		    size > SMALL_PUSH_BYTES - sum)
			return false;
		sum += size;
	}
	return true;
}

bool small_push_find_added(struct small_push *push)
{
	const struct new_objects_request request = { .store = push->store,
						     .tips = &push->tips,
						     .known = &push->known,
						     .most = READ_MOST,
						     .most_bytes = SMALL_PUSH_BYTES };

	tell_known(push);
	return new_objects_list(&request, &push->added, ERR_IGNORED) == 1 &&
	       is_small(push);
}
