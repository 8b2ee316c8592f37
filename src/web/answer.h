/*
 * An answer while it is made up. Plain data, for one thread at a time.
 */
#ifndef WEB_ANSWER_H
#define WEB_ANSWER_H

#include "web/web.h"

/* Makes it an empty 200, closing the stream that it may have. */
void answer_reset(struct web_response *response);

/* Makes it the problem that *err is, with its reason if it has one; status 0: by its
 * class. */
void answer_err(struct web_response *response, int status, const struct err *err);

/* A problem as two lines of text: git shows its user text and no JSON. */
void answer_as_text(struct web_response *response);

/* A problem as git-lfs wants it: it shows its user the message alone. */
void answer_as_lfs(struct web_response *response);

/* Gives shared bytes back, if there are any. */
void answer_release(struct web_shared *shared);

bool answer_has_header(const struct web_response *response, const char *name);

#endif
