/*
 * In WAL mode a commit is what the header of the WAL index says: all processes map that
 * file (-shm), a writer sets the header as the last thing of its commit, and each reader
 * takes its picture from there. So the same header is the same picture, and one that
 * differs says no more than that somebody committed, or began the log anew. (SQLite's
 * PRAGMA data_version asks the same, but takes a connection and locks of files.)
 *
 * The header is 48 bytes: a counter of commits, the last frame with its checksum, the
 * salts of this log, a checksum of it all. It is there twice; the second is written
 * first. Copies that differ are a commit that is half told, or one whose process died,
 * which the next reader mends: nothing is known then.
 *
 * The mapping is SQLite's own, kept as long as any connection of this process is open. To
 * open the file once more would be dangerous: to close it drops this process's locks.
 *
 * Source: https://www.sqlite.org/walformat.html, 2.1 "The WAL-Index Header".
 */
#include "store/store_sqlite.h"

/* Of the mapping: SQLite asks for as much, and insists on it. */
#define REGION 32768

const volatile void *sqlite_stamp_header(struct store_conn *base)
{
	struct sqlite_conn *conn = (struct sqlite_conn *)base;
	sqlite3_file *file = NULL;
	volatile void *region = NULL;

	if (sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_FILE_POINTER, &file) !=
		    SQLITE_OK ||
	    !file || !file->pMethods || file->pMethods->iVersion < 2 ||
	    file->pMethods->xShmMap(file, 0, REGION, 0, &region) != SQLITE_OK)
		return NULL;
	return region;
}

bool sqlite_stamp_read(const volatile void *header, struct store_stamp *stamp)
{
	const volatile uint64_t *first = header;
	const volatile uint64_t *second = first + ARRAY_SIZE(stamp->words);
	bool is_same = true;

	for (size_t i = 0; i < ARRAY_SIZE(stamp->words); i++)
		stamp->words[i] = __atomic_load_n(&first[i], __ATOMIC_ACQUIRE);
	for (size_t i = 0; i < ARRAY_SIZE(stamp->words); i++)
		is_same &=
			__atomic_load_n(&second[i], __ATOMIC_ACQUIRE) == stamp->words[i];
	return is_same;
}
