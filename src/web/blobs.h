/*
 * Blobs of this primary, read as they are recorded: a blob that differs from its row is
 * recorded first, so that timeline, generation and checksum belong to the bytes. Any
 * thread; one thread at a time per struct.
 */
#ifndef WEB_BLOBS_H
#define WEB_BLOBS_H

#include "change/blob_notice.h"
#include "web/services.h"
#include "web/web.h"

struct blob_source {
	const struct web_services *services;
	const struct kind *kind;
	const struct stop *stop;
	int root; /* owned */
};

struct blob_reading {
	int fd; /* owned; -1: none */
	struct stat stat;
	struct blob_fingerprint fingerprint;
	struct origin_row row;
};

#define BLOB_READING_INIT                                                                \
	{                                                                                \
		.fd = -1                                                                 \
	}
#define AUTO_BLOB_READING __attribute__((cleanup(blob_reading_clear)))
void blob_reading_clear(struct blob_reading *reading);

/* Whether all bytes read so far are of that one moment. */
bool blob_reading_holds(const struct blob_reading *reading);

/*
 * A blob's bytes as an answer. Internal to web/.
 */

/* Answers with the file, as the request's headers ask: all of it, a part, nothing if the
 * client has it, or a refusal. At a primary. */
int retrieve_file(const struct web_request *request, const struct kind *kind,
		  const char *id, struct web_response *response, struct err *err);

/* The same for an opened blob; takes the reading. */
void retrieve_answer(const struct web_request *request, const struct kind *kind,
		     struct blob_reading *reading, struct web_response *response);

/* The part of a file to send. False: it does not have this part; the answer says so. */
struct retrieve_part {
	uint64_t begin, length;
};
bool retrieve_choose_part(const struct web_request *request, const char *etag,
			  uint64_t size, struct retrieve_part *part,
			  struct web_response *response);

/* That part on its way: the answer. */
struct sending {
	int fd; /* closed by end */
	void *arg;
	bool (*is_same)(
		const void *arg); /* else its last byte is not sent; may be NULL */
	void (*end)(const struct sending *sending);
	off_t at;
	uint64_t left, sent;
};
void retrieve_send_part(const struct sending *sending, const struct retrieve_part *part,
			struct web_response *response);

/* POST /api/v1/retrieve/TYPE. */
int retrieve_many(const struct web_request *request, struct web_response *response,
		  struct err *err);

#endif
