#include "wire_test.h"

#include "wire/wire_frames.h"

#define ID "1111111111111111"
#define SUM "0000000000000000000000000000000000000000000000000000000000000001"
#define FRAME(name, size)                                                                \
	"{\"name\":\"" name "\",\"size\":" size ",\"timeline\":\"" ID                    \
	"\",\"generation\":3,\"checksum\":\"" SUM "\"}\n"
#define END "{\"end\":true}\n"

/* "a=hello; b!CODE; ..." as it is heard. */
static struct str heard = STR_INIT;

static int begin(void *arg, const struct wire_frame *frame, struct err *error)
{
	(void)arg;
	(void)error;
	str_addf(&heard, "%s%s", frame->name, frame->code ? "!" : "=");
	if (frame->code)
		str_addf(&heard, "%s; ", frame->code);
	else
		assert_int_equal(frame->generation, 3);
	return 0;
}

static int take(void *arg, const void *bytes, size_t len, struct err *error)
{
	(void)arg;
	(void)error;
	str_add_bytes(&heard, bytes, len);
	return 0;
}

static int end(void *arg, struct err *error)
{
	(void)arg;
	(void)error;
	str_add(&heard, "; ");
	return 0;
}

static const struct wire_frame_sink sink = { begin, take, end, NULL };

/* In pieces of `step` bytes. */
static int parse(const char *text, size_t step)
{
	struct wire_frames frames;
	size_t len = strlen(text);
	int result = 0;

	str_clear(&heard);
	wire_frames_init(&frames, &sink);
	for (size_t at = 0; at < len && result == 0; at += step)
		result = wire_frames_take(&frames, text + at,
					  len - at < step ? len - at : step, &err);
	if (result == 0)
		result = wire_frames_finish(&frames, &err);
	wire_frames_clear(&frames);
	return result;
}

TEST(blobs_are_read_however_their_bytes_come)
{
	static const char text[] =
		FRAME("a", "5") "hel\nl"
				"{\"name\":\"b\",\"code\":\"FILE_NOT_FOUND\",\"message\":"
				"\"no\"}\n" FRAME("c", "0") FRAME("d", "1") "{" END;

	for (size_t step = 1; step < sizeof(text); step++) {
		assert_ok(parse(text, step));
		assert_string_equal(heard.data, "a=hel\nl; b!FILE_NOT_FOUND; c=; d={; ");
	}
	str_clear(&heard);
}

TEST(an_answer_without_its_end_was_cut)
{
	assert_fails(parse(FRAME("a", "5") "hello", 7), ERR_NETWORK);
	assert_string_equal(heard.data, "a=hello; ");
	assert_fails(parse(FRAME("a", "5") "hell", 7), ERR_NETWORK);
	assert_string_equal(heard.data, "a=hell");
	assert_fails(parse("", 1), ERR_NETWORK);
	assert_fails(parse(FRAME("a", "0") "{\"end\":tr", 7), ERR_NETWORK);
	str_clear(&heard);
}

