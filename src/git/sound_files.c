#include "git/sound_files.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/thread.h"

#define FILES_MOST 65536

struct sound_file {
	struct timespec changed, modified;
	off_t size;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct map
	files; /* "device:inode" -> struct sound_file, owned; guarded by mutex */
static atomic_uint_fast64_t failures;

static char *sound_file_key(const struct stat *st)
{
	return xasprintf("%ju:%ju", (uintmax_t)st->st_dev, (uintmax_t)st->st_ino);
}

bool sound_file_is(const struct stat *st)
{
	AUTO_FREE char *key = sound_file_key(st);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&mutex);
	const struct sound_file *file = map_get(&files, key);

	return file && file->size == st->st_size &&
	       clock_same_time(&file->changed, &st->st_ctim) &&
	       clock_same_time(&file->modified, &st->st_mtim);
}

void sound_file_note(const struct stat *st)
{
	AUTO_FREE char *key = sound_file_key(st);
	struct sound_file *file;

	if (!S_ISREG(st->st_mode) || st->st_nlink < 2)
		return;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&mutex);
	if (files.count >= FILES_MOST)
		map_clear_owned(&files);
	file = map_get(&files, key);
	if (!file) {
		file = xcalloc(1, sizeof(*file));
		map_put(&files, key, file);
	}
	*file = (struct sound_file){ st->st_ctim, st->st_mtim, st->st_size };
}

void sound_file_forget(const struct stat *st)
{
	AUTO_FREE char *key = sound_file_key(st);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&mutex);

	free(map_remove(&files, key));
}

void sound_file_fail(const struct stat *st)
{
	sound_file_forget(st);
	if (st->st_nlink > 1)
		atomic_fetch_add(&failures, 1);
}

uint64_t sound_file_failures(void)
{
	return atomic_load(&failures);
}
