/* By stores, in whose repository stand packs that git accepts and hardly can read. */
#include "objects_test.h"

#include <sys/resource.h>

#include <git2.h>
#include <malloc.h>
#include <zlib.h>

#include "git/new_objects.h"
#include "git/object_memory.h"
#include "git/pack_delta.h"
#include "git/pack_put.h"
#include "git/small_pack.h"

#define MIB ((size_t)1 << 20)

static const char zeros[1 << 16];

/* Deflates that text, and then so many bytes of zero, without having them at once. */
static void add_zeros(struct str *out, const char *text, size_t len)
{
	z_stream stream = { .next_in = (Bytef *)(uintptr_t)text,
			    .avail_in = (uInt)strlen(text) };
	int result = Z_OK;

	assert_int_equal(deflateInit(&stream, Z_BEST_SPEED), Z_OK);
	while (result == Z_OK) {
		if (stream.avail_in == 0) {
			stream.next_in = (Bytef *)(uintptr_t)zeros;
			stream.avail_in =
				(uInt)(len < sizeof(zeros) ? len : sizeof(zeros));
			len -= stream.avail_in;
		}
		str_reserve(out, 4096);
		stream.next_out = (Bytef *)out->data + out->len;
		stream.avail_out = 4096;
		result = deflate(&stream, len == 0 ? Z_FINISH : Z_NO_FLUSH);
		out->len = (size_t)((char *)stream.next_out - out->data);
	}
	assert_int_equal(result, Z_STREAM_END);
	deflateEnd(&stream);
}

static void add_number(struct str *out, uint64_t number)
{
	for (; number > 0x7f; number >>= 7)
		str_add_char(out, (char)(number | 0x80));
	str_add_char(out, (char)number);
}

static void add_head(struct str *pack, unsigned kind, size_t size)
{
	str_add_char(pack, (char)(kind << 4 | (size & 15) | 0x80));
	add_number(pack, size >> 4);
}

/* Where it begins. */
static size_t add_whole(struct str *pack, enum object_kind kind, const char *text,
			size_t size)
{
	const size_t begin = pack->len;

	add_head(pack, kind, size);
	add_zeros(pack, text, size - strlen(text));
	return begin;
}

static void add_way_back(struct str *pack, uint64_t way)
{
	unsigned char bytes[10];
	size_t at = sizeof(bytes);

	bytes[--at] = way & 0x7f;
	while (way >>= 7)
		bytes[--at] = (unsigned char)(0x80 | (--way & 0x7f));
	str_add_bytes(pack, bytes + at, sizeof(bytes) - at);
}

/* On that one, whose first bytes it copies so often. */
static size_t add_delta(struct str *pack, size_t base, size_t base_size, uint32_t bytes,
			size_t times)
{
	const unsigned char copy[] = { 0xf0, (unsigned char)bytes,
				       (unsigned char)(bytes >> 8),
				       (unsigned char)(bytes >> 16) };
	const size_t begin = pack->len;
	AUTO_STR struct str delta = STR_INIT;

	add_number(&delta, base_size);
	add_number(&delta, bytes * times);
	for (size_t i = 0; i < times; i++)
		str_add_bytes(&delta, copy, sizeof(copy));
	add_head(pack, PACK_OFS_DELTA, delta.len);
	add_way_back(pack, begin - base);
	uLongf room = compressBound(delta.len);
	str_reserve(pack, room);
	assert_int_equal(compress2((Bytef *)pack->data + pack->len, &room,
				   (const Bytef *)delta.data, delta.len, 1),
			 Z_OK);
	pack->len += room;
	return begin;
}

static void keep_pack(struct str *pack)
{
	pack_put_trailer(pack, 0);
	assert_ok(
		file_replace(root_fd, "pack", pack->data, pack->len, FILE_NO_SYNC, &err));
	must("git -C w index-pack --stdin <pack >index");
}

/* So many on one; they are the first byte of it, the first two, and so on. */
static void keep_deltas(enum object_kind kind, const char *text, size_t size,
			uint32_t first, uint32_t count)
{
	AUTO_STR struct str pack = STR_INIT;

	pack_put_head(count + 1, &pack);
	const size_t base = add_whole(&pack, kind, text, size);
	for (uint32_t i = 0; i < count; i++)
		add_delta(&pack, base, size, first + i, 1);
	keep_pack(&pack);
}

static struct oid name_of(enum object_kind kind, const void *data, size_t len)
{
	struct oid oid;