TEST(what_is_no_such_answer_is_refused)
{
	static const char *const texts[] = {
		"<html>\n" END,
		END "more",
		"{\"name\":\"a\"}\n" END,
		"{\"size\":5,\"timeline\":\"" ID "\",\"generation\":3}\nhello" END,
		"{\"name\":\"a\",\"size\":-5,\"timeline\":\"" ID
		"\",\"generation\":3}\n" END,
		"{\"name\":\"a\",\"size\":0,\"timeline\":\"11\",\"generation\":3}\n" END,
		"{\"name\":\"a\",\"size\":0,\"timeline\":\"" ID
		"\",\"generation\":0}\n" END,
		"{\"name\":\"a\",\"size\":0,\"timeline\":\"" ID
		"\",\"generation\":3,\"checksum\":\"1-00\"}\n" END,
		"{\"name\":\"a\",\"code\":7}\n" END,
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (parse(texts[i], 5) == 0 || err.class != ERR_CORRUPT)
			fail_msg("%zu: %s", i, err.text);
	str_clear(&heard);
}

TEST(a_line_without_end_is_not_taken_into_memory)
{
	AUTO_FREE char *line = xmalloc(200001);

	memset(line, 'x', 200000);
	line[200000] = '\0';
	assert_fails(parse(line, 4096), ERR_CORRUPT);
	str_clear(&heard);
}

static struct str again = STR_INIT;

static int begin_again(void *arg, const struct wire_frame *frame, struct err *error)
{
	(void)arg;
	(void)error;
	if (!frame->code || frame->message)
		wire_frame_render(frame, &again);
	return 0;
}

static int take_again(void *arg, const void *bytes, size_t len, struct err *error)
{
	(void)arg;
	(void)error;
	str_add_bytes(&again, bytes, len);
	return 0;
}

static int end_again(void *arg, struct err *error)
{
	(void)arg;
	(void)error;
	return 0;
}

static bool frames_again(const struct str *text, struct str *out)
{
	static const struct wire_frame_sink into = { begin_again, take_again, end_again,
						     NULL };
	struct wire_frames frames;

	str_reset(&again);
	wire_frames_init(&frames, &into);
	bool is_right = wire_frames_take(&frames, text->data, text->len, &err) == 0 &&
			wire_frames_finish(&frames, &err) == 0;
	wire_frames_clear(&frames);
	if (is_right) {
		str_add_bytes(out, again.data, again.len);
		wire_frames_render_end(out);
	}
	str_clear(&again);
	return is_right;
}

TEST(frames_travel_and_each_byte_of_them_counts)
{
	const struct wire_frame known = {
		.name = "a", .size = 5, .generation = 3, .timeline = ID, .checksum = SUM
	};
	const struct wire_frame unknown = {
		.name = "b", .size = 0, .generation = 4, .timeline = ID
	};
	const struct wire_frame refused = { .name = "c",
					    .code = WIRE_FILE_NOT_FOUND,
					    .message = "no" };
	AUTO_STR struct str text = STR_INIT;

	wire_frame_render(&known, &text);
	str_add(&text, "hello");
	wire_frame_render(&refused, &text);
	wire_frames_render_end(&text);
	assert_travels(&text, frames_again);
	str_reset(&text);
	wire_frame_render(&unknown, &text); /* its checksum is null */
	wire_frames_render_end(&text);
	assert_comes_back(&text, frames_again);
}

static bool ids_again(const struct str *text, struct str *out)
{
	const char *ids[4];
	json_auto_t *list = wire_frames_asked(text, &err);

	if (!list || json_array_size(list) > ARRAY_SIZE(ids))
		return false;
	for (size_t i = 0; i < json_array_size(list); i++)
		ids[i] = json_string_value(json_array_get(list, i));
	wire_frames_ask(ids, json_array_size(list), out);
	return true;
}

TEST(ids_travel)
{
	static const char *const ids[] = { "a/b", "c", "a/b" };
	AUTO_STR struct str text = STR_INIT;

	wire_frames_ask(ids, ARRAY_SIZE(ids), &text);
	assert_string_equal(text.data, "{\"ids\":[\"a/b\",\"c\",\"a/b\"]}");
	assert_travels(&text, ids_again);
	str_reset(&text);
	wire_frames_ask(NULL, 0, &text);
	assert_string_equal(text.data, "{\"ids\":[]}");
}

TEST(what_is_no_list_of_ids_is_refused)
{
	AUTO_STR struct str text = STR_INIT;

	for (const char *const *list =
		     (const char *const[]){ "", "[]", "{}", "{\"ids\":7}",
					    "{\"ids\":[7]}", NULL };
	     *list; list++) {
		str_reset(&text);
		str_add(&text, *list);
		assert_null(wire_frames_asked(&text, &err));
		assert_int_equal(err.class, ERR_CONFIG);
	}
	str_reset(&text);
	str_add(&text, "{\"ids\":[\"a\"");
	for (int i = 0; i < WIRE_FRAMES_MOST; i++)
		str_add(&text, ",\"a\"");
	str_add(&text, "]}");
	assert_null(wire_frames_asked(&text, &err));
	assert_int_equal(err.class, ERR_CONFIG);
}

TEST(a_code_stands_for_a_class)
{
	static const enum err_class classes[] = { ERR_MISSING, ERR_CORRUPT, ERR_CONFIG,
						  ERR_DISK, ERR_CONFLICT };

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		assert_int_equal(wire_frame_class(wire_frame_code(classes[i])),
				 classes[i]);
	assert_null(wire_frame_code(ERR_NETWORK));
	assert_int_equal(wire_frame_class("LATER"), ERR_CONFLICT);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_travel_and_each_byte_of_them_counts),
		cmocka_unit_test(ids_travel),
		cmocka_unit_test(what_is_no_list_of_ids_is_refused),
		cmocka_unit_test(a_code_stands_for_a_class),
		cmocka_unit_test(blobs_are_read_however_their_bytes_come),
		cmocka_unit_test(an_answer_without_its_end_was_cut),
		cmocka_unit_test(what_is_no_such_answer_is_refused),
		cmocka_unit_test(a_line_without_end_is_not_taken_into_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
