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
 * side or web/listen.h its time: if the connection were closed with bytes unread, the
 * client's kernel would drop the answer.
 */
#include "web/gate.h"

#include <dlfcn.h>
#include <gnutls/gnutls.h>
#include <stdatomic.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/str.h"
#include "web/answer.h"

/*
 * One step for each byte of a head, but for targets and values, most of a head, which a
 * table lets pass. Bodies are counted, not read.
 *
 * Refused, though RFC 9112 leaves it to the server: lines that end in LF alone, the
 * same length twice, blanks behind a length, a coding or a host, a field in a trailer
 * that says how to read the request. No client of Git's sends them.
 */

enum state {
	START, /* nothing of a request */
	START_LF,
	METHOD,
	TARGET,
	VERSION,
	VERSION_LF,
	LINE, /* the beginning of a field, or the end */
	NAME,
	BLANKS, /* before a value */
	VALUE,
	VALUE_LF,
	END_LF,
	BODY,
	SIZE, /* of a chunk */
	EXTENSION,
	SIZE_LF,
	CHUNK,
	CHUNK_CR,
	CHUNK_LF,
};

enum {
	/* What libmicrohttpd keeps for each field, each part of a query, each cookie. */
	COST_EACH = 64,
	/* Of 16 KiB (CONNECTION_MEMORY) the head of the answer needs some, too. */
	COST_MAX = 12 << 10,
	METHOD_MAX = 15,
	VERSION_SIZE = 8,
	LENGTH_DIGITS = 18,
	CHUNK_DIGITS = 15,
	EXTENSION_MAX = 200,
	TRAILER_MAX = 2 << 10,
};

/* PART_CHAR: of a target, but not what begins another part of its query. */
enum { TOKEN = 1, TARGET_CHAR = 2, VALUE_CHAR = 4, HOST_CHAR = 8, PART_CHAR = 16 };

/* RFC 9110, 5.6.2 and 5.5; bytes above 0x7e are what a user wrote in a URL. */
static unsigned char classes[256];

__attribute__((constructor)) static void fill_classes(void)
{
	static const char marks[] = "!#$%&'*+-.^_`|~";

	for (int c = 0x21; c < 256; c++)
		if (c != 0x7f)
			classes[c] = TARGET_CHAR | VALUE_CHAR | PART_CHAR;
	classes['&'] &= ~PART_CHAR;
	classes['?'] &= ~PART_CHAR;
	classes[' '] = classes['\t'] = VALUE_CHAR;
	for (int c = '0'; c <= 'z'; c++)
		if ((c <= '9') || (c >= 'a') || (c >= 'A' && c <= 'Z'))
			classes[c] |= TOKEN | HOST_CHAR;
	for (const char *mark = marks; *mark; mark++)
		classes[(unsigned char)*mark] |= TOKEN;
	for (const char *mark = "-._~!$&'()*+;=%:[]"; *mark; mark++)
		classes[(unsigned char)*mark] |= HOST_CHAR;
}

static bool is_a(char c, unsigned char class)
{
	return classes[(unsigned char)c] & class;
}

/* Always false, so that a step can end in it. */
static bool judge_refuse(struct judge *judge, int status, const char *why)
{
	judge->status = status;
	judge->why = why;
	return false;
}

static bool judge_enter_state(struct judge *judge, enum state state)
{
	judge->state = (unsigned char)state;
	judge->len = 0;
	return true;
}

/* The next request. */
static bool judge_begin_anew(struct judge *judge)
{
	*judge = (struct judge){ .begun = judge->begun, .heads = judge->heads };
	return true;
}

/* One may be before a request: old clients end a body so. */
static bool end_empty_line(struct judge *judge, char c)
{
	if (c == '\n' && judge->seen[JUDGE_OTHER]++ == 0)
		return judge_enter_state(judge, START);
	judge->begun++;
	return judge_refuse(judge, 400, "it begins with no method");
}

static bool pay(struct judge *judge, uint32_t cost)
{
	judge->cost += cost;
	if (judge->is_trailer)
		return judge->cost <= TRAILER_MAX ||
		       judge_refuse(judge, 431, "the trailer is too long");
	if (judge->cost <= COST_MAX)
		return true;
	return judge->state <= TARGET
		       ? judge_refuse(judge, 414,
				      "the URL is too long, or its query has too "
				      "many parts")
		       : judge_refuse(judge, 431,
				      "the headers are too long, or too many");
}

static bool judge_begin_request(struct judge *judge, char c)
{
	judge_begin_anew(judge);
	judge->begun++;
	judge_enter_state(judge, METHOD);
	judge->len = 1;
	return is_a(c, TOKEN) || judge_refuse(judge, 400, "it begins with no method");
}

