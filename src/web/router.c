#include "web/router.h"

#include "base/str.h"
#include "web/server.h"
#include "web/web_metrics.h"

/* Git's come last: as a path of theirs may begin with anything, they would also take
 * paths of the API, as of a repository "info" there: /api/v1/repositories/info/refs. */
const struct web_route *const web_routes[] = {
	web_health_routes,
	web_event_routes,
	web_repository_routes,
	web_refs_routes,
	web_pack_routes,
	web_blob_routes,
	web_retrieve_routes,
	web_lease_routes,
	web_push_routes,
	web_mirror_routes,
	web_manifest_routes,
	web_version_routes,
	web_view_routes,
	web_page_routes,
	web_git_routes,
	web_lfs_routes,
	NULL,
};

int web_server_start(const struct web_server_options *options, struct web_server **server,
		     struct err *err)
{
	struct web_server_options own = *options;

	web_metrics_begin(options->services);
	if (!own.routes)
		own.routes = web_routes;
	return server_start(&own, server, err);
}

/*
 * One place decides what a target may look like, on the decoded text: who asks for
 * "%2e%2e/x" or "a%2F%2Fb" gets what "../x" and "a//b" get. An encoded slash is right
 * in itself, since names of repositories travel as one segment.
 */

enum { TARGET_MAX = 8 << 10 };

/* A fragment is the client's own business: who passed it on would lose it. */
static bool is_sendable(const char *raw)
{
	for (; *raw; raw++)
		if ((unsigned char)*raw <= ' ' || *raw == 0x7f || *raw == '#')
			return false;
	return true;
}

/* How many bytes stand for themselves. */
static size_t plain_length(const char *text, size_t len, bool plus_is_space)
{
	const char *escape = memchr(text, '%', len);
	const char *plus;

	if (escape)
		len = (size_t)(escape - text);
	plus = plus_is_space ? memchr(text, '+', len) : NULL;
	return plus ? (size_t)(plus - text) : len;
}

/* Decodes into *out; false on bad encoding or a NUL. */
static bool web_target_decode(const char *text, size_t len, bool plus_is_space,
			      struct str *out)
{
	str_reserve(out, len);
	while (len > 0) {
		size_t plain = plain_length(text, len, plus_is_space);
		str_add_bytes(out, text, plain);
		text += plain;
		len -= plain;
		if (len == 0)
			break;
		char digits[3] = { 0 };
		char c = ' ';
		size_t taken = *text == '%' ? 3 : 1;
		if (len < taken)
			return false;
		memcpy(digits, text + 1, taken - 1);
		if (taken == 3 && (!text_from_hex(digits, &c, 1) || c == '\0'))
			return false;
		str_add_char(out, c);
		text += taken;
		len -= taken;
	}
	return true;
}

char *target_decode(const char *text, size_t len)
{
	struct str out = STR_INIT;

	web_target_decode(text, len, false, &out);
	return str_take(&out);
}

/* Whether a decoded path has an empty part before its last, or a part "..". */
static bool climbs(const char *path)
{
	while (*path == '/') {
		size_t len = strcspn(path + 1, "/");
		if ((len == 0 && path[1] == '/') ||
		    (len == 2 && path[1] == '.' && path[2] == '.'))
			return true;
		path += 1 + len;
	}
	return false;
}

static int parse_query(const char *text, struct target *target, struct err *err)
{
	while (*text) {
		AUTO_STR struct str key = STR_INIT;
		AUTO_STR struct str value = STR_INIT;
		size_t len = strcspn(text, "&");
		const char *equals = memchr(text, '=', len);
		size_t key_len = equals ? (size_t)(equals - text) : len;

		if (!web_target_decode(text, key_len, true, &key) ||
		    (equals &&
		     !web_target_decode(equals + 1, len - key_len - 1, true, &value)))
			return err_set(err, ERR_CONFIG,
				       "the query of the URL is badly percent-encoded");
		struct target_field field = { str_take(&key), str_take(&value) };
		vec_add(&target->query, field);
		text += len + (text[len] == '&');
	}
	return 0;
}

int target_parse(const char *raw, struct target *target, struct err *err)
{
	AUTO_STR struct str path = STR_INIT;
	size_t path_len = strcspn(raw, "?");

	*target = (struct target){ 0 };
	target->raw = xstrdup(raw);
	target->path = xstrndup(raw, path_len);
	if (strlen(raw) > TARGET_MAX)
		return err_set(err, ERR_CONFIG, "the URL has more than %d bytes",
			       TARGET_MAX);
	if (*raw != '/' || !is_sendable(raw))
		return err_set(err, ERR_CONFIG,
			       "the URL is none: it must begin with a "
			       "slash and have no blanks, and no \"#\"");
	if (!web_target_decode(raw, path_len, false, &path))
		return err_set(err, ERR_CONFIG,
			       "the path of the URL is badly percent-encoded");
	if (climbs(path.data))
		return err_set(err, ERR_CONFIG,
			       "the path of the URL has an empty part or \"..\"");
	return raw[path_len] ? parse_query(raw + path_len + 1, target, err) : 0;
}

