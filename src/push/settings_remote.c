#include "push/settings_parts.h"

#include <strings.h>

#define SILENCE_MS (15 * (int64_t)CONF_MINUTE)
#define RESCHEDULE_LEAST_MS (3 * (int64_t)CONF_SECOND)
#define THREADS_MOST 1024

static const struct conf_entry *settings_remote_get_entry(const struct remote_reader *at,
							  const char *key)
{
	return conf_get(at->source->conf, "remote", at->source->subsection, key);
}

/* An own key may also stand in our file, by the remote's name. */
static const struct conf_entry *get_own(const struct remote_reader *at, const char *key)
{
	const struct conf_entry *entry =
		conf_get(at->reader->own, "remote", at->remote->name, key);

	return entry ? entry : settings_remote_get_entry(at, key);
}

static int read_times(struct remote_reader *at, struct err *err)
{
	struct push_remote *remote = at->remote;
	const struct {
		const char *key;
		enum conf_unit bare;
		int64_t *value_ms;
	} times[] = {
		{ "timeout", CONF_SECOND, &remote->silence_ms },
		{ "replicationDelay", CONF_SECOND, &remote->delay_ms },
		{ "rescheduleDelay", CONF_SECOND, &remote->reschedule_ms },
		{ "replicationRetry", CONF_MINUTE, &remote->retry_ms },
		{ "slowLatencyThreshold", CONF_SECOND, &remote->slow_ms },
	};

	for (size_t i = 0; i < ARRAY_SIZE(times); i++)
		if (settings_read_time(settings_remote_get_entry(at, times[i].key),
				       times[i].bare, times[i].value_ms, err) != 0)
			return -1;
	return 0;
}

static void judge_times(struct remote_reader *at)
{
	struct push_settings *settings = at->reader->settings;
	struct push_remote *remote = at->remote;

	if (remote->silence_ms == 0)
		settings_note(settings, settings_remote_get_entry(at, "timeout"),
			      "a push that stalls is never ended, and holds up its URI");
	if (remote->retry_ms == 0)
		settings_note(settings, settings_remote_get_entry(at, "replicationRetry"),
			      "the first retry comes after 1 s, not at once");
	if (remote->reschedule_ms >= RESCHEDULE_LEAST_MS)
		return;
	remote->reschedule_ms = RESCHEDULE_LEAST_MS;
	settings_note(settings, settings_remote_get_entry(at, "rescheduleDelay"),
		      "it is raised to 3 s");
}

static int read_bools(struct remote_reader *at, struct err *err)
{
	struct push_remote *remote = at->remote;
	const struct {
		const char *key;
		bool *value;
	} bools[] = {
		{ "createMissingRepositories", &remote->creates_missing },
		{ "replicatePermissions", &remote->replicates_permissions },
		{ "replicateProjectDeletions", &remote->replicates_deletions },
		{ "mirror", &remote->mirrors },
		{ "replicateNoteDbMetaRefs", &remote->replicates_note_db_meta },
		{ "storeRefLog", &remote->stores_ref_log },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bools); i++)
		if (conf_read_bool(settings_remote_get_entry(at, bools[i].key),
				   bools[i].value, err) != 0)
			return -1;
	return 0;
}

static int read_batch_size(struct remote_reader *at, struct err *err)
{
	const struct conf_entry *entry = settings_remote_get_entry(at, "pushBatchSize");
	uint64_t size = at->reader->batch_size;

	if (settings_read_count_or_less(entry, &size, err) != 0)
		return -1;
	if (size > 0 && at->reader->settings->interval_ms > 0) {
		if (entry)
			settings_note(at->reader->settings, entry,
				      "pushes are not split, since there is a "
				      "replication.distributionInterval");
		size = 0;
	}
	at->remote->batch_size = size;
	return 0;
}

static int read_threads(struct remote_reader *at, struct err *err)
{
	const struct conf_entry *entry = settings_remote_get_entry(at, "threads");
	uint64_t threads = 1;

	if (settings_read_count_or_less(entry, &threads, err) != 0)
		return -1;
	if (threads > THREADS_MOST)
		return conf_error(entry, err, "it is a number from 1 to %d",
				  THREADS_MOST);
	if (threads == 0) {
		settings_note(at->reader->settings, entry, "it is raised to 1");
		threads = 1;
	}
	at->remote->threads = threads;
	return 0;
}

