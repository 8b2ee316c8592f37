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
	int64_t timeout_ms;      /* of each request */
	const struct stop *stop; /* may be NULL */
	struct http_line *line;  /* a connection that is kept; NULL: one for this call */
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
	int64_t retry_after_ms; /* after an error: the upstream wants so much rest; 0: it
				   says nothing of it */
};

#define AUTO_UPSTREAM __attribute__((cleanup(upstream_view_clear)))

/* One request and no process over HTTP; a child of git over other ways, or none where the
 * path is a bare repository. ERR_AUTH: the credential is refused; ERR_MISSING: there is
 * no such repository, or it is hidden from that credential; ERR_NETWORK with
 * REASON_RATE_LIMITED; ERR_CONFIG: the credential cannot be read, or the upstream
 * redirects. With several watchers the error is the one that says most: ERR_MISSING only
 * if all say so. The caller clears the view in any case. */
int upstream_read(const struct upstream_call *call, struct upstream_view *view,
		  struct err *err);
void upstream_view_clear(struct upstream_view *view);

/* The secret that a file holds, without its line's end; the caller wipes it. ERR_CONFIG:
 * it is empty, has spaces in it, or everybody can read it. */
int upstream_read_secret(const char *path, struct str *secret, struct err *err);

/* What HTTP is shown for a watcher, "Authorization: ..."; the caller wipes and frees.
 * *header NULL: it has no credential for that. ERR_CONFIG: it cannot be read. */
int upstream_make_header(const struct watcher *watcher, char **header, struct err *err);

/* Whether another credential might do. */
bool upstream_refuses(const struct err *err);

/* The text that stands for the URL and the depth in records: 16 hexadecimal digits. */
#define UPSTREAM_TIMELINE_SIZE 17
void upstream_timeline(const struct mirror *mirror,
		       char timeline[UPSTREAM_TIMELINE_SIZE]);

#endif
