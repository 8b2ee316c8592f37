/*
 * One request and its answer, as libmicrohttpd drives it: callbacks on the connection's
 * own thread; and what the files of an exchange share. Each of its members is one
 * thread's at a time: of the library's while a request is taken in and its answer sent,
 * of a worker while that handles it. The connection is suspended when it goes from one to
 * the other, or, with an upload, upload.h says who has it.
 */
#ifndef WEB_EXCHANGE_H
#define WEB_EXCHANGE_H

#include <microhttpd.h>

#include "base/log.h"
#include "web/flow.h"
#include "web/request.h"
#include "web/router.h"
#include "web/server.h"

/* A header that the server itself looks at; borrowed from the connection. The first of
 * each name counts; that they do not contradict each other web/gate.h has seen to. */
struct head_value {
	const char *text; /* NULL: there is none */
	unsigned count;
};

struct head {
	struct head_value authorization, content_encoding, content_length, host,
		transfer_encoding, forwarded_proto;
	/* It has Forwarded, X-Forwarded-For or -Proto, X-Real-IP, Via. */
	bool is_forwarded;
};

/* A header, copied. */
struct kept_header {
	char *name, *value;
};

enum exchange_stage {
	EXCHANGE_NEW,  /* nothing but the target is known */
	EXCHANGE_HEAD, /* the head is here; it is decided who asks */
	EXCHANGE_BODY, /* the body is coming, or was all here */
};

struct exchange {
	struct web_server *server;
	struct MHD_Connection *connection;
	struct web_connection *client;   /* borrowed; the library's threads only */
	struct idle_conn *idle;          /* the client's */
	char peer[ADDRESS_TEXT_SIZE];    /* who asks, maybe through a proxy */
	char address[ADDRESS_TEXT_SIZE]; /* the same without a port, for hooks */
	/* The library's part, and a worker's that reads an upload. */
	atomic_uint holders;
	struct work work;
	struct web_request request;
	struct target target;
	struct head head;
	struct route_match match;
	struct body body;
	struct upload *upload;           /* of WEB_BODY_STREAM, or NULL */
	VEC(struct kept_header) headers; /* with an upload */
	struct web_response response;
	struct flow *flow; /* of an answer that is a stream; its sender's part, or NULL */
	struct bucket *bucket; /* of the site that asks; NULL: as fast as it can */
	struct err err;        /* why the answer is what it is, or none */
	char method[16];
	int64_t begun_us; /* boot time */
	uint64_t length;  /* of the body; UINT64_MAX: not known */
	uint64_t swallowed;
	size_t progress; /* bytes of the body since the client's time was renewed */
	enum exchange_stage stage;
	bool is_decided;
	bool is_held;      /* by us, and not the client, since it last sent something */
	bool may_be_taken; /* see struct flow_path */
	bool is_loopback;  /* who asks, without a proxy between */
	bool is_refused;   /* response is made; nothing is handled */
	bool is_handled;   /* by a worker */
	bool is_whole;     /* the answer was sent */
	int status;        /* sent */
	enum flow_end end;
};

/* exchange_head.c: route, limits, and the decision who asks. What is refused has its
 * answer then. */

/* Who asks, and how; and whether it may, as far as that can be said now. */
void exchange_check_head(struct exchange *exchange);

/* Makes the decision, once, as a token of a site is good for once. False: refused. True
 * also if it needs somebody who may wait: is_decided is false then. */
bool exchange_decide(struct exchange *exchange);

/* Whether it must be made before any of the body is taken, and was not yet. */
bool exchange_must_decide(const struct exchange *exchange);

/* Makes *err the answer. False, so that a check can end in it. */
bool exchange_refuse(struct exchange *exchange, int status);
bool exchange_refuse_stopping(struct exchange *exchange);

/* exchange.c: answers to sites that shall not have them as fast as they can. */

/* exchange.c: for web/server.c. */

/* `arg` of each is the struct web_server; the exchange travels in *context. */
void *exchange_on_target(void *arg, const char *target,
			 struct MHD_Connection *connection);
enum MHD_Result exchange_on_request(void *arg, struct MHD_Connection *connection,
				    const char *url, const char *method,
				    const char *version, const char *data,
				    size_t *data_size, void **context);
void exchange_on_completed(void *arg, struct MHD_Connection *connection, void **context,
			   enum MHD_RequestTerminationCode how);

/* The connection ends: so does a request of it whose end was not told. */
void exchange_abandon(struct web_connection *client);

#endif
