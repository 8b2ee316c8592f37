#include "net/uri_text.h"

#include <ctype.h>

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

#define NAME "${name}"

char *uri_text_decode(const char *text, size_t len)
{
	AUTO_STR struct str out = STR_INIT;

	for (size_t i = 0; i < len; i++) {
		char byte, digits[3] = { 0 };
		if (text[i] != '%') {
			str_add_char(&out, text[i]);
			continue;
		}
		if (i + 2 >= len)
			return NULL;
		memcpy(digits, text + i + 1, 2);
		if (!text_from_hex(digits, &byte, 1) || byte == '\0')
			return NULL;
		str_add_char(&out, byte);
		i += 2;
	}
	return out.len > 0 ? str_take(&out) : xstrdup("");
}

static int uri_text_fail(const char *why, struct err *err)
{
	return err_set(err, ERR_CONFIG, "this URL cannot be read: %s", why);
}

static enum url_kind uri_text_find_kind(const struct uri_text *uri)
{
	static const struct {
		const char *scheme;
		enum url_kind kind;
	} schemes[] = {
		{ "file", URL_LOCAL },
		{ "ssh", URL_SSH },
		{ "git+ssh", URL_SSH },
		{ "ssh+git", URL_SSH },
		{ "git", URL_GIT },
		{ "http", URL_HTTP },
		{ "https", URL_HTTP },
		{ "gerrit+ssh", URL_GERRIT_SSH },
		{ "gerrit+http", URL_GERRIT_HTTP },
		{ "gerrit+https", URL_GERRIT_HTTP },
	};

	if (!uri->scheme)
		return uri->host ? URL_SSH : URL_LOCAL;
	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
		if (strcmp(schemes[i].scheme, uri->scheme) == 0)
			return schemes[i].kind;
	return URL_OTHER;
}

/* "user:password" of len bytes; decoded if `coded`. */
static int read_user(struct uri_text *uri, const char *text, size_t len, bool coded,
		     struct err *err)
{
	const char *colon = memchr(text, ':', len);
	size_t user = colon ? (size_t)(colon - text) : len;

	uri->user = coded ? uri_text_decode(text, user) : xstrndup(text, user);
	if (colon && coded)
		uri->password = uri_text_decode(colon + 1, len - user - 1);
	else if (colon)
		uri->password = xstrndup(colon + 1, len - user - 1);
	if (!uri->user || (colon && !uri->password))
		return uri_text_fail(
			"a % in its user or password is not followed by two digits", err);
	return 0;
}

static int read_port(struct uri_text *uri, const char *text, size_t len, struct err *err)
{
	AUTO_FREE char *digits = xstrndup(text, len);
	uint64_t port = 0;

	if (len > 0 && (!text_to_uint64(digits, &port) || port == 0 || port > 65535))
		return uri_text_fail("its port is no number from 1 to 65535", err);
	uri->port = (uint16_t)port;
	return 0;
}

/* "[user[:password]@]host[:port]" of len bytes. */
static int read_authority(struct uri_text *uri, const char *text, size_t len,
			  struct err *err)
{
	const char *end = text + len, *at = memrchr(text, '@', len);
	const char *host = at ? at + 1 : text, *bracket = NULL, *colon;

	if (at && read_user(uri, text, (size_t)(at - text), true, err) != 0)
		return -1;
	if (host < end && *host == '[') {
		bracket = memchr(host, ']', (size_t)(end - host));
		if (!bracket)
			return uri_text_fail("a bracket is not closed", err);
	}
	colon = memchr(bracket ? bracket : host, ':',
		       (size_t)(end - (bracket ? bracket : host)));
	uri->host = uri_text_decode(host, (size_t)((colon ? colon : end) - host));
	if (!uri->host || !uri->host[0])
		return uri_text_fail("it has no host", err);
	return colon ? read_port(uri, colon + 1, (size_t)(end - colon - 1), err) : 0;
}

/* As JGit does: "/~user/..." begins with "~". The caller frees; NULL: wrong. */
static char *uri_text_decode_path(const struct uri_text *uri, const char *raw, size_t len)
{
	if (!uri->scheme)
		return xstrndup(raw, len);
	return text_starts_with(raw, "/~") ? uri_text_decode(raw + 1, len - 1)
					   : uri_text_decode(raw, len);
}

static int set_path(struct uri_text *uri, const char *raw, struct err *err)
{
	uri->raw_path = xstrdup(raw);
	uri->path = uri_text_decode_path(uri, raw, strlen(raw));
	if (!uri->path)
		return uri_text_fail("a % in its path is not followed by two digits",
				     err);
	return 0;
}

static int read_with_scheme(const char *text, const char *colon, struct uri_text *uri,
			    struct err *err)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789+-";
	const char *rest = colon + 3;
	size_t len = (size_t)(colon - text), authority = strcspn(rest, "/");

	if (strspn(text, letters) != len)
		return uri_text_fail("its scheme must be in lower-case letters", err);
	uri->scheme = xstrndup(text, len);
	if (authority > 0 && read_authority(uri, rest, authority, err) != 0)
		return -1;
	return set_path(uri, rest + authority, err);
}

/* Where the path of "host:path" begins; NULL: it is none. One letter before ":/" is a
 * drive to JGit. */
