/*
 * libFuzzer: any file of a disk cache is refused as corrupt, or read; what was read is as
 *long as the file, and what becomes a generation is written down as the same bytes. Each
 * input is tried as it is, and once more with the digest that it should have: nobody
 * guesses that.
 *	clang -std=gnu17 -D_GNU_SOURCE -g -O1 -fsanitize=fuzzer,address,undefined -Isrc \
 *		tests/fuzz/fuzz_disk_cache_file.c \
 *		src/serve/{generation,ref_list,ls_refs,disk_cache_file}.c
 *src/git/{pkt_line,ref_name}.c \ src/base/{err,file,hash,mem,str}.c -lcrypto -lz
 */
#include <assert.h>
#include <sys/mman.h>

#include "base/file.h"
#include "base/hash.h"
#include "serve/disk_cache.h"

#define NAME "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static void empty(int fd)
{
	if (ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0)
		abort();
}

static void put(int fd, const void *data, size_t len)
{
	empty(fd);
	if (file_write_all(fd, data, len, "input", ERR_IGNORED) != 0 ||
	    lseek(fd, 0, SEEK_SET) != 0)
		abort();
}

static void assert_is_written(int fd, const struct generation_parts *parts,
			      const void *data, size_t len)
{
	AUTO_STR struct str bytes = STR_INIT;
	struct err err;

	empty(fd);
	int result = disk_cache_file_write(fd, parts, &err);
	assert(result == 0 && disk_cache_file_size(parts) == len);
	str_reserve(&bytes, len);
	ssize_t got = pread(fd, bytes.data, len, 0);
	assert(got == (ssize_t)len && memcmp(bytes.data, data, len) == 0);
}

static void ask(struct generation *generation)
{
	static const struct ls_refs all = { .wants_peeled = true,
					    .wants_symrefs = true,
					    .wants_unborn = true };
	AUTO_STR struct str answer = STR_INIT;

	ref_list_answer(generation_refs(generation), &all, &answer);
	assert(answer.len >= 4);
	for (int protocol = 0; protocol <= 2; protocol++)
		assert(generation_info_refs(generation, protocol, true).len > 0);
	generation_compress(generation);
}

static void try(int fd, const void *data, size_t len)
{
	struct generation_parts parts = GENERATION_PARTS_INIT, borrowed;
	struct generation *generation;
	struct err err = { 0 };

	put(fd, data, len);
	if (disk_cache_file_read(fd, NAME, &parts, &err) != 0) {
		assert(err.class == ERR_CORRUPT);
		generation_parts_clear(&parts);
		return;
	}
	assert_is_written(fd, &parts, data, len);
	if (generation_new(&parts, &generation, &err) != 0) {
		assert(err.class == ERR_CORRUPT && parts.refs.len == 0);
		return;
	}
	generation_write(generation, &borrowed);
	assert_is_written(fd, &borrowed, data, len);
	ask(generation);
	generation_unref(generation);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_CLOSE int fd = memfd_create("shelf", MFD_CLOEXEC);
	AUTO_STR struct str input = STR_INIT;
	AUTO_HASH struct hash hash = { 0 };

	if (fd < 0)
		abort();
	try(fd, data, len);
	if (len < DISK_CACHE_FILE_HEADER)
		return 0;
	str_add_bytes(&input, data, len);
	hash_init(&hash, HASH_SHA256);
	hash_add(&hash, data + DISK_CACHE_FILE_DIGESTED_AT,
		 len - DISK_CACHE_FILE_DIGESTED_AT);
	hash_end(&hash, (unsigned char *)input.data + DISK_CACHE_FILE_DIGEST_AT);
	try(fd, input.data, input.len);
	return 0;
}
