/*
 * By libgit2's object database, without its repository: what that would read besides is
 * the configuration of users and of the machine, and whom the directory belongs to. So
 * it is for us to refuse what git would read in another way.
 *
 * It is opened by way of /proc/self/fd, by a descriptor of our own that stays open as
 * long: it names this directory, whatever becomes of the path. libgit2 tells packs of
 * different stores apart by these paths.
 *
 * An object is read within bounds of memory (git/object_memory.h). Where that is not
 * enough the store is spent: its database is closed, and all else is for git, too.
 *
 * A pack that went away since its index was mapped is not looked for elsewhere by
 * libgit2, so whatever is not found is looked for in a database that was opened anew.
 */
#include "git/object_store.h"

#include <git2.h>
#include <pthread.h>

#include "base/file.h"
#include "git/object_memory.h"

#define ALTERNATES "objects/info/alternates"
#define CACHE_MOST ((ssize_t)16 << 20) /* of all stores together */
#define ALTERNATES_LIMIT ((size_t)64 << 10)
/* A small change has no larger objects, and few deltas on larger ones. */
#define BLOCK_MOST ((size_t)16 << 20)
/* To unpack one after the other, which takes seconds. */
#define MEMORY_MOST ((uint64_t)1 << 30)
/* With which no read begins: libgit2 copies what it has in the cache of a pack, and when
 * it gets no block for that, the cache, which others may use, holds it for ever. */
#define MEMORY_LEAST ((uint64_t)2 << 20)

struct object_store {
	int fd;       /* the repository's directory */
	char *path;   /* of its objects, by fd */
	git_odb *odb; /* NULL: the store is spent */
	struct object_memory memory;
	const struct git_work *work;    /* borrowed; may be NULL */
	const struct object_lent *lent; /* borrowed */
	size_t lent_count;
};

/* The one place where its errors become ours. */
static int object_store_fail(struct err *err, enum err_class class, const char *what)
{
	const git_error *last = git_error_last();

	return err_set(err, class, "%s: %s", what,
		       last && last->message ? last->message : "libgit2 gives no reason");
}

/* Nothing of users or of the machine is read. A store keeps small commits and trees that
 * it read, which are listed first and packed then; that is libgit2's own choice. */
static void object_store_begin(void)
{
	static const int levels[] = { GIT_CONFIG_LEVEL_PROGRAMDATA,
				      GIT_CONFIG_LEVEL_SYSTEM, GIT_CONFIG_LEVEL_XDG,
				      GIT_CONFIG_LEVEL_GLOBAL };

	object_memory_install();
	if (git_libgit2_init() < 0)
		abort();
	for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
		git_libgit2_opts(GIT_OPT_SET_SEARCH_PATH, levels[i], "");
	git_libgit2_opts(GIT_OPT_SET_CACHE_MAX_SIZE, CACHE_MOST);
}

static void object_store_begin_once(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, object_store_begin);
}

static int object_store_refuse(const char *what, struct err *err)
{
	return err_set(err, ERR_CONFIG, "only git reads a repository with %s", what);
}

/* libgit2 takes others for paths of this process, and follows no relative ones that are
 * in alternates themselves. */
static int check_alternate(int objects, const char *line, struct err *err)
{
	if (!*line || *line == '#')
		return 0;
	if (*line != '/' && *line != '.')
		return object_store_refuse("alternates of that form", err);
	AUTO_CLOSE int fd = openat(objects, line, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && file_is_filled(fd, "info/alternates"))
		return object_store_refuse("alternates of alternates", err);
	return 0;
}

static int check_alternates(const struct repo *repo, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	char *line, *rest;

	if (!file_is_filled(repo->fd, ALTERNATES))
		return 0;
	if (file_read(repo->fd, ALTERNATES, ALTERNATES_LIMIT, &text, err) != 0)
		return -1;
	AUTO_CLOSE int objects = dir_open(repo->fd, "objects", err);
	if (objects < 0)
		return -1;
	rest = text.data;
	while ((line = strsep(&rest, "\n")) != NULL)
		if (check_alternate(objects, line, err) != 0)
			return -1;
	return 0;
}

int object_store_check(const struct repo *repo, struct err *err)
{
	if (repo->oid_len != GIT_OID_RAWSZ)
		return object_store_refuse("SHA-256", err);
	if (repo->is_shallow || file_is_filled(repo->fd, "shallow"))
		return object_store_refuse("a cut history", err);
	if (repo->is_partial)
		return object_store_refuse("objects that are missing on purpose", err);
	if (file_is_filled(repo->fd, "info/grafts"))
		return object_store_refuse("grafts", err);
	return check_alternates(repo, err);
}

int object_store_open(const struct repo *repo, struct object_store **store,
		      struct err *err)
{
	struct object_store *made;

	*store = NULL;
	if (object_store_check(repo, err) != 0)
		return -1;
	object_store_begin_once();
	made = xcalloc(1, sizeof(*made));
	made->memory = (struct object_memory){ .most = BLOCK_MOST, .left = MEMORY_MOST };
	made->fd = fcntl(repo->fd, F_DUPFD_CLOEXEC, 0);
	made->path = xasprintf("/proc/self/fd/%d/objects", made->fd);
	if (made->fd < 0)
		err_errno(err, "cannot open the repository's objects");
	else if (git_odb_open(&made->odb, made->path) != 0)
		object_store_fail(err, ERR_CONFIG, "cannot open objects");
	else
		*store = made;
	if (!*store)
		object_store_close(made);
	return *store ? 0 : -1;
}