static bool in_method(struct judge *judge, char c)
{
	if (c == ' ')
		return judge_enter_state(judge, TARGET);
	if (!is_a(c, TOKEN))
		return judge_refuse(judge, 400, "the method is none");
	return ++judge->len <= METHOD_MAX ||
	       judge_refuse(judge, 501, "the method is not known");
}

static bool in_target(struct judge *judge, char c)
{
	if (c == ' ')
		return judge->len > 0 ? judge_enter_state(judge, VERSION)
				      : judge_refuse(judge, 400, "the target is missing");
	if (!is_a(c, TARGET_CHAR))
		return judge_refuse(judge, 400, "the target is none");
	judge->len = 1;
	return (c != '&' && c != '?') || pay(judge, COST_EACH);
}

static bool end_version(struct judge *judge)
{
	judge->text[judge->len] = '\0';
	judge->is_old = strcmp(judge->text, "HTTP/1.0") == 0;
	if (judge->is_old || strcmp(judge->text, "HTTP/1.1") == 0)
		return judge_enter_state(judge, VERSION_LF);
	if (judge->len == VERSION_SIZE && memcmp(judge->text, "HTTP/", 5) == 0)
		return judge_refuse(judge, 505, "this version of HTTP is not spoken");
	return judge_refuse(judge, 400,
			    "the request line does not end in a version of HTTP");
}

static bool in_version(struct judge *judge, char c)
{
	if (c == '\r')
		return end_version(judge);
	if (judge->len == VERSION_SIZE)
		return judge_refuse(judge, 400, "the request line has too many words");
	judge->text[judge->len++] = c;
	return true;
}

/* The LF of a line's end, after which `next` comes. */
static bool end_line(struct judge *judge, char c, enum state next)
{
	return c == '\n' ? judge_enter_state(judge, next)
			 : judge_refuse(judge, 400, "a line does not end in CR LF");
}

static bool begin_line(struct judge *judge, char c)
{
	if (c == '\r')
		return judge_enter_state(judge, END_LF);
	if (!is_a(c, TOKEN))
		return judge_refuse(judge, 400,
				    c == ' ' || c == '\t' ? "a header is folded"
							  : "a line is no header");
	judge_enter_state(judge, NAME);
	judge->text[judge->len++] = c;
	return pay(judge, COST_EACH);
}

static enum judge_field find_field(const struct judge *judge)
{
	static const char *const names[JUDGE_FIELDS] = {
		[JUDGE_OTHER] = "",
		[JUDGE_HOST] = "Host",
		[JUDGE_LENGTH] = "Content-Length",
		[JUDGE_CODING] = "Transfer-Encoding",
		[JUDGE_AUTHORIZATION] = "Authorization",
		[JUDGE_COOKIE] = "Cookie",
	};

	for (size_t i = 1; i < ARRAY_SIZE(names); i++)
		if (strlen(names[i]) == judge->len &&
		    strncasecmp(names[i], judge->text, judge->len) == 0)
			return (enum judge_field)i;
	return JUDGE_OTHER;
}

static bool may_come_again(enum judge_field field)
{
	return field == JUDGE_OTHER || field == JUDGE_COOKIE;
}

static bool begin_value(struct judge *judge)
{
	enum judge_field field = find_field(judge);

	judge->field = (unsigned char)field;
	if (judge->is_trailer && field != JUDGE_OTHER)
		return judge_refuse(judge, 400,
				    "a trailer has a header that belongs before "
				    "the body");
	if (!may_come_again(field) && judge->seen[field])
		return judge_refuse(judge, 400,
				    "a header that may be there once is there twice");
	judge->seen[field] = 1;
	return judge_enter_state(judge, BLANKS);
}

/* What is a name pass_name() has taken. */
static bool in_name(struct judge *judge, char c)
{
	return c == ':' ? begin_value(judge)
			: judge_refuse(judge, 400, "the name of a header is none");
}

static bool add_digit(struct judge *judge, char c)
{
	if (c < '0' || c > '9' || judge->len++ >= LENGTH_DIGITS)
		return judge_refuse(judge, 400, "Content-Length is no number");
	judge->left = judge->left * 10 + (uint64_t)(c - '0');
	return true;
}

static bool add_to_coding(struct judge *judge, char c)
{
	static const char chunked[] = "chunked";

	if (judge->len >= sizeof(chunked) - 1 || (c | 0x20) != chunked[judge->len])
		return judge_refuse(judge, 400, "this Transfer-Encoding is not known");
	judge->len++;
	return true;
}

