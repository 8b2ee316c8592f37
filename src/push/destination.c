/*
 * Three texts for one place: `uri` is JGit's, which names task files; `git_url` is for
 * git, which decodes URLs of ssh:// and git:// but nothing else, takes "a::b" for a
 * remote helper and "-x" for an option; `path` is for a shell or for us.
 */
#include "push/destination.h"

#include "base/file.h"
#include "base/log.h"
#include "net/uri_text.h"
#include "push/pattern.h"
#include "push/select.h"
#include "replicable/discover.h"
#include "replicable/name.h"

/* A name that one remote has no place for must not keep it from the others: `check`
 * finds it. */
static void add_of_remote(const struct push_remote *remote, const char *project,
			  destination_list *list)
{
	for (size_t i = 0; i < remote->urls.count; i++) {
		struct destination one;
		struct err why;
		if (destination_make(remote, i, project, &one, &why) == 0)
			vec_add(list, one);
		else
			log_warn("push.no_destination", LOG_TEXT("repo", project),
				 LOG_TEXT("remote", remote->name), LOG_ERR(&why));
	}
}

void destinations_of(const struct push_settings *settings, const char *project,
		     destination_list *list)
{
	for (size_t i = 0; i < settings->remotes.count; i++) {
		const struct push_remote *remote = &settings->remotes.items[i];
		if (push_remote_takes(remote, project))
			add_of_remote(remote, project, list);
	}
}

static bool find_of_remote(const struct push_remote *remote, const char *project,
			   const char *uri, struct destination *destination)
{
	if (!push_remote_takes(remote, project))
		return false;
	for (size_t i = 0; i < remote->urls.count; i++) {
		if (destination_make(remote, i, project, destination, ERR_IGNORED) != 0)
			continue;
		if (strcmp(destination->uri, uri) == 0)
			return true;
		destination_clear(destination);
	}
	return false;
}

static bool find_of_any(const struct push_settings *settings, const char *project,
			const char *uri, struct destination *destination)
{
	for (size_t i = 0; i < settings->remotes.count; i++)
		if (find_of_remote(&settings->remotes.items[i], project, uri,
				   destination))
			return true;
	return false;
}

int destination_find(const struct push_settings *settings, const char *remote,
		     const char *project, const char *uri,
		     struct destination *destination, struct err *err)
{
	const struct push_remote *found = push_remote_find(settings, remote);

	if ((found && find_of_remote(found, project, uri, destination)) ||
	    find_of_any(settings, project, uri, destination))
		return 0;
	if (!found)
		return err_set(err, ERR_MISSING, "remote %s no longer exists", remote);
	if (!push_remote_takes(found, project))
		return err_set(err, ERR_MISSING, "remote %s does not take %s", remote,
			       project);
	return err_set(err, ERR_MISSING, "remote %s no longer has a URL for %s", remote,
		       uri);
}

bool destinations_have(const struct push_settings *settings, const char *project,
		       const char *uri)
{
	AUTO_DESTINATION struct destination found = { 0 };

	return find_of_any(settings, project, uri, &found);
}

void destination_list_clear(destination_list *list)
{
	int saved = errno;

	vec_clear_each(list, destination_clear);
	errno = saved;
}

bool destination_matches_url(const struct destination *destination, const char *part)
{
	return !part[0] || strcmp(part, "*") == 0 ||
	       strstr(destination->url->template, part) || strstr(destination->uri, part);
}

static int push_select_read_patterns(const char *const *texts, size_t count,
				     name_patterns *patterns, struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		struct name_pattern *pattern;
		if (name_pattern_new(texts[i], &pattern, err) != 0)
			return -1;
		vec_add(patterns, pattern);
	}
	return 0;
}

int push_select(const char *root, const char *const *patterns, size_t count,
		text_list *names, struct err *err)
{
	AUTO_DISCOVERY struct discovery discovery = { 0 };
	name_patterns wanted = { 0 };
	int result = push_select_read_patterns(patterns, count, &wanted, err);

	if (result == 0)
		result = discover(root, &discovery, err);
	for (size_t i = 0; result == 0 && i < discovery.found.count; i++) {
		const char *name = discovery.found.items[i].name;
		if (count == 0 || name_patterns_take(&wanted, name))
			vec_add(names, xstrdup(name));
	}
	name_patterns_clear(&wanted);
	return result;
}

