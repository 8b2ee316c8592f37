/*
 * The files: ours alone; or Gerrit's replication.config, which ours names, with the
 * directory replication/ beside it, each file of which is one remote (its lines are
 * counted as Gerrit counts them); and secure.config. And what is said of their keys that
 * are not obeyed, and of unknown ones.
 */
#include <strings.h>

#include "base/file.h"
#include "net/uri_text.h"
#include "push/pattern.h"
#include "push/settings_parts.h"

static void push_url_clear(struct push_url *url)
{
	free(url->template);
	free(url->uri_user);
	free(url->user);
	if (url->password)
		explicit_bzero(url->password, strlen(url->password));
	free(url->password);
}

void push_urls_clear(struct push_url *urls, size_t count)
{
	for (size_t i = 0; i < count; i++)
		push_url_clear(&urls[i]);
}

static bool has_login(enum url_kind kind)
{
	return kind == URL_HTTP || kind == URL_GERRIT_HTTP;
}

static char *secret(const struct settings_reader *reader, const char *key)
{
	const struct conf_entry *entry =
		reader->secure
			? conf_get(reader->secure, "remote", reader->remote.name, key)
			: NULL;

	return entry && entry->value && entry->value[0] ? xstrdup(entry->value) : NULL;
}

static void take_credentials(struct settings_reader *reader,
			     const struct conf_entry *entry, const struct uri_text *uri,
			     struct push_url *url)
{
	if (uri->password && !has_login(uri->kind))
		settings_note(reader, entry,
			      "the password in the URL is not used: only HTTP has one");
	if (!has_login(uri->kind))
		return;
	if (uri->user)
		settings_note(reader, entry,
			      "%s taken out of the URL; better keep it in secure.config",
			      uri->password ? "user name and password are"
					    : "the user name is");
	url->uri_user = uri->user ? xstrdup(uri->user) : NULL;
	url->user = secret(reader, "username");
	url->password = secret(reader, "password");
	if (!url->user && uri->user)
		url->user = xstrdup(uri->user);
	if (!url->password && uri->password)
		url->password = xstrdup(uri->password);
}

static struct push_url settings_url_make(struct settings_reader *reader,
					 const struct conf_entry *entry,
					 const struct uri_text *uri)
{
	struct push_url url = { .template = uri_text_without_secrets(entry->value, uri) };

	take_credentials(reader, entry, uri, &url);
	return url;
}

static bool is_for_one_project(const struct push_remote *remote)
{
	return remote->projects.count == 1 &&
	       name_pattern_is_exact(remote->projects.items[0]);
}

static int settings_url_check(const struct push_remote *remote,
			      const struct conf_entry *entry, const struct uri_text *uri,
			      struct err *err)
{
	if (uri->kind == URL_GERRIT_SSH || uri->kind == URL_GERRIT_HTTP)
		return conf_error(entry, err,
				  "%s:// is for adminUrl: nothing can be pushed to it",
				  uri->scheme);
	if (uri_text_has_name(uri) || is_for_one_project(remote))
		return uri_text_check(uri, err) == 0 ? 0 : conf_prefix(entry, err);
	conf_error(entry, err, "the URL lacks ${name} in its path");
	return err_remedy(err, "add it, or let projects name exactly one repository");
}

static int read_url(struct settings_reader *reader, const struct conf_entry *entry,
		    struct err *err)
{
	AUTO_URI struct uri_text uri = { 0 };
	const char *text = NULL;

	if (conf_read_text(entry, &text, err) != 0)
		return -1;
	if (!text[0])
		return 0;
	if (uri_text_read(text, &uri, err) != 0)
		return conf_prefix(entry, err);
	if (settings_url_check(&reader->remote, entry, &uri, err) != 0)
		return -1;
	vec_add(&reader->remote.urls, settings_url_make(reader, entry, &uri));
	return 0;
}

/* NULL: it can be used. */
static const char *why_not_admin(const struct push_remote *remote,
				 const struct uri_text *uri)
{
	if (uri->kind == URL_GERRIT_SSH || uri->kind == URL_GERRIT_HTTP)
		return uri_text_check(uri, ERR_IGNORED) == 0 ? NULL : "it has no host";
	if (uri->kind != URL_SSH)
		return "only ssh, gerrit+ssh, gerrit+http and gerrit+https are supported";
	if (!uri_text_has_name(uri) && !is_for_one_project(remote))
		return "it lacks ${name}";
	return uri_text_check(uri, ERR_IGNORED) == 0 ? NULL : "it is not an ssh URL";
}

