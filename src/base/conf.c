/*
 * Entries stay in the order read, and an index from names to their entries serves the
 * look-ups: a file with thousands of remotes is asked for each of their keys.
 */
#include "base/conf.h"

#include <strings.h>

#include "base/conf_parse.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/vec.h"

#define FILE_LIMIT ((size_t)16 << 20)
#define DEPTH_LIMIT 10 /* as git */

struct conf {
	struct conf_list entries; /* owned, with their texts */
	struct map index;         /* to struct conf_list, owned */
	VEC(char *) files;        /* owned */
};

/* One file being read. */
struct reader {
	struct conf *conf;
	const char *file; /* owned by conf */
	int depth;        /* 0: the first file; -1: a text, which includes nothing */
};

static void add_lower(struct str *out, const char *text)
{
	for (; *text; text++)
		str_add_char(out, (char)(*text >= 'A' && *text <= 'Z' ? *text + 'a' - 'A'
								      : *text));
}

/* Sections and keys have no dots, so the subsection may hold anything at the end. */
static void index_name(const char *section, const char *subsection, const char *key,
		       struct str *out)
{
	add_lower(out, section);
	str_add_char(out, '.');
	add_lower(out, key);
	if (subsection) {
		str_add_char(out, '.');
		str_add(out, subsection);
	}
}

static void add_to_index(struct conf *conf, const struct conf_entry *entry)
{
	AUTO_STR struct str name = STR_INIT;

	index_name(entry->section, entry->subsection, entry->key, &name);
	struct conf_list *list = map_get(&conf->index, name.data);
	if (!list) {
		list = xcalloc(1, sizeof(*list));
		map_put(&conf->index, name.data, list);
	}
	vec_add(list, entry);
}

static void conf_store_entry(struct reader *reader, const struct conf_parsed *parsed)
{
	struct conf_entry *entry = xmalloc(sizeof(*entry));

	*entry = (struct conf_entry){
		.section = xstrdup(parsed->section),
		.subsection = parsed->subsection ? xstrdup(parsed->subsection) : NULL,
		.key = xstrdup(parsed->key),
		.value = parsed->value ? xstrdup(parsed->value) : NULL,
		.file = reader->file,
		.line = parsed->line,
	};
	vec_add(&reader->conf->entries, entry);
	add_to_index(reader->conf, entry);
}

static int conf_add_file(struct conf *conf, const char *path, int depth, struct err *err);

/* An included path counts from the directory of the file that names it. */
static int include_path(const char *file, const char *value, struct str *path,
			struct err *err)
{
	const char *slash = strrchr(file, '/');

	if (value[0] == '~') {
		const char *home = getenv("HOME");
		if (value[1] != '/')
			return err_set(err, ERR_CONFIG,
				       "%s: only ~/ is understood, not another ~", value);
		if (!home || !*home)
			return err_set(err, ERR_CONFIG, "%s: HOME is not set", value);
		str_add(path, home);
		value++;
	} else if (value[0] != '/' && slash) {
		str_add_bytes(path, file, (size_t)(slash - file) + 1);
	}
	str_add(path, value);
	return 0;
}

static int include(struct reader *reader, const char *value, struct err *err)
{
	AUTO_STR struct str path = STR_INIT;

	if (reader->depth < 0)
		return err_set(err, ERR_CONFIG, "nothing can be included from here");
	if (reader->depth >= DEPTH_LIMIT)
		return err_set(err, ERR_CONFIG,
			       "%s: files include each other more than %d deep", value,
			       DEPTH_LIMIT);
	if (include_path(reader->file, value, &path, err) != 0)
		return -1;
	return conf_add_file(reader->conf, path.data, reader->depth + 1, err);
}

static int add_include(struct reader *reader, const struct conf_parsed *parsed,
		       struct err *err)
{
	size_t files = reader->conf->files.count;

	if (parsed->subsection)
		err_set(err, ERR_CONFIG, "[include] has no subsections");
	else if (strcasecmp(parsed->key, "path") != 0)
		err_set(err, ERR_CONFIG,
			"unknown key include.%s; did you mean include.path?",
			parsed->key);
	else if (!parsed->value || !*parsed->value)
		err_set(err, ERR_CONFIG, "include.path needs a value");
	else if (include(reader, parsed->value, err) == 0)
		return 0;

	if (reader->conf->files.count > files)
		return -1; /* it was opened, so its own name and line stand there */
	err->class = ERR_CONFIG;
	return err_prefix(err, "%s:%u", reader->file, parsed->line);
}

static int conf_add_parsed(void *data, const struct conf_parsed *parsed, struct err *err)
{
	struct reader *reader = data;

	if (reader->depth >= 0 && strcasecmp(parsed->section, "include") == 0)
		return add_include(reader, parsed, err);
	if (reader->depth >= 0 && strcasecmp(parsed->section, "includeIf") == 0)
		return err_set(err, ERR_CONFIG,
			       "%s:%u: includeIf is not supported here; use include.path",
			       reader->file, parsed->line);
	conf_store_entry(reader, parsed);
	return 0;
}

static int conf_add_text(struct conf *conf, const char *name, const struct str *text,
			 int depth, struct err *err)
{
	char *file = xstrdup(name);
	struct reader reader = { .conf = conf, .file = file, .depth = depth };
	const struct conf_sink sink = { .add = conf_add_parsed, .data = &reader };

	vec_add(&conf->files, file);
	return conf_parse(file, text->data, text->len, &sink, err);
}

static int conf_add_file(struct conf *conf, const char *path, int depth, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	if (file_read_any(AT_FDCWD, path, FILE_LIMIT, &text, err) != 0)
		return -1;
	return conf_add_text(conf, path, &text, depth, err);
}

