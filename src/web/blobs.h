/*
 * Blobs of this primary, read as they are recorded: what is not as its row says is
 * noticed first, so that timeline, generation and checksum are those of the bytes. Any
 * thread; one at a time a struct.
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

/* Whether all that was read so far is of that one moment. */
bool blob_reading_holds(const struct blob_reading *reading);

/*
 * A blob's bytes as an answer. Internal to web/.
 */

/* Answers with the file, as the request's headers ask for: all of it, a part, nothing as
 * the client has it, or why not. At a primary. */
int retrieve_file(const struct web_request *request, const struct kind *kind,
		  const char *id, struct web_response *response, struct err *err);

/* The same for what was opened, which is taken. */
void retrieve_answer(const struct web_request *request, const struct kind *kind,
		     struct blob_reading *reading, struct web_response *response);

/* What is sent of a file. False: it has no such part, as is answered. */
struct retrieve_part {
	uint64_t begin, length;
};
bool retrieve_choose_part(const struct web_request *request, const char *etag,
			  uint64_t size, struct retrieve_part *part,
			  struct web_response *response);

/* POST /api/v1/retrieve/TYPE. */
int retrieve_many(const struct web_request *request, struct web_response *response,
		  struct err *err);

#endif
