#include "mirror/mirrors.h"

#include <ctype.h>
#include <fnmatch.h>
#include <limits.h>
#include <strings.h>

#include "base/map.h"
#include "mirror/then.h"
#include "mirror/upstream_entry.h"
#include "net/http.h"
#include "replicable/name.h"

#define MIRROR(kind, member) SETTING_AT(kind, struct mirror, member)
#define MIRROR_LIST(member, reader)                                                      \
	.type = SETTING_OWN, .offset = offsetof(struct mirror, member), .read = reader,  \
	.is_repeated = true, .at_start = true

static bool mirror_pattern_is_vain(const char *pattern)
{
	static const char *const folders[] = { "refs/heads", "refs/tags",
					       "refs/remotes" };
	size_t plain = strcspn(pattern, "*?[\\"), len = strlen("refs/");

	if (text_ends_with(pattern, "/") ||
	    strncmp(pattern, "refs/", pattern[plain] && plain < len ? plain : len) != 0)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (strcmp(pattern, folders[i]) == 0)
			return true;
	return false;
}

/* With a branch's short name, or a folder of refs, which are easily written there, a
 * mirror would lose all its refs. */
static int mirror_add_refs(const struct setting *row, const struct conf_entry *entry,
			   void *target, struct err *err)
{
	if (entry->file && entry->value && entry->value[0] &&
	    mirror_pattern_is_vain(entry->value)) {
		conf_error(entry, err,
			   "\"%.60s\" matches no ref: full names are like "
			   "refs/heads/main",
			   entry->value);
		return err_remedy(err, "write it as refs/heads/main or refs/heads/*");
	}
	return setting_add_text(row, entry, target, err);
}

static const struct setting mirror_rows[] = {
	{ "url", MIRROR(TEXT, url), .is_required = true, .at_start = true },
	{ "interval", MIRROR(DURATION, interval_ms), "5m", .min = CONF_SECOND,
	  .at_start = true },
	{ "webhookSecretFile", MIRROR(PATH, webhook_secret_file), .at_start = true },
	{ "refs", MIRROR_LIST(refs, mirror_add_refs) },
	{ "excludeRefs", MIRROR_LIST(exclude_refs, setting_add_text) },
	{ "caFile", MIRROR(PATH, ca_file), .at_start = true },
	{ "depth", MIRROR(NUMBER, depth), "0", .max = MIRROR_DEPTH_MOST,
	  .at_start = true },
	{ "maxSize", MIRROR(SIZE, max_size), "0", .at_start = true },
	{ "checkout", MIRROR(BOOL, has_checkout), "false", .at_start = true },
	{ "lfs", MIRROR(BOOL, has_lfs), "false", .at_start = true },
	{ "then", MIRROR(TEXT, then), .at_start = true },
	{ "thenSecretFile", MIRROR(PATH, then_secret_file), .at_start = true },
	{ "thenCaFile", MIRROR(PATH, then_ca_file), .at_start = true },
	{ 0 },
};

#define WATCHER(kind, member) SETTING_AT(kind, struct watcher, member)

static const struct setting watcher_rows[] = {
	{ "mirror", .type = SETTING_OWN, .offset = offsetof(struct watcher, mirrors),
	  .read = setting_add_text, .is_repeated = true, .at_start = true },
	{ "tokenFile", WATCHER(PATH, token_file), .at_start = true },
	{ "userName", WATCHER(TEXT, user_name), .at_start = true },
	{ "passwordFile", WATCHER(PATH, password_file), .at_start = true },
	{ "sshKeyFile", WATCHER(PATH, ssh_key_file), .at_start = true },
	{ "knownHostsFile", WATCHER(PATH, known_hosts_file), .at_start = true },
	{ 0 },
};

const struct setting_table mirror_settings_table = { .section = "mirror",
						     .rows = mirror_rows,
						     .has_subsection = true,
						     .needs_keys = true };
