/*
 * Each proxy appends the address it was asked from. What the last trusted one appended is
 * true; what stands before the first address that is no trusted proxy's, whoever has that
 * address may have made up. So the list is read from its end, and no further than needed.
 */
#include "web/trusted_proxies.h"

#include <arpa/inet.h>

#include "base/str.h"

#define V4_OFFSET 96 /* bits of an IPv4 address's prefix within IPv6, ::ffff:0:0/96 */

static void set_v4(struct ip_address *address, const struct in_addr *v4)
{
	*address = (struct ip_address){ .bytes[10] = 0xff, .bytes[11] = 0xff };
	memcpy(address->bytes + 12, v4, sizeof(*v4));
}

static bool is_v4(const struct ip_address *address)
{
	struct in_addr none = { 0 };
	struct ip_address prefix;

	set_v4(&prefix, &none);
	return memcmp(address->bytes, prefix.bytes, V4_OFFSET / 8) == 0;
}

static bool parse_address(const char *text, struct ip_address *address)
{
	struct in_addr v4;

	if (inet_pton(AF_INET, text, &v4) != 1)
		return inet_pton(AF_INET6, text, address->bytes) == 1;
	set_v4(address, &v4);
	return true;
}

static unsigned bit_of(const struct ip_address *address, unsigned at)
{
	return address->bytes[at / 8] >> (7 - at % 8) & 1;
}

static bool has_bits_behind(const struct ip_address *address, unsigned bits)
{
	for (unsigned at = bits; at < 8 * sizeof(address->bytes); at++)
		if (bit_of(address, at))
			return true;
	return false;
}

static bool parse_network(const char *text, struct proxy_network *network)
{
	size_t len = strcspn(text, "/");
	char address[INET6_ADDRSTRLEN];
	uint64_t bits;

	if (len >= sizeof(address))
		return false;
	memcpy(address, text, len);
	address[len] = '\0';
	if (!parse_address(address, &network->address))
		return false;
	unsigned offset = strchr(address, ':') ? 0 : V4_OFFSET;
	bits = 128 - offset;
	if (text[len] == '/' &&
	    (!text_to_uint64(text + len + 1, &bits) || bits > 128 - offset))
		return false;
	network->bits = (unsigned)bits + offset;
	return true;
}

int trusted_proxies_add(struct trusted_proxies *proxies, const char *text,
			struct err *err)
{
	struct proxy_network network;

	if (!parse_network(text, &network)) {
		err_set(err, ERR_CONFIG, "\"%s\" is no address of a proxy", text);
		return err_remedy(err, "write 192.0.2.7, 10.0.0.0/8 or 2001:db8::/32; no "
				       "names of hosts");
	}
	if (has_bits_behind(&network.address, network.bits)) {
		err_set(err, ERR_CONFIG, "\"%s\" has bits set behind its prefix", text);
		return err_remedy(err, "is one address meant, or a whole network? for "
				       "the address leave out what follows it");
	}
	vec_add(&proxies->networks, network);
	return 0;
}

void trusted_proxies_clear(struct trusted_proxies *proxies)
{
	vec_clear(&proxies->networks);
}

static bool is_within(const struct ip_address *address,
		      const struct proxy_network *network)
{
	unsigned whole = network->bits / 8, rest = network->bits % 8;

	if (memcmp(address->bytes, network->address.bytes, whole) != 0)
		return false;
	return rest == 0 ||
	       (address->bytes[whole] ^ network->address.bytes[whole]) >> (8 - rest) == 0;
}

/* ::/0 shall not stand for IPv4 as well. */
bool trusted_proxies_has(const struct trusted_proxies *proxies,
			 const struct ip_address *address)
{
	for (size_t i = 0; i < proxies->networks.count; i++) {
		const struct proxy_network *network = &proxies->networks.items[i];
		if (is_v4(address) ==
			    (is_v4(&network->address) && network->bits >= V4_OFFSET) &&
		    is_within(address, network))
			return true;
	}
	return false;
}

static bool is_port(const char *text)
{
	uint64_t port;

	return text_to_uint64(text, &port) && port <= UINT16_MAX;
}

/* "192.0.2.7", "192.0.2.7:50312", "2001:db8::7", "[2001:db8::7]", "[2001:db8::7]:50312".
 * Changes the text. */
static bool parse_element(char *text, struct ip_address *address)
{
	char *colon = strchr(text, ':');

	if (*text == '[') {
		char *end = strchr(text, ']');
		struct in_addr v4;
		if (!end || (end[1] != '\0' && (end[1] != ':' || !is_port(end + 2))))
			return false;
		*end = '\0';
		return inet_pton(AF_INET, text + 1, &v4) != 1 &&
		       parse_address(text + 1, address);
	}
	if (colon && !strchr(colon + 1, ':')) {
		if (!is_port(colon + 1))
			return false;
		*colon = '\0';
	}
	return parse_address(text, address);
}

/* Takes the last element off text[0..*len); false: it is no address. */
static bool take_last(const char *text, size_t *len, struct ip_address *address)
{
	char element[ADDRESS_TEXT_SIZE];
	size_t end = *len, at = end;

	while (at > 0 && text[at - 1] != ',')
		at--;
	*len = at > 0 ? at - 1 : 0;
	while (at < end && (text[at] == ' ' || text[at] == '\t'))
		at++;
	while (end > at && (text[end - 1] == ' ' || text[end - 1] == '\t'))
		end--;
	if (end - at >= sizeof(element))
		return false;
	memcpy(element, text + at, end - at);
	element[end - at] = '\0';
	return parse_element(element, address);
}

bool trusted_proxies_client(const struct trusted_proxies *proxies, const char *forwarded,
			    struct ip_address *client)
{
	size_t len = strlen(forwarded);

	while (len > 0) {
		struct ip_address address;
		if (!take_last(forwarded, &len, &address))
			return false;
		if (trusted_proxies_has(proxies, &address))
			continue;
		*client = address;
		return true;
	}
	return false;
}
