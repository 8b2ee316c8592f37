#include "test.h"

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

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(blobs_are_read_however_their_bytes_come),
		cmocka_unit_test(an_answer_without_its_end_was_cut),
		cmocka_unit_test(what_is_no_such_answer_is_refused),
		cmocka_unit_test(a_line_without_end_is_not_taken_into_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
