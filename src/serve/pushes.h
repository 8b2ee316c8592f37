/*
 * Pushes to this site's repositories: a place among those that may run at once, the
 * repository found beneath the root, and git (serve/receive_pack.h). Knows nothing of the
 * HTTP server. Any thread.
 */
#ifndef SERVE_PUSHES_H
#define SERVE_PUSHES_H

#include "serve/receive_pack.h"
#include "serve/serve.h"

struct pushes;

/* One a node. */
struct pushes *pushes_new(const char *root, const struct serve_settings *settings);
void pushes_free(struct pushes *pushes); /* all clients must have left; NULL is allowed */
void pushes_set(struct pushes *pushes, const struct serve_settings *settings);

struct pushes_request {
	const char *name;                /* of the repository, not checked */
	const char *protocol;            /* the header Git-Protocol; NULL: none */
	const char *user;                /* for hooks and reflogs; "": nobody */
	const char *client;              /* its address, for hooks */
	const struct fair_client *share; /* borrowed for the call; may be NULL */
	const struct stop *stop;         /* for waits; may be NULL */
	const struct stop
		*cut; /* for git; may be NULL; kept until the stream is closed */
	/* As in struct receive_pack_request; `read` is not called any more when
	 * pushes_receive has returned. */
	ssize_t (*read)(void *arg, void *buffer, size_t size, struct err *err);
	/* Says to `read` that it shall ask may_wait(of) each second while it waits for
	 * the client, and end with ERR_BUSY if that is false. May be NULL. */
	void (*limit)(void *arg, bool (*may_wait)(void *of), void *of);
	void (*deletes)(void *arg, size_t count); /* may be NULL */
	int (*recorded)(void *arg, struct err *err);
	void (*reported)(void *arg, const struct receive_outcome *outcome);
	void (*close)(void *arg); /* once, when arg is not needed any more, if that was
				   * not failed with; may be NULL */
	void *arg;
};

/* GET info/refs?service=git-receive-pack. ERR_MISSING: no such repository; ERR_AUTH: it
 * takes no pushes; ERR_BUSY: too much to do. */
int pushes_advertise(struct pushes *pushes, const struct pushes_request *request,
		     struct serve_answer *answer, struct err *err);

/* POST git-receive-pack. The answer is a stream. answer->is_too_large: above
 * serve.maxPush. */
int pushes_receive(struct pushes *pushes, const struct pushes_request *request,
		   struct serve_answer *answer, struct err *err);

#endif
