#include "hook/hook_text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void hook_text_add(char *text, size_t size, const char *more)
{
	size_t used = strlen(text), len = strlen(more);

	if (len > size - used - 1)
		len = size - used - 1;
	memcpy(text + used, more, len);
	text[used + len] = '\0';
}

const char *number(uint64_t value, int digits, char text[NUMBER_SIZE])
{
	char *at = text + NUMBER_SIZE - 1;

	for (*at = '\0'; value > 0 || digits > 0; digits--, value /= 10)
		*--at = (char)('0' + value % 10);
	return at;
}

void hook_text_add_number(char *text, size_t size, uint64_t value)
{
	char digits[NUMBER_SIZE];

	hook_text_add(text, size, number(value, 1, digits));
}

bool hook_text_begins_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

enum { LINE_SIZE = 512 };

void hook_text_say(const char *text)
{
	char line[LINE_SIZE] = "refrelay: ";

	hook_text_add(line, sizeof(line) - 1, text);
	hook_text_add(line, sizeof(line), "\n");
	ssize_t ignored = write(STDERR_FILENO, line, strlen(line));
	(void)ignored;
}

void hook_text_complain(const char *what, const char *why)
{
	char text[LINE_SIZE] = "";

	hook_text_add(text, sizeof(text), what);
	hook_text_add(text, sizeof(text), ": ");
	hook_text_add(text, sizeof(text), why);
	hook_text_say(text);
}

void complain_errno(const char *what)
{
	const char *why = strerrordesc_np(errno);

	hook_text_complain(what, why ? why : "unknown error");
}

bool hook_text_read_file(int dir, const char *path, char *text, size_t size)
{
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, size - 1);
	int saved = errno;

	if (fd >= 0)
		close(fd);
	errno = saved;
	text[len > 0 ? len : 0] = '\0';
	return len >= 0;
}
