/*
 *	version https://git-lfs.github.com/spec/v1
 *	ext-0-NAME sha256:<64 digits>			(any number, of extensions)
 *	oid sha256:<64 digits>
 *	size <decimal>
 *
 * git-lfs decides by decodeKV() in its lfs/pointer.go: blanks around the text and empty
 * lines do not count, lines of extensions stand anywhere before the last of the three,
 *and of two with the same key the later one counts. What it takes for a pointer here must
 *be one, or an object would neither be given nor missed.
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

static void lfs_pointer_trim(struct piece *piece)
{
	static const char blanks[] = " \t\n\v\f\r";

	while (piece->len > 0 && memchr(blanks, piece->at[0], strlen(blanks))) {
		piece->at++;
		piece->len--;
	}
	while (piece->len > 0 &&
	       memchr(blanks, piece->at[piece->len - 1], strlen(blanks)))
		piece->len--;
}

/* The next one that is not empty, without its end; false: there is none. */
static bool lfs_pointer_next_line(struct piece *rest, struct piece *line)
{
	while (rest->len > 0) {
		const char *end = memchr(rest->at, '\n', rest->len);
		size_t taken = end ? (size_t)(end - rest->at) + 1 : rest->len;
		*line = (struct piece){ rest->at, end ? taken - 1 : taken };
		if (line->len > 0 && line->at[line->len - 1] == '\r')
			line->len--;
		rest->at += taken;
		rest->len -= taken;
		if (line->len > 0)
			return true;
	}
	return false;
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

/* A sign and zeros may stand before it. */
static bool parse_size(const struct piece *value, uint64_t *size)
{
	struct piece digits = *value;
	char text[24];
	bool is_negative = piece_begins(&digits, "-");

	if (is_negative || piece_begins(&digits, "+")) {
		digits.at++;
		digits.len--;
	}
	while (digits.len > 1 && digits.at[0] == '0') {
		digits.at++;
		digits.len--;
	}
	if (digits.len >= sizeof(text))
		return false;
	memcpy(text, digits.at, digits.len);
	text[digits.len] = '\0';
	return strlen(text) == digits.len && text_to_uint64(text, size) &&
	       *size <= (is_negative ? 0 : INT64_MAX);
}

static bool is_version(const struct piece *value)
{
	static const char *const versions[] = { "https://git-lfs.github.com/spec/v1",
						"https://hawser.github.com/spec/v1",
						"http://git-media.io/v/2" };

	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		if (piece_is(value, versions[i]))
			return true;
	return false;
}

/* By the digit in their keys. */
struct extensions {
	struct piece key[10], value[10];
};

static bool lfs_pointer_is_word_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z') || c == '_';
}

/* False: the line is none, or one of another key has its digit. */
static bool take_extension(const struct piece *line, struct extensions *extensions)
{
	const char *space = memchr(line->at, ' ', line->len);
	struct piece key = { line->at, space ? (size_t)(space - line->at) : 0 };
	struct piece *known;

	if (key.len < strlen("ext-0-N") || !piece_begins(&key, "ext-") ||
	    key.at[4] < '0' || key.at[4] > '9' || key.at[5] != '-' ||
	    !lfs_pointer_is_word_char(key.at[6]))
		return false;
	known = &extensions->key[key.at[4] - '0'];
	if (known->at &&
	    (known->len != key.len || memcmp(known->at, key.at, key.len) != 0))
		return false;
	*known = key;
	extensions->value[key.at[4] - '0'] =
		(struct piece){ space + 1, line->len - key.len - 1 };
	return true;
}

static bool are_valid(const struct extensions *extensions)
{
	char oid[LFS_OID_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(extensions->key); i++)
		if (extensions->key[i].at && !parse_oid(&extensions->value[i], oid))
			return false;
	return true;
}

bool lfs_pointer_parse(const char *text, size_t len, struct lfs_pointer *pointer)
{
	static const char *const keys[] = { "version", "oid", "size" };
	struct extensions extensions = { 0 };
	struct piece values[ARRAY_SIZE(keys)];
	struct piece rest = { text, len };
	struct piece line;
	size_t known = 0;

	if (len >= LFS_POINTER_LIMIT)
		return false;
	lfs_pointer_trim(&rest);
	while (lfs_pointer_next_line(&rest, &line)) {
		if (known == ARRAY_SIZE(keys))
			return false;
		if (value_of(&line, keys[known], &values[known]))
			known++;
		else if (!take_extension(&line, &extensions))
			return false;
	}
	return known == ARRAY_SIZE(keys) && is_version(&values[0]) &&
	       parse_oid(&values[1], pointer->oid) &&
	       parse_size(&values[2], &pointer->size) && are_valid(&extensions);
}