void target_clear(struct target *target)
{
	for (size_t i = 0; i < target->query.count; i++) {
		free(target->query.items[i].key);
		free(target->query.items[i].value);
	}
	vec_clear(&target->query);
	free(target->raw);
	free(target->path);
	*target = (struct target){ 0 };
}

const char *target_query(const struct target *target, const char *key)
{
	for (size_t i = target->query.count; i > 0; i--)
		if (strcmp(target->query.items[i - 1].key, key) == 0)
			return target->query.items[i - 1].value;
	return NULL;
}

#define NAME "{name}"
#define KIND "{kind}"
#define PATH "/{path}"
#define LAST "/{last}"
#define QUERY "{?"

/* How long the path is without what the pattern's end leaves open: its last segment. */
static size_t cut_last(const char *end, size_t *end_len, const char *path)
{
	size_t len = strlen(path);

	if (!text_ends_with(end, LAST))
		return len;
	*end_len -= strlen(LAST);
	while (len > 0 && path[len - 1] != '/')
		len--;
	return path[len] ? len - 1 : 0;
}

/* "/{path}/info/refs": the path ends in "/info/refs", and something is before it. */
static bool match_end(const char *end, const char *path, char **name)
{
	size_t end_len = strlen(end);
	size_t len = cut_last(end, &end_len, path);

	if (len < end_len + 2 || memcmp(path + len - end_len, end, end_len) != 0)
		return false;
	*name = target_decode(path + 1, len - end_len - 1);
	return true;
}

static bool match_name(const char *segment, size_t len, char **name)
{
	AUTO_FREE char *text = target_decode(segment, len);

	if (*text == '\0')
		return false;
	free(*name);
	*name = TAKE(text);
	return true;
}

static bool router_is_word(const char *pattern, size_t len, const char *word)
{
	return len == strlen(word) && memcmp(pattern, word, len) == 0;
}

/* One segment: a literal, or {name} or {kind}, which take anything but nothing. */
static bool match_segment(const char *pattern, size_t pattern_len, const char *segment,
			  size_t len, struct route_match *match)
{
	if (router_is_word(pattern, pattern_len, NAME))
		return match_name(segment, len, &match->name);
	if (router_is_word(pattern, pattern_len, KIND))
		return match_name(segment, len, &match->kind);
	if (!memchr(segment, '%', len))
		return len == pattern_len && memcmp(pattern, segment, len) == 0;
	AUTO_FREE char *text = target_decode(segment, len);
	return router_is_word(pattern, pattern_len, text);
}

/* Of a pattern's segment; what its query may have is none. */
static size_t segment_length(const char *segment)
{
	size_t len = strcspn(segment, "/");
	const char *query = memmem(segment, len, QUERY, strlen(QUERY));

	return query ? (size_t)(query - segment) : len;
}

static bool match_segments(const char *pattern, const char *path,
			   struct route_match *match)
{
	while (*pattern == '/' && *path == '/') {
		size_t pattern_len = segment_length(pattern + 1);
		size_t len = strcspn(path + 1, "/");
		if (!match_segment(pattern + 1, pattern_len, path + 1, len, match))
			return false;
		pattern += 1 + pattern_len;
		path += 1 + len;
	}
	return (*pattern == '\0' || text_starts_with(pattern, QUERY)) && *path == '\0';
}

static void forget_names(struct route_match *match)
{
	free(TAKE(match->name));
	free(TAKE(match->kind));
}

static bool match_path(const char *pattern, const char *path, struct route_match *match)
{
	bool matches = text_starts_with(pattern, PATH "/")
			       ? match_end(pattern + strlen(PATH), path, &match->name)
			       : match_segments(pattern, path, match);

	if (!matches)
		forget_names(match);
	return matches;
}

static void allow(struct route_match *match, const char *method)
{
	size_t len = strlen(match->allow);

	if (strstr(match->allow, method))
		return;
	snprintf(match->allow + len, sizeof(match->allow) - len, "%s%s%s",
		 len > 0 ? ", " : "", method, strcmp(method, "GET") == 0 ? ", HEAD" : "");
}

