#include "mirror/upstream_entry.h"

#include <strings.h>

#include "base/clock.h"
#include "replicable/name.h"

#define KIB 1024

const char *const upstream_from_words[] = { "github",    "gitlab",     "gitea",
					    "directory", "grokmirror", NULL };

/* What each forge calls it; NULL: it says nothing of that. */
static const struct upstream_keys {
	const char *name, *http, *ssh, *pushed_at, *empty;
} keys[] = {
	[UPSTREAM_GITHUB] = { "full_name", "clone_url", "ssh_url", "pushed_at", NULL },
	[UPSTREAM_GITLAB] = { "path_with_namespace", "http_url_to_repo",
			      "ssh_url_to_repo", "last_activity_at", "empty_repo" },
	[UPSTREAM_GITEA] = { "full_name", "clone_url", "ssh_url", "updated_at", "empty" },
};

/* NULL: there is none, or it is empty. */
static char *upstream_entry_copy_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text && text[0] ? xstrdup(text) : NULL;
}

/* GitLab tells bytes, and only those who may know; the others KiB. */
static int64_t upstream_entry_read_size(enum upstream_from from, const json_t *object)
{
	const json_t *size = json_object_get(object, "size");
	int64_t unit = KIB;

	if (from == UPSTREAM_GITLAB) {
		size = json_object_get(json_object_get(object, "statistics"),
				       "repository_size");
		unit = 1;
	}
	if (!json_is_integer(size) || json_integer_value(size) < 0 ||
	    json_integer_value(size) > INT64_MAX / unit)
		return -1;
	return json_integer_value(size) * unit;
}

/* "2026-11-21T09:14:03.120+01:00" or "...03Z"; the parts of a second are left out. */
static int64_t upstream_entry_read_time(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	int64_t wall_ms;

	return text && clock_parse_zoned(text, &wall_ms) ? wall_ms : 0;
}

int upstream_entry_read(enum upstream_from from, const json_t *object,
			struct upstream_entry *entry, struct err *err)
{
	const struct upstream_keys *key = &keys[from];
	char *name = upstream_entry_copy_text(object, key->name);

	if (!name)
		return err_set(err, ERR_CORRUPT, "a repository without %s", key->name);
	*entry = (struct upstream_entry){
		.name = name,
		.http = upstream_entry_copy_text(object, key->http),
		.ssh = upstream_entry_copy_text(object, key->ssh),
		.branch = upstream_entry_copy_text(object, "default_branch"),
		.size = upstream_entry_read_size(from, object),
		.pushed_at = upstream_entry_read_time(object, key->pushed_at),
		.is_fork = json_is_true(json_object_get(object, "fork")) ||
			   json_is_object(json_object_get(object, "forked_from_project")),
		.is_archived = json_is_true(json_object_get(object, "archived")),
		.is_empty =
			key->empty && json_is_true(json_object_get(object, key->empty)),
	};
	return 0;
}

struct upstream_entry upstream_entry_copy(const struct upstream_entry *entry)
{
	struct upstream_entry copy = *entry;

	copy.name = xstrdup(entry->name);
	copy.http = xstrdup_or_null(entry->http);
	copy.ssh = xstrdup_or_null(entry->ssh);
	copy.branch = xstrdup_or_null(entry->branch);
	copy.fingerprint = xstrdup_or_null(entry->fingerprint);
	return copy;
}

void upstream_entry_clear(struct upstream_entry *entry)
{
	free(entry->name);
	free(entry->http);
	free(entry->ssh);
	free(entry->branch);
	free(entry->fingerprint);
	*entry = (struct upstream_entry){ 0 };
}

/* "a.git/b" would lie inside the mirror "a". */
static bool upstream_entry_is_inside(const char *name)
{
	return strcasestr(name, ".git/") != NULL;
}

int upstream_entry_make_name(const struct upstream_entry *entry, char **name,
			     struct err *err)
{
	AUTO_FREE char *made = name_of_path(entry->name);

	*name = NULL;
	if (name_judge(made, err) != 0)
		return -1;
	if (upstream_entry_is_inside(made))
		return err_set(err, ERR_CONFIG, "a folder of its name ends in .git");
	*name = TAKE(made);
	return 0;
}

static bool upstream_entry_is_loopback(const char *host)
{
	return strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
	       text_starts_with(host, "127.");
}

bool upstream_entry_is_host(const char *host, const char *api)
{
	return strcasecmp(host, api) == 0 ||
	       (strncasecmp(api, "api.", 4) == 0 && strcasecmp(host, api + 4) == 0);
}

static int upstream_entry_check_way(const struct uri_text *uri,
				    const struct uri_text *api, struct err *err)
{
	bool is_plain = uri->kind == URL_HTTP && strcmp(uri->scheme, "http") == 0;

	if ((uri->kind != URL_HTTP && uri->kind != URL_SSH) || !uri->host)
		return err_set(err, ERR_CONFIG, "it is neither https nor ssh");
	if (is_plain &&
	    (strcmp(api->scheme, "http") != 0 || !upstream_entry_is_loopback(api->host)))
		return err_set(err, ERR_CONFIG, "it is neither https nor ssh");
	if (uri->password || (uri->user && uri->kind == URL_HTTP))
		return err_set(err, ERR_CONFIG, "it has a user's name or password");
	if (!upstream_entry_is_host(uri->host, api->host))
		return err_set(err, ERR_CONFIG, "it is at the host %.100s, not at %.100s",
			       uri->host, api->host);
	return uri_text_check(uri, err);
}

static int upstream_entry_check_url(const char *url, const struct uri_text *api,
				    struct err *err)
{
	AUTO_URI struct uri_text uri = { 0 };

	if (!text_is_utf8(url, strlen(url)))
		return err_set(err, ERR_CONFIG, "it is not UTF-8");
	for (const char *at = url; *at; at++)
		if ((unsigned char)*at <= ' ' || *at == 0x7f)
			return err_set(err, ERR_CONFIG,
				       "it has blanks or control "
				       "characters");
	return uri_text_read(url, &uri, err) == 0
		       ? upstream_entry_check_way(&uri, api, err)
		       : -1;
}

int upstream_entry_choose_url(const struct upstream_entry *entry,
			      const struct uri_text *api, const char **url,
			      struct err *err)
{
	err_set(err, ERR_CONFIG, "the forge does not say how to clone it");
	*url = entry->http;
	if (*url && upstream_entry_check_url(*url, api, err) == 0)
		return 0;
	*url = entry->ssh;
	if (*url && upstream_entry_check_url(*url, api, err) == 0)
		return 0;
	*url = NULL;
	return err_prefix(err, "its URL is refused");
}

void upstream_findings_clear(struct upstream_findings *findings)
{
	vec_clear_members(&findings->items, name);
	findings->left_out = 0;
}

void upstream_findings_add(struct upstream_findings *findings, const char *name,
			   const struct err *err)
{
	if (findings->left_out++ >= UPSTREAM_FINDINGS_MAX)
		return;
	struct upstream_finding finding = { .name = xstrdup(name), .err = *err };
	vec_add(&findings->items, finding);
}

void upstream_findings_add_all(struct upstream_findings *findings,
			       const struct upstream_findings *more)
{
	for (size_t i = 0; i < more->items.count; i++)
		upstream_findings_add(findings, more->items.items[i].name,
				      &more->items.items[i].err);
	findings->left_out += more->left_out - more->items.count;
}
