#include "web/transport.h"

#include "base/clock.h"

enum { PER_CLIENT = 64, CONNECTIONS_MAX = 1 << 20 };

/* *err without the file and line, which conf_error puts before it. */
static int entry_failed(const struct conf_entry *entry, struct err *err)
{
	struct err cause = *err;

	conf_error(entry, err, "%s", cause.text);
	return err_remedy(err, "%s", cause.remedy);
}

static int read_proxies(const struct conf *conf, struct trusted_proxies *proxies,
			struct err *err)
{
	const struct conf_list *all = conf_get_all(conf, "http", NULL, "trustedProxy");

	for (size_t i = 0; i < all->count; i++) {
		const char *text = "";
		if (conf_read_text(all->items[i], &text, err) != 0)
			return -1;
		if (trusted_proxies_add(proxies, text, err) != 0)
			return entry_failed(all->items[i], err);
	}
	return 0;
}

static int read_identity(const struct conf *conf, struct tls_identity **identity,
			 struct err *err)
{
	const struct conf_entry *certificate =
		conf_get(conf, "http", NULL, "tlsCertificate");
	const struct conf_entry *key = conf_get(conf, "http", NULL, "tlsKey");
	const char *certificate_path = NULL, *key_path = NULL;

	if (conf_read_text(certificate, &certificate_path, err) != 0 ||
	    conf_read_text(key, &key_path, err) != 0)
		return -1;
	if (!certificate && !key)
		return 0;
	if (!certificate || !key) {
		conf_error(certificate ? certificate : key, err, "%s is not set",
			   certificate ? "http.tlsKey" : "http.tlsCertificate");
		return err_remedy(err, "set both for TLS, or none of them");
	}
	if (tls_identity_read(certificate_path, key_path, identity, err) != 0)
		return entry_failed(certificate, err);
	return 0;
}

int transport_read(const struct conf *conf, struct transport *transport, struct err *err)
{
	*transport = (struct transport){ .per_client = PER_CLIENT };
	if (conf_read_uint(conf_get(conf, "http", NULL, "connections"), 1,
			   CONNECTIONS_MAX, &transport->connections, err) == 0 &&
	    conf_read_uint(conf_get(conf, "http", NULL, "connectionsPerClient"), 0,
			   CONNECTIONS_MAX, &transport->per_client, err) == 0 &&
	    read_proxies(conf, &transport->proxies, err) == 0 &&
	    read_identity(conf, &transport->identity, err) == 0)
		return 0;
	transport_clear(transport);
	return -1;
}

int transport_check_expiry(const struct transport *transport, struct err *err)
{
	char text[CLOCK_TEXT_SIZE];
	int64_t expires = transport->identity
				  ? tls_identity_expires(transport->identity) * 1000
				  : INT64_MAX;

	if (clock_wall_ms() < expires)
		return 0;
	clock_format(expires, text);
	err_set(err, ERR_CONFIG, "http.tlsCertificate: the certificate expired at %s",
		text);
	return err_remedy(err, "renew it; until then the one that was read before is "
			       "shown");
}

void transport_clear(struct transport *transport)
{
	trusted_proxies_clear(&transport->proxies);
	tls_identity_unref(transport->identity);
	*transport = (struct transport){ 0 };
}
