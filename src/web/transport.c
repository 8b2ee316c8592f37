#include "web/transport.h"

#include "base/clock.h"
#include "web/listen.h"

#define AT(kind, member) SETTING_AT(kind, struct transport, member)

static int read_listen(const struct setting *row, const struct conf_entry *entry,
		       void *target, struct err *err)
{
	char **listen = setting_field(row, target);
	const char *text = NULL;

	if (conf_read_text(entry, &text, err) != 0)
		return -1;
	if (listen_check(text, err) != 0)
		return conf_prefix(entry, err);
	free(*listen);
	*listen = xstrdup(text);
	return 0;
}

static int read_proxy(const struct setting *row, const struct conf_entry *entry,
		      void *target, struct err *err)
{
	const char *text = NULL;

	if (conf_read_text(entry, &text, err) != 0)
		return -1;
	if (trusted_proxies_add(setting_field(row, target), text, err) != 0)
		return conf_prefix(entry, err);
	return 0;
}

static const struct setting rows[] = {
	{ "listen", AT(TEXT, listen), "127.0.0.1:8418", .read = read_listen,
	  .at_start = true },
	{ "url", AT(TEXT, url) },
	{ "tlsCertificate", AT(TEXT, certificate) },
	{ "tlsKey", AT(TEXT, key) },
	{ "trustedProxy", .type = SETTING_OWN, .read = read_proxy, .is_repeated = true,
	  .offset = offsetof(struct transport, proxies) },
	{ "connections", AT(NUMBER, connections), .min = 1, .max = 1 << 20,
	  .at_start = true },
	{ "connectionsPerClient", AT(NUMBER, per_client), "64", .max = 1 << 20 },
	{ 0 },
};

const struct setting_table transport_settings_table = { .section = "http", .rows = rows };

static int read_identity(const struct conf *conf, struct transport *transport,
			 struct err *err)
{
	const struct conf_entry *certificate =
		conf_get(conf, "http", NULL, "tlsCertificate");
	const struct conf_entry *key = conf_get(conf, "http", NULL, "tlsKey");

	if (!certificate && !key)
		return 0;
	if (!certificate || !key) {
		conf_error(certificate ? certificate : key, err, "%s is not set",
			   certificate ? "http.tlsKey" : "http.tlsCertificate");
		return err_remedy(err, "set both for TLS, or none of them");
	}
	if (tls_identity_read(transport->certificate, transport->key,
			      &transport->identity, err) != 0)
		return conf_prefix(certificate, err);
	return 0;
}

int transport_read(const struct conf *conf, struct transport *transport, struct err *err)
{
	*transport = (struct transport){ 0 };
	if (settings_read(&transport_settings_table, conf, NULL, transport, err) == 0 &&
	    read_identity(conf, transport, err) == 0)
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
	settings_clear(&transport_settings_table, transport);
	trusted_proxies_clear(&transport->proxies);
	tls_identity_unref(transport->identity);
	*transport = (struct transport){ 0 };
}