	assert_ok(object_name(kind, data, len, &oid, &err));
	return oid;
}

static struct object_store *open_store_at(const char *path)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	struct object_store *store;

	open_at(path, &repo);
	assert_ok(object_store_open(&repo, &store, &err));
	return store;
}

static struct object_store *open_store(void)
{
	return open_store_at("w/.git");
}

static int read_one(struct object_store *store, const struct oid *oid)
{
	AUTO_OBJECT struct object object = { 0 };

	return object_store_read(store, oid, &object, &err);
}

static size_t most_memory(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (size_t)usage.ru_maxrss << 10;
}

TEST(a_small_delta_on_a_large_object_takes_no_memory)
{
	const struct oid small = name_of(OBJECT_BLOB, zeros, 2);
	const struct oid plain = name_of(OBJECT_BLOB, "one\n", 4);
	enum object_kind kind;
	uint64_t size;

	keep_deltas(OBJECT_BLOB, "", 256 * MIB, 1, 3);
	AUTO_OBJECT_STORE struct object_store *store = open_store();
	assert_ok(read_one(store, &plain));
	assert_ok(object_store_look(store, &small, &kind, &size, &err));
	assert_int_equal(size, 2);
	const size_t before = most_memory();
	assert_fails(read_one(store, &small), ERR_CONFIG);
	assert_true(most_memory() < before + 16 * MIB);
	/* nobody goes on with what git must read anyway */
	assert_fails(read_one(store, &plain), ERR_CONFIG);
	assert_fails(object_store_look(store, &plain, &kind, &size, &err), ERR_CONFIG);
	assert_false(object_store_has(store, &plain));
	AUTO_OBJECT_STORE struct object_store *again = open_store();
	assert_ok(read_one(again, &plain));
}

TEST(a_delta_on_what_is_not_that_large_is_read)
{
	const struct oid small = name_of(OBJECT_BLOB, zeros, 2);

	keep_deltas(OBJECT_BLOB, "", 8 * MIB, 1, 3);
	AUTO_OBJECT_STORE struct object_store *store = open_store();
	assert_ok(read_one(store, &small));
}

/* Else a thousand objects would take as many times what one may. */
TEST(all_that_is_read_has_a_bound)
{
	uint32_t done = 0;

	keep_deltas(OBJECT_BLOB, "", 12 * MIB, 1, 300);
	AUTO_OBJECT_STORE struct object_store *store = open_store();
	for (; done < 300; done++) {
		const struct oid oid = name_of(OBJECT_BLOB, zeros, done + 1);
		if (read_one(store, &oid) != 0)
			break;
	}
	assert_int_equal(err.class, ERR_CONFIG);
	assert_in_range(done, 20, 100);
}

/* What libgit2 cannot copy from its cache stays in there. */
TEST(what_is_in_the_cache_is_not_refused_in_between)
{
	const struct oid cached = name_of(OBJECT_BLOB, zeros, 8);
	AUTO_STR struct str pack = STR_INIT;
	AUTO_FREE char *large = xcalloc(1, MIB);
	const struct oid whole = name_of(OBJECT_BLOB, large, MIB);
	uint32_t done = 0;

	pack_put_head(82, &pack);
	const size_t small = add_whole(&pack, OBJECT_BLOB, "", MIB);
	add_delta(&pack, small, MIB, 8, 1);
	const size_t base = add_whole(&pack, OBJECT_BLOB, "", 12 * MIB);
	for (uint32_t i = 1; i < 80; i++)
		add_delta(&pack, base, 12 * MIB, 8 + i, 1);
	keep_pack(&pack);
	AUTO_OBJECT_STORE struct object_store *store = open_store();
	assert_ok(read_one(store, &cached));
	for (uint32_t i = 1; i < 80; i++) {
		const struct oid oid = name_of(OBJECT_BLOB, zeros, 8 + i);
		assert_ok(read_one(store, &oid));
	}
	git_error_clear();
	while (read_one(store, &whole) == 0)
		done++;
	assert_int_equal(err.class, ERR_CONFIG);
	assert_in_range(done, 20, 100);
	assert_true(!git_error_last() || git_error_last()->klass != GIT_ERROR_NOMEMORY);
}

/* So it is for each object of a chain. libgit2 forgets the base when a delta has no
 * memory. */
