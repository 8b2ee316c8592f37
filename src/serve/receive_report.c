/*
 * It is looked at packet by packet until the report begins. With side-band, which clients
 * may leave out, progress and what hooks say are packets of band 2; packets of band 1
 * without content keep the connection alive ("receive.keepAlive"). A report without
 * side-band begins with "unpack", which is no such packet. These pass; whatever else
 * comes is the report.
 */
#include "serve/receive_report.h"

enum {
	EARLY_MAX = 1 << 20,
	DIGITS = 4,
};

void receive_report_clear(struct receive_report *report)
{
	str_clear(&report->said);
	receive_outcome_clear(&report->reader);
}

/* The length of a packet that may pass before the report; 0: more bytes are needed, or
 * the report begins, which *is_report tells. */
static size_t progress_at(const char *at, size_t left, bool *is_report)
{
	char digits[DIGITS + 1] = "";
	unsigned char bytes[2];
	size_t len;

	*is_report = false;
	if (left < DIGITS + 1)
		return 0;
	memcpy(digits, at, DIGITS);
	*is_report = true;
	if (!text_from_hex(digits, bytes, sizeof(bytes)))
		return 0;
	len = (size_t)bytes[0] << 8 | bytes[1];
	if (len <= DIGITS || (at[DIGITS] != 2 && (at[DIGITS] != 1 || len > DIGITS + 1)))
		return 0;
	*is_report = false;
	return len <= left ? len : 0;
}

/* Finds its begin. */
static void receive_report_find_begin(struct receive_report *report)
{
	struct str *said = &report->said;
	size_t before = report->passable, len = 1;

	while (!report->has_begun && len > 0) {
		len = progress_at(said->data + report->passable,
				  said->len - report->passable, &report->has_begun);
		report->passable += len;
	}
	if (!report->has_begun && report->is_unread && before > EARLY_MAX) {
		str_cut(said, before, report->passable);
		report->passable = before;
	}
}

bool receive_report_add(struct receive_report *report, const char *data, size_t len)
{
	struct str *said = &report->said;
	size_t at = said->len;

	str_add_bytes(said, data, len);
	if (!report->has_begun) {
		receive_report_find_begin(report);
		at = report->passable;
	}
	if (report->has_begun)
		receive_outcome_read(&report->reader, said->data + at, said->len - at);
	return report->has_begun;
}

void receive_report_pass(struct receive_report *report)
{
	report->passable = report->said.len;
}

bool receive_report_has(const struct receive_report *report)
{
	return report->taken < report->passable;
}

size_t receive_report_take(struct receive_report *report, void *buffer, size_t size)
{
	size_t left = report->passable - report->taken;
	size_t len = left < size ? left : size;

	memcpy(buffer, report->said.data + report->taken, len);
	report->taken += len;
	return len;
}

void receive_report_drop_taken(struct receive_report *report)
{
	str_cut(&report->said, 0, report->taken);
	report->passable -= report->taken;
	report->taken = 0;
}

void receive_report_ignore(struct receive_report *report)
{
	report->taken = report->passable;
	receive_report_drop_taken(report);
}
