#include "web/connections.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "web/listen.h"

enum { LOG_INTERVAL_MS = 1000 };

struct connection_count {
	char client[ADDRESS_TEXT_SIZE];
	struct connection_count *block; /* that it belongs to; or NULL */
	uint64_t count;
};

/* Who has many networks of IPv6 has so many connections as that many clients. */
enum { CLIENTS_OF_BLOCK = 2 };

struct client_name {
	struct ip_address ip;
	char network[ADDRESS_TEXT_SIZE], block[ADDRESS_TEXT_SIZE];
};

struct connections {
	pthread_mutex_t mutex;
	uint64_t per_client; /* guarded by mutex, as all below; 0: no limit */
	struct trusted_proxies proxies;
	struct map counts; /* by client; of those that have at least one */
	int64_t logged_at;
	uint64_t unlogged; /* refused since then */
	struct metric_series *refused;
};

struct connections *connections_new(void)
{
	struct connections *connections = xcalloc(1, sizeof(*connections));

	mutex_init(&connections->mutex);
	connections->logged_at = INT64_MIN / 2;
	connections->refused =
		metric_at(metric_counter("refrelay_http_connections_refused_total",
					 "Connections closed at once, as their client "
					 "has too many."));
	return connections;
}

void connections_free(struct connections *connections)
{
	if (!connections)
		return;
	map_clear(&connections->counts); /* all have left */
	trusted_proxies_clear(&connections->proxies);
	pthread_mutex_destroy(&connections->mutex);
	free(connections);
}

void connections_set(struct connections *connections, uint64_t per_client,
		     const struct trusted_proxies *proxies)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&connections->mutex);

	connections->per_client = per_client;
	trusted_proxies_clear(&connections->proxies);
	for (size_t i = 0; i < proxies->networks.count; i++)
		vec_add(&connections->proxies.networks, proxies->networks.items[i]);
}

static void name_client(const struct sockaddr *address, struct client_name *client)
{
	char text[ADDRESS_TEXT_SIZE];

	address_ip(address, &client->ip);
	address_format_ip(&client->ip, text);
	address_network(text, client->network);
	address_block(text, client->block);
}

/* Returns how many were not logged, or -1 if this one is not to be either. */
static int64_t note_refused_locked(struct connections *connections)
{
	int64_t now = clock_boot_ms(), unlogged = (int64_t)connections->unlogged;

	if (now - connections->logged_at < LOG_INTERVAL_MS) {
		connections->unlogged++;
		return -1;
	}
	connections->logged_at = now;
	connections->unlogged = 0;
	return unlogged;
}

static bool has_fewer_locked(const struct connections *connections, const char *name,
			     uint64_t limit)
{
	const struct connection_count *count = map_get(&connections->counts, name);

	return !count || count->count < limit;
}

static bool may_come_locked(const struct connections *connections,
			    const struct client_name *client)
{
	uint64_t limit = connections->per_client;

	return limit == 0 ||
	       (has_fewer_locked(connections, client->network, limit) &&
		has_fewer_locked(connections, client->block, CLIENTS_OF_BLOCK * limit)) ||
	       trusted_proxies_has(&connections->proxies, &client->ip);
}

/* All who come through a web server on this machine are one client until it is named. */
static const char *connections_choose_remedy(const struct sockaddr *address)
{
	return address_is_loopback(address)
		       ? "name the web server on this machine in http.trustedProxy, if "
			 "it is one"
		       : "raise http.connectionsPerClient, or name it in "
			 "http.trustedProxy if it is a web server in front";
}

bool connections_admit(struct connections *connections, const struct sockaddr *address)
{
	struct client_name client;
	int64_t unlogged = -1;

	name_client(address, &client);
	lock(&connections->mutex);
	uint64_t limit = connections->per_client;
	bool may_come = may_come_locked(connections, &client);
	if (!may_come)
		unlogged = note_refused_locked(connections);
	unlock(&connections->mutex);
	if (may_come)
		return true;
	metric_add(connections->refused, 1);
	if (unlogged >= 0)
		log_warn("http.too_many_connections", LOG_TEXT("client", client.network),
			 LOG_NUMBER("limit", limit), LOG_NUMBER("unlogged", unlogged),
			 LOG_TEXT("remedy", connections_choose_remedy(address)));
	return false;
}

static struct connection_count *add_locked(struct connections *connections,
					   const char *name)
{
	struct connection_count *count = map_get(&connections->counts, name);

	if (!count) {
		count = xcalloc(1, sizeof(*count));
		snprintf(count->client, sizeof(count->client), "%s", name);
		map_put(&connections->counts, name, count);
	}
	count->count++;
	return count;
}

static void remove_locked(struct connections *connections, struct connection_count *count)
{
	if (--count->count > 0)
		return;
	map_remove(&connections->counts, count->client);
	free(count);
}

struct connection_count *connections_enter(struct connections *connections,
					   const struct sockaddr *address)
{
	struct connection_count *count;
	struct client_name client;

	name_client(address, &client);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&connections->mutex);
	count = add_locked(connections, client.network);
	count->block = *client.block ? add_locked(connections, client.block) : NULL;
	return count;
}

void connections_leave(struct connections *connections, struct connection_count *count)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&connections->mutex);

	if (count->block)
		remove_locked(connections, count->block);
	remove_locked(connections, count);
}

bool connections_is_proxy(struct connections *connections,
			  const struct ip_address *address)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&connections->mutex);

	return trusted_proxies_has(&connections->proxies, address);
}

bool connections_client(struct connections *connections, const char *forwarded,
			struct ip_address *client)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&connections->mutex);

	return trusted_proxies_client(&connections->proxies, forwarded, client);
}
