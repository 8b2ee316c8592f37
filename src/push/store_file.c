#include "push/store_file.h"

#include <dirent.h>
#include <sys/inotify.h>

#include "base/file.h"
#include "base/flush.h"
#include "base/log.h"
#include "base/thread.h"
#include "push/task_list.h"
#include "push/task_parts.h"

/*
 * Whether the directory is still the store that it was. Where its file system is not
 * mounted there is a directory all the same, and what is put there would be seen by
 * nobody once it is mounted. So a store has a random id, which is compared whenever
 * another directory is met than before; and a site keeps the id of its store.
 */

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

/* ERR_DISK: this directory, which was just opened, is not of the store. */
static int store_identity_check(const struct task_store *store, enum store_place place,
				int dir, struct err *err)
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
	return err_remedy(err, "is its file system mounted? To start over, remove %s",
			  path);
}

int task_store_remember(const struct task_store *store, const char *data, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_FREE char *path = xasprintf("%s/" KNOWN, data);

	str_addf(&text, "%s\n%s", store->identity->id, store->directory);
	return file_replace(AT_FDCWD, path, text.data, text.len, FILE_SYNC, err);
}

/*
 * Files in the task store that are no tasks.
 */

void unreadable_add(struct unreadable *unreadable, const char *path, const char *name)
{
	if (unreadable->count++ == 0)
		snprintf(unreadable->example, sizeof(unreadable->example), "%s/%s", path,
			 name);
}

void unreadable_clear(struct unreadable *unreadable)
{
	vec_clear(&unreadable->waiting);
	*unreadable = (struct unreadable){ 0 };
}

