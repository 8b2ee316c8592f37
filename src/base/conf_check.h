/*
 * Which sections and keys exist: each owner of a section declares it as a static struct
 * conf_section. Several declarations of the same name add up, and a section that comes
 * both with and without subsection has two. Any thread.
 */
#ifndef BASE_CONF_CHECK_H
#define BASE_CONF_CHECK_H

#include "base/conf.h"

enum conf_strictness {
	CONF_STRICT,
	CONF_LENIENT, /* what is unknown here is worth a warning only */
};

struct conf_section {
	const char *name;
	bool has_subsection;
	enum conf_strictness strictness;
	const char *const *keys; /* ends in NULL; spelt as documented */
};

struct conf_report {
	void (*warn)(void *data, const char *text);
	void *data;
};

/* Finds the first entry that no section knows: ERR_CONFIG, with the nearest name that
 * is known; in lenient sections report->warn hears of it and the search goes on. */
int conf_check(const struct conf *conf, const struct conf_section *const *sections,
	       size_t count, const struct conf_report *report, struct err *err);

#endif
