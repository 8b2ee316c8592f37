/*
 * URLs as JGit's URIish parses and formats them (toASCIIString): the text in task files
 * must match it byte for byte.
 *
 * Source: org.eclipse.jgit.transport.URIish.
 */
#ifndef NET_URI_TEXT_H
#define NET_URI_TEXT_H

#include "base/base.h"
#include "base/str.h"

enum url_kind {
	URL_LOCAL,       /* a path, or file:// */
	URL_SSH,         /* ssh:// or host:path */
	URL_GIT,         /* git:// */
	URL_HTTP,        /* http:// or https:// */
	URL_GERRIT_SSH,  /* adminUrl only: gerrit+ssh:// */
	URL_GERRIT_HTTP, /* adminUrl only: gerrit+http(s):// */
	URL_OTHER,
};

struct uri_text {
	char *scheme;   /* owned, as all of these; NULL: host:path, or a path */
	char *user;     /* decoded; NULL: absent */
	char *password; /* likewise */
	char *host;     /* decoded, an IPv6 address in brackets; NULL: absent */
	char *raw_path; /* as given */
	char *path;     /* decoded; "~" without a "/" before it */
	uint16_t port;  /* 0: absent */
	enum url_kind kind;
};
#define AUTO_URI __attribute__((cleanup(uri_text_clear)))

/* ERR_CONFIG; its text does not contain any of the URL. */
int uri_text_read(const char *text, struct uri_text *uri, struct err *err);
void uri_text_clear(struct uri_text *uri);

/* ERR_CONFIG: not a place that git, ssh or we can use. */
int uri_text_check(const struct uri_text *uri, struct err *err);

/* Decodes %xx in len bytes; the caller frees. NULL: a "%" without two digits, or %00. */
char *uri_text_decode(const char *text, size_t len);

/* Whether the path contains ${name}. */
bool uri_text_has_name(const struct uri_text *uri);

/* Replaces the first ${name} in the path by the name; in raw_path encoded for HTTP. */
int uri_text_put_name(struct uri_text *uri, const char *name, struct err *err);

/* Appends the text, without the password. */
void uri_text_render(const struct uri_text *uri, struct str *out);

/* The text of a URL without its password, and without its user if it is for HTTP; the
 * rest unchanged. The caller frees. */
char *uri_text_without_secrets(const char *text, const struct uri_text *uri);

#endif
