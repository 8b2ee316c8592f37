/*
 * A walk that began while a repository was still under its name proves nothing: it may
 * have been moved to where the walk had already been. So before a walk, the missing ones
 * are listed, and it answers for these alone: whoever asks for another one walks anew.
 *
 * That one was found can be checked, that it was not found cannot: it may have been
 * brought back from outside of the tree since. So an answer is kept no longer than twice
 * the time that it took: a thousand deletions are then a few walks, and the time in which
 * the tree may change is like that of a walk.
 */
#include "change/moved.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "base/thread.h"
#include "replicable/discover.h"
#include "replicable/locate.h"

#define PAGE 1000
#define KEPT_TIMES 2

/* A row that was missing. */
struct moved_row {
	char *name;
	char *now; /* the name it was found under; NULL: none */
};

struct moved {
	pthread_mutex_t mutex; /* guards what follows; not held by a walk */
	pthread_cond_t walked;
	bool is_walking;
	struct map rows; /* identity -> struct moved_row, owned; of the last walk */
	int64_t until;   /* boot ms: they are valid before that */
};

static void moved_row_free(struct moved_row *row)
{
	if (row) {
		free(row->name);
		free(row->now);
	}
	free(row);
}

static void moved_rows_clear(struct map *rows)
{
	const struct map_entry *entry;
	size_t at = 0;

	while ((entry = map_next(rows, &at)) != NULL)
		moved_row_free(entry->value);
	map_clear(rows);
}

struct moved *moved_new(void)
{
	struct moved *moved = xcalloc(1, sizeof(*moved));

	mutex_init(&moved->mutex);
	cond_init(&moved->walked);
	return moved;
}

void moved_free(struct moved *moved)
{
	if (!moved)
		return;
	moved_rows_clear(&moved->rows);
	pthread_cond_destroy(&moved->walked);
	pthread_mutex_destroy(&moved->mutex);
	free(moved);
}

static void moved_add_row(struct map *rows, const struct origin_row *row)
{
	struct moved_row *missing = xcalloc(1, sizeof(*missing));

	missing->name = xstrdup(row->name);
	moved_row_free(map_put(rows, row->identity, missing));
}

struct moved_walk {
	const struct origin_root *root;
	struct map rows; /* as those of struct moved */
	char *after;     /* owned; NULL: the beginning */
	origin_rows page;
};

static bool moved_is_missing(int root, const struct origin_row *row)
{
	struct stat st;

	return row->path && row->identity &&
	       fstatat(root, row->path, &st, AT_SYMLINK_NOFOLLOW) != 0 &&
	       (errno == ENOENT || errno == ENOTDIR);
}

static int moved_list_missing(struct moved_walk *walk, struct err *err)
{
	int result;

	do {
		result = origin_rows_read_page(walk->root->store, walk->root->kind,
					       walk->after, PAGE, &walk->page, err);
		for (size_t i = 0; i < walk->page.count && result == 0; i++)
			if (moved_is_missing(walk->root->fd, &walk->page.items[i]))
				moved_add_row(&walk->rows, &walk->page.items[i]);
		free(TAKE(walk->after));
		if (walk->page.count > 0)
			walk->after =
				xstrdup(walk->page.items[walk->page.count - 1].name);
	} while (result == 0 && walk->page.count == PAGE);
	origin_rows_clear(&walk->page);
	free(walk->after);
	return result;
}

/* 1: all of the tree was seen; 0: not all. */
static int moved_look_for(struct map *rows, const char *root, struct err *err)
{
	AUTO_DISCOVERY struct discovery discovery = { 0 };
	AUTO_CLOSE int fd = dir_open(AT_FDCWD, root, err);

	if (fd < 0 || discover(root, &discovery, err) != 0)
		return -1;
	for (size_t i = 0; i < discovery.found.count; i++) {
		const struct discovered *one = &discovery.found.items[i];
		AUTO_FREE char *identity = identity_of(fd, one->path);
		struct moved_row *row = identity ? map_get(rows, identity) : NULL;
		if (row && !row->now)
			row->now = xstrdup(one->name);
	}
	return discovery_is_complete(&discovery);
}

/* True: the last walk answers, *now as in struct moved_row, the caller frees. False: the
 * caller walks. */
static bool moved_recall(struct moved *moved, const struct origin_row *row, char **now)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&moved->mutex);
	const struct moved_row *known;

	while (moved->is_walking)
		cond_wait_until(&moved->walked, &moved->mutex, INT64_MAX);
	known = clock_boot_ms() < moved->until ? map_get(&moved->rows, row->identity)
					       : NULL;
	/* A row of another name may have had that directory since. */
	if (known && strcmp(known->name, row->name) == 0) {
		*now = known->now ? xstrdup(known->now) : NULL;
		return true;
	}
	moved->is_walking = true;
	return false;
}

static void moved_forget(struct moved *moved)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&moved->mutex);

	moved->until = 0;
}

/* Takes the rows. */
static void moved_end_walk(struct moved *moved, struct map *rows, int64_t until)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&moved->mutex);

	moved_rows_clear(&moved->rows);
	moved->rows = *rows;
	moved->until = until;
	moved->is_walking = false;
	pthread_cond_broadcast(&moved->walked);
}

static int moved_walk(struct moved *moved, const struct origin_root *root,
		      const struct origin_row *row, char **name, struct err *err)
{
	struct moved_walk walk = { .root = root };
	int64_t started = clock_boot_ms(), until = 0;
	int result = moved_list_missing(&walk, err);

	moved_add_row(&walk.rows, row);
	if (result == 0)
		result = moved_look_for(&walk.rows, root->path, err);
	if (result >= 0) {
		const struct moved_row *own = map_get(&walk.rows, row->identity);
		*name = own->now ? xstrdup(own->now) : NULL;
	}
	if (result > 0)
		until = clock_boot_ms() + KEPT_TIMES * (clock_boot_ms() - started);
	moved_end_walk(moved, &walk.rows, until);
	return result < 0 ? -1 : *name != NULL;
}

static bool moved_is_there(const struct origin_root *root, const char *name,
			   const char *identity)
{
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *its = NULL;

	if (locate_repository(root->fd, name, &path, ERR_IGNORED) > 0)
		its = identity_of(root->fd, path);
	return its && strcmp(its, identity) == 0;
}

int moved_find(struct moved *moved, const struct origin_root *root,
	       const struct origin_row *row, char **name, struct err *err)
{
	*name = NULL;
	while (moved_recall(moved, row, name)) {
		if (!*name || moved_is_there(root, *name, row->identity))
			return *name != NULL;
		free(TAKE(*name));
		moved_forget(moved);
	}
	return moved_walk(moved, root, row, name, err);
}
