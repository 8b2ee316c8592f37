/*
 * Who counts as one client where places are shared: an IPv4 address, or an IPv6 network
 * of 64 bits and its block of 48, be it that of the connection or what a trusted proxy
 * says; and a user or a site.
 */
#ifndef WEB_CLIENT_H
#define WEB_CLIENT_H

#include "base/fair.h"
#include "web/listen.h"
#include "web/web.h"

struct client {
	struct fair_client names; /* borrows from below, and from the request */
	char network[ADDRESS_TEXT_SIZE], block[ADDRESS_TEXT_SIZE];
};

/* By the address alone; NULL: nobody. */
void client_of_address(const char *address, struct client *client);

void client_of_request(const struct web_request *request, struct client *client);

#endif
