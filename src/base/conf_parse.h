/*
 * The syntax of git-config files, apart from what includes mean. For base/conf only.
 */
#ifndef BASE_CONF_PARSE_H
#define BASE_CONF_PARSE_H

#include "base/base.h"

/* One assignment; everything is borrowed for the call of `add`. */
struct conf_parsed {
	const char *section;
	const char *subsection; /* or NULL */
	const char *key;
	const char *value; /* or NULL */
	unsigned line;
};

struct conf_sink {
	int (*add)(void *data, const struct conf_parsed *parsed, struct err *err);
	void *data;
};

/* Hands every assignment in the text to the sink. ERR_CONFIG: wrong syntax, which the
 * text names as "<name>:<line>: ..."; what the sink returned ends the work too. */
int conf_parse(const char *name, const char *text, size_t len,
	       const struct conf_sink *sink, struct err *err);

#endif
