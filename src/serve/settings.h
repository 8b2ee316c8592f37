/*
 * The section [serve] of the configuration. Plain data.
 */
#ifndef SERVE_SETTINGS_H
#define SERVE_SETTINGS_H

#include "base/conf.h"
#include "serve/shelf.h"
#include "serve/slots.h"

struct serve_settings {
	char *directory;            /* serve.cache; owned; default: cache in site.data */
	struct shelf_limits shelf;  /* serve.cacheSize 1g, serve.cacheMaxAge 1d */
	uint64_t memory;            /* serve.cacheMemory 64m */
	struct slots_limits packs;  /* serve.uploadPacks 16, serve.uploadPackQueue 64,
				       serve.uploadPackWait 30s */
	struct slots_limits fills;  /* generators: twice the cores, at least 4; not set */
	struct slots_limits pushes; /* serve.receivePacks 16; the rest as of packs */
	/* serve.uploadPacksPerClient and serve.receivePacksPerClient: three quarters of
	 * these, and 1 at least */
	uint64_t least_rate;  /* serve.leastRate 16k: bytes a second, if others wait */
	uint64_t max_push;    /* serve.maxPush 0: bytes of one push; 0: no limit */
	int64_t timeout_ms;   /* serve.timeout 3h: of one answer of git's */
	int64_t fresh_for_ms; /* serve.freshFor 60s; only for a secondary */
};

/* ERR_CONFIG names the key. *settings is to be cleared in any case. */
int serve_settings_read(const struct conf *conf, const char *data,
			struct serve_settings *settings, struct err *err);
/* ERR_CONFIG: the cache and site.repositories lie inside each other. */
int serve_settings_check(const struct serve_settings *settings, const char *repositories,
			 struct err *err);
void serve_settings_clear(struct serve_settings *settings);

#endif
