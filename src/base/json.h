/*
 * Helpers over jansson, so that all JSON looks alike: one line an object, times in ISO
 * 8601 UTC, durations in seconds, texts that are not UTF-8 as "<key>_base64". Functions
 * never return NULL for lack of memory: jansson then aborts the program, too. A json_t is
 * for one thread at a time; `json_auto_t *` is released automatically.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>

#include "base/base.h"
#include "base/str.h"
#include "base/vec.h"

/* Appends the value in one line, without a newline, members in the order set. */
void json_render(const json_t *value, struct str *out);

/* Prints it with a newline. As with printf, ferror(file) reports failures. */
void json_write(FILE *file, const json_t *value);

/* Sets a member to a value, whose reference is taken. */
void json_put(json_t *object, const char *key, json_t *value);

/* NULL is null. Text that is not UTF-8 becomes the member "<key>_base64". */
void json_put_text(json_t *object, const char *key, const char *text);
void json_put_bytes(json_t *object, const char *key, const char *bytes, size_t len);

/* Text for people: secrets are masked, and wrong UTF-8 is replaced by U+FFFD. */
void json_put_message(json_t *object, const char *key, const char *text);

void json_put_number(json_t *object, const char *key, int64_t number);
void json_put_bool(json_t *object, const char *key, bool value);

/* An array of texts that are UTF-8, and what one has; the caller owns either. What is no
 * text is left out. */
json_t *json_texts(char *const *texts, size_t count);
void json_add_texts(const json_t *array, text_list *texts);

/* A moment, "2026-11-21T09:14:03.120Z"; null when it is 0. */
void json_put_time(json_t *object, const char *key, int64_t wall_ms);

/* A duration, as a number of seconds: 60 or 0.25. */
void json_put_seconds(json_t *object, const char *key, int64_t ms);

/* {"code": ..., "message": ..., "remedy": ...}; the caller owns it. */
json_t *json_problem(const char *code, const char *message, const char *remedy);

/* The same from an error; its class is the code. */
json_t *json_from_err(const struct err *from);

/* Reads one object that fills the text; the caller owns it. NULL with *err filled:
 * ERR_CORRUPT: more than `limit` bytes, not JSON, not an object, a key twice. */
json_t *json_parse_object(const char *text, size_t len, size_t limit, struct err *err);

/* The same for untrusted text: a value costs a hundred bytes of memory and more, however
 * short it is, so the number of values (roughly counted) is limited, too. */
struct json_limits {
	size_t bytes, values;
};
json_t *json_parse_foreign(const char *text, size_t len, const struct json_limits *limits,
			   struct err *err);

/* Appends the bytes of member "<key>" or "<key>_base64". ERR_CORRUPT: neither is there,
 * or they are not text or not base64. */
int json_get_bytes(const json_t *object, const char *key, struct str *out,
		   struct err *err);

#endif
