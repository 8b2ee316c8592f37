#include "push/uri_text.h"

static void uri_render_add_escaped(struct str *out, const char *text,
				   const char *reserved)
{
	for (; *text; text++) {
		unsigned byte = (unsigned char)*text;
		if (byte <= ' ' || byte > 0x7f || strchr(reserved, (int)byte) ||
		    byte == '%')
			str_addf(out, "%%%02x", byte);
		else
			str_add_char(out, *text);
	}
}

void uri_text_render(const struct uri_text *uri, struct str *out)
{
	if (uri->scheme)
		str_addf(out, "%s://", uri->scheme);
	if (uri->user)
		uri_render_add_escaped(out, uri->user, "!*'();:@&=+$,/?#[]");
	if (uri->host) {
		if (uri->user && uri->user[0])
			str_add_char(out, '@');
		uri_render_add_escaped(out, uri->host, "");
		if (uri->port > 0)
			str_addf(out, ":%u", uri->port);
	}
	if (!uri->scheme) {
		str_addf(out, "%s%s", uri->host ? ":" : "", uri->path);
		return;
	}
	if (uri->path[0] && uri->path[0] != '/')
		str_add_char(out, '/');
	uri_render_add_escaped(out, uri->path, "");
}

char *uri_text_without_secrets(const char *text, const struct uri_text *uri)
{
	const char *start = uri->scheme ? strstr(text, "://") : NULL, *at, *cut;
	size_t authority;

	start = start ? start + 3 : text;
	authority =
		uri->scheme ? strcspn(start, "/") : strlen(text) - strlen(uri->raw_path);
	at = memrchr(start, '@', authority);
	if (!at || !uri->user)
		return xstrdup(text);
	if (uri->kind == URL_HTTP || uri->kind == URL_GERRIT_HTTP)
		return xasprintf("%.*s%s", (int)(start - text), text, at + 1);
	cut = memchr(start, ':', (size_t)(at - start));
	return xasprintf("%.*s%s", (int)((cut ? cut : at) - text), text, at);
}
