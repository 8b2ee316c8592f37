/*
 * libFuzzer: whatever an upstream answers to a batch, each object that was asked for has
 * one offer, which leads to a URL of HTTP or says why there is none; and no header of it
 * says how the request travels.
 */
#include <assert.h>
#include <strings.h>

#include "mirror/lfs_offer.h"
#include "net/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_offer(const struct lfs_offer *offer)
{
	assert(!offer->href == (offer->code != 0) &&
	       !offer->href == (offer->message != 0));
	assert(!offer->href || !http_check_url(offer->href, true, NULL));
	assert(offer->lasts_ms >= 0 && offer->headers.count <= 32);
	for (size_t i = 0; i < offer->headers.count; i++)
		assert(strcasecmp(offer->headers.items[i].name, "Host") != 0 &&
		       strcasecmp(offer->headers.items[i].name, "Range") != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const struct lfs_row rows[] = { { "a", 1 }, { "b", 2 } };
	lfs_offers offers;
	struct err err = { 0 };

	if (lfs_offers_read((const char *)data, len, rows, 2, 1, &offers, &err) == 0)
		assert(offers.count == 2);
	else
		assert(offers.count == 0 && err.class == ERR_CORRUPT && err.text[0]);
	for (size_t i = 0; i < offers.count; i++)
		check_offer(&offers.items[i]);
	lfs_offers_clear(&offers);
	return 0;
}
