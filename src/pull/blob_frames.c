#include "pull/blob_frames.h"

#include "base/json.h"
#include "pull/primary_parse.h"

#define LINE_LIMIT ((size_t)64 << 10)

void blob_frames_init(struct blob_frames *frames, const struct blob_frame_sink *sink)
{
	*frames = (struct blob_frames){ .sink = sink, .line = STR_INIT };
}

void blob_frames_clear(struct blob_frames *frames)
{
	str_clear(&frames->line);
}

static bool blob_frames_fill_checksum(const json_t *object, struct blob_frame *frame)
{
	AUTO_FREE char *checksum = NULL;

	if (!primary_get_digest(object, &checksum))
		return false;
	if (checksum)
		memcpy(frame->checksum, checksum, BLOB_DIGEST_SIZE);
	return true;
}

/* NULL, or the member that is wrong. */
static const char *blob_frames_fill_frame(const json_t *object, struct blob_frame *frame)
{
	frame->name = json_string_value(json_object_get(object, "name"));
	frame->code = json_string_value(json_object_get(object, "code"));
	frame->message = json_string_value(json_object_get(object, "message"));
	if (!frame->name)
		return "name";
	if (json_object_get(object, "code"))
		return frame->code ? NULL : "code";
	if (!primary_get_number(object, "size", &frame->size))
		return "size";
	if (!primary_get_id(object, "timeline", frame->timeline))
		return "timeline";
	if (!primary_get_number(object, "generation", &frame->generation) ||
	    frame->generation == 0)
		return "generation";
	return blob_frames_fill_checksum(object, frame) ? NULL : "checksum";
}

static int end_blob(struct blob_frames *frames, struct err *err)
{
	frames->is_inside = false;
	return frames->sink->end(frames->sink->arg, err);
}

static int blob_frames_take_line(struct blob_frames *frames, struct err *err)
{
	json_auto_t *object =
		json_parse_object(frames->line.data, frames->line.len, LINE_LIMIT, err);
	struct blob_frame frame = { 0 };
	const char *wrong;

	if (!object)
		return primary_lied(err, "a blob's line is not a JSON object");
	if (json_is_true(json_object_get(object, "end"))) {
		frames->is_ended = true;
		return 0;
	}
	wrong = blob_frames_fill_frame(object, &frame);
	if (wrong)
		return primary_lied(err, "a blob's line has no right \"%s\"", wrong);
	if (frames->sink->begin(frames->sink->arg, &frame, err) != 0)
		return -1;
	if (frame.code)
		return 0;
	frames->is_inside = true;
	frames->left = frame.size;
	return frame.size == 0 ? end_blob(frames, err) : 0;
}

/* How much of it belongs to the present line or blob; 0: *err. */
static size_t take_some(struct blob_frames *frames, const char *bytes, size_t len,
			struct err *err)
{
	if (frames->is_inside) {
		size_t part = len < frames->left ? len : (size_t)frames->left;
		if (frames->sink->bytes(frames->sink->arg, bytes, part, err) != 0)
			return 0;
		frames->left -= part;
		return frames->left == 0 && end_blob(frames, err) != 0 ? 0 : part;
	}
	const char *stop = memchr(bytes, '\n', len);
	size_t part = stop ? (size_t)(stop - bytes) : len;
	if (frames->line.len + part > LINE_LIMIT) {
		primary_lied(err, "a blob's line has no end");
		return 0;
	}
	str_add_bytes(&frames->line, bytes, part);
	if (!stop)
		return part;
	int result = blob_frames_take_line(frames, err);
	str_reset(&frames->line);
	return result == 0 ? part + 1 : 0;
}

int blob_frames_take(struct blob_frames *frames, const void *bytes, size_t len,
		     struct err *err)
{
	const char *at = bytes;

	while (len > 0) {
		if (frames->is_ended)
			return primary_lied(err, "there are bytes behind the last blob");
		size_t part = take_some(frames, at, len, err);
		if (part == 0)
			return -1;
		at += part;
		len -= part;
	}
	return 0;
}

int blob_frames_finish(const struct blob_frames *frames, struct err *err)
{
	if (frames->is_ended)
		return 0;
	return err_set(err, ERR_NETWORK, "the primary's answer was cut off");
}
