#include "push/settings.h"

#include <stdarg.h>
#include <strings.h>

#include "base/hash.h"
#include "base/process.h"
#include "push/pattern.h"
#include "push/settings_parts.h"
#include "wire/wire_token.h"

/*
 * Every key of [remote], [replication] and [gerrit]. Values are read as Gerrit reads them
 * where it has the key.
 */

#define SHOWN "%.60s"
#define LONGEST_MS (100 * 365 * (int64_t)CONF_DAY)
#define MOST_COUNT INT32_MAX /* as Gerrit */

void settings_note(struct settings_reader *reader, const struct conf_entry *entry,
		   const char *fmt, ...)
{
	AUTO_STR struct str name = STR_INIT;
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	conf_render_name(entry, &name);
	vec_add(&reader->settings.notes,
		xasprintf("%s:%u: %s: %s", entry->file, entry->line, name.data, text));
}

/* What a unit stands for; 0: it is none. Gerrit's own words, and those of all our
 * durations. */
static int64_t factor_of(const char *unit, enum conf_unit bare)
{
	static const struct {
		const char *words; /* each between blanks */
		int64_t ms;
	} units[] = {
		{ " ms milliseconds ", CONF_MILLISECOND },
		{ " s sec second seconds ", CONF_SECOND },
		{ " m min minute minutes ", CONF_MINUTE },
		{ " h hr hour hours ", CONF_HOUR },
		{ " d day days ", CONF_DAY },
		{ " w week weeks ", 7 * (int64_t)CONF_DAY },
		{ " mon month months ", 30 * (int64_t)CONF_DAY },
		{ " y year years ", 365 * (int64_t)CONF_DAY },
	};
	AUTO_FREE char *wanted = xasprintf(" %s ", unit);

	if (!*unit)
		return (int64_t)bare;
	for (size_t i = 0; i < ARRAY_SIZE(units) && !strchr(unit, ' '); i++)
		if (strcasestr(units[i].words, wanted))
			return units[i].ms;
	return 0;
}

/* Below zero is zero. */
static int parse_time(const struct conf_entry *entry, enum conf_unit bare, int64_t *value,
		      struct err *err)
{
	const char *text = entry->value ? entry->value : "";
	const char *digits = text + (text[0] == '-');
	size_t len = strspn(digits, "0123456789");
	AUTO_FREE char *leading = xstrndup(digits, len);
	int64_t factor = factor_of(digits + len + strspn(digits + len, " "), bare), ms;
	uint64_t number;

	if (!text_to_uint64(leading, &number) || factor == 0)
		return conf_error(entry, err,
				  "\"" SHOWN "\" is not a duration: a number with ms, s, "
				  "m, h or d behind it, as 90s",
				  text);
	if (__builtin_mul_overflow(number, factor, &ms) || ms > LONGEST_MS)
		return conf_error(entry, err,
				  "\"" SHOWN "\" is more than a hundred years", text);
	*value = text[0] == '-' ? 0 : ms;
	return 0;
}

/* One below the least is raised to it; of 0 the row's remark is told. */
static int read_time(const struct setting *row, const struct conf_entry *entry,
		     void *target, struct err *err)
{
	int64_t *value = setting_field(row, target), least = (int64_t)row->min;

	if (parse_time(entry, row->unit ? row->unit : CONF_SECOND, value, err) != 0)
		return -1;
	if (*value == 0 && row->remark)
		settings_note(target, entry, "%s", row->remark);
	if (*value < least)
		settings_note(target, entry, "it is raised to %" PRId64 " s",
			      least / CONF_SECOND);
	if (*value < least)
		*value = least;
	return 0;
}

/* A number with k, m or g. */
static int read_count(const struct setting *row, const struct conf_entry *entry,
		      void *target, struct err *err)
{
	uint64_t number = 0, *value = setting_field(row, target);

	if (conf_read_size(entry, &number, ERR_IGNORED) != 0 || number > MOST_COUNT)
		return conf_error(entry, err,
				  "\"" SHOWN "\" is not a number from 0 to %d",
				  entry->value ? entry->value : "", MOST_COUNT);
	*value = number;
	return 0;
}

