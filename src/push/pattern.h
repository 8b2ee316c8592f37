/*
 * Patterns for names of projects and refs (struct name_pattern of push/settings.h).
 * Regular expressions are Java's, run by PCRE2: for the whole name, with limits so that
 * they cannot block a thread for long. Any thread may match at the same time.
 */
#ifndef PUSH_PATTERN_H
#define PUSH_PATTERN_H

#include "base/setting.h"
#include "push/settings.h"

/* "^...": a regular expression; "...*": a prefix; else the name itself. The caller frees.
 * ERR_CONFIG: it cannot be compiled. */
int name_pattern_new(const char *text, struct name_pattern **pattern, struct err *err);

/* For a row whose field is a name_patterns: adds one. */
int name_patterns_read(const struct setting *row, const struct conf_entry *entry,
		       void *target, struct err *err);

/* Always a regular expression. */
int name_pattern_new_regex(const char *text, struct name_pattern **pattern,
			   struct err *err);
void name_patterns_clear(name_patterns *patterns);

/* Appends a text that differs for patterns of different meaning. */
void name_pattern_render(const struct name_pattern *pattern, struct str *out);

/* Appends it as it was written. */
void name_pattern_show(const struct name_pattern *pattern, struct str *out);
bool name_pattern_is_exact(const struct name_pattern *pattern);

/* Whether one of them matches. They differ when a limit ended the matching without an
 * answer: then _take() is false and _leave_out() true. */
bool name_patterns_take(const name_patterns *patterns, const char *name);
bool name_patterns_leave_out(const name_patterns *patterns, const char *name);

/*
 * Push specs, as JGit reads them: "+SRC:DST", "SRC"; one "*" on each side, or no "*".
 */

/* ERR_CONFIG: not a push spec, or a "*" on one side only. */
int push_spec_read(const char *text, struct push_spec *spec, struct err *err);
void push_spec_clear(struct push_spec *spec);

/* Whether it maps the ref; then the caller frees *dst. */
bool push_spec_maps(const struct push_spec *spec, const char *ref, char **dst);

/* Appends "+SRC:DST". */
void push_spec_render(const struct push_spec *spec, struct str *out);

#endif
