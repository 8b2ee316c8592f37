#include "git/side_band.h"

enum band { BAND_ANSWER = 1, BAND_PROGRESS = 2 };

int side_band_join(struct pkt_reader *reader, struct str *out, struct err *err)
{
	const char *line;
	size_t len;
	enum pkt pkt;

	while ((pkt = pkt_next(reader, &line, &len)) == PKT_LINE) {
		if (len > 0 && line[0] == BAND_ANSWER)
			str_add_bytes(out, line + 1, len - 1);
		else if (len == 0 || line[0] != BAND_PROGRESS)
			return err_set(err, ERR_CORRUPT,
				       "the answer in bands broke off with an error");
	}
	if (pkt != PKT_FLUSH || reader->left > 0)
		return err_set(err, ERR_CORRUPT,
			       "the answer in bands does not end as it should");
	return 0;
}