static bool is_coding_whole(const struct judge *judge)
{
	return judge->len == sizeof("chunked") - 1;
}

static bool end_value(struct judge *judge)
{
	if (judge->field == JUDGE_LENGTH && judge->len == 0)
		return judge_refuse(judge, 400, "Content-Length is no number");
	if (judge->field == JUDGE_CODING && !is_coding_whole(judge))
		return judge_refuse(judge, 400, "this Transfer-Encoding is not known");
	return judge_enter_state(judge, VALUE_LF);
}

static bool in_value(struct judge *judge, char c)
{
	if (c == '\r')
		return end_value(judge);
	if (!is_a(c, VALUE_CHAR))
		return judge_refuse(judge, 400, "a header has a control character");
	switch (judge->field) {
	case JUDGE_LENGTH:
		return add_digit(judge, c);
	case JUDGE_CODING:
		return add_to_coding(judge, c);
	case JUDGE_HOST:
		return is_a(c, HOST_CHAR) || judge_refuse(judge, 400, "Host is no host");
	case JUDGE_COOKIE:
		return (c != ';' && c != ',') || pay(judge, COST_EACH);
	default:
		return true;
	}
}

static bool in_blanks(struct judge *judge, char c)
{
	if (c == ' ' || c == '\t')
		return true;
	judge->state = VALUE;
	return in_value(judge, c);
}

/* Which of two lengths counts, and whether a server of HTTP/1.0 would look at chunks, is
 * what requests are smuggled by. */
static bool end_head(struct judge *judge, char c)
{
	bool has_coding = judge->seen[JUDGE_CODING];

	if (c != '\n')
		return judge_refuse(judge, 400, "a line does not end in CR LF");
	if (judge->is_trailer)
		return judge_begin_anew(judge);
	if (has_coding && (judge->seen[JUDGE_LENGTH] || judge->is_old))
		return judge_refuse(judge, 400,
				    "where the body ends is said in two ways");
	if (!judge->is_old && !judge->seen[JUDGE_HOST])
		return judge_refuse(judge, 400, "Host is missing");
	judge->heads++;
	if (has_coding)
		return judge_enter_state(judge, SIZE);
	return judge->left > 0 ? judge_enter_state(judge, BODY) : judge_begin_anew(judge);
}

static int judge_parse_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool in_size(struct judge *judge, char c)
{
	int digit = judge_parse_hex_digit(c);

	if (judge->len == 0)
		judge->left = 0;
	if (c == '\r' && judge->len > 0)
		return judge_enter_state(judge, SIZE_LF);
	if (c == ';' && judge->len > 0)
		return judge_enter_state(judge, EXTENSION);
	if (digit < 0 || judge->len++ >= CHUNK_DIGITS)
		return judge_refuse(judge, 400, "the size of a chunk is none");
	judge->left = judge->left * 16 + (unsigned)digit;
	return true;
}

/* Nobody knows any: all are ignored. */
static bool in_extension(struct judge *judge, char c)
{
	if (c == '\r')
		return judge_enter_state(judge, SIZE_LF);
	if (!is_a(c, VALUE_CHAR) || judge->len++ >= EXTENSION_MAX)
		return judge_refuse(judge, 400, "the extension of a chunk is none");
	return true;
}

static bool end_size(struct judge *judge, char c)
{
	if (judge->left > 0)
		return end_line(judge, c, CHUNK);
	judge->is_trailer = true;
	judge->cost = 0;
	return end_line(judge, c, LINE);
}

/* False: it is bad. */
static bool judge_take_byte(struct judge *judge, char c)
{
	switch ((enum state)judge->state) {
	case START:
		return c == '\r' ? judge_enter_state(judge, START_LF)
				 : judge_begin_request(judge, c);
	case START_LF:
		return end_empty_line(judge, c);
	case METHOD:
		return in_method(judge, c);
	case TARGET:
		return in_target(judge, c);
	case VERSION:
		return in_version(judge, c);
	case VERSION_LF:
	case VALUE_LF:
		return end_line(judge, c, LINE);
	case LINE:
		return begin_line(judge, c);
	case NAME:
		return in_name(judge, c);
	case BLANKS:
		return in_blanks(judge, c);
	case VALUE:
		return in_value(judge, c);
	case END_LF:
		return end_head(judge, c);
	case SIZE:
		return in_size(judge, c);
	case EXTENSION:
		return in_extension(judge, c);
	case SIZE_LF:
		return end_size(judge, c);
	case CHUNK_CR:
		return c == '\r' ? judge_enter_state(judge, CHUNK_LF)
				 : judge_refuse(judge, 400,
						"a chunk is longer than it says");
	case CHUNK_LF:
		return end_line(judge, c, SIZE);
	default:
		return false;
	}
}

