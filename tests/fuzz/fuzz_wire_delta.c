/*
 * libFuzzer: any answer with a difference is refused with an error and nothing is left of
 * it, or read; the refs that it makes of a base are sorted, each name once and valid, and
 * have the checksum that it claims. A fuzzer finds no checksums: so the one that is right
 * is put in the place of "SUM".
 */
#include <assert.h>

#include "wire/wire_refs.h"

static const char none[] =
	"1-0000000000000000000000000000000000000000000000000000000000000000";

static void put_sum(const char *data, size_t len, const char *sum, struct str *out)
{
	const char *at = memmem(data, len, "SUM", 3);

	str_reset(out);
	if (!at) {
		str_add_bytes(out, data, len);
		return;
	}
	str_add_bytes(out, data, (size_t)(at - data));
	str_add(out, sum);
	str_add_bytes(out, at + 3, len - (size_t)(at + 3 - data));
}

static void assert_tidy(const struct wire_refs *refs)
{
	const struct ref_snapshot *all = &refs->refs;
	struct checksum sum;
	char text[CHECKSUM_TEXT_SIZE];

	for (size_t i = 0; i < all->refs.count; i++) {
		const struct ref *ref = &all->refs.items[i];
		assert(ref_name_is_valid(ref->name));
		assert(ref->target ? ref->target[0] : ref->oid.len == refs->oid_len);
		assert(ref_snapshot_find(all, ref->name) == ref);
	}
	assert(all->head_target || all->head_oid.len == refs->oid_len);
	assert(refs->generation > 0 && wire_is_id(refs->timeline));
	checksum_of(all, &sum);
	checksum_format(&sum, text);
	assert(strcmp(text, refs->checksum) == 0);
}

/* The checksum that the parser would have liked, from its error. */
static bool wanted_sum(const struct err *err, char sum[CHECKSUM_TEXT_SIZE])
{
	const char *at = strstr(err->text, "checksum is ");

	if (!at || strlen(at) < 12 + CHECKSUM_TEXT_SIZE)
		return false;
	memcpy(sum, at + 12, CHECKSUM_TEXT_SIZE - 1);
	sum[CHECKSUM_TEXT_SIZE - 1] = '\0';
	return true;
}

static void make_base(struct ref_snapshot *base, struct checksum *sum)
{
	static const char *const names[] = { "refs/heads/a", "refs/heads/main",
					     "refs/tags/v" };

	*base = (struct ref_snapshot){ .head_target = xstrdup("refs/heads/main") };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct ref ref = { .name = names[i] };
		ref.oid.len = 20;
		ref.oid.bytes[0] = (unsigned char)(i + 1);
		vec_add(&base->refs, ref);
	}
	checksum_of(base, sum);
}

static int parse(const struct str *body, struct wire_refs *refs, struct err *err)
{
	AUTO_STR struct str pack = STR_INIT;
	struct ref_snapshot base;
	struct checksum sum;
	const struct wire_delta_base from = { .refs = &base, .sum = &sum, .oid_len = 20 };

	make_base(&base, &sum);
	int result = wire_delta_parse(body, &from, refs, &pack, err);
	assert(base.refs.count == 0 && pack.len <= body->len);
	return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_STR struct str body = STR_INIT;
	struct wire_refs refs;
	struct err err = { 0 };
	char sum[CHECKSUM_TEXT_SIZE];

	put_sum((const char *)data, len, none, &body);
	int result = parse(&body, &refs, &err);
	if (result != 0 && wanted_sum(&err, sum)) {
		put_sum((const char *)data, len, sum, &body);
		result = parse(&body, &refs, &err);
	}
	if (result != 0) {
		assert(err.class == ERR_CORRUPT && refs.refs.refs.count == 0);
		return 0;
	}
	assert_tidy(&refs);
	wire_refs_clear(&refs);
	return 0;
}