/* Likewise; below zero is zero, and below the least it is raised. */
static int read_count_or_less(const struct setting *row, const struct conf_entry *entry,
			      void *target, struct err *err)
{
	bool is_less = entry->value && entry->value[0] == '-';
	uint64_t *value = setting_field(row, target);
	struct conf_entry positive = *entry;

	if (is_less)
		positive.value++;
	if (read_count(row, &positive, target, err) != 0)
		return -1;
	if (is_less)
		*value = 0;
	if (row->max > 0 && *value > row->max)
		return conf_error(entry, err,
				  "it is a number from %" PRIu64 " to %" PRIu64, row->min,
				  row->max);
	if (*value < row->min) {
		settings_note(target, entry, "it is raised to %" PRIu64, row->min);
		*value = row->min;
	}
	return 0;
}

static int read_transfers(const struct setting *row, const struct conf_entry *entry,
			  void *target, struct err *err)
{
	const uint64_t *value = setting_field(row, target);

	if (read_count(row, entry, target, err) != 0)
		return -1;
	return *value >= row->min && *value <= row->max
		       ? 0
		       : conf_error(entry, err,
				    "it is a number from %" PRIu64 " to %" PRIu64,
				    row->min, row->max);
}

static bool settings_is_empty(const struct conf_entry *entry)
{
	return entry->value && !entry->value[0];
}

int settings_read_path(const struct conf_entry *entry, char **path, struct err *err)
{
	static const struct setting row = { .type = SETTING_PATH };

	return !entry || settings_is_empty(entry) ? 0
						  : setting_read(&row, entry, path, err);
}

/* A text or path; an empty one is none. */
static int read_filled(const struct setting *row, const struct conf_entry *entry,
		       void *target, struct err *err)
{
	struct setting plain = *row;

	plain.read = NULL;
	return settings_is_empty(entry) ? 0 : setting_read(&plain, entry, target, err);
}

/* As Gerrit: in this case only, and anything else is slash. */
static int read_style(const struct setting *row, const struct conf_entry *entry,
		      void *target, struct err *err)
{
	struct settings_reader *reader = target;

	(void)err;
	for (size_t i = 0; row->words[i]; i++) {
		if (entry->value && strcmp(entry->value, row->words[i]) == 0) {
			reader->remote.style = (enum name_style)i;
			return 0;
		}
	}
	settings_note(reader, entry,
		      "it is none of slash, dash, underscore, basenameOnly: slash is "
		      "taken");
	return 0;
}

static int read_spec(const struct setting *row, const struct conf_entry *entry,
		     void *target, struct err *err)
{
	struct settings_reader *reader = target;
	const char *text = NULL;
	struct push_spec spec;

	(void)row;
	if (conf_read_text(entry, &text, err) != 0)
		return -1;
	if (push_spec_read(text, &spec, err) != 0)
		return conf_prefix(entry, err);
	if (!text_starts_with(spec.src, "refs/"))
		settings_note(reader, entry,
			      "it matches no ref: their names begin with refs/");
	vec_add(&reader->remote.specs, spec);
	return 0;
}

/* Gerrit ignores a wrong one, and so do we. */
static int read_excluded_ref(const struct setting *row, const struct conf_entry *entry,
			     void *target, struct err *err)
{
	struct settings_reader *reader = target;
	struct name_pattern *pattern;

	(void)row;
	if (!entry->value)
		return 0;
	if (name_pattern_new_regex(entry->value, &pattern, err) == 0)
		vec_add(&reader->remote.excluded_refs, pattern);
	else
		settings_note(reader, entry, "it is ignored, and leaves out nothing: %s",
			      err->text);
	return 0;
}

char *push_default_directory(const char *data)
{
	return xasprintf("%s/replication", data);
}

