/*
 * The page for people, embedded: tools/embed_page.py makes it from web-assets/ when the
 * program is built. Constant data.
 */
#ifndef WEB_PAGE_ASSET_H
#define WEB_PAGE_ASSET_H

#include "base/base.h"

extern const char page_policy[];                 /* Content-Security-Policy */
extern const char page_tag[], page_packed_tag[]; /* ETag, with its quotes */
/* UTF-8, and the same as gzip. */
extern const unsigned char *const page_plain, *const page_packed;
extern const size_t page_plain_size, page_packed_size;

#endif
