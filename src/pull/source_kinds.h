/*
 * The two kinds of sources behind pull/source.h; functions as there. For pull/source.c.
 */
#ifndef PULL_SOURCE_KINDS_H
#define PULL_SOURCE_KINDS_H

#include "pull/source.h"

struct source_directory {
	const char *root;
	const struct discovery *discovery;
};

char *source_directory_url(const struct source_directory *source, const char *name,
			   struct err *err);
int source_directory_look(const struct source_directory *source, const char *name,
			  struct fingerprint *print, struct err *err);
int source_directory_read(const struct source_directory *source, const char *name,
			  struct source_view *view, struct err *err);

struct source_primary;
struct source_primary *source_primary_new(struct primary *primary, int64_t valid_ms,
					  const struct stop *stop);
void source_primary_free(struct source_primary *source);
char *source_primary_url(const struct source_primary *source, const char *name);
int source_primary_read(struct source_primary *source, const char *name,
			struct source_view *view, struct err *err);

#endif
