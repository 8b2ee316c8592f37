/*
 * libpq, loaded only once leases are kept on PostgreSQL: it brings another TLS library,
 * and much else, into each process that is linked with it.
 */
#ifndef LEASE_POSTGRESQL_LIBRARY_H
#define LEASE_POSTGRESQL_LIBRARY_H

#include <libpq-fe.h>

#include "base/base.h"

#define POSTGRESQL_LIBRARY "libpq.so.5"

/* The functions that we call, without their "PQ". */
#define POSTGRESQL_FUNCTIONS(X)                                                          \
	X(clear)                                                                         \
	X(connectPoll)                                                                   \
	X(connectStartParams)                                                            \
	X(connectionNeedsPassword)                                                       \
	X(conninfoFree)                                                                  \
	X(conninfoParse)                                                                 \
	X(consumeInput)                                                                  \
	X(errorMessage)                                                                  \
	X(finish)                                                                        \
	X(flush)                                                                         \
	X(freemem)                                                                       \
	X(getResult)                                                                     \
	X(getisnull)                                                                     \
	X(getvalue)                                                                      \
	X(isBusy)                                                                        \
	X(notifies)                                                                      \
	X(ntuples)                                                                       \
	X(resultErrorField)                                                              \
	X(resultErrorMessage)                                                            \
	X(resultStatus)                                                                  \
	X(sendPrepare)                                                                   \
	X(sendQueryParams)                                                               \
	X(sendQueryPrepared)                                                             \
	X(setErrorVerbosity)                                                             \
	X(setNoticeProcessor)                                                            \
	X(setnonblocking)                                                                \
	X(socket)                                                                        \
	X(status)

#define POSTGRESQL_MEMBER(name) __typeof__(PQ##name) *name;

struct postgresql_library {
	POSTGRESQL_FUNCTIONS(POSTGRESQL_MEMBER)
};

/* To be used after postgresql_library_load() has returned 0. */
extern struct postgresql_library pq;

/* Loads it, once; later calls return the same. Safe from any thread. ERR_CONFIG: it is
 * missing, or lacks a function. */
int postgresql_library_load(struct err *err);

#endif
