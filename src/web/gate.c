/*
 * The library reads by recv() and gnutls_record_recv(), and offers nothing to look at a
 * head before it takes it apart. So this program has functions of these names, which the
 * dynamic linker gives to the library in place of those of libc and GnuTLS. They do what
 * those do; only for descriptors of connections, found in a table, what was read passes
 * the gate. Should a later library read by other means, gate_take_head() says of each
 * request that nobody has judged it, and it is refused.
 *
 * The gate writes an answer of its own when the requests before have theirs. The bad one
 * itself has none yet, as its body is not here: so nobody else writes then.
 *
 * After that it takes and throws away what the client still sends, until that ends its
 * side or web/idle.h its time: if the connection were closed with bytes unread, the
 * client's kernel would drop the answer.
 */
#include "web/gate.h"

#include <dlfcn.h>
#include <gnutls/gnutls.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "base/str.h"
#include "web/answer.h"
#include "web/judge.h"

enum { DESCRIPTORS_MAX = 1 << 20, WASTE_SIZE = 16 << 10, WASTE_PIECES = 64 };

struct gate {
	struct judge judge;
	struct gate_client client;
	int fd;
	uint64_t taken;  /* heads */
	uint64_t ended;  /* requests */
	bool is_refused; /* answered */
};

typedef _Atomic(struct gate *) gate_slot;

static ssize_t (*secure_recv)(gnutls_session_t session, void *buffer, size_t size);
static gate_slot *gates; /* by descriptor */
static size_t gates_count;

/* The recv() of libc by another name, which thread sanitizers know as well. */
static ssize_t plain_recv(int fd, void *buffer, size_t size, int flags)
{
	struct iovec part = { .iov_base = buffer, .iov_len = size };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	return recvmsg(fd, &message, flags);
}

/* dlsym() gives no pointer to a function by the letter of the language. */
static void find_next(const char *name, void *function)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (!found)
		abort();
	memcpy(function, &found, sizeof(found));
}

/* Before anybody reads. The table is memory only where it is used. */
__attribute__((constructor)) static void gate_initialize(void)
{
	struct rlimit files;

	find_next("gnutls_record_recv", &secure_recv);
	gates_count = DESCRIPTORS_MAX;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max < gates_count)
		gates_count = files.rlim_max;
	gates = xcalloc(gates_count, sizeof(gates[0]));
}

/* GnuTLS, too, reads by recv(): what is encrypted there. */
static struct gate *gate_find(int fd, bool is_secure)
{
	struct gate *gate = NULL;

	if (fd >= 0 && (size_t)fd < gates_count)
		gate = atomic_load_explicit(&gates[fd], memory_order_acquire);
	return gate && gate->client.is_secure == is_secure ? gate : NULL;
}

struct gate *gate_enter(int fd, const struct gate_client *client)
{
	struct gate *gate = xcalloc(1, sizeof(*gate));

	gate->fd = fd;
	gate->client = *client;
	if ((size_t)fd < gates_count)
		atomic_store_explicit(&gates[fd], gate, memory_order_release);
	return gate;
}

void gate_leave(struct gate *gate)
{
	if ((size_t)gate->fd < gates_count)
		atomic_store_explicit(&gates[gate->fd], NULL, memory_order_release);
	free(gate);
}

bool gate_take_head(struct gate *gate)
{
	return ++gate->taken <= gate->judge.heads;
}

bool gate_is_shut(const struct gate *gate)
{
	return gate->judge.status != 0;
}

static const char *reason_phrase(int status)
{
	switch (status) {
	case 414:
		return "URI Too Long";
	case 431:
		return "Request Header Fields Too Large";
	case 501:
		return "Not Implemented";
	case 505:
		return "HTTP Version Not Supported";
	default:
		return "Bad Request";
	}
}

