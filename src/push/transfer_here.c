/*
 * A destination on this machine, served without git: its objects are written and its refs
 * changed in this process. Only what git would do without a word is done: to make a ref,
 * or to move one forward, or by force where the spec forces, in a plain repository.
 * Deletions, and whatever else is not plain, stay as they are for `git push`, which then
 * does it, or refuses it in its own words. So nothing here needs to know how a push
 * fails.
 *
 * Plain is what no setting of the repository has a say in: its config has no keys but
 * those of a list, no hook would run, no reflog is kept, and all of its objects are its
 * own. Nobody repacks it for us, so objects are left loose, as git leaves them.
 *
 * Why nothing is missing there: what a new value reaches is in the list that is written,
 * or is reached by a ref that was seen at the destination (git/new_objects.h), which git
 * takes for complete, too. Why nothing newer is undone: the destination's refs were read
 * before ours, and each must still have that value when it is locked.
 */
#include "push/transfer_run.h"

#include "base/conf.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/map.h"
#include "git/foreign_refs.h"
#include "git/new_objects.h"
#include "push/here_objects.h"

enum {
	REFS_MOST = 100,        /* are written, each with a flush of its own */
	READ_MOST = 2000,       /* objects, to find which are new */
	ANCESTORS_MOST = 1000,  /* commits, to find that a value moves forward */
	BYTES_MOST = 4 << 20,   /* of new objects: deltas are worth a child then */
	KNOWN_MOST = 2000,      /* refs of the destination that are told to the walk */
	CONFIG_LIMIT = 1 << 20, /* bytes */
};

struct transfer_here {
	struct repo repo; /* the destination */
	struct foreign_refs refs;
	char owner[16 + URI_KEY_SIZE];
};

/* Without a key: all of the section. */
static const struct {
	const char *section, *key;
} harmless[] = {
	{ "core", "repositoryformatversion" },
	{ "core", "filemode" },
	{ "core", "bare" },
	{ "core", "ignorecase" },
	{ "core", "symlinks" },
	{ "core", "precomposeunicode" },
	{ "branch", NULL },
	{ "gc", NULL },
	{ "gitweb", NULL },
	{ "http", NULL },
	{ "maintenance", NULL },
	{ "remote", NULL },
	{ "repack", NULL },
	{ "uploadpack", NULL },
	{ "user", NULL },
};

static const char *const hooks[] = {
	"pre-receive",  "update",      "post-receive",          "post-update",
	"proc-receive", "pre-auto-gc", "reference-transaction", "push-to-checkout",
};

/* Each is git's to judge. */
static const char *const oddities[] = { ".git", "logs", "worktrees", "modules" };

static bool is_harmless(const struct conf_entry *entry)
{
	for (size_t i = 0; i < ARRAY_SIZE(harmless); i++)
		if (strcasecmp(entry->section, harmless[i].section) == 0 &&
		    (!harmless[i].key || strcasecmp(entry->key, harmless[i].key) == 0))
			return true;
	return false;
}

static bool has_plain_config(int dir)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_CONF struct conf *conf = NULL;
	bool is_bare = false;

	if (file_read(dir, "config", CONFIG_LIMIT, &text, ERR_IGNORED) != 0 ||
	    conf_load_text("config", text.data, text.len, &conf, ERR_IGNORED) != 0 ||
	    conf_read_bool(conf_get(conf, "core", NULL, "bare"), &is_bare, ERR_IGNORED) !=
		    0)
		return false;
	for (size_t i = 0; i < conf_entries(conf)->count; i++)
		if (!is_harmless(conf_entries(conf)->items[i]))
			return false;
	return is_bare;
}

