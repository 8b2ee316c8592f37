/*
 * With side-band the report is a stream of pkt-lines in packets of band 1, which are cut
 * anywhere; without, its lines are the packets. A line never begins with the byte of a
 * band.
 */
#include "serve/receive_outcome.h"

#include "git/pkt_line.h"

enum { BAND_REPORT = 1, BAND_PROGRESS, BAND_ERROR };

void receive_outcome_clear(struct receive_outcome_reader *reader)
{
	str_clear(&reader->packets);
	str_clear(&reader->lines);
}

static bool receive_outcome_begins_with(const char *line, size_t len, const char *word)
{
	return len > strlen(word) && memcmp(line, word, strlen(word)) == 0;
}

/* Options of a ref follow its line. */
static void receive_outcome_take_line(struct receive_outcome_reader *reader,
				      const char *line, size_t len)
{
	reader->outcome.taken += receive_outcome_begins_with(line, len, "ok ");
	reader->outcome.refused += receive_outcome_begins_with(line, len, "ng ");
}

static void receive_outcome_end_reading(struct receive_outcome_reader *reader,
					bool is_known)
{
	reader->is_over = true;
	reader->outcome.is_known = is_known;
}

/* Whether more bytes can make a packet of these. */
static bool is_cut(enum pkt pkt, size_t left)
{
	return pkt == PKT_NO_MORE || (pkt == PKT_BROKEN && left < PKT_LINE_MAX);
}

static void read_lines(struct receive_outcome_reader *reader)
{
	struct str *lines = &reader->lines;
	struct pkt_reader at = { .at = lines->data, .left = lines->len };
	size_t left = at.left, len;
	const char *line;
	enum pkt pkt;

	while ((pkt = pkt_next(&at, &line, &len)) == PKT_LINE) {
		receive_outcome_take_line(reader, line, len);
		left = at.left;
	}
	if (!is_cut(pkt, left))
		receive_outcome_end_reading(reader, pkt == PKT_FLUSH);
	str_cut(lines, 0, lines->len - left);
}

static void take_packet(struct receive_outcome_reader *reader, const char *data,
			size_t len)
{
	if (len > 0 && *data == BAND_REPORT) {
		str_add_bytes(&reader->lines, data + 1, len - 1);
		read_lines(reader);
	} else if (len > 0 && *data != BAND_PROGRESS && *data != BAND_ERROR) {
		receive_outcome_take_line(reader, data, len);
	}
}

void receive_outcome_read(struct receive_outcome_reader *reader, const char *data,
			  size_t len)
{
	struct str *packets = &reader->packets;
	enum pkt pkt = PKT_LINE;
	const char *packet;
	size_t packet_len;

	if (reader->is_over)
		return;
	str_add_bytes(packets, data, len);
	struct pkt_reader at = { .at = packets->data, .left = packets->len };
	size_t left = at.left;
	while (!reader->is_over &&
	       (pkt = pkt_next(&at, &packet, &packet_len)) == PKT_LINE) {
		take_packet(reader, packet, packet_len);
		left = at.left;
	}
	if (!reader->is_over && !is_cut(pkt, left))
		receive_outcome_end_reading(reader, pkt == PKT_FLUSH);
	str_cut(packets, 0, packets->len - left);
}
