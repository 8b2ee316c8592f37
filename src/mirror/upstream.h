/*
 * The refs that an upstream reports to a watcher's credential, or without one; and
 * what git is given to fetch from there with the same credential. Credentials are read
 * from their files each time: a new one counts from the next request on. Any thread.
 *
 * Source: gitprotocol-http(5); seed 004 (a job uses its watcher's token).
 */
#ifndef MIRROR_UPSTREAM_H
#define MIRROR_UPSTREAM_H

#include "git/refs.h"
#include "mirror/marks.h"
#include "mirror/mirrors.h"
#include "net/http.h"

/* By which an answer is known again, if the server tells such: then the next one need not
 * have the refs. It counts for the same credential alone. */
struct upstream_tag {
	char *etag, *modified;         /* owned; NULL: none */
	const struct watcher *watcher; /* NULL: no credential */
	char stamp[CREDENTIAL_STAMP_SIZE];
};

void upstream_tag_clear(struct upstream_tag *tag);

struct upstream_call {
	const struct mirrors *mirrors;
	const struct mirror *mirror;
	/* This one's credential alone counts; NULL: those of the mirror's watchers in
	 * their order, the next where the upstream refuses or the credential cannot be
	 * read; without watchers none. */
	const struct watcher *watcher;
	struct credential_marks
		*marks; /* told what becomes of credentials; may be NULL */
	bool is_asked;  /* by a person: those that are marked as refused are tried, too */
	const struct upstream_tag *known; /* of an answer that is still known; may be NULL
					   */
	int64_t timeout_ms;               /* of each request */
	const struct stop *stop;          /* may be NULL */
	struct http_line *line; /* a connection that is kept; NULL: one for this call */
};

struct upstream_view {
	struct ref_snapshot refs; /* those that are mirrored; cuts: the upstream is
				     shallow itself, as far as it says so */
	size_t oid_len;
	char *url;                     /* for git; owned, as these: */
	char *header;                  /* for HTTP, secret; NULL: none */
	char *ssh_command;             /* for ssh; NULL: another way */
	bool is_local;                 /* url is a path of this machine */
	const struct watcher *watcher; /* whose credential it was; NULL: none */
	bool is_unusable;              /* that one cannot be read, or makes no sense */
	struct upstream_tag tag;       /* of this answer; owned */
	bool is_as_known; /* the answer is the one of call->known, and refs is empty */
	int64_t retry_after_ms; /* after an error: the upstream wants so much rest; 0: it
				   says nothing of it */
};

#define AUTO_UPSTREAM __attribute__((cleanup(upstream_view_clear)))

/* One request and no process over HTTP; a child of git over other ways, or none where the
 * path is a bare repository. With several watchers the error is the one that says most:
 * ERR_MISSING only if all were told so just now. A credential that shows no repository is
 * marked where another one does. The caller clears the view in any case.
 *
 * ERR_AUTH, REASON_REFUSED: the credential is refused; ERR_MISSING, REASON_GONE: there is
 * no such repository, REASON_HIDDEN: none for call->watcher; ERR_NETWORK,
 * REASON_RATE_LIMITED; ERR_TIMEOUT, REASON_TOO_SLOW; ERR_CONFIG, REASON_MOVED: the
 * upstream redirects; ERR_CONFIG: the credential cannot be read. */
int upstream_read(const struct upstream_call *call, struct upstream_view *view,
		  struct err *err);
void upstream_view_clear(struct upstream_view *view);

/* The secret that a file holds, without its line's end; the caller wipes it. ERR_CONFIG:
 * it is empty, has spaces in it, or everybody can read it. */
int upstream_read_secret(const char *path, struct str *secret, struct err *err);

/* What HTTP is shown for a watcher, "Authorization: ..."; the caller wipes and frees.
 * *header NULL: it has no credential for that. ERR_CONFIG: it cannot be read. */
int upstream_make_header(const struct watcher *watcher, char **header, struct err *err);

/* Whether it wants to be asked less often; then *retry_after_ms and *err are set, this to
 * ERR_NETWORK with REASON_RATE_LIMITED. */
bool upstream_is_limited(const struct http_call *call, int64_t *retry_after_ms,
			 struct err *err);

/* Whether another credential might do. */
bool upstream_refuses(const struct err *err);

/* The text that stands for the URL and the depth in records: 16 hexadecimal digits. */
#define UPSTREAM_TIMELINE_SIZE 17
void upstream_timeline(const struct mirror *mirror,
		       char timeline[UPSTREAM_TIMELINE_SIZE]);

#endif
