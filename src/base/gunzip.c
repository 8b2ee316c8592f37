#include "base/gunzip.h"

#include <limits.h>

enum { GZIP_ONLY = 16 };

int gunzip_begin(struct gunzip *gunzip, struct err *err)
{
	*gunzip = (struct gunzip){ 0 };
	if (inflateInit2(&gunzip->stream, MAX_WBITS + GZIP_ONLY) != Z_OK)
		return err_set(err, ERR_INTERNAL, "zlib cannot inflate");
	return 0;
}

void gunzip_clear(struct gunzip *gunzip)
{
	inflateEnd(&gunzip->stream);
}

void gunzip_feed(struct gunzip *gunzip, const void *bytes, size_t len)
{
	/* z_const is not set, but next_in is only read. */
	gunzip->stream.next_in = (Bytef *)(uintptr_t)bytes;
	gunzip->stream.avail_in = (uInt)len;
}

/* There may be several members, one behind the other. */
static int gunzip_inflate_step(struct gunzip *gunzip, struct err *err)
{
	z_stream *stream = &gunzip->stream;

	if (gunzip->is_ended)
		inflateReset(stream);
	int result = inflate(stream, Z_NO_FLUSH);
	gunzip->is_ended = result == Z_STREAM_END;
	gunzip->may_hold_out = stream->avail_out == 0 && !gunzip->is_ended;
	if (result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR)
		return 0;
	return err_set(err, ERR_CONFIG, "this is not gzip: %s",
		       stream->msg ? stream->msg : "zlib gives no reason");
}

ssize_t gunzip_read(struct gunzip *gunzip, void *buffer, size_t size, struct err *err)
{
	z_stream *stream = &gunzip->stream;
	uInt room = size < UINT_MAX ? (uInt)size : UINT_MAX;

	stream->next_out = buffer;
	stream->avail_out = room;
	while (stream->avail_out == room &&
	       (stream->avail_in > 0 || gunzip->may_hold_out))
		if (gunzip_inflate_step(gunzip, err))
			return -1;
	return room - stream->avail_out;
}

int gunzip_end(const struct gunzip *gunzip, struct err *err)
{
	if (gunzip->is_ended)
		return 0;
	return err_set(err, ERR_CONFIG, "this is gzip that ends too early");
}
