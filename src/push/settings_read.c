#include "push/settings_parts.h"
#include "wire/wire_token.h"

#include "push/keys.h"

static int read_gerrit(struct settings_reader *reader, struct err *err)
{
	struct push_settings *settings = reader->settings;
	const struct conf *conf = reader->main;

	if (conf_read_bool(conf_get(conf, "gerrit", NULL, "replicateOnStartup"),
			   &settings->replicates_on_startup, err) != 0 ||
	    conf_read_bool(conf_get(conf, "gerrit", NULL, "defaultForceUpdate"),
			   &reader->forces, err) != 0 ||
	    settings_read_count_or_less(conf_get(conf, "gerrit", NULL, "maxRefsToLog"),
					&settings->max_refs_to_log, err) != 0 ||
	    settings_read_count_or_less(conf_get(conf, "gerrit", NULL, "maxRefsToShow"),
					&settings->max_refs_to_show, err) != 0 ||
	    settings_read_count_or_less(conf_get(conf, "gerrit", NULL, "pushBatchSize"),
					&reader->batch_size, err) != 0 ||
	    settings_read_time(conf_get(conf, "gerrit", NULL, "sshCommandTimeout"),
			       CONF_SECOND, &settings->ssh_command_ms, err) != 0)
		return -1;
	return settings_read_time(conf_get(conf, "gerrit", NULL, "sshConnectionTimeout"),
				  CONF_MILLISECOND, &settings->ssh_connect_ms, err);
}

static void note_batches(struct settings_reader *reader)
{
	const struct conf_entry *entry =
		conf_get(reader->main, "gerrit", NULL, "pushBatchSize");

	if (reader->batch_size > 0 && reader->settings->interval_ms > 0)
		settings_note(reader->settings, entry,
			      "pushes are not split, since there is a "
			      "replication.distributionInterval");
}

static int read_lock_retries(struct settings_reader *reader, struct err *err)
{
	const struct conf_entry *entry =
		conf_get(reader->main, "replication", NULL, "updateRefErrorMaxRetries");
	uint64_t retries;

	if (!entry)
		entry = conf_get(reader->main, "replication", NULL,
				 "lockErrorMaxRetries");
	if (!entry)
		return 0;
	if (settings_read_count_or_less(entry, &retries, err) != 0)
		return -1;
	reader->settings->lock_max_retries = (int64_t)retries;
	return 0;
}

static int read_limits(struct settings_reader *reader, struct err *err)
{
	struct push_settings *settings = reader->settings;
	const struct conf_entry *entry =
		settings_own(reader, "replication", NULL, "repositoryTransfers");
	uint64_t transfers = settings->repository_transfers;

	if (conf_read_uint(entry, 1, 1024, &transfers, err) != 0 ||
	    conf_read_size(settings_own(reader, "replication", NULL, "bytesInFlight"),
			   &settings->bytes_in_flight, err) != 0)
		return -1;
	settings->repository_transfers = transfers;
	return 0;
}

static void note_leftovers(struct settings_reader *reader)
{
	AUTO_FREE char *left = xasprintf("%s/data/replication/ref-updates", reader->site);

	if (access(left, F_OK) == 0)
		vec_add(&reader->settings->notes,
			xasprintf("%s has tasks that Gerrit left, and is not read: set "
				  "replication.eventsDirectory to %s/data/replication to "
				  "go on with them",
				  left, reader->site));
}

/* A relative path counts from Gerrit's site in Gerrit's file, else from site.data. */
static int push_settings_read_directory(struct settings_reader *reader, struct err *err)
{
	const struct conf_entry *own =
		conf_get(reader->own, "replication", NULL, "eventsDirectory");
	const struct conf_entry *entry =
		settings_own(reader, "replication", NULL, "eventsDirectory");
	const char *base = reader->site && !own ? reader->site : reader->data;
	AUTO_FREE char *path = NULL;

	if (settings_read_text(entry, &path, err) != 0)
		return -1;
	if (!path && reader->site)
		note_leftovers(reader);
	if (!path)
		reader->settings->directory = xasprintf("%s/replication", reader->data);
	else if (path[0] == '/')
		reader->settings->directory = TAKE(path);
	else
		reader->settings->directory = xasprintf("%s/%s", base, path);
	return 0;
}

