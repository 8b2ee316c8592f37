#include "push/settings_parts.h"

#include "push/pattern.h"
#include "push/uri_text.h"

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
	return uri_text_check(uri, ERR_IGNORED) == 0 ? NULL : "it is no place by ssh";
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
