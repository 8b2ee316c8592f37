#include "base/str.h"

#include <assert.h>
#include <stdarg.h>

#define DISTANCE_LIMIT 64 /* of words worth comparing */

char str_empty[1] = "";

void str_clear(struct str *str)
{
	int saved = errno;

	if (str->capacity > 0)
		free(str->data);
	*str = (struct str)STR_INIT;
	errno = saved;
}

void str_wipe(struct str *str)
{
	if (str->capacity > 0)
		explicit_bzero(str->data, str->capacity);
	str_clear(str);
}

void text_wipe(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

void str_reset(struct str *str)
{
	str_truncate(str, 0);
}

void str_reserve(struct str *str, size_t more)
{
	size_t need = str->len + more + 1;
	size_t capacity = str->capacity ? str->capacity : 64;

	if (more > SIZE_MAX / 2 - 1 - str->len)
		abort(); /* doubling would never get there */
	if (need <= str->capacity)
		return;
	while (capacity < need)
		capacity *= 2;
	str->data = xrealloc(str->capacity ? str->data : NULL, capacity);
	str->capacity = capacity;
	str->data[str->len] = '\0';
}

void str_add(struct str *str, const char *text)
{
	str_add_bytes(str, text, strlen(text));
}

void str_add_bytes(struct str *str, const void *bytes, size_t len)
{
	if (len == 0)
		return;
	str_reserve(str, len);
	memcpy(str->data + str->len, bytes, len);
	str->len += len;
	str->data[str->len] = '\0';
}

void str_add_char(struct str *str, char c)
{
	str_add_bytes(str, &c, 1);
}

void str_addf(struct str *str, const char *fmt, ...)
{
	va_list args, again;
	int len;

	va_start(args, fmt);
	va_copy(again, args);
	len = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (len > 0) {
		str_reserve(str, (size_t)len);
		vsnprintf(str->data + str->len, (size_t)len + 1, fmt, again);
		str->len += (size_t)len;
	}
	va_end(again);
}

void str_add_hex(struct str *str, const void *bytes, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *at = bytes;

	str_reserve(str, 2 * len);
	for (size_t i = 0; i < len; i++) {
		str->data[str->len++] = digits[at[i] >> 4];
		str->data[str->len++] = digits[at[i] & 15];
	}
	str->data[str->len] = '\0';
}

void str_truncate(struct str *str, size_t len)
{
	assert(len <= str->len);
	str->len = len;
	if (str->capacity > 0)
		str->data[len] = '\0';
}

void str_cut(struct str *str, size_t from, size_t to)
{
	assert(from <= to && to <= str->len);
	memmove(str->data + from, str->data + to, str->len - to);
	str_truncate(str, str->len - (to - from));
}

char *str_take(struct str *str)
{
	char *data = str->capacity ? str->data : xstrdup("");

	*str = (struct str)STR_INIT;
	return data;
}

bool text_starts_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool text_ends_with(const char *text, const char *suffix)
{
	size_t len = strlen(text), tail = strlen(suffix);

	return len >= tail && memcmp(text + len - tail, suffix, tail) == 0;
}

/* The length of the well-formed sequence at the start, 0 if there is none. The second
 * byte's range excludes overlong forms, surrogates and what lies above U+10FFFF. */
static size_t utf8_sequence(const unsigned char *at, size_t left)
{
	size_t len;
	unsigned char low = 0x80, high = 0xbf;

	if (at[0] < 0x80)
		return 1;
	if (at[0] >= 0xc2 && at[0] <= 0xdf)
		len = 2;
	else if (at[0] >= 0xe0 && at[0] <= 0xef)
		len = 3;
	else if (at[0] >= 0xf0 && at[0] <= 0xf4)
		len = 4;
	else
		return 0;
	if (len > left)
		return 0;
	if (at[0] == 0xe0)
		low = 0xa0;
	else if (at[0] == 0xed)
		high = 0x9f;
	else if (at[0] == 0xf0)
		low = 0x90;
	else if (at[0] == 0xf4)
		high = 0x8f;
	if (at[1] < low || at[1] > high)
		return 0;
	for (size_t i = 2; i < len; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

/* ASCII's, and U+0080 to U+009F, which terminals obey as well. */
static bool is_control(const unsigned char *at, size_t step)
{
	if (step == 2)
		return at[0] == 0xc2 && at[1] < 0xa0;
	return step == 1 && (*at < 0x20 || *at == 0x7f);
}

size_t str_add_printable_step(struct str *str, const char *text, size_t left)
{
	const unsigned char *at = (const unsigned char *)text;
	size_t step = utf8_sequence(at, left);

	if (step > 0 && !is_control(at, step)) {
		str_add_bytes(str, at, step);
		return step;
	}
	step = step ? step : 1;
	for (size_t i = 0; i < step; i++)
		str_addf(str, "\\x%02x", at[i]);
	return step;
}

void str_add_printable(struct str *str, const char *text)
{
	size_t left = strlen(text);

	while (left > 0) {
		size_t step = str_add_printable_step(str, text, left);
		text += step;
		left -= step;
	}
}

bool text_is_utf8(const char *text, size_t len)
{
	const unsigned char *at = (const unsigned char *)text;

	while (len > 0) {
		size_t step = utf8_sequence(at, len);
		if (step == 0)
			return false;
		at += step;
		len -= step;
	}
	return true;
}

void str_add_utf8(struct str *str, const char *text, size_t len)
{
	while (len > 0) {
		size_t step = utf8_sequence((const unsigned char *)text, len);
		if (step > 0)
			str_add_bytes(str, text, step);
		else
			str_add(str, "\xef\xbf\xbd");
		text += step > 0 ? step : 1;
		len -= step > 0 ? step : 1;
	}
}

bool text_to_uint64(const char *text, uint64_t *value)
{
	uint64_t sum = 0;

	if (!*text)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return false;
		uint64_t digit = (uint64_t)(*text - '0');
		if (__builtin_mul_overflow(sum, (uint64_t)10, &sum) ||
		    __builtin_add_overflow(sum, digit, &sum))
			return false;
	}
	*value = sum;
	return true;
}

/* What a digit counts, and one more; 0: it is none. */
static const unsigned char str_hex_digits[256] = {
	['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,
	['6'] = 7,  ['7'] = 8,  ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12,
	['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16, ['A'] = 11, ['B'] = 12,
	['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

bool text_from_hex(const char *text, void *bytes, size_t len)
{
	const unsigned char *at = (const unsigned char *)text;
	unsigned char *out = bytes;

	for (size_t i = 0; i < len; i++, at += 2) {
		unsigned high = str_hex_digits[at[0]];
		unsigned low = high == 0 ? 0 : str_hex_digits[at[1]];
		if (low == 0)
			return false;
		out[i] = (unsigned char)((high - 1) << 4 | (low - 1));
	}
	return true;
}

static char lower(char c)
{
	return (char)(c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c);
}

char *text_fold(const char *text)
{
	char *folded = xstrdup(text);

	for (char *at = folded; *at; at++)
		*at = lower(*at);
	return folded;
}

bool text_is_same(const char *one, const char *other)
{
	return one && other ? strcmp(one, other) == 0 : one == other;
}

void text_replace(char **text, const char *value)
{
	free(*text);
	*text = value && value[0] ? xstrdup(value) : NULL;
}

/* The table's row i compares the first i letters of `one`. */
size_t text_distance(const char *one, const char *two)
{
	size_t rows[DISTANCE_LIMIT + 1][DISTANCE_LIMIT + 1];
	size_t len_one = strlen(one), len_two = strlen(two);

	if (len_one > DISTANCE_LIMIT || len_two > DISTANCE_LIMIT)
		return SIZE_MAX;
	for (size_t j = 0; j <= len_two; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= len_one; i++) {
		char c = lower(one[i - 1]);
		rows[i][0] = i;
		for (size_t j = 1; j <= len_two; j++) {
			char d = lower(two[j - 1]);
			size_t best = rows[i - 1][j - 1] + (c != d);
			best = size_min(best, rows[i - 1][j] + 1);
			best = size_min(best, rows[i][j - 1] + 1);
			if (i > 1 && j > 1 && c == lower(two[j - 2]) &&
			    d == lower(one[i - 2]))
				best = size_min(best, rows[i - 2][j - 2] + 1);
			rows[i][j] = best;
		}
	}
	return rows[len_one][len_two];
}
