#include "web/listen.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/thread.h"
#include "web/web.h"

/*
 * Each proxy appends the address it was asked from. What the last trusted one appended is
 * true; what stands before the first address that is no trusted proxy's, whoever has that
 * address may have made up. So the list is read from its end, and no further than needed.
 */

#define V4_OFFSET 96 /* bits of an IPv4 address's prefix within IPv6, ::ffff:0:0/96 */

static void set_v4(struct ip_address *address, const struct in_addr *v4)
{
	*address = (struct ip_address){ .bytes[10] = 0xff, .bytes[11] = 0xff };
	memcpy(address->bytes + 12, v4, sizeof(*v4));
}

static bool is_v4(const struct ip_address *address)
{
	struct in_addr none = { 0 };
	struct ip_address prefix;

	set_v4(&prefix, &none);
	return memcmp(address->bytes, prefix.bytes, V4_OFFSET / 8) == 0;
}

static bool parse_address(const char *text, struct ip_address *address)
{
	struct in_addr v4;

	if (inet_pton(AF_INET, text, &v4) != 1)
		return inet_pton(AF_INET6, text, address->bytes) == 1;
	set_v4(address, &v4);
	return true;
}

static unsigned bit_of(const struct ip_address *address, unsigned at)
{
	return address->bytes[at / 8] >> (7 - at % 8) & 1;
}

static bool has_bits_behind(const struct ip_address *address, unsigned bits)
{
	for (unsigned at = bits; at < 8 * sizeof(address->bytes); at++)
		if (bit_of(address, at))
			return true;
	return false;
}

static bool parse_network(const char *text, struct proxy_network *network)
{
	size_t len = strcspn(text, "/");
	char address[INET6_ADDRSTRLEN];
	uint64_t bits;

	if (len >= sizeof(address))
		return false;
	memcpy(address, text, len);
	address[len] = '\0';
	if (!parse_address(address, &network->address))
		return false;
	unsigned offset = strchr(address, ':') ? 0 : V4_OFFSET;
	bits = 128 - offset;
	if (text[len] == '/' &&
	    (!text_to_uint64(text + len + 1, &bits) || bits > 128 - offset))
		return false;
	network->bits = (unsigned)bits + offset;
	return true;
}

int trusted_proxies_add(struct trusted_proxies *proxies, const char *text,
			struct err *err)
{
	struct proxy_network network;

	if (!parse_network(text, &network)) {
		err_set(err, ERR_CONFIG, "\"%s\" is not the address of a proxy", text);
		return err_remedy(err, "write 192.0.2.7, 10.0.0.0/8 or 2001:db8::/32; no "
				       "names of hosts");
	}
	if (has_bits_behind(&network.address, network.bits)) {
		err_set(err, ERR_CONFIG, "\"%s\" has bits set behind its prefix", text);
		return err_remedy(err, "for one address, remove what follows it; for a "
				       "network, clear the host bits");
	}
	vec_add(&proxies->networks, network);
	return 0;
}

void trusted_proxies_clear(struct trusted_proxies *proxies)
{
	vec_clear(&proxies->networks);
}

static bool is_within(const struct ip_address *address,
		      const struct proxy_network *network)
{
	unsigned whole = network->bits / 8, rest = network->bits % 8;

	if (memcmp(address->bytes, network->address.bytes, whole) != 0)
		return false;
	return rest == 0 ||
	       (address->bytes[whole] ^ network->address.bytes[whole]) >> (8 - rest) == 0;
}

/* ::/0 shall not stand for IPv4 as well. */
bool trusted_proxies_has(const struct trusted_proxies *proxies,
			 const struct ip_address *address)
{
	for (size_t i = 0; i < proxies->networks.count; i++) {
		const struct proxy_network *network = &proxies->networks.items[i];
		if (is_v4(address) ==
			    (is_v4(&network->address) && network->bits >= V4_OFFSET) &&
		    is_within(address, network))
			return true;
	}
	return false;
}

static bool is_port(const char *text)
{
	uint64_t port;

	return text_to_uint64(text, &port) && port <= UINT16_MAX;
}

/* "192.0.2.7", "192.0.2.7:50312", "2001:db8::7", "[2001:db8::7]", "[2001:db8::7]:50312".
 * Changes the text. */
