#include "web/tls.h"

#include <strings.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "web/listen.h"
#include "web/transport.h"

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

static int read_public_url(const struct setting *row, const struct conf_entry *entry,
			   void *target, struct err *err)
{
	char **url = setting_field(row, target);
	const char *text = NULL, *host;

	if (conf_read_text(entry, &text, err) != 0)
		return -1;
	host = strstr(text, "://");
	if (text[0] && ((strncasecmp(text, "http://", 7) != 0 &&
			 strncasecmp(text, "https://", 8) != 0) ||
			strchr("/?#", host[3]))) {
		conf_error(entry, err, "\"%.60s\" is not the URL of a web server", text);
		return err_remedy(err, "write it as https://HOST/");
	}
	free(*url);
	*url = xstrdup(text);
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
	{ "url", AT(TEXT, url), .read = read_public_url },
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
		return err_remedy(err, "set both for TLS, or neither");
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

enum { FILE_MAX = 1 << 20, CHAIN_MAX = 16, KEY_ID_SIZE = 64 };

struct tls_identity {
	atomic_uint references;
	gnutls_pcert_st chain[CHAIN_MAX];
	unsigned count;
	gnutls_privkey_t key;
	int64_t expires;
};

struct tls_identity *tls_identity_ref(struct tls_identity *identity)
{
	atomic_fetch_add(&identity->references, 1);
	return identity;
}

void tls_identity_unref(struct tls_identity *identity)
{
	if (!identity || atomic_fetch_sub(&identity->references, 1) != 1)
		return;
	for (unsigned i = 0; i < identity->count; i++)
		gnutls_pcert_deinit(&identity->chain[i]);
	if (identity->key)
		gnutls_privkey_deinit(identity->key);
	free(identity);
}

int64_t tls_identity_expires(const struct tls_identity *identity)
{
	return identity->expires;
}

static int tls_fail(struct err *err, const char *what, const char *path, int code)
{
	err_set(err, ERR_CONFIG, "%s in %s: %s", what, path, gnutls_strerror(code));
	return err_remedy(err, "it must be PEM: the server's own certificate, then those "
			       "that vouch for it in turn; the key not encrypted");
}

static int tls_check_mode(const char *path, struct err *err)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return err_errno(err, "%s", path);
	if (!S_ISREG(st.st_mode) || !(st.st_mode & (S_IROTH | S_IWOTH)))
		return 0;
	err_set(err, ERR_CONFIG, "everybody can read or change the key in %s", path);
	return err_remedy(err, "chmod o= %s, and get a new certificate for a new key",
			  path);
}

/* The first of the file is the server's own. */
static int read_chain(struct tls_identity *identity, const char *path,
		      unsigned char id[KEY_ID_SIZE], size_t *id_len, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	gnutls_x509_crt_t certificates[CHAIN_MAX];
	unsigned count = CHAIN_MAX;

	if (file_read_any(AT_FDCWD, path, FILE_MAX, &text, err) != 0)
		return -1;
	gnutls_datum_t datum = { (unsigned char *)text.data, (unsigned)text.len };
	int code = gnutls_x509_crt_list_import(
		certificates, &count, &datum, GNUTLS_X509_FMT_PEM,
		GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED |
			GNUTLS_X509_CRT_LIST_FAIL_IF_UNSORTED);
	if (code < 0)
		return tls_fail(err, "the certificate", path, code);
	identity->expires = gnutls_x509_crt_get_expiration_time(certificates[0]);
	code = gnutls_x509_crt_get_key_id(certificates[0], GNUTLS_KEYID_USE_SHA256, id,
					  id_len);
	unsigned imported = count;
	if (code == 0)
		code = gnutls_pcert_import_x509_list(identity->chain, certificates,
						     &imported, 0);
	if (code == 0)
		identity->count = imported;
	for (unsigned i = 0; i < count; i++)
		gnutls_x509_crt_deinit(certificates[i]);
	return code == 0 ? 0 : tls_fail(err, "the certificate", path, code);
}

