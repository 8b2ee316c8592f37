/*
 * One request and its answer, as libmicrohttpd drives it: callbacks on the connection's
 * own thread; and the state shared by the files of an exchange. Each member belongs to
 * one thread at a time: to the library's while a request is received and its answer sent,
 * to a worker while that handles it. The connection is suspended when it passes from one
 * to the other; with an upload, web/request.h says which thread has it.
 */
#ifndef WEB_EXCHANGE_H
#define WEB_EXCHANGE_H

#include <microhttpd.h>

#include "base/log.h"
#include "web/flow.h"
#include "web/request.h"
#include "web/router.h"
#include "web/server.h"

/* A header that the server itself uses; borrowed from the connection. The first of each
 * name counts; web/gate.h ensures that they do not contradict each other. */
struct head_value {
	const char *text; /* NULL: absent */
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
	EXCHANGE_NEW,  /* only the target is known */
	EXCHANGE_HEAD, /* the head is here; the client is being identified */
	EXCHANGE_BODY, /* the body is arriving, or has arrived */
};

struct exchange {
	struct web_server *server;
	struct MHD_Connection *connection;
	struct web_connection *client;   /* borrowed; the library's threads only */
	struct idle_conn *idle;          /* the client's */
	char peer[ADDRESS_TEXT_SIZE];    /* the client, maybe behind a proxy */
	char address[ADDRESS_TEXT_SIZE]; /* the same without a port, for hooks */
	/* The library, and a worker that reads an upload. */
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
	struct flow *flow;     /* of a streamed answer; the sender's reference, or NULL */
	struct bucket *bucket; /* of the requesting site; NULL: of no site */
	struct err err;        /* the reason for the answer, or ERR_NONE */
	char method[16];
	int64_t begun_us; /* boot time */
	uint64_t length;  /* of the body; UINT64_MAX: unknown */
	uint64_t swallowed;
	size_t progress; /* bytes of the body since the client's deadline was renewed */
	enum exchange_stage stage;
	bool is_decided;
	bool is_held;       /* waiting for us, not for the client, since it last sent
			       something */
	bool may_be_taken;  /* see struct flow_path */
	bool is_loopback;   /* the client is local, without a proxy */
	bool is_refused;    /* response is made; not passed to a handler */
	bool is_handled;    /* by a worker */
	bool has_no_length; /* it answers HEAD, and GET would have a stream */
	bool is_whole;      /* the answer was sent */
	int status;         /* sent */
	enum flow_end end;
};

/* exchange_head.c: route, limits, and the access decision. A refused request has its
 * answer then. */

/* Identifies the client, and decides on its access as far as possible now. */
void exchange_check_head(struct exchange *exchange);

/* Makes the decision, only once, as a site's token can be used only once. False: refused.
 * True also if deciding requires a thread that may wait: is_decided is false then. */
bool exchange_decide(struct exchange *exchange);

/* Whether the decision is still open and must be made before any of the body is read. */
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

/* The connection ends: ends its request, too, if that was not reported as ended. */
void exchange_abandon(struct web_connection *client);

#endif
