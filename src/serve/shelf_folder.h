/*
 * The directory of a shelf: folders <hh> with files <62 digits> and temporary files.
 * Opened anew for each use, so that one that is replaced, mounted or made again is
 * followed. Nothing below it is reached through a symbolic link. Any thread, any
 * process.
 */
#ifndef SERVE_SHELF_FOLDER_H
#define SERVE_SHELF_FOLDER_H

#include <sys/stat.h>

#include "base/base.h"
#include "base/thread.h"
#include "serve/generation.h"

#define SHELF_TEMPORARY_SIZE 24

/* Opens the directory, and makes it if need be, with mode 0700. ERR_CONFIG: others than
 * its owner and group can write there. */
int shelf_directory_open(const char *directory, struct err *err);

/* Opens the folder of a generation's name, in which its file is named by the digits
 * behind the first two. ERR_MISSING: there is none. */
int shelf_folder_open(int dir, const char *name, struct err *err);

/* The same; makes it, with the directory's mode. */
int shelf_folder_make(int dir, const char *name, struct err *err);

/* Makes a file with a name that no other has, open for writing, with the mode of the
 * directory that it is in. The caller closes it, and renames or removes it. */
int shelf_temporary(int folder, char name[SHELF_TEMPORARY_SIZE], struct err *err);

/* The file server's time, in milliseconds since 1970, by a file that is made there. */
int shelf_now(int dir, int64_t *now_ms, struct err *err);

int64_t shelf_mtime_ms(const struct stat *st);

/* A regular file with a name of ours. */
struct shelf_found {
	int folder;       /* in which it is ... */
	const char *file; /* ... under this name */
	const char *name; /* of the generation; NULL: it is a temporary file */
	const struct stat *st;
};

struct shelf_walk {
	const struct stop *stop; /* may be NULL */
	int64_t rest_ms;         /* after each folder, if there is a stop */
	void (*show)(void *arg, const struct shelf_found *found);
	void *arg;
};

/* Shows every file; what has another name or type is passed over. ERR_CANCELED: it was
 * stopped. */
int shelf_walk(int dir, const struct shelf_walk *walk, struct err *err);

#endif