/*
 * A destination among the repositories that are pushed from here would be pushed in turn:
 * to itself under other names, or to mirror/a, mirror/mirror/a and so on, without end.
 * Only places on this machine can be told.
 */

/* What the place is called among the repositories; NULL: it is not there. The caller
 * frees. */
static char *name_here(const char *root, const struct destination *destination)
{
	AUTO_FREE char *above = path_resolve(root);
	AUTO_FREE char *path = path_resolve(destination->path);
	size_t len = strlen(above), end = strlen(path);

	while (end > 0 && path[end - 1] == '/')
		path[--end] = '\0';
	if (!path_is_below(path, above) || end <= len + 1)
		return NULL;
	return name_of_path(path + len + (len > 1));
}

int destination_check_loop(const struct push_settings *settings, const char *root,
			   const struct destination *destination, struct err *err)
{
	AUTO_FREE char *name = NULL;

	if (destination->kind != URL_LOCAL)
		return 0;
	name = name_here(root, destination);
	for (size_t i = 0; name && i < settings->remotes.count; i++) {
		const struct push_remote *remote = &settings->remotes.items[i];
		if (!push_remote_takes(remote, name))
			continue;
		err_set(err, ERR_CONFIG,
			"%.300s is below site.repositories, and remote %.80s pushes "
			"what stands there: there would be no end",
			destination->uri, remote->name);
		return err_remedy(err,
				  "give remote %.80s a place outside, or leave %.200s "
				  "out with excludeProjects",
				  destination->remote->name, name);
	}
	return 0;
}

static bool is_ssh(const struct uri_text *uri)
{
	return uri->kind == URL_SSH || uri->kind == URL_GERRIT_SSH;
}

/* Bytes that may not stand in a URL as they are, and those of `also`. */
static void add_for_url(struct str *out, const char *text, const char *also)
{
	for (; *text; text++) {
		unsigned byte = (unsigned char)*text;
		if (byte <= ' ' || byte >= 0x7f || strchr(also, *text))
			str_addf(out, "%%%02x", byte);
		else
			str_add_char(out, *text);
	}
}

static void add_user(struct str *out, const struct uri_text *uri)
{
	if (!uri->user || !uri->user[0])
		return;
	add_for_url(out, uri->user, "%");
	str_add_char(out, '@');
}

static void add_host(struct str *out, const struct uri_text *uri)
{
	str_add(out, uri->host);
	if (uri->port > 0)
		str_addf(out, ":%u", uri->port);
}

/* What git shall not take for the home of a user: "//~x" is "/~x" to it. */
static void destination_add_path(struct str *out, const struct uri_text *uri)
{
	if (uri->path[0] == '~' || text_starts_with(uri->path, "/~"))
		str_add_char(out, '/');
	add_for_url(out, uri->path, "%");
}

static void render_git_url(const struct uri_text *uri, struct str *out)
{
	if (uri->kind == URL_SSH && !uri->scheme) {
		str_addf(out, "%s%s%s:%s", uri->user ? uri->user : "",
			 uri->user ? "@" : "", uri->host, uri->path);
		return;
	}
	switch (uri->kind) {
	case URL_SSH:
	case URL_GERRIT_SSH:
		str_add(out, "ssh://");
		add_user(out, uri);
		add_host(out, uri);
		destination_add_path(out, uri);
		return;
	case URL_GIT:
		str_add(out, "git://");
		add_host(out, uri);
		destination_add_path(out, uri);
		return;
	case URL_HTTP:
	case URL_GERRIT_HTTP:
		str_addf(out, "%s://",
			 uri->scheme + (uri->kind == URL_HTTP ? 0 : strlen("gerrit+")));
		add_host(out, uri);
		add_for_url(out, uri->raw_path, "");
		return;
	case URL_LOCAL:
	case URL_OTHER:
		str_add(out, uri->path);
		return;
	}
}

/* In host:path, what begins with the name must be told from options, helpers and homes;
 * "/~x" is a home to git there as well. */
static void disarm_path(struct uri_text *uri, bool begins_with_name)
{
	const char *before = NULL;

	if (uri->scheme || !uri->host)
		return;
	if (strchr(begins_with_name ? "-:~" : "-:", uri->path[0]))
		before = "./";
	else if (begins_with_name && text_starts_with(uri->path, "/~"))
		before = "/.";
	if (!before)
		return;
	char *path = xasprintf("%s%s", before, uri->path);
	free(uri->path);
	uri->path = path;
}