/* A relative path counts from Gerrit's site in Gerrit's file, else from site.data. */
static int read_directory(const struct setting *row, const struct conf_entry *entry,
			  void *target, struct err *err)
{
	struct settings_reader *reader = target;
	bool is_ours = conf_get(reader->own, entry->section, NULL, row->key) == entry;
	const char *path = NULL;

	if (conf_read_text(entry, &path, err) != 0)
		return -1;
	if (path[0] == '/')
		reader->settings.directory = xstrdup(path);
	else if (path[0])
		reader->settings.directory = xasprintf(
			"%s/%s", reader->site && !is_ours ? reader->site : reader->data,
			path);
	return 0;
}

static int read_webhook(const struct setting *row, const struct conf_entry *entry,
			void *target, struct err *err)
{
	const struct settings_reader *reader = target;
	const char *url;

	if (read_filled(row, entry, target, err) != 0)
		return -1;
	url = reader->settings.webhook;
	if (url && !text_starts_with(url, "http://") &&
	    !text_starts_with(url, "https://"))
		return conf_error(entry, err, "it is a URL of http or https");
	return 0;
}

static int read_webhook_secret(const struct setting *row, const struct conf_entry *entry,
			       void *target, struct err *err)
{
	struct settings_reader *reader = target;
	AUTO_SITE_KEY struct site_key key = { .secret = STR_INIT };
	AUTO_FREE char *file = NULL;

	(void)row;
	if (settings_read_path(entry, &file, err) != 0)
		return -1;
	if (!file)
		return 0;
	if (site_key_read("webhook", file, &key, err) != 0)
		return -1;
	str_add_bytes(&reader->settings.webhook_secret, key.secret.data, key.secret.len);
	return 0;
}

/* Each with its length, so that no two lists look the same. */
static void digest_text(const char *text, struct str *out)
{
	str_addf(out, "%zu:%s", text ? strlen(text) : 0, text ? text : "");
}

static void digest_urls(const void *field, struct str *out)
{
	const struct push_remote *remote = field;

	digest_text(remote->name, out);
	str_addf(out, "\n%zu", remote->urls.count);
	for (size_t i = 0; i < remote->urls.count; i++) {
		digest_text(remote->urls.items[i].template, out);
		digest_text(remote->urls.items[i].uri_user, out);
	}
}

static void digest_specs(const void *field, struct str *out)
{
	const struct push_remote *remote = field;

	str_addf(out, "\n%zu", remote->specs.count);
	for (size_t i = 0; i < remote->specs.count; i++) {
		AUTO_STR struct str spec = STR_INIT;
		push_spec_render(&remote->specs.items[i], &spec);
		digest_text(spec.data, out);
	}
}

static void digest_patterns(const void *field, struct str *out)
{
	const name_patterns *patterns = field;

	str_addf(out, "\n%zu", patterns->count);
	for (size_t i = 0; i < patterns->count; i++)
		name_pattern_render(patterns->items[i], out);
}

/* Ends the lists. */
static void digest_style(const void *field, struct str *out)
{
	str_addf(out, "\n%d", (int)*(const enum name_style *)field);
}

static void digest_bool(const void *field, struct str *out)
{
	str_addf(out, " %d", *(const bool *)field);
}

#define PLACE(member) offsetof(struct settings_reader, member)
#define AT(kind, member) SETTING_AT(kind, struct settings_reader, member)
#define TIME(member, initial) AT(DURATION, member), initial, .read = read_time
#define COUNT(member, initial) AT(NUMBER, member), initial, .read = read_count
#define COUNT_OR_LESS(member, initial)                                                   \
	AT(NUMBER, member), initial, .read = read_count_or_less
#define TEXT(member, initial) AT(TEXT, member), initial, .read = read_filled
#define PATH(member) AT(PATH, member), .read = read_filled
#define PATTERNS(member)                                                                 \
	.offset = PLACE(member), .read = name_patterns_read, .is_repeated = true,        \
	.digest = digest_patterns
#define FOR_PULL .type = SETTING_IGNORED, .remark = pull_remark

