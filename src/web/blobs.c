/*
 * Kinds of blobs, and their rows, which are web/rows.c's.
 */
#include "web/blobs.h"

#include <sys/sendfile.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "web/answer.h"
#include "web/api.h"
#include "web/blob_put.h"
#include "web/rows.h"
#include "web/web_metrics.h"
#include "wire/wire_blob.h"
#include "wire/wire_frames.h"

/*
 * The row is read before the disk, and the file that is opened is compared with it. A
 * print that was taken right after a write may belong to more than one content, as the
 * clock of files stands still for a while: where no checksum would tell, such a file is
 * waited for.
 */

enum { TRIES = 4, SETTLE_PAUSE_MS = 10, SETTLE_MS = 3000 };

static int blob_source_open(struct blob_source *source,
			    const struct web_services *services, const struct kind *kind,
			    const struct stop *stop, struct err *err)
{
	const struct origin_kind origin = { .of = *kind };

	*source = (struct blob_source){ services, kind, stop, -1 };
	source->root = kind->origin->open_root(&origin, err);
	return source->root < 0 ? -1 : 0;
}

/* ERR_DISK: the kind's directory is away. */
static void blob_source_close(struct blob_source *source)
{
	if (source->root >= 0)
		close(TAKE_FD(source->root));
}

static void blob_reading_close_file(struct blob_reading *reading)
{
	if (reading->fd >= 0)
		close(TAKE_FD(reading->fd));
}

void blob_reading_clear(struct blob_reading *reading)
{
	blob_reading_close_file(reading);
	origin_row_clear(&reading->row);
}

struct rows {
	const char *kind;
	const char *const *ids;
	size_t count;
	struct blob_reading *readings;
};

static int blob_reading_read_rows(struct store_tx *tx, void *arg, struct err *err)
{
	const struct rows *rows = arg;

	for (size_t i = 0; i < rows->count; i++) {
		struct origin_row *row = &rows->readings[i].row;
		origin_row_clear(row); /* of a run before */
		if (origin_row_get(tx, rows->kind, rows->ids[i], row, err) < 0)
			return -1;
	}
	return 0;
}

/* Rows of several ids, as readings to be opened; those of which there is none have no
 * name. */
static int blob_readings_prepare(const struct blob_source *source, const char *const *ids,
				 size_t count, struct blob_reading *readings,
				 struct err *err)
{
	struct rows rows = { source->kind->type, ids, count, readings };

	for (size_t i = 0; i < count; i++)
		readings[i] = (struct blob_reading)BLOB_READING_INIT;
	return store_read(source->services->store, blob_reading_read_rows, &rows, err);
}

static bool blob_reading_is_as_recorded(const struct blob_reading *reading)
{
	char text[BLOB_FINGERPRINT_SIZE];

	blob_fingerprint_format(&reading->fingerprint, text);
	return reading->row.fingerprint && strcmp(reading->row.fingerprint, text) == 0;
}

/* 1: it is open, and as its row says; 0: it is to be noticed. */
static int try_open(const struct blob_source *source, const char *id,
		    struct blob_reading *reading, struct err *err)
{
	blob_reading_close_file(reading);
	if (blob_open(source->root, id, &reading->fd, &reading->stat, err) != 0)
		return err->class == ERR_MISSING && !reading->row.name ? -1 : 0;
	blob_fingerprint_of(&reading->stat, &reading->fingerprint);
	return blob_reading_is_as_recorded(reading);
}

/* The row becomes what the disk says now. */
static int notice(const struct blob_source *source, const char *id,
		  struct blob_reading *reading, struct err *err)
{
	struct noticed noticed = { .name = id };
	int result = notice_compare_this(source->services->notice, source->kind, &noticed,
					 err);

	origin_row_clear(&reading->row);
	reading->row = noticed.row;
	return result;
}

static int check_content(const struct origin_row *row, struct err *err)
{
	if (!blob_row_is_damaged(row))
		return 0;
	err_set(err, ERR_CORRUPT, "%s", row->failure);
	return err_remedy(err, "%s", row->remedy ? row->remedy : "");
}