/* basenameOnly makes ".." of "a/...": a folder that may be a repository itself. */
static bool is_no_name(const char *name)
{
	return !name[0] || name_is_dots(name);
}

static char *bare_host(const struct uri_text *uri)
{
	bool has_user = is_ssh(uri) && uri->user && uri->user[0];
	size_t len = uri->host ? strlen(uri->host) : 0;
	bool brackets = len > 2 && uri->host[0] == '[' && uri->host[len - 1] == ']';

	if (!uri->host)
		return NULL;
	return xasprintf("%s%s%.*s", has_user ? uri->user : "", has_user ? "@" : "",
			 (int)(len - 2 * brackets), uri->host + brackets);
}

static char *breaker_of(const struct uri_text *uri)
{
	if (!uri->host)
		return xstrdup("");
	return xasprintf("%s://%s:%u", uri->scheme ? uri->scheme : "ssh", uri->host,
			 uri->port);
}

static void destination_fill(struct destination *destination, struct uri_text *uri,
			     bool by_name)
{
	AUTO_STR struct str text = STR_INIT, git_url = STR_INIT;

	uri_text_render(uri, &text);
	disarm_path(uri, by_name);
	render_git_url(uri, &git_url);
	destination->uri = str_take(&text);
	destination->git_url = str_take(&git_url);
	destination->path = xstrdup(uri->path);
	destination->host = bare_host(uri);
	destination->breaker = breaker_of(uri);
	destination->port = uri->port;
	destination->kind = uri->kind;
	uri_key_of(destination->uri, destination->uri_key);
}

static int destination_build(const struct push_remote *remote, const struct push_url *url,
			     const char *project, struct destination *destination,
			     struct err *err)
{
	AUTO_STR struct str name = STR_INIT;
	AUTO_URI struct uri_text uri = { 0 };

	name_add_styled(&name, project, remote->style);
	if (uri_text_read(url->template, &uri, err) != 0)
		return -1;
	if (url->uri_user)
		uri.user = xstrdup(url->uri_user);
	bool by_name =
		text_starts_with(uri.raw_path + (uri.raw_path[0] == '/'), "${name}");
	if (is_no_name(name.data) && uri_text_has_name(&uri))
		return err_set(err, ERR_CONFIG,
			       "remoteNameStyle leaves nothing of the name %s", project);
	if (uri_text_put_name(&uri, name.data, err) != 0 ||
	    uri_text_check(&uri, err) != 0)
		return -1;
	destination->remote = remote;
	destination->url = url;
	destination->project = xstrdup(project);
	destination_fill(destination, &uri, by_name);
	return 0;
}

int destination_make(const struct push_remote *remote, size_t which, const char *project,
		     struct destination *destination, struct err *err)
{
	*destination = (struct destination){ 0 };
	if (destination_build(remote, &remote->urls.items[which], project, destination,
			      err) != 0)
		return err_prefix(err, "remote %s", remote->name);
	return 0;
}

int destination_admin(const struct destination *destination, destination_list *admins,
		      struct err *err)
{
	const struct push_remote *remote = destination->remote;
	struct destination one = { 0 };

	for (size_t i = 0; i < remote->admin_urls.count; i++) {
		if (destination_build(remote, &remote->admin_urls.items[i],
				      destination->project, &one, err) != 0)
			return err_prefix(err, "remote %s: adminUrl", remote->name);
		vec_add(admins, one);
	}
	if (remote->admin_urls.count > 0)
		return 0;
	if (destination_build(remote, destination->url, destination->project, &one,
			      err) != 0)
		return err_prefix(err, "remote %s", remote->name);
	vec_add(admins, one);
	return 0;
}

const char *destination_share(const struct destination *destination)
{
	return destination->breaker[0] ? destination->breaker
				       : destination->url->template;
}

void destination_clear(struct destination *destination)
{
	int saved = errno;

	free(destination->project);
	free(destination->uri);
	free(destination->git_url);
	free(destination->path);
	free(destination->host);
	free(destination->breaker);
	*destination = (struct destination){ 0 };
	errno = saved;
}
