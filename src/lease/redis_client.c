/*
 * The states of a connection follow each other in redis_request_step(), which never
 * waits. The greeting (password, database, name, what the server is) goes before the
 * first request, which is sent only to a server that took it, and may be used.
 *
 * A kept connection may have been closed by the server while nothing was under way. What
 * is sent on it then is sent again, once, on a new one, if no reply came: all our
 * commands may run twice.
 */
#include "lease/redis_client.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <gnutls/gnutls.h>
#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"

#define LOOKUP_POLL_MS 5
#define REST_FIRST_MS 100
#define REST_MOST_MS 1000
#define ANSWER_MAX (64u << 20)
#define PASSWORD_MAX 1024

enum state { CLOSED, LOOKING_UP, CONNECTING, SHAKING_HANDS, OPEN };

enum greeting { GREET_AUTH, GREET_SELECT, GREET_NAME, GREET_INFO };

/* Of a name, by a thread of its own: libc has no deadline for that. */
struct lookup {
	pthread_t thread;
	char *host; /* owned */
	char port[8];
	struct addrinfo *found; /* owned; the thread's until it is done */
	int code;
	atomic_bool is_done;
	atomic_int users; /* the connection, and the thread */
};

struct redis_connection {
	const struct redis_address *address;
	const struct redis_access *access;
	enum state state;
	int fd;
	struct lookup *lookup; /* one user of it; NULL: no name was looked up yet */
	unsigned dialled;      /* addresses of it, in turn */
	gnutls_session_t session;
	gnutls_certificate_credentials_t credentials;
	redisReader *reader;
	enum greeting greetings[4]; /* whose replies come first */
	size_t greeted, greeting_count;
	size_t greeting_len; /* of what was sent for them */
	size_t taken;        /* bytes, of the present request's replies */
	int64_t born_at;
	int64_t rest_until; /* not tried again before; of one of several */
	int64_t rest_ms;
	struct err failure; /* why it rests */
};

/* ------------------------------------------------------------------ replies that refuse
 */

struct refusal {
	const char *word;
	enum err_class class;
	const char *remedy;
};

static const struct refusal refusals[] = {
	{ "NOAUTH", ERR_AUTH, "set lease.passwordFile, and lease.userFile" },
	{ "WRONGPASS", ERR_AUTH,
	  "correct what lease.userFile and lease.passwordFile hold" },
	{ "NOPERM", ERR_AUTH,
	  "give the user of lease.userFile the commands and keys that the manual names" },
	{ "DENIED", ERR_AUTH, "set a password at the server, and lease.passwordFile" },
	{ "OOM", ERR_DISK, "the server's memory is full: raise its maxmemory" },
	{ "READONLY", ERR_NETWORK, "lease.url names a replica: name the primary" },
	{ "NOREPLICAS", ERR_NETWORK,
	  "the server lacks replicas for min-replicas-to-write" },
	{ "MISCONF", ERR_NETWORK, "the server cannot save its data: see its log" },
	{ "LOADING", ERR_NETWORK, "the server is reading its data: wait" },
	{ "BUSY", ERR_NETWORK, "a script of somebody keeps the server busy" },
	{ "MASTERDOWN", ERR_NETWORK, "lease.url names a replica: name the primary" },
	{ "MOVED", ERR_CONFIG, "lease.url names a cluster: name a server of its own" },
	{ "ASK", ERR_CONFIG, "lease.url names a cluster: name a server of its own" },
	{ "CROSSSLOT", ERR_CONFIG,
	  "lease.url names a cluster: name a server of its own" },
	{ "CLUSTERDOWN", ERR_CONFIG,
	  "lease.url names a cluster: name a server of its own" },
	{ "WRONGTYPE", ERR_CONFIG,
	  "another program uses keys of this name: set another lease.prefix" },
	/* Instead of NOAUTH, when a command has many words. */
	{ "ERR Protocol error: unauth", ERR_AUTH,
	  "set lease.passwordFile, and lease.userFile" },
	{ "ERR max number of clients", ERR_NETWORK, "raise the server's maxclients" },
};

static const struct refusal other_refusal = {
	"", ERR_CONFIG,
	"see the server's log; it must be Redis 5 or "
	"newer"
};

