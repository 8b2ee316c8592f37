/*
 * libFuzzer: of any answer with many blobs the same is heard however it is cut into
 * pieces (the first byte says where), no blob gets more or fewer bytes than its line
 * announced, and what is announced is of the right form.
 */
#include <assert.h>

#include "base/json.h"
#include "wire/wire_frames.h"

struct heard {
	struct str text;
	uint64_t left;
	bool is_inside;
};

static int begin(void *arg, const struct wire_frame *frame, struct err *err)
{
	struct heard *heard = arg;

	(void)err;
	assert(!heard->is_inside && frame->name);
	str_addf(&heard->text, "%s:%s:%" PRIu64 "\n", frame->name,
		 frame->code ? frame->code : "", frame->size);
	if (frame->code)
		return 0;
	assert(wire_is_id(frame->timeline) && frame->generation > 0);
	assert(!frame->checksum[0] || strlen(frame->checksum) == BLOB_DIGEST_SIZE - 1);
	heard->is_inside = true;
	heard->left = frame->size;
	return 0;
}

static int take(void *arg, const void *bytes, size_t len, struct err *err)
{
	struct heard *heard = arg;

	(void)err;
	assert(heard->is_inside && len > 0 && len <= heard->left);
	heard->left -= len;
	str_add_bytes(&heard->text, bytes, len);
	return 0;
}

static int end(void *arg, struct err *err)
{
	struct heard *heard = arg;

	(void)err;
	assert(heard->is_inside && heard->left == 0);
	heard->is_inside = false;
	str_add(&heard->text, ";\n");
	return 0;
}

static int hear(const uint8_t *data, size_t len, size_t step, struct heard *heard)
{
	const struct wire_frame_sink sink = { begin, take, end, heard };
	struct wire_frames frames;
	struct err err;
	int result = 0;

	wire_frames_init(&frames, &sink);
	for (size_t at = 0; at < len && result == 0; at += step)
		result = wire_frames_take(&frames, data + at,
					  len - at < step ? len - at : step, &err);
	assert(result == 0 || err.class == ERR_CORRUPT);
	if (result == 0)
		result = wire_frames_finish(&frames, &err);
	assert(result != 0 || !heard->is_inside);
	wire_frames_clear(&frames);
	return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct heard whole = { .text = STR_INIT }, pieces = { .text = STR_INIT };

	if (len < 2)
		return 0;
	size_t step = (size_t)data[0] % 32 + 1;
	int result = hear(data + 1, len - 1, len, &whole);
	assert(hear(data + 1, len - 1, step, &pieces) == result);
	if (result == 0) {
		assert(whole.text.len == pieces.text.len);
		assert(memcmp(whole.text.data, pieces.text.data, whole.text.len) == 0);
	}
	str_clear(&whole.text);
	str_clear(&pieces.text);
	return 0;
}
