/*
 * What the tests of arriving blobs share.
 */
#ifndef UNIT_BLOB_INCOMING_TEST_H
#define UNIT_BLOB_INCOMING_TEST_H

#include "test.h"

#include <dirent.h>

#include "blob/incoming.h"

static char type[] = "uploads";
static const struct blob_kind kind = { .type = type };

static inline struct blob_incoming *open_one(const char *id, uint64_t size,
					     const char *resume)
{
	struct blob_incoming *incoming;

	assert_ok(blob_incoming_open(&(struct blob_incoming_request){ .root = root_fd,
								      .type = type,
								      .id = id,
								      .size = size,
								      .resume = resume },
				     &incoming, &err));
	return incoming;
}

static inline int try_open(const char *id, uint64_t size)
{
	struct blob_incoming *incoming;
	int result = blob_incoming_open(
		&(struct blob_incoming_request){
			.root = root_fd, .type = type, .id = id, .size = size },
		&incoming, &err);

	assert_true(result == 0 || !incoming);
	blob_incoming_close(incoming, true);
	return result;
}

static inline void add_text(blob_arrivals *arrivals, const char *id, const char *text)
{
	char digest[BLOB_DIGEST_SIZE];
	struct blob_arrival arrival = { .incoming = open_one(id, strlen(text), NULL) };

	assert_ok(blob_incoming_write(arrival.incoming, text, strlen(text), &err));
	assert_ok(blob_incoming_digest(arrival.incoming, digest, &err));
	vec_add(arrivals, arrival);
}

static inline int bring(const char *id, const char *text)
{
	blob_arrivals arrivals = { 0 };

	add_text(&arrivals, id, text);
	int result = blob_arrivals_commit(root_fd, &arrivals, &err);
	if (result == 0 && arrivals.items[0].failed) {
		err = arrivals.items[0].why;
		result = -1;
	}
	vec_clear(&arrivals);
	return result;
}

static inline bool holds(const char *id, const char *text)
{
	AUTO_STR struct str content = STR_INIT;

	return file_read(root_fd, id, 1 << 20, &content, ERR_IGNORED) == 0 &&
	       strcmp(content.data, text) == 0;
}

static inline void put(const char *path)
{
	assert_ok(dir_make_parents(root_fd, path, &err));
	assert_ok(file_replace(root_fd, path, "x", 1, FILE_NO_SYNC, &err));
}

static inline size_t count_in(const char *path)
{
	AUTO_CLOSEDIR DIR *dir = dir_list(root_fd, path);
	struct dirent *entry;
	size_t count = 0;

	while (dir && (entry = readdir(dir)) != NULL)
		count += entry->d_name[0] != '.';
	return count;
}

static inline void expire(int64_t older_ms)
{
	const struct blob_kind here = { .type = type, .path = root };

	blob_incoming_expire(&here, older_ms);
}

static inline size_t left_over(void)
{
	return count_in(".refrelay/incoming");
}

static inline off_t size_of(const char *path)
{
	struct stat st;

	return fstatat(root_fd, path, &st, 0) == 0 ? st.st_size : -1;
}

#endif
