#include "push/uri_state.h"

#include "base/log.h"
#include "push/name_encoding.h"
#include "push/state_json.h"
#include "push/store_file.h"
#include "push/task_parts.h"
#include "push/uri_text.h"

/* Just "uri", "remote" and "project". */
static void uri_names_put_json(json_t *object, const char *uri, const char *remote,
			       const char *project)
{
	json_put_text(object, "uri", uri);
	json_put_text(object, "remote", remote);
	json_put_text(object, "project", project);
}

static int get_text(const json_t *object, const char *key, char **text, struct err *err)
{
	AUTO_STR struct str got = STR_INIT;

	if (json_get_bytes(object, key, &got, err) != 0)
		return -1;
	*text = xstrdup(got.data);
	return 0;
}

static int uri_names_get_json(const json_t *object, char **uri, char **remote,
			      char **project, struct err *err)
{
	if (get_text(object, "uri", uri, err) != 0 ||
	    get_text(object, "remote", remote, err) != 0)
		return -1;
	return get_text(object, "project", project, err);
}

static void uri_state_write_json(const struct uri_state *state, struct str *out)
{
	json_auto_t *object = json_object();

	uri_names_put_json(object, state->uri, state->remote, state->project);
	json_put_number(object, "retry_at", state->retry_at);
	json_put_number(object, "failures", (int64_t)state->failures);
	json_put_number(object, "lock_failures", (int64_t)state->lock_failures);
	json_put_number(object, "failing_since", state->failing_since);
	json_put_number(object, "last_success_at", state->last_success_at);
	json_put_number(object, "held_since", state->held_since);
	json_put_text(object, "node", state->node);
	err_put_json(object, &state->failure);
	json_t *letters = json_array();
	for (size_t i = 0; i < state->letters.count; i++)
		json_array_append_new(letters, json_string(state->letters.items[i]));
	json_put(object, "given_up", letters);
	json_render(object, out);
	str_add_char(out, '\n');
}

static int64_t uri_state_json_get_number(const json_t *object, const char *key)
{
	int64_t number = json_integer_value(json_object_get(object, key));

	return number > 0 ? number : 0;
}

static void get_dead_letters(const json_t *object, text_list *letters)
{
	const json_t *list = json_object_get(object, "given_up");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *key = json_string_value(json_array_get(list, i));
		if (key)
			vec_add(letters, xstrdup(key));
	}
}

static int uri_state_read_json(const struct str *text, struct uri_state *state,
			       struct err *err)
{
	json_auto_t *object = json_parse_object(text->data, text->len, SIZE_MAX, err);
	const char *node;

	if (!object || uri_names_get_json(object, &state->uri, &state->remote,
					  &state->project, err) != 0)
		return -1;
	state->retry_at = uri_state_json_get_number(object, "retry_at");
	state->failures = (uint64_t)uri_state_json_get_number(object, "failures");
	state->lock_failures =
		(uint64_t)uri_state_json_get_number(object, "lock_failures");
	state->failing_since = uri_state_json_get_number(object, "failing_since");
	state->last_success_at = uri_state_json_get_number(object, "last_success_at");
	state->held_since = uri_state_json_get_number(object, "held_since");
	node = json_string_value(json_object_get(object, "node"));
	snprintf(state->node, sizeof(state->node), "%s", node ? node : "");
	err_get_json(object, &state->failure);
	get_dead_letters(object, &state->letters);
	return 0;
}

enum { REQUEST_SIZE_MAX = 1 << 20 };

static const char *const words[URI_REQUESTS] = {
	[REQUEST_HEAD] = "head",
	[REQUEST_DELETE] = "delete",
	[REQUEST_FORCE] = "force",
};

const char *uri_request_word(enum uri_request request)
{
	return words[request];
}

static void requested_clear(struct requested *requested)
{
	free(requested->uri);
	free(requested->remote);
	free(requested->project);
	*requested = (struct requested){ 0 };
}

void requested_list_clear(requested_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		requested_clear(&list->items[i]);
	vec_clear(list);
}

struct request_file {
	char name[URI_KEY_SIZE + 16];
};

static struct request_file request_file(const char *uri_key, enum uri_request request)
{
	struct request_file file;

	snprintf(file.name, sizeof(file.name), "%s.%s", uri_key, words[request]);
	return file;
}

int uri_request_add(struct task_store *store, const struct destination *destination,
		    enum uri_request request, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	json_auto_t *object = json_object();
	struct request_file name = request_file(destination->uri_key, request);
	struct new_file file = { REQUESTS, name.name, &text, 0, FILE_SYNC };

	uri_names_put_json(object, destination->uri, destination->remote->name,
			   destination->project);
	json_render(object, &text);
	str_add_char(&text, '\n');
	return store_put_new(store, &file, err);
}

static int read_json(const struct str *text, struct requested *requested, struct err *err)
{
	json_auto_t *object =
		json_parse_object(text->data, text->len, REQUEST_SIZE_MAX, err);

	if (!object)
		return -1;
	return uri_names_get_json(object, &requested->uri, &requested->remote,
				  &requested->project, err);
}

/* The lease of a URI goes by the key in the file's name: it must be this URI's. */
static int check_key(const char *name, const struct requested *requested, struct err *err)
{
	char uri_key[URI_KEY_SIZE];

	uri_key_of(requested->uri, uri_key);
	if (text_starts_with(name, uri_key))
		return 0;
	return err_set(err, ERR_CORRUPT, "no request: its URI is not that of its name");
}