/* A checksum tells whoever receives it. */
static bool blob_reading_is_settled(const struct blob_reading *reading)
{
	return reading->row.checksum ||
	       blob_fingerprint_is_settled(&reading->fingerprint, clock_wall_ns());
}

/* A time in the future is not waited for for ever. */
static int blob_reading_wait_until_settled(const struct blob_source *source,
					   const struct blob_reading *reading,
					   struct err *err)
{
	int64_t until = clock_boot_ms() + SETTLE_MS;

	while (!blob_reading_is_settled(reading) && clock_boot_ms() < until)
		if (stop_wait(source->stop, SETTLE_PAUSE_MS))
			return err_set(err, ERR_CANCELED, "this node is ending");
	return 0;
}

/* 1: it is as recorded, and rests; 0: not. */
static int open_settled(const struct blob_source *source, const char *id,
			struct blob_reading *reading, struct err *err)
{
	int found = try_open(source, id, reading, err);

	if (found <= 0)
		return found;
	if (check_content(&reading->row, err) != 0 ||
	    blob_reading_wait_until_settled(source, reading, err) != 0)
		return -1;
	return blob_reading_holds(reading);
}

/* ERR_MISSING: there is no such file (any more); ERR_CORRUPT: what is there is no file,
 * or has not the content that it should have; ERR_CONFIG: it may not be read, or cannot
 * be an id; ERR_CONFLICT: it changes too fast; ERR_DISK. `reading` is as initialized, or
 * its row was read a moment ago. Cleared by the caller in any case. */
static int blob_reading_open(const struct blob_source *source, const char *id,
			     struct blob_reading *reading, struct err *err)
{
	if (source->kind->check_name(source->kind, id, err) != 0)
		return -1;
	if (!reading->row.name &&
	    blob_readings_prepare(source, &id, 1, reading, err) != 0)
		return -1;
	for (int i = 0; i < TRIES; i++) {
		int found = open_settled(source, id, reading, err);
		if (found != 0)
			return found < 0 ? -1 : 0;
		if (notice(source, id, reading, err) != 0)
			return -1;
	}
	err_set(err, ERR_CONFLICT, "%s changes all the time", id);
	return err_remedy(err, "try again in a moment");
}

/* Of a file that is not there any more the time of change is that of its removal. */
bool blob_reading_holds(const struct blob_reading *reading)
{
	struct blob_fingerprint now;
	struct stat stat;

	if (fstat(reading->fd, &stat) != 0)
		return false;
	blob_fingerprint_of(&stat, &now);
	return blob_fingerprint_same(&reading->fingerprint, &now) &&
	       (reading->fingerprint.ctime_ns == now.ctime_ns || stat.st_nlink == 0);
}

/*
 * The file that was opened is sent, whatever has its name by then. When the last byte is
 * due it is asked whether the file is still as it was when its row was read; if it is
 * not, that byte is never sent, so nobody takes for one content what was two.
 */

/* What was given out of blobs of that kind. `class`: "file" or "batch". Static. */
static void retrieve_count(const char *kind, const char *class, uint64_t blobs,
			   uint64_t bytes)
{
	struct metric *count = metric_counter(
		"refrelay_blobs_retrieved_total",
		"Blobs that were given out, whole or in part.", "kind", "class");
	struct metric *size =
		metric_counter("refrelay_blobs_retrieved_bytes_total",
			       "Bytes of blobs that were given out.", "kind", "class");

	metric_add(metric_at(count, kind, class), (double)blobs);
	metric_add(metric_at(size, kind, class), (double)bytes);
}

void web_blobs_begin_metrics(const char *kind)
{
	retrieve_count(kind, "file", 0, 0);
	retrieve_count(kind, "batch", 0, 0);
}