static int read_webhook(struct settings_reader *reader, struct err *err)
{
	struct push_settings *settings = reader->settings;
	const struct conf_entry *entry =
		settings_own(reader, "replication", NULL, "webhook");
	const struct conf_entry *secret =
		settings_own(reader, "replication", NULL, "webhookSecretFile");
	AUTO_SITE_KEY struct site_key key = { .secret = STR_INIT };
	AUTO_FREE char *file = NULL;

	if (settings_read_text(entry, &settings->webhook, err) != 0 ||
	    settings_read_path(secret, &file, err) != 0)
		return -1;
	if (settings->webhook && !text_starts_with(settings->webhook, "http://") &&
	    !text_starts_with(settings->webhook, "https://"))
		return conf_error(entry, err, "it is a URL of http or https");
	if (!file)
		return 0;
	if (site_key_read("webhook", file, &key, err) != 0)
		return -1;
	str_add_bytes(&settings->webhook_secret, key.secret.data, key.secret.len);
	return 0;
}

static int read_replication(struct settings_reader *reader, struct err *err)
{
	struct push_settings *settings = reader->settings;

	if (settings_read_time(
		    settings_own(reader, "replication", NULL, "distributionInterval"),
		    CONF_SECOND, &settings->interval_ms, err) != 0)
		return -1;
	/* It spreads work over nodes: one that works alone gains nothing by it. */
	if (settings->interval_ms > 0)
		settings->random_ms = CONF_SECOND;
	if (settings_read_time(settings_own(reader, "replication", NULL, "randomDelay"),
			       CONF_SECOND, &settings->random_ms, err) != 0 ||
	    settings_read_path(settings_own(reader, "replication", NULL, "sshConfig"),
			       &settings->ssh_config, err) != 0 ||
	    settings_read_count(conf_get(reader->main, "replication", NULL, "maxRetries"),
				&reader->max_retries, err) != 0 ||
	    read_lock_retries(reader, err) != 0 || read_limits(reader, err) != 0 ||
	    read_webhook(reader, err) != 0)
		return -1;
	return push_settings_read_directory(reader, err);
}

static int read_remotes(struct settings_reader *reader, struct err *err)
{
	struct push_settings *settings = reader->settings;

	for (size_t i = 0; i < reader->sources.count; i++) {
		const struct remote_source *source = &reader->sources.items[i];
		struct push_remote remote;
		bool is_used;
		int result = settings_read_remote(reader, source, &remote, &is_used, err);

		settings_note_remote(reader, source);
		remote.notes = settings->notes.count - remote.first_note;
		if (result == 0 && is_used)
			vec_add(&settings->remotes, remote);
		else
			push_remote_clear(&remote);
		if (result != 0)
			return -1;
	}
	return 0;
}

static int push_settings_read_all(struct settings_reader *reader, struct err *err)
{
	if (settings_open_files(reader, err) != 0)
		return -1;
	settings_note_keys(reader);
	if (read_gerrit(reader, err) != 0 || read_replication(reader, err) != 0)
		return -1;
	note_batches(reader);
	if (read_remotes(reader, err) != 0)
		return -1;
	settings_make_digest(reader->settings);
	return 0;
}

static uint64_t half_of_memory(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size / 2 : 0;
}

int push_settings_read(const struct conf *conf, const char *data,
		       struct push_settings **settings, struct err *err)
{
	struct settings_reader reader = { .own = conf, .data = data };
	int result;

	reader.settings = xcalloc(1, sizeof(*reader.settings));
	*reader.settings = (struct push_settings){
		.max_refs_to_show = 2,
		.ssh_connect_ms = 2 * CONF_MINUTE,
		.lock_max_retries = -1,
		.repository_transfers = 4,
		.bytes_in_flight = half_of_memory(),
		.webhook_secret = STR_INIT,
		.references = 1,
	};
	result = push_settings_read_all(&reader, err);
	settings_close_files(&reader);
	if (result == 0)
		*settings = reader.settings;
	else
		push_settings_unref(reader.settings);
	return result;
}

bool push_is_configured(const struct conf *conf)
{
	const struct conf_list *all = conf_entries(conf);

	for (size_t i = 0; i < all->count; i++)
		if (push_has_section(all->items[i]))
			return true;
	return false;
}
