#include "serve/settings.h"

#include "base/file.h"

#define AT(kind, member) SETTING_AT(kind, struct serve_settings, member)
enum { PACKS_MOST = 4096, QUEUE_MOST = 65536, FILLS_LEAST = 4, FILLS_WAITING = 1024 };

/* The primary is to be heard of twice in freshFor, and waits in whole seconds. */
static const struct setting rows[] = {
	{ "cache", AT(PATH, directory), .at_start = true },
	{ "cacheSize", AT(SIZE, disk_cache.size), "1g" },
	{ "cacheMaxAge", AT(DURATION, disk_cache.max_age_ms), "1d", .min = CONF_SECOND,
	  .unit = CONF_DAY },
	{ "cacheMemory", AT(SIZE, memory), "64m" },
	{ "uploadPacks", AT(NUMBER, packs.running), "16", .min = 1, .max = PACKS_MOST },
	{ "uploadPacksPerClient", AT(NUMBER, packs.each), .max = PACKS_MOST },
	{ "uploadPackQueue", AT(NUMBER, packs.waiting), "64", .max = QUEUE_MOST },
	{ "uploadPackWait", AT(DURATION, packs.wait_ms), "30s", .min = CONF_SECOND },
	{ "receivePacks", AT(NUMBER, pushes.running), "16", .min = 1, .max = PACKS_MOST },
	{ "receivePacksPerClient", AT(NUMBER, pushes.each), .max = PACKS_MOST },
	{ "maxPush", AT(SIZE, max_push), "0" },
	{ "leastRate", AT(SIZE, least_rate), "16k" },
	{ "timeout", AT(DURATION, timeout_ms), "3h", .min = CONF_SECOND },
	{ "freshFor", AT(DURATION, fresh_for_ms), "60s", .min = 2 * CONF_SECOND },
	{ 0 },
};

const struct setting_table serve_settings_table = { .section = "serve", .rows = rows };

static size_t generators(void)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	return 2 * cores > FILLS_LEAST ? 2 * (size_t)cores : FILLS_LEAST;
}

/* One client leaves a quarter to others. */
static void leave_some(struct slots_limits *limits)
{
	if (limits->each == SIZE_MAX)
		limits->each = limits->running > 1 ? limits->running * 3 / 4 : 1;
}

int serve_settings_read(const struct conf *conf, const char *data,
			struct serve_settings *settings, struct err *err)
{
	*settings = (struct serve_settings){
		.packs.each = SIZE_MAX, /* not said */
		.pushes.each = SIZE_MAX,
		.fills = { .running = generators(),
			   .waiting = FILLS_WAITING,
			   .wait_ms = 30 * CONF_SECOND },
	};
	if (settings_read(&serve_settings_table, conf, NULL, settings, err) != 0)
		return -1;
	leave_some(&settings->packs);
	leave_some(&settings->pushes);
	settings->pushes.waiting = settings->packs.waiting;
	settings->pushes.wait_ms = settings->packs.wait_ms;
	if (!settings->directory)
		settings->directory = xasprintf("%s/cache", data);
	return 0;
}

/* A scan would list the cache, or what tidies the cache would meet repositories. */
int serve_settings_check(const struct serve_settings *settings, const char *repositories,
			 struct err *err)
{
	return paths_check_apart("site.repositories", repositories, "serve.cache",
				 settings->directory, err);
}

void serve_settings_clear(struct serve_settings *settings)
{
	settings_clear(&serve_settings_table, settings);
	*settings = (struct serve_settings){ 0 };
}
