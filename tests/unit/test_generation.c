/*
 * What a generation answers is compared with what git says itself.
 */
#include "git_test.h"

#include <zlib.h>

#include "base/thread.h"
#include "generation_test.h"

static struct generation *generation;

static void assert_body(int protocol, bool accepts_gzip, const char *data, size_t len)
{
	struct generation_body body =
		generation_info_refs(generation, protocol, accepts_gzip);

	assert_false(body.is_gzip);
	assert_int_equal(body.len, len);
	assert_memory_equal(body.data, data, len);
}

static void read_output(const char *name, struct str *out)
{
	assert_ok(file_read(root_fd, name, 1 << 20, out, &err));
}

/* As git http-backend answers, without its headers. */
static void assert_as_backend(int protocol)
{
	AUTO_STR struct str theirs = STR_INIT;

	must("env GIT_PROJECT_ROOT=%s GIT_HTTP_EXPORT_ALL=1 REQUEST_METHOD=GET "
	     "PATH_INFO=/r.git/info/refs QUERY_STRING=service=git-upload-pack "
	     "GIT_PROTOCOL=version=%d git http-backend </dev/null >theirs",
	     root, protocol);
	must("sed -i '1,/^\\r$/d' theirs");
	read_output("theirs", &theirs);
	assert_body(protocol, true, theirs.data, theirs.len);
}

static struct generation *generation_of_git(void)
{
	static const char ask[] = "git upload-pack --http-backend-info-refs .";
	struct generation_parts parts = GENERATION_PARTS_INIT;
	struct generation *made = NULL;

	must("cd r.git && %s >../refs && GIT_PROTOCOL=version=2 %s >../caps", ask, ask);
	snprintf(parts.name, sizeof(parts.name), NAME_OF_ALL);
	read_output("refs", &parts.refs);
	read_output("caps", &parts.capabilities);
	str_add(&parts.symbolic, "HEAD refs/heads/main\n");
	assert_ok(generation_new(&parts, &made, &err));
	return made;
}

static void assert_all_as_backend(void)
{
	generation = generation_of_git();
	for (int protocol = 0; protocol <= 2; protocol++)
		assert_as_backend(protocol);
	assert_true(generation_shows_unborn(generation));
	assert_int_equal(generation_oid_digits(generation), 40);
	generation_unref(generation);
}

TEST(it_answers_what_http_backend_answers_under_each_protocol)
{
	char text[OID_MAX_TEXT];

	must("git -C r.git update-ref refs/heads/main %s", oid_text(&commits[3], text));
	must("git -C r.git update-ref refs/tags/v1 %s", oid_text(&tags[0], text));
	assert_all_as_backend();
}

TEST(an_empty_repository_is_answered_too)
{
	assert_all_as_backend();
}

TEST(protocol_1_is_made_once_and_stays)
{
	generation = generation_with(NAME_OF_ALL, 3);
	size_t size = generation_size(generation);
	struct generation_body one = generation_info_refs(generation, 1, false);
	struct generation_body again = generation_info_refs(generation, 1, true);

	assert_ptr_equal(one.data, again.data);
	assert_true(generation_size(generation) >= size + one.len);
	generation_unref(generation);
}

/* What it becomes when it is unpacked. */
static void unpack(struct generation_body body, struct str *out)
{
	z_stream stream = { .next_in = (unsigned char *)(uintptr_t)body.data,
			    .avail_in = (unsigned)body.len };

	str_reserve(out, 1 << 20);
	stream.next_out = (unsigned char *)out->data;
	stream.avail_out = 1 << 20;
	assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	assert_int_equal(stream.avail_in, 0);
	out->len = stream.total_out;
	inflateEnd(&stream);
}

TEST(gzip_is_laid_beside_and_given_to_who_accepts_it)
{
	AUTO_STR struct str unpacked = STR_INIT;

	generation = generation_with(NAME_OF_ALL, 5000);
	struct generation_body plain = generation_info_refs(generation, 0, true);
	assert_false(plain.is_gzip);
	size_t size = generation_size(generation);
	generation_compress(generation);
	struct generation_body packed = generation_info_refs(generation, 0, true);
	assert_true(packed.is_gzip);
	assert_true(packed.len < plain.len / 10 * 9);
	assert_true(generation_size(generation) > size);
	unpack(packed, &unpacked);
	assert_int_equal(unpacked.len, plain.len);
	assert_memory_equal(unpacked.data, plain.data, plain.len);
	assert_false(generation_info_refs(generation, 0, false).is_gzip);
	assert_false(generation_info_refs(generation, 1, true).is_gzip);
	assert_false(generation_info_refs(generation, 2, true).is_gzip);
	generation_unref(generation);
}

