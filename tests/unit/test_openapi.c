/*
 * The document of the API and the table of routes say the same, so that neither is
 * forgotten. What a live node answers is compared by site/test_openapi.sh.
 */
#include "test.h"

#include "base/json.h"
#include "web/route.h"
#include "web/router.h"
#include "web/version.h"

static json_t *document;

static int parse_document(void **state)
{
	(void)state;
	document = json_parse_object(openapi_document, openapi_document_size,
				     openapi_document_size, &err);
	assert_non_null(document);
	return 0;
}

static int forget_document(void **state)
{
	(void)state;
	json_decref(document);
	return 0;
}

/* Git's paths have names with slashes in them, which no such document can say. */
static bool is_described(const struct web_route *route)
{
	return !text_starts_with(route->pattern, "/{path}/");
}

/* "/a/{}/b": without what segments are called, and without the query. */
static char *shape_of(const char *path)
{
	AUTO_STR struct str shape = STR_INIT;

	for (; *path && !text_starts_with(path, "{?"); path++) {
		str_add_char(&shape, *path);
		if (*path != '{')
			continue;
		path += strcspn(path, "}");
		str_add_char(&shape, '}');
	}
	return str_take(&shape);
}

/* The operation of the document; NULL: it has none. */
static const json_t *find_operation(const struct web_route *route)
{
	const json_t *paths = json_object_get(document, "paths"), *methods;
	AUTO_FREE char *wanted = shape_of(route->pattern);
	char method[16] = "";
	const char *path;

	for (size_t i = 0; route->method[i]; i++)
		method[i] = (char)(route->method[i] | 0x20);
	json_object_foreach((json_t *)(uintptr_t)paths, path, methods)
	{
		AUTO_FREE char *shape = shape_of(path);
		if (strcmp(shape, wanted) == 0)
			return json_object_get(methods, method);
	}
	return NULL;
}

static const struct web_route *find_described_route(const char *path, const char *method)
{
	AUTO_FREE char *wanted = shape_of(path);

	for (const struct web_route *const *table = web_routes; *table; table++) {
		for (const struct web_route *route = *table; route->handle; route++) {
			AUTO_FREE char *shape = shape_of(route->pattern);
			if (strcasecmp(route->method, method) == 0 &&
			    strcmp(shape, wanted) == 0)
				return route;
		}
	}
	return NULL;
}

/* Each route must pass. */
static void for_each_route(void (*check)(const struct web_route *route,
					 const json_t *operation))
{
	size_t count = 0;

	for (const struct web_route *const *table = web_routes; *table; table++) {
		for (const struct web_route *route = *table; route->handle; route++) {
			if (!is_described(route))
				continue;
			check(route, find_operation(route));
			count++;
		}
	}
	assert_true(count > 30);
}

static void is_in_document(const struct web_route *route, const json_t *operation)
{
	if (!operation)
		fail_msg("docs/openapi.json lacks %s %s", route->method, route->pattern);
}

TEST(each_route_is_in_the_document)
{
	for_each_route(is_in_document);
}

TEST(each_path_of_the_document_is_a_route)
{
	const json_t *paths = json_object_get(document, "paths");
	json_t *methods, *operation;
	const char *path, *method;

	json_object_foreach((json_t *)(uintptr_t)paths, path, methods)
	{
		json_object_foreach(methods, method, operation)
		{
			if (!find_described_route(path, method))
				fail_msg("there is no route %s %s", method, path);
		}
	}
}

static bool has_parameter(const json_t *operation, const char *where, const char *name,
			  size_t len)
{
	const json_t *list = json_object_get(operation, "parameters");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *one = json_array_get(list, i);
		const char *its = json_string_value(json_object_get(one, "name"));
		const char *place = json_string_value(json_object_get(one, "in"));
		if (strcmp(place, where) == 0 && strlen(its) == len &&
		    memcmp(its, name, len) == 0)
			return true;
	}
	return false;
}

