#include "mirror/mirrors.h"

#include <ctype.h>
#include <fnmatch.h>
#include <strings.h>

#include "base/map.h"
#include "mirror/then.h"
#include "net/http.h"
#include "replicable/name.h"

/* Of a row whose field is a text_list: adds one. */
static int mirrors_read_text(const struct setting *row, const struct conf_entry *entry,
			     void *target, struct err *err)
{
	text_list *list = setting_field(row, target);
	const char *text = NULL;

	if (!entry->file)
		return 0;
	if (conf_read_text(entry, &text, err) != 0)
		return -1;
	if (!text || !text[0])
		return conf_error(entry, err, "is empty");
	vec_add(list, xstrdup(text));
	return 0;
}

#define MIRROR(kind, member) SETTING_AT(kind, struct mirror, member)
#define MIRROR_LIST(member)                                                              \
	.type = SETTING_OWN, .offset = offsetof(struct mirror, member),                  \
	.read = mirrors_read_text, .is_repeated = true, .at_start = true

static const struct setting mirror_rows[] = {
	{ "url", MIRROR(TEXT, url), .is_required = true, .at_start = true },
	{ "interval", MIRROR(DURATION, interval_ms), "5m", .min = CONF_SECOND,
	  .at_start = true },
	{ "webhookSecretFile", MIRROR(PATH, webhook_secret_file), .at_start = true },
	{ "refs", MIRROR_LIST(refs) },
	{ "excludeRefs", MIRROR_LIST(exclude_refs) },
	{ "caFile", .type = SETTING_LATER },
	{ "depth", .type = SETTING_LATER, .initial = "0" },
	{ "checkout", .type = SETTING_LATER, .initial = "false" },
	{ "lfs", .type = SETTING_LATER, .initial = "false" },
	{ "then", MIRROR(TEXT, then), .at_start = true },
	{ "thenSecretFile", MIRROR(PATH, then_secret_file), .at_start = true },
	{ 0 },
};

#define WATCHER(kind, member) SETTING_AT(kind, struct watcher, member)

static const struct setting watcher_rows[] = {
	{ "mirror", .type = SETTING_OWN, .offset = offsetof(struct watcher, mirrors),
	  .read = mirrors_read_text, .is_repeated = true, .is_required = true,
	  .at_start = true },
	{ "tokenFile", WATCHER(PATH, token_file), .at_start = true },
	{ "userName", WATCHER(TEXT, user_name), .at_start = true },
	{ "passwordFile", WATCHER(PATH, password_file), .at_start = true },
	{ "sshKeyFile", WATCHER(PATH, ssh_key_file), .at_start = true },
	{ "knownHostsFile", WATCHER(PATH, known_hosts_file), .at_start = true },
	{ 0 },
};

const struct setting_table mirror_settings_table = { .section = "mirror",
						     .rows = mirror_rows,
						     .has_subsection = true };
const struct setting_table watcher_settings_table = { .section = "watcher",
						      .rows = watcher_rows,
						      .has_subsection = true };

static void mirror_clear(struct mirror *mirror)
{
	settings_clear(&mirror_settings_table, mirror);
	text_list_clear(&mirror->refs);
	text_list_clear(&mirror->exclude_refs);
	uri_text_clear(&mirror->uri);
	free(mirror->name);
}

static void watcher_clear(struct watcher *watcher)
{
	settings_clear(&watcher_settings_table, watcher);
	text_list_clear(&watcher->mirrors);
	free(watcher->name);
}

void mirrors_clear(struct mirrors *mirrors)
{
	for (size_t i = 0; i < mirrors->items.count; i++)
		mirror_clear(&mirrors->items.items[i]);
	for (size_t i = 0; i < mirrors->watchers.count; i++)
		watcher_clear(&mirrors->watchers.items[i]);
	vec_clear(&mirrors->items);
	vec_clear(&mirrors->watchers);
}

char *mirror_usual_name(const char *text)
{
	AUTO_STR struct str name = STR_INIT;

	for (; *text; text++)
		if (*text != '/' || (name.len > 0 && name.data[name.len - 1] != '/'))
			str_add_char(&name, *text);
	while (name.len > 0 && name.data[name.len - 1] == '/')
		str_truncate(&name, name.len - 1);
	/* All of them: what has its usual form stays as it is. */
	while (name.len > 4 && strcmp(name.data + name.len - 4, ".git") == 0)
		str_truncate(&name, name.len - 4);
	return name.len > 0 ? str_take(&name) : xstrdup("");
}

