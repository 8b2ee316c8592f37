#include "serve/list_stream.h"

/* What is longer is not held for each client, who may take hours to read it. */
#define SHORT ((size_t)128 << 10)
#define PART ((size_t)64 << 10)

struct list_stream {
	struct generation *generation;
	struct ls_refs request;
	struct ref_cursor cursor;
	bool is_over; /* after the part that is here */
	struct str part;
	size_t taken; /* of it */
};

struct list_stream *list_stream_open(struct generation *generation,
				     struct ls_refs *request, struct str *out)
{
	struct ref_cursor cursor = { 0 };
	struct list_stream *stream;

	if (!ref_list_part(generation_refs(generation), request, &cursor, SHORT, out))
		return NULL;
	stream = xcalloc(1, sizeof(*stream));
	stream->generation = generation_ref(generation);
	stream->request = *request;
	*request = (struct ls_refs){ 0 };
	stream->cursor = cursor;
	stream->part = *out;
	*out = (struct str)STR_INIT;
	return stream;
}

static void next_part(struct list_stream *stream)
{
	str_reset(&stream->part);
	stream->taken = 0;
	if (!stream->is_over)
		stream->is_over = !ref_list_part(generation_refs(stream->generation),
						 &stream->request, &stream->cursor, PART,
						 &stream->part);
}

ssize_t list_stream_read(void *arg, void *buffer, size_t size)
{
	struct list_stream *stream = arg;

	if (stream->taken == stream->part.len)
		next_part(stream);
	size_t left = stream->part.len - stream->taken;
	size = size < left ? size : left;
	memcpy(buffer, stream->part.data + stream->taken, size);
	stream->taken += size;
	return (ssize_t)size;
}

void list_stream_close(void *arg)
{
	struct list_stream *stream = arg;

	generation_unref(stream->generation);
	ls_refs_clear(&stream->request);
	str_clear(&stream->part);
	free(stream);
}