static bool parse_element(char *text, struct ip_address *address)
{
	char *colon = strchr(text, ':');

	if (*text == '[') {
		char *end = strchr(text, ']');
		struct in_addr v4;
		if (!end || (end[1] != '\0' && (end[1] != ':' || !is_port(end + 2))))
			return false;
		*end = '\0';
		return inet_pton(AF_INET, text + 1, &v4) != 1 &&
		       parse_address(text + 1, address);
	}
	if (colon && !strchr(colon + 1, ':')) {
		if (!is_port(colon + 1))
			return false;
		*colon = '\0';
	}
	return parse_address(text, address);
}

/* Takes the last element off text[0..*len); false: it is no address. */
static bool take_last(const char *text, size_t *len, struct ip_address *address)
{
	char element[ADDRESS_TEXT_SIZE];
	size_t end = *len, at = end;

	while (at > 0 && text[at - 1] != ',')
		at--;
	*len = at > 0 ? at - 1 : 0;
	while (at < end && (text[at] == ' ' || text[at] == '\t'))
		at++;
	while (end > at && (text[end - 1] == ' ' || text[end - 1] == '\t'))
		end--;
	if (end - at >= sizeof(element))
		return false;
	memcpy(element, text + at, end - at);
	element[end - at] = '\0';
	return parse_element(element, address);
}

bool trusted_proxies_client(const struct trusted_proxies *proxies, const char *forwarded,
			    struct ip_address *client)
{
	size_t len = strlen(forwarded);

	while (len > 0) {
		struct ip_address address;
		if (!take_last(forwarded, &len, &address))
			return false;
		if (trusted_proxies_has(proxies, &address))
			continue;
		*client = address;
		return true;
	}
	return false;
}

/*
 * libmicrohttpd has timeouts of its own, but as of 0.9.75 it sleeps in whole seconds and
 * so spins through the last one before each connection ends; nor can it tell a client
 * that is silent from an answer that takes us long. So it is given none.
 *
 * Deadlines of connections mostly move away: therefore the thread is not woken when one
 * moves, unless it sleeps beyond it. Who moves one
 * stores it before it looks when the thread wakes; the thread says that it never wakes
 * before it looks at deadlines. So one of them sees the other.
 */

enum {
	PROGRESS = 64 << 10,
	LINGER_MS = 2000,
	IDLE_LEAST_MS = 1000,    /* who is silent for less has not been idle */
	PRESSED_MS = 5000,       /* for so long a reader's rate is measured ... */
	PRESSED_RATE = 16 << 10, /* ... and must be this, in bytes a second */
	LOOK_MS = 1000, /* how often is looked for clients that have ended their side */
	ENDED_LOOKS = 5,
};

struct idle_conn {
	TAILQ_ENTRY(idle_conn) entry;
	struct idle_watch *watch;
	int fd;
	uint64_t
		sent; /* to the client, when it was last looked at; watch's thread only */
	/* Since when its rate is measured, as there are too many; 0: it is not; and what
	 * it had then; watch's thread only */
	int64_t pressed_at;
	uint64_t pressed_sent;
	bool is_cut;              /* watch's thread only */
	_Atomic int64_t deadline; /* INT64_MAX: held */
	_Atomic int64_t turn_at;  /* since when it is the client's turn */
	atomic_bool is_sending;   /* the client, or it should */
	/* The deadline with which it was seen at its end, and so often; watch's thread
	 * only. */
	int64_t ended_at;
	unsigned ended_looks;
};

struct idle_watch {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	pthread_t thread;
	int64_t idle_ms, head_ms;
	TAILQ_HEAD(, idle_conn) conns; /* guarded by mutex */
	size_t count, most;            /* guarded by mutex; of them; 0: any number */
	bool is_stopping;              /* guarded by mutex */
	bool is_pressed;               /* there are so many; watch's thread only */
	_Atomic int64_t wakes_at;
};

/* Bytes that the other side has acknowledged. */
static uint64_t bytes_sent(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) ? 0
								  : info.tcpi_bytes_acked;
}

/* Whether the client took so much of a long answer meanwhile that it may go on. */
static bool is_taking(struct idle_conn *conn)
{
	uint64_t before = conn->sent;

	conn->sent = bytes_sent(conn->fd);
	return conn->sent - before >= PROGRESS;
}

/* What it has sent may just be on its way to be answered, which on a busy machine takes a
 * while: so it counts once it was seen for so long, if the client's turn was the same one
 * all the time. */
