/*
 * One mail by SMTP (RFC 5321), to the server that relays it. By smtps://, or by smtp://
 * with mandatory STARTTLS: only on loopback, without a CA file, it is sent in the clear.
 * The server's certificate is checked. Any thread.
 */
#ifndef NET_MAIL_H
#define NET_MAIL_H

#include "base/base.h"
#include "base/str.h"
#include "base/thread.h"

struct mail_request {
	const char *server;          /* accepted by mail_check_server() */
	const char *user, *password; /* NULL: no credentials */
	const char *ca_file;         /* authorities instead of the system's; NULL */
	const char *from;            /* an address */
	const char *const *to;       /* addresses */
	size_t to_count;
	const char *subject;     /* other than printable ASCII becomes "?" */
	const char *text;        /* UTF-8, lines ending in \n */
	int64_t timeout_ms;      /* for all of it */
	const struct stop *stop; /* may be NULL */
};

/* Why it is not smtp://HOST[:PORT] or smtps://HOST[:PORT], or NULL. Static. */
const char *mail_check_server(const char *server);

/* Whether it is on loopback: 127.0.0.0/8, ::1, or localhost. */
bool mail_is_near(const char *server);

/* Whether it is NAME@HOST, and valid in a mail's head. */
bool mail_is_address(const char *text);

/* Appends the mail as it is sent, with \r\n. For mail_send() and its test. */
void mail_render(const struct mail_request *request, int64_t wall_ms, struct str *out);

/* *code: the server's last (250). ERR_AUTH: it refuses the credentials; ERR_CONFIG: it
 * refuses the mail, or lacks STARTTLS; ERR_NETWORK, ERR_TIMEOUT; ERR_CANCELED: stop. */
int mail_send(const struct mail_request *request, int *code, struct err *err);

#endif
