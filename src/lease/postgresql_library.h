/*
 * libpq, loaded when leases are kept on PostgreSQL and not before: it brings a TLS
 * library of its own, and much else, into each process that is linked with it.
 */
#ifndef LEASE_POSTGRESQL_LIBRARY_H
#define LEASE_POSTGRESQL_LIBRARY_H

#include <libpq-fe.h>

#include "base/base.h"

#define POSTGRESQL_LIBRARY "libpq.so.5"

/* Its functions that we call, without their "PQ". */
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
	X(sendQueryParams)                                                               \
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

/* Loads it, once; then that is known. Safe from any thread. ERR_CONFIG: it is not there,
 * or lacks a function. */
int postgresql_library_load(struct err *err);

#endif
