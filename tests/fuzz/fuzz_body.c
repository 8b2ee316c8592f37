/*
 * libFuzzer: any bytes are refused as no gzip, cut gzip or too much, or they become a
 * body that is within its limit, and the same one in whatever pieces they come. The first
 * byte says how large the pieces are.
 */
#include <assert.h>
#include <sys/stat.h>

#include "base/file.h"
#include "web/request.h"

/* Above the size that is kept in memory, below what would make a fuzzer slow. */
#define LIMIT (WEB_BODY_MEMORY_MAX + ((uint64_t)256 << 10))

static char directory[] = "/tmp/refrelay-fuzz.XXXXXX";

static void remove_directory(void)
{
	tree_remove(AT_FDCWD, directory, ERR_IGNORED);
}

static int feed(struct body *body, const uint8_t *data, size_t len, size_t piece)
{
	struct err err = { 0 };
	int result = body_begin(body, WEB_BODY_FILE, "gzip", directory, &err);

	assert(result == 0);
	body->limit = LIMIT;
	while (result == 0 && len > 0) {
		size_t step = piece < len ? piece : len;
		result = body_add(body, data, step, &err);
		data += step;
		len -= step;
	}
	if (result == 0)
		result = body_end(body, &err);
	if (result != 0) {
		assert(body->refusal == 400 || body->refusal == 413);
		assert(err.class == ERR_CONFIG && err.text[0]);
	}
	assert(body->size <= LIMIT);
	return result;
}

static void read_all(const struct body *body, struct str *out)
{
	ssize_t got;

	assert((body->fd >= 0) == (body->size > WEB_BODY_MEMORY_MAX));
	if (body->fd < 0) {
		assert(body->memory.len == body->size);
		str_add_bytes(out, body->memory.data, body->memory.len);
		return;
	}
	str_reserve(out, body->size);
	got = pread(body->fd, out->data, body->size + 1, 0);
	assert(got == (ssize_t)body->size);
	out->len = body->size;
}

static void assert_same(const struct body *one, const struct body *other)
{
	AUTO_STR struct str left = STR_INIT;
	AUTO_STR struct str right = STR_INIT;

	read_all(one, &left);
	read_all(other, &right);
	assert(left.len == right.len && memcmp(left.data, right.data, left.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static bool is_made;
	struct body whole, pieces;

	if (!is_made && (!mkdtemp(directory) || atexit(remove_directory) != 0))
		abort();
	is_made = true;
	if (len == 0)
		return 0;
	size_t piece = (size_t)data[0] + 1;
	int result = feed(&whole, data + 1, len - 1, len);
	int again = feed(&pieces, data + 1, len - 1, piece);
	assert(result == again);
	if (result == 0)
		assert_same(&whole, &pieces);
	body_clear(&whole);
	body_clear(&pieces);
	return 0;
}
