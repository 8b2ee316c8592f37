#include "push/settings.h"

#include "base/hash.h"
#include "push/pattern.h"
#include "push/settings_parts.h"
#include "push/spec.h"

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
	for (size_t i = 0; i < remote->specs.count; i++)
		push_spec_clear(&remote->specs.items[i]);
	vec_clear(&remote->specs);
	name_patterns_clear(&remote->projects);
	name_patterns_clear(&remote->excluded_projects);
	name_patterns_clear(&remote->excluded_refs);
	free(remote->receive_pack);
	free(remote->upload_pack);
	free(remote->git_path);
	free(remote->ssh_key);
	free(remote->ssh_known_hosts);
}

void push_settings_unref(struct push_settings *settings)
{
	if (!settings ||
	    __atomic_sub_fetch(&settings->references, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	for (size_t i = 0; i < settings->remotes.count; i++)
		push_remote_clear(&settings->remotes.items[i]);
	vec_clear(&settings->remotes);
	for (size_t i = 0; i < settings->notes.count; i++)
		free(settings->notes.items[i]);
	vec_clear(&settings->notes);
	free(settings->directory);
	free(settings->ssh_config);
	free(settings->webhook);
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

static bool leaves_out(const struct push_remote *remote, const char *ref)
{
	return text_starts_with(ref, "refs/cache-automerge/") ||
	       text_starts_with(ref, "refs/refrelay/") ||
	       (!remote->replicates_permissions &&
		strcmp(ref, "refs/meta/config") == 0) ||
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

static uint64_t half_of_memory(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size / 2 : 0;
}

/* [gerrit] and [replication]. */
static int read_sections(struct settings_reader *reader, struct err *err)
{
	struct push_settings *settings = &reader->settings;

	settings->bytes_in_flight = half_of_memory();
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
		settings->directory = xasprintf("%s/replication", reader->data);
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
	AUTO_HASH struct hash hash;
	unsigned char digest[HASH_MAX_SIZE];

	hash_init(&hash, HASH_SHA256);
	hash_add(&hash, reader->digested.data, reader->digested.len);
	hash_end(&hash, digest);
	str_add_hex(&hex, digest, hash_size(HASH_SHA256));
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