static int read_numbers(struct remote_reader *at, struct err *err)
{
	at->remote->max_retries = at->reader->max_retries;
	if (settings_read_count(settings_remote_get_entry(at, "replicationMaxRetries"),
				&at->remote->max_retries, err) != 0 ||
	    settings_read_count_or_less(
		    settings_remote_get_entry(at, "drainQueueAttempts"),
		    &at->remote->drain_attempts, err) != 0 ||
	    read_threads(at, err) != 0)
		return -1;
	return read_batch_size(at, err);
}

static void read_style(struct remote_reader *at)
{
	static const char *const words[] = { "slash", "dash", "underscore",
					     "basenameOnly", NULL };
	const struct conf_entry *entry = settings_remote_get_entry(at, "remoteNameStyle");

	if (!entry)
		return;
	for (size_t i = 0; words[i]; i++) {
		if (entry->value && strcmp(entry->value, words[i]) == 0) {
			at->remote->style = (enum name_style)i;
			return;
		}
	}
	settings_note(at->reader->settings, entry,
		      "it is none of slash, dash, underscore, basenameOnly: slash is "
		      "taken");
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

static int read_programs(struct remote_reader *at, struct err *err)
{
	struct push_remote *remote = at->remote;

	if (settings_read_text(settings_remote_get_entry(at, "receivepack"),
			       &remote->receive_pack, err) != 0 ||
	    settings_read_text(settings_remote_get_entry(at, "uploadpack"),
			       &remote->upload_pack, err) != 0 ||
	    settings_read_text(settings_remote_get_entry(at, "gitPath"),
			       &remote->git_path, err) != 0 ||
	    settings_read_path(get_own(at, "sshKey"), &remote->ssh_key, err) != 0)
		return -1;
	beside_git(remote, "git-receive-pack", &remote->receive_pack);
	beside_git(remote, "git-upload-pack", &remote->upload_pack);
	return settings_read_path(get_own(at, "sshKnownHosts"), &remote->ssh_known_hosts,
				  err);
}

static int read_values(struct remote_reader *at, struct err *err)
{
	if (remote_read_lists(at, err) != 0 ||
	    settings_read_urls(at->reader, at->source, at->remote, err) != 0 ||
	    read_times(at, err) != 0 || read_bools(at, err) != 0 ||
	    read_numbers(at, err) != 0 || read_programs(at, err) != 0)
		return -1;
	judge_times(at);
	read_style(at);
	return 0;
}

static const struct conf_entry *first_entry(const struct remote_source *source)
{
	const struct conf_list *all = conf_entries(source->conf);

	for (size_t i = 0; i < all->count; i++) {
		const struct conf_entry *entry = all->items[i];
		if (strcasecmp(entry->section, "remote") == 0 &&
		    (!source->subsection ||
		     (entry->subsection &&
		      strcmp(entry->subsection, source->subsection) == 0)))
			return entry;
	}
	return NULL;
}

/* It stands in task files, rows, metrics and log lines. */
static int settings_remote_check_name(const struct conf_entry *entry, const char *name,
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
static bool is_push_remote(const struct remote_reader *at, const struct conf_entry *first)
{
	const struct conf_list *urls = remote_get_all(at, "url");

	if (settings_remote_get_entry(at, "fetch"))
		return false; /* the key has its remark */
	for (size_t i = 0; i < urls->count; i++)
		if (!urls->items[i]->value || urls->items[i]->value[0])
			return true;
	settings_note(at->reader->settings, first,
		      "remote %s has no url: nothing is pushed to it", at->source->name);
	return false;
}

int settings_read_remote(struct settings_reader *reader,
			 const struct remote_source *source, struct push_remote *remote,
			 bool *is_used, struct err *err)
{
	const struct conf_entry *first = first_entry(source);
	struct remote_reader at = { .reader = reader,
				    .source = source,
				    .remote = remote };

	*remote = (struct push_remote){
		.name = xstrdup(source->name),
		.git_path = xstrdup("git"),
		.silence_ms = SILENCE_MS,
		.delay_ms = 15 * CONF_SECOND,
		.reschedule_ms = RESCHEDULE_LEAST_MS,
		.retry_ms = CONF_MINUTE,
		.slow_ms = 15 * CONF_MINUTE,
		.creates_missing = true,
		.replicates_permissions = true,
		.replicates_note_db_meta = true,
		.first_note = reader->settings->notes.count,
	};
	*is_used = false;
	if (!first)
		return 0;
	if (settings_remote_check_name(first, source->name, err) != 0)
		return -1;
	*is_used = is_push_remote(&at, first);
	return *is_used ? read_values(&at, err) : 0;
}
