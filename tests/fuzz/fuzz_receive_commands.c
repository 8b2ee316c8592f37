/*
 * libFuzzer: of any body, taken whole or in pieces (of the first byte's size), the same
 * commands are read; never the flush; and no pack is thought to be needed, or not needed,
 * but for what the lines that were taken say.
 */
#include <assert.h>

#include "git/pkt_line.h"
#include "serve/receive_git.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static size_t take_in_pieces(struct receive_commands *commands, const char *body,
			     size_t len, size_t piece)
{
	size_t taken = 0;

	for (size_t end = 0; end < len && commands->step == RECEIVE_MORE;) {
		end = end + piece < len ? end + piece : len;
		taken += receive_commands_take(commands, body + taken, end - taken);
		assert(taken <= end);
	}
	return taken;
}

/* What was taken, read once more and simply. */
static void assert_is(const struct receive_commands *commands, const char *body,
		      size_t taken)
{
	struct pkt_reader reader = { .at = body, .left = taken };
	const size_t digits = 2 * commands->oid_len;
	size_t line_len, count = 0;
	bool creates = false;
	const char *line;
	enum pkt pkt;

	while ((pkt = pkt_next(&reader, &line, &line_len)) == PKT_LINE) {
		if (commands->is_signed)
			continue;
		if (memcmp(line, "shallow ", 8) == 0)
			continue;
		assert(line_len > 2 * digits + 2);
		count++;
		for (size_t i = 0; i < digits; i++)
			creates |= line[digits + 1 + i] != '0';
	}
	assert(pkt == PKT_NO_MORE);
	assert(commands->is_signed ||
	       (commands->count == count && commands->needs_pack == creates));
	assert(commands->deleted.count <= commands->deletions);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct receive_commands whole = { .oid_len = 20 }, pieces = { .oid_len = 20 };
	const char *body = (const char *)data + 1;
	size_t taken;

	if (len < 1)
		return 0;
	len--;
	taken = receive_commands_take(&whole, body, len);
	assert(take_in_pieces(&pieces, body, len, (size_t)data[0] + 1) == taken);
	assert(pieces.step == whole.step && pieces.count == whole.count);
	assert_is(&whole, body, taken);
	if (whole.step == RECEIVE_WHOLE || whole.step == RECEIVE_SIGNED)
		assert(len - taken >= 4 && memcmp(body + taken, "0000", 4) == 0);
	receive_commands_clear(&whole);
	receive_commands_clear(&pieces);
	return 0;
}