TEST(nothing_is_lost_when_a_delta_in_between_is_too_large)
{
	const struct oid small = name_of(OBJECT_BLOB, zeros, 2);
	AUTO_STR struct str pack = STR_INIT;

	pack_put_head(3, &pack);
	const size_t base = add_whole(&pack, OBJECT_BLOB, "", 2 * MIB);
	const size_t middle = add_delta(&pack, base, 2 * MIB, 1, 5 * MIB);
	add_delta(&pack, middle, 5 * MIB, 2, 1);
	keep_pack(&pack);
	for (int i = 0; i < 3; i++) {
		const struct mallinfo2 before = mallinfo2();
		AUTO_OBJECT_STORE struct object_store *store = open_store();
		assert_fails(read_one(store, &small), ERR_CONFIG);
		object_store_close(TAKE(store));
		const struct mallinfo2 after = mallinfo2();
		assert_true(after.uordblks + after.hblkhd <
			    before.uordblks + before.hblkhd + MIB);
	}
}

/* Packs of an alternate, and what libgit2 keeps of them, are the same for both. Of 1 MiB
 * it keeps just that. */
TEST(what_another_store_uses_is_not_freed)
{
	const struct oid small = name_of(OBJECT_BLOB, zeros, 2);
	AUTO_STR struct str pack = STR_INIT;
	AUTO_FREE char *large = xcalloc(20, MIB);

	pack_put_head(3, &pack);
	const size_t base = add_whole(&pack, OBJECT_BLOB, "", MIB);
	add_delta(&pack, base, MIB, MIB, 20);
	add_delta(&pack, base, MIB, 2, 1);
	keep_pack(&pack);
	must("git clone -q --bare -s w a.git && git clone -q --bare -s w b.git && "
	     "grep -q ^/ b.git/objects/info/alternates");
	AUTO_OBJECT_STORE struct object_store *other = open_store_at("b.git");
	AUTO_OBJECT_STORE struct object_store *store = open_store_at("a.git");
	const struct oid refused = name_of(OBJECT_BLOB, large, 20 * MIB);
	assert_fails(read_one(store, &refused), ERR_CONFIG);
	assert_ok(read_one(other, &small));
}

/* It is part of what lives on, as a cache. */
TEST(what_libgit2_makes_larger_is_not_freed)
{
	struct object_memory memory = { .most = 4 * MIB, .left = 64 * MIB };
	git_buf table = { 0 };

	object_store_close(open_store()); /* libgit2 is set up */
	object_memory_enter(&memory);
	assert_int_equal(git_buf_grow(&table, 2 * MIB), 0);
	assert_int_equal(git_buf_grow(&table, 3 * MIB), 0);
	object_memory_leave_failed(&memory);
	memset(table.ptr, 1, 3 * MIB);
	git_buf_dispose(&table);
}

/* What a walk meets there is no fault of the change. */
TEST(a_commit_made_of_a_large_one_is_for_git)
{
	AUTO_FREE char *tree = output_of("git -C w rev-parse 'main^{tree}'");
	AUTO_FREE char *text = xasprintf("tree %.40s\ncommitter c <c@c> 1700000000 "
					 "+0000\n\nc",
					 tree);
	const uint32_t len = (uint32_t)strlen(text);
	oid_list tips = { 0 }, known = { 0 }, list = { 0 };
	AUTO_STR struct str pack = STR_INIT;

	keep_deltas(OBJECT_COMMIT, text, 32 * MIB, len, 1);
	vec_add(&tips, name_of(OBJECT_COMMIT, text, len));
	assert_int_equal(list_in("w/.git", &tips, &known, MOST, &list), 0);
	AUTO_OBJECT_STORE struct object_store *store = open_store();
	assert_int_equal(small_pack_make(store, &tips, MOST_BYTES, &pack, &err), -1);
	assert_int_equal(err.class, ERR_CONFIG);
	assert_int_equal(pack.len, 0);
	vec_clear(&tips);
	vec_clear(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORK_CASE(a_small_delta_on_a_large_object_takes_no_memory),
		WORK_CASE(a_delta_on_what_is_not_that_large_is_read),
		WORK_CASE(all_that_is_read_has_a_bound),
		WORK_CASE(what_is_in_the_cache_is_not_refused_in_between),
		WORK_CASE(nothing_is_lost_when_a_delta_in_between_is_too_large),
		WORK_CASE(what_another_store_uses_is_not_freed),
		WORK_CASE(what_libgit2_makes_larger_is_not_freed),
		WORK_CASE(a_commit_made_of_a_large_one_is_for_git),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