static bool is_there(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

static bool has_hook(int dir)
{
	char path[64];

	for (size_t i = 0; i < ARRAY_SIZE(hooks); i++) {
		snprintf(path, sizeof(path), "hooks/%s", hooks[i]);
		if (faccessat(dir, path, X_OK, AT_EACCESS) == 0)
			return true;
	}
	return false;
}

static bool is_plain(const struct repo *repo)
{
	for (size_t i = 0; i < ARRAY_SIZE(oddities); i++)
		if (is_there(repo->fd, oddities[i]))
			return false;
	return repo->oid_len == 20 && !repo->is_partial && !repo->has_work_tree &&
	       !repo->has_includes && has_plain_config(repo->fd) &&
	       repo_check_diversions(repo->fd, ERR_IGNORED) == 0 && !has_hook(repo->fd);
}

static bool has_symbolic(const struct ref_snapshot *refs)
{
	for (size_t i = 0; i < refs->refs.count; i++)
		if (refs->refs.items[i].target)
			return true;
	return false;
}

/* *repo and *refs are filled as far as it came. */
static bool look(struct transfer *transfer, struct transfer_here *here)
{
	const char *path = transfer->request->destination->path;
	struct ref_snapshot *seen = &transfer->seen;

	return repo_open(AT_FDCWD, path, &here->repo, ERR_IGNORED) == 0 &&
	       is_plain(&here->repo) &&
	       foreign_refs_read(here->repo.fd, here->owner, seen, &here->refs,
				 ERR_IGNORED) == 0 &&
	       !has_symbolic(seen);
}

/* What a killed push left would hinder git as well. */
static void recover(const struct transfer_here *here, const char *path)
{
	AUTO_CLOSE int dir = dir_open(AT_FDCWD, path, ERR_IGNORED);

	if (dir >= 0)
		foreign_refs_recover(dir, here->owner);
}

struct transfer_here *transfer_here_open(struct transfer *transfer)
{
	const struct destination *to = transfer->request->destination;
	struct transfer_here *here;

	if (to->kind != URL_LOCAL)
		return NULL;
	here = xcalloc(1, sizeof(*here));
	here->repo = (struct repo)REPO_INIT;
	snprintf(here->owner, sizeof(here->owner), "refrelay-push-%s", to->uri_key);
	recover(here, to->path);
	transfer->is_seen = look(transfer, here);
	if (transfer->is_seen)
		return here;
	ref_snapshot_clear(&transfer->seen);
	transfer_here_close(here);
	return NULL;
}

void transfer_here_close(struct transfer_here *here)
{
	if (!here)
		return;
	repo_close(&here->repo);
	free(here);
}

/*
 * What can be done here.
 */

struct here_push {
	struct transfer *transfer;
	struct transfer_here *here;
	struct object_store *store; /* the local repository's */
	push_items items;           /* that are written here */
	oid_list tips, known, added;
};

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

/* Adds those parents that were not met yet. False: it cannot be read as a commit. */
static bool add_parents(struct object_store *store, const struct oid *commit,
			struct map *met, oid_list *list)
{
	AUTO_OBJECT struct object object = { 0 };
	char text[OID_MAX_TEXT];
	struct oid parent;

	if (object_store_read(store, commit, &object, ERR_IGNORED) != 0 ||
	    object.kind != OBJECT_COMMIT)
		return false;
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

	vec_add(&list, *new);
	for (size_t i = 0; i < list.count && i < ANCESTORS_MOST && is_good; i++) {
		struct oid commit = list.items[i];
		is_found = compare_oids(&commit, old) == 0;
		if (is_found)
			break;
		is_good = add_parents(store, &commit, &met, &list);
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
static bool is_allowed(const struct here_push *push, const struct push_item *item,
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

static void choose(struct here_push *push)
{
	struct transfer *transfer = push->transfer;

	for (size_t i = 0; i < transfer->items.count; i++) {
		struct push_item *item = &transfer->items.items[i];
		const struct ref *theirs =
			ref_snapshot_find(&transfer->seen, item->result.dst);
		if (item->state != ITEM_PLAIN || item->result.is_deletion)
			continue;
		if (theirs && oid_equal(&theirs->oid, &item->value.oid)) {
			item_settle(item, REF_UP_TO_DATE, NULL);
		} else if (push->items.count < REFS_MOST &&
			   is_allowed(push, item, theirs)) {
			vec_add(&push->items, item);
			vec_add(&push->tips, item->value.oid);
		}
	}
}

/* Those of the refs that change come first; of very many others some will do. */
static void tell_known(struct here_push *push)
{
	const struct ref_snapshot *seen = &push->transfer->seen;

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
static bool is_small(const struct here_push *push)
{
	uint64_t size, sum = 0;
	enum object_kind kind;

	if (push->added.count > HERE_OBJECTS_MOST)
		return false;
	for (size_t i = 0; i < push->added.count; i++) {
		if (object_store_look(push->store, &push->added.items[i], &kind, &size,
				      ERR_IGNORED) != 0 ||
		    size > BYTES_MOST - sum)
			return false;
		sum += size;
	}
	return true;
}

static bool find_added(struct here_push *push)
{
	const struct new_objects_request request = { .store = push->store,
						     .tips = &push->tips,
						     .known = &push->known,
						     .most = READ_MOST,
						     .most_bytes = BYTES_MOST };

	tell_known(push);
	return new_objects_list(&request, &push->added, ERR_IGNORED) == 1 &&
	       is_small(push);
}

static int write_refs(struct here_push *push, struct err *err)
{
	const struct foreign_refs *refs = &push->here->refs;
	size_t written = 0;

	for (size_t i = 0; i < push->items.count; i++) {
		struct push_item *item = push->items.items[i];
		if (transfer_check_limits(push->transfer, err) != 0)
			return -1;
		if (!foreign_refs_write(refs, item->result.dst, &item->value.oid))
			continue;
		push->items.items[written++] = item;
	}
	for (size_t i = 0; i < written; i++) {
		const char *dst = push->items.items[i]->result.dst;
		if (foreign_refs_sync(refs, dst, err) != 0)
			return -1;
	}
	for (size_t i = 0; i < written; i++)
		item_settle(push->items.items[i], REF_OK, NULL);
	push->transfer->result->pushes += written > 0;
	return 0;
}

/* Nothing is settled before all is durable: else git finds it up to date. */
static int bring(struct here_push *push, struct err *err)
{
	if (!find_added(push) || transfer_check_limits(push->transfer, ERR_IGNORED) != 0)
		return 0;
	if (here_objects_place(push->store, &push->added, push->here->repo.fd,
			       &push->transfer->result->sent_bytes, ERR_IGNORED) != 0)
		return 0;
	failpoint("transfer_here.brought");
	return write_refs(push, err);
}

int transfer_here_push(struct transfer *transfer, struct transfer_here *here,
		       struct err *err)
{
	const char *path = transfer->request->repository;
	AUTO_REPO struct repo local = REPO_INIT;
	AUTO_OBJECT_STORE struct object_store *store = NULL;
	struct here_push push = { .transfer = transfer, .here = here };
	int result = 0;

	if (repo_open(AT_FDCWD, path, &local, ERR_IGNORED) != 0 ||
	    object_store_open(&local, &store, ERR_IGNORED) != 0)
		return 0;
	push.store = store;
	choose(&push);
	if (push.items.count > 0)
		result = bring(&push, err);
	vec_clear(&push.items);
	vec_clear(&push.tips);
	vec_clear(&push.known);
	vec_clear(&push.added);
	return result;
}
