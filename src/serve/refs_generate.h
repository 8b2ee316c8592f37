/*
 * What git offers under protocol 2, remembered by what it depends on: the content of a
 * repository's configuration and the version of git. Bounded. Any thread.
 */
#ifndef SERVE_REFS_GENERATE_H
#define SERVE_REFS_GENERATE_H

#include "base/base.h"
#include "base/str.h"
#include "serve/fill.h"

/* A repository's configuration at one moment. */
struct config_look {
	bool is_known;             /* one that a memory can go by */
	unsigned char content[32]; /* equal for equal content */
	unsigned char file[32];    /* equal only if nobody wrote the file in between */
};

/* Looks at the repository whose directory is open. */
void config_look(int dir, struct config_look *look);
bool config_stood_still(const struct config_look *before,
			const struct config_look *after);

/* `git` is what git calls itself. Appends to *text; false: it is not known. */
bool capabilities_find(struct capabilities *capabilities, const struct config_look *look,
		       const char *git, struct str *text);
void capabilities_keep(struct capabilities *capabilities, const struct config_look *look,
		       const char *git, const struct str *text);

#endif
