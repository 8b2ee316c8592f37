/*
 * Files and directories, always relative to a directory's descriptor (or AT_FDCWD), and
 * made durable on purpose: a rename is safe only after the file *and* its directory
 * were synced.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <fcntl.h>
#include <sys/stat.h>

#include "base/base.h"
#include "base/str.h"

enum file_sync {
	FILE_NO_SYNC, /* may be lost, or found empty, after a crash of the machine */
	FILE_ORDERED, /* ... but not before names that are made durable after it, where
			 the file system has one log (base/flush.h) */
	FILE_WHOLE,   /* after a crash it is the old file or the new one, whole */
	FILE_SYNC,    /* file and directory are on disk when the call returns */
};

/* Appends the whole file to *out. Never follows a symbolic link and never waits for a
 * pipe: anything but a regular file is ERR_CONFIG. More than `limit` bytes: ERR_CORRUPT;
 * *out is then as before. */
int file_read(int dir, const char *path, size_t limit, struct str *out, struct err *err);

/* The same for a file that the operator named: links and pipes are allowed. */
int file_read_any(int dir, const char *path, size_t limit, struct str *out,
		  struct err *err);

/* Writes all of it, however often write() must be called. */
int file_write_all(int fd, const void *data, size_t len, const char *path,
		   struct err *err);

/* Replaces path with this content by one rename: a reader sees the old file or the new
 * one. The mode stays that of the old file. The temporary file is "<path>.tmp-<random>"
 * beside it. */
int file_replace(int dir, const char *path, const void *data, size_t len,
		 enum file_sync sync, struct err *err);

/* The same for content whose length seldom changes, and of which a reader checks that it
 * is whole, or which it reads under a lock: on a local file system it is written over
 * what is there. Whoever is killed leaves the old content or the new one. A reader at
 * that very moment may see some of both, and so may all after a crash of the machine,
 * unless it lies in one sector (512 bytes). FILE_WHOLE is FILE_ORDERED here. Where it
 * cannot be done: file_replace(). */
#define FILE_OVERWRITE_MOST 4096
int file_overwrite(int dir, const char *path, const void *data, size_t len,
		   enum file_sync sync, struct err *err);

/* As file_replace(); a new file is accessible to its owner only. */
int file_replace_private(int dir, const char *path, const void *data, size_t len,
			 enum file_sync sync, struct err *err);

/* Whether path is the directory `above`, or below it; both absolute and resolved. */
bool path_is_below(const char *path, const char *above);

/* The same for paths below one root, which is "": contains all. */
bool path_is_within(const char *path, const char *above);

/* An absolute path with the links in its existing part resolved; the caller frees. */
char *path_resolve(const char *path);

/* ERR_CONFIG: one of two directories is the other or inside it. Symbolic links are
 * followed; parts that do not exist yet are compared by name. The names are for the
 * message. */
int paths_check_apart(const char *name, const char *path, const char *other_name,
		      const char *other, struct err *err);

/* Makes the name `path`, not what it points to, durable. */
int file_sync_parent(int dir, const char *path, struct err *err);

/* The same for it and for the directories above it. */
int file_sync_parents(int dir, const char *path, struct err *err);

/* Makes the names in a directory durable. */
int dir_sync(int dir, const char *path, struct err *err);

/* Flushes the content of one file to disk. */
int file_flush(int dir, const char *path, struct err *err);

/* Opens a directory (O_DIRECTORY | O_CLOEXEC); -1 with *err filled. */
int dir_open(int dir, const char *path, struct err *err);

/* Opens a directory for readdir(); NULL with errno set. Its descriptor is O_CLOEXEC. */
DIR *dir_list(int dir, const char *path);

/* Whether that error of dir_list() tells that there is no such directory. Any other tells
 * nothing of what is in it. */
bool dir_is_absent(int code);

/* Whether something has that name, be it a link to nothing. */
bool file_is_there(int dir, const char *path);

/* Whether path is the name of the file that is open as fd. False: errno may tell why. */
bool file_is_named(int dir, const char *path, int fd);

/* Whether it is the same file, and nobody has written to it since: nobody can set ctime
 * back. */
bool file_is_same(const struct stat *a, const struct stat *b);

/* Whether a file of that name, links followed, has content. */
bool file_is_filled(int dir, const char *path);

/* Whether it is one of the two names that each directory has. */
bool name_is_dots(const char *name);

/* Whether it has no other entries. False: ENOTEMPTY, or it cannot be opened. */
bool dir_is_empty(int dir, const char *path);

/* Whether an entry read from that directory is one itself, not a link to one; also on
 * file systems whose entries do not say so. */
bool dir_entry_is_directory(int dir, const struct dirent *entry);

/* Makes path and missing directories above it, mode 0777 less the umask. May exist
 * already. */
int dir_make(int dir, const char *path, struct err *err);

/* Makes the directories above path, not path itself. */
int dir_make_parents(int dir, const char *path, struct err *err);

/* Removes the empty directories above path, the last of them `up_to` (NULL: all that path
 * names). */
void dir_remove_above(int dir, const char *path, const char *up_to);

/* Removes path and all below it, also directories of ours that lack permission to enter;
 * never follows a symbolic link. May be absent. */
int tree_remove(int dir, const char *path, struct err *err);

/* Whether the file system is one that other hosts cannot write (not NFS and the like). */
bool file_system_is_local(int fd);

/* Fills text with 2 * bytes random hexadecimal digits and a NUL. */
void random_hex(char *text, size_t bytes);

/*
 * Untrusted paths below a root: checked on arrival, and opened so that they never lead
 * outside the root. Any thread.
 */

/* A folder at the root of a tree of repositories or blobs for refrelay's own files.
 * Replicables cannot be there. */
#define OWN_FOLDER ".refrelay"

/* In that folder: the clock by which the trash ages (base/seen_time.h). */
#define TRASH_CLOCK "trash.clock"

/* The fault of a path, in words that follow "NAME: "; NULL: it is UTF-8 without control
 * characters, its parts between slashes are not empty, "." or "..", it has at most 1024
 * bytes, and 250 a part, so that ".git" and a lock's ".lock" fit into 255. Static. */
const char *path_fault(const char *path);

/* Opens it without following any symbolic link on the way or at the end. For paths
 * without fault, or "". As open(): -1 with errno; ELOOP: a link is in the way. */
int path_open_beneath(int root, const char *path, int flags);

#endif
