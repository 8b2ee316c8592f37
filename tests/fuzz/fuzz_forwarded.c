/*
 * libFuzzer: of any header X-Forwarded-For behind any http.trustedProxy an address that
 * is no trusted proxy's is read, or none.
 */
#include <assert.h>

#include "web/listen.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_FREE char *text = xstrndup((const char *)data, len);
	char *header = strchr(text, '\n'); /* behind the network */
	struct trusted_proxies proxies = { 0 };
	struct ip_address client;

	if (!header)
		return 0;
	*header++ = '\0';
	if (trusted_proxies_add(&proxies, text, ERR_IGNORED) == 0)
		assert(proxies.networks.items[0].bits <= 128);
	if (trusted_proxies_client(&proxies, header, &client))
		assert(!trusted_proxies_has(&proxies, &client));
	trusted_proxies_clear(&proxies);
	return 0;
}