static bool idle_has_ended(struct idle_conn *conn, int64_t deadline)
{
	char byte;

	if (recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0)
		return false;
	if (conn->ended_at != deadline)
		conn->ended_looks = 0;
	conn->ended_at = deadline;
	return ++conn->ended_looks > ENDED_LOOKS;
}

/* Returns when to look again at one whose turn it is to send. */
static int64_t idle_check_for_end(struct idle_conn *conn, int64_t deadline, int64_t now)
{
	if (idle_has_ended(conn, deadline) && atomic_load(&conn->is_sending) &&
	    atomic_load(&conn->deadline) == deadline)
		shutdown(conn->fd, SHUT_RDWR);
	return deadline < now + LOOK_MS ? deadline : now + LOOK_MS;
}

static void idle_cut_connection(struct idle_conn *conn)
{
	shutdown(conn->fd, SHUT_RDWR); /* the server sees that */
	conn->is_cut = true;
}

/* Whose turn it is to send, for longest. */
static struct idle_conn *longest_silent_locked(struct idle_watch *watch, int64_t now)
{
	struct idle_conn *conn, *longest = NULL;
	int64_t since = now - IDLE_LEAST_MS;

	TAILQ_FOREACH(conn, &watch->conns, entry)
	{
		int64_t turn_at = atomic_load(&conn->turn_at);
		if (conn->is_cut || !atomic_load(&conn->is_sending) || turn_at > since)
			continue;
		longest = conn;
		since = turn_at - 1;
	}
	return longest;
}

/* Whether it takes next to nothing of an answer. */
static bool is_slow_reader(struct idle_conn *conn, int64_t now)
{
	uint64_t sent, least;

	if (conn->is_cut || atomic_load(&conn->is_sending) ||
	    atomic_load(&conn->deadline) == INT64_MAX) {
		conn->pressed_at = 0;
		return false;
	}
	if (conn->pressed_at > 0 && now - conn->pressed_at < PRESSED_MS)
		return false;
	sent = bytes_sent(conn->fd);
	least = (uint64_t)(now - conn->pressed_at) * PRESSED_RATE / 1000;
	bool is_slow = conn->pressed_at > 0 && sent - conn->pressed_sent < least;
	conn->pressed_at = now;
	conn->pressed_sent = sent;
	return is_slow;
}

static struct idle_conn *slow_reader_locked(struct idle_watch *watch, int64_t now)
{
	struct idle_conn *conn, *slow = NULL;

	TAILQ_FOREACH(conn, &watch->conns, entry)
	if (is_slow_reader(conn, now))
		slow = conn;
	return slow;
}

static void forget_rates_locked(struct idle_watch *watch)
{
	struct idle_conn *conn;

	TAILQ_FOREACH(conn, &watch->conns, entry)
	conn->pressed_at = 0;
}

static size_t count_uncut_locked(const struct idle_watch *watch)
{
	const struct idle_conn *conn;
	size_t count = 0;

	TAILQ_FOREACH(conn, &watch->conns, entry)
	count += !conn->is_cut;
	return count;
}

/* So that there is room for others: those that are silent first, then one that is slow.
 * Returns when to look again. */
static int64_t idle_make_room_locked(struct idle_watch *watch, int64_t now)
{
	size_t count = watch->most ? count_uncut_locked(watch) : 0;
	struct idle_conn *conn;

	if (watch->most == 0 || count < watch->most) {
		if (watch->is_pressed)
			forget_rates_locked(watch);
		watch->is_pressed = false;
		return INT64_MAX;
	}
	watch->is_pressed = true;
	while (count >= watch->most && (conn = longest_silent_locked(watch, now))) {
		idle_cut_connection(conn);
		count--;
	}
	if (count >= watch->most && (conn = slow_reader_locked(watch, now)))
		idle_cut_connection(conn);
	return now + LOOK_MS;
}

static int64_t close_silent_locked(struct idle_watch *watch)
{
	int64_t now = clock_boot_ms();
	int64_t first = INT64_MAX;
	struct idle_conn *conn;

	atomic_store(&watch->wakes_at, INT64_MAX);
	TAILQ_FOREACH(conn, &watch->conns, entry)
	{
		int64_t deadline = atomic_load(&conn->deadline);
		if (deadline <= now) {
			bool may_go_on = is_taking(conn);
			if (!may_go_on)
				idle_cut_connection(conn);
			int64_t next = may_go_on ? now + watch->idle_ms : INT64_MAX;
			/* If it was moved meanwhile, that counts. */
			if (atomic_compare_exchange_strong(&conn->deadline, &deadline,
							   next))
				deadline = next;
		}
		if (deadline != INT64_MAX && atomic_load(&conn->is_sending))
			deadline = idle_check_for_end(conn, deadline, now);
		if (deadline < first)
			first = deadline;
	}
	int64_t room_at = idle_make_room_locked(watch, now);
	if (room_at < first)
		first = room_at;
	atomic_store(&watch->wakes_at, first);
	return first;
}

