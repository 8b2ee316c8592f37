/*
 * A command is a packet, or in a push certificate a line: git puts the packets of one
 * together before it looks for lines, so there no packet ends a line.
 */
#include "serve/receive_depth.h"

#include "base/str.h"

enum { HEAD = 4 };

/* As git wants it: the whole packet. */
static bool ends_certificate(const struct receive_depth *depth)
{
	static const char end[] = "push-cert-end\n";

	return depth->begin_len == strlen(end) &&
	       memcmp(depth->begin, end, strlen(end)) == 0;
}

static bool receive_depth_begins_with(const struct receive_depth *depth, const char *text)
{
	size_t len = strlen(text);

	return depth->begin_len >= len && memcmp(depth->begin, text, len) == 0;
}

static void end_packet(struct receive_depth *depth)
{
	if (ends_certificate(depth))
		depth->is_in_certificate = false;
	else if (receive_depth_begins_with(depth, "push-cert"))
		depth->is_in_certificate = true;
	depth->head_len = depth->begin_len = 0;
	if (!depth->is_in_certificate)
		depth->slashes = 0;
}

/* What is no packet with content ends the commands. */
static void begin_packet(struct receive_depth *depth)
{
	char *end;
	unsigned long len = strtoul(depth->head, &end, 16);

	depth->is_over = end != depth->head + HEAD || len < HEAD;
	depth->left = len - HEAD;
	if (!depth->is_over && depth->left == 0)
		end_packet(depth);
}

static bool take_byte(struct receive_depth *depth, char byte)
{
	if (depth->head_len < HEAD) {
		depth->head[depth->head_len++] = byte;
		if (depth->head_len == HEAD)
			begin_packet(depth);
		return true;
	}
	if (depth->begin_len < sizeof(depth->begin))
		depth->begin[depth->begin_len++] = byte;
	if (byte == '\n')
		depth->slashes = 0;
	depth->slashes += byte == '/';
	if (depth->slashes > RECEIVE_SLASHES_MAX)
		return false;
	if (--depth->left == 0)
		end_packet(depth);
	return true;
}

bool receive_depth_take(struct receive_depth *depth, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len && !depth->is_over; i++)
		if (!take_byte(depth, bytes[i]))
			return false;
	return true;
}
