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
	const struct blob_kind *kind;
	const struct stop *stop;
	int root; /* owned */
};

/* ERR_DISK: the kind's directory is away. */
int blob_source_open(struct blob_source *source, const struct web_services *services,
		     const struct blob_kind *kind, const struct stop *stop,
		     struct err *err);
void blob_source_close(struct blob_source *source);

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

/* ERR_MISSING: there is no such file (any more); ERR_CORRUPT: what is there is no file,
 * or has not the content that it should have; ERR_CONFIG: it may not be read, or cannot
 * be an id; ERR_CONFLICT: it changes too fast; ERR_DISK. `reading` is as initialized, or
 * its row was read a moment ago. Cleared by the caller in any case. */
int blob_reading_open(const struct blob_source *source, const char *id,
		      struct blob_reading *reading, struct err *err);

/* Rows of several ids, as readings to be opened; those of which there is none have no
 * name. */
int blob_readings_prepare(const struct blob_source *source, const char *const *ids,
			  size_t count, struct blob_reading *readings, struct err *err);

/* Whether all that was read so far is of that one moment. */
bool blob_reading_holds(const struct blob_reading *reading);

/*
 * A blob's bytes as an answer. Internal to web/.
 */

/* Answers with the file, as the request's headers ask for: all of it, a part, nothing as
 * the client has it, or why not. At a primary. */
int retrieve_file(const struct web_request *request, const struct blob_kind *kind,
		  const char *id, struct web_response *response, struct err *err);

/* The same for what was opened, which is taken. */
void retrieve_answer(const struct web_request *request, const struct blob_kind *kind,
		     struct blob_reading *reading, struct web_response *response);

/* What could not be read of a blob, as an answer: 404 FILE_NOT_FOUND, 409. -1: it is for
 * the frame. */
int retrieve_failed(struct web_response *response, const struct err *err);

/* What was given out of blobs of that kind. `class`: "file" or "batch". Static. */
void retrieve_count(const char *kind, const char *class, uint64_t blobs, uint64_t bytes);

/* POST /api/v1/retrieve/TYPE. */
int retrieve_many(const struct web_request *request, struct web_response *response,
		  struct err *err);

#endif
