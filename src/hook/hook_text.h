/*
 * Text and error messages for refrelay-hook, which does not use stdio. One thread.
 */
#ifndef HOOK_HOOK_TEXT_H
#define HOOK_HOOK_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NUMBER_SIZE = 24 };

/* Appends to text, which has room for `size` with its NUL; truncates. */
void hook_text_add(char *text, size_t size, const char *more);

/* The number in at least this many digits; they are stored in `text`. */
const char *number(uint64_t value, int digits, char text[NUMBER_SIZE]);
void hook_text_add_number(char *text, size_t size, uint64_t value);

bool hook_text_begins_with(const char *text, const char *prefix);

/* One line, "refrelay: <text>"; git shows it to the person pushing. */
void hook_text_say(const char *text);

/* The same with "<what>: <why>". */
void hook_text_complain(const char *what, const char *why);
void complain_errno(const char *what);

/* Reads as much of a file as there is room for, with a NUL; false with errno set. */
bool hook_text_read_file(int dir, const char *path, char *text, size_t size);

#endif