static int import_key(gnutls_x509_privkey_t key, const char *path, const struct str *text,
		      struct tls_identity *identity, struct err *err)
{
	gnutls_datum_t datum = { (unsigned char *)text->data, (unsigned)text->len };
	int code = gnutls_x509_privkey_import2(key, &datum, GNUTLS_X509_FMT_PEM, NULL, 0);

	if (code == 0)
		code = gnutls_privkey_init(&identity->key);
	if (code == 0)
		code = gnutls_privkey_import_x509(identity->key, key,
						  GNUTLS_PRIVKEY_IMPORT_COPY);
	return code == 0 ? 0 : tls_fail(err, "the key", path, code);
}

static int tls_read_key(struct tls_identity *identity, const char *path,
			unsigned char id[KEY_ID_SIZE], size_t *id_len, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	gnutls_x509_privkey_t key;

	if (tls_check_mode(path, err) != 0 ||
	    file_read_any(AT_FDCWD, path, FILE_MAX, &text, err) != 0)
		return -1;
	int code = gnutls_x509_privkey_init(&key);
	if (code != 0)
		return tls_fail(err, "the key", path, code);
	int result = import_key(key, path, &text, identity, err);
	explicit_bzero(text.data, text.len);
	if (result == 0) {
		code = gnutls_x509_privkey_get_key_id(key, GNUTLS_KEYID_USE_SHA256, id,
						      id_len);
		if (code != 0)
			result = tls_fail(err, "the key", path, code);
	}
	gnutls_x509_privkey_deinit(key);
	return result;
}

static int read_both(struct tls_identity *identity, const char *certificate,
		     const char *key, struct err *err)
{
	unsigned char of_certificate[KEY_ID_SIZE], of_key[KEY_ID_SIZE];
	size_t certificate_len = sizeof(of_certificate), key_len = sizeof(of_key);

	if (read_chain(identity, certificate, of_certificate, &certificate_len, err) !=
		    0 ||
	    tls_read_key(identity, key, of_key, &key_len, err) != 0)
		return -1;
	if (certificate_len == key_len && memcmp(of_certificate, of_key, key_len) == 0)
		return 0;
	err_set(err, ERR_CONFIG, "the key in %s is not that of the certificate in %s",
		key, certificate);
	return err_remedy(err, "name a certificate and its own key; the server's own "
			       "certificate must be the first in its file");
}

int tls_identity_read(const char *certificate, const char *key,
		      struct tls_identity **identity, struct err *err)
{
	struct tls_identity *new = xcalloc(1, sizeof(*new));

	atomic_init(&new->references, 1);
	if (read_both(new, certificate, key, err) != 0) {
		tls_identity_unref(new);
		return -1;
	}
	*identity = new;
	return 0;
}

/* The library has put its connection there. */
static int on_handshake(gnutls_session_t session, const gnutls_datum_t *authorities,
			int authority_count, const gnutls_pk_algorithm_t *algorithms,
			int algorithm_count, gnutls_pcert_st **chain, unsigned *count,
			gnutls_privkey_t *key)
{
	struct tls_identity *identity =
		server_identity_for(gnutls_session_get_ptr(session));

	(void)authorities;
	(void)authority_count;
	(void)algorithms;
	(void)algorithm_count;
	if (!identity)
		return -1;
	*chain = identity->chain;
	*count = identity->count;
	*key = identity->key;
	return 0;
}

void tls_options(struct MHD_OptionItem options[TLS_OPTIONS])
{
	/* GnuTLS's name for: these versions, and no weaker cipher than is usual. */
	static char priorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

	options[0] =
		(struct MHD_OptionItem){ MHD_OPTION_HTTPS_PRIORITIES, 0, priorities };
	options[1] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_CERT_CALLBACK, 0,
					      (void *)on_handshake };
	options[2] = (struct MHD_OptionItem){ MHD_OPTION_END, 0, NULL };
}