/* Before version 7, what a script's command was refused with stands in the middle. */
static const struct refusal *redis_reply_find_refusal(const char *text)
{
	bool is_script = text_starts_with(text, "ERR Error running script");

	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		const char *word = refusals[i].word;
		if (text_starts_with(text, word) || (is_script && strstr(text, word)))
			return &refusals[i];
	}
	return &other_refusal;
}

int redis_reply_check(const struct redisReply *reply, const char *server, struct err *err)
{
	if (reply->type != REDIS_REPLY_ERROR)
		return 0;
	const struct refusal *refusal = redis_reply_find_refusal(reply->str);
	err_set(err, refusal->class, "leases: %.100s refuses: %.300s", server,
		reply->str);
	err_because(err, REASON_LOCK_UNAVAILABLE);
	return err_remedy(err, "%s", refusal->remedy);
}

/* ------------------------------------------------------------------ closing */

struct redis_connection *redis_connection_new(const struct redis_address *address,
					      const struct redis_access *access)
{
	struct redis_connection *connection = xcalloc(1, sizeof(*connection));

	connection->address = address;
	connection->access = access;
	connection->fd = -1;
	connection->born_at = INT64_MAX;
	return connection;
}

void redis_connection_cut(struct redis_connection *connection)
{
	static const struct linger at_once = { .l_onoff = 1 };

	if (connection->session)
		gnutls_deinit(connection->session);
	if (connection->credentials)
		gnutls_certificate_free_credentials(connection->credentials);
	connection->session = NULL;
	connection->credentials = NULL;
	if (connection->reader)
		redisReaderFree(connection->reader);
	connection->reader = NULL;
	if (connection->fd >= 0) {
		setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &at_once,
			   sizeof(at_once));
		close(TAKE_FD(connection->fd));
	}
	if (connection->state != LOOKING_UP)
		connection->state = CLOSED;
}

static void redis_lookup_put(struct lookup *lookup)
{
	if (atomic_fetch_sub(&lookup->users, 1) > 1)
		return;
	if (lookup->found)
		freeaddrinfo(lookup->found);
	free(lookup->host);
	free(lookup);
}

/* Nobody waits for libc: a lookup that goes on frees its memory when it ends. */
static void redis_lookup_free(struct lookup *lookup)
{
	if (!lookup)
		return;
	if (atomic_load(&lookup->is_done))
		thread_join(lookup->thread);
	else
		pthread_detach(lookup->thread);
	redis_lookup_put(lookup);
}

void redis_connection_free(struct redis_connection *connection)
{
	if (!connection)
		return;
	redis_connection_cut(connection);
	redis_lookup_free(connection->lookup);
	free(connection);
}

void redis_connection_rouse(struct redis_connection *connection)
{
	connection->rest_until = 0;
}

int64_t redis_connection_born_at(const struct redis_connection *connection)
{
	return connection->born_at;
}

/* ------------------------------------------------------------------ failing */

static int redis_request_fail(struct redis_request *request)
{
	struct redis_connection *connection = request->connection;

	err_prefix(&request->err, "leases: %.100s", connection->address->text);
	err_because(&request->err, REASON_LOCK_UNAVAILABLE);
	request->progress = REDIS_FAILED;
	redis_connection_cut(connection);
	if (!connection->access->is_one_of_several)
		return -1;
	connection->rest_ms =
		connection->rest_ms ? 2 * connection->rest_ms : REST_FIRST_MS;
	if (connection->rest_ms > REST_MOST_MS)
		connection->rest_ms = REST_MOST_MS;
	connection->rest_until = clock_boot_ms() + connection->rest_ms;
	connection->failure = request->err;
	return -1;
}

/* By errno. What the network or the server does is never a class of ours alone. */
static int redis_request_fail_errno(struct redis_request *request, const char *what)
{
	err_errno(&request->err, "cannot %s", what);
	if (request->err.class != ERR_CONFIG && request->err.class != ERR_TIMEOUT)
		request->err.class = ERR_NETWORK;
	err_remedy(&request->err, "check that the server runs, and lease.url");
	return redis_request_fail(request);
}

