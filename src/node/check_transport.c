/*
 * What `refrelay check` says of TLS and of who speaks for others.
 */
#include "base/clock.h"
#include "cli/check.h"
#include "web/transport.h"

#define DAY_S 86400
#define SOON_DAYS 14

static void check_certificate(struct checking *checking,
			      const struct tls_identity *identity)
{
	int64_t left = tls_identity_expires(identity) - clock_wall_ms() / 1000;
	struct err err;

	if (left > SOON_DAYS * DAY_S) {
		check_tell_good(checking, "certificate", "good for %" PRId64 " days",
				left / DAY_S);
		return;
	}
	if (left <= 0)
		err_set(&err, ERR_CONFIG, "the certificate is over");
	else
		err_set(&err, ERR_CONFIG, "the certificate is over in %" PRId64 " days",
			left / DAY_S);
	err_remedy(&err, "put a new one into http.tlsCertificate, then: systemctl reload "
			 "refrelay");
	check_tell(checking, left <= 0 ? CHECK_WRONG : CHECK_NOTE, "certificate", &err);
}

static void check_proxies(struct checking *checking,
			  const struct trusted_proxies *proxies)
{
	struct err err;

	for (size_t i = 0; i < proxies->networks.count; i++) {
		unsigned bits = proxies->networks.items[i].bits;
		if (bits != 0 && bits != 96)
			continue;
		err_set(&err, ERR_CONFIG, "http.trustedProxy trusts every address");
		err_remedy(&err, "name the proxies: others could pretend to be anybody");
		check_tell(checking, CHECK_NOTE, "proxies", &err);
	}
}

void check_transport(struct checking *checking)
{
	AUTO_TRANSPORT struct transport transport;
	struct err err;

	if (transport_read(checking->conf, &transport, &err) != 0) {
		check_tell(checking, CHECK_WRONG, "configuration", &err);
		return;
	}
	if (transport.identity)
		check_certificate(checking, transport.identity);
	check_proxies(checking, &transport.proxies);
}
