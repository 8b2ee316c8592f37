/*
 * A blob's bytes as an answer. Internal to web/.
 */
#ifndef WEB_RETRIEVE_H
#define WEB_RETRIEVE_H

#include "web/blob_reading.h"
#include "web/web.h"

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