static void has_its_parameters(const struct web_route *route, const json_t *operation)
{
	const json_t *list = json_object_get(operation, "parameters");
	const char *query = strstr(route->pattern, "{?");

	for (const char *at = query ? query + 2 : "}"; *at != '}';) {
		size_t len = strcspn(at, ",}");
		if (!has_parameter(operation, "query", at, len))
			fail_msg("%s %s of the document lacks %.*s", route->method,
				 route->pattern, (int)len, at);
		at += len + (at[len] == ',');
	}
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *one = json_array_get(list, i);
		const char *name = json_string_value(json_object_get(one, "name"));
		struct target target;
		if (strcmp(json_string_value(json_object_get(one, "in")), "query") != 0)
			continue;
		AUTO_FREE char *asked = xasprintf("/?%s=1", name);
		assert_ok(target_parse(asked, &target, &err));
		if (route_check_query(route, &target, &err) != 0)
			fail_msg("%s %s: %s", route->method, route->pattern, err.text);
		target_clear(&target);
	}
}

TEST(both_have_the_same_parameters)
{
	for_each_route(has_its_parameters);
}

/* Without `security` of its own an operation takes what the document takes. */
static void has_its_right(const struct web_route *route, const json_t *operation)
{
	const json_t *own = json_object_get(operation, "security");

	if ((route->right == WEB_ANYBODY) != (own && json_array_size(own) == 0))
		fail_msg("%s %s: who may, says the document otherwise", route->method,
			 route->pattern);
}

TEST(what_takes_no_credential_is_said_to)
{
	assert_true(json_array_size(json_object_get(document, "security")) > 0);
	for_each_route(has_its_right);
}

/* A body that must be there is one that the route reads. */
static void has_its_body(const struct web_route *route, const json_t *operation)
{
	if (json_object_get(operation, "requestBody") &&
	    (route->body == WEB_BODY_NONE || route->body == WEB_QUICK))
		fail_msg("%s %s takes no body", route->method, route->pattern);
}

TEST(bodies_are_where_they_are_read)
{
	for_each_route(has_its_body);
}

TEST(it_is_of_this_version)
{
	const json_t *info = json_object_get(document, "info");

	assert_string_equal(json_string_value(json_object_get(document, "openapi")),
			    "3.1.0");
	assert_string_equal(json_string_value(json_object_get(info, "version")),
			    REFRELAY_VERSION);
}

static int check_query(const char *pattern, const char *raw)
{
	const struct web_route route = { .method = "GET", .pattern = pattern };
	struct target target;

	assert_ok(target_parse(raw, &target, &err));
	int result = route_check_query(&route, &target, &err);
	target_clear(&target);
	return result;
}

TEST(an_unknown_parameter_is_named_with_the_nearest_one)
{
	static const char rows[] = "/api/v1/x/{name}{?after,limit,state}";

	assert_ok(check_query(rows, "/api/v1/x/a"));
	assert_ok(check_query(rows, "/api/v1/x/a?state=1&after=&limit=2&after=3"));
	assert_fails(check_query(rows, "/api/v1/x/a?limit=2&limt=3"), ERR_CONFIG);
	assert_non_null(strstr(err.text, "\"limt\""));
	assert_non_null(strstr(err.text, "limit"));
	assert_string_equal(err.remedy, "known are: after,limit,state");
	assert_fails(check_query(rows, "/api/v1/x/a?="), ERR_CONFIG);
	assert_fails(check_query(rows, "/api/v1/x/a?after,limit=1"), ERR_CONFIG);
	assert_fails(check_query(rows, "/api/v1/x/a?Limit=1"), ERR_CONFIG);
	assert_fails(check_query("/api/v1/x", "/api/v1/x?a=1"), ERR_CONFIG);
	assert_non_null(strstr(err.text, "takes no parameters"));
}

