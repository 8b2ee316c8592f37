/*
 * The socket that the server listens on, addresses, and who counts as one client where
 * places are shared: an IPv4 address, or an IPv6 network of 64 bits and its block of 48,
 * be it that of the connection or what a trusted proxy says; and a user or a site.
 */
#ifndef WEB_LISTEN_H
#define WEB_LISTEN_H

#include <sys/socket.h>

#include "base/base.h"
#include "base/fair.h"

#define ADDRESS_TEXT_SIZE 64

/* Without a port; an IPv4 address is ::ffff:a.b.c.d, which is the same to us. */
struct ip_address {
	unsigned char bytes[16];
};

/* Opens it for "127.0.0.1:8418", "[::1]:8418" or "*:8418" (every address, both
 * protocols); port 0 is any. -1: ERR_CONFIG: no such address; ERR_BUSY: it is taken. */
int listen_open(const char *address, struct err *err);

/* Whether that is such an address; ERR_CONFIG. Nothing is opened. */
int listen_check(const char *address, struct err *err);

/* The port of a socket that listens. */
uint16_t listen_port(int fd);

/* "127.0.0.1:50312"; an IPv4 address that came through an IPv6 socket is written as what
 * it is. */
void address_format(const struct sockaddr *address, char text[ADDRESS_TEXT_SIZE]);

/* Another kind of address than these two becomes ::. */
void address_ip(const struct sockaddr *address, struct ip_address *ip);

/* "192.0.2.7", "2001:db8::7" */
void address_format_ip(const struct ip_address *ip, char text[ADDRESS_TEXT_SIZE]);

/* Of such a text: who it counts as. Who has an IPv6 address usually has all 2^64 of its
 * network: "2001:db8::/64"; ... */
void address_network(const char *address, char text[ADDRESS_TEXT_SIZE]);

/* ... and who has many such networks has them of one block: "2001:db8::/48". Of an IPv4
 * address: "". */
void address_block(const char *address, char text[ADDRESS_TEXT_SIZE]);

/* Whether it is an address of this machine's loopback interface. */
bool address_is_loopback(const struct sockaddr *address);

struct web_request;

struct client {
	struct fair_client names; /* borrows from below, and from the request */
	char network[ADDRESS_TEXT_SIZE], block[ADDRESS_TEXT_SIZE];
};

/* By the address alone; NULL: nobody. */
void client_of_address(const char *address, struct client *client);

void client_of_request(const struct web_request *request, struct client *client);

#endif
