/*
 * A fetch in one request: wanted objects, present objects, and a pack as the answer. No
 * negotiation: the present ones are those that the asker got from the same server last
 * time. Plain data.
 *
 * Source: gitprotocol-pack(5), "Packfile Negotiation" without multi_ack;
 * gitprotocol-http(5), "Smart Service git-upload-pack".
 */
#ifndef GIT_FETCH_SMALL_H
#define GIT_FETCH_SMALL_H

#include "base/base.h"
#include "base/str.h"
#include "git/oid.h"

/* Appends the body of the request. At least one object is wanted. */
void fetch_small_ask(const oid_list *wanted, const oid_list *have, struct str *body);

/* Appends the pack of an answer. ERR_CORRUPT: the answer has no pack, whatever else it
 * says. */
int fetch_small_read(const char *bytes, size_t len, struct str *pack, struct err *err);

#endif