/* Some entry of the section exists, or it would not be among the subsections. */
static const struct conf_entry *mirrors_any_entry(const struct conf *conf,
						  const char *section, const char *name)
{
	const struct conf_list *all = conf_entries(conf);
	size_t i = 0;

	while (strcasecmp(all->items[i]->section, section) != 0 ||
	       !all->items[i]->subsection || strcmp(all->items[i]->subsection, name) != 0)
		i++;
	return all->items[i];
}

/* "ext::COMMAND": git hands it to a program of that name. */
static bool mirror_url_is_of_helper(const char *url)
{
	while (isalnum((unsigned char)*url) || strchr("+-.", *url ? *url : ':'))
		url++;
	return text_starts_with(url, "::");
}

static int mirror_check_url(const struct conf_entry *entry, struct mirror *mirror,
			    struct err *err)
{
	const struct uri_text *uri = &mirror->uri;

	if (uri_text_read(mirror->url, &mirror->uri, err) != 0)
		return conf_prefix(entry, err);
	if ((uri->kind != URL_HTTP && uri->kind != URL_SSH && uri->kind != URL_GIT &&
	     uri->kind != URL_LOCAL) ||
	    mirror_url_is_of_helper(mirror->url)) {
		conf_error(entry, err, "git fetches nothing from such a URL");
		return err_remedy(err, "use https, http, ssh, git, file or a path");
	}
	if (uri->password || (uri->user && uri->kind == URL_HTTP)) {
		conf_error(entry, err, "the URL has a user's name or password");
		return err_remedy(err, "take it out, and name its file in a section "
				       "[watcher]; whatever could read this file knows "
				       "it by now");
	}
	return uri_text_check(uri, err) == 0 ? 0 : conf_prefix(entry, err);
}

/* Whom it tells: a server, or a program. */
static int mirror_check_then(const struct conf_entry *entry, const struct mirror *mirror,
			     struct err *err)
{
	AUTO_TEXT_LIST text_list words = { 0 };
	const char *why;

	if (!mirror->then && mirror->then_secret_file) {
		err_set(err, ERR_CONFIG,
			"the mirror %s has thenSecretFile, and no webhook in then",
			mirror->name);
		return err_remedy(err, "set then to the webhook's URL");
	}
	if (!mirror->then)
		return 0;
	if (!then_is_webhook(mirror->then))
		return then_split(mirror->then, &words, err) == 0
			       ? 0
			       : conf_prefix(entry, err);
	why = http_check_url(mirror->then, true, NULL);
	if (!why)
		return 0;
	conf_error(entry, err, "%s", why);
	return err_remedy(err, "set it to a URL such as https://ci.example.com/hook");
}

static int mirror_check(const struct conf *conf, const char *section_name,
			struct mirror *mirror, struct err *err)
{
	struct err why;

	mirror->name = mirror_usual_name(section_name);
	if (name_judge(mirror->name, &why) != 0) {
		conf_error(mirrors_any_entry(conf, "mirror", section_name), err,
			   "\"%s\" cannot be a repository's name: %s", section_name,
			   why.text);
		return err_remedy(err, "give the mirror another name");
	}
	if (mirror_check_url(conf_get(conf, "mirror", section_name, "url"), mirror,
			     err) != 0)
		return -1;
	return mirror_check_then(conf_get(conf, "mirror", section_name, "then"), mirror,
				 err);
}

static int mirrors_read_one(const struct conf *conf, const char *name,
			    struct mirrors *mirrors, struct err *err)
{
	struct mirror mirror = { 0 };

	if (settings_read(&mirror_settings_table, conf, name, &mirror, err) == 0 &&
	    mirror_check(conf, name, &mirror, err) == 0) {
		vec_add(&mirrors->items, mirror);
		return 0;
	}
	mirror_clear(&mirror);
	return -1;
}

static int mirrors_compare(const void *one, const void *two)
{
	const struct mirror *a = one, *b = two;

	return strcmp(a->name, b->name);
}

