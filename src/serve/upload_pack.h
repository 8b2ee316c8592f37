/*
 * Reading a repository by Git's smart HTTP protocol: one `git upload-pack` for each
 * request, its output streamed. Protocols 0, 1 and 2. Independent of the HTTP server, and
 * without limits: the caller must have a slot (serve/slots.h). Any thread; one thread at
 * a time per struct upload_pack.
 *
 * Under protocols 0 and 1 a client may request what git allows in a repository with this
 * configuration. Under protocol 2 it may also clone in part, unless the repository sets
 * uploadpack.allowFilter = false.
 *
 * Source: gitprotocol-http(5), git-upload-pack(1).
 */
#ifndef SERVE_UPLOAD_PACK_H
#define SERVE_UPLOAD_PACK_H

#include "base/base.h"
#include "base/str.h"
#include "base/thread.h"

struct upload_pack;

enum upload_pack_step {
	UPLOAD_PACK_ADVERTISE, /* GET info/refs; the stream includes the service line */
	UPLOAD_PACK_REFS,      /* the same without the service line */
	UPLOAD_PACK_ANSWER,    /* POST git-upload-pack */
};

struct upload_pack_request {
	const char *path; /* of the repository on disk */
	int dir;          /* above 0: its directory, open, as find_repository() returns
			     it; `path` is then only for messages. Borrowed for open */
	enum upload_pack_step step;
	bool is_for_copy;        /* even where the repository keeps readers out */
	bool holds_back;         /* an answer that breaks off within 64 KiB and half a
				    second fails in open: the caller has an alternative */
	const char *protocol;    /* the header Git-Protocol as it came; NULL: none */
	const struct str *body;  /* ANSWER: the request's body, inflated; borrowed for the
				  * call; NULL: ... */
	int body_fd;             /* ... it is this file, from its beginning;
				  * likewise borrowed */
	int64_t timeout_ms;      /* for all of it; 0: none */
	int64_t silence_ms;      /* without a byte while one is waited for; 0: 10 min */
	const struct stop *stop; /* may be NULL */
	bool *is_bad; /* may be NULL; set if open fails: whether the request is at fault
		       * (ERR_CONFIG), or may be (ERR_INTERNAL: git died of what is not
		       * known here) */
};

/* Starts it, and waits for its first bytes or its end, so that an error can still become
 * a status: ERR_MISSING (repository not found), ERR_AUTH (REASON_CLOSED: its
 * http.uploadpack is false), ERR_CORRUPT (REASON_LOST_OBJECT: the object of a ref,
 * requested by the client, is missing; without it: git refused one that is there, twice),
 * ERR_CONFIG (also: the body is not a request of git), ... Not
 * an error: an answer in which upload-pack itself refuses ("not our ref"), and an empty
 * answer to the empty request with which clients probe. `stop` is borrowed until
 * close. */
int upload_pack_open(const struct upload_pack_request *request, struct upload_pack **pack,
		     struct err *err);

/* The next bytes, at least one. 0: the successful end. -1: it broke off: the connection
 * must be dropped, so that the client does not mistake the answer for complete. */
ssize_t upload_pack_read(struct upload_pack *pack, void *buffer, size_t size,
			 struct err *err);

/* Whether it broke off because of the client's request, or may have. */
bool upload_pack_is_request_bad(const struct upload_pack *pack);

/* Frees; ends the child if it still runs. NULL is allowed. */
void upload_pack_close(struct upload_pack *pack);

#endif
