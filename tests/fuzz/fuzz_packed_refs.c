/*
 * libFuzzer: any packed-refs is refused with an error, or read; what was read is sorted,
 * each name once and valid, and reads the same when it is written down again.
 *	clang -std=gnu17 -D_GNU_SOURCE -g -O1 -fsanitize=fuzzer,address,undefined -Isrc \
 *		tests/fuzz/fuzz_packed_refs.c
 *src/git/{oid,ref_name,ref_packed,ref_snapshot}.c \ src/base/{err,file,mem,str}.c
 */
#include <assert.h>

#include "git/refs.h"

/* The parser takes its text over, with room for a NUL behind it as file_read leaves. */
static int parse(const void *data, size_t len, size_t oid_len,
		 struct ref_snapshot *snapshot, struct err *err)
{
	char *text = xmalloc(len + 1);

	if (len > 0)
		memcpy(text, data, len);
	text[len] = '\0';
	return ref_parse_packed(snapshot, text, len, oid_len, err);
}

static void assert_tidy(const struct ref_snapshot *snapshot, size_t oid_len)
{
	for (size_t i = 0; i < snapshot->refs.count; i++) {
		const struct ref *ref = &snapshot->refs.items[i];
		assert(ref_name_is_valid(ref->name));
		assert(!ref->target && !ref->is_loose && ref->oid.len == oid_len);
		assert(!oid_is_null(&ref->oid));
		assert(ref_snapshot_find(snapshot, ref->name) == ref);
		assert(i == 0 || strcmp(snapshot->refs.items[i - 1].name, ref->name) < 0);
	}
}

static bool same_peel(const struct ref *one, const struct ref *two)
{
	return one->peel == two->peel &&
	       (one->peel != REF_PEEL_TAG || oid_equal(&one->peeled, &two->peeled));
}

/* When some peel is unknown, "it is no tag" is not written and so not read. */
static void assert_reads_the_same(const struct ref_snapshot *snapshot, size_t oid_len)
{
	AUTO_SNAPSHOT struct ref_snapshot again = REF_SNAPSHOT_INIT;
	AUTO_STR struct str text = STR_INIT;
	struct err err;
	int result;

	ref_write_packed(snapshot, &text);
	result = parse(text.data, text.len, oid_len, &again, &err);
	assert(result == 0);
	assert(again.refs.count == snapshot->refs.count);
	for (size_t i = 0; i < again.refs.count; i++) {
		const struct ref *one = &snapshot->refs.items[i];
		const struct ref *two = &again.refs.items[i];
		assert(strcmp(one->name, two->name) == 0);
		assert(oid_equal(&one->oid, &two->oid));
		assert(same_peel(one, two) ||
		       (one->peel == REF_PEEL_SELF && two->peel == REF_PEEL_UNKNOWN));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;
	size_t oid_len = len > 0 && data[0] == '!' ? 32 : 20;
	struct err err = { 0 };

	if (oid_len == 32) {
		data++;
		len--;
	}
	if (parse(data, len, oid_len, &snapshot, &err) != 0) {
		assert(err.class == ERR_CORRUPT && strstr(err.text, "packed-refs"));
		return 0;
	}
	assert_tidy(&snapshot, oid_len);
	assert_reads_the_same(&snapshot, oid_len);
	return 0;
}