static const char *scp_path(const char *text)
{
	const char *at = strchr(text, '@'), *slash = strchr(text, '/'), *colon;
	const char *host = at && (!slash || at < slash) ? at + 1 : text;

	if (*host == '[') {
		colon = strstr(host, "]:");
		colon = colon ? colon + 1 : NULL;
	} else {
		colon = strchr(host, ':');
	}
	if (!colon || colon == host || !colon[1] || (slash && slash < colon) ||
	    (colon[1] == '/' && colon == text + 1))
		return NULL;
	return colon + 1;
}

static int read_scp(const char *text, const char *path, struct uri_text *uri,
		    struct err *err)
{
	size_t len = (size_t)(path - 1 - text);
	const char *at = memrchr(text, '@', len), *host = at ? at + 1 : text;

	if (at && read_user(uri, text, (size_t)(at - text), false, err) != 0)
		return -1;
	uri->host = xstrndup(host, len - (size_t)(host - text));
	uri->path = xstrdup(path);
	uri->raw_path = xstrdup(path);
	return 0;
}

static int read_any(const char *text, struct uri_text *uri, struct err *err)
{
	const char *colon = strstr(text, "://"), *path;

	if (!text[0])
		return uri_text_fail("it is empty", err);
	if (colon && colon > text && !memchr(text, '/', (size_t)(colon - text)))
		return read_with_scheme(text, colon, uri, err);
	if (text_starts_with(text, "file:/")) {
		uri->scheme = xstrdup("file");
		return set_path(uri, text + strlen("file:"), err);
	}
	path = scp_path(text);
	if (path)
		return read_scp(text, path, uri, err);
	uri->path = xstrdup(text);
	uri->raw_path = xstrdup(text);
	return 0;
}

int uri_text_read(const char *text, struct uri_text *uri, struct err *err)
{
	*uri = (struct uri_text){ 0 };
	if (read_any(text, uri, err) != 0) {
		uri_text_clear(uri);
		return -1;
	}
	uri->kind = uri_text_find_kind(uri);
	return 0;
}

void uri_text_clear(struct uri_text *uri)
{
	int saved = errno;

	free(uri->scheme);
	free(uri->user);
	free(uri->password);
	free(uri->host);
	free(uri->raw_path);
	free(uri->path);
	*uri = (struct uri_text){ 0 };
	errno = saved;
}

/* "https:/joe:password@host/x" would be a path at the host "https", and be shown. */
static bool is_misspelt(const struct uri_text *uri)
{
	static const char *const schemes[] = { "file", "ftp",   "git",
					       "http", "https", "ssh" };

	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
		if (!uri->scheme && uri->host && uri->path[0] == '/' &&
		    strcmp(uri->host, schemes[i]) == 0)
			return true;
	return false;
}

int uri_text_check(const struct uri_text *uri, struct err *err)
{
	if (uri->kind == URL_OTHER)
		return err_set(err, ERR_CONFIG, "git cannot push to %s:// URLs",
			       uri->scheme);
	if (is_misspelt(uri)) {
		err_set(err, ERR_CONFIG, "this URL lacks a / behind %s:", uri->host);
		return err_remedy(err, "write %s://", uri->host);
	}
	if (uri->kind == URL_LOCAL && (uri->host || uri->path[0] != '/')) {
		err_set(err, ERR_CONFIG, "it is neither a URL nor an absolute path");
		return err_remedy(err, "begin a local path with /, and write other "
				       "places as ssh://, git://, http:// or https://");
	}
	if (uri->kind != URL_LOCAL && !uri->host)
		return err_set(err, ERR_CONFIG, "this URL has no host");
	if ((uri->host && uri->host[0] == '-') || (uri->user && uri->user[0] == '-'))
		return err_set(err, ERR_CONFIG,
			       "a host or user whose name begins with - is refused: "
			       "programs would take it for an option");
	return 0;
}

bool uri_text_has_name(const struct uri_text *uri)
{
	return strstr(uri->raw_path, NAME) != NULL;
}

/* Appends a name as the path of an HTTP URL: each part as Guava's path segment escaper
 * has it. */
static void uri_text_add_encoded(struct str *out, const char *name)
{
	static const char kept[] = "abcdefghijklmnopqrstuvwxyz"
				   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				   "-._~!$'()*,;&=@:+/";

	for (; *name; name++) {
		if (strchr(kept, *name))
			str_add_char(out, *name);
		else
			str_addf(out, "%%%02X", (unsigned)(unsigned char)*name);
	}
}

/* What stands before and behind the name is decoded by itself, so that nothing in the
 * name is. */
int uri_text_put_name(struct uri_text *uri, const char *name, struct err *err)
{
	AUTO_STR struct str path = STR_INIT, raw = STR_INIT;
	const char *at = strstr(uri->raw_path, NAME), *behind;

	if (!at)
		return 0;
	behind = at + strlen(NAME);
	AUTO_FREE char *before = xstrndup(uri->raw_path, (size_t)(at - uri->raw_path));
	AUTO_FREE char *head = uri_text_decode_path(uri, before, strlen(before));
	AUTO_FREE char *tail =
		uri->scheme ? uri_text_decode(behind, strlen(behind)) : xstrdup(behind);
	if (!head || !tail)
		return uri_text_fail("a % in its path is not followed by two digits",
				     err);
	str_addf(&path, "%s%s%s", head, name, tail);
	str_add(&raw, before);
	if (uri->kind == URL_HTTP)
		uri_text_add_encoded(&raw, name);
	else
		str_add(&raw, name);
	str_add(&raw, behind);
	free(uri->path);
	free(uri->raw_path);
	uri->path = str_take(&path);
	uri->raw_path = str_take(&raw);
	return 0;
}
