/*
 * What the files that answer Git LFS share: lfs.c has the routes and asks the
 * primary, lfs.c has the batches, lfs_object.c single objects,
 * and says which of them a repository may give. Internal to web/.
 */
#ifndef WEB_LFS_PARTS_H
#define WEB_LFS_PARTS_H

#include "git/lfs_pointer.h"
#include "pull/glance.h"
#include "replicable/kind.h"
#include "web/lfs.h"
#include "web/services.h"
#include "web/web.h"

#define LFS_TYPE "application/vnd.git-lfs+json"

/* False, with the answer made: the body is not said to be of LFS_TYPE. That also keeps
 * out what a browser sends for some other site without asking. */
bool lfs_has_type(const struct web_request *request, struct web_response *response);

/* The kind of blobs that the objects are, and where its name is the repository's; NULL,
 * with the answer made: this site serves no objects. */
const struct kind *lfs_kind(const struct web_request *request,
			    struct web_response *response);

/* The last segment of the path. False, with the answer made: it is no oid. */
bool lfs_request_oid(const struct web_request *request, char oid[LFS_OID_SIZE],
		     struct web_response *response);

void lfs_answer_json(struct web_response *response, int status, json_t *object);

/* Where one stands with an object of a repository. */
enum lfs_where {
	LFS_STRANGE, /* it does not belong to the repository */
	LFS_ABSENT,  /* it does, and is not here, or not known to be right */
	LFS_DAMAGED, /* it does, and is damaged here */
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

/* Fills in where they are. What the repository is not known to have is looked for in its
 * history, as it is now. ERR_MISSING: no such repository is here; ERR_BUSY: its history
 * is still looked through; ERR_DISK: the kind's directory is away. */
int lfs_find(const struct web_request *request, const struct kind *kind,
	     const char *repository, struct lfs_object *objects, size_t count,
	     struct err *err);

/* Who asks the primary. */
enum lfs_as {
	LFS_AS_SITE,   /* this site, by its own right to read */
	LFS_AS_CLIENT, /* the client, by what it showed */
};

/* Hands the request on as it is, and the answer as it comes. Never fails: the response
 * says what went wrong. */
void lfs_forward(const struct web_request *request, const char *repository,
		 enum lfs_as as, struct web_response *response);

/* Asks for a batch and reads the answer. 0: it is in *answer; 1: the response is made
 * (the primary refused, or redirects); -1: ERR_NETWORK, ERR_TIMEOUT: not reached. */
int lfs_ask_primary(const struct web_request *request, const char *repository,
		    enum lfs_as as, const struct str *body, struct str *answer,
		    struct web_response *response, struct err *err);

/* What was asked cannot be had, as the primary does not answer. */
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