const struct setting_table watcher_settings_table = { .section = "watcher",
						      .rows = watcher_rows,
						      .has_subsection = true };

static void watcher_clear(struct watcher *watcher)
{
	settings_clear(&watcher_settings_table, watcher);
	text_list_clear(&watcher->mirrors);
	text_list_clear(&watcher->hosts);
	free(watcher->name);
}

void mirrors_clear(struct mirrors *mirrors)
{
	for (size_t i = 0; i < mirrors->lists.count; i++) {
		mirror_list_clear(mirrors->lists.items[i]);
		free(mirrors->lists.items[i]);
	}
	for (size_t i = 0; i < mirrors->watchers.count; i++)
		watcher_clear(&mirrors->watchers.items[i]);
	mirror_set_free(TAKE(mirrors->set)); /* which knows the sections, too */
	for (size_t i = 0; i < mirrors->sections.count; i++)
		mirror_free(mirrors->sections.items[i]);
	vec_clear(&mirrors->sections);
	vec_clear(&mirrors->lists);
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

/* Other ways have no server of LFS behind the same URL. */
static int mirror_check_lfs(const struct conf_entry *entry, const struct mirror *mirror,
			    struct err *err)
{
	if (!mirror->has_lfs || mirror->uri.kind == URL_HTTP ||
	    mirror->uri.kind == URL_LOCAL)
		return 0;
	conf_error(entry, err, "LFS objects come by https, http or a path only");
	return err_remedy(err, "give the mirror such a URL, or take lfs out");
}

/* Whom it tells: a server, or a program. */
static int mirror_check_then(const struct conf_entry *entry, const struct mirror *mirror,
			     struct err *err)
{
	AUTO_TEXT_LIST text_list words = { 0 };
	const char *why;

	if (!mirror->then && (mirror->then_secret_file || mirror->then_ca_file)) {
		err_set(err, ERR_CONFIG, "the mirror %s has %s, but no webhook in then",
			mirror->name,
			mirror->then_secret_file ? "thenSecretFile" : "thenCaFile");
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

/* Its link must fit into a directory, beside the others' files. */
static int mirror_check_checkout(const struct conf_entry *entry,
				 const struct mirror *mirror, struct err *err)
{
	const char *slash = strrchr(mirror->name, '/');
	const char *last = slash ? slash + 1 : mirror->name;

	if (!mirror->has_checkout || strlen(last) + strlen(CHECKOUT_SUFFIX) <= NAME_MAX)
		return 0;
	conf_error(entry, err,
		   "the mirror's name is too long for a working tree beside "
		   "it");
	return err_remedy(err, "give the mirror another name");
}

static int mirror_check_ca_file(const struct conf_entry *entry,
				const struct mirror *mirror, struct err *err)
{
	if (!mirror->ca_file || text_starts_with(mirror->url, "https://"))
		return 0;
	conf_error(entry, err, "caFile is for upstreams that are asked by https");
	return err_remedy(err, "take caFile out, or set url to the https:// URL");
}

static int mirror_check(const struct conf *conf, const char *section_name,
			struct mirror *mirror, struct err *err)
{
	struct err why;

	mirror->name = mirror_usual_name(section_name);
	mirror->written = xstrdup(section_name);
	if (name_judge(mirror->name, &why) != 0) {
		conf_error(mirrors_any_entry(conf, "mirror", section_name), err,
			   "\"%s\" cannot be a repository's name: %s", section_name,
			   why.text);
		return err_remedy(err, "give the mirror another name");
	}
	if (mirror_check_url(conf_get(conf, "mirror", section_name, "url"), mirror,
			     err) != 0 ||
	    mirror_check_lfs(conf_get(conf, "mirror", section_name, "lfs"), mirror,
			     err) != 0)
		return -1;
	if (mirror_check_checkout(conf_get(conf, "mirror", section_name, "checkout"),
				  mirror, err) != 0 ||
	    mirror_check_ca_file(conf_get(conf, "mirror", section_name, "caFile"), mirror,
				 err) != 0)
		return -1;
	return mirror_check_then(conf_get(conf, "mirror", section_name, "then"), mirror,
				 err);
}

static int mirrors_read_one(const struct conf *conf, const char *name,
			    struct mirrors *mirrors, struct err *err)
{
	struct mirror *mirror = xcalloc(1, sizeof(*mirror));

	if (settings_read(&mirror_settings_table, conf, name, mirror, err) == 0 &&
	    mirror_check(conf, name, mirror, err) == 0) {
		vec_add(&mirrors->sections, mirror);
		return 0;
	}
	mirror_free(mirror);
	return -1;
}

static int mirrors_read_list(const struct conf *conf, const char *name,
			     struct mirrors *mirrors, struct err *err)
{
	struct mirror_list *list = xcalloc(1, sizeof(*list));

	vec_add(&mirrors->lists, list);
	return mirror_list_read(conf, name, list, err);
}

static int mirrors_compare(const void *one, const void *two)
{
	const struct mirror *const *a = one, *const *b = two;

	return strcmp((*a)->name, (*b)->name);
}

/* As which the link of a working tree is among the folded names: none has a slash at its
 * end. */
#define CHECKOUT_KEY CHECKOUT_SUFFIX "/"

static void mirrors_occupy_checkout(struct map *names, const char *folded,
				    const struct mirror *mirror)
{
	AUTO_FREE char *key = xasprintf("%s" CHECKOUT_KEY, folded);

	if (mirror->has_checkout)
		map_put(names, key, (void *)(uintptr_t)mirror);
}

/* The one whose working tree's link stands at the folded name, or above it. */
static const struct mirror *mirrors_find_checkout(const struct map *names,
						  const char *folded)
{
	AUTO_FREE char *text = xasprintf("%s/", folded);
	const struct mirror *found = NULL;

	for (char *at = text; !found && (at = strstr(at, CHECKOUT_KEY)) != NULL;) {
		at += strlen(CHECKOUT_KEY);
		char after = *at;
		*at = '\0';
		found = map_get(names, text);
		*at = after;
	}
	return found;
}

/* As which a folder is among the folded names whose name is that of such a link. */
#define CHECKOUT_FOLDER_KEY CHECKOUT_KEY "/"

static void mirrors_occupy_folders(struct map *names, const char *folded,
				   struct mirror *mirror)
{
	for (const char *at = folded; (at = strstr(at, CHECKOUT_KEY)) != NULL; at++) {
		AUTO_FREE char *key =
			xasprintf("%.*s" CHECKOUT_FOLDER_KEY, (int)(at - folded), folded);
		map_put(names, key, mirror);
	}
}

/* The one that stands where the link of this one's working tree would be, or below. */
static const struct mirror *mirrors_find_at_checkout(const struct map *names,
						     const char *folded)
{
	AUTO_FREE char *name = xasprintf("%s" CHECKOUT_SUFFIX, folded);
	AUTO_FREE char *folder = xasprintf("%s" CHECKOUT_FOLDER_KEY, folded);
	const struct mirror *other = map_get(names, name);

	return other ? other : map_get(names, folder);
}

/* Of the folded names: the other one that would be the same directory on some file
 * system, or that has this one within its own; NULL: none. */
static const struct mirror *mirrors_find_clash(const struct map *names,
					       const struct mirror *mirror)
{
	AUTO_FREE char *name = text_fold(mirror->name);
	const struct mirror *other = map_get(names, name);

	if (other && other != mirror)
		return other;
	other = mirrors_find_checkout(names, name);
	if (!other && mirror->has_checkout)
		other = mirrors_find_at_checkout(names, name);
	if (other)
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

	for (size_t i = 0; i < mirrors->sections.count; i++) {
		AUTO_FREE char *name = text_fold(mirrors->sections.items[i]->name);
		map_put(&names, name, mirrors->sections.items[i]);
		mirrors_occupy_checkout(&names, name, mirrors->sections.items[i]);
	}
	for (size_t i = 0; i < mirrors->sections.count && result == 0; i++) {
		const struct mirror *mirror = mirrors->sections.items[i];
		const struct mirror *other = mirrors_find_clash(&names, mirror);
		if (!other)
			continue;
		err_set(err, ERR_CONFIG,
			"the mirrors \"%s\" and \"%s\" would be one directory",
			mirror->written, other->written);
		result = err_remedy(err, "give one of them another name");
	}
	map_clear(&names);
	return result;
}

static bool watcher_names(const struct watcher *watcher, const struct mirror *mirror)
{
	for (size_t i = 0; i < watcher->mirrors.count; i++)
		if (fnmatch(watcher->mirrors.items[i], mirror->name, 0) == 0)
			return true;
	return false;
}

static bool watcher_may_be_at(const struct watcher *watcher, const struct mirror *mirror)
{
	bool has_credential =
		watcher->token_file || watcher->password_file || watcher->ssh_key_file;

	if (!mirror->list || !has_credential || !mirror->uri.host)
		return true;
	for (size_t i = 0; i < watcher->hosts.count; i++)
		if (upstream_entry_is_host(mirror->uri.host, watcher->hosts.items[i]))
			return true;
	return false;
}

static bool watcher_watches(const struct watcher *watcher, const struct mirror *mirror)
{
	bool is_listed =
		mirror->list && text_list_has(&mirror->list->watchers, watcher->name);

	return (is_listed || watcher_names(watcher, mirror)) &&
	       watcher_may_be_at(watcher, mirror);
}

/* False: other lists are at another host. */
static bool watcher_add_host_of(struct watcher *watcher, const struct mirror_list *list)
{
	AUTO_URI struct uri_text uri = { 0 };

	if (uri_text_read(list->source.url, &uri, ERR_IGNORED) != 0 || !uri.host)
		return true;
	vec_add(&watcher->hosts, TAKE(uri.host));
	return strcasecmp(watcher->hosts.items[0],
			  watcher->hosts.items[watcher->hosts.count - 1]) == 0;
}

/* Those of its mirrors with a section, and of lists that name it. If there are none, it
 * is for the lists; but only if these are at one host, it is known which. */
static void watcher_find_hosts(const struct mirrors *mirrors, struct watcher *watcher)
{
	bool is_one = true;

	for (size_t i = 0; i < mirrors->sections.count; i++) {
		const struct mirror *mirror = mirrors->sections.items[i];
		if (mirror->uri.host && watcher_names(watcher, mirror))
			vec_add(&watcher->hosts, xstrdup(mirror->uri.host));
	}
	for (size_t i = 0; i < mirrors->lists.count; i++)
		if (text_list_has(&mirrors->lists.items[i]->watchers, watcher->name))
			watcher_add_host_of(watcher, mirrors->lists.items[i]);
	if (watcher->hosts.count > 0)
		return;
	for (size_t i = 0; i < mirrors->lists.count; i++)
		is_one &= watcher_add_host_of(watcher, mirrors->lists.items[i]);
	if (!is_one)
		text_list_clear(&watcher->hosts);
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

/* A name that is no pattern is a mirror's: a misspelt one would watch nothing. Where
 * there are lists, it may be of one that is yet to come. */
static int watcher_check_mirrors(const struct conf_entry *entry, struct watcher *watcher,
				 const struct mirrors *mirrors, struct err *err)
{
	for (size_t i = 0; i < watcher->mirrors.count; i++) {
		char *text = watcher->mirrors.items[i];
		if (strpbrk(text, "*?["))
			continue;
		if (mirrors->lists.count == 0 && !mirrors_find_section(mirrors, text)) {
			conf_error(entry, err, "no [mirror \"%s\"] section", text);
			return err_remedy(err, "name a mirror, or a pattern with \"*\"");
		}
		watcher->mirrors.items[i] = mirror_usual_name(text);
		free(text);
	}
	return 0;
}

static bool mirrors_have_listed_watcher(const struct mirrors *mirrors, const char *name)
{
	for (size_t i = 0; i < mirrors->lists.count; i++)
		if (text_list_has(&mirrors->lists.items[i]->watchers, name))
			return true;
	return false;
}

static int watcher_check_use(const struct conf_entry *entry,
			     const struct watcher *watcher, const struct mirrors *mirrors,
			     struct err *err)
{
	if (watcher->mirrors.count > 0 ||
	    mirrors_have_listed_watcher(mirrors, watcher->name))
		return 0;
	conf_error(entry, err, "watcher.%s.mirror is not set", watcher->name);
	return err_remedy(err, "name a mirror or a pattern in it, or name the watcher in "
			       "mirrors.watcher");
}

static int mirrors_read_watcher(const struct conf *conf, const char *name,
				struct mirrors *mirrors, struct err *err)
{
	const struct conf_entry *entry = mirrors_any_entry(conf, "watcher", name);
	struct watcher watcher = { .name = xstrdup(name) };

	if (settings_read(&watcher_settings_table, conf, name, &watcher, err) == 0 &&
	    watcher_check(entry, &watcher, err) == 0 &&
	    watcher_check_use(entry, &watcher, mirrors, err) == 0 &&
	    watcher_check_mirrors(conf_get(conf, "watcher", name, "mirror"), &watcher,
				  mirrors, err) == 0) {
		watcher_find_hosts(mirrors, &watcher);
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

/* Watchers that a list names are there. */
static int mirrors_check_list(const struct conf *conf, const struct mirror_list *list,
			      const struct mirrors *mirrors, struct err *err)
{
	for (size_t i = 0; i < list->watchers.count; i++) {
		const char *name = list->watchers.items[i];
		size_t at = 0;
		while (at < mirrors->watchers.count &&
		       strcmp(mirrors->watchers.items[at].name, name) != 0)
			at++;
		if (at < mirrors->watchers.count)
			continue;
		conf_error(conf_get(conf, "mirrors", list->name, "watcher"), err,
			   "no [watcher \"%s\"] section", name);
		return err_remedy(err, "name one that has a section [watcher]");
	}
	return 0;
}

static int mirrors_check_lists(const struct conf *conf, const struct mirrors *mirrors,
			       struct err *err)
{
	for (size_t i = 0; i < mirrors->lists.count; i++)
		if (mirrors_check_list(conf, mirrors->lists.items[i], mirrors, err) != 0)
			return -1;
	return 0;
}

static int mirrors_read_all(const struct conf *conf, struct mirrors *mirrors,
			    struct err *err)
{
	if (mirrors_read_sections(conf, "mirror", mirrors_read_one, mirrors, err) != 0)
		return -1;
	vec_sort(&mirrors->sections, mirrors_compare);
	if (mirrors_check_apart(mirrors, err) != 0 ||
	    mirrors_read_sections(conf, "mirrors", mirrors_read_list, mirrors, err) !=
		    0 ||
	    mirrors_read_sections(conf, "watcher", mirrors_read_watcher, mirrors, err) !=
		    0)
		return -1;
	return mirrors_check_lists(conf, mirrors, err);
}

int mirrors_read(const struct conf *conf, struct mirrors *mirrors, struct err *err)
{
	const mirrors_told none = { 0 };

	*mirrors = (struct mirrors){ .set = mirror_set_new() };
	if (mirrors_read_all(conf, mirrors, err) == 0) {
		mirrors_replace_told(mirrors, &none, NULL, NULL);
		return 0;
	}
	mirrors_clear(mirrors);
	return -1;
}

bool mirrors_are_any(const struct mirrors *mirrors)
{
	return mirrors->sections.count > 0 || mirrors->lists.count > 0;
}

const struct mirror *mirrors_next(const struct mirrors *mirrors,
				  const struct mirror *before)
{
	return mirror_set_after(mirrors->set, before ? before->name : NULL);
}

const struct mirror *mirrors_find(const struct mirrors *mirrors, const char *name)
{
	AUTO_FREE char *usual = mirror_usual_name(name);

	return mirror_set_find(mirrors->set, usual);
}

const struct mirror *mirrors_find_section(const struct mirrors *mirrors, const char *name)
{
	AUTO_FREE char *usual = mirror_usual_name(name);
	const struct mirror key = { .name = usual }, *wanted = &key;
	struct mirror *const *found = mirrors->sections.count == 0
					      ? NULL
					      : bsearch(&wanted, mirrors->sections.items,
							mirrors->sections.count,
							sizeof(wanted), mirrors_compare);

	return found ? *found : NULL;
}

/*
 * Those that lists have told of.
 */

void mirrors_told_clear(mirrors_told *told)
{
	for (size_t i = 0; i < told->count; i++) {
		free(told->items[i].name);
		free(told->items[i].url);
	}
	vec_clear(told);
}

/* The folded name is taken, and those of the folders above it that end in ".git". */
static void mirrors_occupy(struct map *names, struct mirror *mirror)
{
	AUTO_FREE char *name = text_fold(mirror->name);

	map_put(names, name, mirror);
	mirrors_occupy_checkout(names, name, mirror);
	mirrors_occupy_folders(names, name, mirror);
	for (char *at = name; (at = strstr(at, ".git/")) != NULL; at++) {
		*at = '\0';
		if (!map_get(names, name))
			map_put(names, name, mirror);
		*at = '.';
	}
}

/* NULL: it has no URL that git could be given. */
static struct mirror *mirrors_make_told(const struct mirror_told *told)
{
	struct mirror *mirror = xcalloc(1, sizeof(*mirror));

	*mirror = (struct mirror){ .name = xstrdup(told->name),
				   .url = xstrdup(told->url),
				   .interval_ms = told->list->interval_ms,
				   .depth = told->list->depth,
				   .max_size = told->list->source.max_size,
				   .has_checkout = told->list->has_checkout,
				   .has_lfs = told->list->has_lfs,
				   .list = told->list };
	if (told->list->webhook_secret_file)
		mirror->webhook_secret_file = xstrdup(told->list->webhook_secret_file);
	if (told->list->ca_file && text_starts_with(told->url, "https://"))
		mirror->ca_file = xstrdup(told->list->ca_file);
	if (uri_text_read(mirror->url, &mirror->uri, ERR_IGNORED) == 0)
		return mirror;
	mirror_free(mirror);
	return NULL;
}

struct mirrors_replacing {
	const struct mirrors *mirrors;
	mirror_pointers all; /* those that will be there */
	struct map names;    /* folded, to the mirrors that have them */
	bool is_full;        /* none is made any more */
	void (*taken)(void *arg, const struct mirror_told *one, const struct mirror *by);
	void *arg;
};

static void mirrors_leave_out(const struct mirrors_replacing *run,
			      const struct mirror_told *told, const struct mirror *by)
{
	if (run->taken)
		run->taken(run->arg, told, by);
}

/* What is as it was stays the same mirror: others have pointers to it. */
static void mirrors_take_told(struct mirrors_replacing *run,
			      const struct mirror_told *told)
{
	const struct mirror key = { .name = told->name,
				    .has_checkout = told->list->has_checkout };
	const struct mirror *by = mirrors_find_clash(&run->names, &key);
	struct mirror *mirror;

	if (by) {
		mirrors_leave_out(run, told, by);
		return;
	}
	mirror = mirror_set_find_same(run->mirrors->set, told->list, told->name,
				      run->is_full ? NULL : told->url);
	if (run->is_full && (!mirror || strcmp(mirror->url, told->url) != 0))
		mirrors_leave_out(run, told, mirror);
	else if (!mirror)
		mirror = mirrors_make_told(told);
	if (!mirror)
		return;
	mirrors_occupy(&run->names, mirror);
	vec_add(&run->all, mirror);
}

void mirrors_replace_told(const struct mirrors *mirrors, const mirrors_told *told,
			  void (*taken)(void *arg, const struct mirror_told *one,
					const struct mirror *by),
			  void *arg)
{
	struct mirrors_replacing run = { .mirrors = mirrors,
					 .is_full = mirror_set_is_full(mirrors->set,
								       told->count),
					 .taken = taken,
					 .arg = arg };

	for (size_t i = 0; i < mirrors->sections.count; i++) {
		mirrors_occupy(&run.names, mirrors->sections.items[i]);
		vec_add(&run.all, mirrors->sections.items[i]);
	}
	for (size_t i = 0; i < told->count; i++)
		mirrors_take_told(&run, &told->items[i]);
	map_clear(&run.names);
	vec_sort(&run.all, mirrors_compare);
	mirror_set_replace(mirrors->set, &run.all);
}

const struct watcher *mirrors_next_watcher(const struct mirrors *mirrors,
					   const struct mirror *mirror, size_t *at)
{
	while (*at < mirrors->watchers.count) {
		const struct watcher *watcher = &mirrors->watchers.items[(*at)++];
		if (watcher_watches(watcher, mirror))
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
	if (mirror->list)
		return err_remedy(
			err,
			"name it in mirrors.%s.watcher: by a pattern alone, its "
			"credential goes to no host at which it has no other "
			"mirror or list",
			mirror->list->name);
	return err_remedy(err, "name one whose section [watcher] has this mirror");
}

static bool mirror_matches(const text_list *patterns, const char *ref)
{
	for (size_t i = 0; i < patterns->count; i++)
		if (fnmatch(patterns->items[i], ref, 0) == 0)
			return true;
	return false;
}

const char *mirrors_find_with_lfs(const struct mirrors *mirrors)
{
	for (size_t i = 0; i < mirrors->sections.count; i++)
		if (mirrors->sections.items[i]->has_lfs)
			return mirrors->sections.items[i]->name;
	for (size_t i = 0; i < mirrors->lists.count; i++)
		if (mirrors->lists.items[i]->has_lfs)
			return mirrors->lists.items[i]->name;
	return NULL;
}

bool mirror_has_ref(const struct mirror *mirror, const char *ref)
{
	return (mirror->refs.count == 0 || mirror_matches(&mirror->refs, ref)) &&
	       !mirror_matches(&mirror->exclude_refs, ref);
}

static bool mirror_is_same(const struct mirror *one, const struct mirror *other)
{
	return strcmp(one->name, other->name) == 0 &&
	       settings_are_same(&mirror_settings_table, one, other) &&
	       mirror_list_are_texts_same(&one->refs, &other->refs) &&
	       mirror_list_are_texts_same(&one->exclude_refs, &other->exclude_refs);
}

static bool watcher_is_same(const struct watcher *one, const struct watcher *other)
{
	return strcmp(one->name, other->name) == 0 &&
	       settings_are_same(&watcher_settings_table, one, other) &&
	       mirror_list_are_texts_same(&one->mirrors, &other->mirrors);
}

bool mirrors_are_same(const struct mirrors *one, const struct mirrors *other)
{
	bool is_same = one->sections.count == other->sections.count &&
		       one->lists.count == other->lists.count &&
		       one->watchers.count == other->watchers.count;

	for (size_t i = 0; is_same && i < one->sections.count; i++)
		is_same =
			mirror_is_same(one->sections.items[i], other->sections.items[i]);
	for (size_t i = 0; is_same && i < one->lists.count; i++)
		is_same = mirror_list_is_same(one->lists.items[i], other->lists.items[i]);
	for (size_t i = 0; is_same && i < one->watchers.count; i++)
		is_same = watcher_is_same(&one->watchers.items[i],
					  &other->watchers.items[i]);
	return is_same;
}