static const char pull_remark[] = "it is for pull replication; a push does not use it";

/* What decides which tasks an event makes has a digest; the order is part of that. */
static const struct setting remote_rows[] = {
	{ "url", .offset = PLACE(remote), .digest = digest_urls },
	{ "adminUrl", .type = SETTING_OWN },
	{ "push", .offset = PLACE(remote), .read = read_spec, .is_repeated = true,
	  .digest = digest_specs },
	{ "projects", PATTERNS(remote.projects) },
	{ "excludeProjects", PATTERNS(remote.excluded_projects) },
	{ "excludedRefsPattern", .offset = PLACE(remote.excluded_refs),
	  .read = read_excluded_ref, .is_repeated = true, .digest = digest_patterns },
	{ "remoteNameStyle", AT(CHOICE, remote.style), "slash", .read = read_style,
	  .digest = digest_style,
	  .words = (const char *const[]){ "slash", "dash", "underscore", "basenameOnly",
					  NULL } },
	{ "replicatePermissions", AT(BOOL, remote.replicates_permissions), "true",
	  .digest = digest_bool },
	{ "replicateProjectDeletions", AT(BOOL, remote.replicates_deletions), "false",
	  .digest = digest_bool },
	{ "mirror", AT(BOOL, remote.mirrors), "false", .digest = digest_bool },
	{ "replicateNoteDbMetaRefs", AT(BOOL, remote.replicates_note_db_meta), "true",
	  .digest = digest_bool },
	{ "createMissingRepositories", AT(BOOL, remote.creates_missing), "true" },
	{ "storeRefLog", AT(BOOL, remote.stores_ref_log), "false" },
	{ "threads", COUNT_OR_LESS(remote.threads, "1"), .min = 1, .max = 1024 },
	{ "timeout", TIME(remote.silence_ms, "15m"),
	  .remark = "a push that stalls is never ended, and holds up its URI" },
	{ "replicationDelay", TIME(remote.delay_ms, "15s") },
	{ "rescheduleDelay", TIME(remote.reschedule_ms, "3s"), .min = 3 * CONF_SECOND },
	{ "replicationRetry", TIME(remote.retry_ms, "1m"), .unit = CONF_MINUTE,
	  .remark = "the first retry comes after 1 s, not at once" },
	{ "replicationMaxRetries", COUNT(remote.max_retries, NULL) },
	{ "drainQueueAttempts", COUNT_OR_LESS(remote.drain_attempts, "0") },
	{ "pushBatchSize", COUNT_OR_LESS(remote.batch_size, NULL) },
	{ "slowLatencyThreshold", TIME(remote.slow_ms, "15m") },
	{ "receivepack", TEXT(remote.receive_pack, NULL) },
	{ "uploadpack", TEXT(remote.upload_pack, NULL) },
	{ "gitPath", TEXT(remote.git_path, "git") },
	{ "sshKey", PATH(remote.ssh_key), .is_own = true },
	{ "sshKnownHosts", PATH(remote.ssh_known_hosts), .is_own = true },
	{ "caFile", PATH(remote.ca_file), .is_own = true },
	{ "authGroup", .type = SETTING_IGNORED,
	  .remark = "there are no groups here: all that projects and push take is "
		    "replicated, whoever may read it in Gerrit" },
	{ "replicateHiddenProjects", .type = SETTING_IGNORED,
	  .remark = "no project is hidden here: all that projects takes are "
		    "replicated" },
	{ "fetch", .type = SETTING_IGNORED,
	  .remark = "a remote with fetch is one of pull replication: nothing is pushed "
		    "to it" },
	{ "apiUrl", FOR_PULL },
	{ "fetchEvery", FOR_PULL },
	{ "connectionTimeout", FOR_PULL },
	{ "idleTimeout", FOR_PULL },
	{ "enableBatchedRefs", FOR_PULL },
	{ 0 },
};