static void *idle_run_thread(void *arg)
{
	struct idle_watch *watch = arg;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->mutex);

	while (!watch->is_stopping) {
		int64_t wakes_at = close_silent_locked(watch);
		cond_wait_until(&watch->changed, held, wakes_at);
	}
	return NULL;
}

struct idle_watch *idle_start(int64_t idle_ms, int64_t head_ms, size_t most)
{
	struct idle_watch *watch = xcalloc(1, sizeof(*watch));

	watch->idle_ms = idle_ms;
	watch->most = most;
	watch->head_ms = head_ms < idle_ms ? head_ms : idle_ms;
	atomic_init(&watch->wakes_at, INT64_MAX);
	TAILQ_INIT(&watch->conns);
	mutex_init(&watch->mutex);
	cond_init(&watch->changed);
	thread_start(&watch->thread, "http-idle", idle_run_thread, watch);
	return watch;
}

void idle_stop(struct idle_watch *watch)
{
	lock(&watch->mutex);
	watch->is_stopping = true;
	pthread_cond_signal(&watch->changed);
	unlock(&watch->mutex);
	thread_join(watch->thread);
	pthread_cond_destroy(&watch->changed);
	pthread_mutex_destroy(&watch->mutex);
	free(watch);
}

struct idle_conn *idle_enter(struct idle_watch *watch, int fd)
{
	struct idle_conn *conn = xcalloc(1, sizeof(*conn));

	conn->watch = watch;
	conn->fd = fd;
	atomic_init(&conn->deadline, INT64_MAX);
	atomic_init(&conn->turn_at, INT64_MAX);
	lock(&watch->mutex);
	TAILQ_INSERT_TAIL(&watch->conns, conn, entry);
	if (++watch->count == watch->most)
		pthread_cond_signal(&watch->changed);
	unlock(&watch->mutex);
	idle_await_head(conn);
	return conn;
}

void idle_leave(struct idle_conn *conn)
{
	lock(&conn->watch->mutex);
	TAILQ_REMOVE(&conn->watch->conns, conn, entry);
	conn->watch->count--;
	unlock(&conn->watch->mutex);
	free(conn);
}

void idle_cut(struct idle_watch *watch)
{
	struct idle_conn *conn;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->mutex);

	TAILQ_FOREACH(conn, &watch->conns, entry)
	shutdown(conn->fd, SHUT_RDWR);
}

static void set_deadline(struct idle_conn *conn, int64_t within_ms, int64_t look_in_ms)
{
	struct idle_watch *watch = conn->watch;
	int64_t now = clock_boot_ms();

	atomic_store(&conn->turn_at, now);
	atomic_store(&conn->deadline, now + within_ms);
	if (now + look_in_ms >= atomic_load(&watch->wakes_at))
		return;
	lock(&watch->mutex);
	pthread_cond_signal(&watch->changed);
	unlock(&watch->mutex);
}

void idle_expect(struct idle_conn *conn)
{
	atomic_store(&conn->is_sending, false);
	set_deadline(conn, conn->watch->idle_ms, conn->watch->idle_ms);
}

static void await(struct idle_conn *conn, int64_t within_ms)
{
	atomic_store(&conn->is_sending, true);
	set_deadline(conn, within_ms, within_ms < LOOK_MS ? within_ms : LOOK_MS);
}

void idle_await(struct idle_conn *conn)
{
	await(conn, conn->watch->idle_ms);
}

void idle_await_head(struct idle_conn *conn)
{
	await(conn, conn->watch->head_ms);
}

void idle_linger(struct idle_conn *conn)
{
	atomic_store(&conn->is_sending, false);
	set_deadline(conn, LINGER_MS, LINGER_MS);
}

void idle_hold(struct idle_conn *conn)
{
	atomic_store(&conn->is_sending, false);
	atomic_store(&conn->turn_at, INT64_MAX);
	atomic_store(&conn->deadline, INT64_MAX);
}

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
	err_set(err, ERR_CONFIG, "\"%s\" is not an address to listen on", address);
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
