/*
 * The socket that the server listens on, addresses, and what counts as one client where
 * places are shared: an IPv4 address, or an IPv6 network of 64 bits and its block of 48,
 * from the connection or from a trusted proxy; and a user or a site.
 */
#ifndef WEB_LISTEN_H
#define WEB_LISTEN_H

#include <sys/socket.h>

#include "base/base.h"
#include "base/fair.h"
#include "base/vec.h"

#define ADDRESS_TEXT_SIZE 64

/* Without a port; an IPv4 address is treated as ::ffff:a.b.c.d. */
struct ip_address {
	unsigned char bytes[16];
};

/* Opens it for "127.0.0.1:8418", "[::1]:8418" or "*:8418" (every address, both
 * protocols); port 0 is any. -1: ERR_CONFIG: not a usable address; ERR_BUSY: it is
 * taken. */
int listen_open(const char *address, struct err *err);

/* Checks that address without opening it; ERR_CONFIG. */
int listen_check(const char *address, struct err *err);

/* The port of a listening socket. */
uint16_t listen_port(int fd);

/* "127.0.0.1:50312"; an IPv4 address from an IPv6 socket is written as IPv4. */
void address_format(const struct sockaddr *address, char text[ADDRESS_TEXT_SIZE]);

/* Other kinds of addresses become ::. */
void address_ip(const struct sockaddr *address, struct ip_address *ip);

/* "192.0.2.7", "2001:db8::7" */
void address_format_ip(const struct ip_address *ip, char text[ADDRESS_TEXT_SIZE]);

/* The client that such a text counts as. A client with one IPv6 address usually has all
 * 2^64 of its network: "2001:db8::/64"; ... */
void address_network(const char *address, char text[ADDRESS_TEXT_SIZE]);

/* ... and a client with many networks usually has them in one block: "2001:db8::/48". For
 * an IPv4 address: "". */
void address_block(const char *address, char text[ADDRESS_TEXT_SIZE]);

/* Whether it is an address of this machine's loopback interface. */
bool address_is_loopback(const struct sockaddr *address);

struct web_request;

struct client {
	struct fair_client names; /* borrows from below, and from the request */
	char network[ADDRESS_TEXT_SIZE], block[ADDRESS_TEXT_SIZE];
};

/* By the address alone; NULL: no client. */
void client_of_address(const char *address, struct client *client);

void client_of_request(const struct web_request *request, struct client *client);

/*
 * Proxies in front of this server whose word on the client's address is trusted:
 * http.trustedProxy, and the header X-Forwarded-For (not standardized; RFC 7239's
 * Forwarded is not read). Pure.
 */

struct proxy_network {
	struct ip_address address; /* the bits after the prefix are 0 */
	unsigned bits;             /* of 128 */
};

struct trusted_proxies {
	VEC(struct proxy_network) networks;
};

/* Adds "192.0.2.7", "10.0.0.0/8", "2001:db8::/32". ERR_CONFIG: another form. */
int trusted_proxies_add(struct trusted_proxies *proxies, const char *text,
			struct err *err);
void trusted_proxies_clear(struct trusted_proxies *proxies);
bool trusted_proxies_has(const struct trusted_proxies *proxies,
			 const struct ip_address *address);

/* The client, by all X-Forwarded-For headers of a request, joined by commas in order: the
 * last address that is not a trusted proxy's. False: not found, or text that is not an
 * address comes after it. */
bool trusted_proxies_client(const struct trusted_proxies *proxies, const char *forwarded,
			    struct ip_address *client);

/*
 * Closes connections whose client is silent for too long, or for longest when all places
 * are taken: one thread, which sleeps until the first one is due. Any thread.
 */

struct idle_watch;
struct idle_conn;

/* When there are `most` connections (0: never), closes those whose clients have been
 * silent for longest or, if all are active, one whose client takes almost nothing of an
 * answer. */
struct idle_watch *idle_start(int64_t idle_ms, int64_t head_ms, size_t most);

/* All connections must have left. */
void idle_stop(struct idle_watch *watch);

/* A connection is watched from enter to leave; its descriptor must stay open between. */
struct idle_conn *idle_enter(struct idle_watch *watch, int fd);
void idle_leave(struct idle_conn *conn);

/* Closes all that are watched now. */
void idle_cut(struct idle_watch *watch);

/* It is the client's turn to read: it has idle_ms from now, renewed each time it has
 * taken 64 KiB of an answer meanwhile. */
void idle_expect(struct idle_conn *conn);

/* It is the client's turn to send: it has idle_ms from now. If it ends its side before it
 * has sent a whole request, the connection is closed within some seconds: the server's
 * library, notified of changes only, may not notice that end. */
void idle_await(struct idle_conn *conn);

/* It is the client's turn to send the head of a request, which must be complete within
 * head_ms from now. This is the state after idle_enter(). */
void idle_await_head(struct idle_conn *conn);

/* The answer is sent: the client has a moment to read it and to end the connection. */
void idle_linger(struct idle_conn *conn);

/* It is our turn, for as long as it takes. */
void idle_hold(struct idle_conn *conn);

#endif
