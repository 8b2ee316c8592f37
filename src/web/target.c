/*
 * One place decides what a target may look like, on the decoded text: who asks for
 * "%2e%2e/x" or "a%2F%2Fb" gets what "../x" and "a//b" get. An encoded slash is right
 * in itself, since names of repositories travel as one segment.
 */
#include "web/target.h"

#include "base/str.h"

enum { TARGET_MAX = 8 << 10 };

/* A fragment is the client's own business: who passed it on would lose it. */
static bool is_sendable(const char *raw)
{
	for (; *raw; raw++)
		if ((unsigned char)*raw <= ' ' || *raw == 0x7f || *raw == '#')
			return false;
	return true;
}

/* How many bytes stand for themselves. */
static size_t plain_length(const char *text, size_t len, bool plus_is_space)
{
	const char *escape = memchr(text, '%', len);
	const char *plus;

	if (escape)
		len = (size_t)(escape - text);
	plus = plus_is_space ? memchr(text, '+', len) : NULL;
	return plus ? (size_t)(plus - text) : len;
}

/* Decodes into *out; false on bad encoding or a NUL. */
static bool web_target_decode(const char *text, size_t len, bool plus_is_space,
			      struct str *out)
{
	str_reserve(out, len);
	while (len > 0) {
		size_t plain = plain_length(text, len, plus_is_space);
		str_add_bytes(out, text, plain);
		text += plain;
		len -= plain;
		if (len == 0)
			break;
		char digits[3] = { 0 };
		char c = ' ';
		size_t taken = *text == '%' ? 3 : 1;
		if (len < taken)
			return false;
		memcpy(digits, text + 1, taken - 1);
		if (taken == 3 && (!text_from_hex(digits, &c, 1) || c == '\0'))
			return false;
		str_add_char(out, c);
		text += taken;
		len -= taken;
	}
	return true;
}

char *target_decode(const char *text, size_t len)
{
	struct str out = STR_INIT;

	web_target_decode(text, len, false, &out);
	return str_take(&out);
}

/* Whether a decoded path has an empty part before its last, or a part "..". */
static bool climbs(const char *path)
{
	while (*path == '/') {
		size_t len = strcspn(path + 1, "/");
		if ((len == 0 && path[1] == '/') ||
		    (len == 2 && path[1] == '.' && path[2] == '.'))
			return true;
		path += 1 + len;
	}
	return false;
}

static int parse_query(const char *text, struct target *target, struct err *err)
{
	while (*text) {
		AUTO_STR struct str key = STR_INIT;
		AUTO_STR struct str value = STR_INIT;
		size_t len = strcspn(text, "&");
		const char *equals = memchr(text, '=', len);
		size_t key_len = equals ? (size_t)(equals - text) : len;

		if (!web_target_decode(text, key_len, true, &key) ||
		    (equals &&
		     !web_target_decode(equals + 1, len - key_len - 1, true, &value)))
			return err_set(err, ERR_CONFIG,
				       "the query of the URL is badly percent-encoded");
		struct target_field field = { str_take(&key), str_take(&value) };
		vec_add(&target->query, field);
		text += len + (text[len] == '&');
	}
	return 0;
}

int target_parse(const char *raw, struct target *target, struct err *err)
{
	AUTO_STR struct str path = STR_INIT;
	size_t path_len = strcspn(raw, "?");

	*target = (struct target){ 0 };
	target->raw = xstrdup(raw);
	target->path = xstrndup(raw, path_len);
	if (strlen(raw) > TARGET_MAX)
		return err_set(err, ERR_CONFIG, "the URL has more than %d bytes",
			       TARGET_MAX);
	if (*raw != '/' || !is_sendable(raw))
		return err_set(err, ERR_CONFIG,
			       "the URL is none: it must begin with a "
			       "slash and have no blanks, and no \"#\"");
	if (!web_target_decode(raw, path_len, false, &path))
		return err_set(err, ERR_CONFIG,
			       "the path of the URL is badly percent-encoded");
	if (climbs(path.data))
		return err_set(err, ERR_CONFIG,
			       "the path of the URL has an empty part or \"..\"");
	return raw[path_len] ? parse_query(raw + path_len + 1, target, err) : 0;
}

void target_clear(struct target *target)
{
	for (size_t i = 0; i < target->query.count; i++) {
		free(target->query.items[i].key);
		free(target->query.items[i].value);
	}
	vec_clear(&target->query);
	free(target->raw);
	free(target->path);
	*target = (struct target){ 0 };
}

const char *target_query(const struct target *target, const char *key)
{
	for (size_t i = target->query.count; i > 0; i--)
		if (strcmp(target->query.items[i - 1].key, key) == 0)
			return target->query.items[i - 1].value;
	return NULL;
}
