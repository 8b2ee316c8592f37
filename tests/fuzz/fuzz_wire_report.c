/*
 * libFuzzer: any report of a secondary is refused, or read; and what was read is the same
 * after it was rendered, but that what was not told is told as 0.
 */
#include <assert.h>

#include "wire/wire_report.h"

static bool is_same_text(const char *one, const char *other)
{
	return one && other ? strcmp(one, other) == 0 : one == other;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_FREE char *text = xstrndup((const char *)data, len);
	AUTO_WIRE_REPORT struct wire_report report = { 0 }, again = { 0 };
	AUTO_STR struct str rendered = STR_INIT;
	struct err err = { 0 };

	if (wire_report_parse(text, &report, &err) != 0) {
		assert(err.class == ERR_CORRUPT && err.text[0]);
		return 0;
	}
	assert(report.knows_in_sync || !report.in_sync);
	wire_report_render(&report, &rendered);
	if (wire_report_parse(rendered.data, &again, &err) != 0)
		return 0; /* longer than it was: numbers, escapes */
	assert(again.behind == report.behind && again.failing == report.failing);
	assert(again.held == report.held && again.synced == report.synced);
	assert(again.replicables == report.replicables);
	assert(again.knows_in_sync && again.in_sync == report.in_sync);
	assert(is_same_text(again.reason, report.reason));
	assert(is_same_text(again.node, report.node));
	assert(again.knows_blob_types == report.knows_blob_types);
	assert(again.blob_types.count == report.blob_types.count);
	return 0;
}
