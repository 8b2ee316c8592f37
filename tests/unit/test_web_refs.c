/* What a primary answers to who asks for refs that it could not compare. */
#include "notice_stub.h"

#include "change/pushed.h"
#include "web/api.h"

int pushed_read(struct notice *notice, const char *name, struct pushed *pushed,
		struct err *error)
{
	(void)notice;
	(void)name;
	(void)error;
	*pushed = (struct pushed){ 0 };
	return 0;
}

/* 0: it is for the frame. */
static int ask(const struct web_route *route)
{
	static const struct web_services services = { .role = SITE_PRIMARY,
						      .notice = &stub };
	char name[] = "a";
	const struct web_request request = { .name = name, .services = &services };
	struct web_response response = { .body = STR_INIT };
	int result = route->handle(&request, &response, &err);
	int status = response.status;

	str_clear(&response.body);
	return result == 0 ? status : 0;
}

TEST(what_cannot_be_read_is_told_so)
{
	for (const struct web_route *route = web_refs_routes; route->method; route++) {
		comparison_fails = ERR_CORRUPT;
		assert_int_equal(ask(route), 409);
		comparison_fails = ERR_MISSING;
		assert_int_equal(ask(route), 404);
	}
}

/* As with a database that is damaged, or may not be opened. */
TEST(what_could_not_be_compared_is_not_called_damaged_or_deleted)
{
	static const enum err_class classes[] = { ERR_MISSING, ERR_CORRUPT, ERR_CONFIG };

	for (const struct web_route *route = web_refs_routes; route->method; route++)
		for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
			recording_fails = classes[i];
			assert_int_equal(ask(route), 0);
			assert_string_equal(err.text, "the database fails");
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STUB_CASE(what_cannot_be_read_is_told_so),
		STUB_CASE(what_could_not_be_compared_is_not_called_damaged_or_deleted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
