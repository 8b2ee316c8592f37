#include "git/read_settings.h"

#include "base/clock.h"
#include "base/conf.h"
#include "base/file.h"
#include "git/git_child.h"

enum { ASK_MS = 60 * 1000 };

#define CONFIG_LIMIT ((size_t)16 << 20)

static const struct known {
	const char *section, *key;
} known[] = {
	{ "transfer", "hideRefs" },
	{ "uploadpack", "hideRefs" },
	{ "uploadpack", "allowFilter" },
	{ "uploadpack", "allowRefInWant" },
	{ "uploadpack", "allowTipSHA1InWant" },
	{ "uploadpack", "allowReachableSHA1InWant" },
	{ "uploadpack", "allowAnySHA1InWant" },
	{ "http", "uploadpack" },
};

static const struct known *read_settings_find_known(const struct conf_entry *entry)
{
	for (size_t i = 0; !entry->subsection && i < ARRAY_SIZE(known); i++)
		if (strcasecmp(entry->section, known[i].section) == 0 &&
		    strcasecmp(entry->key, known[i].key) == 0)
			return &known[i];
	return NULL;
}

static void read_settings_add_quoted(const char *value, struct str *out)
{
	str_add_char(out, '"');
	for (; *value; value++) {
		if (*value == '\n') {
			str_add(out, "\\n");
			continue;
		}
		if (*value == '"' || *value == '\\')
			str_add_char(out, '\\');
		str_add_char(out, *value);
	}
	str_add_char(out, '"');
}

/* value NULL: a key alone, which means true. */
static void read_settings_add_line(const char *key, const char *value, struct str *out)
{
	str_addf(out, "\t%s", key);
	if (value) {
		str_add(out, " = ");
		read_settings_add_quoted(value, out);
	}
	str_add_char(out, '\n');
}

static void add_known(const struct known *one, const char *value, struct str *out)
{
	str_addf(out, "[%s]\n", one->section);
	read_settings_add_line(one->key, value, out);
}

static bool is_of_http(const struct conf_entry *entry)
{
	return strcasecmp(entry->section, "http") == 0;
}

/* The last value decides. */
static bool is_closed(const struct conf *conf)
{
	const struct conf_list *all = conf_entries(conf);
	bool is_open = true;

	for (size_t i = 0; i < all->count; i++)
		if (read_settings_find_known(all->items[i]) && is_of_http(all->items[i]))
			conf_read_bool(all->items[i], &is_open, ERR_IGNORED);
	return !is_open;
}

/* What closes a repository, and rules of hidden refs, also those that except some from
 * the rules before: without these too much would be hidden. */
static bool is_hiding(const struct conf_entry *entry, bool is_shut)
{
	return strcasecmp(entry->key, "hideRefs") == 0 || (is_of_http(entry) && is_shut);
}

enum which { ALL_SETTINGS, THOSE_HIDING };

static void read_settings_add(const struct conf *conf, enum which which, struct str *out)
{
	const struct conf_list *all = conf_entries(conf);
	bool is_shut = is_closed(conf);

	for (size_t i = 0; i < all->count; i++) {
		const struct known *one = read_settings_find_known(all->items[i]);
		if (one && (which == ALL_SETTINGS || is_hiding(all->items[i], is_shut)))
			add_known(one, all->items[i]->value, out);
	}
}

int read_settings_parse(const char *text, size_t len, struct str *out, struct err *err)
{
	AUTO_CONF struct conf *conf = NULL;

	if (conf_load_text("settings", text, len, &conf, err) != 0)
		return -1;
	read_settings_add(conf, ALL_SETTINGS, out);
	return 0;
}

/* One of what git lists: "section.key\nvalue", or "section.key". */
static void add_listed(const char *line, struct str *out)
{
	const char *end = strchrnul(line, '\n');

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		AUTO_FREE char *name = xasprintf("%s.%s", known[i].section, known[i].key);
		if (strlen(name) == (size_t)(end - line) &&
		    strncasecmp(name, line, strlen(name)) == 0)
			add_known(&known[i], *end ? end + 1 : NULL, out);
	}
}

static int read_settings_ask_git(const struct repo *repo, struct str *out,
				 struct err *err)
{
	const char *const args[] = { "config", "--list", "-z", NULL };
	const struct git_work work = { .guard_fd = -1,
				       .until = clock_boot_ms() + ASK_MS };
	AUTO_STR struct str listed = STR_INIT;