/* As in web.h. The last byte is always read. */
static ssize_t sending_read(void *arg, void *buffer, size_t size)
{
	struct sending *sending = arg;
	ssize_t got;

	if (sending->left == 0)
		return 0;
	if (size > sending->left)
		size = (size_t)sending->left;
	do {
		got = pread(sending->fd, buffer, size, sending->at);
	} while (got < 0 && errno == EINTR);
	if (got <= 0 || ((uint64_t)got == sending->left && sending->is_same &&
			 !sending->is_same(sending->arg)))
		return -1;
	sending->at += got;
	sending->left -= (uint64_t)got;
	sending->sent += (uint64_t)got;
	return got;
}

static ssize_t sending_send(void *arg, int socket, size_t max)
{
	struct sending *sending = arg;
	ssize_t sent = sendfile(socket, sending->fd, &sending->at, max);

	if (sent > 0) {
		sending->left -= (uint64_t)sent;
		sending->sent += (uint64_t)sent;
	}
	return sent;
}

static void sending_close(void *arg)
{
	struct sending *sending = arg;

	sending->end(sending);
	free(sending);
}

void retrieve_send_part(const struct sending *sending, const struct retrieve_part *part,
			struct web_response *response)
{
	struct sending *stream = xmalloc(sizeof(*stream));

	*stream = *sending;
	stream->at = (off_t)part->begin;
	stream->left = part->length;
	response->content_type = "application/octet-stream";
	response->length = part->length;
	response->may_leave_length_out = response->status == 206;
	response->read = sending_read;
	response->send = sending_send;
	response->close = sending_close;
	response->stream = stream;
}

struct blob_sending {
	struct blob_reading reading;
	char *kind; /* owned */
};

static bool is_still_the_same(const void *arg)
{
	const struct blob_sending *blob = arg;

	if (blob_reading_holds(&blob->reading))
		return true;
	log_warn("blob.cut", LOG_TEXT("kind", blob->kind),
		 LOG_TEXT("name", blob->reading.row.name));
	return false;
}

static void blob_sending_end(const struct sending *sending)
{
	struct blob_sending *blob = sending->arg;

	if (sending->sent > 0) /* not of HEAD */
		retrieve_count(blob->kind, "file", 1, sending->sent);
	blob_reading_clear(&blob->reading);
	free(blob->kind);
	free(blob);
}

/* What could not be read of a blob, as an answer: 404 FILE_NOT_FOUND, 409. -1: it is for
 * the frame. */
static int retrieve_failed(struct web_response *response, const struct err *err)
{
	switch (err->class) {
	case ERR_MISSING:
		web_answer_problem(response, 404, WIRE_FILE_NOT_FOUND, err->text,
				   err->remedy);
		return 0;
	case ERR_CORRUPT:
	case ERR_CONFLICT:
		api_unreadable(response, err);
		return 0;
	default:
		return -1;
	}
}

static void retrieve_add_headers(const struct blob_reading *reading, const char *etag,
				 struct web_response *response)
{
	char modified[CLOCK_HTTP_SIZE];

	clock_format_http(reading->fingerprint.mtime_ns / 1000000, modified);
	web_add_header(response, "ETag", "%s", etag);
	web_add_header(response, "Last-Modified", "%s", modified);
	web_set_header(response, "Accept-Ranges", "bytes");
	web_set_header(response, "X-Content-Type-Options", "nosniff");
	if (reading->row.checksum)
		web_add_header(response, WIRE_CHECKSUM, "%s", reading->row.checksum);
}

/* A range counts with GET only. */
bool retrieve_choose_part(const struct web_request *request, const char *etag,
			  uint64_t size, struct retrieve_part *part,
			  struct web_response *response)
{
	enum negotiated_range range = RANGE_ALL;