static size_t count_class(const char *at, size_t len, unsigned char class)
{
	size_t count = 0;

	while (count < len && is_a(at[count], class))
		count++;
	return count;
}

static size_t pass_name(struct judge *judge, const char *at, size_t len)
{
	size_t count = count_class(at, len, TOKEN);

	for (size_t i = 0; i < count && judge->len < JUDGE_NAME_SIZE; i++)
		judge->text[judge->len++] = at[i];
	return count;
}

static size_t pass_target(struct judge *judge, const char *at, size_t len)
{
	size_t count = count_class(at, len, PART_CHAR);

	if (count > 0)
		judge->len = 1;
	return count;
}

static size_t pass_body(struct judge *judge, size_t len)
{
	size_t count = judge->left < len ? (size_t)judge->left : len;

	judge->left -= count;
	if (judge->left > 0)
		return count;
	if (judge->state == BODY)
		judge_begin_anew(judge);
	else
		judge_enter_state(judge, CHUNK_CR);
	return count;
}

/* Takes what needs no step; returns how much that is. */
static size_t pass_plain(struct judge *judge, const char *at, size_t len)
{
	switch ((enum state)judge->state) {
	case BODY:
	case CHUNK:
		return pass_body(judge, len);
	case TARGET:
		return pass_target(judge, at, len);
	case NAME:
		return pass_name(judge, at, len);
	case VALUE:
		return judge->field == JUDGE_OTHER || judge->field == JUDGE_AUTHORIZATION
			       ? count_class(at, len, VALUE_CHAR)
			       : 0;
	default:
		return 0;
	}
}

static bool is_in_body(const struct judge *judge)
{
	return judge->state >= BODY;
}

bool judge_is_within(const struct judge *judge)
{
	return judge->state != START && judge->state != START_LF;
}

size_t judge_take(struct judge *judge, const char *bytes, size_t len)
{
	size_t at = 0, begun = 0; /* begun: where the request is that it is in */

	while (at < len) {
		bool is_head = !is_in_body(judge);
		if (judge->state == START)
			begun = at;
		size_t count = pass_plain(judge, bytes + at, len - at);
		if (count == 0) {
			if (!judge_take_byte(judge, bytes[at]))
				return begun;
			count = 1;
		}
		if (is_head && !pay(judge, (uint32_t)count))
			return begun;
		at += count;
	}
	return len;
}

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
	AUTO_FREE char *message = xasprintf("invalid request: %s", judge->why);
	struct web_response response = { .body = STR_INIT };
	char date[40];
	time_t now = time(NULL);
	struct tm tm;

	web_answer_problem(&response, judge->status, "BAD_REQUEST", message, "");
	strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
	str_addf(out,
		 "HTTP/1.1 %d %s\r\nDate: %s\r\nConnection: close\r\n"
		 "Content-Type: " WEB_PROBLEM_TYPE "\r\nCache-Control: no-store\r\n"
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

int gate_epoll_ctl(int epoll_fd, int op, int fd,
		   struct epoll_event *event) __asm__("epoll_ctl");

#define SEEN_FROM_OUTSIDE __attribute__((used, visibility("default")))

/* Who only peeks (web/listen.c) reads nothing. */
SEEN_FROM_OUTSIDE ssize_t gate_recv(int fd, void *buffer, size_t size, int flags)
{
	struct gate *gate = flags & MSG_PEEK ? NULL : gate_find(fd, false);

	return gate ? gate_read(gate, NULL, buffer, size, flags)
		    : plain_recv(fd, buffer, size, flags);
}

/* When the server stops, the thread that ends it and the library's own both take the
 * listening socket out of the set; for the library the second time is a reason to abort
 * the process. What is out already is out. */
SEEN_FROM_OUTSIDE int gate_epoll_ctl(int epoll_fd, int op, int fd,
				     struct epoll_event *event)
{
	long result = syscall(SYS_epoll_ctl, epoll_fd, op, fd, event);

	return op == EPOLL_CTL_DEL && result != 0 && errno == ENOENT ? 0 : (int)result;
}

SEEN_FROM_OUTSIDE ssize_t gate_record_recv(gnutls_session_t session, void *buffer,
					   size_t size)
{
	struct gate *gate = gate_find(gnutls_transport_get_int(session), true);

	return gate ? gate_read(gate, session, buffer, size, 0)
		    : secure_recv(session, buffer, size);
}
