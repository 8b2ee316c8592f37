/*
 * What a request for a repository by the protocols of Git and of Git LFS says of itself:
 * for its handler and for the decision whether it is let in, which must not differ.
 */
#ifndef WEB_GIT_REQUEST_H
#define WEB_GIT_REQUEST_H

#include "web/web.h"

#define GIT_UPLOAD_PACK "git-upload-pack"
#define GIT_RECEIVE_PACK "git-receive-pack"

/* "git-upload-pack" (also what reads objects of Git LFS), "git-receive-pack" (also what
 * puts them; a batch says which in its body, which must be here), whatever else was asked
 * for, or "". Borrowed for the request. */
const char *git_request_service(const struct web_request *request);

/* The repository's name, not checked; the caller frees. */
char *git_request_repository(const struct web_request *request);

#endif
