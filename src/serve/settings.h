/*
 * The section [serve] of the configuration. Plain data.
 */
#ifndef SERVE_SETTINGS_H
#define SERVE_SETTINGS_H

#include "base/setting.h"
#include "serve/disk_cache.h"
#include "serve/slots.h"

struct serve_settings {
	char *directory; /* serve.cache; owned; default: cache in site.data */
	struct disk_cache_limits disk_cache;
	uint64_t memory;
	/* One client's share defaults to three quarters of them, at least 1; pushes wait
	 * as packs do. */
	struct slots_limits packs, pushes;
	struct slots_limits fills; /* generators: twice the cores, at least 4; not
				      configurable */
	uint64_t least_rate;       /* bytes a second, if others wait */
	uint64_t max_push;         /* bytes of one push; 0: no limit */
	int64_t timeout_ms;        /* of one answer of git */
	int64_t fresh_for_ms;      /* only for a secondary */
};

extern const struct setting_table serve_settings_table;

/* ERR_CONFIG names the key. Clear *settings in any case. */
int serve_settings_read(const struct conf *conf, const char *data,
			struct serve_settings *settings, struct err *err);
/* ERR_CONFIG: the cache and site.repositories lie inside each other. */
int serve_settings_check(const struct serve_settings *settings, const char *repositories,
			 struct err *err);
void serve_settings_clear(struct serve_settings *settings);

#endif