static void write_answer(const struct judge *judge, struct str *out)
{
	AUTO_FREE char *message = xasprintf("this is no request: %s", judge->why);
	struct web_response response = { .body = STR_INIT };
	char date[40];
	time_t now = time(NULL);
	struct tm tm;

	web_answer_problem(&response, judge->status, "BAD_REQUEST", message, "");
	strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
	str_addf(out,
		 "HTTP/1.1 %d %s\r\nDate: %s\r\nConnection: close\r\n"
		 "Content-Type: application/json\r\nCache-Control: no-store\r\n"
		 "Content-Length: %zu\r\n\r\n%s",
		 judge->status, reason_phrase(judge->status), date, response.body.len,
		 response.body.data);
	answer_reset(&response);
}

/* What does not fit at once is lost: it has room for more than an answer, unless the
 * client reads nothing. */
static void gate_send_answer(struct gate *gate, gnutls_session_t session)
{
	AUTO_STR struct str text = STR_INIT;

	write_answer(&gate->judge, &text);
	if (session) {
		gnutls_record_send(session, text.data, text.len);
		gnutls_bye(session, GNUTLS_SHUT_WR);
	} else {
		send(gate->fd, text.data, text.len, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	shutdown(gate->fd, SHUT_WR);
	gate->is_refused = true;
	gate->client.refused(gate->client.arg, gate->judge.status, gate->judge.why);
}

/* Until nothing more is there now (EAGAIN), or ever; of who sends without end only so
 * much at a time, as others wait for this thread. What is encrypted is not read. */
static ssize_t waste(struct gate *gate)
{
	char bytes[WASTE_SIZE];
	ssize_t got = 1;

	for (int i = 0; i < WASTE_PIECES && got > 0; i++)
		got = plain_recv(gate->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (got <= 0)
		return got;
	errno = EAGAIN;
	return -1;
}

/* Whether all requests before the bad one have their answers. */
static bool is_its_turn(const struct gate *gate)
{
	return gate->ended + 1 >= gate->judge.begun;
}

/* The library is told of changes only; so that it reads again, there is one. */
static void make_it_read(const struct gate *gate)
{
	if (gate_is_shut(gate) && is_its_turn(gate))
		shutdown(gate->fd, SHUT_RD);
}

void gate_end_request(struct gate *gate)
{
	gate->ended++;
	make_it_read(gate);
}

/* Nothing more is read. As recv(). */
static ssize_t gate_refuse(struct gate *gate, gnutls_session_t session)
{
	if (!is_its_turn(gate)) {
		errno = EAGAIN;
		return -1;
	}
	if (!gate->is_refused)
		gate_send_answer(gate, session);
	return waste(gate);
}

/* As recv(), or with a session as gnutls_record_recv(). */
static ssize_t gate_read(struct gate *gate, gnutls_session_t session, void *buffer,
			 size_t size, int flags)
{
	if (!gate_is_shut(gate)) {
		ssize_t got = session ? secure_recv(session, buffer, size)
				      : plain_recv(gate->fd, buffer, size, flags);
		if (got <= 0)
			return got;
		size_t good = judge_take(&gate->judge, buffer, (size_t)got);
		if (good > 0) {
			make_it_read(gate);
			return (ssize_t)good;
		}
	}
	ssize_t got = gate_refuse(gate, session);
	return session && got < 0 ? GNUTLS_E_AGAIN : got;
}

/* What the library calls recv() and gnutls_record_recv(). */
ssize_t gate_recv(int fd, void *buffer, size_t size, int flags) __asm__("recv");
ssize_t gate_record_recv(gnutls_session_t session, void *buffer,
			 size_t size) __asm__("gnutls_record_recv");

#define SEEN_FROM_OUTSIDE __attribute__((used, visibility("default")))

/* Who only peeks (web/idle.c) reads nothing. */
SEEN_FROM_OUTSIDE ssize_t gate_recv(int fd, void *buffer, size_t size, int flags)
{
	struct gate *gate = flags & MSG_PEEK ? NULL : gate_find(fd, false);

	return gate ? gate_read(gate, NULL, buffer, size, flags)
		    : plain_recv(fd, buffer, size, flags);
}

SEEN_FROM_OUTSIDE ssize_t gate_record_recv(gnutls_session_t session, void *buffer,
					   size_t size)
{
	struct gate *gate = gate_find(gnutls_transport_get_int(session), true);

	return gate ? gate_read(gate, session, buffer, size, 0)
		    : secure_recv(session, buffer, size);
}
