/*
 * The [site] section, and the alternative that commands offer to it: --directory DEST,
 * a tree that `replicate` made.
 */
#ifndef CLI_SITE_H
#define CLI_SITE_H

#include "base/base.h"
#include "cli/cli.h"

struct site {
	char *repositories; /* absolute path of the tree; owned */
	char *data;         /* owned */
};

/* From the configuration, or from `directory` if that is not NULL. */
int site_read(const struct cli *cli, const char *directory, struct site *site,
	      struct err *err);
void site_clear(struct site *site);

#endif
