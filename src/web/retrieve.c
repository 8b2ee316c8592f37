/*
 * The file that was opened is sent, whatever has its name by then. When the last byte is
 * due it is asked whether the file is still as it was when its row was read; if it is
 * not, that byte is never sent, so nobody takes for one content what was two.
 */
#include "web/retrieve.h"

#include <sys/sendfile.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "web/answer.h"
#include "web/api.h"
#include "web/negotiate.h"
#include "wire/wire_blob.h"

void retrieve_count(const char *kind, const char *class, uint64_t blobs, uint64_t bytes)
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

/* A part of a file on its way. */
struct sending {
	struct blob_reading reading;
	char *kind; /* owned */
	off_t at;
	uint64_t left, sent;
};

static bool is_still_the_same(const struct sending *sending)
{
	if (blob_reading_holds(&sending->reading))
		return true;
	log_warn("blob.cut", LOG_TEXT("kind", sending->kind),
		 LOG_TEXT("name", sending->reading.row.name));
	return false;
}

static ssize_t retrieve_read_file(void *arg, void *buffer, size_t size)
{
	struct sending *sending = arg;
	ssize_t got;

	if (sending->left == 0)
		return 0;
	if (size > sending->left)
		size = (size_t)sending->left;
	do {
		got = pread(sending->reading.fd, buffer, size, sending->at);
	} while (got < 0 && errno == EINTR);
	if (got <= 0 || ((uint64_t)got == sending->left && !is_still_the_same(sending)))
		return -1;
	sending->at += got;
	sending->left -= (uint64_t)got;
	sending->sent += (uint64_t)got;
	return got;
}

static ssize_t send_file(void *arg, int socket, size_t max)
{
	struct sending *sending = arg;
	ssize_t sent = sendfile(socket, sending->reading.fd, &sending->at, max);

	if (sent > 0) {
		sending->left -= (uint64_t)sent;
		sending->sent += (uint64_t)sent;
	}
	return sent;
}

static void retrieve_close_file(void *arg)
{
	struct sending *sending = arg;

	if (sending->sent > 0) /* not of HEAD */
		retrieve_count(sending->kind, "file", 1, sending->sent);
	blob_reading_clear(&sending->reading);
	free(sending->kind);
	free(sending);
}

int retrieve_failed(struct web_response *response, const struct err *err)
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

	clock_format_http(reading->print.mtime_ns / 1000000, modified);
	web_add_header(response, "ETag", "%s", etag);
	web_add_header(response, "Last-Modified", "%s", modified);
	web_set_header(response, "Accept-Ranges", "bytes");
	web_set_header(response, "X-Content-Type-Options", "nosniff");
	if (reading->row.checksum)
		web_add_header(response, WIRE_CHECKSUM, "%s", reading->row.checksum);
}

/* What is sent of it. */
struct part {
	uint64_t begin, length;
};

/* False: it has no such part, as is answered. A range counts with GET only. */
static bool choose_part(const struct web_request *request, const char *etag,
			uint64_t size, struct part *part, struct web_response *response)
{
	enum negotiated_range range = RANGE_ALL;

	*part = (struct part){ 0, size };
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
static void send_part(struct blob_reading *reading, const struct blob_kind *kind,
		      const struct part *part, struct web_response *response)
{
	response->content_type = "application/octet-stream";
	if (part->length == 0) {
		retrieve_count(kind->type, "file", 1, 0);
		return;
	}
	struct sending *sending = xcalloc(1, sizeof(*sending));
	sending->reading = *reading;
	*reading = (struct blob_reading)BLOB_READING_INIT;
	sending->kind = xstrdup(kind->type);
	sending->at = (off_t)part->begin;
	sending->left = part->length;
	response->length = part->length;
	response->may_leave_length_out = response->status == 206;
	response->read = retrieve_read_file;
	response->send = send_file;
	response->close = retrieve_close_file;
	response->stream = sending;
}

void retrieve_answer(const struct web_request *request, const struct blob_kind *kind,
		     struct blob_reading *reading, struct web_response *response)
{
	char etag[WIRE_BLOB_ETAG_SIZE];
	struct part part;

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
	else if (choose_part(request, etag, reading->print.size, &part, response))
		send_part(reading, kind, &part, response);
}

int retrieve_file(const struct web_request *request, const struct blob_kind *kind,
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
	const struct blob_kind *kind;

	if (!api_needs_role(request, SITE_PRIMARY, response))
		return 0;
	kind = api_blob_kind(request, response);
	if (!kind)
		return 0;
	return retrieve_file(request, kind, request->name, response, err);
}

const struct web_route web_retrieve_routes[] = {
	{ "GET", "/api/v1/retrieve/{kind}/{name}", WEB_SITE, WEB_BODY_NONE, get_file },
	{ "POST", "/api/v1/retrieve/{kind}", WEB_SITE, WEB_BODY_MEMORY, retrieve_many },
	{ 0 },
};
