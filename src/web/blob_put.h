/*
 * Blobs that clients put here. Internal to web/.
 */
#ifndef WEB_BLOB_PUT_H
#define WEB_BLOB_PUT_H

#include "change/blob_notice.h"
#include "web/services.h"
#include "web/web.h"

struct blob_put {
	const struct kind *kind;
	const char *id;
	char digest[BLOB_DIGEST_SIZE]; /* that it must have */
	/* Filled: */
	bool is_new;
	struct origin_row row; /* owned: clear it in any case */
};

/* Takes the request's upload into place, at a primary: it is on disk and in the event log
 * when this returns. ERR_CORRUPT: the digest is another one; ERR_CONFLICT: something else
 * stands there, or it was changed again at once; ERR_DISK: no room. Then nothing is left
 * of it, but for what was changed again. */
int blob_put_upload(const struct web_request *request, struct blob_put *put,
		    struct err *err);

/* PUT /api/v1/blobs/TYPE/ID: at a primary, and in place of it at a secondary. */
int blob_put(const struct web_request *request, struct web_response *response,
	     struct err *err);

#endif
