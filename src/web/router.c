#include "web/router.h"

#define NAME "{name}"
#define PATH "/{path}"

/* "/{path}/info/refs": the path ends in "/info/refs", and something is before it. */
static bool match_end(const char *end, const char *path, char **name)
{
	size_t len = strlen(path);
	size_t end_len = strlen(end);

	if (len < end_len + 2 || strcmp(path + len - end_len, end) != 0)
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

/* One segment: a literal, or {name}, which takes anything but nothing. */
static bool match_segment(const char *pattern, size_t pattern_len, const char *segment,
			  size_t len, char **name)
{
	if (pattern_len == strlen(NAME) && memcmp(pattern, NAME, pattern_len) == 0)
		return match_name(segment, len, name);
	if (!memchr(segment, '%', len))
		return len == pattern_len && memcmp(pattern, segment, len) == 0;
	AUTO_FREE char *text = target_decode(segment, len);
	return strlen(text) == pattern_len && memcmp(pattern, text, pattern_len) == 0;
}

static bool match_segments(const char *pattern, const char *path, char **name)
{
	while (*pattern == '/' && *path == '/') {
		size_t pattern_len = strcspn(pattern + 1, "/");
		size_t len = strcspn(path + 1, "/");
		if (!match_segment(pattern + 1, pattern_len, path + 1, len, name))
			return false;
		pattern += 1 + pattern_len;
		path += 1 + len;
	}
	return *pattern == '\0' && *path == '\0';
}

static bool match_path(const char *pattern, const char *path, char **name)
{
	bool matches = text_starts_with(pattern, PATH "/")
			       ? match_end(pattern + strlen(PATH), path, name)
			       : match_segments(pattern, path, name);

	if (!matches) {
		free(*name);
		*name = NULL;
	}
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
			char *name = NULL;
			if (!match_path(route->pattern, target->path, &name))
				continue;
			if (match_method(route, method)) {
				match->route = route;
				match->name = name;
				return;
			}
			allow(match, route->method);
			free(name);
		}
	}
}

void route_match_clear(struct route_match *match)
{
	free(match->name);
	*match = (struct route_match){ 0 };
}
