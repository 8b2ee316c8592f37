/*
 * The refs that an upstream reports to a watcher's credential, or without one; and the
 * options for git to fetch from there with the same credential. Credentials are read from
 * their files each time: a new one is used from the next request on. Any thread.
 *
 * Source: gitprotocol-http(5); seed 004 (a job uses its watcher's token).
 */
#ifndef MIRROR_UPSTREAM_H
#define MIRROR_UPSTREAM_H

#include "git/refs.h"
#include "mirror/marks.h"
#include "mirror/mirrors.h"
#include "net/http.h"

/* Identifies an answer, if the server sends validators: then the next answer can omit the
 * refs. Valid only for the same credential. */
struct upstream_tag {
	char *etag, *modified;         /* owned; NULL: not sent */
	const struct watcher *watcher; /* NULL: no credential */
	char stamp[CREDENTIAL_STAMP_SIZE];
};

void upstream_tag_clear(struct upstream_tag *tag);

struct upstream_call {
	const struct mirrors *mirrors;
	const struct mirror *mirror;
	/* Use only this one's credential; NULL: those of the mirror's watchers in order,
	 * the next one if the upstream refuses or the credential cannot be read; without
	 * watchers, no credential. */
	const struct watcher *watcher;
	struct credential_marks *marks; /* gets the results of credentials; may be NULL */
	bool is_asked; /* by a person: try also credentials marked as refused */
	const struct upstream_tag *known; /* of the last known answer; may be NULL */
	int64_t timeout_ms;               /* of each request */
	const struct stop *stop;          /* may be NULL */
	struct http_line *line; /* a connection to keep; NULL: one for this call */
};

struct upstream_view {
	struct ref_snapshot refs; /* the mirrored ones; cuts: the upstream itself is
				     shallow, as far as it reports that */
	size_t oid_len;
	char *url;                     /* for git; owned, as these: */
	char *header;                  /* for HTTP, secret; NULL: not used */
	char *ssh_command;             /* for ssh; NULL: another protocol */
	bool is_local;                 /* url is a local path */
	const struct watcher *watcher; /* whose credential it was; NULL: none */
	bool is_unusable;              /* that one cannot be read, or is invalid */
	struct upstream_tag tag;       /* of this answer; owned */
	bool is_as_known;       /* the answer equals call->known, and refs is empty */
	int64_t retry_after_ms; /* after an error: the pause that the upstream asked for;
				   0: not stated */
	bool is_at_rest;        /* it asked for that before, and was not asked now */
};

#define AUTO_UPSTREAM __attribute__((cleanup(upstream_view_clear)))

/* One request, without a process, over HTTP; a git child for other protocols, except for
 * the path of a bare repository. With several watchers the most informative error is
 * returned: ERR_MISSING only if all got that answer just now. A credential from which the
 * repository is hidden is marked if another one sees it. The caller clears the view in
 * any case.
 *
 * A host that asked for a pause is not asked, unless by a person, for any mirror: then it
 * fails as at that time.
 *
 * ERR_AUTH, REASON_REFUSED: the credential is refused; ERR_MISSING, REASON_GONE: the
 * repository does not exist, REASON_HIDDEN: not for call->watcher; ERR_NETWORK,
 * REASON_RATE_LIMITED; ERR_TIMEOUT, REASON_TOO_SLOW; ERR_CONFIG, REASON_MOVED: the
 * upstream redirects for good, ERR_NETWORK: for now; ERR_CONFIG: the credential cannot be
 * read. */
int upstream_read(const struct upstream_call *call, struct upstream_view *view,
		  struct err *err);
void upstream_view_clear(struct upstream_view *view);

/* The secret in a file, without the newline; the caller wipes it. ERR_CONFIG: it is
 * empty, has spaces in it, or everybody can read it. */
int upstream_read_secret(const char *path, struct str *secret, struct err *err);

/* A watcher's HTTP header, "Authorization: ..."; the caller wipes and frees. *header
 * NULL: it does not have a credential for HTTP. ERR_CONFIG: it cannot be read. */
int upstream_make_header(const struct watcher *watcher, char **header, struct err *err);

/* Whether it wants fewer requests; then *retry_after_ms and *err are set, *err to
 * ERR_NETWORK with REASON_RATE_LIMITED. */
bool upstream_is_limited(const struct http_call *call, int64_t *retry_after_ms,
			 struct err *err);

/* A path, with its "/", behind the repository's URL. The caller frees. */
char *upstream_service_url(const char *url, const char *after);

/* Whether another credential might work. */
bool upstream_refuses(const struct err *err);

/* An upstream counts nothing: what it has now is always of the one that is wanted. */
#define UPSTREAM_GENERATION 1

/* The text that identifies the URL and the depth in records: 16 hexadecimal digits. */
#define UPSTREAM_TIMELINE_SIZE 17
void upstream_timeline(const struct mirror *mirror,
		       char timeline[UPSTREAM_TIMELINE_SIZE]);

#endif
