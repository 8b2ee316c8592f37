#include "git/pkt_line.h"

#include <assert.h>
#include <stdarg.h>

enum { DIGITS = 4 };

/* -1: no hexadecimal digit; git takes capitals too. */
static int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* -1: it is none. */
static int parse_length(const char *at)
{
	int length = 0;

	for (int i = 0; i < DIGITS; i++) {
		int value = digit_value(at[i]);
		if (value < 0)
			return -1;
		length = 16 * length + value;
	}
	return length;
}

static void pkt_skip_bytes(struct pkt_reader *reader, size_t len)
{
	reader->at += len;
	reader->left -= len;
}

static enum pkt marker(struct pkt_reader *reader, int length)
{
	static const enum pkt kinds[] = { PKT_FLUSH, PKT_DELIMITER, PKT_END };

	if (length < 0 || length >= (int)ARRAY_SIZE(kinds))
		return PKT_BROKEN;
	pkt_skip_bytes(reader, DIGITS);
	return kinds[length];
}

enum pkt pkt_next(struct pkt_reader *reader, const char **line, size_t *len)
{
	int length;

	if (reader->left == 0)
		return PKT_NO_MORE;
	if (reader->left < DIGITS)
		return PKT_BROKEN;
	length = parse_length(reader->at);
	if (length < DIGITS)
		return marker(reader, length);
	if (length > PKT_LINE_MAX || (size_t)length > reader->left)
		return PKT_BROKEN;
	*line = reader->at + DIGITS;
	*len = (size_t)length - DIGITS;
	pkt_skip_bytes(reader, (size_t)length);
	return PKT_LINE;
}

bool pkt_is_cut(enum pkt pkt, size_t left)
{
	return pkt == PKT_NO_MORE || (pkt == PKT_BROKEN && left < PKT_LINE_MAX);
}

size_t pkt_begin(struct str *out)
{
	str_add_bytes(out, "0000", DIGITS);
	return out->len - DIGITS;
}

void pkt_end(struct str *out, size_t begin)
{
	static const char digits[] = "0123456789abcdef";
	size_t length = out->len - begin;

	assert(length >= DIGITS && length <= PKT_LINE_MAX);
	for (size_t i = DIGITS; i > 0; i--, length /= 16)
		out->data[begin + i - 1] = digits[length % 16];
}

void pkt_add(struct str *out, const char *line, size_t len)
{
	size_t begin = pkt_begin(out);

	str_add_bytes(out, line, len);
	pkt_end(out, begin);
}

void pkt_addf(struct str *out, const char *fmt, ...)
{
	AUTO_FREE char *line = NULL;
	va_list args;
	int len;

	va_start(args, fmt);
	len = vasprintf(&line, fmt, args);
	va_end(args);
	if (len < 0)
		abort();
	pkt_add(out, line, (size_t)len);
}

void pkt_add_flush(struct str *out)
{
	str_add_bytes(out, "0000", DIGITS);
}