static int redis_request_fail_tls(struct redis_request *request, int code)
{
	struct redis_connection *connection = request->connection;
	gnutls_datum_t why = { 0 };

	if (code != GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR) {
		err_set(&request->err, ERR_NETWORK, "TLS: %s", gnutls_strerror(code));
		err_remedy(&request->err, "check that the server has TLS on this port");
		return redis_request_fail(request);
	}
	unsigned status = gnutls_session_get_verify_cert_status(connection->session);
	gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &why, 0);
	err_set(&request->err, ERR_CONFIG, "its certificate is not trusted: %.200s",
		why.data ? (const char *)why.data : "");
	gnutls_free(why.data);
	err_remedy(&request->err, "set lease.caFile, and the host's name as in the "
				  "certificate");
	return redis_request_fail(request);
}

/* 1: it goes on, on a new connection; -1: failed. */
static int redis_request_lose(struct redis_request *request)
{
	if (request->is_reused && request->replies.count == 0) {
		redis_connection_cut(request->connection);
		request->is_reused = false;
		request->sent = 0;
		return 1;
	}
	err_set(&request->err, ERR_NETWORK, "the server closed the connection");
	err_remedy(&request->err, "check that the server runs, and its log");
	return redis_request_fail(request);
}

/* ------------------------------------------------------------------ the steps */

/* Each returns 1: on to the next; 0: wait; -1: failed. */