static const struct setting replication_rows[] = {
	{ "config", .is_own = true },
	{ "eventsDirectory", AT(TEXT, settings.directory), .read = read_directory,
	  .at_start = true, .is_own = true },
	{ "distributionInterval", TIME(settings.interval_ms, "0"), .is_own = true },
	{ "randomDelay", TIME(settings.random_ms, NULL), .is_own = true },
	{ "maxRetries", COUNT(max_retries, "0") },
	{ "lockErrorMaxRetries", .offset = PLACE(settings.lock_max_retries),
	  .read = read_count_or_less },
	/* Behind the one that it wins over. */
	{ "updateRefErrorMaxRetries", .offset = PLACE(settings.lock_max_retries),
	  .read = read_count_or_less },
	{ "repositoryTransfers", AT(NUMBER, settings.repository_transfers), "4",
	  .read = read_transfers, .min = 1, .max = 1024, .is_own = true },
	{ "bytesInFlight", AT(SIZE, settings.bytes_in_flight), .is_own = true },
	{ "webhook", AT(TEXT, settings.webhook), .read = read_webhook, .is_own = true },
	{ "webhookSecretFile", .read = read_webhook_secret, .is_own = true },
	{ "webhookCaFile", PATH(settings.webhook_ca_file), .is_own = true },
	{ "secureConfig", .is_own = true },
	{ "sshConfig", PATH(settings.ssh_config), .is_own = true },
	{ "rsyncPath", .type = SETTING_IGNORED,
	  .remark = "rsync is not used: git sends all packs" },
	{ "maxApiPayloadSize", FOR_PULL },
	{ "maxApiHistoryDepth", FOR_PULL },
	{ "refsBatchSize", FOR_PULL },
	{ "useCGitClient", FOR_PULL },
	{ "excludeRefs", FOR_PULL },
	{ "syncRefs", FOR_PULL },
	{ "fallbackToApplyObjectsRefs", FOR_PULL },
	{ "applyObjectBannedCreateRefs", FOR_PULL },
	{ "shutDownDrainTimeout", FOR_PULL },
	{ "maxConnectionsPerRoute", FOR_PULL },
	{ "maxConnections", FOR_PULL },
	{ "consumeStreamEvents", FOR_PULL },
	{ "eventBrokerTopic", FOR_PULL },
	{ "eventBrokerGroupId", FOR_PULL },
	{ 0 },
};

static const struct setting gerrit_rows[] = {
	{ "replicateOnStartup", AT(BOOL, settings.replicates_on_startup), "false" },
	{ "defaultForceUpdate", AT(BOOL, forces), "false" },
	{ "maxRefsToLog", COUNT_OR_LESS(settings.max_refs_to_log, "0") },
	{ "maxRefsToShow", COUNT_OR_LESS(settings.max_refs_to_show, "2") },
	{ "pushBatchSize", COUNT_OR_LESS(batch_size, "0") },
	{ "sshCommandTimeout", TIME(settings.ssh_command_ms, "0") },
	{ "sshConnectionTimeout", TIME(settings.ssh_connect_ms, "2m"),
	  .unit = CONF_MILLISECOND },
	{ "autoReload", .type = SETTING_IGNORED,
	  .remark = "files are read again when the node gets SIGHUP, never by "
		    "themselves" },
	{ "useLegacyCredentials", .type = SETTING_IGNORED,
	  .remark = "secure.config is always read as the file that it is" },
	{ 0 },
};

const struct setting_table push_settings_tables[PUSH_SECTIONS] = {
	[PUSH_REMOTE] = { "remote", remote_rows, .has_subsection = true,
			  .is_lenient = true },
	[PUSH_REPLICATION] = { "replication", replication_rows, .is_lenient = true },
	[PUSH_GERRIT] = { "gerrit", gerrit_rows, .is_lenient = true },
};

