/*
 * A growable string of bytes that always ends in a NUL (not counted in len), so that
 * text can be read as a C string. For one thread at a time.
 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include "base/base.h"

struct str {
	char *data; /* owned; never NULL after STR_INIT; do not free an empty one */
	size_t len;
	size_t capacity; /* 0: data is the shared empty string */
};

extern char str_empty[];

#define STR_INIT                                                                         \
	{                                                                                \
		.data = str_empty                                                        \
	}
#define AUTO_STR __attribute__((cleanup(str_clear)))

/* Releases the bytes; the string is empty and usable again. errno is kept. */
void str_clear(struct str *str);

/* The same for a secret: overwrites that memory. */
void str_wipe(struct str *str);

/* Empties it but keeps the memory. */
void str_reset(struct str *str);

/* Makes room for `more` bytes (and the NUL) after the present ones. */
void str_reserve(struct str *str, size_t more);

void str_add(struct str *str, const char *text);
void str_add_bytes(struct str *str, const void *bytes, size_t len);
void str_add_char(struct str *str, char c);
PRINTF_LIKE(2, 3) void str_addf(struct str *str, const char *fmt, ...);

/* Lower-case hexadecimal. */
void str_add_hex(struct str *str, const void *bytes, size_t len);

/* Appends text as UTF-8: each byte that does not belong to a well-formed sequence
 * becomes U+FFFD. */
void str_add_utf8(struct str *str, const char *text, size_t len);

/* Text for a terminal: control characters and bytes that are not UTF-8 as \xNN. */
void str_add_printable(struct str *str, const char *text);

/* The same for the first character of `left` bytes, at least one; returns its bytes. */
size_t str_add_printable_step(struct str *str, const char *text, size_t left);

/* Cuts it to len bytes, which must not be more than it has. */
void str_truncate(struct str *str, size_t len);

/* Removes the bytes from `from` up to, and without, `to`. */
void str_cut(struct str *str, size_t from, size_t to);

/* Gives the bytes away (the caller frees) and leaves the string empty. */
char *str_take(struct str *str);

/* Frees a secret after overwriting its memory. NULL is allowed. */
void text_wipe(char *text);

/* Whether text begins or ends with the other. */
bool text_starts_with(const char *text, const char *prefix);
bool text_ends_with(const char *text, const char *suffix);

/* Whether they are equal; NULL equals only NULL. */
bool text_is_same(const char *one, const char *other);

/* A copy with ASCII letters in lower case; the caller frees. */
char *text_fold(const char *text);

/* Frees *text, and sets it to a copy of the value; NULL for NULL or "". */
void text_replace(char **text, const char *value);

/* How many letters must be inserted, deleted, replaced, or swapped with their neighbour,
 * to turn one into the other; case does not count. SIZE_MAX: one is too long to
 * compare. */
size_t text_distance(const char *one, const char *two);

/* Whether all of it is well-formed UTF-8 (no surrogates, no overlong forms). */
bool text_is_utf8(const char *text, size_t len);

/* Reads a decimal number without sign that fills the whole text; false otherwise, or if
 * it does not fit. */
bool text_to_uint64(const char *text, uint64_t *value);

/* Decodes exactly `len` bytes from 2 * len hexadecimal digits; false for other
 * characters. */
bool text_from_hex(const char *text, void *bytes, size_t len);

#endif
