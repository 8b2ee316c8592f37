/* What a handler asks of its request. */
#include <assert.h>
#include <strings.h>

#include "web/exchange_parts.h"

static struct kept_header *exchange_request_find_kept(const struct exchange *exchange,
						      const char *name)
{
	for (size_t i = 0; i < exchange->headers.count; i++)
		if (strcasecmp(exchange->headers.items[i].name, name) == 0)
			return &exchange->headers.items[i];
	return NULL;
}

static void free_value(struct kept_header *header)
{
	explicit_bzero(header->value, strlen(header->value)); /* a password */
	free(header->value);
}

/* One that comes again continues a list (RFC 9110, 5.3). */
static enum MHD_Result exchange_request_keep_header(void *arg, enum MHD_ValueKind kind,
						    const char *name, const char *value)
{
	struct exchange *exchange = arg;
	struct kept_header *before = exchange_request_find_kept(exchange, name);
	struct kept_header header = { .name = before ? before->name : xstrdup(name) };

	(void)kind;
	if (before) {
		header.value = xasprintf("%s, %s", before->value, value ? value : "");
		free_value(before);
		*before = header;
	} else {
		header.value = xstrdup(value ? value : "");
		vec_add(&exchange->headers, header);
	}
	return MHD_YES;
}

void exchange_keep_headers(struct exchange *exchange)
{
	MHD_get_connection_values(exchange->connection, MHD_HEADER_KIND,
				  exchange_request_keep_header, exchange);
}

void exchange_forget_headers(struct exchange *exchange)
{
	for (size_t i = 0; i < exchange->headers.count; i++) {
		struct kept_header *header = &exchange->headers.items[i];
		free(header->name);
		free_value(header);
	}
	vec_clear(&exchange->headers);
}

const char *web_header(const struct web_request *request, const char *name)
{
	struct exchange *exchange = request->connection;

	if (exchange->upload) {
		const struct kept_header *kept =
			exchange_request_find_kept(exchange, name);
		return kept ? kept->value : NULL;
	}
	return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

const char *web_query(const struct web_request *request, const char *key)
{
	struct exchange *exchange = request->connection;

	return target_query(&exchange->target, key);
}

int web_query_number(const struct web_request *request, const char *key, uint64_t max,
		     uint64_t *value, struct err *err)
{
	const char *text = web_query(request, key);

	if (!text)
		return 0;
	if (!text_to_uint64(text, value) || *value > max)
		return err_set(err, ERR_CONFIG, "%s must be a number, at most %" PRIu64,
			       key, max);
	return 0;
}

void web_set_patience(const struct web_request *request,
		      const struct web_patience *patience)
{
	struct exchange *exchange = request->connection;

	upload_set_patience(exchange->upload, patience);
}

ssize_t web_read_upload(const struct web_request *request, void *buffer, size_t size,
			struct err *err)
{
	struct exchange *exchange = request->connection;

	assert(request->has_upload);
	return upload_read(exchange->upload, buffer, size, err);
}