	*part = (struct retrieve_part){ 0, size };
	if (strcmp(request->method, "GET") == 0 &&
	    negotiate_is_part_of(web_header(request, "If-Range"), etag))
		range = negotiate_range(web_header(request, "Range"), size, &part->begin,
					&part->length);
	if (range == RANGE_ALL)
		return true;
	if (range == RANGE_PART) {
		const struct blob_head head = { .offset = part->begin, .size = size };
		char text[WIRE_BLOB_RANGE_SIZE];
		wire_blob_range(&head, part->length, text);
		response->status = 206;
		web_add_header(response, "Content-Range", "%s", text);
		return true;
	}
	web_answer_problem(response, 416, "NO_SUCH_RANGE",
			   "it has no bytes in that range", "ask for less");
	web_add_header(response, "Content-Range", "bytes */%" PRIu64, size);
	return false;
}

/* Takes what was opened. */
static void send_part(struct blob_reading *reading, const struct kind *kind,
		      const struct retrieve_part *part, struct web_response *response)
{
	if (part->length == 0) {
		response->content_type = "application/octet-stream";
		retrieve_count(kind->type, "file", 1, 0);
		return;
	}
	struct blob_sending *blob = xmalloc(sizeof(*blob));
	*blob = (struct blob_sending){ *reading, xstrdup(kind->type) };
	*reading = (struct blob_reading)BLOB_READING_INIT;
	retrieve_send_part(&(struct sending){ .fd = blob->reading.fd,
					      .arg = blob,
					      .is_same = is_still_the_same,
					      .end = blob_sending_end },
			   part, response);
}

void retrieve_answer(const struct web_request *request, const struct kind *kind,
		     struct blob_reading *reading, struct web_response *response)
{
	char etag[WIRE_BLOB_ETAG_SIZE];
	struct retrieve_part part;

	wire_blob_etag(reading->row.timeline, reading->row.generation, etag);
	if (!negotiate_allows(web_header(request, "If-Match"), etag)) {
		web_answer_problem(response, 412, "OTHER_VERSION",
				   "it is another version by now",
				   "begin anew with this one");
		retrieve_add_headers(reading, etag, response);
		return;
	}
	retrieve_add_headers(reading, etag, response);
	if (negotiate_matches(web_header(request, "If-None-Match"), etag))
		response->status = 304;
	else if (retrieve_choose_part(request, etag, reading->fingerprint.size, &part,
				      response))
		send_part(reading, kind, &part, response);
}

int retrieve_file(const struct web_request *request, const struct kind *kind,
		  const char *id, struct web_response *response, struct err *err)
{
	AUTO_BLOB_READING struct blob_reading reading = BLOB_READING_INIT;
	struct blob_source source;
	int result;

	if (blob_source_open(&source, request->services, kind, request->stop, err) != 0)
		return -1;
	result = blob_reading_open(&source, id, &reading, err);
	blob_source_close(&source);
	if (result != 0)
		return retrieve_failed(response, err);
	retrieve_answer(request, kind, &reading, response);
	return 0;
}

static int get_file(const struct web_request *request, struct web_response *response,
		    struct err *err)
{
	const struct kind *kind;

	if (!api_needs_role(request, SITE_PRIMARY, response))
		return 0;
	kind = api_file_kind(request, response);
	if (!kind)
		return 0;
	return retrieve_file(request, kind, request->name, response, err);
}

const struct web_route web_retrieve_routes[] = {
	{ "GET", "/api/v1/retrieve/{kind}/{name}", WEB_SITE, WEB_BODY_NONE, get_file },
	{ "POST", "/api/v1/retrieve/{kind}", WEB_SITE, WEB_BODY_MEMORY, retrieve_many },
	{ 0 },
};

