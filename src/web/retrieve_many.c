/*
 * Small blobs, many in one answer: a line of JSON and then the bytes, one after another.
 * Each is read whole, and known to be one moment's, before its line is sent; so at most
 * one of them and a block of what is to be sent are held. The last line says that this
 * was all: an answer without it was cut.
 */
#include "base/log.h"
#include "web/api.h"
#include "web/retrieve.h"
#include "wire/wire_frames.h"

#define SMALL_MAX ((uint64_t)1 << 20)
#define PREPARED 100 /* rows read at once */
#define BLOCK (256 << 10)

struct batch {
	struct blob_source source;
	const struct stop *cut;
	json_t *ids; /* owned */
	size_t count, next;
	struct blob_reading prepared[PREPARED];
	size_t prepared_from, prepared_count;
	struct str ready; /* from `at` on */
	size_t at;
	bool is_ended;
	uint64_t blobs, bytes;
};

static const char *id_at(const struct batch *batch, size_t i)
{
	return json_string_value(json_array_get(batch->ids, i));
}

static void forget_prepared(struct batch *batch)
{
	for (size_t i = 0; i < batch->prepared_count; i++)
		blob_reading_clear(&batch->prepared[i]);
	batch->prepared_count = 0;
}

static int retrieve_many_prepare(struct batch *batch, struct err *err)
{
	const char *ids[PREPARED];
	size_t count = batch->count - batch->next;

	count = count < PREPARED ? count : PREPARED;
	forget_prepared(batch);
	for (size_t i = 0; i < count; i++)
		ids[i] = id_at(batch, batch->next + i);
	batch->prepared_from = batch->next;
	batch->prepared_count = count;
	return blob_readings_prepare(&batch->source, ids, count, batch->prepared, err);
}

static void retrieve_many_add_refusal(struct batch *batch, const char *id,
				      const char *code, const char *message)
{
	const struct wire_frame frame = { .name = id, .code = code, .message = message };

	wire_frame_render(&frame, &batch->ready);
}

static void retrieve_many_add_head(struct batch *batch,
				   const struct blob_reading *reading, const char *id)
{
	const struct origin_row *row = &reading->row;
	struct wire_frame frame = { .name = id,
				    .size = reading->print.size,
				    .generation = row->generation };

	memcpy(frame.timeline, row->timeline, sizeof(frame.timeline));
	if (row->checksum)
		snprintf(frame.checksum, sizeof(frame.checksum), "%s", row->checksum);
	wire_frame_render(&frame, &batch->ready);
}

/* Behind what is ready. ERR_CONFLICT: it is not what it was. */
static int read_whole(struct str *out, const struct blob_reading *reading,
		      struct err *err)
{
	size_t size = (size_t)reading->print.size, got = 0;

	str_reserve(out, size);
	while (got < size) {
		ssize_t count = pread(reading->fd, out->data + out->len + got, size - got,
				      (off_t)got);
		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return err_errno(err, "cannot read %s", reading->row.name);
		if (count == 0)
			break;
		got += (size_t)count;
	}
	if (got < size || !blob_reading_holds(reading))
		return err_set(err, ERR_CONFLICT, "%s changed while it was read",
			       reading->row.name);
	out->len += size;
	out->data[out->len] = '\0';
	return 0;
}

static int retrieve_many_add_content(struct batch *batch,
				     const struct blob_reading *reading, const char *id,
				     struct err *err)
{
	size_t before = batch->ready.len;

	if (reading->print.size > SMALL_MAX) {
		retrieve_many_add_refusal(batch, id, WIRE_TOO_LARGE,
					  "it is fetched alone");
		return 0;
	}
	retrieve_many_add_head(batch, reading, id);
	if (read_whole(&batch->ready, reading, err) != 0) {
		str_truncate(&batch->ready, before);
		return -1;
	}
	batch->blobs++;
	batch->bytes += reading->print.size;
	return 0;
}

/* What is wrong with one blob is said in its place. */
static int add_next(struct batch *batch, struct err *err)
{
	const char *id = id_at(batch, batch->next);

	if (batch->next >= batch->prepared_from + batch->prepared_count &&
	    retrieve_many_prepare(batch, err) != 0)
		return -1;
	struct blob_reading *reading =
		&batch->prepared[batch->next - batch->prepared_from];
	int result = blob_reading_open(&batch->source, id, reading, err);
	if (result == 0)
		result = retrieve_many_add_content(batch, reading, id, err);
	blob_reading_clear(reading);
	batch->next++;
	if (result == 0)
		return 0;
	const char *code = wire_frame_code(err->class);
	if (!code)
		return -1;
	retrieve_many_add_refusal(batch, id, code, err->text);
	return 0;
}

static int retrieve_many_fill(struct batch *batch, struct err *err)
{
	str_reset(&batch->ready);
	batch->at = 0;
	while (!batch->is_ended && batch->ready.len < BLOCK) {
		if (stop_is_requested(batch->cut))
			return err_set(err, ERR_CANCELED, "this node is ending");
		batch->is_ended = batch->next == batch->count;
		if (batch->is_ended)
			wire_frames_render_end(&batch->ready);
		else if (add_next(batch, err) != 0)
			return -1;
	}
	return 0;
}

static ssize_t read_batch(void *arg, void *buffer, size_t size)
{
	struct batch *batch = arg;
	struct err err;

	if (batch->at == batch->ready.len && retrieve_many_fill(batch, &err) != 0) {
		log_warn("blob.batch_broken", LOG_ERR(&err),
			 LOG_TEXT("kind", batch->source.kind->type));
		return -1;
	}
	size_t left = batch->ready.len - batch->at;
	size = size < left ? size : left;
	memcpy(buffer, batch->ready.data + batch->at, size);
	batch->at += size;
	return (ssize_t)size;
}

static void close_batch(void *arg)
{
	struct batch *batch = arg;

	retrieve_count(batch->source.kind->type, "batch", batch->blobs, batch->bytes);
	forget_prepared(batch);
	blob_source_close(&batch->source);
	str_clear(&batch->ready);
	json_decref(batch->ids);
	free(batch);
}

static int retrieve_many_begin(const struct web_request *request,
			       const struct blob_kind *kind,
			       struct web_response *response, struct err *err)
{
	json_auto_t *ids = wire_frames_asked(request->body, err);
	struct blob_source source;

	if (!ids ||
	    blob_source_open(&source, request->services, kind, request->cut, err) != 0)
		return -1;
	struct batch *batch = xcalloc(1, sizeof(*batch));
	batch->source = source;
	batch->cut = request->cut;
	batch->ids = json_incref(ids);
	batch->count = json_array_size(ids);
	batch->ready = (struct str)STR_INIT;
	response->content_type = WIRE_FRAMES_TYPE;
	response->read = read_batch;
	response->close = close_batch;
	response->stream = batch;
	return 0;
}

int retrieve_many(const struct web_request *request, struct web_response *response,
		  struct err *err)
{
	const struct blob_kind *kind;

	if (!api_needs_role(request, SITE_PRIMARY, response))
		return 0;
	kind = api_blob_kind(request, response);
	return kind ? retrieve_many_begin(request, kind, response, err) : 0;
}
