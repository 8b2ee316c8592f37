#include "web/listen.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include "base/str.h"
#include "web/web.h"

/* Splits "HOST:PORT" and "[HOST]:PORT"; false on anything else. */
static bool listen_split_address(const char *address, char host[ADDRESS_TEXT_SIZE],
				 const char **port)
{
	const char *colon = strrchr(address, ':');
	size_t len = colon ? (size_t)(colon - address) : 0;

	if (len > 2 && address[0] == '[' && colon[-1] == ']') {
		address++;
		len -= 2;
	} else if (colon && memchr(address, ':', len)) {
		return false; /* an IPv6 address without brackets */
	}
	if (len == 0 || len >= ADDRESS_TEXT_SIZE || colon[1] == '\0')
		return false;
	memcpy(host, address, len);
	host[len] = '\0';
	*port = colon + 1;
	return true;
}

static int bad_address(const char *address, struct err *err)
{
	err_set(err, ERR_CONFIG, "\"%s\" is no address to listen on", address);
	return err_remedy(err, "write 127.0.0.1:8418, [::1]:8418, or *:8418 for all");
}

static int bind_and_listen(int fd, const struct addrinfo *found)
{
	int on = 1, off = 0;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (found->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, found->ai_addr, found->ai_addrlen))
		return -1;
	return listen(fd, SOMAXCONN);
}

static int listen_fail(const char *address, struct err *err)
{
	if (errno == EADDRINUSE) {
		err_set(err, ERR_BUSY, "cannot listen on %s: it is taken", address);
		return err_remedy(err, "end the other program, or change http.listen");
	}
	if (errno == EADDRNOTAVAIL || errno == EACCES) {
		err_set(err, ERR_CONFIG, "cannot listen on %s: %s", address,
			strerror(errno));
		return err_remedy(err, "http.listen must be an address of this machine, "
				       "with a port above 1023");
	}
	return err_errno(err, "cannot listen on %s", address);
}

static int open_found(const struct addrinfo *found)
{
	AUTO_CLOSE int fd =
		socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind_and_listen(fd, found))
		return -1;
	return TAKE_FD(fd);
}

static const struct addrinfo hints = {
	.ai_socktype = SOCK_STREAM,
	.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV,
};

static int listen_find_address(const char *address, struct addrinfo **found, bool *is_any,
			       const char **port, struct err *err)
{
	char host[ADDRESS_TEXT_SIZE];
	uint64_t number;

	if (!listen_split_address(address, host, port) ||
	    !text_to_uint64(*port, &number) || number > UINT16_MAX)
		return bad_address(address, err);
	*is_any = strcmp(host, "*") == 0;
	if (getaddrinfo(*is_any ? "::" : host, *port, &hints, found))
		return bad_address(address, err);
	return 0;
}

int listen_check(const char *address, struct err *err)
{
	struct addrinfo *found = NULL;
	const char *port = NULL;
	bool is_any = false;

	if (listen_find_address(address, &found, &is_any, &port, err) != 0)
		return -1;
	freeaddrinfo(found);
	return 0;
}

int listen_open(const char *address, struct err *err)
{
	struct addrinfo *found = NULL;
	const char *port = NULL;
	bool is_any = false;

	if (listen_find_address(address, &found, &is_any, &port, err) != 0)
		return -1;
	int fd = open_found(found);
	freeaddrinfo(found);
	if (fd < 0 && errno == EAFNOSUPPORT && is_any) { /* without IPv6 */
		if (getaddrinfo("0.0.0.0", port, &hints, &found))
			return bad_address(address, err);
		fd = open_found(found);
		freeaddrinfo(found);
	}
	return fd >= 0 ? fd : listen_fail(address, err);
}

union any_address {
	struct sockaddr_storage storage;
	struct sockaddr plain;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* Copied, since a struct sockaddr need not be aligned for what it stands for. */
static void copy_address(const struct sockaddr *from, union any_address *to)
{
	*to = (union any_address){ 0 };
	if (from->sa_family == AF_INET)
		memcpy(to, from, sizeof(to->v4));
	else if (from->sa_family == AF_INET6)
		memcpy(to, from, sizeof(to->v6));
	if (from->sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&to->v6.sin6_addr))
		return;
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = to->v6.sin6_port };
	memcpy(&v4.sin_addr, &to->v6.sin6_addr.s6_addr[12], sizeof(v4.sin_addr));
	to->v4 = v4;
}

