/* A host is kept from its first question on: there are as many as the lists name. */
#include "mirror/silent_hosts.h"

#include "base/map.h"
#include "base/thread.h"

struct silent_host {
	size_t asking;
	bool is_silent;
};

struct silent_hosts {
	pthread_mutex_t mutex; /* the last; guards all */
	struct map map;        /* of struct silent_host, owned, by name */
};

struct silent_hosts *silent_hosts_new(void)
{
	struct silent_hosts *hosts = xcalloc(1, sizeof(*hosts));

	mutex_init(&hosts->mutex);
	return hosts;
}

void silent_hosts_free(struct silent_hosts *hosts)
{
	map_clear_owned(&hosts->map);
	pthread_mutex_destroy(&hosts->mutex);
	free(hosts);
}

static struct silent_host *silent_hosts_find_locked(struct silent_hosts *hosts,
						    const char *name)
{
	struct silent_host *host = map_get(&hosts->map, name);

	if (!host) {
		host = xcalloc(1, sizeof(*host));
		map_put(&hosts->map, name, host);
	}
	return host;
}

bool silent_hosts_enter(struct silent_hosts *hosts, const struct mirror *mirror)
{
	if (!mirror->uri.host)
		return true;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&hosts->mutex);
	struct silent_host *host = silent_hosts_find_locked(hosts, mirror->uri.host);
	if (host->is_silent && host->asking >= SILENT_HOST_ASKERS)
		return false;
	host->asking++;
	return true;
}

/* One that limits how often it is asked has answered. */
void silent_hosts_leave(struct silent_hosts *hosts, const struct mirror *mirror,
			int result, const struct err *err)
{
	if (!mirror->uri.host)
		return;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&hosts->mutex);
	struct silent_host *host = silent_hosts_find_locked(hosts, mirror->uri.host);
	host->asking--;
	if (result == 0)
		host->is_silent = false;
	else if (err && err->class != ERR_CANCELED)
		host->is_silent =
			(err->class == ERR_NETWORK || err->class == ERR_TIMEOUT) &&
			err->reason != REASON_RATE_LIMITED;
}
