/*
 * Push specs, as JGit reads them: "+SRC:DST", "SRC"; one "*" on both sides or none.
 */
#ifndef PUSH_SPEC_H
#define PUSH_SPEC_H

#include "push/settings.h"

/* ERR_CONFIG: it is none, or one with a "*" on one side only. */
int push_spec_read(const char *text, struct push_spec *spec, struct err *err);
void push_spec_clear(struct push_spec *spec);

/* Whether it maps the ref; then the caller frees *dst. */
bool push_spec_maps(const struct push_spec *spec, const char *ref, char **dst);

/* Appends "+SRC:DST". */
void push_spec_render(const struct push_spec *spec, struct str *out);

#endif
