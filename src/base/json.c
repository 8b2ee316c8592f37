#include "base/json.h"

#include <assert.h>

#include <openssl/evp.h>

#include "base/clock.h"
#include "base/log.h"

/* 15 digits tell every millisecond apart and print 0.1 as 0.1. */
#define STYLE (JSON_COMPACT | JSON_REAL_PRECISION(15) | JSON_ENCODE_ANY)

/* jansson gives up quietly when memory runs out; half an answer must not leave. */
static void __attribute__((constructor)) abort_without_memory(void)
{
	json_set_alloc_funcs(xmalloc, free);
}

static int add_to_str(const char *bytes, size_t len, void *out)
{
	str_add_bytes(out, bytes, len);
	return 0;
}

void json_render(const json_t *value, struct str *out)
{
	int result = json_dump_callback(value, add_to_str, out, STYLE);

	assert(result == 0);
}

void json_write(FILE *file, const json_t *value)
{
	AUTO_STR struct str line = STR_INIT;

	json_render(value, &line);
	str_add_char(&line, '\n');
	fwrite(line.data, 1, line.len, file);
}

void json_put(json_t *object, const char *key, json_t *value)
{
	int result = json_object_set_new(object, key, value);

	assert(result == 0); /* not an object, or a key that is not UTF-8 */
}

static json_t *base64(const char *bytes, size_t len)
{
	size_t size = (len + 2) / 3 * 4;
	AUTO_FREE char *text = xmalloc(size + 1);

	assert(len < INT32_MAX / 2);
	EVP_EncodeBlock((unsigned char *)text, (const unsigned char *)bytes, (int)len);
	return json_stringn(text, size);
}

void json_put_bytes(json_t *object, const char *key, const char *bytes, size_t len)
{
	if (text_is_utf8(bytes, len)) {
		json_put(object, key, json_stringn(bytes, len));
	} else {
		AUTO_FREE char *other = xasprintf("%s_base64", key);
		json_put(object, other, base64(bytes, len));
	}
}

void json_put_text(json_t *object, const char *key, const char *text)
{
	if (text)
		json_put_bytes(object, key, text, strlen(text));
	else
		json_put(object, key, json_null());
}

json_t *json_texts(char *const *texts, size_t count)
{
	json_t *array = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(array, json_string(texts[i]));
	return array;
}

void json_add_texts(const json_t *array, text_list *texts)
{
	for (size_t i = 0; i < json_array_size(array); i++) {
		const char *text = json_string_value(json_array_get(array, i));
		if (text)
			vec_add(texts, xstrdup(text));
	}
}

void json_put_message(json_t *object, const char *key, const char *text)
{
	AUTO_STR struct str masked = STR_INIT;
	AUTO_STR struct str clean = STR_INIT;

	log_redact(text, &masked);
	str_add_utf8(&clean, masked.data, masked.len);
	json_put(object, key, json_stringn(clean.data, clean.len));
}

void json_put_number(json_t *object, const char *key, int64_t number)
{
	json_put(object, key, json_integer(number));
}

void json_put_bool(json_t *object, const char *key, bool value)
{
	json_put(object, key, json_boolean(value));
}

void json_put_time(json_t *object, const char *key, int64_t wall_ms)
{
	char text[CLOCK_TEXT_SIZE];

	if (wall_ms == 0) {
		json_put(object, key, json_null());
		return;
	}
	clock_format(wall_ms, text);
	json_put(object, key, json_string(text));
}

void json_put_seconds(json_t *object, const char *key, int64_t ms)
{
	json_put(object, key,
		 ms % 1000 == 0 ? json_integer(ms / 1000) : json_real((double)ms / 1000));
}

json_t *json_problem(const char *code, const char *message, const char *remedy)
{
	json_t *problem = json_object();

	json_put_message(problem, "code", code);
	json_put_message(problem, "message", message);
	json_put_message(problem, "remedy", remedy);
	return problem;
}

json_t *json_from_err(const struct err *from)
{
	return json_problem(err_class_name(from->class), from->text, from->remedy);
}

json_t *json_parse_object(const char *text, size_t len, size_t limit, struct err *err)
{
	json_error_t error;

	if (len > limit) {
		err_set(err, ERR_CORRUPT, "the JSON has more than %zu bytes", limit);
		return NULL;
	}
	json_t *value =
		json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
	if (!value) {
		err_set(err, ERR_CORRUPT, "not JSON: line %d: %s", error.line,
			error.text);
		return NULL;
	}
	if (!json_is_object(value)) {
		json_decref(value);
		err_set(err, ERR_CORRUPT, "the JSON is not an object");
		return NULL;
	}
	return value;
}

/* What begins a value, or stands before one. Whether it is JSON is not looked at. */
static size_t count_values(const char *text, size_t len)
{
	size_t count = 1;
	bool is_inside = false;

	for (size_t i = 0; i < len; i++) {
		if (is_inside && text[i] == '\\')
			i++;
		else if (text[i] == '"')
			is_inside = !is_inside;
		else if (!is_inside)
			count += text[i] == ',' || text[i] == '[' || text[i] == '{';
	}
	return count;
}

json_t *json_parse_foreign(const char *text, size_t len, const struct json_limits *limits,
			   struct err *err)
{
	if (len <= limits->bytes && count_values(text, len) > limits->values) {
		err_set(err, ERR_CORRUPT, "the JSON has more than %zu values",
			limits->values);
		return NULL;
	}
	return json_parse_object(text, len, limits->bytes, err);
}

/* Whether a text is base64 as we write it, padded and without blanks: OpenSSL's decoder
 * takes more, and one content could then be written in two ways. */
static bool is_base64_of(const char *text, const char *bytes, size_t len)
{
	json_t *again = base64(bytes, len);
	bool same = strcmp(json_string_value(again), text) == 0;

	json_decref(again);
	return same;
}

static int decode_base64(const char *key, const json_t *value, struct str *out,
			 struct err *err)
{
	const char *text = json_string_value(value);
	size_t len = json_string_length(value), start = out->len, padding = 0;

	if (!text || len % 4 != 0 || len > INT32_MAX / 2)
		return err_set(err, ERR_CORRUPT, "%s_base64 is not base64", key);
	while (padding < 2 && padding < len && text[len - 1 - padding] == '=')
		padding++;
	str_reserve(out, len);
	int got = EVP_DecodeBlock((unsigned char *)out->data + start,
				  (const unsigned char *)text, (int)len);
	if (got >= (int)padding)
		out->len += (size_t)got - padding;
	out->data[out->len] = '\0';
	if (got >= 0 && is_base64_of(text, out->data + start, out->len - start))
		return 0;
	str_truncate(out, start);
	return err_set(err, ERR_CORRUPT, "%s_base64 is not base64", key);
}

int json_get_bytes(const json_t *object, const char *key, struct str *out,
		   struct err *err)
{
	AUTO_FREE char *other = xasprintf("%s_base64", key);
	const json_t *text = json_object_get(object, key);
	const json_t *encoded = json_object_get(object, other);

	if (encoded && !text)
		return decode_base64(key, encoded, out, err);
	if (!text || encoded)
		return err_set(err, ERR_CORRUPT, "the JSON needs %s or %s, one of them",
			       key, other);
	if (!json_is_string(text))
		return err_set(err, ERR_CORRUPT, "%s is not a text", key);
	str_add_bytes(out, json_string_value(text), json_string_length(text));
	return 0;
}
