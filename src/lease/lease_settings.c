#include "lease/lease_settings.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/str.h"
#include "lease/directory.h"
#include "lease/manager.h"
#include "lease/postgresql.h"

#define AT(kind, member) SETTING_AT(kind, struct lease_settings, member)

static const char *const backends[] = { "local", "directory", "redis", "postgresql",
					NULL };
static const char *const compatibilities[] = { "none", "docora", NULL };
static const char *const formats[] = { "refrelay", "redlock", NULL };

/* Seed 004: 120 s, never extended; 31 tries at 2 s, 0.4 s more or less, within a minute.
 */
#define DOCORA_TTL "120s"
#define DOCORA_POLL_MS 2000
#define DOCORA_JITTER_MS 400

static char *derive_ttl(const struct conf *conf)
{
	const struct conf_entry *entry = conf_get(conf, "lease", NULL, "compatibility");
	size_t choice = 0;

	if (!entry || conf_read_choice(entry, compatibilities, &choice, ERR_IGNORED) != 0)
		choice = 0;
	return choice ? xstrdup(DOCORA_TTL) : NULL;
}

static const struct setting rows[] = {
	{ "backend", AT(CHOICE, backend), "local", .words = backends, .at_start = true },
	{ "url", AT(TEXT, urls), .at_start = true },
	{ "path", AT(PATH, path), .at_start = true },
	{ "prefix", AT(TEXT, prefix), .at_start = true },
	{ "keyFormat", AT(TEXT, key_format), .at_start = true },
	{ "userFile", AT(PATH, user_file), .at_start = true },
	{ "passwordFile", AT(PATH, password_file), .at_start = true },
	{ "caFile", AT(PATH, ca_file), .at_start = true },
	{ "ttl", AT(DURATION, ttl_ms), "30s", .min = CONF_SECOND, .at_start = true,
	  .derive = derive_ttl },
	{ "wait", AT(DURATION, wait_ms), "60s", .min = CONF_SECOND, .at_start = true },
	{ "compatibility", AT(CHOICE, compatibility), "none", .words = compatibilities,
	  .at_start = true },
	{ "format", AT(CHOICE, format), "refrelay", .words = formats, .at_start = true },
	{ 0 },
};

const struct setting_table lease_settings_table = { .section = "lease", .rows = rows };

#define PLACE_BYTES 8

void lease_settings_clear(struct lease_settings *settings)
{
	settings_clear(&lease_settings_table, settings);
	*settings = (struct lease_settings){ 0 };
}

static int refuse(const struct conf *conf, const char *key, struct err *err,
		  const char *text)
{
	const struct conf_entry *entry = conf_get(conf, "lease", NULL, key);

	return entry ? conf_error(entry, err, "%s", text)
		     : err_set(err, ERR_CONFIG, "lease.%s: %s", key, text);
}

static bool is_variable(const char *text, size_t len)
{
	static const char *const known[] = { "${site}", "${kind}", "${id}", "${name}",
					     "${path}" };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strlen(known[i]) == len && strncmp(text, known[i], len) == 0)
			return true;
	return false;
}

/* Variables that touch could share their bytes out differently: "ab" + "c", "a" + "bc".
 */
static const char *find_fault(const char *format)
{
	const char *at = format, *end;

	if (!strstr(format, "${id}") && !strstr(format, "${name}") &&
	    !strstr(format, "${path}"))
		return "all repositories would share one key: it takes ${id}, ${name} or "
		       "${path}";
	for (; (at = strchr(at, '$')) != NULL; at = end + 1) {
		end = strchr(at, '}');
		if (!end || !is_variable(at, (size_t)(end - at) + 1))
			return "it takes ${site}, ${kind}, ${id}, ${name} and ${path}";
		if (end[1] == '$')
			return "two repositories could share a key: variables that touch "
			       "each other need a character between them";
	}
	return NULL;
}

static int check_key_format(const struct conf *conf,
			    const struct lease_settings *settings, struct err *err)
{
	const char *fault;

	if (!settings->key_format)
		return 0;
	fault = find_fault(settings->key_format);
	if (!fault && strlen(settings->key_format) > LEASE_KEY_SIZE / 4)
		fault = "it is too long";
	return fault ? refuse(conf, "keyFormat", err, fault) : 0;
}

static bool is_server(const struct lease_settings *settings)
{
	return settings->backend == LEASE_REDIS || settings->backend == LEASE_POSTGRESQL;
}

/* Of several, the last would count: git's rule, by which a file overrides those that it
 * includes. In one file that is no one's wish. */
static int check_url(const struct conf *conf, struct err *err)
{
	const struct conf_list *urls = conf_get_all(conf, "lease", NULL, "url");
	const struct conf_entry *last =
		urls->count > 0 ? urls->items[urls->count - 1] : NULL;
	bool is_twice = false;

	for (size_t i = 0; i + 1 < urls->count; i++)
		is_twice |= urls->items[i]->file == last->file;
	if (!is_twice)
		return 0;
	conf_error(last, err, "it is given twice");
	return err_remedy(err,
			  "write several servers into one line, separated by blanks");
}