static char *mirror_folded_name(const struct mirror *mirror)
{
	char *name = xstrdup(mirror->name);

	for (char *at = name; *at; at++)
		*at = (char)tolower((unsigned char)*at);
	return name;
}

/* The other one that would be the same directory on some file system, or that has this
 * one within its own; NULL: none. */
static const struct mirror *mirrors_find_clash(const struct map *names,
					       const struct mirror *mirror)
{
	AUTO_FREE char *name = mirror_folded_name(mirror);
	const struct mirror *other = map_get(names, name);

	if (other != mirror)
		return other;
	for (char *at = name; (at = strstr(at, ".git/")) != NULL; at++) {
		*at = '\0';
		other = map_get(names, name);
		*at = '.';
		if (other)
			return other;
	}
	return NULL;
}

static int mirrors_check_apart(const struct mirrors *mirrors, struct err *err)
{
	struct map names = { 0 };
	int result = 0;

	for (size_t i = 0; i < mirrors->items.count; i++) {
		AUTO_FREE char *name = mirror_folded_name(&mirrors->items.items[i]);
		map_put(&names, name, &mirrors->items.items[i]);
	}
	for (size_t i = 0; i < mirrors->items.count && result == 0; i++) {
		const struct mirror *mirror = &mirrors->items.items[i];
		const struct mirror *other = mirrors_find_clash(&names, mirror);
		if (!other)
			continue;
		err_set(err, ERR_CONFIG,
			"the mirrors \"%s\" and \"%s\" would be one directory",
			mirror->name, other->name);
		result = err_remedy(err, "give one of them another name");
	}
	map_clear(&names);
	return result;
}

static bool watcher_watches(const struct watcher *watcher, const char *name)
{
	for (size_t i = 0; i < watcher->mirrors.count; i++)
		if (fnmatch(watcher->mirrors.items[i], name, 0) == 0)
			return true;
	return false;
}

static int watcher_check(const struct conf_entry *entry, const struct watcher *watcher,
			 struct err *err)
{
	if (watcher->token_file && watcher->password_file)
		conf_error(entry, err, "the watcher has tokenFile and passwordFile");
	else if (watcher->password_file && !watcher->user_name)
		conf_error(entry, err, "passwordFile needs userName");
	else
		return 0;
	return err_remedy(err, "give a watcher one credential for HTTP: tokenFile, or "
			       "userName and passwordFile");
}

/* A name that is no pattern is a mirror's: a misspelt one would watch nothing. */
static int watcher_check_mirrors(const struct conf_entry *entry, struct watcher *watcher,
				 const struct mirrors *mirrors, struct err *err)
{
	for (size_t i = 0; i < watcher->mirrors.count; i++) {
		const char *text = watcher->mirrors.items[i];
		if (strpbrk(text, "*?["))
			continue;
		const struct mirror *mirror = mirrors_find(mirrors, text);
		if (!mirror) {
			conf_error(entry, err, "there is no [mirror \"%s\"]", text);
			return err_remedy(err, "name a mirror, or a pattern with \"*\"");
		}
		free(watcher->mirrors.items[i]);
		watcher->mirrors.items[i] = xstrdup(mirror->name);
	}
	return 0;
}

static int mirrors_read_watcher(const struct conf *conf, const char *name,
				struct mirrors *mirrors, struct err *err)
{
	const struct conf_entry *entry = mirrors_any_entry(conf, "watcher", name);
	struct watcher watcher = { 0 };

	if (settings_read(&watcher_settings_table, conf, name, &watcher, err) == 0 &&
	    watcher_check(entry, &watcher, err) == 0 &&
	    watcher_check_mirrors(conf_get(conf, "watcher", name, "mirror"), &watcher,
				  mirrors, err) == 0) {
		watcher.name = xstrdup(name);
		vec_add(&mirrors->watchers, watcher);
		return 0;
	}
	watcher_clear(&watcher);
	return -1;
}

static int mirrors_read_sections(const struct conf *conf, const char *section,
				 int (*read)(const struct conf *conf, const char *name,
					     struct mirrors *mirrors, struct err *err),
				 struct mirrors *mirrors, struct err *err)
{
	struct conf_names names = { 0 };
	int result = 0;

	conf_subsections(conf, section, &names);
	for (size_t i = 0; i < names.count && result == 0; i++)
		result = read(conf, names.items[i], mirrors, err);
	vec_clear(&names);
	return result;
}