/* As tasks: what is none is set aside. */
static int uri_request_read_file(struct task_store *store, int dir, const char *name,
				 struct requested *requested, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? 0 : err_errno(err, "cannot look at %s", name);
	requested->since = stat_ms(&st);
	if (file_read(dir, name, REQUEST_SIZE_MAX, &text, err) == 0 &&
	    read_json(&text, requested, err) == 0 && check_key(name, requested, err) == 0)
		return 1;
	requested_clear(requested);
	if (err->class == ERR_MISSING)
		return 0;
	if (!is_no_task(err))
		return -1;
	store_set_aside(store, dir, name, err);
	return 0;
}

int uri_request_get(struct task_store *store, const char *uri_key,
		    enum uri_request request, struct requested *requested,
		    struct err *err)
{
	AUTO_CLOSE int dir = store_dir(store, REQUESTS, err);
	int result;

	*requested = (struct requested){ .request = request };
	if (dir < 0)
		return -1;
	result = uri_request_read_file(store, dir, request_file(uri_key, request).name,
				       requested, err);
	if (result == 1) {
		requested->request = request;
		snprintf(requested->uri_key, sizeof(requested->uri_key), "%s", uri_key);
	}
	return result;
}

int uri_request_remove(struct task_store *store, const char *uri_key,
		       enum uri_request request, struct err *err)
{
	return store_remove(store, REQUESTS, request_file(uri_key, request).name, err);
}

/* Whether it is a request's name; others are left alone. */
static bool uri_request_split_name(const char *name, char uri_key[URI_KEY_SIZE],
				   enum uri_request *request)
{
	snprintf(uri_key, URI_KEY_SIZE, "%s", name);
	if (!is_uri_key(uri_key) || name[URI_KEY_SIZE - 1] != '.')
		return false;
	for (size_t i = 0; i < URI_REQUESTS; i++) {
		if (strcmp(name + URI_KEY_SIZE, words[i]) == 0) {
			*request = (enum uri_request)i;
			return true;
		}
	}
	return false;
}

int uri_request_list(struct task_store *store, requested_list *list, struct err *err)
{
	AUTO_TEXT_LIST text_list names = { 0 };
	AUTO_CLOSE int dir = store_dir(store, REQUESTS, err);

	if (dir < 0 || store_list_files(dir, &names, err) != 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		char uri_key[URI_KEY_SIZE];
		enum uri_request request;
		struct requested one;
		if (!uri_request_split_name(names.items[i], uri_key, &request))
			continue;
		int result = uri_request_get(store, uri_key, request, &one, err);
		if (result < 0)
			return -1;
		if (result == 1)
			vec_add(list, one);
	}
	return 0;
}

int uri_request_watch_fd(const struct task_store *store)
{
	return store->request_watch;
}

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

/* Decodes %xx in len bytes; the caller frees. NULL: a "%" without two digits, or %00. */
static char *uri_text_decode(const char *text, size_t len)
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
		name_add_encoded(&raw, name);
	else
		str_add(&raw, name);
	str_add(&raw, behind);
	free(uri->path);
	free(uri->raw_path);
	uri->path = str_take(&path);
	uri->raw_path = str_take(&raw);
	return 0;
}

#define STATE_SIZE_MAX ((size_t)1 << 20)

void uri_state_clear(struct uri_state *state)
{
	free(state->uri);
	free(state->remote);
	free(state->project);
	text_list_clear(&state->letters);
	*state = (struct uri_state){ 0 };
}

void uri_states_clear(uri_states *states)
{
	for (size_t i = 0; i < states->count; i++)
		uri_state_clear(&states->items[i]);
	vec_clear(states);
}

static int uri_state_read_file(int dir, const char *uri_key, struct uri_state *state,
			       struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	*state = (struct uri_state){ 0 };
	if (file_read(dir, uri_key, STATE_SIZE_MAX, &text, err) == 0 &&
	    uri_state_read_json(&text, state, err) == 0)
		return 1;
	uri_state_clear(state);
	if (err->class == ERR_MISSING)
		return 0;
	if (!is_no_task(err))
		return -1;
	log_warn("uri_state.bad", LOG_ERR(err), LOG_TEXT("file", uri_key));
	return 0;
}

int uri_state_read(struct task_store *store, const char *uri_key, struct uri_state *state,
		   struct err *err)
{
	AUTO_CLOSE int dir = store_dir(store, STATES, err);

	*state = (struct uri_state){ 0 };
	return dir < 0 ? -1 : uri_state_read_file(dir, uri_key, state, err);
}

int uri_state_write(struct task_store *store, const char *uri_key,
		    const struct uri_state *state, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	struct new_file file = { STATES, uri_key, &text, 0, FILE_SYNC };

	uri_state_write_json(state, &text);
	return store_put(store, &file, err);
}

int uri_state_remove(struct task_store *store, const char *uri_key, struct err *err)
{
	return store_remove(store, STATES, uri_key, err);
}

int uri_state_list(struct task_store *store, uri_states *states, struct err *err)
{
	AUTO_TEXT_LIST text_list names = { 0 };
	AUTO_CLOSE int dir = store_dir(store, STATES, err);

	if (dir < 0 || store_list_files(dir, &names, err) != 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		struct uri_state state;
		if (!is_uri_key(names.items[i]))
			continue;
		int result = uri_state_read_file(dir, names.items[i], &state, err);
		if (result < 0)
			return -1;
		if (result == 1)
			vec_add(states, state);
	}
	return 0;
}
