/*
 * A body of Git's can be large (the wants of a repository with a million refs), and a
 * small gzip can stand for gigabytes; so what is above 1 MiB lies on disk, below
 * site.data and without a name, and what is above the limit is refused while it comes
 * in. Nothing is handed on before all of it is here: a body that was cut must not be
 * taken for a shorter one.
 */
#include "web/body.h"

#include <sys/mman.h>

#include "base/file.h"

enum { INFLATE_BLOCK = 64 << 10, GZIP_ONLY = 16 };

static int refuse(struct body *body, int status)
{
	body->refusal = status;
	return -1;
}

static int refuse_file(struct body *body, const struct err *err)
{
	return refuse(body, err->class == ERR_DISK ? 507 : 500);
}

static bool is_gzip(const char *encoding)
{
	return strcmp(encoding, "gzip") == 0 || strcmp(encoding, "x-gzip") == 0;
}

int body_begin(struct body *body, enum web_body kind, const char *encoding,
	       const char *data, struct err *err)
{
	*body = (struct body){ .kind = kind, .data = data, .memory = STR_INIT, .fd = -1 };
	body->limit = kind == WEB_BODY_FILE ? WEB_BODY_FILE_MAX : WEB_BODY_MEMORY_MAX;
	if (!encoding || !*encoding || strcmp(encoding, "identity") == 0)
		return 0;
	if (kind != WEB_BODY_FILE || !is_gzip(encoding)) {
		err_set(err, ERR_CONFIG, "Content-Encoding %s is not understood here",
			encoding);
		err_remedy(err, "send the body %s",
			   kind == WEB_BODY_FILE ? "as it is, or as gzip" : "as it is");
		return refuse(body, 415);
	}
	if (inflateInit2(&body->inflater, MAX_WBITS + GZIP_ONLY) != Z_OK) {
		err_set(err, ERR_INTERNAL, "zlib cannot inflate");
		return refuse(body, 500);
	}
	body->is_packed = true;
	return 0;
}

void body_clear(struct body *body)
{
	if (body->is_packed)
		inflateEnd(&body->inflater);
	if (body->fd >= 0)
		close(body->fd);
	str_clear(&body->memory);
	*body = (struct body){ .memory = STR_INIT, .fd = -1 };
}

/* Without O_TMPFILE (some file systems) it has a name for a moment. */
static int open_nameless(const char *folder, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/body.XXXXXX", folder);
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
		return fd >= 0 ? fd : err_errno(err, "cannot make a file in %s", folder);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "cannot make a file in %s", folder);
	unlink(path);
	return fd;
}

static int spill(struct body *body, struct err *err)
{
	AUTO_FREE char *folder = xasprintf("%s/tmp", body->data);

	if (dir_make(AT_FDCWD, folder, err))
		return -1;
	body->fd = open_nameless(folder, err);
	if (body->fd < 0)
		return -1;
	if (file_write_all(body->fd, body->memory.data, body->memory.len, folder, err))
		return -1;
	str_clear(&body->memory);
	return 0;
}

/* Inflated bytes. */
static int keep(struct body *body, const void *bytes, size_t len, struct err *err)
{
	if (len > body->limit - body->size) {
		err_set(err, ERR_CONFIG, "the body has more than %" PRIu64 " bytes",
			body->limit);
		return refuse(body, 413);
	}
	body->size += len;
	if (body->kind == WEB_BODY_FILE && body->fd < 0 &&
	    body->size > WEB_BODY_MEMORY_MAX && spill(body, err))
		return refuse_file(body, err);
	if (body->fd < 0)
		str_add_bytes(&body->memory, bytes, len);
	else if (file_write_all(body->fd, bytes, len, "a request's body", err))
		return refuse_file(body, err);
	return 0;
}

/* One step of zlib; is_ended is set behind the last byte of a gzip member, of which
 * there may be several. */
static int inflate_step(struct body *body, struct err *err)
{
	unsigned char block[INFLATE_BLOCK];
	z_stream *stream = &body->inflater;

	if (body->is_ended)
		inflateReset(stream);
	stream->next_out = block;
	stream->avail_out = sizeof(block);
	int result = inflate(stream, Z_NO_FLUSH);
	body->is_ended = result == Z_STREAM_END;
	if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
		err_set(err, ERR_CONFIG, "the body is not gzip: %s",
			stream->msg ? stream->msg : "zlib gives no reason");
		return refuse(body, 400);
	}
	return keep(body, block, sizeof(block) - stream->avail_out, err);
}

int body_add(struct body *body, const void *bytes, size_t len, struct err *err)
{
	if (!body->is_packed)
		return keep(body, bytes, len, err);
	/* z_const is not set, but next_in is only read. */
	body->inflater.next_in = (Bytef *)(uintptr_t)bytes;
	body->inflater.avail_in = (uInt)len;
	while (body->inflater.avail_in > 0 ||
	       (body->inflater.avail_out == 0 && !body->is_ended))
		if (inflate_step(body, err))
			return -1;
	return 0;
}

static int make_small_file(struct body *body, struct err *err)
{
	body->fd = memfd_create("body", MFD_CLOEXEC);
	if (body->fd < 0)
		return err_errno(err, "cannot make a file in memory");
	return file_write_all(body->fd, body->memory.data, body->memory.len,
			      "a request's body", err);
}

int body_end(struct body *body, struct err *err)
{
	if (body->is_packed && !body->is_ended) {
		err_set(err, ERR_CONFIG, "the body is gzip that ends too early");
		return refuse(body, 400);
	}
	if (body->kind != WEB_BODY_FILE)
		return 0;
	if (body->fd < 0 && make_small_file(body, err))
		return refuse_file(body, err);
	if (lseek(body->fd, 0, SEEK_SET) < 0) {
		err_errno(err, "cannot rewind a request's body");
		return refuse(body, 500);
	}
	return 0;
}
