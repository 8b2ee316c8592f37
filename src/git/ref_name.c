/*
 * The rules of git-check-ref-format(1) for a full name.
 */
#include "git/refs.h"

/* One part of the name: not empty, no leading dot, no ".lock" at the end. */
static bool part_is_valid(const char *part, size_t len)
{
	static const char lock[] = ".lock";
	size_t tail = sizeof(lock) - 1;

	if (len == 0 || part[0] == '.')
		return false;
	return len < tail || memcmp(part + len - tail, lock, tail) != 0;
}

static bool byte_is_valid(const char *at)
{
	unsigned char c = (unsigned char)*at;

	if (c < 0x20 || c == 0x7f || strchr(" ~^:?*[\\", c))
		return false;
	if (c == '.' && at[1] == '.')
		return false;
	return c != '@' || at[1] != '{';
}

bool ref_name_is_below(const char *name, const char *above)
{
	return text_starts_with(name, above) && name[strlen(above)] == '/';
}

bool ref_name_is_valid(const char *name)
{
	const char *part = name + 5;

	if (!text_starts_with(name, "refs/"))
		return false;
	for (const char *at = part; *at; at++) {
		if (!byte_is_valid(at))
			return false;
		if (*at == '/') {
			if (!part_is_valid(part, (size_t)(at - part)))
				return false;
			part = at + 1;
		}
	}
	size_t len = strlen(part);
	return part_is_valid(part, len) && part[len - 1] != '.';
}
