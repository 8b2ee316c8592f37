/*
 * What all requests by libcurl have in common, whoever they are to.
 */
#ifndef NET_TRANSPORT_H
#define NET_TRANSPORT_H

#include <curl/curl.h>

#include "base/base.h"

/* Before the first handle is made; any thread, any number of times. */
void transport_start(void);

/* How a request to this URL travels: straight there, by HTTP/1.1, and without anything
 * that libcurl would take from its surroundings. The URL is copied. */
void transport_set(CURL *easy, const char *url, int64_t connect_ms);

/* What a person can do about it, if it has to do with the way there; else NULL. */
const char *transport_remedy(CURLcode code);

#endif
