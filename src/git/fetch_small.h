/*
 * A fetch in one request: what is wanted, what is there, and a pack as the answer. No
 * negotiation: what is told of is what the asker had from the same server last time.
 * Plain data.
 *
 * Source: gitprotocol-pack(5), "Packfile Negotiation" without multi_ack;
 * gitprotocol-http(5), "Smart Service git-upload-pack".
 */
#ifndef GIT_FETCH_SMALL_H
#define GIT_FETCH_SMALL_H

#include "base/base.h"
#include "base/str.h"
#include "git/oid.h"

/* Appends the body of the request. There is at least one that is wanted. */
void fetch_small_ask(const oid_list *wanted, const oid_list *have, struct str *body);

/* Appends the pack of an answer. ERR_CORRUPT: there is none, whatever it says instead. */
int fetch_small_read(const char *bytes, size_t len, struct str *pack, struct err *err);

#endif