static int check_backend(const struct conf *conf, const struct lease_settings *settings,
			 struct err *err)
{
	if (is_server(settings) && (!settings->urls || !settings->urls[0]))
		return refuse(conf, "url", err, "this backend needs it");
	if (!is_server(settings) && settings->urls)
		return refuse(conf, "url", err, "this backend has no server");
	if (settings->backend == LEASE_DIRECTORY && !settings->path)
		return refuse(conf, "path", err, "this backend needs it");
	if (settings->format && settings->backend != LEASE_REDIS)
		return refuse(conf, "format", err, "only redis has locks of this form");
	if (settings->urls && strchr(settings->urls, '@'))
		return refuse(conf, "url", err,
			      "no credentials in it: use lease.userFile and "
			      "lease.passwordFile");
	return 0;
}

int lease_settings_read(const struct conf *conf, struct lease_settings *settings,
			struct err *err)
{
	if (settings_read(&lease_settings_table, conf, NULL, settings, err) != 0 ||
	    check_url(conf, err) != 0 || check_backend(conf, settings, err) != 0 ||
	    check_key_format(conf, settings, err) != 0)
		return -1;
	return 0;
}

const char *lease_settings_unused(const struct lease_settings *settings)
{
	if (settings->path && settings->backend != LEASE_DIRECTORY)
		return "path";
	if (is_server(settings))
		return NULL;
	if (settings->user_file)
		return "userFile";
	if (settings->password_file)
		return "passwordFile";
	return settings->ca_file ? "caFile" : NULL;
}

static char *make_prefix(const struct lease_settings *settings, const char *site)
{
	return settings->prefix ? xstrdup(settings->prefix)
				: xasprintf("refrelay:%s:", site);
}

static enum lease_where where_of(const struct lease_settings *settings)
{
	if (is_server(settings))
		return LEASE_AT_SERVER;
	return settings->backend == LEASE_DIRECTORY ? LEASE_IN_SHARE : LEASE_AT_HOST;
}

static void make_ways(const struct lease_settings *settings,
		      const struct lease_place *place, struct lease_ways *ways)
{
	char *prefix = make_prefix(settings, place->site);

	*ways = (struct lease_ways){
		.prefix = is_server(settings) ? xstrdup(prefix) : NULL,
		.run_prefix = prefix,
		.key_format = settings->key_format ? xstrdup(settings->key_format) : NULL,
		.site = xstrdup(place->site),
		.repositories = xstrdup(place->repositories),
		.wait_ms = settings->wait_ms,
		.where = where_of(settings),
		.is_patient = settings->backend == LEASE_POSTGRESQL,
		.is_fixed = settings->compatibility,
		.poll_ms = settings->compatibility ? DOCORA_POLL_MS : 0,
		.poll_jitter_ms = settings->compatibility ? DOCORA_JITTER_MS : 0,
	};
}

void lease_settings_apply(const struct lease_settings *settings,
			  const struct lease_place *place, struct lease_manager *manager)
{
	struct lease_ways ways;

	make_ways(settings, place, &ways);
	lease_manager_set_ways(manager, &ways);
}

static char *digest_place(const struct lease_settings *settings)
{
	const char *text = settings->urls ? settings->urls : settings->path;
	AUTO_STR struct str out = STR_INIT;

	hash_add_hex(HASH_SHA256, text ? text : "", text ? strlen(text) : 0, PLACE_BYTES,
		     &out);
	return str_take(&out);
}

json_t *lease_settings_json(const struct lease_settings *settings,
			    const struct lease_place *place)
{
	struct lease_manager names = { 0 }; /* of its ways alone */
	AUTO_FREE char *ttl = xasprintf("%g s", (double)settings->ttl_ms / 1000);
	AUTO_FREE char *where = digest_place(settings);
	char prefix[LEASE_KEY_SIZE], key[LEASE_KEY_SIZE];
	json_t *object = json_object();

	make_ways(settings, place, &names.ways);
	lease_key_of_site(&names, "", prefix);
	lease_key_for(&names, "repository", 1, "name", key);
	lease_ways_clear(&names.ways);
	json_put_text(object, "backend", backends[settings->backend]);
	json_put_text(object, "format", formats[settings->format]);
	json_put_text(object, "compatibility", compatibilities[settings->compatibility]);
	json_put_text(object, "prefix", prefix);
	json_put_text(object, "keyFormat",
		      settings->key_format ? settings->key_format : "");
	json_put_text(object, "ttl", ttl);
	json_put_text(object, "key", key);
	json_put_text(object, "place", where);
	return object;
}

static int open_backend(const struct lease_settings *settings,
			const struct lease_place *place, struct lease_options *options,
			struct lease_manager **manager, struct err *err)
{
	switch (settings->backend) {
	case LEASE_DIRECTORY:
		options->directory = settings->path;
		return lease_manager_open_directory(options, manager, err);
	case LEASE_REDIS:
		return lease_manager_open_redis(options, manager, err);
	case LEASE_POSTGRESQL:
		return lease_manager_open_postgresql(options, manager, err);
	default:
		return lease_manager_open_local(place->store, options, manager, err);
	}
}

