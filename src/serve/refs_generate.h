/*
 * Makes a generation: asks git once for its refs under protocol 0 and, if the
 * configuration is new, for its capabilities under protocol 2. Also streams long answers
 * in parts. Any thread.
 */
#ifndef SERVE_REFS_GENERATE_H
#define SERVE_REFS_GENERATE_H

#include "base/base.h"
#include "base/str.h"
#include "base/thread.h"
#include "serve/generation.h"
#include "serve/look.h"
#include "serve/ref_list.h"

/* Capabilities by the content of a repository's configuration, bounded. */
struct capabilities;
struct capabilities *capabilities_new(void);
void capabilities_free(struct capabilities *capabilities);

struct fill_request {
	const struct look *look; /* the state it belongs to */
	int dir;                 /* the repository's directory, found anew */
	struct capabilities *capabilities;
	const struct stop *stop; /* may be NULL */
	int64_t timeout_ms;
	/* Gets git's bytes of protocol 0 as they arrive, without the service line. */
	void (*grow)(void *arg, const char *bytes, size_t len);
	void *arg;
};

/* Runs git to its end. The caller must check whether the repository changed meanwhile.
 * ERR_CORRUPT: git's answer is not understood. */
int fill_generation(const struct fill_request *request, struct generation **generation,
		    struct err *err);

/*
 * Cache of what git offers under protocol 2, keyed by all it depends on: the content of a
 * repository's configuration and the version of git. Bounded.
 */

/* A repository's configuration at one moment. */
struct config_look {
	bool is_known;             /* usable as a key */
	unsigned char content[32]; /* equal for equal content */
	unsigned char file[32];    /* equal only if the file was not written in between */
};

/* Examines the repository whose directory is open. */
void config_look(int dir, struct config_look *look);
bool config_stood_still(const struct config_look *before,
			const struct config_look *after);

/* `git` is git's version text. Appends to *text; false: not in the cache. */
bool capabilities_find(struct capabilities *capabilities, const struct config_look *look,
		       const char *git, struct str *text);
void capabilities_keep(struct capabilities *capabilities, const struct config_look *look,
		       const char *git, const struct str *text);

/*
 * An answer to ls-refs that is too long to be made at once for each of many clients: it
 * is made from the generation while it is read. One thread at a time.
 */

struct list_stream;

/* Appends the whole answer and returns NULL, if it is short. Else takes the request, and
 * holds the generation until close. */
struct list_stream *list_stream_open(struct generation *generation,
				     struct ls_refs *request, struct str *out);

/* Both take a struct list_stream. 0: the end. */
ssize_t list_stream_read(void *stream, void *buffer, size_t size);
void list_stream_close(void *stream);

#endif
