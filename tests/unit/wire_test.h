/*
 * What all tests of messages between sites share.
 */
#ifndef UNIT_WIRE_TEST_H
#define UNIT_WIRE_TEST_H

#include "test.h"

/* Parses a message and renders it again; false: it is refused. What the text does not
 * show, and was read, is appended. */
typedef bool (*wire_again)(const struct str *text, struct str *out);

/* A message comes back as it was sent. */
static inline void assert_comes_back(const struct str *text, wire_again again)
{
	AUTO_STR struct str back = STR_INIT;

	if (!again(text, &back))
		fail_msg("refused: %s", err.text);
	assert_string_equal(back.data, text->data);
}

/* And with any one byte altered it is refused, or does not come back as the same. For
 * messages without null: that says as much as what is absent. */
static inline void assert_travels(const struct str *text, wire_again again)
{
	AUTO_STR struct str altered = STR_INIT;
	AUTO_STR struct str back = STR_INIT;

	assert_comes_back(text, again);
	str_add_bytes(&altered, text->data, text->len);
	for (size_t i = 0; i < text->len; i++) {
		altered.data[i] ^= 1;
		str_reset(&back);
		if (again(&altered, &back) && back.len == text->len &&
		    memcmp(back.data, text->data, text->len) == 0)
			fail_msg("byte %zu says nothing: %s", i, text->data + i);
		altered.data[i] ^= 1;
	}
}

#endif
