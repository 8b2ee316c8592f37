/*
 * The parser follows git's own (git_parse_source() in config.c) state by state, so that
 * no file means one thing to git and another to us. Two things that git lets pass are
 * errors here, since they can only be mistakes: a key before the first section header,
 * and a NUL byte, where git silently ends the value.
 *
 * Entries stay in the order read, and an index from names to their entries serves the
 * look-ups: a file with thousands of remotes is asked for each of their keys.
 */
#include "base/conf.h"

#include <strings.h>

#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/vec.h"

#define FILE_LIMIT ((size_t)16 << 20)
#define DEPTH_LIMIT 10 /* as git */

struct conf {
	struct conf_list entries;          /* owned, with their texts */
	struct map index;                  /* to struct conf_list, owned */
	VEC(struct conf_header *) headers; /* owned, with their texts */
	VEC(char *) files;                 /* owned */
};

/* One file being read. */
struct parser {
	struct conf *conf;
	const char *file; /* owned by conf */
	int depth;        /* 0: the first file; -1: a text, which includes nothing */
	const char *at, *end;
	unsigned next_line; /* of the character at `at` */
	unsigned line;      /* of the character returned last */
	bool at_end;        /* what was returned last is the end, as a newline */
	bool has_subsection;
	struct conf_header *header; /* with a subsection; NULL: none */
	struct str section, subsection, key, value;
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

/* A copy of the one that is given. */
static void conf_store_entry(struct conf *conf, const struct conf_entry *given)
{
	struct conf_entry *entry = xmalloc(sizeof(*entry));

	*entry = (struct conf_entry){
		.section = xstrdup(given->section),
		.subsection = given->subsection ? xstrdup(given->subsection) : NULL,
		.key = xstrdup(given->key),
		.value = given->value ? xstrdup(given->value) : NULL,
		.file = given->file,
		.line = given->line,
	};
	vec_add(&conf->entries, entry);
	add_to_index(conf, entry);
}

/* The assignment that was parsed; value NULL: a key without "=". */
static void conf_store_parsed(struct parser *parser, const char *value, unsigned line)
{
	const struct conf_entry entry = {
		.section = parser->section.data,
		.subsection = parser->has_subsection ? parser->subsection.data : NULL,
		.key = parser->key.data,
		.value = (char *)(uintptr_t)value,
		.file = parser->file,
		.line = line,
	};

	conf_store_entry(parser->conf, &entry);
	if (parser->header)
		parser->header->has_keys = true;
}

static void conf_store_header(struct parser *parser)
{
	struct conf_header *header = xmalloc(sizeof(*header));

	*header = (struct conf_header){ .section = xstrdup(parser->section.data),
					.subsection = xstrdup(parser->subsection.data),
					.file = parser->file,
					.line = parser->line };
	vec_add(&parser->conf->headers, header);
	parser->header = header;
}

void conf_add_default(struct conf *conf, const char *section, const char *subsection,
		      const char *key, const char *value)
{
	const struct conf_entry entry = {
		.section = (char *)(uintptr_t)section,
		.subsection = (char *)(uintptr_t)subsection,
		.key = (char *)(uintptr_t)key,
		.value = (char *)(uintptr_t)value,
	};

	conf_store_entry(conf, &entry);
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

static int include(struct parser *parser, const char *value, struct err *err)
{
	AUTO_STR struct str path = STR_INIT;

	if (parser->depth < 0)
		return err_set(err, ERR_CONFIG, "nothing can be included from here");
	if (parser->depth >= DEPTH_LIMIT)
		return err_set(err, ERR_CONFIG,
			       "%s: files include each other more than %d deep", value,
			       DEPTH_LIMIT);
	if (include_path(parser->file, value, &path, err) != 0)
		return -1;
	return conf_add_file(parser->conf, path.data, parser->depth + 1, err);
}

static int add_include(struct parser *parser, const char *value, unsigned line,
		       struct err *err)
{
	size_t files = parser->conf->files.count;

	if (parser->has_subsection)
		err_set(err, ERR_CONFIG, "[include] has no subsections");
	else if (strcasecmp(parser->key.data, "path") != 0)
		err_set(err, ERR_CONFIG,
			"unknown key include.%s; did you mean include.path?",
			parser->key.data);
	else if (!value || !*value)
		err_set(err, ERR_CONFIG, "include.path needs a value");
	else if (include(parser, value, err) == 0)
		return 0;

	if (parser->conf->files.count > files)
		return -1; /* it was opened, so its own name and line stand there */
	err->class = ERR_CONFIG;
	return err_prefix(err, "%s:%u", parser->file, line);
}

static int conf_add_parsed(struct parser *parser, const char *value, unsigned line,
			   struct err *err)
{
	if (parser->depth >= 0 && strcasecmp(parser->section.data, "include") == 0)
		return add_include(parser, value, line, err);
	if (parser->depth >= 0 && strcasecmp(parser->section.data, "includeIf") == 0)
		return err_set(err, ERR_CONFIG,
			       "%s:%u: includeIf is not supported here; use include.path",
			       parser->file, line);
	conf_store_parsed(parser, value, line);
	return 0;
}

static void parser_clear(struct parser *parser)
{
	str_clear(&parser->section);
	str_clear(&parser->subsection);
	str_clear(&parser->key);
	str_clear(&parser->value);
}

/* The next character; CR LF counts as a newline, and so does the end. */
static int conf_parse_next_char(struct parser *parser)
{
	parser->line = parser->next_line;
	if (parser->at == parser->end) {
		parser->at_end = true;
		return '\n';
	}

	unsigned char c = (unsigned char)*parser->at++;
	if (c == '\r' && parser->at < parser->end && *parser->at == '\n')
		c = (unsigned char)*parser->at++;
	if (c == '\n')
		parser->next_line++;
	return c;
}

/* Git's own notion of these, whatever the locale. */
static bool conf_parse_is_blank(int c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_letter(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_key_char(int c)
{
	return is_letter(c) || (c >= '0' && c <= '9') || c == '-';
}

static int conf_parse_set_error(const struct parser *parser, const char *text,
				struct err *err)
{
	return err_set(err, ERR_CONFIG, "%s:%u: %s", parser->file, parser->line, text);
}

/* Reports a character that does not belong where it stands. */
static int wrong_char(const struct parser *parser, int c, const char *text,
		      struct err *err)
{
	char shown[8];

	if (c == '\n')
		snprintf(shown, sizeof(shown), "the end");
	else if (c > ' ' && c < 0x7f)
		snprintf(shown, sizeof(shown), "'%c'", c);
	else
		snprintf(shown, sizeof(shown), "\\x%02x", (unsigned)c & 0xff);
	return err_set(err, ERR_CONFIG, "%s:%u: %s, not %s", parser->file, parser->line,
		       text, shown);
}

/* Behind the opening quote of [section "subsection"]. */
static int parse_quoted_subsection(struct parser *parser, struct err *err)
{
	for (;;) {
		int c = conf_parse_next_char(parser);
		if (c == '"')
			break;
		if (c == '\\')
			c = conf_parse_next_char(
				parser); /* any character stands for itself */
		if (c == '\n')
			return conf_parse_set_error(
				parser, "the quote of the subsection is not closed", err);
		str_add_char(&parser->subsection, (char)c);
	}
	int c = conf_parse_next_char(parser);
	return c == ']' ? 0
			: wrong_char(parser, c, "a subsection is followed by ']'", err);
}

/* In [one.two "three"], git takes everything behind the first dot as the subsection. */
static int parse_subsection(struct parser *parser, struct err *err)
{
	int c;

	do
		c = conf_parse_next_char(parser);
	while (conf_parse_is_blank(c) && c != '\n');
	if (c != '"')
		return wrong_char(parser, c,
				  "a subsection stands in quotes, as in [section "
				  "\"name\"]",
				  err);
	if (parser->has_subsection)
		str_add_char(&parser->subsection, '.');
	parser->has_subsection = true;
	return parse_quoted_subsection(parser, err);
}

/* Behind the opening bracket. The old form [section.subsection] ignores case, for which
 * git makes it lower case. */
static int parse_header_names(struct parser *parser, struct err *err)
{
	int c;

	str_reset(&parser->section);
	str_reset(&parser->subsection);
	parser->has_subsection = false;
	while (is_key_char(c = conf_parse_next_char(parser)) || c == '.') {
		if (c == '.' && !parser->has_subsection)
			parser->has_subsection = true;
		else if (parser->has_subsection)
			str_add_char(&parser->subsection,
				     (char)(c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c));
		else
			str_add_char(&parser->section, (char)c);
	}
	if (c == '\n')
		return conf_parse_set_error(parser,
					    "the section header is not closed by ]", err);
	if (c != ']' && !conf_parse_is_blank(c))
		return wrong_char(
			parser, c,
			"a section's name has letters, digits, '-' and '.' only", err);
	if (parser->section.len == 0)
		return conf_parse_set_error(parser, "the section has no name", err);
	return c == ']' ? 0 : parse_subsection(parser, err);
}

static int parse_header(struct parser *parser, struct err *err)
{
	parser->header = NULL;
	if (parse_header_names(parser, err) != 0)
		return -1;
	if (parser->has_subsection)
		conf_store_header(parser);
	return 0;
}

/* Behind a backslash. A newline there joins the lines and adds nothing. */
static int parse_escape(struct parser *parser, struct err *err)
{
	int c = conf_parse_next_char(parser);

	switch (c) {
	case '\n':
		return 0;
	case 't':
		c = '\t';
		break;
	case 'b':
		c = '\b';
		break;
	case 'n':
		c = '\n';
		break;
	case '\\':
	case '"':
		break;
	default:
		return wrong_char(parser, c,
				  "a backslash is followed by one of \\ \" n t b or the "
				  "end of the line",
				  err);
	}
	str_add_char(&parser->value, (char)c);
	return 0;
}

static void skip_comment(struct parser *parser)
{
	while (conf_parse_next_char(parser) != '\n')
		;
}

/* Behind the "=". Unquoted blanks are kept inside the value and cut at both its ends;
 * `kept` is its length without those that may turn out to be the end. */
static int conf_parse_value(struct parser *parser, struct err *err)
{
	bool quoted = false;
	size_t kept = 0;
	int c;

	str_reset(&parser->value);
	while ((c = conf_parse_next_char(parser)) != '\n') {
		if (conf_parse_is_blank(c) && !quoted) {
			if (parser->value.len > 0)
				str_add_char(&parser->value, (char)c);
			continue;
		}
		if ((c == '#' || c == ';') && !quoted) {
			skip_comment(parser);
			break;
		}
		if (c == '"')
			quoted = !quoted;
		else if (c != '\\')
			str_add_char(&parser->value, (char)c);
		else if (parse_escape(parser, err) != 0)
			return -1;
		kept = parser->value.len;
	}
	if (quoted)
		return conf_parse_set_error(parser, "the quote is not closed", err);
	str_truncate(&parser->value, kept);
	return 0;
}

/* From the first letter of the key to the end of the value. */
static int parse_assignment(struct parser *parser, int c, struct err *err)
{
	unsigned line = parser->line;

	if (parser->section.len == 0)
		return conf_parse_set_error(
			parser, "this key stands before the first [section]", err);
	str_reset(&parser->key);
	for (; is_key_char(c); c = conf_parse_next_char(parser))
		str_add_char(&parser->key, (char)c);
	while (c == ' ' || c == '\t')
		c = conf_parse_next_char(parser);
	if (c != '\n' && c != '=')
		return wrong_char(parser, c,
				  "a key has letters, digits and '-' only and is "
				  "followed by '='",
				  err);
	if (c == '=' && conf_parse_value(parser, err) != 0)
		return -1;

	return conf_add_parsed(parser, c == '=' ? parser->value.data : NULL, line, err);
}

static int parse_all(struct parser *parser, struct err *err)
{
	while (!parser->at_end) {
		int c = conf_parse_next_char(parser), result = 0;
		if (conf_parse_is_blank(c))
			continue;
		if (c == '#' || c == ';')
			skip_comment(parser);
		else if (c == '[')
			result = parse_header(parser, err);
		else if (is_letter(c))
			result = parse_assignment(parser, c, err);
		else
			result = wrong_char(
				parser, c,
				"a line begins with a key, a [section] or a comment",
				err);
		if (result != 0)
			return -1;
	}
	return 0;
}

static int refuse_nul(struct parser *parser, struct err *err)
{
	while (!parser->at_end)
		if (conf_parse_next_char(parser) == '\0')
			break;
	return conf_parse_set_error(parser, "there is a NUL byte in this line", err);
}

static int conf_add_text(struct conf *conf, const char *name, const struct str *text,
			 int depth, struct err *err)
{
	static const char mark[] = "\xef\xbb\xbf"; /* byte order mark */
	struct parser parser = {
		.conf = conf,
		.file = xstrdup(name),
		.depth = depth,
		.at = text->data,
		.end = text->data + text->len,
		.next_line = 1,
		.section = STR_INIT,
		.subsection = STR_INIT,
		.key = STR_INIT,
		.value = STR_INIT,
	};
	int result;

	vec_add(&conf->files, (char *)(uintptr_t)parser.file);
	if (text_starts_with(text->data, mark))
		parser.at += strlen(mark);
	if (memchr(text->data, '\0', text->len))
		result = refuse_nul(&parser, err);
	else
		result = parse_all(&parser, err);
	parser_clear(&parser);
	return result;
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

static void free_header(struct conf_header *header)
{
	free(header->section);
	free(header->subsection);
	free(header);
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
	for (size_t i = 0; i < conf->headers.count; i++)
		free_header(conf->headers.items[i]);
	vec_clear(&conf->headers);
	vec_clear_owned(&conf->files);
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

static bool conf_has_keys(const struct conf *conf, const struct conf_header *header)
{
	for (size_t i = 0; i < conf->entries.count; i++) {
		const struct conf_entry *entry = conf->entries.items[i];
		if (entry->subsection &&
		    strcasecmp(entry->section, header->section) == 0 &&
		    strcmp(entry->subsection, header->subsection) == 0)
			return true;
	}
	return false;
}

const struct conf_header *conf_next_empty(const struct conf *conf, size_t *at)
{
	while (*at < conf->headers.count) {
		const struct conf_header *header = conf->headers.items[(*at)++];
		if (!header->has_keys && !conf_has_keys(conf, header))
			return header;
	}
	return NULL;
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

/* Of addresses that messages are sent to, the path is often all that proves a right. */
static bool is_secret_path(const struct conf_entry *entry)
{
	static const char *const names[][2] = { { "alert", "url" },
						{ "alert", "heartbeat" },
						{ "replication", "webhook" },
						{ "mirror", "then" } };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcasecmp(entry->section, names[i][0]) == 0 &&
		    strcasecmp(entry->key, names[i][1]) == 0)
			return strstr(entry->value, "://") != NULL;
	return false;
}

static void render_host(const char *url, struct str *out)
{
	AUTO_STR struct str masked = STR_INIT;

	log_redact(url, &masked);
	const char *host = strstr(masked.data, "://");
	size_t len = host ? (size_t)(host + 3 - masked.data) : 0;

	len += strcspn(masked.data + len, "/?#");
	str_add_bytes(out, masked.data, len);
	if (strcmp(masked.data + len, "/") == 0)
		str_add_char(out, '/');
	else if (masked.data[len] != '\0')
		str_add(out, "/***");
}

void conf_render_value(const struct conf_entry *entry, struct str *out)
{
	if (!entry->value || !*entry->value)
		return;
	if (is_secret_path(entry)) {
		render_host(entry->value, out);
		return;
	}
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
