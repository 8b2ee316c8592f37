#include "pull/primary_parse.h"

#include <stdarg.h>

#include "base/clock.h"
#include "git/checksum.h"

int primary_lied(struct err *err, const char *fmt, ...)
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

bool primary_is_id(const char *text)
{
	return strlen(text) == TIMELINE_SIZE - 1 &&
	       strspn(text, "0123456789abcdef") == TIMELINE_SIZE - 1;
}

bool primary_get_id(const json_t *object, const char *key, char id[TIMELINE_SIZE])
{
	const char *text = json_string_value(json_object_get(object, key));

	if (!text || !primary_is_id(text))
		return false;
	memcpy(id, text, TIMELINE_SIZE);
	return true;
}

bool primary_get_number(const json_t *object, const char *key, uint64_t *number)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return false;
	*number = (uint64_t)json_integer_value(value);
	return true;
}

bool primary_get_time(const json_t *object, const char *key, int64_t *wall_ms)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text && clock_parse(text, wall_ms) && *wall_ms > 0;
}

bool primary_get_checksum(const json_t *object, char **checksum)
{
	const json_t *value = json_object_get(object, "checksum");
	const char *text = json_string_value(value);
	struct checksum sum;

	*checksum = NULL;
	if (!value || json_is_null(value))
		return true;
	if (!text || !checksum_parse(text, &sum))
		return false;
	*checksum = xstrdup(text);
	return true;
}

bool primary_is_digest(const char *text)
{
	return strlen(text) == BLOB_DIGEST_SIZE - 1 &&
	       strspn(text, "0123456789abcdef") == BLOB_DIGEST_SIZE - 1;
}

bool primary_get_digest(const json_t *object, char **digest)
{
	const json_t *value = json_object_get(object, "checksum");
	const char *text = json_string_value(value);

	*digest = NULL;
	if (!value || json_is_null(value))
		return true;
	if (!text || !primary_is_digest(text))
		return false;
	*digest = xstrdup(text);
	return true;
}