int conf_load(const char *path, struct conf **conf, struct err *err)
{
	AUTO_CONF struct conf *made = xcalloc(1, sizeof(*made));

	if (conf_add_file(made, path, 0, err) != 0) {
		if (err->class != ERR_MISSING)
			err->class = ERR_CONFIG;
		return -1;
	}
	*conf = TAKE(made);
	return 0;
}

int conf_load_text(const char *name, const char *text, size_t len, struct conf **conf,
		   struct err *err)
{
	AUTO_CONF struct conf *made = xcalloc(1, sizeof(*made));
	AUTO_STR struct str copy = STR_INIT;

	str_add_bytes(&copy, text, len);
	if (conf_add_text(made, name, &copy, -1, err) != 0)
		return -1;
	*conf = TAKE(made);
	return 0;
}

static void free_entry(struct conf_entry *entry)
{
	free(entry->section);
	free(entry->subsection);
	free(entry->key);
	free(entry->value);
	free(entry);
}

void conf_free(struct conf *conf)
{
	const struct map_entry *named;
	size_t at = 0;

	if (!conf)
		return;
	while ((named = map_next(&conf->index, &at)) != NULL) {
		struct conf_list *list = named->value;
		vec_clear(list);
		free(list);
	}
	map_clear(&conf->index);
	for (size_t i = 0; i < conf->entries.count; i++)
		free_entry((struct conf_entry *)(uintptr_t)conf->entries.items[i]);
	vec_clear(&conf->entries);
	for (size_t i = 0; i < conf->files.count; i++)
		free(conf->files.items[i]);
	vec_clear(&conf->files);
	free(conf);
}

void conf_auto_free(struct conf *const *conf)
{
	int saved = errno;

	conf_free(*conf);
	errno = saved;
}

const struct conf_list *conf_entries(const struct conf *conf)
{
	return &conf->entries;
}

const struct conf_list *conf_get_all(const struct conf *conf, const char *section,
				     const char *subsection, const char *key)
{
	static const struct conf_list none;
	AUTO_STR struct str name = STR_INIT;

	index_name(section, subsection, key, &name);
	const struct conf_list *list = map_get(&conf->index, name.data);
	return list ? list : &none;
}

const struct conf_entry *conf_get(const struct conf *conf, const char *section,
				  const char *subsection, const char *key)
{
	const struct conf_list *list = conf_get_all(conf, section, subsection, key);

	return list->count > 0 ? list->items[list->count - 1] : NULL;
}

void conf_subsections(const struct conf *conf, const char *section,
		      struct conf_names *names)
{
	struct map seen = { 0 };

	for (size_t i = 0; i < conf->entries.count; i++) {
		const struct conf_entry *entry = conf->entries.items[i];
		if (entry->subsection && strcasecmp(entry->section, section) == 0 &&
		    !map_put(&seen, entry->subsection, entry->subsection))
			vec_add(names, entry->subsection);
	}
	map_clear(&seen);
}

void conf_render_name(const struct conf_entry *entry, struct str *out)
{
	str_addf(out, "%s.", entry->section);
	if (entry->subsection)
		str_addf(out, "%s.", entry->subsection);
	str_add(out, entry->key);
}

static bool is_secret(const char *key)
{
	static const char *const ends[] = { "password", "token", "secret" };
	AUTO_STR struct str lower = STR_INIT;

	add_lower(&lower, key);
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (text_ends_with(lower.data, ends[i]))
			return true;
	return false;
}

/* What stands before the host in "user:password@host:path", which is no URL to others;
 * NULL: there is no password. */
static const char *behind_login(const char *key, const char *value)
{
	const char *at = strrchr(value, '@');
	bool is_url = text_ends_with(key, "url") || text_ends_with(key, "Url") ||
		      text_ends_with(key, "URL");

	return is_url && at && memchr(value, ':', (size_t)(at - value)) ? at : NULL;
}

void conf_render_value(const struct conf_entry *entry, struct str *out)
{
	if (!entry->value || !*entry->value)
		return;
	if (is_secret(entry->key))
		str_add(out, "***");
	else if (!strstr(entry->value, "://") && behind_login(entry->key, entry->value))
		str_addf(out, "***%s", behind_login(entry->key, entry->value));
	else
		log_redact(entry->value, out);
}

/* Whether a reader of one line would see the value as it is. */
static bool conf_is_plain_value(const char *value)
{
	size_t len = strlen(value);

	for (size_t i = 0; i < len; i++)
		if ((unsigned char)value[i] < ' ' || value[i] == 0x7f)
			return false;
	return len == 0 || (value[0] != ' ' && value[0] != '"' && value[len - 1] != ' ');
}

static void conf_add_quoted_value(const char *value, struct str *out)
{
	static const char from[] = "\n\t\b\"\\", to[] = "ntb\"\\";

	str_add_char(out, '"');
	for (; *value; value++) {
		const char *escaped = strchr(from, *value);
		if (escaped)
			str_addf(out, "\\%c", to[escaped - from]);
		else
			str_add_char(out, *value);
	}
	str_add_char(out, '"');
}

void conf_render(const struct conf *conf, struct str *out)
{
	for (size_t i = 0; i < conf->entries.count; i++) {
		const struct conf_entry *entry = conf->entries.items[i];
		AUTO_STR struct str value = STR_INIT;

		conf_render_name(entry, out);
		conf_render_value(entry, &value);
		if (entry->value)
			str_add_char(out, '=');
		if (conf_is_plain_value(value.data))
			str_add(out, value.data);
		else
			conf_add_quoted_value(value.data, out);
		str_add_char(out, '\n');
	}
}
