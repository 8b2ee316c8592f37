/*
 * libFuzzer: of anything that a receive-pack says, cut into any pieces, the same passes
 * before the report and the same is understood; before the report only progress passes,
 * and in the end every byte. The first byte says where it is cut.
 */
#include <assert.h>

#include "serve/receive_git.h"

struct heard {
	struct str early, all;
	struct receive_outcome outcome;
	bool has_begun;
};

static void take(struct receive_report *report, size_t step, struct str *out)
{
	char block[64];
	size_t got;

	assert(step <= sizeof(block));
	while ((got = receive_report_take(report, block, step)) > 0)
		str_add_bytes(out, block, got);
	assert(!receive_report_has(report));
	receive_report_drop_taken(report);
}

static void hear(const uint8_t *data, size_t len, size_t step, struct heard *heard)
{
	struct receive_report report = RECEIVE_REPORT_INIT;

	for (size_t at = 0; at < len; at += step) {
		bool begun = receive_report_add(&report, (const char *)data + at,
						len - at < step ? len - at : step);
		assert(begun || !heard->has_begun);
		heard->has_begun = begun;
		take(&report, step % 64 + 1, &heard->early);
	}
	str_add_bytes(&heard->all, heard->early.data, heard->early.len);
	receive_report_pass(&report);
	take(&report, 64, &heard->all);
	heard->outcome = report.reader.outcome;
	receive_report_clear(&report);
}

/* Packets of band 2, or empty ones of band 1. */
static void assert_is_progress(const struct str *text)
{
	const unsigned char *at = (const unsigned char *)text->data;
	size_t left = text->len;

	while (left > 0) {
		char digits[5] = "";
		unsigned char bytes[2];
		assert(left > 4);
		memcpy(digits, at, 4);
		bool is_hex = text_from_hex(digits, bytes, sizeof(bytes));
		size_t len = (size_t)bytes[0] << 8 | bytes[1];
		assert(is_hex && len > 4 && len <= left);
		assert(at[4] == 2 || (at[4] == 1 && len == 5));
		at += len;
		left -= len;
	}
}

static bool is_same(const struct str *one, const struct str *other)
{
	return one->len == other->len && memcmp(one->data, other->data, one->len) == 0;
}

static void clear(struct heard *heard)
{
	str_clear(&heard->early);
	str_clear(&heard->all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct heard whole = { .early = STR_INIT, .all = STR_INIT };
	struct heard pieces = { .early = STR_INIT, .all = STR_INIT };

	if (len < 2)
		return 0;
	hear(data + 1, len - 1, len, &whole);
	hear(data + 1, len - 1, data[0] % 32 + 1u, &pieces);
	assert(whole.has_begun == pieces.has_begun);
	assert(is_same(&whole.early, &pieces.early));
	assert(whole.all.len == len - 1 &&
	       memcmp(whole.all.data, data + 1, len - 1) == 0);
	assert(is_same(&whole.all, &pieces.all));
	assert_is_progress(&whole.early);
	assert(whole.outcome.is_known == pieces.outcome.is_known);
	assert(whole.outcome.taken == pieces.outcome.taken);
	assert(whole.outcome.refused == pieces.outcome.refused);
	clear(&whole);
	clear(&pieces);
	return 0;
}
