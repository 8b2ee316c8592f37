#include "serve/settings.h"

#include "base/file.h"

enum {
	PACKS_MOST = 4096,
	QUEUE_MOST = 65536,
	FILLS_LEAST = 4,
	FILLS_WAITING = 1024,
	FRESH_FOR_LEAST_MS = 2 * CONF_SECOND,
};

static const struct conf_entry *serve_settings_entry_of(const struct conf *conf,
							const char *key)
{
	return conf_get(conf, "serve", NULL, key);
}

static int serve_settings_read_count(const struct conf *conf, const char *key,
				     uint64_t min, uint64_t max, size_t *count,
				     struct err *err)
{
	uint64_t value = *count;

	if (conf_read_uint(serve_settings_entry_of(conf, key), min, max, &value, err) !=
	    0)
		return -1;
	*count = value;
	return 0;
}

static int serve_settings_read_duration(const struct conf *conf, const char *key,
					enum conf_unit bare, int64_t *value,
					struct err *err)
{
	const struct conf_entry *entry = serve_settings_entry_of(conf, key);

	if (conf_read_duration(entry, bare, value, err) != 0)
		return -1;
	if (entry && *value < CONF_SECOND)
		return conf_error(entry, err, "it must be 1s or more");
	return 0;
}

static int serve_settings_read_directory(const struct conf *conf, const char *data,
					 char **directory, struct err *err)
{
	const struct conf_entry *entry = serve_settings_entry_of(conf, "cache");
	const char *path = NULL;

	if (conf_read_text(entry, &path, err) != 0)
		return -1;
	if (path && path[0] != '/') {
		conf_error(entry, err, "\"%.60s\" is no absolute path", path);
		return err_remedy(err, "begin it with a slash");
	}
	*directory = path ? xstrdup(path) : xasprintf("%s/cache", data);
	return 0;
}

static int read_cache(const struct conf *conf, struct serve_settings *settings,
		      struct err *err)
{
	if (conf_read_size(serve_settings_entry_of(conf, "cacheSize"),
			   &settings->shelf.size, err) != 0 ||
	    conf_read_size(serve_settings_entry_of(conf, "cacheMemory"),
			   &settings->memory, err) != 0)
		return -1;
	return serve_settings_read_duration(conf, "cacheMaxAge", CONF_DAY,
					    &settings->shelf.max_age_ms, err);
}

/* One client leaves a quarter to others. */
static int read_each(const struct conf *conf, const char *key,
		     struct slots_limits *limits, struct err *err)
{
	limits->each = limits->running * 3 / 4;
	if (limits->each == 0)
		limits->each = 1;
	return serve_settings_read_count(conf, key, 0, PACKS_MOST, &limits->each, err);
}

static int read_packs(const struct conf *conf, struct slots_limits *packs,
		      struct err *err)
{
	if (serve_settings_read_count(conf, "uploadPacks", 1, PACKS_MOST, &packs->running,
				      err) != 0 ||
	    read_each(conf, "uploadPacksPerClient", packs, err) != 0 ||
	    serve_settings_read_count(conf, "uploadPackQueue", 0, QUEUE_MOST,
				      &packs->waiting, err) != 0)
		return -1;
	return serve_settings_read_duration(conf, "uploadPackWait", CONF_SECOND,
					    &packs->wait_ms, err);
}

static int read_pushes(const struct conf *conf, struct serve_settings *settings,
		       struct err *err)
{
	settings->pushes = settings->packs;
	settings->pushes.running = 16;
	if (serve_settings_read_count(conf, "receivePacks", 1, PACKS_MOST,
				      &settings->pushes.running, err) != 0 ||
	    read_each(conf, "receivePacksPerClient", &settings->pushes, err) != 0)
		return -1;
	return conf_read_size(serve_settings_entry_of(conf, "maxPush"),
			      &settings->max_push, err);
}

/* The primary is to be heard of twice in that time, and waits in whole seconds. */
static int read_fresh_for(const struct conf *conf, int64_t *fresh_for_ms, struct err *err)
{
	const struct conf_entry *entry = serve_settings_entry_of(conf, "freshFor");

	if (conf_read_duration(entry, CONF_SECOND, fresh_for_ms, err) != 0)
		return -1;
	if (*fresh_for_ms < FRESH_FOR_LEAST_MS)
		return conf_error(entry, err, "it must be 2s or more");
	return 0;
}

static size_t generators(void)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	return 2 * cores > FILLS_LEAST ? 2 * (size_t)cores : FILLS_LEAST;
}

int serve_settings_read(const struct conf *conf, const char *data,
			struct serve_settings *settings, struct err *err)
{
	*settings = (struct serve_settings){
		.shelf = { .size = UINT64_C(1) << 30, .max_age_ms = CONF_DAY },
		.memory = UINT64_C(64) << 20,
		.packs = { .running = 16, .waiting = 64, .wait_ms = 30 * CONF_SECOND },
		.fills = { .running = generators(),
			   .waiting = FILLS_WAITING,
			   .wait_ms = 30 * CONF_SECOND },
		.least_rate = UINT64_C(16) << 10,
		.timeout_ms = 3 * CONF_HOUR,
		.fresh_for_ms = 60 * CONF_SECOND,
	};
	if (serve_settings_read_directory(conf, data, &settings->directory, err) != 0 ||
	    read_cache(conf, settings, err) != 0 ||
	    read_packs(conf, &settings->packs, err) != 0 ||
	    read_pushes(conf, settings, err) != 0 ||
	    read_fresh_for(conf, &settings->fresh_for_ms, err) != 0 ||
	    conf_read_size(serve_settings_entry_of(conf, "leastRate"),
			   &settings->least_rate, err) != 0)
		return -1;
	return serve_settings_read_duration(conf, "timeout", CONF_SECOND,
					    &settings->timeout_ms, err);
}

/* A scan would list the cache, or what tidies the cache would meet repositories. */
int serve_settings_check(const struct serve_settings *settings, const char *repositories,
			 struct err *err)
{
	AUTO_FREE char *above = path_resolve(repositories);
	AUTO_FREE char *cache = path_resolve(settings->directory);

	if (!path_is_below(cache, above) && !path_is_below(above, cache))
		return 0;
	err_set(err, ERR_CONFIG,
		"site.repositories %s and serve.cache %s lie inside "
		"each other",
		repositories, settings->directory);
	return err_remedy(err, "choose directories of which none is above the other; "
			       "mind symbolic links");
}

void serve_settings_clear(struct serve_settings *settings)
{
	free(settings->directory);
	*settings = (struct serve_settings){ 0 };
}
