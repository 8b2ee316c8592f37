/*
 * The page for people: one document that holds no data, so anybody may have it. What it
 * shows it asks of the API, with the token that somebody types into it.
 *
 * The policy lets in the page's own style and script by their digests, and requests to
 * this site; nothing else is loaded or run, whatever a name or a message contains. There
 * are no cookies, so that no other page can have a browser act for somebody.
 */
#include "web/answer.h"
#include "web/page_asset.h"
#include "web/route.h"

static const struct web_header_field page_headers[] = {
	{ .name = "Content-Security-Policy", .value = page_policy },
	{ .name = "Cache-Control", .value = "no-cache" },
	{ .name = "Vary", .value = "Accept-Encoding" },
	{ .name = "X-Content-Type-Options", .value = "nosniff" },
	{ .name = "X-Frame-Options", .value = "DENY" },
	{ .name = "Referrer-Policy", .value = "no-referrer" },
	{ .name = "Cross-Origin-Opener-Policy", .value = "same-origin" },
	{ .name = "Cross-Origin-Resource-Policy", .value = "same-origin" },
};

static int get_page(const struct web_request *request, struct web_response *response,
		    struct err *err)
{
	bool is_packed = negotiate_gzip(web_header(request, "Accept-Encoding"));

	(void)err;
	response->content_type = "text/html; charset=utf-8";
	for (size_t i = 0; i < ARRAY_SIZE(page_headers); i++)
		web_set_header(response, page_headers[i].name, page_headers[i].value);
	if (is_packed) {
		web_set_header(response, "Content-Encoding", "gzip");
		str_add_bytes(&response->body, (const char *)page_packed,
			      page_packed_size);
	} else {
		str_add_bytes(&response->body, (const char *)page_plain, page_plain_size);
	}
	web_answer_tagged(request, response, is_packed ? page_packed_tag : page_tag);
	return 0;
}

const struct web_route web_page_routes[] = {
	{ "GET", "/", WEB_ANYBODY, WEB_QUICK, get_page },
	{ 0 },
};