static bool is_counted(const struct unreadable *unreadable, int dir, const char *name)
{
	struct stat st;

	if (unreadable->waiting.count == 0 ||
	    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return false;
	for (size_t i = 0; i < unreadable->waiting.count; i++)
		if (unreadable->waiting.items[i] == st.st_ino)
			return true;
	return false;
}

int task_store_unreadable(struct task_store *store, struct unreadable *unreadable,
			  struct err *err)
{
	AUTO_TEXT_LIST text_list names = { 0 };
	AUTO_CLOSE int dir = store_dir(store, UNREADABLE, err);

	if (dir < 0 || store_list_files(dir, &names, err) != 0)
		return -1;
	for (size_t i = 0; i < names.count; i++)
		if (!is_counted(unreadable, dir, names.items[i]))
			unreadable_add(unreadable, store->paths[UNREADABLE],
				       names.items[i]);
	return 0;
}

static bool is_unreadable(int dir, const char *name)
{
	AUTO_TASK struct task task = { 0 };
	struct stat st;
	struct err err;

	return store_read_task(dir, name, &task, &st, &err) != 0 && is_no_task(&err);
}

static int drop_from(struct task_store *store, enum store_place place, size_t *dropped,
		     struct err *err)
{
	AUTO_TEXT_LIST text_list names = { 0 };
	AUTO_CLOSE int dir = store_dir(store, place, err);

	if (dir < 0 || store_list_files(dir, &names, err) != 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		if (place == WAITING && !is_unreadable(dir, names.items[i]))
			continue;
		if (unlinkat(dir, names.items[i], 0) == 0)
			(*dropped)++;
		else if (errno != ENOENT)
			return err_errno(err, "cannot remove %s/%s", store->paths[place],
					 names.items[i]);
	}
	return 0;
}

int task_store_drop_unreadable(struct task_store *store, size_t *dropped, struct err *err)
{
	*dropped = 0;
	if (drop_from(store, WAITING, dropped, err) != 0)
		return -1;
	return drop_from(store, UNREADABLE, dropped, err);
}

/* A caller must not take it for a missing repository. */
static int store_is_away(struct err *err)
{
	if (err->class != ERR_MISSING)
		return -1;
	err->class = ERR_DISK;
	return err_remedy(err, "is the file system of the task store mounted?");
}

/* One without a name: nothing can come into it. */
static int empty_dir(struct err *err)
{
	char path[] = "/tmp/refrelay-XXXXXX";
	int fd;

	if (!mkdtemp(path))
		return err_errno(err, "cannot make a directory in /tmp");
	fd = dir_open(AT_FDCWD, path, err);
	rmdir(path);
	return fd;
}

int store_dir(const struct task_store *store, enum store_place place, struct err *err)
{
	int fd = dir_open(AT_FDCWD, store->paths[place], err);

	if (fd < 0 && err->class == ERR_MISSING && store->is_reading)
		return empty_dir(err);
	if (fd < 0)
		return store_is_away(err);
	if (store_identity_check(store, place, fd, err) == 0)
		return fd;
	close(fd);
	return -1;
}

bool is_store_name(const char *name)
{
	return name[0] != '.' && name[0] != '\0' && !strchr(name, '/');
}

bool is_uri_key(const char *name)
{
	return strlen(name) == URI_KEY_SIZE - 1 &&
	       strspn(name, "0123456789abcdef") == URI_KEY_SIZE - 1;
}

void built_clear(struct built *built)
{
	int saved = errno;

	if (built->dir >= 0 && built->name[0])
		unlinkat(built->dir, built->name, 0);
	if (built->dir >= 0)
		close(built->dir);
	*built = (struct built)BUILT_INIT;
	errno = saved;
}

static int store_file_write_content(int fd, const struct new_file *file, struct err *err)
{
	struct timespec times[2] = {
		{ .tv_nsec = UTIME_OMIT },
		{ file->since_ms / 1000, file->since_ms % 1000 * 1000000 },
	};

	if (file_write_all(fd, file->content->data, file->content->len, file->name,
			   err) != 0)
		return -1;
	if (file->since_ms > 0 && futimens(fd, times) != 0)
		return err_errno(err, "cannot set the time of %s", file->name);
	if (file->sync == FILE_SYNC && fsync(fd) != 0)
		return err_errno(err, "cannot sync %s", file->name);
	return 0;
}

int store_build(const struct task_store *store, const struct new_file *file,
		struct built *built, struct err *err)
{
	char random[17];

	built_clear(built);
	built->dir = store_dir(store, BUILDING, err);
	if (built->dir < 0)
		return -1;
	random_hex(random, 8);
	snprintf(built->name, sizeof(built->name), "%s%s.tmp", file->name, random);
	AUTO_CLOSE int fd = openat(built->dir, built->name,
				   O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, "cannot create %s", built->name);
	if (store_file_write_content(fd, file, err) != 0)
		return -1;
	if (fstat(fd, &built->st) != 0)
		return err_errno(err, "cannot look at %s", built->name);
	return 0;
}

int store_sync_names(const struct task_store *store, enum store_place place, int dir,
		     struct err *err)
{
	if (flush_way_for(dir, 1) == FLUSH_JOURNAL || fsync(dir) == 0)
		return 0;
	return err_errno(err, "cannot sync %s", store->paths[place]);
}

int built_link(const struct built *built, int dir, const char *name, struct err *err)
{
	if (linkat(built->dir, built->name, dir, name, 0) == 0)
		return 1;
	if (errno == EEXIST)
		return 0;
	err_errno(err, "cannot make %s", name);
	return store_is_away(err);
}

int built_rename(struct built *built, int dir, const char *name, struct err *err)
{
	if (renameat(built->dir, built->name, dir, name) != 0) {
		err_errno(err, "cannot replace %s", name);
		return store_is_away(err);
	}
	built->name[0] = '\0';
	return 0;
}

static int sync_dir(int dir, const char *path, struct err *err)
{
	return fsync(dir) == 0 ? 0 : err_errno(err, "cannot sync directory %s", path);
}

int store_put(const struct task_store *store, const struct new_file *file,
	      struct err *err)
{
	AUTO_BUILT struct built built = BUILT_INIT;
	AUTO_CLOSE int dir = store_dir(store, file->place, err);

	if (dir < 0 || store_build(store, file, &built, err) != 0 ||
	    built_rename(&built, dir, file->name, err) != 0)
		return -1;
	return file->sync == FILE_SYNC ? sync_dir(dir, store->paths[file->place], err)
				       : 0;
}

int store_put_new(const struct task_store *store, const struct new_file *file,
		  struct err *err)
{
	AUTO_BUILT struct built built = BUILT_INIT;
	AUTO_CLOSE int dir = store_dir(store, file->place, err);

	if (dir < 0 || store_build(store, file, &built, err) != 0 ||
	    built_link(&built, dir, file->name, err) < 0)
		return -1;
	return sync_dir(dir, store->paths[file->place], err);
}

int store_rename(const struct task_store *store, enum store_place place, const char *from,
		 const char *to, struct err *err)
{
	AUTO_CLOSE int dir = store_dir(store, place, err);

	if (dir < 0)
		return -1;
	if (renameat(dir, from, dir, to) == 0)
		return sync_dir(dir, store->paths[place], err);
	return errno == ENOENT
		       ? 0
		       : err_errno(err, "cannot rename %s/%s", store->paths[place], from);
}

int store_remove(const struct task_store *store, enum store_place place, const char *name,
		 struct err *err)
{
	AUTO_CLOSE int dir = store_dir(store, place, err);

	if (dir < 0)
		return -1;
	if (unlinkat(dir, name, 0) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove %s/%s", store->paths[place], name);
	return 0;
}

static int store_file_list_entries(int dir, bool directories, text_list *names,
				   struct err *err)
{
	AUTO_CLOSEDIR DIR *listed = dir_list(dir, ".");
	struct dirent *entry;

	if (!listed)
		return err_errno(err, "cannot open a directory of the task store");
	while (errno = 0, (entry = readdir(listed)) != NULL)
		if (is_store_name(entry->d_name) &&
		    dir_entry_is_directory(dir, entry) == directories)
			vec_add(names, xstrdup(entry->d_name));
	return errno == 0 ? 0
			  : err_errno(err, "cannot list a directory of the task store");
}

int store_list_files(int dir, text_list *names, struct err *err)
{
	return store_file_list_entries(dir, false, names, err);
}

int store_list_dirs(int dir, text_list *names, struct err *err)
{
	return store_file_list_entries(dir, true, names, err);
}

int store_read_task(int dir, const char *name, struct task *task, struct stat *st,
		    struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	*task = (struct task){ 0 };
	if (strlen(name) > TASK_NAME_MAX)
		return err_set(err, ERR_CORRUPT, "no task: its name is too long");
	/* The time first: a file that is replaced in between is newer than we say. */
	if (fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) != 0)
		return err_errno(err, "cannot look at %s", name);
	if (file_read(dir, name, TASK_SIZE_MAX, &text, err) != 0)
		return -1;
	return task_read(text.data, text.len, task, err);
}

bool is_no_task(const struct err *err)
{
	return err->class == ERR_CORRUPT ||
	       (err->class == ERR_CONFIG && err->sys_errno == 0);
}

void store_set_aside(struct task_store *store, int dir, const char *name,
		     const struct err *why)
{
	struct err err;
	char random[9];
	AUTO_FREE char *other = NULL;
	AUTO_FREE char *path = NULL;
	const char *to = name;
	if (store->is_reading)
		return;
	AUTO_CLOSE int aside = store_dir(store, UNREADABLE, &err);

	if (aside >= 0 && file_is_there(aside, name)) {
		random_hex(random, 4);
		other = xasprintf("%.200s.%s", name, random);
		to = other;
	}
	if (aside >= 0 && renameat(dir, name, aside, to) != 0) {
		if (errno == ENOENT)
			return;
		err_errno(&err, "cannot move %s away", name);
	} else if (aside >= 0) {
		path = xasprintf("%s/%s", store->paths[UNREADABLE], to);
		log_error("task.set_aside", LOG_ERR(why), LOG_TEXT("file", name),
			  LOG_TEXT("to", path));
		return;
	}
	store_note_trouble(store, name, &err);
}

void store_note_trouble(struct task_store *store, const char *name, const struct err *why)
{
	if (task_index_trouble(&store->index, name))
		log_error("task.unreadable", LOG_ERR(why), LOG_TEXT("file", name));
}
