/*
 * Git for reading clients: info/refs and upload-pack. Independent of the HTTP server. Any
 * thread.
 *
 * Source: gitprotocol-http(5).
 */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

#include "base/base.h"
#include "base/str.h"
#include "base/thread.h"
#include "serve/generation.h"
#include "serve/settings.h"

struct serve;

/* One per node; with a thread that sweeps the cache. */
struct serve *serve_start(const char *root, const struct serve_settings *settings);
void serve_stop(struct serve *serve); /* all readers must have left; NULL is allowed */
void serve_set(struct serve *serve, const struct serve_settings *settings);

/* Called when an answer broke off because of the content of the repository's own files.
 * Set it once, before the first request. */
typedef void (*serve_doubt)(void *arg, const char *name, const struct err *why);
void serve_on_doubt(struct serve *serve, serve_doubt doubt, void *arg);

/* serve.timeout */
int64_t serve_timeout_ms(const struct serve *serve);

/* serve.leastRate */
uint64_t serve_least_rate(const struct serve *serve);

struct serve_request {
	const char *name;     /* of the repository, not checked */
	const char *protocol; /* the header Git-Protocol; NULL: none */
	bool accepts_gzip;
	const struct fair_client *client; /* for its share; borrowed; may be NULL */
	bool is_for_copy; /* a secondary's own: ignores settings that keep readers out */
	bool has_other;   /* there is an alternative if this answer breaks off soon */
	bool wants_whole; /* never return refs as a growing stream */
	const struct str *body;  /* of a POST: its beginning, up to 1 MiB ... */
	int body_fd;             /* ... and all of it, if it is longer; else -1 */
	const struct stop *stop; /* for waits; may be NULL */
	const struct stop *cut; /* for streams; may be NULL; kept until they are closed */
};

/* One of these: bytes of the generation, own bytes, or a stream. */
struct serve_answer {
	struct generation *generation; /* a reference */
	struct generation_body shared;
	char etag[GENERATION_NAME_SIZE + 8]; /* with its quotes; "": no tag (yet) */
	struct str bytes;
	ssize_t (*read)(void *stream, void *buffer, size_t size); /* 0: end; -1: broken */
	void (*close)(void *stream);
	void *stream;
	/* Whether others wait for the stream's place: then close it if its client takes
	 * fewer bytes a second than least_rate. May be NULL. */
	bool (*is_wanted)(void *stream);
	uint64_t least_rate;
	int64_t until;          /* boot ms at which to close the stream; 0: never */
	unsigned retry_after_s; /* with ERR_BUSY */
	bool is_request_bad;    /* with ERR_CONFIG: an error of the client; with
				   ERR_INTERNAL: it may be one */
	bool is_too_large;      /* ... as its body is too large */
};

#define SERVE_ANSWER_INIT                                                                \
	{                                                                                \
		.bytes = STR_INIT                                                        \
	}
void serve_answer_clear(struct serve_answer *answer);

/* GET info/refs?service=git-upload-pack. ERR_MISSING: repository not found; ERR_BUSY:
 * overloaded; others as upload_pack_open(). *answer must be initialised; clear it in any
 * case. */
int serve_info_refs(struct serve *serve, const struct serve_request *request,
		    struct serve_answer *answer, struct err *err);

/* The same, if the answer is cached and can be proven true with only a few system calls,
 * without waiting. False: nothing was done. */
bool serve_info_refs_now(struct serve *serve, const struct serve_request *request,
			 struct serve_answer *answer);

/* POST git-upload-pack: ls-refs from the cache, everything else by a git child. */
int serve_upload_pack(struct serve *serve, const struct serve_request *request,
		      struct serve_answer *answer, struct err *err);

#endif