static void read_admin_url(struct settings_reader *reader, const struct conf_entry *entry)
{
	AUTO_URI struct uri_text uri = { 0 };
	struct err why_unread;
	const char *why;

	if (!entry->value || !entry->value[0])
		return;
	if (uri_text_read(entry->value, &uri, &why_unread) != 0)
		why = why_unread.text;
	else
		why = why_not_admin(&reader->remote, &uri);
	if (why) {
		settings_note(reader, entry, "it is not used: %s", why);
		return;
	}
	vec_add(&reader->remote.admin_urls, settings_url_make(reader, entry, &uri));
}

int settings_read_urls(struct settings_reader *reader, struct err *err)
{
	const struct remote_source *source = reader->source;
	const struct conf_list *urls =
		conf_get_all(source->conf, "remote", source->subsection, "url");
	const struct conf_list *admins =
		conf_get_all(source->conf, "remote", source->subsection, "adminUrl");

	for (size_t i = 0; i < urls->count; i++)
		if (read_url(reader, urls->items[i], err) != 0)
			return -1;
	for (size_t i = 0; i < admins->count; i++)
		read_admin_url(reader, admins->items[i]);
	return 0;
}

#define FILE_LIMIT ((size_t)16 << 20)

static char *settings_files_get_directory(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return xstrdup(".");
	return slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
}

/* Of the three; NULL: another section. */
static const struct setting_table *table_of(const struct conf_entry *entry)
{
	for (size_t i = 0; i < PUSH_SECTIONS; i++)
		if (strcasecmp(push_settings_tables[i].section, entry->section) == 0)
			return &push_settings_tables[i];
	return NULL;
}

bool push_is_configured(const struct conf *conf)
{
	const struct conf_list *all = conf_entries(conf);

	for (size_t i = 0; i < all->count; i++)
		if (table_of(all->items[i]))
			return true;
	return false;
}

/* Everything but own keys would stand in two files. */
static int check_only_own(const struct settings_reader *reader,
			  const struct conf_entry *names, struct err *err)
{
	const struct conf_list *all = conf_entries(reader->own);

	for (size_t i = 0; i < all->count; i++) {
		const struct conf_entry *entry = all->items[i];
		const struct setting_table *table = table_of(entry);
		const struct setting *row =
			table ? setting_find(table, entry->key) : NULL;
		if (!table || (row && row->is_own))
			continue;
		conf_error(entry, err, "%s:%u says that this stands in %s", names->file,
			   names->line, names->value);
		return err_remedy(err, "write it there, or take out replication.config");
	}
	return 0;
}

static int open_gerrit(struct settings_reader *reader, const struct conf_entry *entry,
		       struct err *err)
{
	AUTO_FREE char *path = NULL, *etc = NULL;

	if (settings_read_path(entry, &path, err) != 0)
		return -1;
	if (!path)
		return 0;
	if (check_only_own(reader, entry, err) != 0)
		return -1;
	if (conf_load(path, &reader->gerrit, err) != 0) {
		if (err->class != ERR_MISSING)
			return -1;
		return conf_error(entry, err, "no such file: %s", path);
	}
	etc = settings_files_get_directory(path);
	reader->site = settings_files_get_directory(etc);
	reader->main = reader->gerrit;
	return 0;
}

bool remote_source_has(const struct remote_source *source, const struct conf_entry *entry)
{
	return strcasecmp(entry->section, "remote") == 0 &&
	       !source->subsection == !entry->subsection &&
	       (!entry->subsection || strcmp(entry->subsection, source->subsection) == 0);
}

static void add_source(struct settings_reader *reader, const struct conf *conf,
		       const char *subsection, char *name)
{
	const struct remote_source source = { .conf = conf,
					      .subsection = subsection,
					      .name = name };

	vec_add(&reader->sources, source);
}

static void clear_sources(struct settings_reader *reader)
{
	vec_clear_members(&reader->sources, name);
}

static void list_sections(struct settings_reader *reader)
{
	struct conf_names names = { 0 };

	conf_subsections(reader->main, "remote", &names);
	for (size_t i = 0; i < names.count; i++)
		add_source(reader, reader->main, names.items[i], xstrdup(names.items[i]));
	vec_clear(&names);
}

/* How many lines have it, those of comments apart. */
static size_t count_lines(const char *text, const char *wanted)
{
	size_t count = 0;

	while (*text) {
		size_t len = strcspn(text, "\n"), blank = strspn(text, " \t");
		if (!strchr("#;", text[blank]) &&
		    memmem(text, len, wanted, strlen(wanted)))
			count++;
		text += len + (text[len] == '\n');
	}
	return count;
}

static void note_file(struct settings_reader *reader, const char *path, const char *text)
{
	vec_add(&reader->settings.notes, xasprintf("%s: %s", path, text));
}

