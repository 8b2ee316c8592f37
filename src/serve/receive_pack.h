/*
 * A push to a repository of this site by Git's smart HTTP protocol: one `git
 * receive-pack` for each request. Independent of the HTTP server. Protocols 0 and 1
 * (there are no others for pushes). The repository's own hooks and settings apply. Any
 * thread; one thread at a time a struct receive_pack.
 *
 * Pushes of several clients to one repository run concurrently: git's own locks order
 * them. Each is a writer to the repository's state (git/state.h) while git may change
 * refs: from the last bytes of the body on, or from the first if no pack is needed.
 *
 * Git's report on the refs is sent to the client only after `recorded` has returned: so a
 * confirmed change is visible everywhere. Progress and messages of hooks are passed on at
 * once. To clients that want side-band, a git that says nothing is no silence: this sends
 * an empty packet now and then. If `recorded` fails, or this process dies, the report is
 * not sent, and the client reports an unknown result.
 *
 * Source: gitprotocol-http(5), git-receive-pack(1), gitprotocol-pack(5) "Reference
 * Update".
 */
#ifndef SERVE_RECEIVE_PACK_H
#define SERVE_RECEIVE_PACK_H

#include "base/base.h"
#include "base/map.h"
#include "base/str.h"
#include "base/thread.h"

struct receive_pack;
struct receive_outcome;

struct receive_pack_request {
	const char *path;     /* of the repository on disk; only for messages, if dir
				 is: */
	int dir;              /* above 0: its directory; borrowed for the call */
	const char *protocol; /* the header Git-Protocol as it came; NULL: none */
	const char *user;   /* REMOTE_USER of hooks, and the committer in reflogs; NULL */
	const char *client; /* REMOTE_ADDR of hooks; NULL */
	int64_t timeout_ms; /* for all of it; 0: none */
	int64_t keep_alive_ms;   /* how long the client may hear nothing; 0: 30 s */
	const struct stop *stop; /* may be NULL; borrowed until close, as all of these */
	/* The body, inflated: at least one byte; 0: its end; -1 with *err: broken. It is
	 * read to its end in any case, unless it breaks. */
	ssize_t (*read)(void *read_arg, void *buffer, size_t size, struct err *err);
	void *read_arg;
	/* `count` refs are to be deleted: called at most once, before git can do so, if
	 * the commands were understood; may be NULL. */
	void (*deletes)(void *arg, size_t count);
	/* Refs may have changed: called once, when the state's key is new, before the
	 * report is passed on. */
	int (*recorded)(void *arg, struct err *err);
	/* The outcome: called once, after `recorded` if that did not fail, and before the
	 * end of the report is passed on; may be NULL. */
	void (*reported)(void *arg, const struct receive_outcome *outcome);
	void *arg;
	bool *is_bad; /* may be NULL; set if open fails: whether the request is at fault
		       */
};

/* GET info/refs?service=git-receive-pack: all of it, with the service line; at most 128
 * MiB. ERR_MISSING: repository not found; ERR_AUTH: http.receivepack is false there;
 * ERR_CONFIG: it has more refs than that, or git would write outside of it. */
int receive_pack_advertise(const struct receive_pack_request *request, struct str *out,
			   struct err *err);

/* Feeds git with the whole body, and waits for the first bytes of the answer, so that an
 * error can still become a status. The empty request with which clients probe gets an
 * empty answer. ERR_MISSING and ERR_AUTH as above, errors of `read` or `recorded`,
 * ERR_CONFIG with *is_bad: the body is not a push. After a failure refs may have changed
 * nevertheless, if `recorded` was called. *pack is set before the first `read`, and NULL
 * after a failure. */
int receive_pack_open(const struct receive_pack_request *request,
		      struct receive_pack **pack, struct err *err);

/* For `read`, now and then while it waits for the client: hears git, which may have
 * changed refs already, so that the change does not wait for the rest of the body. */
void receive_pack_tend(struct receive_pack *pack);

/* The next bytes, at least one. 0: the successful end. -1: it broke off: the connection
 * must be dropped. */
ssize_t receive_pack_read(struct receive_pack *pack, void *buffer, size_t size,
			  struct err *err);

/* Frees. A child that still runs has 5 s to end normally, and is then killed. Possible
 * changes that were not recorded are recorded now. NULL is allowed. */
void receive_pack_close(struct receive_pack *pack);

/*
 * The outcome of each ref of a push, read from git's report as it passes. Plain data, for
 * one thread at a time.
 *
 * Source: gitprotocol-pack(5), "Report Status".
 */

/* Numbers of refs. */
struct receive_outcome {
	bool is_known; /* git has reported; else only `asked` is set */
	size_t asked;  /* that the client wanted to change; 0: unknown */
	size_t taken, refused;
	size_t taken_deletions; /* of these, if their names are known */
	size_t refused_deletions;
};

struct receive_outcome_reader {
	struct str packets;        /* as git wrote them, not parsed yet */
	struct str lines;          /* the report in them, not parsed yet */
	const struct map *deleted; /* names of refs; borrowed; NULL: none */
	bool is_over;              /* the report was complete, or is not one */
	struct receive_outcome outcome;
};
#define RECEIVE_OUTCOME_READER_INIT                                                      \
	{                                                                                \
		.packets = STR_INIT, .lines = STR_INIT                                   \
	}

void receive_outcome_clear(struct receive_outcome_reader *reader);

/* Adds the next bytes, beginning with the report's first, with or without side-band. */
void receive_outcome_read(struct receive_outcome_reader *reader, const char *data,
			  size_t len);

/*
 * The places where git writes in a push: all must be in the repository. A link to
 * elsewhere would let pushers to one repository write outside of it, and of the root.
 * Places that git only reads, e.g. alternates, are the owner's choice.
 */

/* `dir` is the repository. ERR_CONFIG names the first place that is elsewhere. Does not
 * detect links made later, by users who may write there anyway. */
int receive_places_check(int dir, struct err *err);

#endif
