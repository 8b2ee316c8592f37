/*
 * One request and its answer, as libmicrohttpd drives it: callbacks on the connection's
 * own thread.
 */
#ifndef WEB_EXCHANGE_H
#define WEB_EXCHANGE_H

#include <microhttpd.h>

struct web_connection;

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