TEST(a_pattern_with_a_query_takes_the_path_alone)
{
	static const struct web_route *const tables[] = { web_event_routes, NULL };
	struct route_match match;
	struct target target;

	assert_ok(target_parse("/api/v1/events?after=1", &target, &err));
	route_find(tables, "GET", &target, &match);
	assert_ptr_equal(match.route, &web_event_routes[0]);
	route_match_clear(&match);
	target_clear(&target);
	assert_ok(target_parse("/api/v1/events%7B?after,limit", &target, &err));
	route_find(tables, "GET", &target, &match);
	assert_null(match.route);
	route_match_clear(&match);
	target_clear(&target);
}

TEST(a_repository_may_be_called_like_a_part_of_gits_paths)
{
	static const struct {
		const char *method, *target, *pattern, *name;
	} known[] = {
		{ "GET", "/api/v1/repositories/info/refs",
		  "/api/v1/repositories/{name}/refs", "info" },
		{ "GET", "/api/v1/blobs/info/refs", "/api/v1/blobs/{kind}/{name}",
		  "refs" },
		{ "GET", "/api/v1/retrieve/info/refs", "/api/v1/retrieve/{kind}/{name}",
		  "refs" },
		{ "POST", "/api/v1/retrieve/git-upload-pack", "/api/v1/retrieve/{kind}",
		  NULL },
		{ "GET", "/info/info/refs?service=git-upload-pack", "/{path}/info/refs",
		  "info" },
		{ "GET", "/api/v1/client/info/refs", "/{path}/info/refs",
		  "api/v1/client" },
		{ "POST", "/api/v1/repositories/git-upload-pack",
		  "/{path}/git-upload-pack", "api/v1/repositories" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		struct route_match match;
		struct target target;
		assert_ok(target_parse(known[i].target, &target, &err));
		route_find(web_routes, known[i].method, &target, &match);
		assert_non_null(match.route);
		if (!text_starts_with(match.route->pattern, known[i].pattern))
			fail_msg("%s: %s", known[i].target, match.route->pattern);
		if (known[i].name)
			assert_string_equal(match.name, known[i].name);
		route_match_clear(&match);
		target_clear(&target);
	}
}

TEST(each_route_is_counted_as_something)
{
	static const struct {
		const char *pattern;
		enum route_kind kind;
	} known[] = {
		{ "/{path}/info/refs", ROUTE_REFS },
		{ "/{path}/git-upload-pack", ROUTE_FETCH },
		{ "/{path}/git-receive-pack", ROUTE_PUSH },
		{ "/{path}/info/lfs/objects/{last}", ROUTE_LFS },
		{ "/api/v1/status", ROUTE_API },
		{ "/api/v1/events{?after}", ROUTE_EVENTS },
		{ "/api/v1/push/events", ROUTE_API },
		{ "/api/v1/retrieve/{kind}", ROUTE_TRANSFER },
		{ "/api/v1/repositories/{name}/delta", ROUTE_TRANSFER },
		{ "/api/v1/repositories/{name}/sync", ROUTE_API },
		{ "/readyz", ROUTE_MONITOR },
		{ "/manifest.js.gz", ROUTE_OTHER },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		const struct web_route route = { .pattern = known[i].pattern };
		assert_int_equal(route_kind_of(&route), known[i].kind);
	}
	assert_int_equal(route_kind_of(NULL), ROUTE_OTHER);
	for (int kind = 0; kind < ROUTE_KINDS; kind++)
		assert_non_null(route_kind_name((enum route_kind)kind));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_route_is_in_the_document),
		cmocka_unit_test(each_path_of_the_document_is_a_route),
		cmocka_unit_test(both_have_the_same_parameters),
		cmocka_unit_test(what_takes_no_credential_is_said_to),
		cmocka_unit_test(bodies_are_where_they_are_read),
		cmocka_unit_test(it_is_of_this_version),
		cmocka_unit_test(an_unknown_parameter_is_named_with_the_nearest_one),
		cmocka_unit_test(a_pattern_with_a_query_takes_the_path_alone),
		cmocka_unit_test(a_repository_may_be_called_like_a_part_of_gits_paths),
		cmocka_unit_test(each_route_is_counted_as_something),
	};

	return cmocka_run_group_tests(tests, parse_document, forget_document);
}