TEST(what_is_short_is_not_compressed)
{
	generation = generation_with(NAME_OF_ALL, 12);
	assert_true(generation_info_refs(generation, 0, true).len < 1024);
	generation_compress(generation);
	assert_false(generation_info_refs(generation, 0, true).is_gzip);
	generation_unref(generation);
}

/* One ref with a name of 2,000 random bytes: hardly a tenth can be saved. */
TEST(what_gzip_saves_too_little_of_is_not_kept)
{
	struct generation_parts parts = parts_with(NAME_OF_ALL, 0);
	AUTO_STR struct str name = STR_INIT;
	uint32_t random = 1;

	while (name.len < 2000) {
		random = random * 1664525 + 1013904223;
		char byte = (char)(random >> 24);
		if (!strchr(" \n\t~^:?*[\\/.", byte) && byte != '\0')
			str_add_char(&name, byte);
	}
	parts.refs.len -= 4;
	pkt_addf(&parts.refs, OID_1 " refs/heads/%s\n", name.data);
	pkt_add_flush(&parts.refs);
	assert_ok(generation_new(&parts, &generation, &err));
	generation_compress(generation);
	assert_false(generation_info_refs(generation, 0, true).is_gzip);
	generation_unref(generation);
}

TEST(written_and_made_again_it_is_the_same)
{
	struct generation_parts borrowed, parts = GENERATION_PARTS_INIT;
	struct generation *again = NULL;

	generation = generation_with(NAME_OF_ALL, 100);
	generation_compress(generation);
	generation_write(generation, &borrowed);
	memcpy(parts.name, borrowed.name, sizeof(parts.name));
	str_add_bytes(&parts.refs, borrowed.refs.data, borrowed.refs.len);
	str_add_bytes(&parts.capabilities, borrowed.capabilities.data,
		      borrowed.capabilities.len);
	str_add_bytes(&parts.symbolic, borrowed.symbolic.data, borrowed.symbolic.len);
	str_add_bytes(&parts.packed_refs, borrowed.packed_refs.data,
		      borrowed.packed_refs.len);
	generation_parts_clear(&borrowed); /* frees nothing */
	assert_ok(generation_new(&parts, &again, &err));
	assert_string_equal(generation_name(again), NAME_OF_ALL);
	for (int protocol = 0; protocol <= 2; protocol++) {
		struct generation_body one =
			generation_info_refs(generation, protocol, true);
		struct generation_body two = generation_info_refs(again, protocol, true);
		assert_int_equal(one.is_gzip, protocol == 0);
		assert_int_equal(two.is_gzip, one.is_gzip);
		assert_int_equal(two.len, one.len);
		assert_memory_equal(two.data, one.data, one.len);
	}
	assert_int_equal(ref_list_count(generation_refs(again)),
			 ref_list_count(generation_refs(generation)));
	generation_unref(again);
	generation_unref(generation);
}

static void set(struct str *str, const char *text)
{
	str_clear(str);
	str_add(str, text);
}

TEST(what_is_none_is_refused)
{
	static const char *const capabilities[] = {
		"",
		"0000",
		"000eversion 1\n0000",
		"000eversion 2\n",
		"000eversion 2\n0012ls-refs=unborn\n0000x",
		"000eversion 2\nffff",
	};
	static const char *const symbolic[] = {
		"HEAD",   "HEAD \n", " x\n",       "\n",
		"HEAD x", "HEAD\n",  "B x\nA y\n", "HEAD x\nHEAD y\n",
	};
	static const char *const refs[] = { "", "junk", "0004", "000e" };

	for (size_t i = 0; i < ARRAY_SIZE(capabilities); i++) {
		struct generation_parts parts = parts_with(NAME_OF_ALL, 2);
		set(&parts.capabilities, capabilities[i]);
		assert_fails(generation_new(&parts, &generation, &err), ERR_CORRUPT);
	}
	for (size_t i = 0; i < ARRAY_SIZE(symbolic); i++) {
		struct generation_parts parts = parts_with(NAME_OF_ALL, 2);
		set(&parts.symbolic, symbolic[i]);
		assert_fails(generation_new(&parts, &generation, &err), ERR_CORRUPT);
	}
	for (size_t i = 0; i < ARRAY_SIZE(refs); i++) {
		struct generation_parts parts = parts_with(NAME_OF_ALL, 2);
		set(&parts.refs, refs[i]);
		assert_fails(generation_new(&parts, &generation, &err), ERR_CORRUPT);
	}
}