static int add_fan(struct settings_reader *reader, const char *directory,
		   const char *file, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/%s", directory, file);
	AUTO_STR struct str text = STR_INIT;
	struct conf *conf = NULL;

	if (file_read_any(AT_FDCWD, path, FILE_LIMIT, &text, err) != 0)
		return -1;
	if (count_lines(text.data, "[remote \"") > 0 ||
	    count_lines(text.data, "[remote]") != 1) {
		note_file(reader, path,
			  "the file is not obeyed: it must have one [remote], without "
			  "a name");
		return 0;
	}
	if (conf_load_text(path, text.data, text.len, &conf, err) != 0)
		return -1;
	vec_add(&reader->fans, conf);
	add_source(reader, conf, NULL, xstrndup(file, strlen(file) - strlen(".config")));
	return 0;
}

static int settings_files_compare_by_name(const struct dirent **a,
					  const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static bool is_config(const char *file)
{
	return text_ends_with(file, ".config") && strlen(file) > strlen(".config");
}

static bool is_file(const char *directory, const char *file)
{
	AUTO_FREE char *path = xasprintf("%s/%s", directory, file);
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static void note_other(struct settings_reader *reader, const char *directory,
		       const char *file)
{
	AUTO_FREE char *path = xasprintf("%s/%s", directory, file);

	note_file(reader, path, "the file is not obeyed: its name is not NAME.config");
}

static int list_fans(struct settings_reader *reader, const char *directory,
		     struct err *err)
{
	struct dirent **files = NULL;
	int result = 0,
	    count = scandir(directory, &files, NULL, settings_files_compare_by_name);

	if (count < 0)
		return err_errno(err, "cannot list %s", directory);
	for (int i = 0; i < count; i++) {
		const char *file = files[i]->d_name;
		if (result == 0 && is_file(directory, file)) {
			if (is_config(file))
				result = add_fan(reader, directory, file, err);
			else
				note_other(reader, directory, file);
		}
		free(files[i]);
	}
	free(files);
	return result;
}

static int list_gerrit(struct settings_reader *reader, const char *config,
		       struct err *err)
{
	AUTO_FREE char *etc = settings_files_get_directory(config);
	AUTO_FREE char *directory = xasprintf("%s/replication", etc);
	struct stat st;

	list_sections(reader);
	if (stat(directory, &st) != 0 || !S_ISDIR(st.st_mode))
		return 0;
	if (reader->sources.count > 0)
		note_file(reader, config,
			  "its [remote] sections are not obeyed, since there is a "
			  "directory replication beside it");
	clear_sources(reader);
	return list_fans(reader, directory, err);
}

/* The file must be one that nobody else can read. */
static int load_secrets(const char *path, struct conf **conf, struct err *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	AUTO_FREE char *opened = xasprintf("/proc/self/fd/%d", fd);
	AUTO_STR struct str text = STR_INIT;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		return err_errno(err, "cannot open %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_CONFIG, "%s is not a regular file", path);
	if (st.st_mode & (S_IRWXG | S_IRWXO)) {
		err_set(err, ERR_CONFIG,
			"%s can be read or written by others (mode %04o)", path,
			st.st_mode & 07777);
		return err_remedy(err, "chmod 600 %s, and change its passwords", path);
	}
	if (file_read_any(AT_FDCWD, opened, FILE_LIMIT, &text, err) != 0)
		return -1;
	return conf_load_text(path, text.data, text.len, conf, err);
}

/* The file whose neighbour secure.config is: that of the first remote. */
static char *default_secrets(const struct settings_reader *reader)
{
	const struct conf_list *all = conf_entries(reader->main);

	for (size_t i = 0; i < all->count; i++) {
		const struct conf_entry *entry = all->items[i];
		if (strcasecmp(entry->section, "remote") != 0)
			continue;
		AUTO_FREE char *directory = settings_files_get_directory(entry->file);
		return xasprintf("%s/secure.config", directory);
	}
	return NULL;
}

static int open_secrets(struct settings_reader *reader, const char *config,
			struct err *err)
{
	const struct conf_entry *entry =
		settings_get(reader, PUSH_REPLICATION, "secureConfig");
	AUTO_FREE char *path = NULL;

	if (settings_read_path(entry, &path, err) != 0)
		return -1;
	bool is_named = path != NULL;
	if (!is_named && config) {
		AUTO_FREE char *etc = settings_files_get_directory(config);
		path = xasprintf("%s/secure.config", etc);
	} else if (!is_named) {
		path = default_secrets(reader);
	}
	if (!path || load_secrets(path, &reader->secure, err) == 0)
		return 0;
	if (err->class == ERR_MISSING && !is_named)
		return 0;
	err->class = ERR_CONFIG;
	return is_named ? err_prefix(err, "%s:%u: replication.secureConfig", entry->file,
				     entry->line)
			: -1;
}

int settings_open_files(struct settings_reader *reader, struct err *err)
{
	const struct conf_entry *entry =
		conf_get(reader->own, "replication", NULL, "config");

	reader->main = reader->own;
	if (open_gerrit(reader, entry, err) != 0)
		return -1;
	if (!reader->gerrit)
		list_sections(reader);
	else if (list_gerrit(reader, entry->value, err) != 0)
		return -1;
	if (reader->sources.count == 0)
		return 0;
	return open_secrets(reader, reader->gerrit ? entry->value : NULL, err);
}

void settings_close_files(struct settings_reader *reader)
{
	clear_sources(reader);
	for (size_t i = 0; i < reader->fans.count; i++)
		conf_free(reader->fans.items[i]);
	vec_clear(&reader->fans);
	conf_free(reader->gerrit);
	conf_free(reader->secure);
	free(reader->site);
}

/* Of the first key of a section that is not read, what is said of it. */
static bool is_repeated(const struct conf_list *all, size_t which)
{
	if (table_of(all->items[which]))
		return false;
	for (size_t i = 0; i < which; i++)
		if (strcasecmp(all->items[i]->section, all->items[which]->section) == 0)
			return true;
	return false;
}

/* What happens instead of what the key says; NULL: it is obeyed. */
static const char *remark_of(const struct conf_entry *entry)
{
	const struct setting_table *table = table_of(entry);
	const struct setting *row = table ? setting_find(table, entry->key) : NULL;

	if (!table)
		return "this section is not read here";
	if (!row)
		return "unknown key, ignored";
	return row->type == SETTING_IGNORED ? row->remark : NULL;
}

static void note_entry(struct settings_reader *reader, const struct conf_entry *entry)
{
	const char *remark = remark_of(entry);

	if (remark)
		settings_note(reader, entry, "%s", remark);
}

void settings_note_remote(struct settings_reader *reader)
{
	const struct remote_source *source = reader->source;
	const struct conf_list *all = conf_entries(source->conf);

	/* Some keys are given many times, as authGroup. */
	for (size_t i = 0; i < all->count; i++)
		if (remote_source_has(source, all->items[i]) &&
		    conf_get_all(source->conf, "remote", source->subsection,
				 all->items[i]->key)
				    ->items[0] == all->items[i])
			note_entry(reader, all->items[i]);
}

/* Keys that are not of a remote. In our own file, others know the other sections. */
static void note_other_sections(struct settings_reader *reader, const struct conf *conf)
{
	const struct conf_list *all = conf_entries(conf);

	for (size_t i = 0; i < all->count; i++) {
		const struct conf_entry *entry = all->items[i];
		if (strcasecmp(entry->section, "remote") == 0) {
			if (!entry->subsection)
				settings_note(reader, entry,
					      "[remote] needs a name, as in [remote "
					      "\"name\"]: it is ignored");
			continue;
		}
		if ((conf == reader->own && !table_of(entry)) || is_repeated(all, i))
			continue;
		if (table_of(entry) && entry->subsection)
			settings_note(reader, entry,
				      "[%s] has no subsections: it is ignored",
				      entry->section);
		else
			note_entry(reader, entry);
	}
}

static void note_fan(struct settings_reader *reader, const struct conf *conf)
{
	const struct conf_list *all = conf_entries(conf);

	for (size_t i = 0; i < all->count; i++)
		if (strcasecmp(all->items[i]->section, "remote") != 0)
			settings_note(reader, all->items[i],
				      "only [remote] is read in this file");
}

/* sshKey of a remote that is not in Gerrit's file would silently do nothing. */
static void note_strangers(struct settings_reader *reader)
{
	struct conf_names names = { 0 };

	conf_subsections(reader->own, "remote", &names);
	for (size_t i = 0; i < names.count; i++) {
		bool is_known = false;
		for (size_t k = 0; k < reader->sources.count; k++)
			is_known |= strcmp(reader->sources.items[k].name,
					   names.items[i]) == 0;
		if (!is_known)
			vec_add(&reader->settings.notes,
				xasprintf("[remote \"%s\"]: there is no such remote in "
					  "Gerrit's files",
					  names.items[i]));
	}
	vec_clear(&names);
}

void settings_note_keys(struct settings_reader *reader)
{
	note_other_sections(reader, reader->main);
	for (size_t i = 0; i < reader->fans.count; i++)
		note_fan(reader, reader->fans.items[i]);
	if (reader->gerrit)
		note_strangers(reader);
}