int mirrors_read(const struct conf *conf, struct mirrors *mirrors, struct err *err)
{
	int result;

	*mirrors = (struct mirrors){ 0 };
	result = mirrors_read_sections(conf, "mirror", mirrors_read_one, mirrors, err);
	vec_sort(&mirrors->items, mirrors_compare);
	if (result == 0 && mirrors_check_apart(mirrors, err) == 0 &&
	    mirrors_read_sections(conf, "watcher", mirrors_read_watcher, mirrors, err) ==
		    0)
		return 0;
	mirrors_clear(mirrors);
	return -1;
}

const struct mirror *mirrors_find(const struct mirrors *mirrors, const char *name)
{
	AUTO_FREE char *usual = mirror_usual_name(name);
	const struct mirror key = { .name = usual };

	return mirrors->items.count == 0
		       ? NULL
		       : bsearch(&key, mirrors->items.items, mirrors->items.count,
				 sizeof(key), mirrors_compare);
}

const struct watcher *mirrors_next_watcher(const struct mirrors *mirrors,
					   const struct mirror *mirror, size_t *at)
{
	while (*at < mirrors->watchers.count) {
		const struct watcher *watcher = &mirrors->watchers.items[(*at)++];
		if (watcher_watches(watcher, mirror->name))
			return watcher;
	}
	return NULL;
}

int mirrors_find_watcher(const struct mirrors *mirrors, const struct mirror *mirror,
			 const char *name, const struct watcher **watcher,
			 struct err *err)
{
	for (size_t at = 0;
	     (*watcher = mirrors_next_watcher(mirrors, mirror, &at)) != NULL;)
		if (strcmp((*watcher)->name, name) == 0)
			return 0;
	err_set(err, ERR_CONFIG, "no watcher \"%s\" watches the mirror %s", name,
		mirror->name);
	return err_remedy(err, "name one whose section [watcher] has this mirror");
}

static bool mirror_matches(const text_list *patterns, const char *ref)
{
	for (size_t i = 0; i < patterns->count; i++)
		if (fnmatch(patterns->items[i], ref, 0) == 0)
			return true;
	return false;
}

bool mirror_has_ref(const struct mirror *mirror, const char *ref)
{
	return (mirror->refs.count == 0 || mirror_matches(&mirror->refs, ref)) &&
	       !mirror_matches(&mirror->exclude_refs, ref);
}

static bool mirrors_have_same_texts(const text_list *one, const text_list *other)
{
	bool is_same = one->count == other->count;

	for (size_t i = 0; is_same && i < one->count; i++)
		is_same = strcmp(one->items[i], other->items[i]) == 0;
	return is_same;
}

static bool mirrors_have_same_rows(const struct setting_table *table, const void *one,
				   const void *other)
{
	for (const struct setting *row = table->rows; row->key; row++)
		if (row->type != SETTING_OWN && row->type != SETTING_LATER &&
		    !setting_is_same(row, one, other))
			return false;
	return true;
}

static bool mirror_is_same(const struct mirror *one, const struct mirror *other)
{
	return strcmp(one->name, other->name) == 0 &&
	       mirrors_have_same_rows(&mirror_settings_table, one, other) &&
	       mirrors_have_same_texts(&one->refs, &other->refs) &&
	       mirrors_have_same_texts(&one->exclude_refs, &other->exclude_refs);
}

static bool watcher_is_same(const struct watcher *one, const struct watcher *other)
{
	return strcmp(one->name, other->name) == 0 &&
	       mirrors_have_same_rows(&watcher_settings_table, one, other) &&
	       mirrors_have_same_texts(&one->mirrors, &other->mirrors);
}

bool mirrors_are_same(const struct mirrors *one, const struct mirrors *other)
{
	bool is_same = one->items.count == other->items.count &&
		       one->watchers.count == other->watchers.count;

	for (size_t i = 0; is_same && i < one->items.count; i++)
		is_same = mirror_is_same(&one->items.items[i], &other->items.items[i]);
	for (size_t i = 0; is_same && i < one->watchers.count; i++)
		is_same = watcher_is_same(&one->watchers.items[i],
					  &other->watchers.items[i]);
	return is_same;
}
