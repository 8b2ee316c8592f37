/*
 * Shared by the files that answer Git LFS: lfs.c has the routes, the batches and the
 * requests to the primary; lfs_object.c has single objects, and decides which of them a
 * repository may give. Internal to web/.
 */
#ifndef WEB_LFS_PARTS_H
#define WEB_LFS_PARTS_H

#include "git/lfs_pointer.h"
#include "pull/glance.h"
#include "replicable/kind.h"
#include "serve/http_service.h"
#include "web/lfs.h"
#include "web/services.h"
#include "web/web.h"

#define LFS_TYPE "application/vnd.git-lfs+json"

/* False, with the answer made: the body's declared type is not LFS_TYPE. That also keeps
 * out requests that a browser sends for another site without asking. */
bool lfs_has_type(const struct web_request *request, struct web_response *response);

/* The kind of blobs for the objects. NULL, with the answer made: this site does not serve
 * objects. */
const struct kind *lfs_kind(const struct web_request *request,
			    struct web_response *response);

/* Whether the repository itself permits this, as with Git over HTTP. ERR_AUTH with
 * REASON_CLOSED: its settings do not, or it is a mirror and does not take uploads. 1: at
 * a secondary whose copy cannot be read: all is for the primary to say. 0 also for
 * uploads there, which always are. */
int lfs_check_open(const struct web_request *request, const char *repository,
		   enum http_service service, struct err *err);

/* The last segment of the path. False, with the answer made: it is not an oid. */
bool lfs_request_oid(const struct web_request *request, char oid[LFS_OID_SIZE],
		     struct web_response *response);

void lfs_answer_json(struct web_response *response, int status, json_t *object);

/* The state of an object of a repository. */
enum lfs_where {
	LFS_STRANGE, /* not the repository's */
	LFS_ABSENT,  /* its own, but not here, or not known to be correct */
	LFS_DAMAGED, /* its own, but damaged here */
	LFS_HERE,
};

#define LFS_ID_SIZE (BLOB_DIGEST_SIZE + 6) /* "aa/bb/" and all digits */

struct lfs_object {
	const char *oid; /* valid; borrowed */
	enum lfs_where where;
	uint64_t size;        /* of the file, if it is here */
	char id[LFS_ID_SIZE]; /* of the blob, if it has a row or is here */
	char timeline[TIMELINE_SIZE];
	uint64_t generation;
	struct glance_blob known; /* at a secondary: of its row */
};

/* Fills in where they are. Objects not recorded for the repository are searched for in
 * its present history. ERR_MISSING: the repository is not here; ERR_BUSY: its history is
 * still being searched; ERR_DISK: the kind's directory is not there. */
int lfs_find(const struct web_request *request, const struct kind *kind,
	     const char *repository, struct lfs_object *objects, size_t count,
	     struct err *err);

/* On whose behalf the primary is asked. */
enum lfs_as {
	LFS_AS_SITE,   /* this site, by its right to read */
	LFS_AS_CLIENT, /* the client, by its credential */
};

/* Forwards the request unchanged, and its answer as it arrives. Never fails: the response
 * says what went wrong. */
void lfs_forward(const struct web_request *request, const char *repository,
		 enum lfs_as as, struct web_response *response);

/* Asks for a batch and reads the answer. 0: it is in *answer; 1: the response is made
 * (the primary refused, or redirects); -1: ERR_NETWORK, ERR_TIMEOUT: not reached. */
int lfs_ask_primary(const struct web_request *request, const char *repository,
		    enum lfs_as as, const struct str *body, struct str *answer,
		    struct web_response *response, struct err *err);

/* Refuses the request, as the primary does not answer. */
void lfs_refuse_unreached(const struct web_request *request, const char *repository,
			  const struct err *err, struct web_response *response);

/* Handlers. */
int lfs_get_object(const struct web_request *request, struct web_response *response,
		   struct err *err);
int lfs_put_object(const struct web_request *request, struct web_response *response,
		   struct err *err);
int lfs_post_verify(const struct web_request *request, struct web_response *response,
		    struct err *err);

#endif
