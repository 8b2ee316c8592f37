#include "git/fetch_small.h"

#include "git/pkt_line.h"
#include "git/side_band.h"

/* The pack has no deltas on objects that it lacks: none was asked for. */
#define CAPABILITIES " side-band-64k ofs-delta no-progress"

void fetch_small_ask(const oid_list *wanted, const oid_list *have, struct str *body)
{
	char text[OID_MAX_TEXT];

	for (size_t i = 0; i < wanted->count; i++)
		pkt_addf(body, "want %s%s\n", oid_text(&wanted->items[i], text),
			 i == 0 ? CAPABILITIES : "");
	pkt_add_flush(body);
	for (size_t i = 0; i < have->count; i++)
		pkt_addf(body, "have %s\n", oid_text(&have->items[i], text));
	pkt_addf(body, "done\n");
}

static bool is_band(const char *line, size_t len)
{
	return len > 0 && line[0] >= 1 && line[0] <= SIDE_BANDS;
}

/* "NAK", or "ACK" and the first that both have. */
static bool is_acknowledgment(const char *line, size_t len)
{
	return (len >= 3 && memcmp(line, "NAK", 3) == 0) ||
	       (len >= 4 && memcmp(line, "ACK ", 4) == 0);
}

int fetch_small_read(const char *bytes, size_t len, struct str *pack, struct err *err)
{
	struct pkt_reader reader = { bytes, len }, before;
	const char *line;
	size_t line_len;

	do {
		before = reader;
		if (pkt_next(&reader, &line, &line_len) != PKT_LINE)
			return err_set(err, ERR_CORRUPT, "the answer has no pack");
		if (is_band(line, line_len))
			return side_band_join(&before, pack, err);
	} while (is_acknowledgment(line, line_len));
	return err_set(err, ERR_CORRUPT, "in place of a pack it answers %.*s",
		       (int)(line_len < 200 ? line_len : 200), line);
}
