/*
 * What the tests of blobs over HTTP share: a primary with blobs, its server, and a client
 * that keeps bytes as they came.
 */
#ifndef UNIT_WEB_BLOB_TEST_H
#define UNIT_WEB_BLOB_TEST_H

#include "blob_notice_test.h"
#include "web_test.h"

#include "base/hash.h"
#include "base/json.h"
#include "change/inventory.h"

#define OPERATOR "0123456789abcdef0123456789abcdef"
#define AUTHORIZED "\r\nAuthorization: Bearer " OPERATOR

static inline void read_access(struct access **access)
{
	AUTO_FREE char *text =
		xasprintf("[http]\n operatorTokenFile = %s/operator\n", root);
	struct conf *conf;

	must("umask 077; echo " OPERATOR " >operator");
	assert_ok(conf_load_text("test", text, strlen(text), &conf, &err));
	assert_ok(access_read(conf, true, access, &err));
	conf_free(conf);
}

static inline int start_primary(void **state, const struct web_route *routes)
{
	if (make_site(state) != 0)
		return -1;
	services = (struct web_services){ .role = SITE_PRIMARY,
					  .site = "london",
					  .store = store,
					  .here = &kinds,
					  .notice = notice,
					  .inventory_tags = inventory_tags_new(store) };
	read_access(&services.access);
	start_server(routes, 0);
	return 0;
}

static inline int stop_primary(void **state)
{
	if (server)
		web_server_stop(server, 0);
	server = NULL;
	access_free(services.access);
	inventory_tags_free(services.inventory_tags);
	return remove_site(state);
}

/* An operator's request on a connection of its own; the whole answer, and its body. */
struct answer {
	struct str text;
	int status;
	const char *body;
	size_t len;
};

static struct answer last;

static inline const struct answer *take_answer(int fd, int ms)
{
	assert_true(receive_all(fd, ms, &last.text));
	last.status = status_of(last.text.data);
	last.body = body_of(last.text.data);
	last.len = last.text.len - (size_t)(last.body - last.text.data);
	return &last;
}

static inline const struct answer *ask(const char *head, const void *body, size_t len)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_CLOSE int fd = dial();

	if (!last.text.data)
		last.text = (struct str)STR_INIT;
	str_reset(&last.text);
	str_addf(&text, "%s" AUTHORIZED "\r\nHost: h\r\nConnection: close\r\n", head);
	if (body)
		str_addf(&text, "Content-Length: %zu\r\n", len);
	str_add(&text, "\r\n");
	str_add_bytes(&text, body ? body : "", body ? len : 0);
	send_bytes(fd, text.data, text.len);
	return take_answer(fd, 20000);
}

static inline bool has_header(const struct answer *answer, const char *line)
{
	AUTO_FREE char *whole = xasprintf("\r\n%s\r\n", line);
	const char *at = strstr(answer->text.data, whole);

	return at && at < answer->body;
}

static inline bool has_code(const struct answer *answer, const char *code)
{
	AUTO_FREE char *member = xasprintf("\"code\":\"%s\"", code);

	return strstr(answer->body, member);
}

static inline void forget_answer(void)
{
	if (last.text.data)
		str_clear(&last.text);
}

#endif
