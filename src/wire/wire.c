#include "wire/wire.h"

#include <stdarg.h>

#include "base/clock.h"
#include "git/checksum.h"

bool wire_code_class(const char *code, enum err_class *class)
{
	static const struct {
		const char *code;
		enum err_class class;
	} codes[] = {
		{ WIRE_REPOSITORY_NOT_FOUND, ERR_MISSING },
		{ WIRE_FILE_NOT_FOUND, ERR_MISSING },
		{ WIRE_BLOB_NOT_FOUND, ERR_MISSING },
		{ WIRE_KIND_NOT_FOUND, ERR_CONFIG },
		{ WIRE_NOT_SCANNED, ERR_NETWORK },
		{ WIRE_PACKS_UNAVAILABLE, ERR_CONFIG },
		{ "CORRUPT", ERR_CORRUPT },
		{ "CONFLICT", ERR_CONFLICT },
		{ "CONFIG", ERR_CONFIG },
		{ WIRE_EVENTS_GONE, ERR_CONFLICT },
		{ WIRE_OTHER_TIMELINE, ERR_CONFLICT },
		{ WIRE_DELTA_UNAVAILABLE, ERR_CONFLICT },
	};

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		*class = codes[i].class;
		if (strcmp(code, codes[i].code) == 0)
			return true;
	}
	return false;
}

int wire_lied(struct err *err, const char *fmt, ...)
{
	char text[400];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	err_set(err, ERR_CORRUPT, "the primary's answer makes no sense: %s", text);
	return err_remedy(err, "see that the URL leads to a refrelay primary of this "
			       "version, and look at its log");
}

static bool wire_is_hex(const char *text, size_t len)
{
	return strlen(text) == len && strspn(text, "0123456789abcdef") == len;
}

bool wire_is_id(const char *text)
{
	return wire_is_hex(text, TIMELINE_SIZE - 1);
}

bool wire_is_digest(const char *text)
{
	return wire_is_hex(text, BLOB_DIGEST_SIZE - 1);
}

bool wire_get_id(const json_t *object, const char *key, char id[TIMELINE_SIZE])
{
	const char *text = json_string_value(json_object_get(object, key));

	if (!text || !wire_is_id(text))
		return false;
	memcpy(id, text, TIMELINE_SIZE);
	return true;
}

bool wire_get_number(const json_t *object, const char *key, uint64_t *number)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return false;
	*number = (uint64_t)json_integer_value(value);
	return true;
}

bool wire_get_time(const json_t *object, const char *key, int64_t *wall_ms)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text && clock_parse(text, wall_ms) && *wall_ms > 0;
}

char *wire_get_text(const json_t *object, const char *key)
{
	return xstrdup_or_null(json_string_value(json_object_get(object, key)));
}

bool wire_get_checksum(const json_t *object, const char *key, bool is_blob,
		       char **checksum)
{
	const json_t *value = json_object_get(object, key);
	const char *text = json_string_value(value);
	struct checksum sum;

	*checksum = NULL;
	if (!value || json_is_null(value))
		return true;
	if (!text || !(is_blob ? wire_is_digest(text) : checksum_parse(text, &sum)))
		return false;
	*checksum = xstrdup(text);
	return true;
}
