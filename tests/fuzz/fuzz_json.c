/*
 * libFuzzer: any text that somebody else wrote is refused as JSON, or read within its
 * limits; what was read says the same when it is written down and read again, and any
 * text is the same, UTF-8 or not, after it went through JSON.
 */
#include <assert.h>

#include "base/json.h"

static void check_again(const json_t *object, const struct json_limits *limits)
{
	AUTO_STR struct str text = STR_INIT;
	struct err err;

	json_render(object, &text);
	assert(!memchr(text.data, '\n', text.len));
	json_auto_t *again = json_parse_object(text.data, text.len, SIZE_MAX, &err);
	assert(again && json_equal(object, again));
	again = (json_decref(again),
		 json_parse_foreign(text.data, text.len, limits, &err));
	assert(!again || json_equal(object, again));
}

static void check_text(const char *said)
{
	json_auto_t *object = json_object();
	AUTO_STR struct str got = STR_INIT, text = STR_INIT;
	struct err err;

	json_put_text(object, "name", said);
	json_put_message(object, "message", said);
	json_render(object, &text);
	json_auto_t *again = json_parse_object(text.data, text.len, SIZE_MAX, &err);
	assert(again && json_string_value(json_object_get(again, "message")));
	int result = json_get_bytes(again, "name", &got, &err);
	assert(result == 0 && strcmp(got.data, said) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const struct json_limits limits = { 1 << 10, 50 };
	AUTO_FREE char *text = xstrndup((const char *)data, len);
	struct err err = { 0 };

	if (len == 0)
		return 0;
	json_auto_t *object = json_parse_foreign((const char *)data, len, &limits, &err);
	if (object) {
		AUTO_STR struct str bytes = STR_INIT;
		assert(len <= limits.bytes && json_is_object(object));
		check_again(object, &limits);
		if (json_get_bytes(object, "name", &bytes, &err) != 0)
			assert(err.class == ERR_CORRUPT);
	} else {
		assert(err.class == ERR_CORRUPT && err.text[0]);
	}
	check_text(text);
	return 0;
}
