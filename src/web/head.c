#include "web/head.h"

#include <arpa/inet.h>
#include <strings.h>

struct name {
	const char *text;
	size_t len;
	size_t at; /* of its struct head_value, or of is_forwarded */
	bool is_flag;
};

#define VALUE(name_, member)                                                             \
	{                                                                                \
		name_, sizeof(name_) - 1, offsetof(struct head, member), false           \
	}
#define FLAG(name_)                                                                      \
	{                                                                                \
		name_, sizeof(name_) - 1, offsetof(struct head, is_forwarded), true      \
	}

static const struct name names[] = {
	VALUE("Host", host),
	VALUE("Authorization", authorization),
	VALUE("Content-Length", content_length),
	VALUE("Content-Encoding", content_encoding),
	VALUE("Transfer-Encoding", transfer_encoding),
	VALUE("X-Forwarded-Proto", forwarded_proto),
	FLAG("Forwarded"),
	FLAG("X-Forwarded-For"),
	FLAG("X-Real-IP"),
	FLAG("Via"),
};

static void web_head_note_field(struct head *head, const struct name *name,
				const char *text)
{
	struct head_value *value;

	if (name->is_flag) {
		head->is_forwarded = true;
		return;
	}
	value = (struct head_value *)(void *)((char *)head + name->at);
	if (value->count++ == 0)
		value->text = text;
}

static enum MHD_Result on_header(void *arg, enum MHD_ValueKind kind, const char *key,
				 const char *value)
{
	size_t len = strlen(key);

	(void)kind;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].len == len && strcasecmp(names[i].text, key) == 0)
			web_head_note_field(arg, &names[i], value ? value : "");
	return MHD_YES;
}

void head_read(struct MHD_Connection *connection, struct head *head)
{
	*head = (struct head){ 0 };
	MHD_get_connection_values(connection, MHD_HEADER_KIND, on_header, head);
	head->is_forwarded |= head->forwarded_proto.count > 0;
}

static enum MHD_Result on_forwarded_for(void *arg, enum MHD_ValueKind kind,
					const char *key, const char *value)
{
	struct str *out = arg;

	(void)kind;
	if (strcasecmp(key, "X-Forwarded-For") != 0)
		return MHD_YES;
	if (out->len > 0)
		str_add_char(out, ',');
	str_add(out, value ? value : "");
	return MHD_YES;
}

void head_add_forwarded_for(struct MHD_Connection *connection, struct str *out)
{
	MHD_get_connection_values(connection, MHD_HEADER_KIND, on_forwarded_for, out);
}

uint64_t head_length(const struct head *head)
{
	uint64_t value = UINT64_MAX;

	if (head->transfer_encoding.text)
		return UINT64_MAX;
	if (!head->content_length.text)
		return 0;
	return text_to_uint64(head->content_length.text, &value) ? value : UINT64_MAX;
}

bool head_host_is_plain(const struct head *head)
{
	const char *host = head->host.text;
	char name[INET_ADDRSTRLEN];
	struct in_addr address;

	if (!host || *host == '[')
		return true;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(host, ":"), host);
	return strcasecmp(name, "localhost") == 0 ||
	       inet_pton(AF_INET, name, &address) == 1;
}
