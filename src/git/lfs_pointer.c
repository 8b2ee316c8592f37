/*
 *	version https://git-lfs.github.com/spec/v1
 *	ext-0-NAME sha256:<64 digits>			(any number, of extensions)
 *	oid sha256:<64 digits>
 *	size <decimal>
 */
#include "git/lfs_pointer.h"

#include "base/str.h"

#define SHA256 "sha256:"

/* A part of the text; no NUL at its end. */
struct piece {
	const char *at;
	size_t len;
};

static bool piece_is(const struct piece *piece, const char *text)
{
	return piece->len == strlen(text) && memcmp(piece->at, text, piece->len) == 0;
}

static bool piece_begins(const struct piece *piece, const char *text)
{
	return piece->len >= strlen(text) && memcmp(piece->at, text, strlen(text)) == 0;
}

/* The next line without its end; false: there is none. */
static bool next_line(struct piece *rest, struct piece *line)
{
	const char *end = rest->len > 0 ? memchr(rest->at, '\n', rest->len) : NULL;
	size_t taken = end ? (size_t)(end - rest->at) + 1 : rest->len;

	*line = (struct piece){ rest->at, end ? taken - 1 : taken };
	if (line->len > 0 && line->at[line->len - 1] == '\r')
		line->len--;
	rest->at += taken;
	rest->len -= taken;
	return taken > 0;
}

/* False: the line does not have this key. */
static bool value_of(const struct piece *line, const char *key, struct piece *value)
{
	size_t len = strlen(key);

	if (line->len <= len || memcmp(line->at, key, len) != 0 || line->at[len] != ' ')
		return false;
	*value = (struct piece){ line->at + len + 1, line->len - len - 1 };
	return true;
}

static bool is_digit(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

bool lfs_oid_is_valid(const char *text)
{
	size_t len = 0;

	while (len < LFS_OID_SIZE - 1 && is_digit(text[len]))
		len++;
	return len == LFS_OID_SIZE - 1 && text[len] == '\0';
}

static bool parse_oid(const struct piece *value, char oid[LFS_OID_SIZE])
{
	const size_t digits = LFS_OID_SIZE - 1;

	if (!piece_begins(value, SHA256) || value->len != strlen(SHA256) + digits)
		return false;
	memcpy(oid, value->at + strlen(SHA256), digits);
	oid[digits] = '\0';
	return lfs_oid_is_valid(oid);
}

static bool parse_size(const struct piece *value, uint64_t *size)
{
	char text[24];

	if (value->len >= sizeof(text))
		return false;
	memcpy(text, value->at, value->len);
	text[value->len] = '\0';
	return text_to_uint64(text, size) && *size <= INT64_MAX;
}

static bool is_version(const struct piece *line)
{
	static const char *const versions[] = { "https://git-lfs.github.com/spec/v1",
						"https://hawser.github.com/spec/v1",
						"http://git-media.io/v/2" };
	struct piece value;

	if (!value_of(line, "version", &value))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		if (piece_is(&value, versions[i]))
			return true;
	return false;
}

static bool only_blank(struct piece rest)
{
	struct piece line;

	while (next_line(&rest, &line))
		if (line.len > 0)
			return false;
	return true;
}

bool lfs_pointer_parse(const char *text, size_t len, struct lfs_pointer *pointer)
{
	struct piece rest = { text, len };
	struct piece line, value;

	if (len >= LFS_POINTER_LIMIT || !next_line(&rest, &line) || !is_version(&line))
		return false;
	do {
		if (!next_line(&rest, &line))
			return false;
	} while (piece_begins(&line, "ext-"));
	return value_of(&line, "oid", &value) && parse_oid(&value, pointer->oid) &&
	       next_line(&rest, &line) && value_of(&line, "size", &value) &&
	       parse_size(&value, &pointer->size) && only_blank(rest);
}
