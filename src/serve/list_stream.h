/*
 * An answer to ls-refs that is too long to be made at once for each of many clients: it
 * is made from the generation as far as it is read. One thread at a time.
 */
#ifndef SERVE_LIST_STREAM_H
#define SERVE_LIST_STREAM_H

#include "base/base.h"
#include "base/str.h"
#include "serve/generation.h"
#include "serve/ref_list.h"

struct list_stream;

/* Appends the whole answer and returns NULL, if it is short. Else takes the request, and
 * holds the generation until close. */
struct list_stream *list_stream_open(struct generation *generation,
				     struct ls_refs *request, struct str *out);

/* Both take a struct list_stream. 0: the end. */
ssize_t list_stream_read(void *stream, void *buffer, size_t size);
void list_stream_close(void *stream);

#endif
