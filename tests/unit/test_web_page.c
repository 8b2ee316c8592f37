/*
 * The page for people, as `GET /` answers it.
 */
#include "web_test.h"

#include <openssl/evp.h>
#include <openssl/sha.h>
#include <zlib.h>

#include "web/page_asset.h"

static int setup(void **state)
{
	if (test_make_root(state))
		return -1;
	services = (struct web_services){ 0 };
	start_server(web_page_routes, 0);
	return 0;
}

static int teardown(void **state)
{
	web_server_stop(server, 0);
	return test_remove_root(state);
}

static const char *get_with(const char *header)
{
	AUTO_FREE char *head = xasprintf("GET / HTTP/1.1\r\n%s", header);

	return exchange(head, NULL, 0);
}

/* The value of a header, of the answer that was made last. */
static char *header_of(const char *answer, const char *name)
{
	AUTO_FREE char *begin = xasprintf("\r\n%s: ", name);
	const char *at = strcasestr(answer, begin);

	if (!at)
		fail_msg("no header %s", name);
	at += strlen(begin);
	return xstrndup(at, strcspn(at, "\r"));
}

static void assert_header(const char *answer, const char *name, const char *value)
{
	AUTO_FREE char *is = header_of(answer, name);

	assert_string_equal(is, value);
}

/* What is between <TAG> and </TAG>. */
static char *part_of(const char *page, const char *tag)
{
	AUTO_FREE char *open = xasprintf("<%s>", tag);
	AUTO_FREE char *close = xasprintf("</%s>", tag);
	const char *at = strstr(page, open);
	const char *end = at ? strstr(at, close) : NULL;

	assert_non_null(end);
	at += strlen(open);
	return xstrndup(at, (size_t)(end - at));
}

static char *hash_of(const char *text)
{
	unsigned char digest[SHA256_DIGEST_LENGTH], base64[64];

	SHA256((const unsigned char *)text, strlen(text), digest);
	EVP_EncodeBlock(base64, digest, sizeof(digest));
	return xasprintf("'sha256-%s'", base64);
}

TEST(anybody_gets_one_small_document_that_loads_nothing)
{
	const char *answer = get("/");

	assert_int_equal(status_of(answer), 200);
	assert_header(answer, "Content-Type", "text/html; charset=utf-8");
	const char *page = body_of(answer);
	assert_int_equal(strlen(page), page_plain_size);
	assert_true(page_plain_size <= 100000);
	assert_memory_equal(page, "<!DOCTYPE html>", 15);
	assert_null(strstr(page, "src="));
	assert_null(strstr(page, "%STYLE%"));
	assert_null(strstr(page, "%SCRIPT%"));
}

TEST(the_policy_lets_in_its_own_style_and_script_and_nothing_else)
{
	AUTO_FREE char *answer = xstrdup(get("/"));
	AUTO_FREE char *policy = header_of(answer, "Content-Security-Policy");
	AUTO_FREE char *script = part_of(body_of(answer), "script");
	AUTO_FREE char *style = part_of(body_of(answer), "style");
	AUTO_FREE char *script_hash = hash_of(script);
	AUTO_FREE char *style_hash = hash_of(style);
	AUTO_FREE char *expected = xasprintf(
		"default-src 'none'; script-src %s; style-src %s; connect-src 'self'; "
		"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors "
		"'none'",
		script_hash, style_hash);

	assert_string_equal(policy, expected);
	assert_header(answer, "X-Content-Type-Options", "nosniff");
	assert_header(answer, "Referrer-Policy", "no-referrer");
	assert_header(answer, "Cross-Origin-Opener-Policy", "same-origin");
	assert_header(answer, "X-Frame-Options", "DENY");
	assert_null(strcasestr(answer, "\r\nSet-Cookie:"));
}

TEST(who_has_it_does_not_get_it_again)
{
	AUTO_FREE char *tag = header_of(get("/"), "ETag");
	AUTO_FREE char *known = xasprintf("If-None-Match: %s", tag);
	const char *answer = get_with(known);

	assert_int_equal(status_of(answer), 304);
	assert_string_equal(body_of(answer), "");
	assert_header(answer, "Cache-Control", "no-cache");
	assert_int_equal(status_of(get_with("If-None-Match: \"other\"")), 200);
	/* The packed one has a tag of its own. */
	AUTO_FREE char *packed = xasprintf("%s\r\nAccept-Encoding: gzip", known);
	assert_int_equal(status_of(get_with(packed)), 200);
}

TEST(whoever_takes_gzip_gets_the_same_in_a_third)
{
	unsigned char plain[100000];
	z_stream stream = { .next_in = (unsigned char *)(uintptr_t)page_packed,
			    .avail_in = (unsigned)page_packed_size,
			    .next_out = plain,
			    .avail_out = sizeof(plain) };
	const char *answer = get_with("Accept-Encoding: gzip");

	assert_int_equal(status_of(answer), 200);
	assert_header(answer, "Content-Encoding", "gzip");
	assert_header(answer, "Vary", "Accept-Encoding");
	assert_memory_equal(body_of(answer), page_packed, page_packed_size);
	assert_true(page_packed_size < page_plain_size / 2);
	assert_int_equal(inflateInit2(&stream, 16 + MAX_WBITS), Z_OK);
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	assert_int_equal(stream.total_out, page_plain_size);
	assert_memory_equal(plain, page_plain, page_plain_size);
	inflateEnd(&stream);
}

TEST(it_takes_no_orders)
{
	AUTO_FREE char *answer = xstrdup(exchange("POST / HTTP/1.1", "token=x", 7));

	assert_int_equal(status_of(answer), 405);
	assert_header(answer, "Allow", "GET, HEAD");
}

#define PAGE_CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PAGE_CASE(anybody_gets_one_small_document_that_loads_nothing),
		PAGE_CASE(the_policy_lets_in_its_own_style_and_script_and_nothing_else),
		PAGE_CASE(who_has_it_does_not_get_it_again),
		PAGE_CASE(whoever_takes_gzip_gets_the_same_in_a_third),
		PAGE_CASE(it_takes_no_orders),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
