#include "lease/postgresql_url.h"

#include "lease/postgresql_library.h"

/* Of those that are used without one in a list. */
#define DEFAULT_PORT "5432"

static const char *postgresql_option(const PQconninfoOption *all, const char *keyword)
{
	for (; all->keyword; all++)
		if (strcmp(all->keyword, keyword) == 0)
			return all->val && all->val[0] ? all->val : NULL;
	return NULL;
}

static size_t postgresql_count_parts(const char *list)
{
	size_t count = 1;

	if (!list)
		return 0;
	for (; *list; list++)
		count += *list == ',';
	return count;
}

/* Owned; NULL: there is no list, or nothing at that place. */
static char *postgresql_part(const char *list, size_t place)
{
	for (; list && place > 0; place--) {
		list = strchr(list, ',');
		list += list ? 1 : 0;
	}
	size_t len = list ? strcspn(list, ",") : 0;
	return len > 0 ? xstrndup(list, len) : NULL;
}

static int postgresql_url_wrong(const char *why, struct err *err)
{
	err_set(err, ERR_CONFIG, "lease.url: %.300s", why);
	return err_remedy(err, "write postgresql://HOST:PORT/DATABASE");
}

/* With several, each part is there: libpq would take an empty one for the whole list. */
static int postgresql_split(const PQconninfoOption *all, postgresql_hosts *hosts,
			    struct err *err)
{
	const char *names = postgresql_option(all, "host");
	const char *addresses = postgresql_option(all, "hostaddr");
	const char *ports = postgresql_option(all, "port");
	size_t count = postgresql_count_parts(addresses ? addresses : names);
	size_t port_count = postgresql_count_parts(ports);

	if ((addresses && names && postgresql_count_parts(names) != count) ||
	    (port_count > 1 && port_count != count))
		return postgresql_url_wrong("it has not as many hosts as ports or "
					    "addresses",
					    err);
	if (count <= 1)
		vec_add(hosts, (struct postgresql_host){ 0 });
	for (size_t i = 0; count > 1 && i < count; i++) {
		struct postgresql_host host = {
			postgresql_part(names, i), postgresql_part(addresses, i),
			postgresql_part(ports, port_count > 1 ? i : 0)
		};
		if (!host.port)
			host.port = xstrdup(DEFAULT_PORT);
		vec_add(hosts, host);
		if ((names && !host.name) || (addresses && !host.address))
			return postgresql_url_wrong("one of its hosts is empty", err);
	}
	return 0;
}

int postgresql_url_read(const char *url, postgresql_hosts *hosts, struct err *err)
{
	char *message = NULL;
	PQconninfoOption *all;
	int result;

	if (postgresql_library_load(err) != 0)
		return -1;
	all = pq.conninfoParse(url, &message);
	if (!all) {
		postgresql_url_wrong(message ? message : "it makes no sense", err);
		pq.freemem(message);
		return -1;
	}
	if (postgresql_option(all, "password")) {
		err_set(err, ERR_CONFIG, "lease.url has a password in it");
		result = err_remedy(err, "put it into the file lease.passwordFile");
	} else {
		result = postgresql_split(all, hosts, err);
	}
	pq.conninfoFree(all);
	return result;
}

static void postgresql_host_clear(struct postgresql_host *host)
{
	free(host->name);
	free(host->address);
	free(host->port);
}

void postgresql_hosts_clear(postgresql_hosts *hosts)
{
	vec_clear_each(hosts, postgresql_host_clear);
}