/* An own key of a remote may also stand in our file, by the remote's name. */
static const struct conf_list *entries_of(const struct settings_reader *reader,
					  enum push_section section,
					  const struct setting *row)
{
	const char *name = push_settings_tables[section].section;
	bool is_remote = section == PUSH_REMOTE;
	const struct conf_list *own = conf_get_all(
		reader->own, name, is_remote ? reader->remote.name : NULL, row->key);

	if (row->is_own && own->count > 0)
		return own;
	return is_remote ? conf_get_all(reader->source->conf, name,
					reader->source->subsection, row->key)
			 : conf_get_all(reader->main, name, NULL, row->key);
}

const struct conf_entry *settings_get(const struct settings_reader *reader,
				      enum push_section section, const char *key)
{
	const struct conf_list *all = entries_of(
		reader, section, setting_find(&push_settings_tables[section], key));

	return all->count > 0 ? all->items[all->count - 1] : NULL;
}

/* Reads a section, or reader->remote. */
static int settings_read_section(struct settings_reader *reader,
				 enum push_section section, struct err *err)
{
	const struct setting_table *table = &push_settings_tables[section];

	settings_init(table, reader);
	for (const struct setting *row = table->rows; row->key; row++)
		if (setting_read_all(row, entries_of(reader, section, row), reader,
				     err) != 0)
			return -1;
	return 0;
}

struct push_settings *push_settings_ref(struct push_settings *settings)
{
	__atomic_add_fetch(&settings->references, 1, __ATOMIC_RELAXED);
	return settings;
}

static void push_remote_clear(struct push_remote *remote)
{
	free(remote->name);
	push_urls_clear(remote->urls.items, remote->urls.count);
	vec_clear(&remote->urls);
	push_urls_clear(remote->admin_urls.items, remote->admin_urls.count);
	vec_clear(&remote->admin_urls);
	vec_clear_each(&remote->specs, push_spec_clear);
	name_patterns_clear(&remote->projects);
	name_patterns_clear(&remote->excluded_projects);
	name_patterns_clear(&remote->excluded_refs);
	free(remote->receive_pack);
	free(remote->upload_pack);
	free(remote->git_path);
	free(remote->ssh_key);
	free(remote->ssh_known_hosts);
	free(remote->ca_file);
}

