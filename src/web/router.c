#include "web/router.h"

#define NAME "{name}"
#define KIND "{kind}"
#define PATH "/{path}"
#define LAST "/{last}"

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

static bool match_segments(const char *pattern, const char *path,
			   struct route_match *match)
{
	while (*pattern == '/' && *path == '/') {
		size_t pattern_len = strcspn(pattern + 1, "/");
		size_t len = strcspn(path + 1, "/");
		if (!match_segment(pattern + 1, pattern_len, path + 1, len, match))
			return false;
		pattern += 1 + pattern_len;
		path += 1 + len;
	}
	return *pattern == '\0' && *path == '\0';
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
