#include "git/commit_text.h"

bool commit_text_oid(const char **at, const char *end, const char *name, struct oid *oid)
{
	const size_t len = strlen(name), hex = 2 * 20;

	if ((size_t)(end - *at) < len + 1 + hex + 1 || memcmp(*at, name, len) != 0 ||
	    (*at)[len] != ' ' || (*at)[len + 1 + hex] != '\n' ||
	    !oid_parse(*at + len + 1, 20, oid))
		return false;
	*at += len + 1 + hex + 1;
	return true;
}

int64_t commit_text_date(const char *at, const char *end)
{
	static const char mark[] = "\ncommitter ";
	const char *line = memmem(at, (size_t)(end - at), mark, strlen(mark));
	const char *stop, *number;
	int64_t date = 0;

	if (!line)
		return 0;
	line += strlen(mark);
	stop = memchr(line, '\n', (size_t)(end - line));
	number = stop ? memrchr(line, '>', (size_t)(stop - line)) : NULL;
	if (!number)
		return 0;
	for (number++; number < stop && *number == ' ';)
		number++;
	for (; number < stop && *number >= '0' && *number <= '9' && date < INT64_MAX / 16;
	     number++)
		date = date * 10 + (*number - '0');
	return date;
}
