/*
 * Whether the directory is still the store that it was. Where its file system is not
 * mounted there is a directory all the same, and what is put there would be seen by
 * nobody once it is mounted. So a store has a random id, which is compared whenever
 * another directory is met than before; and a site keeps the id of its store.
 */
#include "push/store_identity.h"

#include <sys/inotify.h>

#include "base/thread.h"
#include "push/store_file.h"

#define ID "refrelay/.id"
#define KNOWN "task-store" /* in site.data: id, LF, directory */

enum { ID_BYTES = 16, LIMIT = 8192 };

static int not_the_store(const char *directory, struct err *err)
{
	err_set(err, ERR_DISK, "%s is not the task store that it was", directory);
	return err_remedy(err, "is its file system mounted?");
}

/* 1; 0: it has none. */
static int read_id(const char *directory, struct str *id, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/" ID, directory);

	str_reset(id);
	if (file_read(AT_FDCWD, path, LIMIT, id, err) == 0)
		return 1;
	return err->class == ERR_MISSING ? 0 : -1;
}

static bool same_place(const struct place_identity *one, const struct stat *other)
{
	return one->device == other->st_dev && one->inode == other->st_ino;
}

/* Another directory: the store was moved, copied, mounted again, or it is none. */
static int store_identity_note_file(const struct task_store *store,
				    enum store_place place, const struct stat *st,
				    struct err *err)
{
	AUTO_STR struct str id = STR_INIT;
	struct place_identity *known = &store->identity->places[place];
	int found = read_id(store->directory, &id, err);

	if (found < 0)
		return -1;
	if (found == 0 || strcmp(id.data, store->identity->id) != 0)
		return not_the_store(store->directory, err);
	*known = (struct place_identity){ st->st_dev, st->st_ino };
	/* What is told of that is that all must be read again. */
	if (place == WAITING && store->watch >= 0)
		inotify_rm_watch(store->watch, store->identity->watched);
	return 0;
}

int store_identity_check(const struct task_store *store, enum store_place place, int dir,
			 struct err *err)
{
	struct store_identity *identity = store->identity;
	struct stat st;

	if (!identity)
		return 0;
	if (fstat(dir, &st) != 0)
		return err_errno(err, "cannot look at %s", store->paths[place]);

	AUTO_UNLOCK pthread_mutex_t *held = lock(&identity->mutex);
	if (same_place(&identity->places[place], &st))
		return 0;
	return store_identity_note_file(store, place, &st, err);
}

static int make_id(const struct task_store *store, struct err *err)
{
	AUTO_STR struct str id = STR_INIT;
	char text[2 * ID_BYTES + 1];

	random_hex(text, ID_BYTES);
	str_add(&id, text);
	return store_put_new(store,
			     &(struct new_file){ .place = STATES,
						 .name = ".id",
						 .content = &id,
						 .sync = FILE_SYNC },
			     err);
}

int store_identity_open(struct task_store *store, struct err *err)
{
	AUTO_STR struct str id = STR_INIT;
	struct store_identity *identity;
	struct stat st;
	int found = read_id(store->directory, &id, err);

	if (found == 0 && make_id(store, err) == 0)
		found = read_id(store->directory, &id, err);
	if (found <= 0)
		return -1;
	identity = xcalloc(1, sizeof(*identity));
	mutex_init(&identity->mutex);
	identity->id = str_take(&id);
	for (size_t i = 0; i < STORE_PLACES; i++)
		if (stat(store->paths[i], &st) == 0)
			identity->places[i] =
				(struct place_identity){ st.st_dev, st.st_ino };
	store->identity = identity;
	return 0;
}

void store_identity_close(struct task_store *store)
{
	if (!store->identity)
		return;
	pthread_mutex_destroy(&store->identity->mutex);
	free(store->identity->id);
	free(store->identity);
}

int task_store_recognize(const char *directory, const char *data, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/" KNOWN, data);
	AUTO_STR struct str known = STR_INIT, id = STR_INIT;
	char *line;

	if (file_read(AT_FDCWD, path, LIMIT, &known, err) != 0)
		return err->class == ERR_MISSING ? 0 : -1;
	line = strchr(known.data, '\n');
	if (!line || strcmp(line + 1, directory) != 0)
		return 0;
	*line = '\0';
	int found = read_id(directory, &id, err);
	if (found < 0 || (found > 0 && strcmp(id.data, known.data) == 0))
		return found < 0 ? -1 : 0;
	not_the_store(directory, err);
	return err_remedy(err,
			  "is its file system mounted? If it shall begin anew, "
			  "remove %s",
			  path);
}

int task_store_remember(const struct task_store *store, const char *data, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_FREE char *path = xasprintf("%s/" KNOWN, data);

	str_addf(&text, "%s\n%s", store->identity->id, store->directory);
	return file_replace(AT_FDCWD, path, text.data, text.len, FILE_SYNC, err);
}
