/*
 * How the addresses of Redis servers are written.
 */
#include <strings.h>
#include <sys/un.h>

#include "lease/redis_client.h"

static int redis_address_refuse(const char *url, const char *why, struct err *err)
{
	err_set(err, ERR_CONFIG, "lease.url: %.200s: %s", url, why);
	return err_remedy(err, "write redis://HOST:PORT/DATABASE, rediss:// with TLS, or "
			       "unix:///PATH; name and password are for lease.userFile "
			       "and lease.passwordFile");
}

static bool redis_address_read_number(const char *text, uint64_t most, uint64_t *number)
{
	return text_to_uint64(text, number) && *number <= most;
}

static const char *redis_address_read_database(const char *text, int *database)
{
	uint64_t number;

	if (!redis_address_read_number(text, 1000000, &number))
		return "its database is no number";
	*database = (int)number;
	return NULL;
}

/* HOST, HOST:PORT or [HOST]:PORT, which is cut up. */
static const char *redis_address_read_host(char *text, struct redis_address *address)
{
	char *end = text[0] == '[' ? strchr(text, ']') : strrchr(text, ':');
	uint64_t number = 6379;

	if (text[0] == '[') {
		if (!end)
			return "its host lacks a ]";
		*end++ = '\0';
		text++;
	}
	if (end && *end == ':') {
		*end++ = '\0';
		if (!redis_address_read_number(end, 65535, &number) || number == 0)
			return "its port is no number from 1 to 65535";
	} else if (end && *end) {
		return "something follows its host";
	}
	if (!*text || strchr(text, ' '))
		return "it names no host";
	address->host = xstrdup(text);
	snprintf(address->port, sizeof(address->port), "%d", (int)number);
	return NULL;
}

static const char *redis_address_read_tcp(const char *rest, struct redis_address *address)
{
	AUTO_FREE char *text = xstrdup(rest);
	char *slash = strchr(text, '/');

	if (strchr(text, '@'))
		return "it has a user's name or a password";
	if (strpbrk(text, "?#"))
		return "it has a query or a fragment";
	if (slash)
		*slash++ = '\0';
	const char *why = redis_address_read_host(text, address);
	if (why || !slash || !*slash)
		return why;
	return redis_address_read_database(slash, &address->database);
}

static const char *redis_address_read_unix(const char *rest,
					   struct redis_address *address)
{
	struct sockaddr_un room;
	const char *query = strchr(rest, '?');
	size_t len = query ? (size_t)(query - rest) : strlen(rest);

	if (rest[0] != '/' || len < 2)
		return "it names no absolute path";
	if (len >= sizeof(room.sun_path))
		return "its path is too long for a socket";
	address->path = xstrndup(rest, len);
	if (!query)
		return NULL;
	if (!text_starts_with(query, "?db="))
		return "what follows ? is not db=NUMBER";
	return redis_address_read_database(query + 4, &address->database);
}

int redis_address_parse(const char *url, struct redis_address *address, struct err *err)
{
	const char *why = "it begins with neither redis://, rediss:// nor unix://";

	*address = (struct redis_address){ .text = xstrdup(url) };
	if (text_starts_with(url, "unix://")) {
		why = redis_address_read_unix(url + 7, address);
	} else if (text_starts_with(url, "redis://")) {
		why = redis_address_read_tcp(url + 8, address);
	} else if (text_starts_with(url, "rediss://")) {
		address->has_tls = true;
		why = redis_address_read_tcp(url + 9, address);
	}
	if (!why)
		return 0;
	redis_address_clear(address);
	/* What may be a password is not shown. */
	return redis_address_refuse(strchr(url, '@') ? "(hidden)" : url, why, err);
}

void redis_address_clear(struct redis_address *address)
{
	free(address->text);
	free(address->host);
	free(address->path);
	*address = (struct redis_address){ 0 };
}