void push_settings_unref(struct push_settings *settings)
{
	if (!settings ||
	    __atomic_sub_fetch(&settings->references, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	vec_clear_each(&settings->remotes, push_remote_clear);
	vec_clear_owned(&settings->notes);
	free(settings->directory);
	free(settings->ssh_config);
	free(settings->webhook);
	free(settings->webhook_ca_file);
	str_clear(&settings->webhook_secret);
	free(settings);
}

const struct push_remote *push_remote_find(const struct push_settings *settings,
					   const char *name)
{
	for (size_t i = 0; i < settings->remotes.count; i++)
		if (strcmp(settings->remotes.items[i].name, name) == 0)
			return &settings->remotes.items[i];
	return NULL;
}

bool push_remote_is_named(const char *const *names, const char *remote)
{
	for (size_t i = 0; names && names[i]; i++)
		if (strcmp(names[i], remote) == 0)
			return true;
	return !names;
}

int64_t push_delay_ms(const struct push_settings *settings,
		      const struct push_remote *remote)
{
	return remote->delay_ms > settings->interval_ms ? remote->delay_ms
							: settings->interval_ms;
}

bool push_remote_takes(const struct push_remote *remote, const char *project)
{
	if (name_patterns_leave_out(&remote->excluded_projects, project))
		return false;
	return remote->projects.count == 0 ||
	       name_patterns_take(&remote->projects, project);
}

static bool is_note_db_meta(const char *ref)
{
	if (text_starts_with(ref, "refs/changes/"))
		return text_ends_with(ref, "/meta") ||
		       text_ends_with(ref, "/robot-comments");
	return text_starts_with(ref, "refs/draft-comments/") ||
	       text_starts_with(ref, "refs/starred-changes/");
}

bool push_remote_leaves_out_permissions(const struct push_remote *remote, const char *ref)
{
	return !remote->replicates_permissions && ref &&
	       strcmp(ref, "refs/meta/config") == 0;
}

static bool leaves_out(const struct push_remote *remote, const char *ref)
{
	return text_starts_with(ref, "refs/cache-automerge/") ||
	       text_starts_with(ref, "refs/refrelay/") ||
	       push_remote_leaves_out_permissions(remote, ref) ||
	       (!remote->replicates_note_db_meta && is_note_db_meta(ref)) ||
	       name_patterns_leave_out(&remote->excluded_refs, ref);
}

bool push_remote_maps(const struct push_remote *remote, const char *ref, char **dst,
		      bool *force)
{
	if (leaves_out(remote, ref))
		return false;
	for (size_t i = 0; i < remote->specs.count; i++) {
		if (!push_spec_maps(&remote->specs.items[i], ref, dst))
			continue;
		*force = remote->specs.items[i].force;
		return true;
	}
	return false;
}

bool push_remote_takes_ref(const struct push_remote *remote, const char *ref)
{
	AUTO_FREE char *dst = NULL;
	bool force;

	return push_remote_maps(remote, ref, &dst, &force);
}

static void note_batches(struct settings_reader *reader, enum push_section section)
{
	const struct conf_entry *entry = settings_get(reader, section, "pushBatchSize");

	if (entry)
		settings_note(reader, entry,
			      "pushes are not split, since there is a "
			      "replication.distributionInterval");
}

static void note_leftovers(struct settings_reader *reader)
{
	AUTO_FREE char *left = xasprintf("%s/data/replication/ref-updates", reader->site);

	if (access(left, F_OK) == 0)
		vec_add(&reader->settings.notes,
			xasprintf("%s has tasks that Gerrit left, and is not read: set "
				  "replication.eventsDirectory to %s/data/replication to "
				  "go on with them",
				  left, reader->site));
}

/* [gerrit] and [replication]. */
static int read_sections(struct settings_reader *reader, struct err *err)
{
	struct push_settings *settings = &reader->settings;

	settings->bytes_in_flight = process_memory_limit() / 2;
	settings->lock_max_retries = -1;
	settings->random_ms = -1; /* not said */
	if (settings_read_section(reader, PUSH_GERRIT, err) != 0 ||
	    settings_read_section(reader, PUSH_REPLICATION, err) != 0)
		return -1;
	/* It spreads work over nodes: one that works alone gains nothing by it. */
	if (settings->random_ms < 0)
		settings->random_ms = settings->interval_ms > 0 ? CONF_SECOND : 0;
	if (!settings->directory && reader->site)
		note_leftovers(reader);
	if (!settings->directory)
		settings->directory = push_default_directory(reader->data);
	if (reader->batch_size > 0 && settings->interval_ms > 0)
		note_batches(reader, PUSH_GERRIT);
	return 0;
}

static const struct conf_entry *first_entry(const struct remote_source *source)
{
	const struct conf_list *all = conf_entries(source->conf);

	for (size_t i = 0; i < all->count; i++)
		if (remote_source_has(source, all->items[i]))
			return all->items[i];
	return NULL;
}

/* It stands in task files, rows, metrics and log lines. */
static int push_remote_check_name(const struct conf_entry *entry, const char *name,
				  struct err *err)
{
	bool is_plain =
		name[0] && strlen(name) <= 200 && text_is_utf8(name, strlen(name));

	for (const char *at = name; *at && is_plain; at++)
		is_plain = (unsigned char)*at >= ' ' && *at != 0x7f;
	return is_plain
		       ? 0
		       : conf_error(entry, err,
				    "a remote's name is UTF-8 of 1 to 200 bytes, without "
				    "control characters");
}

/* Whether something is pushed to it; a note says why not. */
static bool is_push_remote(struct settings_reader *reader, const struct conf_entry *first)
{
	const struct remote_source *source = reader->source;
	const struct conf_list *urls =
		conf_get_all(source->conf, "remote", source->subsection, "url");

	if (settings_get(reader, PUSH_REMOTE, "fetch"))
		return false; /* the key has its remark */
	for (size_t i = 0; i < urls->count; i++)
		if (!urls->items[i]->value || urls->items[i]->value[0])
			return true;
	settings_note(reader, first, "remote %s has no url: nothing is pushed to it",
		      source->name);
	return false;
}

/* Where git is at the destination is also where its other programs are. */
static void beside_git(const struct push_remote *remote, const char *program,
		       char **value)
{
	const char *slash = strrchr(remote->git_path, '/');

	if (!*value && slash)
		*value = xasprintf("%.*s/%s", (int)(slash - remote->git_path),
				   remote->git_path, program);
}

static int read_values(struct settings_reader *reader, struct err *err)
{
	struct push_remote *remote = &reader->remote;

	remote->max_retries = reader->max_retries;
	remote->batch_size = reader->batch_size;
	if (settings_read_section(reader, PUSH_REMOTE, err) != 0 ||
	    settings_read_urls(reader, err) != 0)
		return -1;
	if (remote->specs.count == 0) {
		const struct push_spec all = { .src = xstrdup("refs/*"),
					       .dst = xstrdup("refs/*"),
					       .force = reader->forces };
		vec_add(&remote->specs, all);
	}
	beside_git(remote, "git-receive-pack", &remote->receive_pack);
	beside_git(remote, "git-upload-pack", &remote->upload_pack);
	if (remote->batch_size > 0 && reader->settings.interval_ms > 0) {
		note_batches(reader, PUSH_REMOTE);
		remote->batch_size = 0;
	}
	settings_digest(&push_settings_tables[PUSH_REMOTE], reader, &reader->digested);
	str_add_char(&reader->digested, '\n');
	return 0;
}

static int read_remote(struct settings_reader *reader, struct err *err)
{
	const struct conf_entry *first = first_entry(reader->source);
	struct push_settings *settings = &reader->settings;
	struct push_remote *remote = &reader->remote;
	bool is_used;
	int result;

	*remote = (struct push_remote){ .name = xstrdup(reader->source->name),
					.first_note = settings->notes.count };
	result = first ? push_remote_check_name(first, remote->name, err) : 0;
	is_used = first && result == 0 && is_push_remote(reader, first);
	if (is_used)
		result = read_values(reader, err);
	settings_note_remote(reader);
	remote->notes = settings->notes.count - remote->first_note;
	if (result == 0 && is_used)
		vec_add(&settings->remotes, *remote);
	else
		push_remote_clear(remote);
	return result;
}

static int read_remotes(struct settings_reader *reader, struct err *err)
{
	int result = 0;

	for (size_t i = 0; i < reader->sources.count && result == 0; i++) {
		reader->source = &reader->sources.items[i];
		result = read_remote(reader, err);
	}
	return result;
}

static void make_digest(struct settings_reader *reader)
{
	AUTO_STR struct str hex = STR_INIT;

	hash_add_hex(HASH_SHA256, reader->digested.data, reader->digested.len,
		     hash_size(HASH_SHA256), &hex);
	memcpy(reader->settings.digest, hex.data, sizeof(reader->settings.digest));
}

static int push_settings_read_all(struct settings_reader *reader, struct err *err)
{
	if (settings_open_files(reader, err) != 0)
		return -1;
	settings_note_keys(reader);
	if (read_sections(reader, err) != 0 || read_remotes(reader, err) != 0)
		return -1;
	make_digest(reader);
	return 0;
}

int push_settings_read(const struct conf *conf, const char *data,
		       struct push_settings **settings, struct err *err)
{
	struct settings_reader reader = {
		.own = conf,
		.data = data,
		.settings = { .webhook_secret = STR_INIT, .references = 1 },
		.digested = STR_INIT,
	};
	int result = push_settings_read_all(&reader, err);
	struct push_settings *made = xmalloc(sizeof(*made));

	*made = reader.settings;
	settings_close_files(&reader);
	str_clear(&reader.digested);
	if (result == 0)
		*settings = made;
	else
		push_settings_unref(made);
	return result;
}