void object_store_close(struct object_store *store)
{
	int saved = errno;

	if (!store)
		return;
	git_odb_free(store->odb);
	if (store->fd >= 0)
		close(store->fd); /* after the database: see above */
	free(store->path);
	free(store);
	errno = saved;
}

void object_store_clear(struct object_store *const *store)
{
	object_store_close(*store);
}

/* Both databases are open for a moment, so that packs which stay are not opened anew. */
static bool object_store_renew(struct object_store *store)
{
	git_odb *odb = NULL;

	if (git_odb_open(&odb, store->path) != 0)
		return false;
	git_odb_free(store->odb);
	store->odb = odb;
	return true;
}

static git_oid object_store_id(const struct oid *oid)
{
	git_oid id;

	git_oid_fromraw(&id, oid->bytes);
	return id;
}

static enum object_kind object_store_kind(git_object_t type)
{
	return type >= GIT_OBJECT_COMMIT && type <= GIT_OBJECT_TAG
		       ? (enum object_kind)type
		       : OBJECT_NONE;
}

void object_store_lend(struct object_store *store, const struct object_lent *objects,
		       size_t count)
{
	store->lent = objects;
	store->lent_count = count;
}

static int compare_lent(const void *key, const void *item)
{
	return oid_compare(key, &((const struct object_lent *)item)->oid);
}

static const struct object_lent *object_store_find_lent(const struct object_store *store,
							const struct oid *oid)
{
	return store->lent_count == 0 ? NULL
				      : bsearch(oid, store->lent, store->lent_count,
						sizeof(*store->lent), compare_lent);
}

void object_release(struct object *object)
{
	git_odb_object_free(object->handle);
	*object = (struct object){ 0 };
}

static int not_readable(const struct oid *oid, int result, struct err *err)
{
	char text[OID_MAX_TEXT];

	if (result == GIT_ENOTFOUND)
		return err_set(err, ERR_MISSING, "object %s is not there",
			       oid_text(oid, text));
	object_store_fail(err, ERR_CORRUPT, "cannot read");
	return err_prefix(err, "object %s", oid_text(oid, text));
}

void object_store_obey(struct object_store *store, const struct git_work *work)
{
	store->work = work;
}

static int object_store_spent(const struct oid *oid, struct err *err)
{
	char text[OID_MAX_TEXT];

	return err_set(err, ERR_CONFIG,
		       "object %s takes much memory or time: only git reads it",
		       oid_text(oid, text));
}

static int object_store_may_go_on(const struct object_store *store, const struct oid *oid,
				  struct err *err)
{
	if (!store->odb || store->memory.left < MEMORY_LEAST)
		return object_store_spent(oid, err);
	return store->work ? git_work_check(store->work, err) : 0;
}

static int object_store_unpack(struct object_store *store, const git_oid *id,
			       git_odb_object **found)
{
	int result;

	object_memory_enter(&store->memory);
	result = git_odb_read(found, store->odb, id);
	if (result == 0 || !store->memory.was_refused) {
		object_memory_leave(&store->memory);
		return result;
	}
	git_odb_free(store->odb);
	store->odb = NULL;
	object_memory_leave_failed(&store->memory);
	return result;
}

int object_store_read(struct object_store *store, const struct oid *oid,
		      struct object *object, struct err *err)
{
	const struct object_lent *lent = object_store_find_lent(store, oid);
	const git_oid id = object_store_id(oid);
	git_odb_object *found = NULL;
	int result;

	*object = (struct object){ 0 };
	if (lent) {
		*object = (struct object){ lent->kind, lent->data, lent->len, NULL };
		return 0;
	}
	if (object_store_may_go_on(store, oid, err) != 0)
		return -1;
	result = object_store_unpack(store, &id, &found);
	if (result != 0 && store->odb && object_store_renew(store))
		result = object_store_unpack(store, &id, &found);
	if (!store->odb)
		return object_store_spent(oid, err);
	if (result != 0)
		return not_readable(oid, result, err);
	*object = (struct object){ object_store_kind(git_odb_object_type(found)),
				   git_odb_object_data(found), git_odb_object_size(found),
				   found };
	return 0;
}

int object_store_look(struct object_store *store, const struct oid *oid,
		      enum object_kind *kind, uint64_t *size, struct err *err)
{
	const struct object_lent *lent = object_store_find_lent(store, oid);
	const git_oid id = object_store_id(oid);
	git_object_t type = GIT_OBJECT_INVALID;
	size_t len = 0;
	int result;

	if (lent) {
		*kind = lent->kind;
		*size = lent->len;
		return 0;
	}
	if (object_store_may_go_on(store, oid, err) != 0)
		return -1;
	result = git_odb_read_header(&len, &type, store->odb, &id);
	if (result != 0 && object_store_renew(store))
		result = git_odb_read_header(&len, &type, store->odb, &id);
	if (result != 0)
		return not_readable(oid, result, err);
	*kind = object_store_kind(type);
	*size = len;
	return 0;
}

bool object_store_has(struct object_store *store, const struct oid *oid)
{
	enum object_kind kind;
	uint64_t size;

	return object_store_look(store, oid, &kind, &size, ERR_IGNORED) == 0;
}

int object_name(enum object_kind kind, const void *data, size_t len, struct oid *oid,
		struct err *err)
{
	git_oid id;

	object_store_begin_once();
	if (git_odb_hash(&id, data, len, (git_object_t)kind) != 0)
		return object_store_fail(err, ERR_CORRUPT, "an object is refused");
	*oid = (struct oid){ .len = GIT_OID_RAWSZ };
	memcpy(oid->bytes, id.id, GIT_OID_RAWSZ);
	return 0;
}
