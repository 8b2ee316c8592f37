/*
 * Files are read, never mapped: what is cut under a mapping kills its reader. Lengths
 * are compared with the file's own before anything is reserved for them, and nothing is
 * believed until the digest is right.
 */
#include "serve/shelf_file.h"

#include "base/file.h"
#include "base/hash.h"

enum { PARTS = 4 };

static const char magic[8] = { 'r', 'r', 's', 'h', 'e', 'l', 'f', '\n' };

static void put_number(unsigned char *at, uint64_t value)
{
	for (size_t i = 0; i < 8; i++)
		at[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t disk_cache_file_get_number(const unsigned char *at)
{
	uint64_t value = 0;

	for (size_t i = 0; i < 8; i++)
		value |= (uint64_t)at[i] << (8 * i);
	return value;
}

uint64_t shelf_file_size(const struct generation_parts *parts)
{
	return (uint64_t)SHELF_FILE_HEADER + parts->capabilities.len +
	       parts->symbolic.len + parts->refs.len + parts->packed_refs.len;
}

static void disk_cache_file_compute_digest(const unsigned char *header,
					   const struct str *const *parts,
					   unsigned char *digest)
{
	AUTO_HASH struct hash hash;

	hash_init(&hash, HASH_SHA256);
	hash_add(&hash, header + SHELF_FILE_DIGESTED_AT,
		 SHELF_FILE_HEADER - SHELF_FILE_DIGESTED_AT);
	for (size_t i = 0; i < PARTS; i++)
		hash_add(&hash, parts[i]->data, parts[i]->len);
	hash_end(&hash, digest);
}

int shelf_file_write(int fd, const struct generation_parts *parts, struct err *err)
{
	const struct str *const list[PARTS] = { &parts->capabilities, &parts->symbolic,
						&parts->refs, &parts->packed_refs };
	unsigned char header[SHELF_FILE_HEADER] = { 0 };

	memcpy(header, magic, sizeof(magic));
	put_number(header + sizeof(magic), SHELF_FILE_VERSION);
	if (!text_from_hex(parts->name, header + SHELF_FILE_DIGESTED_AT, 32))
		return err_set(err, ERR_INTERNAL, "a generation has no name");
	for (size_t i = 0; i < PARTS; i++)
		put_number(header + SHELF_FILE_LENGTHS_AT + 8 * i, list[i]->len);
	disk_cache_file_compute_digest(header, list, header + SHELF_FILE_DIGEST_AT);
	if (file_write_all(fd, header, sizeof(header), "a cache file", err) != 0)
		return -1;
	for (size_t i = 0; i < PARTS; i++)
		if (file_write_all(fd, list[i]->data, list[i]->len, "a cache file",
				   err) != 0)
			return -1;
	return 0;
}

static int broken(const char *what, struct err *err)
{
	return err_set(err, ERR_CORRUPT, "a cache file is broken: %s", what);
}

static int read_exactly(int fd, void *buffer, size_t len, struct err *err)
{
	char *at = buffer;

	while (len > 0) {
		ssize_t got = read(fd, at, len);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_errno(err, "cannot read a cache file");
		if (got == 0)
			return broken("it was cut", err);
		at += got;
		len -= (size_t)got;
	}
	return 0;
}

static int disk_cache_file_check_header(const unsigned char *header, const char *name,
					uint64_t size, struct err *err)
{
	unsigned char expected[32];
	uint64_t left = size - SHELF_FILE_HEADER;

	if (memcmp(header, magic, sizeof(magic)) != 0 ||
	    disk_cache_file_get_number(header + sizeof(magic)) != SHELF_FILE_VERSION)
		return broken("it is of another kind", err);
	if (!text_from_hex(name, expected, sizeof(expected)) ||
	    memcmp(header + SHELF_FILE_DIGESTED_AT, expected, sizeof(expected)) != 0)
		return broken("it bears another's name", err);
	for (size_t i = 0; i < PARTS; i++) {
		uint64_t len = disk_cache_file_get_number(header + SHELF_FILE_LENGTHS_AT +
							  8 * i);
		if (len > left)
			return broken("it is too short", err);
		left -= len;
	}
	return left == 0 ? 0 : broken("it is too long", err);
}

static int read_header(int fd, const char *name, unsigned char *header, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return err_errno(err, "cannot look at a cache file");
	if (!S_ISREG(st.st_mode) || st.st_size < SHELF_FILE_HEADER ||
	    (uint64_t)st.st_size > SHELF_FILE_MAX)
		return broken("it has a wrong size", err);
	if (read_exactly(fd, header, SHELF_FILE_HEADER, err) != 0)
		return -1;
	return disk_cache_file_check_header(header, name, (uint64_t)st.st_size, err);
}

static int read_part(int fd, size_t len, struct str *part, struct err *err)
{
	str_reserve(part, len);
	if (read_exactly(fd, part->data, len, err) != 0)
		return -1;
	part->len = len;
	part->data[len] = '\0';
	return 0;
}

int shelf_file_read(int fd, const char *name, struct generation_parts *parts,
		    struct err *err)
{
	struct str *const list[PARTS] = { &parts->capabilities, &parts->symbolic,
					  &parts->refs, &parts->packed_refs };
	unsigned char header[SHELF_FILE_HEADER], digest[32];

	if (read_header(fd, name, header, err) != 0)
		return -1;
	for (size_t i = 0; i < PARTS; i++)
		if (read_part(fd,
			      disk_cache_file_get_number(header + SHELF_FILE_LENGTHS_AT +
							 8 * i),
			      list[i], err) != 0)
			return -1;
	disk_cache_file_compute_digest(header, (const struct str *const *)list, digest);
	if (memcmp(header + SHELF_FILE_DIGEST_AT, digest, sizeof(digest)) != 0)
		return broken("its digest is wrong", err);
	snprintf(parts->name, sizeof(parts->name), "%s", name);
	return 0;
}
