/*
 * Makes a generation: asks git once for what it shows under protocol 0 and, if its
 * configuration was not seen before, for its capabilities under protocol 2. Any thread.
 */
#ifndef SERVE_FILL_H
#define SERVE_FILL_H

#include "base/base.h"
#include "base/thread.h"
#include "serve/generation.h"
#include "serve/look.h"

/* Capabilities by the content of a repository's configuration, bounded. */
struct capabilities;
struct capabilities *capabilities_new(void);
void capabilities_free(struct capabilities *capabilities);

struct fill_request {
	const struct look *look; /* whose state it is of */
	int dir;                 /* the repository's directory, found anew */
	struct capabilities *capabilities;
	const struct stop *stop; /* may be NULL */
	int64_t timeout_ms;
	/* Gets git's bytes of protocol 0 as they come, without the service line. */
	void (*grow)(void *arg, const char *bytes, size_t len);
	void *arg;
};

/* Runs git to its end. Whether the repository stood still meanwhile is the caller's to
 * ask. ERR_CORRUPT: git's answer is not understood. */
int fill_generation(const struct fill_request *request, struct generation **generation,
		    struct err *err);

#endif