static bool match_method(const struct web_route *route, const char *method)
{
	return strcmp(route->method, method) == 0 ||
	       (strcmp(route->method, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

void route_find(const struct web_route *const *tables, const char *method,
		const struct target *target, struct route_match *match)
{
	*match = (struct route_match){ 0 };
	for (; *tables; tables++) {
		for (const struct web_route *route = *tables; route->handle; route++) {
			if (!match_path(route->pattern, target->path, match))
				continue;
			if (match_method(route, method)) {
				match->route = route;
				return;
			}
			allow(match, route->method);
			forget_names(match);
		}
	}
}

void route_match_clear(struct route_match *match)
{
	forget_names(match);
	*match = (struct route_match){ 0 };
}

#define API "/api/v1/"

bool route_is_api(const struct web_route *route)
{
	return text_starts_with(route->pattern, API);
}

/* Goes through "after,limit}"; false at its end. */
static bool next_parameter(const char **at, const char **word, size_t *len)
{
	*word = *at;
	*len = strcspn(*at, ",}");
	*at += *len + ((*at)[*len] == ',');
	return *len > 0;
}

static const char *list_of_parameters(const struct web_route *route)
{
	const char *list = strstr(route->pattern, QUERY);

	return list ? list + strlen(QUERY) : "";
}

static bool has_parameter(const char *list, const char *key)
{
	const char *word;
	size_t len;

	while (next_parameter(&list, &word, &len))
		if (router_is_word(word, len, key))
			return true;
	return false;
}

/* The caller frees. NULL: it takes none. */
static char *nearest_parameter(const char *list, const char *key)
{
	AUTO_FREE char *nearest = NULL;
	size_t least = SIZE_MAX, len;
	const char *at;

	while (next_parameter(&list, &at, &len)) {
		AUTO_FREE char *word = xstrndup(at, len);
		size_t found = text_distance(word, key);
		if (nearest && found >= least)
			continue;
		free(nearest);
		nearest = TAKE(word);
		least = found;
	}
	return TAKE(nearest);
}

static int refuse_parameter(const char *list, const char *key, struct err *err)
{
	AUTO_FREE char *nearest = nearest_parameter(list, key);

	if (!nearest) {
		err_set(err, ERR_CONFIG,
			"unknown parameter \"%s\"; this takes no parameters", key);
		return err_remedy(err, "leave it out");
	}
	err_set(err, ERR_CONFIG, "unknown parameter \"%s\"; the nearest known one is %s",
		key, nearest);
	return err_remedy(err, "known are: %.*s", (int)strcspn(list, "}"), list);
}

int route_check_query(const struct web_route *route, const struct target *target,
		      struct err *err)
{
	const char *list = list_of_parameters(route);

	for (size_t i = 0; i < target->query.count; i++)
		if (!has_parameter(list, target->query.items[i].key))
			return refuse_parameter(list, target->query.items[i].key, err);
	return 0;
}

/* By the start of a pattern; the first that fits counts. */
static const struct {
	const char *start;
	enum route_kind kind;
} route_kinds[] = {
	{ "/{path}/info/refs", ROUTE_REFS },
	{ "/{path}/git-upload-pack", ROUTE_FETCH },
	{ "/{path}/git-receive-pack", ROUTE_PUSH },
	{ "/{path}/info/lfs/", ROUTE_LFS },
	{ API "events", ROUTE_EVENTS },
	{ API "retrieve/", ROUTE_TRANSFER },
	{ API "repositories/{name}/refs", ROUTE_TRANSFER },
	{ API "repositories/{name}/delta", ROUTE_TRANSFER },
	{ API "repositories/{name}/packs", ROUTE_TRANSFER },
	{ API, ROUTE_API },
	{ "/healthz", ROUTE_MONITOR },
	{ "/readyz", ROUTE_MONITOR },
	{ "/metrics", ROUTE_MONITOR },
};

enum route_kind route_kind_of(const struct web_route *route)
{
	for (size_t i = 0; route && i < ARRAY_SIZE(route_kinds); i++)
		if (text_starts_with(route->pattern, route_kinds[i].start))
			return route_kinds[i].kind;
	return ROUTE_OTHER;
}

const char *route_kind_name(enum route_kind kind)
{
	static const char *const names[ROUTE_KINDS] = {
		[ROUTE_REFS] = "git_refs",     [ROUTE_FETCH] = "git_fetch",
		[ROUTE_PUSH] = "git_push",     [ROUTE_LFS] = "lfs",
		[ROUTE_API] = "api",           [ROUTE_EVENTS] = "events",
		[ROUTE_TRANSFER] = "transfer", [ROUTE_MONITOR] = "monitor",
		[ROUTE_OTHER] = "other",
	};

	return names[kind];
}