TEST(capabilities_tell_the_hash_and_unborn)
{
	struct generation_parts parts = parts_with(NAME_OF_ALL, 0);

	str_clear(&parts.capabilities);
	pkt_addf(&parts.capabilities, "version 2\n");
	pkt_addf(&parts.capabilities, "ls-refs=other-unborn\n");
	pkt_addf(&parts.capabilities, "object-format=sha256\n");
	pkt_add_flush(&parts.capabilities);
	str_clear(&parts.refs);
	pkt_add_flush(&parts.refs);
	assert_ok(generation_new(&parts, &generation, &err));
	assert_false(generation_shows_unborn(generation));
	assert_int_equal(generation_oid_digits(generation), 64);
	generation_unref(generation);
}

enum { READERS = 3 };

static atomic_bool is_over;
static atomic_int begun; /* readers that have seen what is there before gzip */

/* What it saw of each: as it was then, not as it was made later. */
struct reader {
	pthread_t thread;
	struct generation *mine; /* a reference of its own */
	struct str plain, packed, one;
};

static bool save_first(struct generation_body body, struct str *seen)
{
	if (seen->data)
		return false;
	str_reserve(seen, body.len + 1);
	str_add_bytes(seen, body.data, body.len);
	return true;
}

/* Its last look is one after the end of the work. */
static void *read_always(void *arg)
{
	struct reader *reader = arg;
	bool is_last = false;

	while (!reader->packed.data && !is_last) {
		is_last = atomic_load(&is_over);
		struct generation_body body = generation_info_refs(reader->mine, 0, true);
		save_first(generation_info_refs(reader->mine, 1, false), &reader->one);
		if (body.is_gzip)
			save_first(body, &reader->packed);
		else if (save_first(body, &reader->plain))
			begun++;
	}
	generation_unref(reader->mine);
	return NULL;
}

static void assert_saw(const struct str *seen, int protocol, bool accepts_gzip)
{
	struct generation_body body =
		generation_info_refs(generation, protocol, accepts_gzip);

	assert_true(body.len > 1000);
	assert_int_equal(seen->len, body.len);
	assert_memory_equal(seen->data, body.data, body.len);
}

TEST(readers_see_gzip_whole_or_not_at_all)
{
	struct reader readers[READERS];

	generation = generation_with(NAME_OF_ALL, 20000);
	atomic_store(&is_over, false);
	begun = 0;
	for (size_t i = 0; i < READERS; i++) {
		readers[i] = (struct reader){ .mine = generation_ref(generation) };
		thread_start(&readers[i].thread, "reader", read_always, &readers[i]);
	}
	wait_until(begun == READERS);
	generation_compress(generation);
	assert_true(generation_info_refs(generation, 0, true).is_gzip);
	atomic_store(&is_over, true);
	for (size_t i = 0; i < READERS; i++) {
		thread_join(readers[i].thread);
		assert_saw(&readers[i].plain, 0, false);
		assert_saw(&readers[i].packed, 0, true);
		assert_saw(&readers[i].one, 1, false);
		str_clear(&readers[i].plain);
		str_clear(&readers[i].packed);
		str_clear(&readers[i].one);
	}
	generation_unref(generation);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GIT_CASE(it_answers_what_http_backend_answers_under_each_protocol),
		GIT_CASE(an_empty_repository_is_answered_too),
		cmocka_unit_test(protocol_1_is_made_once_and_stays),
		cmocka_unit_test(gzip_is_laid_beside_and_given_to_who_accepts_it),
		cmocka_unit_test(what_is_short_is_not_compressed),
		cmocka_unit_test(what_gzip_saves_too_little_of_is_not_kept),
		cmocka_unit_test(written_and_made_again_it_is_the_same),
		cmocka_unit_test(what_is_none_is_refused),
		cmocka_unit_test(capabilities_tell_the_hash_and_unborn),
		cmocka_unit_test(readers_see_gzip_whole_or_not_at_all),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
