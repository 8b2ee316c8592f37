#include "wire/wire_frames.h"

#define LINE_LIMIT ((size_t)64 << 10)

/* Members of the request, and of lines. */
#define IDS "ids"
#define NAME "name"
#define CODE "code"
#define MESSAGE "message"
#define SIZE "size"
#define TIMELINE "timeline"
#define GENERATION "generation"
#define CHECKSUM "checksum"
#define END "end"

void wire_frames_ask(const char *const *ids, size_t count, struct str *body)
{
	json_auto_t *object = json_object();
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, json_string(ids[i]));
	json_put(object, IDS, list);
	json_render(object, body);
}

static int wire_frames_check_ids(const json_t *ids, struct err *err)
{
	if (!json_is_array(ids) || json_array_size(ids) > WIRE_FRAMES_MOST)
		return err_set(err, ERR_CONFIG,
			       "\"" IDS "\" must be a list of at most %d texts",
			       WIRE_FRAMES_MOST);
	for (size_t i = 0; i < json_array_size(ids); i++)
		if (!json_is_string(json_array_get(ids, i)))
			return err_set(err, ERR_CONFIG,
				       "\"" IDS "\" has what is no text");
	return 0;
}

json_t *wire_frames_asked(const struct str *body, struct err *err)
{
	const struct json_limits limits = { 1 << 20, 2 * WIRE_FRAMES_MOST };
	json_auto_t *asked = json_parse_foreign(body->data, body->len, &limits, err);
	json_t *ids = json_object_get(asked, IDS);

	if (!asked)
		err->class = ERR_CONFIG;
	return asked && wire_frames_check_ids(ids, err) == 0 ? json_incref(ids) : NULL;
}

static const struct {
	const char *code;
	enum err_class class;
} wire_frame_codes[] = {
	{ WIRE_FILE_NOT_FOUND, ERR_MISSING },
	{ "CORRUPT", ERR_CORRUPT },
	{ "CONFIG", ERR_CONFIG },
	{ "DISK", ERR_DISK },
	{ "CONFLICT", ERR_CONFLICT },
};

const char *wire_frame_code(enum err_class class)
{
	for (size_t i = 0; i < ARRAY_SIZE(wire_frame_codes); i++)
		if (wire_frame_codes[i].class == class)
			return wire_frame_codes[i].code;
	return NULL;
}

enum err_class wire_frame_class(const char *code)
{
	for (size_t i = 0; i < ARRAY_SIZE(wire_frame_codes); i++)
		if (strcmp(wire_frame_codes[i].code, code) == 0)
			return wire_frame_codes[i].class;
	return ERR_CONFLICT;
}

void wire_frame_render(const struct wire_frame *frame, struct str *out)
{
	json_auto_t *line = json_object();

	json_put_text(line, NAME, frame->name);
	if (frame->code) {
		json_put_text(line, CODE, frame->code);
		json_put_message(line, MESSAGE, frame->message);
	} else {
		json_put_number(line, SIZE, (int64_t)frame->size);
		json_put_text(line, TIMELINE, frame->timeline);
		json_put_number(line, GENERATION, (int64_t)frame->generation);
		json_put_text(line, CHECKSUM,
			      frame->checksum[0] ? frame->checksum : NULL);
	}
	json_render(line, out);
	str_add_char(out, '\n');
}

void wire_frames_render_end(struct str *out)
{
	json_auto_t *line = json_object();

	json_put_bool(line, END, true);
	json_render(line, out);
	str_add_char(out, '\n');
}

void wire_frames_init(struct wire_frames *frames, const struct wire_frame_sink *sink)
{
	*frames = (struct wire_frames){ .sink = sink, .line = STR_INIT };
}

void wire_frames_clear(struct wire_frames *frames)
{
	str_clear(&frames->line);
}

static bool wire_frames_fill_checksum(const json_t *object, struct wire_frame *frame)
{
	AUTO_FREE char *checksum = NULL;

	if (!wire_get_checksum(object, CHECKSUM, true, &checksum))
		return false;
	if (checksum)
		memcpy(frame->checksum, checksum, BLOB_DIGEST_SIZE);
	return true;
}

/* NULL, or the member that is wrong. */
static const char *wire_frames_fill_frame(const json_t *object, struct wire_frame *frame)
{
	frame->name = json_string_value(json_object_get(object, NAME));
	frame->code = json_string_value(json_object_get(object, CODE));
	frame->message = json_string_value(json_object_get(object, MESSAGE));
	if (!frame->name)
		return NAME;
	if (json_object_get(object, CODE))
		return frame->code ? NULL : CODE;
	if (!wire_get_number(object, SIZE, &frame->size))
		return SIZE;
	if (!wire_get_id(object, TIMELINE, frame->timeline))
		return TIMELINE;
	if (!wire_get_number(object, GENERATION, &frame->generation) ||
	    frame->generation == 0)
		return GENERATION;
	return wire_frames_fill_checksum(object, frame) ? NULL : CHECKSUM;
}

static int wire_frames_end_blob(struct wire_frames *frames, struct err *err)
{
	frames->is_inside = false;
	return frames->sink->end(frames->sink->arg, err);
}

static int wire_frames_take_line(struct wire_frames *frames, struct err *err)
{
	json_auto_t *object =
		json_parse_object(frames->line.data, frames->line.len, LINE_LIMIT, err);
	struct wire_frame frame = { 0 };
	const char *wrong;

	if (!object)
		return wire_lied(err, "a blob's line is not a JSON object");
	if (json_is_true(json_object_get(object, END))) {
		frames->is_ended = true;
		return 0;
	}
	wrong = wire_frames_fill_frame(object, &frame);
	if (wrong)
		return wire_lied(err, "a blob's line has no right \"%s\"", wrong);
	if (frames->sink->begin(frames->sink->arg, &frame, err) != 0)
		return -1;
	if (frame.code)
		return 0;
	frames->is_inside = true;
	frames->left = frame.size;
	return frame.size == 0 ? wire_frames_end_blob(frames, err) : 0;
}

/* How much of it belongs to the present line or blob; 0: *err. */
static size_t wire_frames_take_some(struct wire_frames *frames, const char *bytes,
				    size_t len, struct err *err)
{
	if (frames->is_inside) {
		size_t part = len < frames->left ? len : (size_t)frames->left;
		if (frames->sink->bytes(frames->sink->arg, bytes, part, err) != 0)
			return 0;
		frames->left -= part;
		return frames->left == 0 && wire_frames_end_blob(frames, err) != 0 ? 0
										   : part;
	}
	const char *stop = memchr(bytes, '\n', len);
	size_t part = stop ? (size_t)(stop - bytes) : len;
	if (frames->line.len + part > LINE_LIMIT) {
		wire_lied(err, "a blob's line has no end");
		return 0;
	}
	str_add_bytes(&frames->line, bytes, part);
	if (!stop)
		return part;
	int result = wire_frames_take_line(frames, err);
	str_reset(&frames->line);
	return result == 0 ? part + 1 : 0;
}

int wire_frames_take(struct wire_frames *frames, const void *bytes, size_t len,
		     struct err *err)
{
	const char *at = bytes;

	while (len > 0) {
		if (frames->is_ended)
			return wire_lied(err, "there are bytes behind the last blob");
		size_t part = wire_frames_take_some(frames, at, len, err);
		if (part == 0)
			return -1;
		at += part;
		len -= part;
	}
	return 0;
}

int wire_frames_finish(const struct wire_frames *frames, struct err *err)
{
	if (frames->is_ended)
		return 0;
	return err_set(err, ERR_NETWORK, "the primary's answer was cut off");
}