uint16_t listen_port(int fd)
{
	union any_address address = { 0 };
	socklen_t len = sizeof(address);

	if (getsockname(fd, &address.plain, &len))
		return 0;
	return ntohs(address.plain.sa_family == AF_INET6 ? address.v6.sin6_port
							 : address.v4.sin_port);
}

void address_format(const struct sockaddr *address, char text[ADDRESS_TEXT_SIZE])
{
	char host[INET6_ADDRSTRLEN] = "";
	union any_address any;

	copy_address(address, &any);
	if (any.plain.sa_family == AF_INET) {
		inet_ntop(AF_INET, &any.v4.sin_addr, host, sizeof(host));
		snprintf(text, ADDRESS_TEXT_SIZE, "%s:%u", host, ntohs(any.v4.sin_port));
	} else {
		inet_ntop(AF_INET6, &any.v6.sin6_addr, host, sizeof(host));
		snprintf(text, ADDRESS_TEXT_SIZE, "[%s]:%u", host,
			 ntohs(any.v6.sin6_port));
	}
}

void address_ip(const struct sockaddr *address, struct ip_address *ip)
{
	static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };
	union any_address any;

	*ip = (struct ip_address){ 0 };
	copy_address(address, &any);
	if (any.plain.sa_family == AF_INET) {
		memcpy(ip->bytes, mapped, sizeof(mapped));
		memcpy(ip->bytes + sizeof(mapped), &any.v4.sin_addr,
		       sizeof(any.v4.sin_addr));
	} else if (any.plain.sa_family == AF_INET6) {
		memcpy(ip->bytes, &any.v6.sin6_addr, sizeof(ip->bytes));
	}
}

void address_format_ip(const struct ip_address *ip, char text[ADDRESS_TEXT_SIZE])
{
	struct in6_addr v6;

	memcpy(&v6, ip->bytes, sizeof(v6));
	if (IN6_IS_ADDR_V4MAPPED(&v6))
		inet_ntop(AF_INET, ip->bytes + 12, text, ADDRESS_TEXT_SIZE);
	else
		inet_ntop(AF_INET6, ip->bytes, text, ADDRESS_TEXT_SIZE);
}

/* False: it is no IPv6 address. */
static bool format_prefix(const char *address, size_t bytes, char text[ADDRESS_TEXT_SIZE])
{
	char network[INET6_ADDRSTRLEN];
	struct in6_addr v6;

	if (inet_pton(AF_INET6, address, &v6) != 1)
		return false;
	memset(&v6.s6_addr[bytes], 0, sizeof(v6.s6_addr) - bytes);
	inet_ntop(AF_INET6, &v6, network, sizeof(network));
	snprintf(text, ADDRESS_TEXT_SIZE, "%s/%zu", network, bytes * 8);
	return true;
}

void address_network(const char *address, char text[ADDRESS_TEXT_SIZE])
{
	if (!format_prefix(address, 8, text))
		snprintf(text, ADDRESS_TEXT_SIZE, "%s", address);
}

void address_block(const char *address, char text[ADDRESS_TEXT_SIZE])
{
	if (!format_prefix(address, 6, text))
		text[0] = '\0';
}

bool address_is_loopback(const struct sockaddr *address)
{
	union any_address any;

	copy_address(address, &any);
	if (any.plain.sa_family == AF_INET)
		return ntohl(any.v4.sin_addr.s_addr) >> 24 == 127;
	return any.plain.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&any.v6.sin6_addr);
}

void client_of_address(const char *address, struct client *client)
{
	*client = (struct client){ 0 };
	if (!address)
		return;
	address_network(address, client->network);
	address_block(address, client->block);
	client->names = (struct fair_client){ { client->network, client->block } };
}

/* A site that reads for others is one client; it sees to their shares itself. */
void client_of_request(const struct web_request *request, struct client *client)
{
	client_of_address(request->client, client);
	client->names.names[2] = request->site[0] ? request->site : request->user;
}