static void redis_connection_set_options(int fd, int family)
{
	static const int yes = 1, probe_s = 5, probes = 3;

	if (family == AF_UNIX)
		return;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &probe_s, sizeof(probe_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &probe_s, sizeof(probe_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

static int redis_connection_dial(struct redis_request *request, int family,
				 const struct sockaddr *to, socklen_t size)
{
	struct redis_connection *connection = request->connection;

	connection->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (connection->fd < 0)
		return redis_request_fail_errno(request, "make a socket");
	redis_connection_set_options(connection->fd, family);
	connection->state = CONNECTING;
	if (connect(connection->fd, to, size) == 0)
		return 1;
	return errno == EINPROGRESS ? 0 : redis_request_fail_errno(request, "connect");
}

/* The addresses of a name take turns from one try to the next. */
static int redis_connection_dial_found(struct redis_request *request,
				       const struct addrinfo *address)
{
	struct redis_connection *connection = request->connection;
	unsigned count = 0;

	for (const struct addrinfo *at = address; at; at = at->ai_next)
		count++;
	for (unsigned skip = connection->dialled++ % count; skip > 0; skip--)
		address = address->ai_next;
	return redis_connection_dial(request, address->ai_family, address->ai_addr,
				     address->ai_addrlen);
}

static void *redis_lookup_run(void *arg)
{
	struct lookup *lookup = arg;
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
					.ai_flags = AI_ADDRCONFIG };

	lookup->code = getaddrinfo(lookup->host, lookup->port, &hints, &lookup->found);
	atomic_store(&lookup->is_done, true);
	redis_lookup_put(lookup);
	return NULL;
}

static int redis_connection_begin_lookup(struct redis_request *request)
{
	struct redis_connection *connection = request->connection;
	struct lookup *lookup = xcalloc(1, sizeof(*lookup));

	redis_lookup_free(connection->lookup);
	connection->lookup = lookup;
	lookup->host = xstrdup(connection->address->host);
	memcpy(lookup->port, connection->address->port, sizeof(lookup->port));
	atomic_store(&lookup->users, 2);
	connection->state = LOOKING_UP;
	thread_start(&lookup->thread, "lease-lookup", redis_lookup_run, lookup);
	return 0;
}

static int redis_connection_end_lookup(struct redis_request *request)
{
	struct redis_connection *connection = request->connection;
	const struct lookup *lookup = connection->lookup;

	if (!atomic_load(&lookup->is_done))
		return 0;
	connection->state = CLOSED;
	if (lookup->code == 0)
		return redis_connection_dial_found(request, lookup->found);
	err_set(&request->err, ERR_NETWORK, "no address: %s", gai_strerror(lookup->code));
	err_remedy(&request->err, "check the host's name in lease.url");
	return redis_request_fail(request);
}

static int redis_connection_start(struct redis_request *request)
{
	struct redis_connection *connection = request->connection;
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;

	if (clock_boot_ms() < connection->rest_until) {
		request->err = connection->failure;
		request->progress = REDIS_FAILED;
		request->is_resting = true;
		return -1;
	}
	connection->born_at = INT64_MAX;
	if (connection->address->path) {
		snprintf(to.sun_path, sizeof(to.sun_path), "%s",
			 connection->address->path);
		return redis_connection_dial(request, AF_UNIX,
					     (const struct sockaddr *)&to, sizeof(to));
	}
	/* Numbers need no lookup. */
	hints.ai_flags = AI_NUMERICHOST;
	if (getaddrinfo(connection->address->host, connection->address->port, &hints,
			&found) != 0)
		return redis_connection_begin_lookup(request);
	int result = redis_connection_dial_found(request, found);
	freeaddrinfo(found);
	return result;
}

static int redis_connection_start_tls(struct redis_request *request)
{
	struct redis_connection *connection = request->connection;
	const char *ca_file = connection->access->ca_file;
	struct in6_addr ignored;

	gnutls_certificate_allocate_credentials(&connection->credentials);
	int read =
		ca_file ? gnutls_certificate_set_x509_trust_file(
				  connection->credentials, ca_file, GNUTLS_X509_FMT_PEM)
			: gnutls_certificate_set_x509_system_trust(
				  connection->credentials);
	if (read < 0 || (ca_file && read == 0)) {
		err_set(&request->err, ERR_CONFIG,
			"cannot read certificates of %.100s: %s",
			ca_file ? ca_file : "the system",
			read < 0 ? gnutls_strerror(read) : "it holds none");
		err_remedy(&request->err, "correct lease.caFile");
		return redis_request_fail(request);
	}
	const char *host = connection->address->host;
	gnutls_init(&connection->session,
		    GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
	gnutls_set_default_priority(connection->session);
	gnutls_credentials_set(connection->session, GNUTLS_CRD_CERTIFICATE,
			       connection->credentials);
	if (inet_pton(AF_INET, host, &ignored) != 1 &&
	    inet_pton(AF_INET6, host, &ignored) != 1)
		gnutls_server_name_set(connection->session, GNUTLS_NAME_DNS, host,
				       strlen(host));
	gnutls_session_set_verify_cert(connection->session, host, 0);
	gnutls_transport_set_int(connection->session, connection->fd);
	connection->state = SHAKING_HANDS;
	return 1;
}

/* ------------------------------------------------------------------ the greeting */

static void redis_connection_greet(struct redis_connection *connection, struct str *out,
				   enum greeting greeting, int count,
				   const char *const *words)
{
	size_t lengths[4];
	const char *arguments[4];
	char *text;

	assert(count <= 4);
	for (int i = 0; i < count; i++) {
		arguments[i] = words[i];
		lengths[i] = strlen(words[i]);
	}
	int len = redisFormatCommandArgv(&text, count, arguments, lengths);
	if (len < 0)
		abort();
	str_add_bytes(out, text, (size_t)len);
	redisFreeCommand(text);
	connection->greetings[connection->greeting_count++] = greeting;
}

static int redis_connection_read_password(const char *path, struct str *password,
					  struct err *err)
{
	if (file_read_any(AT_FDCWD, path, PASSWORD_MAX, password, err) != 0) {
		err->class = ERR_AUTH;
		return err_remedy(err, "correct lease.passwordFile, and who may read it");
	}
	str_truncate(password, strcspn(password->data, "\r\n"));
	return 0;
}

static int redis_connection_add_greeting(struct redis_request *request, struct str *out)
{
	struct redis_connection *connection = request->connection;
	const struct redis_access *access = connection->access;
	AUTO_STR struct str password = STR_INIT;
	char database[16];

	connection->greeting_count = connection->greeted = 0;
	if (access->password_file) {
		const char *words[] = { "AUTH", access->user, password.data };
		if (redis_connection_read_password(access->password_file, &password,
						   &request->err) != 0)
			return redis_request_fail(request);
		words[2] = password.data;
		const char *alone[] = { "AUTH", password.data };
		redis_connection_greet(connection, out, GREET_AUTH, access->user ? 3 : 2,
				       access->user ? words : alone);
		explicit_bzero(password.data, password.len);
	}
	if (connection->address->database != 0) {
		snprintf(database, sizeof(database), "%d", connection->address->database);
		redis_connection_greet(connection, out, GREET_SELECT, 2,
				       (const char *[]){ "SELECT", database });
	}
	redis_connection_greet(connection, out, GREET_NAME, 3,
			       (const char *[]){ "CLIENT", "SETNAME", "refrelay" });
	if (access->is_one_of_several || access->judge)
		redis_connection_greet(connection, out, GREET_INFO, 1,
				       (const char *[]){ "INFO" });
	return 1;
}

/* A second off: it tells whole ones. */
static void redis_connection_learn_age(struct redis_connection *connection,
				       const struct redisReply *reply)
{
	const char *at = reply->type == REDIS_REPLY_STRING
				 ? strstr(reply->str, "uptime_in_seconds:")
				 : NULL;

	if (at)
		connection->born_at =
			clock_boot_ms() -
			strtoll(at + strlen("uptime_in_seconds:"), NULL, 10) * 1000;
}

/* 0: the server can be used. */
static int redis_connection_take_info(struct redis_request *request,
				      const struct redisReply *reply)
{
	struct redis_connection *connection = request->connection;
	const struct redis_access *access = connection->access;

	redis_connection_learn_age(connection, reply);
	return access->judge ? access->judge(access->judge_arg, connection->address,
					     reply, &request->err)
			     : 0;
}

/* 0: it is as it should be. A server may forbid CLIENT and INFO; then it has no name, and
 * no known age. */
static int redis_connection_judge_greeting(struct redis_request *request,
					   enum greeting greeting,
					   const struct redisReply *reply)
{
	struct redis_connection *connection = request->connection;

	if (greeting == GREET_INFO)
		return redis_connection_take_info(request, reply);
	if (greeting == GREET_NAME ||
	    redis_reply_check(reply, connection->address->text, &request->err) == 0)
		return 0;
	if (greeting == GREET_AUTH && request->err.class == ERR_CONFIG) {
		request->err.class = ERR_AUTH;
		err_remedy(&request->err,
			   "correct lease.userFile and lease.passwordFile");
	}
	return -1;
}

static int redis_connection_take_greeting(struct redis_request *request,
					  const struct redisReply *reply)
{
	struct redis_connection *connection = request->connection;
	enum greeting greeting = connection->greetings[connection->greeted++];

	if (redis_connection_judge_greeting(request, greeting, reply) == 0)
		return 1;
	struct err refusal = request->err;
	redis_request_fail(request);
	request->err = connection->failure = refusal;
	return -1;
}

/* They may hold the password. */
static void redis_request_forget_commands(struct redis_request *request)
{
	explicit_bzero(request->commands.data, request->commands.len);
	str_clear(&request->commands);
}

static int redis_connection_open(struct redis_request *request)
{
	struct redis_connection *connection = request->connection;
	AUTO_STR struct str all = STR_INIT;

	connection->reader = redisReaderCreate();
	if (!connection->reader)
		abort();
	if (redis_connection_add_greeting(request, &all) != 1)
		return -1;
	connection->greeting_len = all.len;
	str_add_bytes(&all, request->commands.data, request->commands.len);
	redis_request_forget_commands(request);
	request->commands = all;
	all = (struct str)STR_INIT;
	request->sent = 0;
	connection->state = OPEN;
	return 1;
}

static int redis_connection_finish_connect(struct redis_request *request)
{
	struct redis_connection *connection = request->connection;
	struct pollfd watched = { .fd = connection->fd, .events = POLLOUT };
	socklen_t size = sizeof(errno);

	if (poll(&watched, 1, 0) == 0)
		return 0;
	if (getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &errno, &size) != 0 ||
	    errno != 0)
		return redis_request_fail_errno(request, "connect");
	return connection->address->has_tls ? redis_connection_start_tls(request)
					    : redis_connection_open(request);
}

static int redis_connection_shake_hands(struct redis_request *request)
{
	int code = gnutls_handshake(request->connection->session);

	if (code == GNUTLS_E_SUCCESS)
		return redis_connection_open(request);
	if (!gnutls_error_is_fatal(code))
		return 0;
	return redis_request_fail_tls(request, code);
}

/* ------------------------------------------------------------------ bytes */

/* As send(); EAGAIN for what TLS says otherwise, EPIPE for what it fails with. */
static ssize_t redis_connection_send(struct redis_connection *connection,
				     const char *data, size_t len)
{
	if (!connection->session)
		return send(connection->fd, data, len, MSG_NOSIGNAL);
	ssize_t sent = gnutls_record_send(connection->session, data, len);
	if (sent < 0)
		errno = gnutls_error_is_fatal((int)sent) ? EPIPE : EAGAIN;
	return sent < 0 ? -1 : sent;
}

static ssize_t redis_connection_receive(struct redis_connection *connection, char *data,
					size_t size)
{
	if (!connection->session)
		return recv(connection->fd, data, size, 0);
	ssize_t got = gnutls_record_recv(connection->session, data, size);
	if (got < 0)
		errno = gnutls_error_is_fatal((int)got) ? ECONNRESET : EAGAIN;
	return got < 0 ? -1 : got;
}

static bool redis_connection_is_greeting(const struct redis_connection *connection)
{
	return connection->greeted < connection->greeting_count;
}

/* How much may be sent by now: commands follow an answered greeting, so that a server
 * which is not to be used gets none. */
static size_t redis_request_sendable(const struct redis_request *request)
{
	const struct redis_connection *connection = request->connection;

	return redis_connection_is_greeting(connection) ? connection->greeting_len
							: request->commands.len;
}

static int redis_request_send(struct redis_request *request)
{
	const struct str *commands = &request->commands;
	size_t most = redis_request_sendable(request);

	while (request->sent < most) {
		ssize_t sent = redis_connection_send(request->connection,
						     commands->data + request->sent,
						     most - request->sent);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return errno == EAGAIN ? 0 : redis_request_lose(request);
		request->sent += (size_t)sent;
		request->was_sent |= !redis_connection_is_greeting(request->connection);
	}
	return 0;
}

static int redis_request_garbled(struct redis_request *request, const char *why)
{
	err_set(&request->err, ERR_NETWORK, "no answer of Redis: %.200s", why);
	err_remedy(&request->err, "check that lease.url names a Redis server");
	return redis_request_fail(request);
}

/* Takes whole replies. 1: more are wanted. */
static int redis_request_parse(struct redis_request *request)
{
	struct redis_connection *connection = request->connection;
	void *reply = NULL;

	while (request->replies.count < request->wanted) {
		if (redisReaderGetReply(connection->reader, &reply) != REDIS_OK)
			return redis_request_garbled(request, connection->reader->errstr);
		if (!reply)
			return 1;
		if (!redis_connection_is_greeting(connection)) {
			vec_add(&request->replies, reply);
			continue;
		}
		int result = redis_connection_take_greeting(request, reply);
		freeReplyObject(reply);
		if (result < 0)
			return -1;
	}
	connection->rest_ms = 0;
	request->progress = REDIS_ANSWERED;
	return 0;
}

static int redis_request_receive(struct redis_request *request)
{
	struct redis_connection *connection = request->connection;
	char bytes[16384];

	while (request->progress == REDIS_UNDER_WAY) {
		ssize_t got = redis_connection_receive(connection, bytes, sizeof(bytes));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return 0;
		if (got <= 0)
			return redis_request_lose(request);
		connection->taken += (size_t)got;
		if (connection->taken > ANSWER_MAX)
			return redis_request_garbled(request, "it is too long");
		redisReaderFeed(connection->reader, bytes, (size_t)got);
		if (redis_request_parse(request) < 0)
			return -1;
	}
	return 0;
}

/* ------------------------------------------------------------------ requests */

void redis_request_init(struct redis_request *request,
			struct redis_connection *connection)
{
	*request =
		(struct redis_request){ .connection = connection, .commands = STR_INIT };
}

void redis_request_clear(struct redis_request *request)
{
	redis_request_forget_commands(request);
	for (size_t i = 0; i < request->replies.count; i++)
		freeReplyObject(request->replies.items[i]);
	vec_clear(&request->replies);
}

void redis_request_add(struct redis_request *request, int count, const char *const *words)
{
	VEC(const char *) arguments = { 0 };
	VEC(size_t) lengths = { 0 };
	char *text;

	for (int i = 0; i < count; i++) {
		vec_add(&arguments, words[i]);
		vec_add(&lengths, strlen(words[i]));
	}
	int len = redisFormatCommandArgv(&text, count, arguments.items, lengths.items);
	if (len < 0)
		abort();
	str_add_bytes(&request->commands, text, (size_t)len);
	redisFreeCommand(text);
	vec_clear(&arguments);
	vec_clear(&lengths);
	request->wanted++;
}

/* Whether a kept connection was closed, or said something without being asked. */
static bool redis_connection_is_stale(const struct redis_connection *connection)
{
	char byte;

	return connection->state == OPEN &&
	       (recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
		errno != EAGAIN);
}

void redis_request_begin(struct redis_request *request, int64_t until)
{
	struct redis_connection *connection = request->connection;

	if (redis_connection_is_stale(connection))
		redis_connection_cut(connection);
	request->is_reused = connection->state == OPEN;
	request->progress = REDIS_UNDER_WAY;
	request->until = until;
	request->sent = 0;
	connection->taken = 0;
	redis_request_step(request);
}

int64_t redis_request_watch(const struct redis_request *request, struct pollfd *watched)
{
	const struct redis_connection *connection = request->connection;
	bool is_writing = connection->state == CONNECTING ||
			  (connection->state == OPEN &&
			   request->sent < redis_request_sendable(request));

	*watched = (struct pollfd){ .fd = -1 };
	if (request->progress != REDIS_UNDER_WAY)
		return INT64_MAX;
	if (connection->state == LOOKING_UP)
		return clock_boot_ms() + LOOKUP_POLL_MS;
	if (connection->state == SHAKING_HANDS)
		is_writing = gnutls_record_get_direction(connection->session) == 1;
	watched->fd = connection->fd;
	watched->events = is_writing ? POLLIN | POLLOUT : POLLIN;
	if (connection->state == CONNECTING)
		watched->events = POLLOUT;
	if (connection->state == SHAKING_HANDS)
		watched->events = is_writing ? POLLOUT : POLLIN;
	return request->until;
}

static int redis_request_step_open(struct redis_request *request)
{
	bool was_greeting = redis_connection_is_greeting(request->connection);
	int result = redis_request_send(request);

	if (result == 0)
		result = redis_request_receive(request);
	if (result != 0)
		return result;
	return was_greeting && !redis_connection_is_greeting(request->connection);
}

static int redis_request_step_once(struct redis_request *request)
{
	switch (request->connection->state) {
	case CLOSED:
		return redis_connection_start(request);
	case LOOKING_UP:
		return redis_connection_end_lookup(request);
	case CONNECTING:
		return redis_connection_finish_connect(request);
	case SHAKING_HANDS:
		return redis_connection_shake_hands(request);
	case OPEN:
	default:
		return redis_request_step_open(request);
	}
}

void redis_request_step(struct redis_request *request)
{
	while (request->progress == REDIS_UNDER_WAY &&
	       redis_request_step_once(request) == 1)
		;
	if (request->progress != REDIS_UNDER_WAY || clock_boot_ms() < request->until)
		return;
	err_set(&request->err, ERR_TIMEOUT, "no answer in time");
	err_remedy(&request->err, "check that the server runs and is not overloaded");
	redis_request_fail(request);
}

static size_t redis_exchange_answered(const struct redis_request *requests, size_t count,
				      size_t *under_way)
{
	size_t answered = 0;

	*under_way = 0;
	for (size_t i = 0; i < count; i++) {
		answered += requests[i].progress == REDIS_ANSWERED;
		*under_way += requests[i].progress == REDIS_UNDER_WAY;
	}
	return answered;
}

static void redis_exchange_wait(struct redis_request *requests, size_t count)
{
	struct pollfd watched[16];
	int64_t wake_at = INT64_MAX;

	assert(count <= ARRAY_SIZE(watched));
	for (size_t i = 0; i < count; i++) {
		int64_t at = redis_request_watch(&requests[i], &watched[i]);
		if (at < wake_at)
			wake_at = at;
	}
	int64_t left = wake_at - clock_boot_ms();
	poll(watched, (nfds_t)count, left > 0 ? (int)left : 0);
	for (size_t i = 0; i < count; i++) {
		if (requests[i].progress == REDIS_UNDER_WAY)
			redis_request_step(&requests[i]);
	}
}

void redis_exchange(struct redis_request *requests, size_t count, size_t enough,
		    int64_t until, int64_t grace_ms)
{
	bool has_enough = false;
	size_t under_way;

	for (size_t i = 0; i < count; i++) {
		if (requests[i].progress == REDIS_NEW)
			redis_request_begin(&requests[i], until);
	}
	for (;;) {
		size_t answered = redis_exchange_answered(requests, count, &under_way);
		if (under_way == 0)
			return;
		int64_t limit = clock_boot_ms() + grace_ms;
		for (size_t i = 0; answered >= enough && !has_enough && i < count; i++) {
			if (requests[i].until > limit)
				requests[i].until = limit;
		}
		has_enough = answered >= enough;
		redis_exchange_wait(requests, count);
	}
}
