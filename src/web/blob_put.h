/*
 * Blobs uploaded by clients. Internal to web/.
 */
#ifndef WEB_BLOB_PUT_H
#define WEB_BLOB_PUT_H

#include "change/blob_notice.h"
#include "web/services.h"
#include "web/web.h"

struct blob_put {
	const struct kind *kind;
	const char *id;
	char digest[BLOB_DIGEST_SIZE]; /* the required digest */
	uint64_t size;                 /* the required size; UINT64_MAX: any */
	/* Filled: */
	bool has_wrong_size;
	bool is_new;
	struct origin_row row; /* owned: clear it in any case */
};

/* Puts the request's upload in its place, at a primary: it is on disk and in the event
 * log on return. ERR_CORRUPT: the digest or the size differs; ERR_CONFLICT: something
 * else is there, or it was changed again at once; ERR_DISK: no space. After an error
 * nothing of it is left, unless it was changed again. */
int blob_put_upload(const struct web_request *request, struct blob_put *put,
		    struct err *err);

/* PUT /api/v1/blobs/TYPE/ID: at a primary, or at a secondary on its behalf. */
int blob_put(const struct web_request *request, struct web_response *response,
	     struct err *err);

#endif
