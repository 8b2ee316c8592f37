/*
 * Pushes to this site's repositories: takes a place among the concurrent pushes, finds
 * the repository below the root, and runs git (serve/receive_pack.h). Independent of the
 * HTTP server. Any thread.
 */
#ifndef SERVE_PUSHES_H
#define SERVE_PUSHES_H

#include "serve/receive_pack.h"
#include "serve/serve.h"

struct pushes;

/* One per node. */
struct pushes *pushes_new(const char *root, const struct serve_settings *settings);
void pushes_free(struct pushes *pushes); /* all clients must have left; NULL is allowed */
void pushes_set(struct pushes *pushes, const struct serve_settings *settings);

struct pushes_request {
	const char *name;                /* of the repository, not checked */
	const char *protocol;            /* the header Git-Protocol; NULL: none */
	const char *user;                /* for hooks and reflogs; "": unknown */
	const char *client;              /* its address, for hooks */
	const struct fair_client *share; /* borrowed for the call; may be NULL */
	const struct stop *stop;         /* for waits; may be NULL */
	const struct stop
		*cut; /* for git; may be NULL; kept until the stream is closed */
	/* As in struct receive_pack_request; `read` is no longer called after
	 * pushes_receive() has returned. */
	ssize_t (*read)(void *arg, void *buffer, size_t size, struct err *err);
	/* Makes `read` call may_wait(of) each second while it waits for the client, and
	 * end with ERR_BUSY if that is false. May be NULL. */
	void (*limit)(void *arg, bool (*may_wait)(void *of), void *of);
	void (*deletes)(void *arg, size_t count); /* may be NULL */
	int (*recorded)(void *arg, struct err *err);
	void (*reported)(void *arg, const struct receive_outcome *outcome);
	void (*close)(void *arg); /* once, when arg is no longer needed, unless the call
				     failed; may be NULL */
	void *arg;
};

/* GET info/refs?service=git-receive-pack. ERR_MISSING: repository not found; ERR_AUTH: it
 * does not accept pushes; ERR_BUSY: overloaded. */
int pushes_advertise(struct pushes *pushes, const struct pushes_request *request,
		     struct serve_answer *answer, struct err *err);

/* POST git-receive-pack. The answer is a stream. answer->is_too_large: above
 * serve.maxPush. */
int pushes_receive(struct pushes *pushes, const struct pushes_request *request,
		   struct serve_answer *answer, struct err *err);

#endif