/*
 * Small blobs, many in one answer: a line of JSON and then the bytes, one after another.
 * Each is read whole, and known to be one moment's, before its line is sent; so at most
 * one of them and a block of what is to be sent are held. The last line says that this
 * was all: an answer without it was cut.
 */

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
				    .size = reading->fingerprint.size,
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
	size_t size = (size_t)reading->fingerprint.size, got = 0;

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

	if (reading->fingerprint.size > SMALL_MAX) {
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
	batch->bytes += reading->fingerprint.size;
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

static int retrieve_many_begin(const struct web_request *request, const struct kind *kind,
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
	const struct kind *kind;

	if (!api_needs_role(request, SITE_PRIMARY, response))
		return 0;
	kind = api_file_kind(request, response);
	return kind ? retrieve_many_begin(request, kind, response, err) : 0;
}

struct counting {
	const char *type;
	struct registry_counts counts;
};

static int count_origin(struct store_tx *tx, void *arg, struct err *err)
{
	struct counting *counting = arg;

	return origin_count(tx, counting->type, &counting->counts, err);
}

static int put_origin(struct store *store, const char *type, json_t *object,
		      struct err *err)
{
	struct counting counting = { .type = type };

	if (store_read(store, count_origin, &counting, err) != 0)
		return -1;
	json_put_number(object, "all", counting.counts.all);
	json_put_number(object, "bytes", counting.counts.bytes);
	json_put(object, "verification",
		 report_verification_json(counting.counts.verification));
	return 0;
}

static int put_registry(struct store *store, const char *type, json_t *object,
			struct err *err)
{
	struct registry_counts counts;

	if (registry_counts(store, type, &counts, err) != 0)
		return -1;
	json_put_number(object, "all", counts.all);
	json_put_number(object, "bytes", counts.bytes);
	json_put_number(object, "bytes_to_come", counts.bytes_to_come);
	for (int i = 0; i < REGISTRY_STATES; i++)
		json_put_number(object, registry_state_name((enum registry_state)i),
				counts.states[i]);
	json_put_number(object, "held", counts.held);
	json_put_number(object, "gone", counts.gone);
	json_put(object, "verification", report_verification_json(counts.verification));
	return 0;
}

static int web_blobs_add_kind(const struct web_request *request, const struct kind *kind,
			      json_t *array, struct err *err)
{
	const struct web_services *services = request->services;
	json_t *object = wire_kind_json(kind->type, kind_layout(kind));

	json_array_append_new(array, object);
	return services->role == SITE_SECONDARY
		       ? put_registry(services->store, kind->type, object, err)
		       : put_origin(services->store, kind->type, object, err);
}

static int get_types(const struct web_request *request, struct web_response *response,
		     struct err *err)
{
	json_auto_t *array = json_array();
	const struct kind *kind = NULL;

	while ((kind = kinds_next(request->services->here, kind)) != NULL)
		if (!kind_is_repository(kind->type) &&
		    web_blobs_add_kind(request, kind, array, err) != 0)
			return -1;
	web_answer_json(response, 200, wire_kinds_json(json_incref(array)));
	return 0;
}

const struct web_route web_blob_routes[] = {
	{ "GET", "/api/v1/blobs", WEB_READER, WEB_BODY_NONE, get_types },
	{ "GET", "/api/v1/blobs/{kind}{?after,limit,state,search}", WEB_READER,
	  WEB_BODY_NONE, rows_list },
	{ "GET", "/api/v1/blobs/{kind}/{name}", WEB_READER, WEB_BODY_NONE, rows_get },
	{ "PUT", "/api/v1/blobs/{kind}/{name}", WEB_PRIMARY_OPERATOR, WEB_BODY_STREAM,
	  blob_put },
	{ "POST", "/api/v1/blobs/{kind}/{name}/sync", WEB_OPERATOR, WEB_BODY_MEMORY,
	  rows_sync },
	{ "POST", "/api/v1/blobs/{kind}/{name}/resync", WEB_OPERATOR, WEB_BODY_MEMORY,
	  rows_resync },
	{ "POST", "/api/v1/blobs/{kind}/{name}/reverify", WEB_SITE, WEB_BODY_MEMORY,
	  rows_reverify },
	{ "POST", "/api/v1/blobs/{kind}/{name}/retry", WEB_OPERATOR, WEB_BODY_MEMORY,
	  rows_retry },
	{ "POST", "/api/v1/blobs/{kind}/{name}/release", WEB_OPERATOR, WEB_BODY_MEMORY,
	  rows_release },
	{ 0 },
};
