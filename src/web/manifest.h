/*
 * The manifest of the site's repositories, so that grokmirror and public-inbox mirrors
 * can follow it: GET /manifest.js.gz. The entry of a repository is computed when that has
 * changed, and cached. Any thread.
 */
#ifndef WEB_MANIFEST_H
#define WEB_MANIFEST_H

#include "base/base.h"

struct manifest_book;

/* Empty; `root` is site.repositories, borrowed. */
struct manifest_book *manifest_book_new(const char *root);
void manifest_book_free(struct manifest_book *book); /* NULL is allowed */

/* Rights have changed: who asks whether it has changed since gets it anew. NULL is
 * allowed.
 */
void manifest_book_renew(struct manifest_book *book);

#endif
