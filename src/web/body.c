/*
 * A body of Git's can be large (the wants of a repository with a million refs), and a
 * small gzip can stand for gigabytes; so what is above 1 MiB lies on disk, below
 * site.data and without a name, and what is above the limit is refused. Nothing is
 * handed on before all of it is here: a body that was cut must not be taken for a
 * shorter one. Gzip is kept as it comes and inflated at the end, by who may wait: the few
 * threads that take bytes in serve all other clients, too.
 *
 * All files together are bounded: some hundred clients could fill the disk otherwise,
 * on which more important things lie.
 */
#include "web/body.h"

#include <limits.h>
#include <stdatomic.h>

#include "base/file.h"

enum { GZIP_ONLY = 16 };

/* Whether that is what it inflates, as Content-Encoding says it. */
static bool gunzip_is_for(const char *encoding)
{
	return strcmp(encoding, "gzip") == 0 || strcmp(encoding, "x-gzip") == 0;
}

static int gunzip_begin(struct gunzip *gunzip, struct err *err)
{
	*gunzip = (struct gunzip){ 0 };
	if (inflateInit2(&gunzip->stream, MAX_WBITS + GZIP_ONLY) != Z_OK)
		return err_set(err, ERR_INTERNAL, "zlib cannot inflate");
	return 0;
}

static void gunzip_clear(struct gunzip *gunzip)
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
	return err_set(err, ERR_CONFIG, "the body is not gzip: %s",
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
	return err_set(err, ERR_CONFIG, "the body is gzip that ends too early");
}

enum { INFLATE_BLOCK = 64 << 10 };

static atomic_uint_fast64_t spooled; /* bytes in files, of all bodies */
static atomic_uint_fast64_t spooled_max = WEB_BODIES_MAX;

uint64_t body_bound_files(uint64_t bytes)
{
	return atomic_exchange(&spooled_max, bytes);
}

static void body_drop(struct body *body)
{
	if (body->fd >= 0)
		close(TAKE_FD(body->fd));
	atomic_fetch_sub(&spooled, body->held);
	body->held = 0;
	str_clear(&body->memory);
}

static int body_refuse(struct body *body, int status)
{
	body_drop(body);
	body->refusal = status;
	return -1;
}

static int refuse_file(struct body *body, const struct err *err)
{
	if (err->class == ERR_BUSY)
		return body_refuse(body, 503);
	return body_refuse(body, err->class == ERR_DISK ? 507 : 500);
}

static bool may_be_packed(enum web_body kind)
{
	return kind == WEB_BODY_FILE || kind == WEB_BODY_STREAM;
}

static uint64_t limit_of(enum web_body kind)
{
	if (kind == WEB_BODY_STREAM) /* the handler's */
		return UINT64_MAX;
	return kind == WEB_BODY_FILE ? WEB_BODY_FILE_MAX : WEB_BODY_MEMORY_MAX;
}

int body_begin(struct body *body, enum web_body kind, const char *encoding,
	       const char *data, struct err *err)
{
	*body = (struct body){ .kind = kind, .data = data, .memory = STR_INIT, .fd = -1 };
	body->limit = limit_of(kind);
	if (!encoding || !*encoding || strcmp(encoding, "identity") == 0)
		return 0;
	if (!may_be_packed(kind) || !gunzip_is_for(encoding)) {
		err_set(err, ERR_CONFIG, "Content-Encoding %s is not understood here",
			encoding);
		err_remedy(err, "send the body %s",
			   may_be_packed(kind) ? "as it is, or as gzip" : "as it is");
		return body_refuse(body, 415);
	}
	if (gunzip_begin(&body->gunzip, err))
		return body_refuse(body, 500);
	body->is_packed = true;
	return 0;
}

void body_clear(struct body *body)
{
	if (body->is_packed)
		gunzip_clear(&body->gunzip);
	body_drop(body);
	*body = (struct body){ .memory = STR_INIT, .fd = -1 };
}

/* Without O_TMPFILE (some file systems) it has a name for a moment. */
static int body_open_nameless(const char *folder, struct err *err)
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

static int body_write_spool(struct body *body, const void *bytes, size_t len,
			    struct err *err)
{
	body->held += len;
	if (atomic_fetch_add(&spooled, len) + len > atomic_load(&spooled_max))
		return err_set(err, ERR_BUSY, "too many large requests just now");
	return file_write_all(body->fd, bytes, len, "a request's body", err);
}

static int spill(struct body *body, struct err *err)
{
	AUTO_FREE char *folder = xasprintf("%s/tmp", body->data);

	if (dir_make(AT_FDCWD, folder, err))
		return -1;
	body->fd = body_open_nameless(folder, err);
	if (body->fd < 0)
		return -1;
	if (body_write_spool(body, body->memory.data, body->memory.len, err))
		return -1;
	str_clear(&body->memory);
	return 0;
}

static int body_keep_bytes(struct body *body, const void *bytes, size_t len,
			   struct err *err)
{
	if (len > body->limit - body->size) {
		err_set(err, ERR_CONFIG, "the body has more than %" PRIu64 " bytes",
			body->limit);
		return body_refuse(body, 413);
	}
	body->size += len;
	if (body->kind == WEB_BODY_FILE && body->fd < 0 &&
	    body->size > WEB_BODY_MEMORY_MAX && spill(body, err))
		return refuse_file(body, err);
	if (body->fd < 0)
		str_add_bytes(&body->memory, bytes, len);
	else if (body_write_spool(body, bytes, len, err))
		return refuse_file(body, err);
	return 0;
}

static int inflate_bytes(struct body *body, const void *bytes, size_t len,
			 struct err *err)
{
	unsigned char block[INFLATE_BLOCK];
	ssize_t count;

	gunzip_feed(&body->gunzip, bytes, len);
	while ((count = gunzip_read(&body->gunzip, block, sizeof(block), err)) > 0)
		if (body_keep_bytes(body, block, (size_t)count, err))
			return -1;
	return count == 0 ? 0 : body_refuse(body, 400);
}

int body_add(struct body *body, const void *bytes, size_t len, struct err *err)
{
	return body_keep_bytes(body, bytes, len, err);
}

static int inflate_file(struct body *body, int fd, struct err *err)
{
	unsigned char block[INFLATE_BLOCK];
	off_t at = 0;
	ssize_t len;

	while ((len = pread(fd, block, sizeof(block), at)) > 0) {
		if (inflate_bytes(body, block, (size_t)len, err))
			return -1;
		at += len;
	}
	if (len == 0)
		return 0;
	err_errno(err, "cannot read a request's body");
	return body_refuse(body, 500);
}

/* What came gives way to what it stands for. */
static int inflate_all(struct body *body, struct err *err)
{
	struct body packed = { .memory = body->memory,
			       .fd = TAKE_FD(body->fd),
			       .held = body->held };
	int result;

	body->memory = (struct str)STR_INIT;
	body->held = body->size = 0;
	result = packed.fd >= 0 ? inflate_file(body, packed.fd, err)
				: inflate_bytes(body, packed.memory.data,
						packed.memory.len, err);
	body_drop(&packed);
	if (result == 0 && gunzip_end(&body->gunzip, err))
		return body_refuse(body, 400);
	return result;
}

int body_end(struct body *body, struct err *err)
{
	if (body->is_packed && inflate_all(body, err))
		return -1;
	if (body->fd < 0)
		return 0;
	if (lseek(body->fd, 0, SEEK_SET) < 0) {
		err_errno(err, "cannot rewind a request's body");
		return body_refuse(body, 500);
	}
	return 0;
}