	if (git_run(&(struct git_call){ .work = &work,
					.repository = repo->path,
					.repository_fd = repo->fd,
					.args = args,
					.config = GIT_CONFIG_RECEIVE,
					.reach = GIT_REACH_READS_ALL,
					.output = &listed,
					.output_limit = CONFIG_LIMIT },
		    err) != 0)
		return err_prefix(err, "the repository's config");
	for (size_t at = 0; at < listed.len; at += strlen(listed.data + at) + 1)
		add_listed(listed.data + at, out);
	return 0;
}

static int load(int dir, struct conf **conf, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	if (file_read(dir, "config", CONFIG_LIMIT, &text, err) != 0 &&
	    err->class != ERR_MISSING)
		return -1;
	return conf_load_text("config", text.data, text.len, conf, err);
}

int read_settings_take(const struct repo *repo, struct str *out, struct err *err)
{
	AUTO_CONF struct conf *conf = NULL;
	size_t before = out->len;

	if (repo->has_includes) {
		if (read_settings_ask_git(repo, out, err) != 0)
			return -1;
	} else {
		if (load(repo->fd, &conf, err) != 0)
			return -1;
		read_settings_add(conf, ALL_SETTINGS, out);
	}
	if (out->len - before <= READ_SETTINGS_MAX)
		return 0;
	str_truncate(out, before);
	err_set(err, ERR_CONFIG, "its config hides refs by more than %zu bytes of rules",
		READ_SETTINGS_MAX);
	return err_remedy(err, "hide whole folders of refs: transfer.hideRefs = "
			       "refs/hidden");
}

static void add_section(const struct conf_entry *entry, struct str *out)
{
	str_addf(out, "[%s", entry->section);
	if (entry->subsection) {
		str_add_char(out, ' ');
		read_settings_add_quoted(entry->subsection, out);
	}
	str_add(out, "]\n");
}

static bool is_same_section(const struct conf_entry *a, const struct conf_entry *b)
{
	return a && strcasecmp(a->section, b->section) == 0 &&
	       text_is_same(a->subsection, b->subsection);
}

static void add_others(const struct conf *conf, struct str *out)
{
	const struct conf_list *all = conf_entries(conf);
	const struct conf_entry *before = NULL;

	for (size_t i = 0; i < all->count; i++) {
		const struct conf_entry *entry = all->items[i];
		if (read_settings_find_known(entry))
			continue;
		if (!is_same_section(before, entry))
			add_section(entry, out);
		read_settings_add_line(entry->key, entry->value, out);
		before = entry;
	}
}

int read_settings_put(int dir, const char *wanted, struct err *err)
{
	AUTO_CONF struct conf *conf = NULL;
	AUTO_STR struct str now = STR_INIT;
	AUTO_STR struct str text = STR_INIT;

	if (load(dir, &conf, err) != 0)
		return -1;
	read_settings_add(conf, ALL_SETTINGS, &now);
	if (strcmp(now.data, wanted) == 0)
		return 0;
	add_others(conf, &text);
	str_add(&text, wanted);
	return file_replace(dir, "config", text.data, text.len, FILE_SYNC, err);
}

/* Of rules the last one that fits decides, and so does the last value: the rules that are
 * there hide what they hid, unless a wanted one says that it is to be seen. */
int read_settings_find_hiding(int dir, const char *wanted, struct str *all,
			      struct err *err)
{
	AUTO_CONF struct conf *conf = NULL, *wanted_conf = NULL;
	AUTO_STR struct str hiding = STR_INIT;
	size_t before = all->len;

	if (load(dir, &conf, err) != 0 ||
	    conf_load_text("settings", wanted, strlen(wanted), &wanted_conf, err) != 0)
		return -1;
	read_settings_add(conf, ALL_SETTINGS, all);
	read_settings_add(wanted_conf, THOSE_HIDING, &hiding);
	bool is_there = strcmp(all->data + before, wanted) == 0 ||
			text_ends_with(all->data + before, hiding.data);
	if (all->len - before + hiding.len > READ_SETTINGS_MAX)
		str_truncate(all, before);
	str_add(all, hiding.data);
	return !is_there;
}