/* What is in lease.userFile, its first line. */
static int read_user(const struct lease_settings *settings, char **user, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	*user = NULL;
	if (!settings->user_file)
		return 0;
	if (file_read_any(AT_FDCWD, settings->user_file, 4096, &text, err) < 0)
		return err_prefix(err, "lease.userFile");
	*user = xstrndup(text.data, strcspn(text.data, "\n"));
	return 0;
}

/* The urls stand with blanks between them. The list borrows the text, which is cut up. */
static void split_urls(char *text, text_list *urls)
{
	char *rest = text, *word;

	while ((word = strsep(&rest, " \t\n")) != NULL)
		if (word[0])
			vec_add(urls, word);
}

static void add_literal(struct str *out, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (strchr("*?[]\\", text[i]))
			str_add_char(out, '\\');
		str_add_char(out, text[i]);
	}
}

/* What keys of the format look like; NULL without one. */
static char *make_pattern(const char *format, const char *site)
{
	AUTO_STR struct str out = STR_INIT;

	for (const char *at = format; at && *at; at++) {
		const char *end = strncmp(at, "${", 2) == 0 ? strchr(at, '}') : NULL;
		if (!end)
			add_literal(&out, at, 1);
		else if (text_starts_with(at, "${site}"))
			add_literal(&out, site, strlen(site));
		else
			str_add_char(&out, '*');
		at = end ? end : at;
	}
	return format ? str_take(&out) : NULL;
}

/* What is asked of a server, owned. */
struct server_words {
	char *user, *urls, *prefix, *pattern;
	text_list list; /* borrows from urls */
};

static void server_words_clear(struct server_words *words)
{
	free(words->user);
	free(words->urls);
	free(words->prefix);
	free(words->pattern);
	vec_clear(&words->list);
}

#define AUTO_WORDS __attribute__((cleanup(server_words_clear)))

/* The options borrow from the words. */
static int fill_options(const struct lease_settings *settings, const char *site,
			struct lease_options *options, struct server_words *words,
			struct err *err)
{
	words->urls = xstrdup(settings->urls ? settings->urls : "");
	words->prefix = make_prefix(settings, site);
	words->pattern = make_pattern(settings->key_format, site);
	if (read_user(settings, &words->user, err) != 0)
		return -1;
	split_urls(words->urls, &words->list);
	options->urls = (const char *const *)words->list.items;
	options->url_count = words->list.count;
	options->user = words->user;
	options->prefix = words->prefix;
	options->pattern = words->pattern;
	options->password_file = settings->password_file;
	options->ca_file = settings->ca_file;
	options->redlock_format = settings->format;
	if (settings->compatibility) {
		options->poll_ms = DOCORA_POLL_MS;
		options->poll_jitter_ms = DOCORA_JITTER_MS;
	}
	return 0;
}

int lease_manager_open(const struct lease_settings *settings,
		       const struct lease_place *place, struct lease_manager **manager,
		       struct err *err)
{
	struct lease_options options = { .directory = place->directory,
					 .node = place->node,
					 .ttl_ms = settings ? settings->ttl_ms : 0,
					 .logs_doubts =
						 settings && settings->is_of_node };
	AUTO_WORDS struct server_words words = { 0 };

	if (!settings)
		return lease_manager_open_local(place->store, &options, manager, err);
	if (fill_options(settings, place->site, &options, &words, err) != 0 ||
	    open_backend(settings, place, &options, manager, err) != 0)
		return -1;
	lease_settings_apply(settings, place, *manager);
	return 0;
}

/* The key of a repository that does not exist. */
static void make_unused_key(const struct lease_settings *settings,
			    const struct lease_place *place, char key[LEASE_KEY_SIZE])
{
	struct lease_manager names = { 0 }; /* of its ways alone */
	char id[17];

	random_hex(id, 8);
	AUTO_FREE char *name = xasprintf("check-%s", id);
	make_ways(settings, place, &names.ways);
	lease_key_for(&names, "repository", 0, name, key);
	lease_ways_clear(&names.ways);
}

void lease_settings_try(const struct lease_settings *settings,
			const struct lease_place *place, lease_finding say, void *arg)
{
	struct lease_options options = { .ttl_ms = settings->ttl_ms };
	AUTO_WORDS struct server_words words = { 0 };
	char key[LEASE_KEY_SIZE];
	struct err err;

	if (settings->ttl_ms >= settings->wait_ms && !settings->compatibility)
		say(arg, false,
		    "lease.ttl is not shorter than lease.wait: a process that waits for "
		    "a holder that died elsewhere gives up before the lease expires",
		    "make lease.wait longer, or lease.ttl shorter");
	if (settings->backend != LEASE_REDIS)
		return;
	if (fill_options(settings, place->site, &options, &words, &err) != 0) {
		say(arg, true, err.text, err.remedy);
		return;
	}
	make_unused_key(settings, place, key);
	lease_redis_check(&options, settings->key_format ? key : NULL, say, arg);
}
