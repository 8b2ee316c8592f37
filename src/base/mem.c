#include <stdarg.h>

#include "base/base.h"

static void *or_abort(void *pointer)
{
	if (!pointer) {
		static const char text[] = "refrelay: out of memory\n";
		ssize_t ignored = write(2, text, sizeof(text) - 1);
		(void)ignored;
		abort();
	}
	return pointer;
}

void *xmalloc(size_t size)
{
	return or_abort(malloc(size ? size : 1));
}

void *xcalloc(size_t count, size_t size)
{
	return or_abort(calloc(count ? count : 1, size ? size : 1));
}

void *xrealloc(void *old, size_t size)
{
	return or_abort(realloc(old, size ? size : 1));
}

char *xstrdup(const char *text)
{
	return or_abort(strdup(text));
}

char *xstrdup_or_null(const char *text)
{
	return text ? xstrdup(text) : NULL;
}

char *xstrndup(const char *text, size_t len)
{
	return or_abort(strndup(text, len));
}

char *xasprintf(const char *fmt, ...)
{
	char *text = NULL;
	va_list args;

	va_start(args, fmt);
	if (vasprintf(&text, fmt, args) < 0)
		text = NULL;
	va_end(args);
	return or_abort(text);
}
